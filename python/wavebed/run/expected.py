"""The expected duration of trials."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.experiment.estimate import duration_text
from wavebed.run.progress import BROWSER_S, OVERHEAD_S

if TYPE_CHECKING:
    from wavebed.run.scenario import Plan, TreatmentPlan

__all__ = ["expected_s", "plan_text"]


def expected_s(treatment: TreatmentPlan) -> float:
    """Return the expected duration of a trial, seconds."""
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
    browsers = any("chromium" in workload.needed_programs() for workload in treatment.workloads)
    return max(ends.values(), default=0.0) + tail_s + OVERHEAD_S + (BROWSER_S if browsers else 0.0)


def plan_text(plan: Plan) -> str:
    """Return title, number of trials and expected duration in one line."""
    count = plan.trials * len(plan.treatments)
    total_s = plan.trials * sum(expected_s(treatment) for treatment in plan.treatments)
    trials = "1 trial" if count == 1 else f"{count} trials"
    return f"{plan.title}: {trials}, about {duration_text(total_s)}"
