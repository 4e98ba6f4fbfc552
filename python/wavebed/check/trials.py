"""What a trial says about the application: figures, a failure, or nothing because of the machine."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from wavebed.result.computing import computing_is_free
from wavebed.result.model import EXACT
from wavebed.store.records import PATH_WORKLOAD
from wavebed.workload.command import DELIVERY_TIME, WALL_TIME, Command

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wavebed.check.requirement import Key
    from wavebed.config.data import Json
    from wavebed.lab.computing import Computing
    from wavebed.result.model import Check, TrialRecord, WorkloadRecord
    from wavebed.workload.model import Metric

__all__ = ["OF_APPLICATION", "Seen", "State", "last_attempts", "machine_reasons", "seen", "silence"]

State: TypeAlias = Literal["measured", "failed", "inconclusive"]

_TRAFFIC = "traffic"
"""Code of the check that a packet entered a link: without one, the trial is no evidence about the application."""
OF_APPLICATION = frozenset({"partial", _TRAFFIC, EXACT})
"""Codes of the checks whose failure is the application's: it was stopped at its limit, sent nothing, or looped in
virtual time. The others are the machine's."""

_OF_ENGINE = {"gaps", "late", "late-packets"}
"""Codes of the checks that say by how much the engine was late; a trial of which no other fails may be judged."""
_STOOD_SHARE = 0.01
"""Largest part of a judged trial for which its engine may have stood still."""
_LATE_SHARE = 0.1
"""Largest part of a judged trial by which late packets may have delayed it: of a round trip a tenth."""
_SLOWING = _OF_ENGINE | {"processors", "samplers", "stolen", "stopped"}
"""Codes of the checks that a slow machine fails: a fixed amount of work takes longer on it, never less."""
_FIXED_WORK = {"command": {WALL_TIME, DELIVERY_TIME}, "download": {"download time", "goodput"}}
"""By kind of workload the metrics that follow from the time of a fixed amount of work. Delays, losses and fairness are
none: a sender that is starved fills queues less."""

_TIMES_PACKETS = {"latency", "record", "voice"}
"""Kinds of workloads whose figures are of single packets, which wait for no program that computes."""


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
    delayed_s, lasted_s : float
        By how much a late engine delayed the application at most, if nothing else was late, and how long the workloads
        ran.
    is_late : bool
        Whether the machine was late, so that another attempt may say more.
    slowed : set of Key
        Metrics of an inconclusive trial that a machine in time would not make worse; its workloads completed.
    computed_s, walls_s : mapping
        In virtual time, in which computing takes no time: how long the programs of each workload, and for the path
        those of all, computed on the host; and how long each workload, and all of them, ran.
    over_limit : sequence of str
        The workloads that would have run longer than their limits, had computing taken its time.
    is_unguarded : bool
        Whether nobody knows how long the programs of a trial in virtual time computed.
    """

    folder: str
    treatment: str
    seed: int
    state: State
    reasons: Sequence[str] = ()
    metrics: Mapping[Key, Metric] = field(default_factory=dict)
    delayed_s: float = 0.0
    lasted_s: float = 0.0
    is_late: bool = False
    slowed: frozenset[Key] = frozenset()
    computed_s: Mapping[str, float] = field(default_factory=dict)
    walls_s: Mapping[str, float] = field(default_factory=dict)
    over_limit: Sequence[str] = ()
    is_unguarded: bool = False

    @property
    def completed(self) -> bool:
        """Whether every workload completed, on a machine that was in time or slow."""
        return self.state == "measured" or bool(self.slowed)


def seen(
    trial: TrialRecord,
    of_links: Sequence[Metric] = (),
    most_lateness_s: float | None = None,
    computing: Computing | None = None,
) -> Seen:
    """Return what a trial says about the application.

    Parameters
    ----------
    of_links : sequence of Metric
        Further metrics of the path, by `wavebed.check.links.link_metrics`.
    most_lateness_s : float or None
        By `wavebed.check.lateness.most_lateness_s`.
    computing : Computing or None
        By `read_computing`.
    """
    metrics = {(PATH_WORKLOAD, metric.name): metric for metric in (*trial.transport, *of_links)}
    for workload in trial.workloads:
        metrics |= {(workload.name, metric.name): metric for metric in workload.outcome.metrics}
    reasons = machine_reasons(trial)
    failed = [_failure(each) for each in trial.workloads if each.outcome.status == "failed"]
    lasted_s = max((each.span.end_s - each.span.start_s for each in trial.workloads if each.span), default=0.0)
    delayed_s = None if failed else _delayed_s(trial, len(reasons), lasted_s, most_lateness_s)
    silent = silence(trial)
    if delayed_s is not None and not silent:
        return Seen(trial.folder, trial.treatment, trial.seed, "measured", reasons, metrics, delayed_s, lasted_s)
    state: State = "inconclusive" if reasons or (silent and not failed) else "failed" if failed else "measured"
    slowed = frozenset() if failed or silent else _slowed(trial, len(reasons))
    said = reasons or failed or silent
    is_late = bool(reasons)
    found = Seen(trial.folder, trial.treatment, trial.seed, state, said, metrics, is_late=is_late, slowed=slowed)
    return _computed(found, trial, computing, lasted_s) if computing_is_free(trial) else found


def _computed(found: Seen, trial: TrialRecord, computing: Computing | None, lasted_s: float) -> Seen:
    """Return what a trial in virtual time says, with how long its programs computed on the host."""
    if computing is None:
        return replace(found, is_unguarded=True)
    spans = {each.name: each.span for each in trial.workloads if each.span is not None}
    walls_s = {name: span.end_s - span.start_s for name, span in spans.items()}
    computed_s = {
        each.name: 0.0 if each.kind in _TIMES_PACKETS else computing.of_s(each.name) for each in trial.workloads
    }
    limits = cast("Sequence[Mapping[str, Json]]", trial.resolved.get("workloads") or ())
    limits_s = {cast("str", each["name"]): cast("int", each["limit_ns"]) / 1e9 for each in limits}
    over = [
        f"{name} may pass its limit of {limits_s[name]:g} s: its programs computed for {computed_s[name]:.2f} s, which"
        " virtual time leaves out: decide with --processor host or --real-time"
        for name, wall_s in walls_s.items()
        if wall_s + computed_s[name] > limits_s.get(name, math.inf)
    ]
    return replace(
        found,
        computed_s=computed_s | {PATH_WORKLOAD: computing.total_s},
        walls_s=walls_s | {PATH_WORKLOAD: lasted_s},
        over_limit=over,
    )


def last_attempts(trials: Sequence[Seen]) -> list[Seen]:
    """Return of each seed of a treatment the attempt that counts: the last one that says something, or the last."""
    found: dict[tuple[str, int], Seen] = {}
    for trial in trials:
        key = (trial.treatment, trial.seed)
        if key not in found or trial.state != "inconclusive" or found[key].state == "inconclusive":
            found[key] = trial
    return list(found.values())


def silence(trial: TrialRecord) -> list[str]:
    """Return why a trial in which no packet crossed the path is no evidence, in one line; empty if one did."""
    return [check.evidence for check in trial.checks if check.code == _TRAFFIC and not check.holds]


def _slowed(trial: TrialRecord, reasons: int) -> frozenset[Key]:
    """Return the metrics that a machine in time would not have made worse.

    There are none if more than the machine's slowness is wrong, or with several workloads: one that is starved leaves
    more of the path to the others.
    """
    broken = _of_machine(trial)
    if not broken or len(broken) < reasons or not {check.code for check in broken} <= _SLOWING:
        return frozenset()
    if len(trial.workloads) > 1:
        return frozenset()
    return frozenset(
        (each.name, metric.name)
        for each in trial.workloads
        for metric in each.outcome.metrics
        if metric.name in _FIXED_WORK.get(each.kind, ())
    )


def _delayed_s(trial: TrialRecord, reasons: int, lasted_s: float, most_lateness_s: float | None) -> float | None:
    """Return by how much the engine may have delayed the application; ``None`` if that is not the trial's only fault.

    Its gaps in all, if its packets were late in them only; else what the lateness of its packets may have added.
    """
    broken = _of_machine(trial)
    codes = {check.code for check in broken}
    if not broken or len(broken) < reasons or not codes <= _OF_ENGINE or any(e.severity == "invalid" for e in broken):
        return None
    if codes == {"gaps"}:
        loops = cast("Sequence[Mapping[str, Mapping[str, int]]]", trial.engine.get("loops") or ())
        stood_s = sum(loop["gaps"]["total_ns"] for loop in loops) / 1e9
        return stood_s if stood_s <= _STOOD_SHARE * lasted_s else None
    return most_lateness_s if most_lateness_s is not None and most_lateness_s <= _LATE_SHARE * lasted_s else None


def machine_reasons(trial: TrialRecord) -> list[str]:
    """Return why the machine, and not the application, may have made the results; empty if nothing says so."""
    reasons = [f"{check.name}: {check.evidence}" for check in _of_machine(trial)]
    reasons += [f"{each.name}: {doubt}" for each in trial.workloads for doubt in each.outcome.doubts]
    failures = [each for each in trial.workloads if each.outcome.status == "failed"]
    if trial.verdict == "failed":
        reasons += [line for line in trial.reasons[:1] if line not in map(_failure, failures)]
    reasons += [f"{_failure(each)} (it never began)" for each in failures if each.span is None and not _is_own(each)]
    return reasons


def _of_machine(trial: TrialRecord) -> list[Check]:
    """Return the checks that do not hold because of the machine."""
    return [check for check in trial.checks if not check.holds and check.code not in OF_APPLICATION]


def _failure(workload: WorkloadRecord) -> str:
    return f"{workload.name}: {workload.outcome.reason}"


def _is_own(workload: WorkloadRecord) -> bool:
    """Return whether its programs are the user's: a workload of wavebed that does not begin is no one's failure."""
    return workload.kind == Command.kind
