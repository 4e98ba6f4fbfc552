"""The state of a run that an executor works on."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.run.design import Design
    from wavebed.run.order import Slot
    from wavebed.run.progress import Live
    from wavebed.run.resolve import Resolver
    from wavebed.run.scenario import Plan
    from wavebed.store.folder import RunFolder

__all__ = ["Executor", "Session"]


@dataclass(frozen=True, slots=True)
class Session:
    """A run whose folder is open.

    Parameters
    ----------
    slots : sequence of Slot
        The trials of the plan in order.
    programs : set of str
        Programs that the workloads start.
    """

    plan: Plan
    slots: Sequence[Slot]
    programs: set[str]
    folder: RunFolder
    resolver: Resolver
    live: Live
    design: Design

    def left(self) -> dict[int, list[Slot]]:
        """Return the blocks that have not ended, in order, with their trials."""
        ended = self.folder.ledger.ended
        grouped = itertools.groupby(self.slots, key=lambda slot: slot.block)
        return {block: list(slots) for block, slots in grouped if block not in ended}


class Executor(Protocol):
    """Runs the blocks of a plan."""

    def check(self, plan: Plan) -> None:
        """Check that a plan can run there, before its folder is made.

        Raises
        ------
        MachineError
            If a program or a package is missing.
        """

    def run(self, session: Session) -> str:
        """Run the blocks that are left, in order of their ends, and return the reason of the stop rule, if it stopped.

        Raises
        ------
        WavebedError
            If they cannot run, or their results cannot be stored.
        """
