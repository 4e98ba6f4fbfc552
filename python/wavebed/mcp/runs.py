"""The run of a server: one at a time, in the server's folder, bounded in trials and time."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct, json

from wavebed.beneath import guard, remove_tree
from wavebed.campaign.status import status_of
from wavebed.errors import WavebedError
from wavebed.mcp.processes import POLL_S, Child, ToolError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from wavebed.config.data import Json
    from wavebed.mcp.processes import Ended

_RUN_FILE = "run.json"
_NEVER = threading.Event()
_WRITES_S = 10.0
"""The laboratory of a run that was killed may write into its folder for this long at most."""


class RunProgress(Struct):
    """The progress of a run; `left_s` is an estimate."""

    trials: int
    stored: int
    verdicts: dict[str, int]
    left_s: float | None
    current: str | None


class RunAnswer(Struct):
    """A run.

    Parameters
    ----------
    state : str
        ``running``; ``ended``; ``failed``: see `reason`; ``stopped``: it took too long, finished trials are kept;
        ``cancelled``: its folder is removed; ``interrupted`` or ``killed``: a run of an earlier session.
    results : object
        Of a run that ended: medians by workload, metric and treatment (output/run).
    """

    run: str
    state: Literal["running", "ended", "failed", "stopped", "cancelled", "interrupted", "killed"]
    reason: str = ""
    progress: RunProgress | None = None
    results: dict[str, Any] | None = None


class _Run:
    """A run of this session."""

    def __init__(self, name: str, folder: Path, child: Child, most_s: float, at_end: Callable[[], None]) -> None:
        self.name = name
        self.folder = folder
        self.child = child
        self._at_end = at_end
        self.until_s = time.monotonic() + most_s
        self.answer: RunAnswer | None = None

    def over(self, answer: RunAnswer) -> RunAnswer:
        """Note its outcome; its process has ended."""
        self._at_end()
        self.answer = answer
        return answer


class Runs:
    """The runs of a server.

    Parameters
    ----------
    folder : pathlib.Path
        Where their folders are.
    most_s : float
        Time of a run.
    """

    def __init__(self, folder: Path, most_s: float) -> None:
        guard(folder)
        self._folder = folder
        self._most_s = most_s
        self._lock = threading.Lock()
        self._runs: dict[str, _Run] = {}
        self._last: _Run | None = None
        self._closed = False

    def start(self, title: str, arguments: Sequence[str], at_end: Callable[[], None] = lambda: None) -> str:
        """Start a run and return its name.

        Parameters
        ----------
        title : str
            What its folder is named after.
        arguments : sequence of str
            Of ``wavebed run``, without the folder.
        at_end : callable
            Called at the end of the run, but not if the run is not started.

        Raises
        ------
        ToolError
            If one runs.
        """
        with self._lock:
            if self._closed:
                raise ToolError("the server ends")
            if self._last is not None and self._last.answer is None:
                raise ToolError(f"run {self._last.name} is not over: wait for it by status, or end it by cancel")
            stem = f"{title}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
            names = (_numbered(stem, number) for number in range(1, 1000))
            name = next(each for each in names if each not in self._runs and not (self._folder / each).exists())
            folder = self._folder / name
            child = Child("wavebed", ["run", *arguments, "--json", "-o", str(folder)], self._folder)
            self._last = self._runs[name] = _Run(name, folder, child, self._most_s, at_end)
            threading.Thread(target=self._attend, args=(self._last,), name=name, daemon=True).start()
        return name

    def _attend(self, run: _Run) -> None:
        """Wait for the end of a run, or end it when its time is over."""
        ended = run.child.wait(run.until_s - time.monotonic(), lambda: run.answer is None)
        with self._lock:
            if run.answer is not None:
                return
            if not ended:
                run.child.stop()
                run.child.close()
                reason = f"it took more than {self._most_s:g} s"
                run.over(RunAnswer(run.name, "stopped", reason, self._progress(run)))
                return
            run.child.stop()  # what it may have left in its session
            run.over(self._ended(run, run.child.close()))

    def _ended(self, run: _Run, ended: Ended) -> RunAnswer:
        results = None
        with suppress(ValueError):
            results = json.decode(ended.out)
        if ended.status == 0 and isinstance(results, dict):
            return RunAnswer(run.name, "ended", "", self._progress(run), results)
        reason = ended.reason if results is None else "a treatment has no valid trial"
        return RunAnswer(run.name, "failed", reason, self._progress(run), results)

    def cancel(self, name: str) -> RunAnswer:
        """End a run and remove its folder.

        Raises
        ------
        ToolError
            If no such run is running.
        """
        with self._lock:
            run = self._runs.get(name)
            if run is None or run.answer is not None:
                raise ToolError(f"run {name} is not running in this session")
            run.child.stop()
            run.child.close()
            _remove(run.folder)
            return run.over(RunAnswer(name, "cancelled"))

    def close(self) -> None:
        """End the run that is not over, and take no other one."""
        with self._lock:
            self._closed, last = True, self._last
        if last is not None:
            with suppress(ToolError):
                self.cancel(last.name)

    def answer(
        self,
        name: str | None,
        wait_s: float,
        cancelled: threading.Event = _NEVER,
        tell: Callable[[RunProgress], None] = lambda _: None,
    ) -> RunAnswer:
        """Return what became of a run, or how far it is; wait at most `wait_s` for its end.

        Parameters
        ----------
        cancelled : threading.Event
            Set by another thread to end the wait.
        tell : callable
            Gets the progress about once a second.

        Raises
        ------
        ToolError
            If there is no such run.
        """
        run = self._last if name is None else self._runs.get(name)
        if run is None:
            return self._earlier(name)
        until_s = time.monotonic() + wait_s
        told_s = 0.0
        while run.answer is None and time.monotonic() < until_s and not cancelled.wait(0.05):
            if time.monotonic() >= told_s + 1.0:
                told_s = time.monotonic()
                if (progress := self._progress(run)) is not None:
                    tell(progress)
        return run.answer or RunAnswer(run.name, "running", "", self._progress(run))

    def _earlier(self, name: str | None) -> RunAnswer:
        """Return the state and the results of a run of an earlier session."""
        if name is None:
            raise ToolError("nothing was run in this session: name a run")
        try:
            status = status_of(self._folder / name)
        except WavebedError as error:
            raise ToolError(str(error)) from None
        results = None if status.state == "running" else _results_of(self._folder / name)
        return RunAnswer(name, status.state, status.reason, _progress_of(self._folder / name), results)  # type: ignore[arg-type]

    def _progress(self, run: _Run) -> RunProgress | None:
        return _progress_of(run.folder)

    def names(self) -> list[str]:
        """Return the names of all runs in the folder."""
        return sorted(file.parent.name for file in self._folder.glob(f"*/{_RUN_FILE}"))


def _remove(folder: Path) -> None:
    """Remove the folder of a run that has ended; its laboratory ends by itself, and may still make files."""
    until_s = time.monotonic() + _WRITES_S
    while True:
        remove_tree(folder)
        if not folder.exists() or time.monotonic() >= until_s:
            return
        time.sleep(POLL_S)


def _progress_of(folder: Path) -> RunProgress | None:
    """Return the progress from the journal; ``None`` before it has begun."""
    try:
        status = status_of(folder)
    except (WavebedError, OSError):
        return None
    verdicts: dict[str, int] = {}
    for verdict in status.stored.values():
        verdicts[verdict] = verdicts.get(verdict, 0) + 1
    current = None if status.current is None else status.current.trial
    return RunProgress(status.planned, len(status.stored), verdicts, status.left_s, current)


def _results_of(folder: Path) -> dict[str, Json] | None:
    """Return the medians as ``wavebed run --json`` prints them; ``None`` without a trial."""
    from wavebed.report.metrics import summary_json

    report = folder / "report.html"
    try:
        return summary_json(folder, report if report.is_file() else None)
    except (WavebedError, OSError):
        return None


def _numbered(stem: str, number: int) -> str:
    return stem if number == 1 else f"{stem}-{number}"
