"""How a plan runs: the order of its trials, their repetitions, and the time that they take."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from wavebed.config.units import format_size
from wavebed.experiment.estimate import duration_text, in_blocks
from wavebed.result.model import COUNTED
from wavebed.run.progress import BROWSER_S, OVERHEAD_S
from wavebed.spec.trial import HostsLab
from wavebed.store.disk import attempt_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from wavebed.result.model import CampaignRecord, TrialLine
    from wavebed.run.scenario import Plan, TreatmentPlan
    from wavebed.store.folder import Keep, Ledger


_LINE = 60
"""Characters of the first line of a run, with room for the command before them on 80 columns."""
_LEAST_TITLE = 20


@dataclass(frozen=True, slots=True)
class Slot:
    """A trial of a plan.

    Parameters
    ----------
    number : int
        Place in the order of the trials, from 1.
    block : int
        Place of its seed, from 1.
    attempt : int
        1, and one more each time that it is repeated with its seed.
    """

    number: int
    block: int
    seed: int
    treatment: TreatmentPlan
    attempt: int = 1

    @property
    def trial(self) -> str:
        """The name of its first attempt."""
        return f"{self.number:04d}-{self.treatment.name}"

    @property
    def folder(self) -> str:
        """The name of its folder."""
        return attempt_name(self.trial, self.attempt)


def ordered(treatments: Sequence[TreatmentPlan], trials: int, seed: int) -> list[Slot]:
    """Return the trials in the order in which they run; the same seed gives the same order."""
    slots: list[Slot] = []
    for block, drawn in enumerate(in_blocks(treatments, trials, seed), 1):
        slots += [Slot(len(slots) + place, block, seed + block - 1, each) for place, each in enumerate(drawn, 1)]
    return slots


def _not_counted(trial: TrialLine) -> bool:
    return trial.verdict not in COUNTED


def _go_on(ledger: Ledger) -> str:
    del ledger
    return ""


@dataclass(frozen=True, slots=True)
class Design:
    """How a plan is run; the defaults are the ones of ``wavebed run``.

    Parameters
    ----------
    attempts : int
        Most attempts at a trial in its block, with its seed.
    is_repeated : callable
        Whether a stored trial leads to another attempt: by default if it is not counted.
    keep : str
        What is kept of a trial: ``all``, ``series`` (without raw outputs) or ``metrics`` (without both).
    alone : bool
        Whether no other run may measure on this machine at the same time.
    resume : bool
        Whether the folder has trials of this plan.
    changed : sequence of str
        Accepted changes of inputs since the last start; blocks that have not ended begin again.
    whole : bool
        Whether blocks that have not ended begin again in any case, because they may run on another machine.
    stop : callable
        Called before each block with all that is stored; returns the reason to stop, or nothing.
    record : CampaignRecord or None
        Of a campaign.
    levels : mapping
        Of a campaign: the level of each factor by treatment.
    texts : mapping
        Files that are kept beside ``run.json``, by name.
    until_ns : int or None
        When to stop each trial, nanoseconds since time zero, in virtual time; ``None``: at its end.
    versions, machine : mapping or None
        Where trials do not run here: versions of programs and kernel there, and the machines.
    """

    attempts: int = 1
    is_repeated: Callable[[TrialLine], bool] = _not_counted
    keep: Keep = "all"
    alone: bool = False
    resume: bool = False
    changed: Sequence[str] = ()
    whole: bool = False
    stop: Callable[[Ledger], str] = _go_on
    record: CampaignRecord | None = None
    levels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    until_ns: int | None = None
    versions: Mapping[str, str] | None = None
    machine: Mapping[str, str] | None = None


def next_trial(slots: Sequence[Slot], repeated: Mapping[int, Sequence[bool]], attempts: int) -> Slot | None:
    """Return the next trial of a block: first every trial in order, then again those that are to be repeated.

    Parameters
    ----------
    slots : sequence of Slot
        The trials of the block in order.
    repeated : mapping
        By number of the trial: whether each attempt so far leads to another one.
    attempts : int
        Most attempts at a trial.

    Returns
    -------
    Slot or None
        The trial with its attempt; ``None`` if the block has ended.
    """
    for attempt in range(1, attempts + 1):
        for slot in slots:
            so_far = repeated.get(slot.number, ())
            if len(so_far) == attempt - 1 and all(so_far):
                return replace(slot, attempt=attempt)
    return None


IDLE_PINGS_S = 3.0
"""Of the pings over an idle path before and after a trial between real hosts."""


def expected_s(treatment: TreatmentPlan) -> float:
    """Return the expected duration of a trial, seconds."""
    browsers = {each.common.device for each in treatment.workloads if "chromium" in each.needed_programs()}
    pings_s = IDLE_PINGS_S if isinstance(treatment.lab, HostsLab) else 0.0
    return expected_end_s(treatment) + OVERHEAD_S + pings_s + BROWSER_S * len(browsers)


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


def expected_bytes(treatment: TreatmentPlan) -> float | None:
    """Estimate the bytes at the client's interface in a trial between real hosts; ``None`` without an expected rate."""
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
    # A program of the user is expected to take its limit: its duration is unknown.
    workloads = [each for treatment in plan.treatments for each in treatment.workloads if not each.endless]
    most = "up to " if any(each.expected_s() >= each.common.limit_s for each in workloads) else ""
    told = f"{trials}, {most}about {duration_text(total_s)}{_data_text(plan)}"
    room = max(_LINE - len(told), _LEAST_TITLE)
    title = plan.title if len(plan.title) <= room else f"{plan.title[: room - 1].rstrip()}…"
    return f"{title}: {told}"


def _data_text(plan: Plan) -> str:
    volumes = [expected_bytes(treatment) for treatment in plan.treatments]
    known = [each for each in volumes if each is not None]
    limits = {each.lab.data_limit_bytes for each in plan.treatments if isinstance(each.lab, HostsLab)} - {None}
    text = f", about {format_size(1_000_000 * round(plan.trials * sum(known) / 1e6))} of data" if known else ""
    return text + (f", at most {format_size(max(filter(None, limits)))} in each trial" if limits else "")
