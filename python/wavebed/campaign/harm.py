"""Who pays: the harm of each comparison of a campaign to the devices of a cell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.campaign.results import values_of
from wavebed.page.text import MISSING
from wavebed.report.source import headline
from wavebed.stats.harm import Harm, harm_of_pairs, worst_first
from wavebed.terminal import table_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wavebed.campaign.results import CampaignResults
    from wavebed.config.data import Json

MOST_ROWS = 20
TITLE = "who pays (harm: the part of its result that a device loses; Ware, Mukerjee, Seshan, Sherry 2019):"


def kinds_of_devices(workloads: Sequence[Mapping[str, Json]]) -> dict[str, str]:
    """Return the kind of each workload that a device of a cell runs, by name, from the record of a run."""
    return {str(each["name"]): str(each["kind"]) for each in workloads if "device" in each}


def harms(results: CampaignResults) -> list[Harm]:
    """Return the harm to the main metric of each device's workload in each comparison; none without a cell."""
    kinds = kinds_of_devices(results.run.workloads)
    if not kinds:
        return []
    names: dict[str, list[str]] = {}
    for workload, metric in results.matrices:
        names.setdefault(workload, []).append(metric)
    wanted = [(each, name) for each, kind in kinds.items() if (name := headline(kind, names.get(each, []))) is not None]
    blocks = set(results.ended)
    found = []
    for values in values_of(results.metrics, wanted):
        if values.direction is None:
            continue
        for pair in results.comparisons:
            alone, together = (
                {block: value for block, value in values.by_cell.get(cell, {}).items() if block in blocks}
                for cell in (pair.baseline, pair.cell)
            )
            interval = harm_of_pairs(alone, together, values.direction)
            found.append(Harm(values.workload, values.metric, pair.baseline, pair.cell, interval))
    return worst_first(found)


def harm_text(found: Sequence[Harm]) -> list[str]:
    """Return a title and a table for people; nothing without any."""
    if not found:
        return []
    rows = [[*HEAD], *([*map(str, row)] for row in harm_rows(found[:MOST_ROWS]))]
    more = [f"and {len(found) - MOST_ROWS} more: --json has all"] if len(found) > MOST_ROWS else []
    return ["", TITLE, table_text(rows, left=True), *more]


HEAD = ("metric", "with", "against", "harm", "pairs")


def harm_rows(found: Sequence[Harm]) -> list[tuple[str, str, str, str, int]]:
    """Return the rows below `HEAD`."""
    return [
        (f"{each.workload} {each.metric}", each.cell, each.baseline, _percent(each), each.interval.count)
        for each in found
    ]


def _percent(each: Harm) -> str:
    found = each.interval
    if found.estimate is None:
        return MISSING
    if found.high is None:
        return f"{100 * found.estimate:.3g} %"
    low = "" if found.low is None else f"{100 * found.low:.3g} "  # a benefit without bound has no low one
    return f"{100 * found.estimate:.3g} % ({low}to {100 * found.high:.3g})"


def harm_json(found: Sequence[Harm]) -> list[Json]:
    """Return the harms for programs: parts of the result, 1 is all."""
    return [
        {
            "workload": each.workload,
            "metric": each.metric,
            "baseline": each.baseline,
            "cell": each.cell,
            "harm": each.interval.estimate,
            "low": each.interval.low,
            "high": each.interval.high,
            "pairs": each.interval.count,
        }
        for each in found
    ]
