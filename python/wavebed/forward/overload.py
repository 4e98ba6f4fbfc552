"""The study's two tests: the rate that is forwarded under overload. It is not a loss-free rate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.forward.arithmetic import Rates
from wavebed.forward.findings import OverloadFinding
from wavebed.forward.trials import ENDING, distinct
from wavebed.stats.intervals import median_interval

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wavebed.forward.arithmetic import Headers
    from wavebed.forward.findings import OverloadName
    from wavebed.forward.model import Trial
    from wavebed.forward.trials import LoadLimit, TrialLog
    from wavebed.stats.intervals import Interval

__all__ = ["overload", "overload_finding"]


def overload(log: TrialLog, name: OverloadName, limit: LoadLimit, duration_s: float, repeats: int) -> OverloadFinding:
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
    headers = limit.headers
    return overload_finding(name, limit.sizes_bytes, asked, headers, {place: log.trials[place] for place in places})


def overload_finding(
    name: OverloadName,
    sizes_bytes: tuple[int, ...],
    asked: Rates | None,
    headers: Headers,
    trials: Mapping[int, Trial],
) -> OverloadFinding:
    """Return the medians over the trials that count.

    Parameters
    ----------
    asked : Rates or None
        The rate that was offered; ``None``: all that the tester can send.
    trials : mapping of int to Trial
        By their places in the record.
    """
    counted = [one for one in trials.values() if not one.refusals]
    sent = median_interval([one.sent_pps for one in counted])
    received = median_interval([one.received_pps for one in counted])

    def rates(interval: Interval) -> Rates | None:
        return None if interval.estimate is None else Rates.of_pps(interval.estimate, sizes_bytes, headers)

    return OverloadFinding(
        name=name,
        sizes_bytes=sizes_bytes,
        asked=asked,
        sent_pps=sent,
        received_pps=received,
        sent=rates(sent),
        received=rates(received),
        loss_ratio=median_interval([one.loss_ratio for one in counted]),
        cpu_busy_max=median_interval([one.cpu["busy_max"] for one in counted if "busy_max" in one.cpu]),
        refusals=distinct([refusal for one in trials.values() for refusal in one.refusals]),
        trials=tuple(trials),
    )
