"""The account of the blocks of a run: which are left, which are on a worker, which have arrived."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from typing import TYPE_CHECKING

from wavebed.errors import MachineError, WavebedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wavebed.run.executor.carrier import Carried, Carrier
    from wavebed.run.executor.cluster import Worker
    from wavebed.run.executor.session import Session

__all__ = ["Account"]

MOST_FAILURES = 3
"""A block that failed on so many workers ends the run."""
OTHERS_S = 60.0
"""A worker that ran blocks and is lost may come back within so long, where all others were refused."""


class Account:
    """The account of the blocks of a run.

    Parameters
    ----------
    session : Session
        The run.
    silent_s : float
        Seconds without a heartbeat after which a worker's block is sent to another worker too.
    most_failures : int
        A block that failed on so many workers ends the run.
    """

    def __init__(self, session: Session, silent_s: float, most_failures: int = MOST_FAILURES) -> None:
        self._folder = session.folder
        self._stop = session.design.stop
        self._silent_s = silent_s
        self._most_failures = most_failures
        self._failures: Counter[int] = Counter()
        self.left = session.left()
        self.arrived = set(session.folder.arrived_blocks())
        self.carriers: list[Carrier] = []
        self.refused: dict[str, str] = {}
        self._overdue: set[Carrier] = set()
        self._works = False
        self._served_s = float("-inf")

    def commit(self) -> str:
        """Store the arrived blocks whose turn it is; return the reason of the stop rule, if it stops.

        Raises
        ------
        WavebedError
            If they cannot be stored.
        """
        while self.left:
            reason = self._stop(self._folder.ledger)
            block = next(iter(self.left))
            if reason or block not in self.arrived:
                return reason
            self._folder.commit(block)
            self.arrived.remove(block)
            del self.left[block]
        return ""

    def idle(self, workers: Mapping[str, Worker]) -> list[Worker]:
        """Return the workers that can take a block.

        Raises
        ------
        MachineError
            If each worker was refused, and no other one came.
        """
        busy = {carrier.worker.address for carrier in self.carriers}
        if busy or not workers.keys() <= self.refused.keys():
            self._served_s = time.monotonic() if self._works else self._served_s
        elif workers and time.monotonic() - self._served_s > OTHERS_S:
            raise MachineError(f"no worker can run this campaign: {self.refused[next(iter(workers))]}")
        return [
            worker
            for address, worker in workers.items()
            if address not in busy and address not in self.refused and worker.silent_s < self._silent_s
        ]

    def next_block(self) -> int | None:
        """Return the first block that no worker runs, or only silent and overdue ones."""
        for block in self.left:
            if block not in self.arrived and all(
                carrier.worker.silent_s >= self._silent_s or carrier.is_overdue
                for carrier in self.carriers
                if carrier.block == block
            ):
                return block
        return None

    def newly_overdue(self) -> list[Carrier]:
        """Return the carriers that have become overdue since the last call."""
        found = [carrier for carrier in self.carriers if carrier.is_overdue and carrier not in self._overdue]
        self._overdue.update(found)
        return found

    def give_up_lost(self, workers: Mapping[str, Worker]) -> None:
        """Give up the carriers whose workers are not there any more."""
        for carrier in self.carriers:
            if carrier.worker.address not in workers:
                carrier.given_up.set()

    def take(self, carried: Carried) -> str:
        """Take the end of a carrier's work; return why its worker is refused, if it is.

        Raises
        ------
        WavebedError
            If the block failed on too many workers, or its results cannot be stored.
        """
        carrier = carried.carrier
        self.carriers.remove(carrier)
        if carried.fatal is not None:
            raise carried.fatal
        if carried.error:
            return self._refuse(carrier, carried.error)
        if carried.partial is None or carried.origin is None:
            return ""
        if carrier.block in self.arrived or carrier.block not in self.left:
            shutil.rmtree(carried.partial, ignore_errors=True)
            return ""
        self._works = True
        self._folder.arrive(carrier.block, carried.partial, carried.origin)
        self.arrived.add(carrier.block)
        for other in self.carriers:
            if other.block == carrier.block:
                other.given_up.set()
        return ""

    def _refuse(self, carrier: Carrier, error: str) -> str:
        self._failures[carrier.block] += 1
        if self._failures[carrier.block] == self._most_failures:
            where = f" on {self._most_failures} workers" if self._most_failures > 1 else ""
            raise WavebedError(f"block {carrier.block} failed{where}: {error}")
        self.refused[carrier.worker.address] = error
        return error
