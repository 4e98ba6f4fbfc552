"""Delays under parts of the rate that was found (RFC 8219: typical is the median, worst the 99.9th percentile)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.forward.findings import LatencyFinding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.forward.arithmetic import Rates
    from wavebed.forward.findings import SizeFinding
    from wavebed.forward.model import Trial
    from wavebed.forward.trials import TrialLog

__all__ = ["FEWEST_FRAMES", "base_rate", "measure_latency"]

FEWEST_FRAMES = 500
"""RFC 8219, section 7.2: so many frames are needed."""
_DELAYS = ("min_s", "mean_s", "p50_s", "p90_s", "p99_s", "p999_s", "max_s")
BASES = ("ndr", "rfc2544")
"""The goals whose rate loads are fractions of; the first that was found."""


def base_rate(size: SizeFinding) -> tuple[str, float] | None:
    """Return the goal and the rate (pps) that delays are measured under; ``None`` if the search found none.

    Where the tester could prove no more (``at_least``), it is the highest load that passed.
    """
    for name in BASES:
        goal = size.goal(name)
        if goal and goal.lower and goal.outcome in ("found", "line_rate", "at_least"):
            return name, goal.lower.offered.pps
    return None


def measure_latency(
    log: TrialLog, size: SizeFinding, rates: Sequence[tuple[float, Rates]], base: str, duration_s: float
) -> list[LatencyFinding]:
    """Measure delays under each of `rates`, given as fraction of the base and rate."""
    findings = []
    for fraction, offered in rates:
        place = log.make(f"latency {size.name}", size.sizes_bytes, offered.pps, duration_s)
        findings.append(_finding(size.name, fraction, base, offered, place, log.trials[place]))
    return findings


def _finding(name: str, fraction: float, base: str, offered: Rates, place: int, trial: Trial) -> LatencyFinding:
    latency = trial.counters.latency if trial.counters and not trial.refusals else None
    enough = latency is not None and latency.count >= FEWEST_FRAMES
    return LatencyFinding(
        name=name,
        fraction=fraction,
        base=base,
        offered=offered,
        frames=latency.count if latency else 0,
        loss_ratio=None if trial.refusals else trial.loss_ratio,
        typical_s=latency.p50_s if latency else None,
        worst_s=latency.p999_s if latency and enough else None,
        **{name: getattr(latency, name, None) for name in _DELAYS},
        counts=latency.counts if latency else (),
        trial=place,
        refusal=trial.refusals[0] if trial.refusals else None,
    )
