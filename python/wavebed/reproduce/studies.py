"""The studies that campaigns reproduce."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

__all__ = ["STUDIES", "Part", "Study"]


class Part(Struct, frozen=True):
    """A part of a study: a campaign, and the published figures of the same name.

    Parameters
    ----------
    name : str
        Of its folder.
    campaign : str
        Name of the shipped campaign, and of the file of published figures.
    title : str
        What was measured.
    group : str
        Factor whose levels have a figure each; the labels of a figure are the levels of the others.
    """

    name: str
    campaign: str
    title: str
    group: str


class Study(Struct, frozen=True):
    """A published study.

    Parameters
    ----------
    title : str
        Its title and authors.
    parts : tuple of Part
        In the order in which they run.
    notes : tuple of str
        What a reader must know about the comparison.
    """

    title: str
    parts: tuple[Part, ...]
    notes: tuple[str, ...]


STUDIES: Final = {
    "kau-e5g": Study(
        title="Application performance using 5G mmWave (P. Hurtig, Karlstad University)",
        parts=(
            Part("downloads", "kau-e5g-downloads", "Downloads by curl over HTTP, figure 6", "scene"),
            Part("web", "kau-e5g-web", "Speed Index of five sites, figure 8", "scene"),
        ),
        notes=(
            "The radio is the study's: average rates between changes of state, without delay, loss or HARQ.",
            "Each block draws these rates anew from the scene; the study repeated one drawing of each scene.",
            "Starts are those of the report. Its script starts the second and third download at 2 s and 4 s.",
            "Goodput of 2, 20 and 200 MB is that of the first bytes of one download of 2 GB or 40 s.",
            "The five sites have the published numbers of objects and bytes; their contents are made up.",
        ),
    )
}
