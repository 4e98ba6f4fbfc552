"""The expected duration of trials."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.config.units import format_size
from wavebed.experiment.estimate import duration_text
from wavebed.run.progress import BROWSER_S, OVERHEAD_S
from wavebed.spec.lab import HostsLab

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wavebed.run.scenario import Plan, TreatmentPlan
    from wavebed.workload.model import AnyWorkload

__all__ = ["expected_bytes", "expected_end_s", "expected_s", "limits_s", "plan_text"]

IDLE_PINGS_S = 3.0
"""Of the pings over an idle path before and after a trial between real hosts."""


def expected_s(treatment: TreatmentPlan) -> float:
    """Return the expected duration of a trial, seconds."""
    browsers = any("chromium" in workload.needed_programs() for workload in treatment.workloads)
    pings_s = IDLE_PINGS_S if isinstance(treatment.lab, HostsLab) else 0.0
    return expected_end_s(treatment) + OVERHEAD_S + pings_s + (BROWSER_S if browsers else 0.0)


def expected_end_s(treatment: TreatmentPlan) -> float:
    """Return the expected end of the last workload of a trial, seconds since time zero."""
    ends: dict[str, float] = {}
    waiting = [workload for workload in treatment.workloads if not workload.endless]
    while waiting:
        for workload in list(waiting):
            after = workload.common.after
            if after is None or after in ends:
                begin_s = workload.common.start_s + (ends[after] if after is not None else 0.0)
                ends[workload.name] = begin_s + min(workload.expected_s(), workload.common.limit_s)
                waiting.remove(workload)
    tail_s = max((workload.tail_s for workload in treatment.workloads), default=0.0)
    return max(ends.values(), default=0.0) + tail_s


def limits_s(workloads: Iterable[AnyWorkload]) -> float:
    """Return the seconds after which all workloads of a trial have ended, by their limits."""
    return sum(each.common.start_s + each.common.limit_s + each.tail_s for each in workloads if not each.endless)


def expected_bytes(treatment: TreatmentPlan) -> float | None:
    """Return the bytes at the client's interface in a trial between real hosts; ``None`` without an expected rate."""
    lab = treatment.lab
    if not isinstance(lab, HostsLab) or lab.expected_rate_bps is None:
        return None
    longest_s = expected_s(treatment) - OVERHEAD_S - IDLE_PINGS_S
    return sum(each.expected_bytes(lab.expected_rate_bps, longest_s) for each in treatment.workloads)


def plan_text(plan: Plan) -> str:
    """Return title, number of trials, expected duration, and expected data between real hosts, in one line."""
    count = plan.trials * len(plan.treatments)
    total_s = plan.trials * sum(expected_s(treatment) for treatment in plan.treatments)
    trials = "1 trial" if count == 1 else f"{count} trials"
    return f"{plan.title}: {trials}, about {duration_text(total_s)}{_data_text(plan)}"


def _data_text(plan: Plan) -> str:
    volumes = [expected_bytes(treatment) for treatment in plan.treatments]
    known = [each for each in volumes if each is not None]
    limits = {each.lab.data_limit_bytes for each in plan.treatments if isinstance(each.lab, HostsLab)} - {None}
    text = f", about {format_size(1_000_000 * round(plan.trials * sum(known) / 1e6))} of data" if known else ""
    return text + (f", at most {format_size(max(filter(None, limits)))} in each trial" if limits else "")
