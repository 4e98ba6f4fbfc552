"""Live and replayed trials beside each other: whether a replay is equivalent within a margin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wavebed.compare.samples import EMPTY, read_samples
from wavebed.errors import WavebedError
from wavebed.record.plan import LIVE
from wavebed.stats.independent import independent_finding
from wavebed.terminal import table_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from wavebed.compare.samples import Key, Sample
    from wavebed.config.data import Json
    from wavebed.stats.verdict import Finding, Margin

_JUDGED = (
    ("speed index", "on load"),
    ("bitrate down", "bitrate up"),
    ("one-way delay down idle p50", "one-way delay up idle p50", "one-way delay down idle p95"),
    ("rtt idle p50", "rtt idle p95", "udp rtt idle p50"),
    ("download time",),
    ("goodput",),
)
"""The metrics that users of an application notice."""
_HEAD = ("metric", "over", "live", "replayed", "ratio", "95 % interval", "verdict")
_NAMES = {"replay": "replay", "saturating": "rate alone"}


@dataclass(frozen=True, slots=True)
class Judged:
    """A metric of live trials beside the same metric of trials over a recording.

    Parameters
    ----------
    live, replayed : float or None
        Medians.
    """

    workload: str
    metric: str
    unit: str
    treatment: str
    live: float | None
    replayed: float | None
    trials: tuple[int, int]
    finding: Finding

    def as_json(self) -> dict[str, Json]:
        """Return what the file of the judgement has."""
        return {
            "workload": self.workload,
            "metric": self.metric,
            "unit": self.unit,
            "over": self.treatment,
            "live_median": self.live,
            "replayed_median": self.replayed,
            "trials": list(self.trials),
            "scale": self.finding.scale,
            "estimate": self.finding.estimate,
            "low": self.finding.low,
            "high": self.finding.high,
            "level": self.finding.level,
            "margin": self.finding.margin,
            "verdict": self.finding.verdict,
        }


@dataclass(frozen=True, slots=True)
class Judgement:
    """All metrics, and the margin that was declared before the trials."""

    margin: Margin
    rows: Sequence[Judged]

    def as_json(self) -> dict[str, Json]:
        """Return the content of ``judgement.json``, which ``--json`` prints."""
        return {"margin": self.margin.value, "metrics": [row.as_json() for row in self.rows]}

    def as_text(self) -> str:
        """Return the table for a terminal."""
        return f"{table_text([_HEAD, *(_cells(row) for row in self.rows)])}\n\n{self._told()}"

    def as_markdown(self) -> str:
        """Return the file ``judgement.md``."""
        lines = [_HEAD, tuple("---" for _ in _HEAD), *(_cells(row) for row in self.rows)]
        table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
        return f"# Live and replayed trials\n\n{table}\n\n{self._told()}\n"

    def _told(self) -> str:
        share = 100 * self.margin.value
        return (
            "The ratio is that of the medians, replayed to live, with its bootstrap interval. A replay is equivalent if"
            f" the whole interval is between 1/{1 + self.margin.value:g} and {1 + self.margin.value:g} (a margin of"
            f" {share:g} %, declared before the trials). Live trials ran in minutes that were not recorded."
        )


def _cells(row: Judged) -> tuple[str, ...]:
    finding = row.finding
    unit = f", {row.unit}" if row.unit else ""
    interval = "–" if finding.low is None or finding.high is None else f"{finding.low:.3f} to {finding.high:.3f}"
    verdict = finding.verdict
    if finding.verdict in ("better", "worse", "different"):
        verdict = "different"  # a replay that is too good is as wrong as one that is too bad
    return (
        f"{row.workload} {row.metric}{unit}",
        _NAMES.get(row.treatment, row.treatment),
        "–" if row.live is None else f"{row.live:.4g}",
        "–" if row.replayed is None else f"{row.replayed:.4g}",
        "–" if finding.estimate is None else f"{finding.estimate:.3f}",
        interval,
        f"{verdict} ({row.trials[0]} and {row.trials[1]} trials)",
    )


def judge(live: Path, replayed: Path, margin: Margin, chosen: Sequence[Key] = ()) -> Judgement:
    """Compare the treatments of two folders of results.

    Parameters
    ----------
    live, replayed : pathlib.Path
        Folders of results, as `wavebed.record.plan` has planned them.
    margin : Margin
        The greatest difference that does not matter.
    chosen : sequence of (str, str)
        Workloads and metrics; by default what users of an application notice.

    Raises
    ------
    WavebedError
        If live trials have none of these metrics.
    """
    first, second = read_samples(live, "live"), read_samples(replayed, "replay")
    rows: list[Judged] = []
    for key, series in first.series.items():
        sample = series.samples.get(LIVE, EMPTY)
        wanted = key in chosen if chosen else any(key[1] in group for group in _JUDGED)
        if not wanted or not len(sample):
            continue
        for treatment in second.treatments:
            other = second.series[key].samples.get(treatment, EMPTY) if key in second.series else EMPTY
            rows.append(_judged(key, series.metric.unit, treatment, sample, other, margin))
    if not rows:
        raise WavebedError(f"{live}: no live trial counts, or they have none of the judged metrics")
    return Judgement(margin, rows)


def _judged(key: Key, unit: str, treatment: str, live: Sample, other: Sample, margin: Margin) -> Judged:
    found = independent_finding(live.values.tolist(), other.values.tolist(), margin)
    return Judged(
        *(*key, unit, treatment),
        live=live.median.estimate,
        replayed=other.median.estimate,
        trials=(len(live), len(other)),
        finding=found.finding,
    )
