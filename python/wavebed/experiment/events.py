"""The events of an experiment, written to its journal and sent to listeners."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

from wavebed.result.model import Verdict

__all__ = [
    "BlockEnded",
    "BlocksPlaced",
    "CheckFailed",
    "Event",
    "LoadMeasured",
    "Part",
    "RunBegun",
    "RunEnded",
    "RunInterrupted",
    "RunPlanned",
    "RunResumed",
    "StepBegun",
    "TrialBegun",
    "TrialFailed",
    "TrialStored",
    "WorkloadBegun",
    "WorkloadEnded",
]


class _Event(msgspec.Struct, frozen=True, kw_only=True, gc=False, tag_field="event"):
    """Fields of every event, set by the journal.

    Parameters
    ----------
    time : datetime or None
        UTC, by the system's real-time clock.
    since_s : float
        Seconds since the start of the run, by the monotonic clock.
    """

    time: datetime | None = None
    since_s: float = 0.0


class RunBegun(_Event, frozen=True, tag="run-begun"):
    """A run begins: of a scenario, a campaign, a forwarding test, or the reproduction of a study."""

    kind: Literal["run", "campaign", "forward", "reproduction"]
    title: str


class Part(msgspec.Struct, frozen=True, gc=False):
    """One trial of the plan: its name, the seconds it takes, and its kind, which the estimate learns from."""

    trial: str
    expected_s: float
    at_most_s: float | None = None
    kind: str = ""


class RunPlanned(_Event, frozen=True, tag="run-planned"):
    """The plan: its trials in order, and their total duration."""

    trials: int
    expected_s: float
    at_most_s: float | None = None
    parts: tuple[Part, ...] = ()


class RunResumed(_Event, frozen=True, tag="run-resumed"):
    """A run goes on in its folder; trials of blocks that begin again are set aside.

    Parameters
    ----------
    changed : tuple of str
        What changed since the last start and was accepted, one line each; blocks that have not ended begin again.
    whole : bool
        Whether they begin again without a change too, because they may run on another machine.
    """

    changed: tuple[str, ...] = ()
    whole: bool = False


class StepBegun(_Event, frozen=True, tag="step-begun"):
    """A step other than a trial begins (preparation, warm-up, another tool); `left_s` seconds are left, it included."""

    step: str
    left_s: float = 0.0


class TrialBegun(_Event, frozen=True, tag="trial-begun"):
    """Trial `number` of `trials` begins; `left_s` seconds are left, it included.

    Parameters
    ----------
    treatment, block, seed
        ``None`` in a forwarding test, whose trial is one part at one frame size.
    """

    trial: str
    number: int
    trials: int
    left_s: float
    treatment: str | None = None
    block: int | None = None
    seed: int | None = None
    attempt: int = 1


class WorkloadBegun(_Event, frozen=True, tag="workload-begun"):
    """A workload began at `at_s` of the trial's time."""

    trial: str
    workload: str
    at_s: float


class WorkloadEnded(_Event, frozen=True, tag="workload-ended"):
    """A workload ended at `at_s` of the trial's time."""

    trial: str
    workload: str
    at_s: float


class LoadMeasured(_Event, frozen=True, tag="load-measured"):
    """A forwarding test sent frames at one rate (``None``: unlimited) and counted them; `left_s` seconds are left."""

    trial: str
    offered_pps: float | None
    sent: int
    lost: int
    refused: bool
    left_s: float | None = None


class CheckFailed(_Event, frozen=True, tag="check-failed"):
    """A check of a trial's validity failed; `code` is its stable name for programs."""

    trial: str
    code: str
    severity: Literal["invalid", "suspect"]
    evidence: str


class TrialStored(_Event, frozen=True, tag="trial-stored"):
    """A trial is on the disk; listeners get this event after it is on the disk too."""

    trial: str
    number: int
    verdict: Verdict
    wall_s: float
    reasons: tuple[str, ...] = ()
    attempt: int = 1


class TrialFailed(_Event, frozen=True, tag="trial-failed"):
    """A trial ended without being stored."""

    trial: str
    number: int
    reason: str


class BlockEnded(_Event, frozen=True, tag="block-ended"):
    """Every trial of a block is stored, with its repetitions; `machine` is where it ran."""

    block: int
    machine: str = ""


class BlocksPlaced(_Event, frozen=True, tag="blocks-placed"):
    """Which blocks run on workers now; `ended` of `planned` blocks have ended, and `left_s` seconds are left.

    Parameters
    ----------
    workers : int
        Connected workers, busy or not.
    """

    blocks: tuple[int, ...]
    workers: int
    ended: int
    planned: int
    left_s: float

    def text(self) -> str:
        """Return it for people."""
        done = f"{self.ended} of {self.planned} blocks ended"
        if not self.blocks:
            return f"{done}, waiting for a worker of the scheduler"
        names = f"{'block' if len(self.blocks) == 1 else 'blocks'} {', '.join(map(str, self.blocks))}"
        return f"{done}, {names} on {len(self.blocks)} of {self.workers} workers"


class RunEnded(_Event, frozen=True, tag="run-ended"):
    """Every trial is stored, or the stop rule ended the run, for the reason `stopped`."""

    trials: int
    stopped: str = ""


class RunInterrupted(_Event, frozen=True, tag="run-interrupted"):
    """The run ends before its last trial. A killed run has neither this event nor ``run-ended``."""

    reason: str


Event: TypeAlias = (
    RunBegun
    | RunPlanned
    | RunResumed
    | StepBegun
    | TrialBegun
    | WorkloadBegun
    | WorkloadEnded
    | LoadMeasured
    | CheckFailed
    | TrialStored
    | TrialFailed
    | BlockEnded
    | BlocksPlaced
    | RunEnded
    | RunInterrupted
)
