"""What a trial says about the application: figures, a failure, or nothing because of the machine."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from wavebed.result.encode import PATH_WORKLOAD
from wavebed.workload.command import Command

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wavebed.check.requirement import Key
    from wavebed.result.model import TrialRecord, WorkloadRecord
    from wavebed.workload.model import Metric

__all__ = ["OF_APPLICATION", "STOOD_SHARE", "Seen", "State", "last_attempts", "machine_reasons", "seen"]

State: TypeAlias = Literal["measured", "failed", "inconclusive"]

OF_APPLICATION = frozenset({"partial"})
"""Codes of the checks whose failure is the application's: it was stopped at its limit. The others are the machine's."""

STOOD_SHARE = 0.01
"""Largest part of a trial for which its engine may have stood still; the invalid trials are beyond it in any case."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A trial as a requirement sees it.

    Parameters
    ----------
    state : str
        ``measured``, ``failed`` (a workload failed, and the machine was not at fault) or ``inconclusive``.
    reasons : sequence of str
        One line each, if it is not ``measured``.
    metrics : mapping
        By workload and name; of a failed trial those of the workloads that did not fail.
    stood_s, lasted_s : float
        How long the engine stood still in all, if it was for moments only and nothing else was late, and how long the
        workloads ran. The application waited at most so long in addition.
    """

    folder: str
    treatment: str
    seed: int
    state: State
    reasons: Sequence[str] = ()
    metrics: Mapping[Key, Metric] = field(default_factory=dict)
    stood_s: float = 0.0
    lasted_s: float = 0.0


def seen(trial: TrialRecord, of_links: Sequence[Metric] = ()) -> Seen:
    """Return what a trial says: a machine that was late says nothing about the application, whatever the figures.

    Parameters
    ----------
    of_links : sequence of Metric
        Further metrics of the path, by `wavebed.check.links.link_metrics`.
    """
    metrics = {(PATH_WORKLOAD, metric.name): metric for metric in (*trial.transport, *of_links)}
    for workload in trial.workloads:
        metrics |= {(workload.name, metric.name): metric for metric in workload.outcome.metrics}
    reasons = machine_reasons(trial)
    failed = [_failure(each) for each in trial.workloads if each.outcome.status == "failed"]
    state: State = "inconclusive" if reasons else "failed" if failed else "measured"
    stood_s = _stood_s(trial) if len(reasons) == 1 and not failed else 0.0
    lasted_s = max((each.span.end_s - each.span.start_s for each in trial.workloads if each.span), default=0.0)
    if 0 < stood_s <= STOOD_SHARE * lasted_s:
        return Seen(trial.folder, trial.treatment, trial.seed, "measured", reasons, metrics, stood_s, lasted_s)
    return Seen(trial.folder, trial.treatment, trial.seed, state, reasons or failed, metrics)


def last_attempts(trials: Sequence[Seen]) -> list[Seen]:
    """Return of each seed of a treatment the attempt that counts: the last one that says something, or the last."""
    found: dict[tuple[str, int], Seen] = {}
    for trial in trials:
        key = (trial.treatment, trial.seed)
        if key not in found or trial.state != "inconclusive" or found[key].state == "inconclusive":
            found[key] = trial
    return list(found.values())


def _stood_s(trial: TrialRecord) -> float:
    """Return how long the engine stood still in all, if that is the trial's only fault; else 0."""
    broken = [check for check in trial.checks if not check.holds and check.code not in OF_APPLICATION]
    if [(check.code, check.severity) for check in broken] != [("gaps", "suspect")]:
        return 0.0
    loops = cast("Sequence[Mapping[str, Mapping[str, int]]]", trial.engine.get("loops") or ())
    return sum(loop["gaps"]["total_ns"] for loop in loops) / 1e9


def machine_reasons(trial: TrialRecord) -> list[str]:
    """Return why the machine, and not the application, may have made the results; empty if nothing says so."""
    reasons = [
        f"{check.name}: {check.evidence}"
        for check in trial.checks
        if not check.holds and check.code not in OF_APPLICATION
    ]
    reasons += [f"{each.name}: {doubt}" for each in trial.workloads for doubt in each.outcome.doubts]
    failures = [each for each in trial.workloads if each.outcome.status == "failed"]
    if trial.verdict == "failed":
        reasons += [line for line in trial.reasons[:1] if line not in map(_failure, failures)]
    reasons += [f"{_failure(each)} (it never began)" for each in failures if each.span is None and not _is_own(each)]
    return reasons


def _failure(workload: WorkloadRecord) -> str:
    return f"{workload.name}: {workload.outcome.reason}"


def _is_own(workload: WorkloadRecord) -> bool:
    """Return whether its programs are the user's: a workload of wavebed that does not begin is no one's failure."""
    return workload.kind == Command.kind
