"""How the trials of a plan are repeated, kept and stopped."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from wavebed.result.model import COUNTED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from wavebed.result.campaign import CampaignRecord
    from wavebed.result.model import TrialLine
    from wavebed.run.order import Slot
    from wavebed.store.folder import Keep, Ledger


def _not_counted(trial: TrialLine) -> bool:
    return trial.verdict not in COUNTED


def _go_on(ledger: Ledger) -> str:
    del ledger
    return ""


@dataclass(frozen=True, slots=True)
class Design:
    """How a plan is run; the defaults are those of ``wavebed run``.

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
