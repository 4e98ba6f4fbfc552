"""Run the campaigns of a study, and set their results beside the published figures."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import msgspec

from wavebed.beneath import guard
from wavebed.campaign.read import campaign_file, read_campaign
from wavebed.campaign.report import write_campaign_report
from wavebed.campaign.results import read_campaign_results
from wavebed.campaign.run import resume_campaign, run_campaign
from wavebed.errors import UserError
from wavebed.foreign import read_bytes
from wavebed.output import write_output
from wavebed.prepared import prepared
from wavebed.reproduce.hypotheses import Tried, tried
from wavebed.reproduce.published import published_of
from wavebed.reproduce.studies import read_study
from wavebed.reproduce.values import beside_published
from wavebed.result.names import RUN_FILE
from wavebed.run.executor.guests import Guests
from wavebed.run.folder import in_virtual_time
from wavebed.run.times import guest_bytes_of, with_time
from wavebed.store.disk import make_new

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from wavebed.campaign.read import Campaign
    from wavebed.campaign.results import CampaignResults
    from wavebed.reproduce.judge import Beside
    from wavebed.reproduce.studies import Part, Study
    from wavebed.run.progress import Live

__all__ = ["Begun", "PartResults", "begin", "begun_in", "campaigns_of", "results_of", "run_study"]

STUDY_FILE = "study.json"


class Begun(msgspec.Struct, frozen=True):
    """What a folder was begun with.

    Parameters
    ----------
    study : str
        Name of the study.
    quick : bool
        Whether each campaign has the blocks of a quick run only.
    parts : tuple of str
        Names of the parts that run; empty: those of a quick or of a usual run.
    blocks : int, optional
        Blocks of each campaign, in place of those in its file.
    every_part : bool
        Whether all parts run, with the blocks of their campaigns.
    time : str
        Of all trials.
    """

    study: str
    quick: bool
    parts: tuple[str, ...] = ()
    blocks: int | None = None
    every_part: bool = False
    time: Literal["real", "virtual"] = "real"


@dataclass(frozen=True)
class PartResults:
    """The results of a part of a study.

    Parameters
    ----------
    part : Part
        Which.
    source : str
        Of the published figures.
    results : CampaignResults
        Of its campaign.
    beside : sequence of Beside
        Each published figure and ours; with hypotheses, ours without any change.
    tried : sequence of Tried
        The hypotheses of this part.
    """

    part: Part
    source: str
    results: CampaignResults
    beside: Sequence[Beside]
    tried: Sequence[Tried]


def begin(folder: Path, begun: Begun) -> None:
    """Make the folder of a study.

    Raises
    ------
    UserError
        If it is not empty, or cannot be made.
    """
    make_new(folder)
    write_output(folder / STUDY_FILE, msgspec.json.encode(begun) + b"\n")


def begun_in(folder: Path, study: str) -> Begun:
    """Return what a folder was begun with.

    Raises
    ------
    UserError
        If it is not the folder of this study.
    """
    guard(folder)
    file = folder / STUDY_FILE
    if not file.is_file():
        raise UserError(f"{folder}: has no {STUDY_FILE}: name a folder that wavebed reproduce {study} began")
    try:
        begun = msgspec.json.decode(read_bytes(file, "name another folder"), type=prepared(Begun))
    except msgspec.DecodeError as error:
        raise UserError(f"{file}: {error}: name another folder") from None
    if begun.study != study:
        raise UserError(f"{folder}: is of {begun.study}: write that, or name another folder")
    return begun


def campaigns_of(begun: Begun) -> list[tuple[Part, Campaign]]:
    """Return the parts that run, each with its campaign.

    Raises
    ------
    UserError
        If the study has no part of a name.
    """
    parts = {part.name: part for part in read_study(begun.study).part}
    for name in begun.parts:
        if name not in parts:
            raise UserError(f"--part: {name!r} is no part of {begun.study}: write one of {', '.join(parts)}")
    named = [part for part in parts.values() if not begun.parts or part.name in begun.parts]
    if not begun.parts:
        named = [part for part in named if _blocks(begun, part) != 0]
    read = [(part, read_campaign(campaign_file(part.campaign), blocks=_blocks(begun, part))) for part in named]
    return [(part, replace(campaign, plan=with_time(campaign.plan, begun.time))) for part, campaign in read]


def _blocks(begun: Begun, part: Part) -> int | None:
    """Return the number of blocks; 0: the part does not run; ``None``: that of its campaign's file."""
    if begun.quick:
        usual: int | None = part.quick_blocks
    else:
        usual = None if begun.parts or begun.every_part else part.usual_blocks
    if begun.parts:
        usual = usual or None
    return usual if usual == 0 or begun.blocks is None else begun.blocks


def run_study(
    campaigns: Sequence[tuple[Part, Campaign]], folder: Path, command_line: Sequence[str], live: Live, *, accept: bool
) -> None:
    """Run the campaigns, or the rest of them, each into a folder of its own with its report.

    Parameters
    ----------
    accept : bool
        Whether changed inputs are accepted, as by `wavebed.campaign.run.resume_campaign`.

    Raises
    ------
    UserError, MachineError, WavebedError
        As `wavebed.campaign.run.run_campaign` and `resume_campaign`.
    """
    for part, campaign in campaigns:
        inside = folder / part.name
        with (
            Guests(live, None, guest_bytes_of(campaign.plan))
            if in_virtual_time(campaign.plan)
            else nullcontext() as guests
        ):
            if (inside / RUN_FILE).exists():
                resume_campaign(campaign, inside, command_line, live, guests, accept=accept)
            else:
                run_campaign(campaign, inside, command_line, live, guests)
        live.say(f"writing the report of {part.name}")
        write_campaign_report(inside)


def results_of(study: Study, folder: Path) -> list[PartResults]:
    """Return the results of all parts that ran."""
    return [_results_of(study, part, folder) for part in study.part if (folder / part.name / RUN_FILE).exists()]


def _results_of(study: Study, part: Part, folder: Path) -> PartResults:
    results = read_campaign_results(folder / part.name)
    source, rows = published_of(part)
    runs = [
        (hypothesis, beside_published(results, rows, part.hypotheses, hypothesis))
        for hypothesis in study.hypotheses_of(part)
    ]
    beside = runs[0][1] if runs else beside_published(results, rows)
    return PartResults(part, source, results, beside, tried(part, runs))
