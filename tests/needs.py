"""What a test may use follows from its folder; a test that uses more fails.

`tests/unit` and `tests/validation` compute: no process, no socket beyond a socketpair, no sleep. `tests/process` starts
programs, but no laboratory. `tests/lab` starts laboratories. `tests/browser` drives Chromium. `tests/measure` judges
times of the real machine, and only there a test may end as inconclusive.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from wavebed._core import find_core

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["FOLDERS", "Needs", "Use", "judges_times"]

TESTS = Path(__file__).parent
UNIT_LIMIT_S = 1.0
"""Processor time of a unit test on a quiet machine."""
NOISE = 12.0
"""Shared caches, memory and disks lengthen processor time too: six programs on two processors, up to six times.

A test beyond its limit is listed. A test beyond this multiple of its limit fails.
"""
REFERENCE_S = 0.02
"""Processor time of the reference work on an EPYC of 2026. A slower processor raises the limit."""

PROCESS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "pty.spawn"}
SOCKET = {"socket.bind", "socket.connect"}


@dataclass(frozen=True, slots=True)
class Use:
    """What tests of a folder may use.

    Parameters
    ----------
    programs, sockets, sleeps : bool
        Whether they may start processes, bind or connect sockets, and sleep.
    limit_s : float or None
        Most processor time of one test, seconds.
    inconclusive : bool
        Whether they judge the real machine, so that a late one leaves them open.
    """

    programs: bool = True
    sockets: bool = True
    sleeps: bool = True
    limit_s: float | None = None
    inconclusive: bool = False


FOLDERS = {
    "unit": Use(programs=False, sockets=False, sleeps=False, limit_s=UNIT_LIMIT_S),
    "validation": Use(programs=False, sockets=False, sleeps=False),
    "process": Use(),
    "lab": Use(),
    "browser": Use(),
    "docs": Use(),
    "measure": Use(inconclusive=True),
}


def folder_of(path: Path) -> str:
    """Return the name of the folder beneath `tests` that has a file; empty if none has."""
    return path.relative_to(TESTS).parts[0] if path.is_relative_to(TESTS) else ""


def judges_times(item: pytest.Item) -> bool:
    """Return whether a test is of a folder whose tests a late machine leaves open."""
    rule = FOLDERS.get(folder_of(item.path))
    return rule is not None and rule.inconclusive


class Needs:
    """The part of pytest that holds tests to the rules of their folder."""

    def __init__(self) -> None:
        self._rule: Use | None = None
        self._used: list[str] = []
        self._long: list[str] = []
        self._sleep = time.sleep
        sys.addaudithook(self._on_event)
        time.sleep = self._on_sleep

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Refuse a test outside the folders."""
        for item in items:
            if (name := folder_of(item.path)) and name not in FOLDERS:
                raise pytest.UsageError(f"{item.nodeid}: tests are in {', '.join(FOLDERS)} of tests/, not in {name}")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Apply the rule of a test's folder."""
        folder = folder_of(item.path)
        self._rule, self._used = FOLDERS.get(folder), []
        core = _core_without_laboratories() if folder == "process" else {}
        os.environ.update(core)
        try:
            return (yield)
        finally:
            self._rule = None
            for name in core:
                os.environ.pop(name, None)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Fail a test that used what its folder has not, or too much processor time."""
        rule, began_s = self._rule, time.process_time()
        result = yield
        took_s = time.process_time() - began_s
        if self._used:
            pytest.fail(f"tests/{folder_of(item.path)} has no {self._used[0]}")
        if rule is not None and rule.limit_s is not None and took_s > rule.limit_s:
            slower = max(1.0, _reference_s() / REFERENCE_S)
            if took_s > rule.limit_s * NOISE * slower:
                pytest.fail(f"{took_s:.2f} s of processor time; a test of this folder has at most {rule.limit_s:g} s")
            if took_s > rule.limit_s * slower:
                self._long.append(f"{took_s:5.2f} s  {item.nodeid}")
        return result

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """List tests that took longer than their folder allows on a quiet machine."""
        if self._long:
            terminalreporter.section("tests that may be too long for their folder (processor time)")
            terminalreporter.write_line("\n".join(self._long))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Fail a test that ends as inconclusive outside `tests/measure`."""
        report = yield
        rule = FOLDERS.get(folder_of(item.path))
        said = report.longrepr[2] if report.skipped and isinstance(report.longrepr, tuple) else ""
        if "inconclusive: " in said and rule is not None and not rule.inconclusive:
            report.outcome = "failed"
            report.longrepr = f"a test that a late machine leaves open belongs to tests/measure: {said}"
        return report

    def _on_event(self, event: str, arguments: tuple[object, ...]) -> None:
        rule = self._rule
        if rule is None:
            return
        if event in PROCESS and not rule.programs:
            self._refuse(f"process: {event} {arguments[:2]!r}")
        elif event in SOCKET and not rule.sockets:
            self._refuse(f"socket: {event} {arguments[1:]!r}")

    def _on_sleep(self, seconds: float) -> None:
        rule = self._rule
        if rule is not None and not rule.sleeps and seconds > 0:
            self._refuse(f"sleep: {seconds} s")
        self._sleep(seconds)

    def _refuse(self, what: str) -> None:
        self._used.append(what)
        if threading.current_thread() is threading.main_thread():
            pytest.fail(f"not allowed in this folder: {what}")


def _core_without_laboratories() -> dict[str, str]:
    """Return the variables by which a program takes the place of wavebed-core and refuses to make a laboratory."""
    return {"WAVEBED_REAL_CORE": find_core(), "WAVEBED_CORE": str(TESTS / "process" / "core")}


def _reference_s() -> float:
    """Return the processor time of the reference work, as the machine is now: the mean of five."""
    began_s = time.process_time()
    for _ in range(5):
        sum(number * number for number in range(300_000))
    return (time.process_time() - began_s) / 5
