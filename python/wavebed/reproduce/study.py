"""Run a study again: its campaigns, its tables, its hypotheses and its models."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
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
from wavebed.page.tables import Table
from wavebed.page.text import MISSING, figure
from wavebed.prepared import prepared
from wavebed.reproduce.judge import (
    Tried,
    beside_published,
    median_of,
    published_of,
    read_published,
    steady_of,
    tried,
    without_published,
)
from wavebed.reproduce.studies import read_study
from wavebed.reproduce.study_words import (
    again_text,
    counts_text,
    distance_text,
    explains_text,
    moved_text,
    ours_text,
    published_text,
    verdict_text,
    within_text,
)
from wavebed.reproduce.tcp_models import bbr_mbps, cubic_mbps, mathis_mbps, pftk_mbps
from wavebed.result.names import RUN_FILE, SPEC_FILE, TRIALS_FOLDER
from wavebed.run.executor.guests import Guests
from wavebed.run.folder import in_virtual_time
from wavebed.run.times import guest_bytes_of, with_time
from wavebed.spec.trial import NamespacesLab, load_spec
from wavebed.store.disk import make_new

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.campaign.read import Campaign
    from wavebed.campaign.results import CampaignResults
    from wavebed.page.tables import TableCell
    from wavebed.reproduce.judge import Beside, Steady
    from wavebed.reproduce.studies import Study, StudyPart
    from wavebed.run.progress import Live
    from wavebed.run.scenario import Plan

_GOODPUT = "goodput"
_HEAD = ("loss, %", "round trip, ms", "flows", "Mathis", "CUBIC", "PFTK", "BBR")
_CAPTION = (
    "Mbit/s. Models of steady flows with independent losses, without slow start, buffers and queues: Mathis and others"
    " (1997), CUBIC (RFC 9438, section 5.1), PFTK (1998) with timeouts of Linux, and BBR, which fills the link whatever"
    " is lost. Ours are sent with CUBIC where the table names no algorithm."
)


def models_table(part: PartResults) -> Table:
    """Return the models beside our median goodput: a row for each cell; none if the part asks for no models."""
    name = f"{part.part.name}-models"
    results = part.results
    folders = {line.treatment: line.folder for line in reversed(results.run.trials)} if part.part.models else {}
    steady: dict[str, Steady] = {}
    for cell, folder in folders.items():
        file = results.folder / TRIALS_FOLDER / folder / SPEC_FILE
        found = steady_of(load_spec(file, "run the study again")) if file.exists() else None
        if found is not None and found.loss > 0:
            steady[cell] = found
    if not steady:
        return Table(name, "", (), ())
    medians = {
        metric: dict(zip(results.cells, matrix.medians().estimate.tolist(), strict=True))
        for (_, metric), matrix in results.matrices.items()
        if metric.startswith(_GOODPUT)
    }
    rows: list[list[TableCell]] = [
        [
            *results.levels[cell].values(),
            *_modelled(steady[cell]),
            *(figure(values[cell]) for values in medians.values()),
        ]
        for cell in results.cells
        if cell in steady
    ]
    head = [*next(iter(results.levels.values())), *_HEAD, *(f"our {metric}" for metric in medians)]
    return Table(name, _CAPTION, head, rows)


def _modelled(path: Steady) -> list[TableCell]:
    each = [model(path.loss, path.rtt, path.mss) * path.flows for model in (mathis_mbps, cubic_mbps, pftk_mbps)]
    filled = MISSING if path.link_mbps is None else figure(bbr_mbps(path.loss, path.link_mbps, path.mss))
    return [f"{100 * path.loss:.3g}", f"{1000 * path.rtt:.3g}", path.flows, *map(figure, each), filled]


def figures_table(part: PartResults) -> Table:
    """Return each published figure and ours; ours alone if nothing was published."""
    if not part.beside:
        return _own_table(part)
    factors = list(part.beside[0].published.levels)
    rows: list[list[TableCell]] = [
        [
            *(each.published.levels[name] for name in factors),
            f"{each.published.metric}, {each.published.unit}".removesuffix(", "),
            published_text(each.published),
            ours_text(each.ours),
            MISSING if each.ratio is None else f"{each.ratio:.2f}",
            each.ours.count,
            verdict_text(each),
        ]
        for each in part.beside
    ]
    head = [*factors, "metric", "published", "ours", "ratio", "n", "verdict"]
    return Table(f"{part.part.name}-figures", f"{counts_text(part.beside)}.", head, rows)


def _own_table(part: PartResults) -> Table:
    """Return our medians and their intervals: a row for each cell, a column for each metric of the part."""
    results = part.results
    measured = [
        matrix for name in part.part.metrics for (_, metric), matrix in results.matrices.items() if metric == name
    ]
    rows: list[list[TableCell]] = []
    for place, cell in enumerate(results.cells):
        ours = [median_of(matrix.values[place]) for matrix in measured]
        trials = max((each.count for each in ours), default=0)
        rows.append([*results.levels[cell].values(), *map(ours_text, ours), trials])
    head = [*next(iter(results.levels.values())), *(matrix.title_with_unit for matrix in measured), "n"]
    return Table(f"{part.part.name}-figures", "Nothing was published. These are our medians.", head, rows)


def further_table(part: PartResults) -> Table:
    """Return our figures of cells without a published number; a part with hypotheses has none."""
    if not part.beside or part.tried:
        return Table(f"{part.part.name}-further", "", (), ())
    factors = list(part.beside[0].published.levels)
    _, published = read_published(part.part.figures or part.part.campaign)
    rows: list[list[TableCell]] = [
        [
            *(levels[name] for name in factors),
            matrix.workload,
            f"{matrix.metric}, {matrix.unit}",
            ours_text(ours),
            ours.count,
        ]
        for levels, matrix, ours in without_published(part.results, [each.published for each in part.beside], published)
    ]
    return Table(f"{part.part.name}-further", "", [*factors, "workload", "metric", "ours", "n"], rows)


def hypotheses_table(part: PartResults) -> Table:
    """Return the hypotheses of a part and what their runs gave."""
    head = ("hypothesis", "fitted", "held out", "within", "moved", "expected", "found", "explains")
    rows = [
        [
            each.hypothesis.label,
            distance_text(each.fitted),
            distance_text(each.held_out),
            within_text(each),
            moved_text(each),
            each.hypothesis.expected or MISSING,
            each.found or MISSING,
            explains_text(each),
        ]
        for each in part.tried
    ]
    return Table(f"{part.part.name}-hypotheses", "", head, rows)


def predictions_table(part: PartResults) -> Table:
    """Return what each hypothesis says, and what was predicted in which commit."""
    rows = [
        [
            each.hypothesis.label,
            each.hypothesis.claim,
            each.hypothesis.prediction or MISSING,
            each.hypothesis.commit or MISSING,
            f"`{again_text(part.part, each.hypothesis)}`",
        ]
        for each in part.tried
    ]
    return Table(f"{part.part.name}-predictions", "", ("hypothesis", "claim", "prediction", "commit", "again"), rows)


def changes_table(part: PartResults) -> Table:
    """Return each published figure, and ours with each change; an asterisk: within the tolerance."""
    factors = list(part.beside[0].published.levels)
    head = [*factors, "metric", "published", *(each.hypothesis.label for each in part.tried)]
    rows: list[list[TableCell]] = [
        [
            *(each.published.levels[name] for name in factors),
            each.published.metric,
            published_text(each.published),
            *(_marked(tried.beside[place]) for tried in part.tried),
        ]
        for place, each in enumerate(part.beside)
    ]
    caption = "Median with each change; an asterisk: within the tolerance of the published figure."
    return Table(f"{part.part.name}-changes", caption, head, rows)


def _marked(beside: Beside) -> str:
    return f"{figure(beside.ours.estimate)}{'*' if beside.within else ''}"


STUDY_FILE = "study.json"


class BegunStudy(msgspec.Struct, frozen=True):
    """What a folder was begun with.

    Parameters
    ----------
    study : str
        Name of the study.
    quick : bool
        Whether each campaign has the blocks of a quick run only.
    parts : tuple of str
        Names of the parts that run; empty: the parts of a quick or of a usual run.
    blocks : int, optional
        Blocks of each campaign, in place of those in its file.
    every_part : bool
        Whether all parts run, with the blocks of their campaigns.
    time : str
        Of all trials.
    sites : str
        Folder of structures of pages, in place of the shipped sites of the same names; empty: none.
    """

    study: str
    quick: bool
    parts: tuple[str, ...] = ()
    blocks: int | None = None
    every_part: bool = False
    time: Literal["real", "virtual"] = "real"
    sites: str = ""


@dataclass(frozen=True)
class PartResults:
    """The results of a part of a study.

    Parameters
    ----------
    part : StudyPart
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

    part: StudyPart
    source: str
    results: CampaignResults
    beside: Sequence[Beside]
    tried: Sequence[Tried]


def begin(folder: Path, begun: BegunStudy) -> None:
    """Make the folder of a study.

    Raises
    ------
    UserError
        If it is not empty, or cannot be made.
    """
    make_new(folder)
    write_output(folder / STUDY_FILE, msgspec.json.encode(begun) + b"\n")


def begun_in(folder: Path, study: str) -> BegunStudy:
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
        begun = msgspec.json.decode(read_bytes(file, "name another folder"), type=prepared(BegunStudy))
    except msgspec.DecodeError as error:
        raise UserError(f"{file}: {error}: name another folder") from None
    if begun.study != study:
        raise UserError(f"{folder}: is of {begun.study}: write that, or name another folder")
    return begun


def campaigns_of(begun: BegunStudy) -> list[tuple[StudyPart, Campaign]]:
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
    sites = Path(begun.sites) if begun.sites else None
    read = [
        (part, read_campaign(campaign_file(part.campaign), blocks=_blocks(begun, part), sites=sites)) for part in named
    ]
    return [(part, replace(campaign, plan=_timed(campaign.plan, begun.time, part))) for part, campaign in read]


def _timed(plan: Plan, time: Literal["real", "virtual"], part: StudyPart) -> Plan:
    """Return a plan with its time; in virtual time, with the part's model of the processor."""
    if time == "real" or part.processor == "exact":
        return with_time(plan, time)
    plan = with_time(plan, time, processor=part.processor)
    treatments = [
        replace(each, lab=msgspec.structs.replace(each.lab, slower=part.slower))
        if isinstance(each.lab, NamespacesLab)
        else each
        for each in plan.treatments
    ]
    return replace(plan, treatments=tuple(treatments), overrides={**plan.overrides, "lab.slower": part.slower})


def _blocks(begun: BegunStudy, part: StudyPart) -> int | None:
    """Return the number of blocks; 0: the part does not run; ``None``: the number in its campaign's file."""
    if begun.quick:
        usual: int | None = part.quick_blocks
    else:
        usual = None if begun.parts or begun.every_part else part.usual_blocks
    if begun.parts:
        usual = usual or None
    return usual if usual == 0 or begun.blocks is None else begun.blocks


def run_study(
    campaigns: Sequence[tuple[StudyPart, Campaign]],
    folder: Path,
    command_line: Sequence[str],
    live: Live,
    *,
    accept: bool,
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


def _results_of(study: Study, part: StudyPart, folder: Path) -> PartResults:
    results = read_campaign_results(folder / part.name)
    source, rows = published_of(part)
    runs = [
        (hypothesis, beside_published(results, rows, part.hypotheses, hypothesis))
        for hypothesis in study.hypotheses_of(part)
    ]
    beside = runs[0][1] if runs else beside_published(results, rows)
    return PartResults(part, source, results, beside, tried(part, runs))
