"""The study's two tests: what gets through when more is offered than a device need carry. No loss-free rate."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Literal

from wavebed.forward.findings import OverloadFinding
from wavebed.forward.trials import ENDING, distinct
from wavebed.stats.intervals import median_interval

if TYPE_CHECKING:
    from wavebed.forward.trials import LoadLimit, TrialLog

__all__ = ["overload"]


def overload(
    log: TrialLog, name: Literal["throughput", "overload"], limit: LoadLimit, duration_s: float, repeats: int
) -> OverloadFinding:
    """Offer line rate, or all that the tester can send where that is less or the link's speed is not known.

    Parameters
    ----------
    name : str
        ``throughput`` at the largest size, ``overload`` at the smallest.
    """
    asked = limit.line_rate if limit.limited_by == "line_rate" else None
    places = []
    for _ in range(repeats):
        places.append(log.make(name, limit.sizes_bytes, asked.pps if asked else None, duration_s))
        if any(one.code in ENDING for one in log.trials[places[-1]].refusals):
            break
    counted = [log.trials[place] for place in places if not log.trials[place].refusals]
    sent, received = [one.sent_pps for one in counted], [one.received_pps for one in counted]
    return OverloadFinding(
        name=name,
        sizes_bytes=limit.sizes_bytes,
        asked=asked,
        sent_pps=median_interval(sent),
        received_pps=median_interval(received),
        sent=limit.rates(median(sent)) if sent else None,
        received=limit.rates(median(received)) if received else None,
        loss_ratio=median_interval([one.loss_ratio for one in counted]),
        cpu_busy_max=median_interval([one.cpu["busy_max"] for one in counted if "busy_max" in one.cpu]),
        refusals=distinct([one for place in places for one in log.trials[place].refusals]),
        trials=tuple(places),
    )
