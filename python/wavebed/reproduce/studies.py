"""The studies that campaigns reproduce: data files of this package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence  # noqa: TC003 - msgspec reads the annotations
from functools import cache
from importlib import resources
from typing import Final, Literal

import msgspec

from wavebed.prepared import prepared

STUDIES: Final = ("cas-mmwave", "bbr-5g", "kau-e5g")
"""Their names."""

Expected = Literal["closer", "no change", "farther"]


class OverTime(msgspec.Struct, frozen=True, rename="kebab", forbid_unknown_fields=True):
    """A series of some cells that is drawn over the time of the trials.

    Parameters
    ----------
    series : str
        Its title, such as ``bulk: goodput``.
    cells : mapping
        Levels of the cells, by factor; factors that it does not name: all.
    """

    series: str
    cells: Mapping[str, Sequence[str]] = {}


class StudyPart(msgspec.Struct, frozen=True, rename="kebab", forbid_unknown_fields=True):
    """A part of a study: a campaign, and the published figures that it repeats.

    Parameters
    ----------
    name : str
        Of its folder.
    campaign : str
        Name of the shipped campaign.
    title : str
        What was measured.
    group : str
        Factor whose levels have a figure each; the labels of a figure are the levels of the others.
    figures : str
        Name of the file of published figures; empty: the campaign's name; ``none``: nothing was published.
    metrics : sequence of str
        The metrics that are compared; empty: all of the file. Without a file, the metrics whose results are shown.
    only : mapping
        Levels, by factor, of the figures that are compared; factors that it does not name: all.
    quick_blocks : int
        Blocks of a quick run; 0: a quick run leaves this part out.
    usual_blocks : int or None
        Blocks of a run that names no parts; 0: such a run leaves this part out; ``None``: the campaign's blocks.
    hypotheses : str
        Factor whose levels are changes that may explain a difference; empty if there is none. Figures have no such
        factor.
    fitted : mapping
        Levels, by factor or ``metric``, of the figures to which a change was fitted; all others are held out.
    models : bool
        Whether models of TCP's steady throughput are set beside ours.
    over_time : sequence of OverTime
        Series that are drawn.
    processor : {"exact", "host"}
        Model of the processor in virtual time.
    slower : float
        How many times slower than this machine's the processor ``host`` is.
    """

    name: str
    campaign: str
    title: str
    group: str
    figures: str = ""
    metrics: Sequence[str] = ()
    only: Mapping[str, Sequence[str]] = {}
    quick_blocks: int = 1
    usual_blocks: int | None = None
    hypotheses: str = ""
    fitted: Mapping[str, Sequence[str]] = {}
    models: bool = False
    over_time: Sequence[OverTime] = ()
    processor: Literal["exact", "host"] = "exact"
    slower: float = 1.0


class Hypothesis(msgspec.Struct, frozen=True, rename="kebab", forbid_unknown_fields=True):
    """A change that may explain the difference between a study and its repetition.

    Parameters
    ----------
    part : str
        Name of the part that tries it.
    level : str
        Level of the part's factor of hypotheses.
    claim : str
        What would be so.
    prediction : str
        What the change does to the figures, as written down before it was run.
    expected : str
        The same for the mean distance of the figures that were held out.
    commit : str
        The commit that has the prediction and no result; empty: not predicted.
    name : str
        Its name; empty: the level's name.
    read : mapping
        By factor: the level of ours that stands for a published level, where it is another one.
    """

    part: str
    level: str
    claim: str
    prediction: str = ""
    expected: Expected | None = None
    commit: str = ""
    name: str = ""
    read: Mapping[str, Mapping[str, str]] = {}

    @property
    def label(self) -> str:
        """What tables and texts call it."""
        return self.name or self.level


class Study(msgspec.Struct, frozen=True, rename="kebab", forbid_unknown_fields=True):
    """A published study.

    Parameters
    ----------
    title : str
        Its title and authors.
    notes : sequence of str
        What a reader must know about the comparison.
    part : sequence of StudyPart
        In the order in which they run.
    conclusions : sequence of str
        What the recorded run says; ``docs/validation`` sums it up.
    hypothesis : sequence of Hypothesis
        In the order in which they are shown; the first of a part changes nothing.
    """

    title: str
    notes: Sequence[str]
    part: Sequence[StudyPart]
    conclusions: Sequence[str] = ()
    hypothesis: Sequence[Hypothesis] = ()

    def hypotheses_of(self, part: StudyPart) -> list[Hypothesis]:
        """Return those that a part tries."""
        return [each for each in self.hypothesis if each.part == part.name]


@cache
def read_study(name: str) -> Study:
    """Return the study of this name."""
    data = resources.files("wavebed.reproduce").joinpath("studied", f"{name}.toml").read_bytes()
    return msgspec.toml.decode(data, type=prepared(Study))
