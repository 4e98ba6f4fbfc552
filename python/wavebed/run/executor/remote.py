"""Blocks on the workers of a Dask scheduler; this process keeps the account of them.

A worker has one task at a time, bound to it, so Dask never queues, steals or repeats a block. A block whose worker is
lost is sent to another one. So is one whose worker is silent, or takes longer than the limits of its trials allow, as
soon as another is free. The first result counts, and later ones are dropped. Blocks are stored in the order of the
plan (`wavebed.store.folder`), and the stop rule is asked before each: blocks behind it that have arrived are dropped.
"""

from __future__ import annotations

import queue
import shutil
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Protocol, Self

from wavebed import __version__
from wavebed.errors import MachineError, WavebedError
from wavebed.extras import TABLES, require
from wavebed.run.executor.carrier import IN_FLIGHT_BYTES, PIECE_BYTES, BlockCarrier, outgoing
from wavebed.run.executor.worker import FailedError, LostError, describe
from wavebed.run.trial import run_trial as run_real_trial
from wavebed.store.journal import BlocksPlaced

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from wavebed.run.executor.block import RunTrial, WorkerMachine
    from wavebed.run.executor.carrier import Carried, RunSession
    from wavebed.run.executor.cluster import Cluster, Worker
    from wavebed.run.progress import Live
    from wavebed.run.scenario import Plan


class Executor(Protocol):
    """Runs the blocks of a plan."""

    def check(self, plan: Plan) -> None:
        """Check that a plan can run there, before its folder is made.

        Raises
        ------
        MachineError
            If a program or a package is missing.
        """

    def run(self, session: RunSession) -> str:
        """Run the blocks that are left, in order of their ends, and return the reason of the stop rule, if it stopped.

        Raises
        ------
        WavebedError
            If they cannot run, or their results cannot be stored.
        """


MOST_FAILURES = 3
"""A block that failed on this many workers ends the run."""
OTHERS_S = 60.0
"""A worker that ran blocks and is lost may come back within this time, where all others were refused."""


class Account:
    """The account of the blocks of a run.

    Parameters
    ----------
    session : RunSession
        The run.
    silent_s : float
        Seconds without a heartbeat after which a worker's block is sent to another worker too.
    most_failures : int
        A block that failed on this many workers ends the run.
    """

    def __init__(self, session: RunSession, silent_s: float, most_failures: int = MOST_FAILURES) -> None:
        self._folder = session.folder
        self._stop = session.design.stop
        self._silent_s = silent_s
        self._most_failures = most_failures
        self._failures: Counter[int] = Counter()
        self.left = session.left()
        self.arrived = set(session.folder.arrived_blocks())
        self.carriers: list[BlockCarrier] = []
        self.refused: dict[str, str] = {}
        self._overdue: set[BlockCarrier] = set()
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

    def newly_overdue(self) -> list[BlockCarrier]:
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

    def _refuse(self, carrier: BlockCarrier, error: str) -> str:
        self._failures[carrier.block] += 1
        if self._failures[carrier.block] == self._most_failures:
            where = f" on {self._most_failures} workers" if self._most_failures > 1 else ""
            raise WavebedError(f"block {carrier.block} failed{where}: {error}")
        self.refused[carrier.worker.address] = error
        return error


SILENT_S = 30.0
"""A worker without a heartbeat for this long may be lost; Dask's scheduler drops it after five minutes. A worker beats
every half second; a computation that holds Python's interpreter lock delays that by a few seconds."""
LOOK_S = 0.5
DESCRIBE_S = 60.0
"""For the answer of a worker that may set the versions; then the next one is asked."""
_END_S = 15.0


class Remote:
    """The executor of ``dask://``; a context that disconnects at its end.

    Parameters
    ----------
    cluster : Cluster
        The workers.
    live : Live
        Shows the progress.
    run_trial : callable
        Runs one trial on a worker.
    silent_s : float
        Seconds without a heartbeat after which a block is sent to another worker too.
    """

    def __init__(
        self, cluster: Cluster, live: Live, run_trial: RunTrial = run_real_trial, silent_s: float = SILENT_S
    ) -> None:
        self._cluster = cluster
        self._live = live
        self._run_trial = run_trial
        self._silent_s = silent_s
        self._noted: set[str] = set()
        self._site: WorkerMachine | None = None
        self._said: object = None

    most_failures = MOST_FAILURES

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cluster.close()

    def check(self, plan: Plan) -> None:
        """Check that results can be read here; each worker checks what it needs itself."""
        del plan
        require("report", "a folder of results", TABLES)

    def site(self, programs: Sequence[str]) -> WorkerMachine:
        """Return the machine of the first fit worker, which sets the campaign's versions; wait until there is one.

        Raises
        ------
        MachineError
            If no scheduler answers, or no worker is fit for the campaign.
        """
        if self._site is not None:
            return self._site
        if not self._cluster.connect():
            raise MachineError("--executor: no scheduler answers there: start it with dask scheduler, or name its port")
        refused: dict[str, str] = {}
        while True:
            workers = self._fit()
            for address, worker in workers.items():
                if address in refused:
                    continue
                try:
                    self._site = self._described(worker, programs)
                except LostError:
                    continue
                except FailedError as error:
                    refused[address] = str(error)
                    continue
                return self._site
            if workers and workers.keys() <= refused.keys():
                raise MachineError(refused[next(iter(workers))])
            self._live.say("waiting for a worker of the scheduler")
            time.sleep(LOOK_S)

    def _described(self, worker: Worker, programs: Sequence[str]) -> WorkerMachine:
        """Return the machine of a worker.

        Raises
        ------
        LostError
            If it is lost, or does not answer: it may run a block of somebody else.
        FailedError
            If it is not fit.
        """
        given_up = threading.Event()
        late = threading.Timer(DESCRIBE_S, given_up.set)
        late.daemon = True
        late.start()
        try:
            found = self._cluster.call(worker, given_up, describe, tuple(programs))
        except FailedError as error:
            raise FailedError(f"worker {worker.address}: {error}") from None
        finally:
            late.cancel()
        if found.absent:
            raise FailedError(f"worker {found.name}: {found.absent[0]} is not installed there")
        there = found.versions.get("wavebed", "missing")
        if there != __version__:
            raise FailedError(f"worker {found.name}: has wavebed {there}, not {__version__} as here: install that")
        return found

    def run(self, session: RunSession) -> str:
        """Run the blocks that are left and return the reason of the stop rule, if it stopped.

        Raises
        ------
        MachineError
            If no worker can run them.
        WavebedError
            If a block fails on several workers, or the results cannot be stored.
        """
        versions = self.site(sorted(session.programs)).versions
        account = Account(session, self._silent_s, self.most_failures)
        try:
            return self._run(session, account, versions)
        finally:
            end_s = time.monotonic() + _END_S
            for carrier in account.carriers:
                carrier.given_up.set()
            for carrier in account.carriers:
                carrier.join(max(end_s - time.monotonic(), 0.0))

    def _run(self, session: RunSession, account: Account, versions: Mapping[str, str]) -> str:
        ended: queue.SimpleQueue[Carried] = queue.SimpleQueue()
        places = threading.Semaphore(IN_FLIGHT_BYTES // PIECE_BYTES)
        while True:
            stopped = account.commit()
            if stopped or not account.left:
                return stopped
            workers = self._fit()
            account.give_up_lost(workers)
            for late in account.newly_overdue():
                held = f"worker {late.worker.address} keeps block {late.block} longer than its trials may take"
                self._live.note(f"{held}: the next free worker runs it, too")
            for worker in account.idle(workers):
                block = account.next_block()
                if block is None:
                    break
                sent = outgoing(block, account.left[block], session, versions)
                mark = session.folder.mark
                carrier = BlockCarrier(self._cluster, worker, sent, mark, places, ended, self._run_trial)
                account.carriers.append(carrier)
                carrier.start()
            self._tell(session, account, workers)
            self._take(account, ended)

    def _take(self, account: Account, ended: queue.SimpleQueue[Carried]) -> None:
        """Wait for the end of a carrier, and take all that have ended."""
        timeout: float | None = LOOK_S
        try:
            while True:
                carried = ended.get(timeout=timeout) if timeout else ended.get_nowait()
                refused = account.take(carried)
                if refused:
                    self._live.note(f"worker {carried.carrier.worker.address} gets no more blocks: {refused}")
                timeout = None
        except queue.Empty:
            pass

    def _fit(self) -> dict[str, Worker]:
        """Return the workers that are started as blocks need; note each other one once."""
        workers = self._look()
        for worker in workers.values():
            if worker.unfit and worker.address not in self._noted:
                self._noted.add(worker.address)
                self._live.note(f"worker {worker.address} gets no blocks: {worker.unfit}")
        return {address: worker for address, worker in workers.items() if not worker.unfit}

    def _look(self) -> Mapping[str, Worker]:
        """Return the present workers; connect again if the scheduler was lost."""
        try:
            return self._cluster.workers()
        except LostError:
            self._live.say("waiting for the scheduler")
        try:
            return self._cluster.workers() if self._cluster.connect() else {}
        except LostError:
            return {}

    def _tell(self, session: RunSession, account: Account, workers: Mapping[str, Worker]) -> None:
        """Record and show which blocks run where, if that has changed."""
        blocks = sorted(carrier.block for carrier in account.carriers)
        said = (len(account.left), tuple(blocks), len(workers))
        if said == self._said:
            return
        self._said = said
        planned = session.plan.trials
        left_s = session.folder.trials.left_s / max(len(blocks), 1)
        placed = BlocksPlaced(
            blocks=tuple(blocks),
            workers=len(workers),
            ended=planned - len(account.left),
            planned=planned,
            left_s=left_s,
        )
        session.folder.journal.emit(placed)
