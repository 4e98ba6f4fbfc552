"""A Dask scheduler and its workers as processes on the loopback interface, for tests."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

__all__ = ["DaskWorkers"]

ROOT = Path(__file__).parents[1]
_COMMON = ["--no-dashboard", "--dashboard-address", "127.0.0.1:0"]
_WAIT_S = 60


class DaskWorkers:
    """A scheduler and `count` workers; each has a lock file of its own, as if it were a machine of its own.

    Parameters
    ----------
    supervised : bool
        Whether workers that end are started again, as a service manager does.
    options : sequence of str
        Further ones of the workers; the last of several counts.
    preload : pathlib.Path
        A program that a worker runs first; it finds modules beside it.
    """

    def __init__(
        self,
        folder: Path,
        count: int,
        *,
        supervised: bool = False,
        options: Sequence[str] = (),
        preload: Path | None = None,
    ) -> None:
        self.folder = folder
        self._options = [*options, *(["--preload", str(preload)] if preload else [])]
        self._path = [str(ROOT), str(ROOT / "python"), *([str(preload.parent)] if preload else [])]
        self._count = count
        self.port = 0
        self._scheduler: subprocess.Popen[bytes] | None = None
        self.workers: list[subprocess.Popen[bytes]] = []
        self._supervised = supervised
        self._end = threading.Event()
        self._supervisor = threading.Thread(target=self._supervise, daemon=True)

    @property
    def address(self) -> str:
        """The address of the scheduler for Dask."""
        return f"tcp://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self.start_scheduler()
        self.workers = [self._worker(number) for number in range(self._count)]
        self.wait()
        if self._supervised:
            self._supervisor.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        if self._supervised:
            self._supervisor.join()
        for process in self.workers:
            process.send_signal(signal.SIGCONT)
        for process in [*self.workers, *filter(None, [self._scheduler])]:
            process.terminate()
        for process in [*self.workers, *filter(None, [self._scheduler])]:
            try:
                process.wait(3)  # one that misses its scheduler waits for long
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        _forget_connections()

    def wait(self) -> None:
        """Wait until all workers are connected."""
        from distributed import Client

        with Client(self.address, timeout=_WAIT_S, set_as_default=False) as client:
            client.wait_for_workers(self._count, timeout=_WAIT_S)

    def start_scheduler(self) -> None:
        """Start the scheduler, at the same port each time, and wait until it listens."""
        told = self.folder / "scheduler.json"
        told.unlink(missing_ok=True)
        options = ["--host", "127.0.0.1", "--port", str(self.port), "--scheduler-file", str(told)]
        self._scheduler = self._start("scheduler", ["scheduler", *options, *_COMMON], {})
        end_s = time.monotonic() + _WAIT_S
        while time.monotonic() < end_s:
            with suppress(FileNotFoundError, json.JSONDecodeError):  # it may be half written
                self.port = int(json.loads(told.read_text())["address"].rpartition(":")[2])
                return
            time.sleep(0.1)
        raise AssertionError(self.log("scheduler"))

    def restart_scheduler(self) -> None:
        """End the scheduler, and start another one."""
        assert self._scheduler is not None
        self._scheduler.terminate()
        self._scheduler.wait()
        self.start_scheduler()

    def kill(self, number: int) -> None:
        """Kill a worker."""
        self.workers[number].kill()

    def freeze(self, number: int, seconds: float) -> None:
        """Stop a worker, and let it go on later."""
        process = self.workers[number]
        process.send_signal(signal.SIGSTOP)
        timer = threading.Timer(seconds, process.send_signal, [signal.SIGCONT])
        timer.daemon = True
        timer.start()

    def log(self, name: str) -> str:
        """Return what a process said."""
        return (self.folder / f"{name}.log").read_text()

    def check_nothing_left(self) -> None:
        """Wait until the workers have no results: one that was told to stop does so at its next look."""
        end_s = time.monotonic() + _WAIT_S
        while left := self._leftovers():
            assert time.monotonic() < end_s, left
            time.sleep(0.1)

    def _leftovers(self) -> list[str]:
        places = self.folder.glob("worker-*/dask-scratch-space/worker-*/wavebed/results/**/*")
        return [str(path.relative_to(self.folder)) for path in places]

    def _worker(self, number: int) -> subprocess.Popen[bytes]:
        name = f"worker-{number}"
        options = ["--nthreads", "1", "--resources", "lab=1", "--no-nanny", "--memory-limit", "0"]
        place = ["--local-directory", str(self.folder / name), "--host", "127.0.0.1", *_COMMON, *self._options]
        lock = {"WAVEBED_LOCK": str(self.folder / f"{name}.lock")}
        return self._start(name, ["worker", self.address, *options, *place], lock)

    def _start(self, name: str, words: list[str], variables: dict[str, str]) -> subprocess.Popen[bytes]:
        path = os.pathsep.join(self._path)
        self.folder.mkdir(exist_ok=True)
        with (self.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "dask", *words],
                env={**os.environ, "PYTHONPATH": path, **variables},
                stdout=log,
                stderr=log,
            )

    def _supervise(self) -> None:
        while not self._end.wait(0.2):
            for number, process in enumerate(self.workers):
                if process.poll() is not None:
                    self.workers[number] = self._worker(number)


def _forget_connections() -> None:
    """Free the sockets of connections that Tornado gave up: it leaves them open, and a later test would fail."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
