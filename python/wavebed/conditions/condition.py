"""Conditions that are shipped: read their files, and make the radio scene of each variant."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, cast

from msgspec import Struct

from wavebed.conditions.tables import TECHNOLOGIES, read_condition, read_published
from wavebed.config.problems import Problem
from wavebed.errors import UserError
from wavebed.foreign import read_toml
from wavebed.shipped import find, names

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from wavebed.conditions.tables import PublishedTable
    from wavebed.scene.model import Scene

__all__ = ["Condition", "Variant", "condition", "condition_names", "radio_scene", "variant_names"]

FOLDER = "conditions"
_TECHNOLOGY_FOLDER = "technologies"


class Variant(Struct, frozen=True):
    """A condition on one technology.

    Parameters
    ----------
    name : str
        ``CONDITION/TECHNOLOGY``.
    technology : str
        One of `wavebed.conditions.tables.TECHNOLOGIES`.
    path : mapping
        Keys of a hop beside ``scene``, as in a scenario.
    scene : mapping
        Its scene as a scene file has it.
    published : tuple of PublishedTable
        Published or measured figures; empty: it is illustrative.
    note : str
        What is assumed.
    """

    name: str
    technology: str
    path: Mapping[str, object]
    scene: Mapping[str, object]
    published: tuple[PublishedTable, ...]
    note: str


class Condition(Struct, frozen=True):
    """A condition as its file describes it; the first variant stands for the name alone."""

    name: str
    title: str
    line: str
    happens: str
    shows: str
    variants: tuple[Variant, ...]
    file: Path


def condition_names() -> tuple[str, ...]:
    """Return the names of the conditions."""
    return names(FOLDER)


def variant_names() -> tuple[str, ...]:
    """Return the names of all variants of all conditions."""
    return tuple(variant.name for name in condition_names() for variant in condition(name).variants)


@cache
def condition(name: str) -> Condition:
    """Return the condition of this name.

    Raises
    ------
    UserError
        If there is none, or its file is wrong.
    """
    file = find(name, "condition", FOLDER)
    document = read_toml(file, "name a condition")
    try:
        table, variants = read_condition(document)
        everywhere = read_published(table.published)
        return Condition(
            name=name,
            title=table.title,
            line=table.line,
            happens=table.happens,
            shows=table.shows,
            variants=tuple(_variant(name, technology, document, everywhere) for technology in variants),
            file=file,
        )
    except Problem as problem:
        raise UserError(f"{file}: {problem}") from None


def _variant(
    name: str, technology: str, document: Mapping[str, object], everywhere: tuple[PublishedTable, ...]
) -> Variant:
    given = cast("dict[str, object]", document[technology])
    own = cast("dict[str, object]", given.get("scene", {}))
    place = cast("dict[str, object]", document.get("place", {}))
    scene = _merged(_merged(_technology(technology), place), own)
    shared = cast("dict[str, object]", document.get("path", {}))
    return Variant(
        name=f"{name}/{technology}",
        technology=technology,
        path=shared | cast("dict[str, object]", given.get("path", {})),
        scene=_with_stations(scene, str(document["title"]), technology),
        published=(*read_published(given.get("published", ())), *everywhere),
        note=" ".join(str(given.get("note", "")).split()),
    )


@cache
def _technology(name: str) -> dict[str, object]:
    return read_toml(find(name, "technology", _TECHNOLOGY_FOLDER), "name a technology")


def _merged(lower: Mapping[str, object], upper: Mapping[str, object]) -> dict[str, object]:
    """Return tables with the keys of `upper` above those of `lower`; an array replaces an array."""
    found = dict(lower)
    for key, value in upper.items():
        below = found.get(key)
        merges = isinstance(value, dict) and isinstance(below, dict) and key not in _WHOLE
        found[key] = _merged(below, value) if merges else value  # type: ignore[arg-type]
    return found


_WHOLE = ("cell-load", "indoor", "in-car")
"""Tables that stand together, and are replaced as a whole."""


def _with_stations(scene: dict[str, object], title: str, technology: str) -> dict[str, object]:
    """Return a scene whose base stations have what the technology gives all of them, with a title and an anchor."""
    usual = cast("dict[str, object]", scene.pop("usual-base-station", {}))
    stations = cast("list[dict[str, object]]", scene.get("base-station", []))
    return {
        "title": f"{title}, {TECHNOLOGIES[technology]}",
        "anchor": "illustrative",
        **scene,
        "base-station": [_merged(usual, station) for station in stations],
    }


@cache
def radio_scene(name: str) -> Scene:
    """Return the radio scene of a variant, whose name is that of the variant with ``-`` for ``/``.

    Raises
    ------
    UserError
        If the scene is wrong.
    """
    from dataclasses import replace

    from wavebed.scene.read import scene_of

    found = condition(name.partition("/")[0])
    variant = next(each for each in found.variants if each.name == name)
    scene = scene_of(dict(variant.scene), found.file)
    return replace(scene, name=name.replace("/", "-"))
