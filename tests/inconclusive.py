"""Tests of `tests/measure` that fail on a late machine are inconclusive: neither passed nor failed, and counted.

A test ends as inconclusive in one of three ways. It skips itself with `inconclusive: …`, because the engine was late.
Its trial is invalid, and the program names a late engine as the reason. Its assertion or its limit fails, and the
machine was late while the test ran (`tests.machine`), or while a fixture that it shares measured. The failed assertion
is reported in all cases.
"""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest
from tests.machine import BORNE, Lateness, Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from _pytest.fixtures import FixtureDef
    from _pytest.terminal import TerminalReporter

__all__ = ["Inconclusive"]

WORD = "inconclusive: "
JUDGED = (AssertionError, TimeoutError, subprocess.TimeoutExpired)
"""What lateness can lead to. Anything else is a fault on any machine."""

ENGINE_LATE = re.compile(r"is invalid: check failed: (engine on time: [^\n]*)")
"""How the program says that a trial is invalid, because its engine was late."""

SHARED = ("class", "module", "package")
"""Scopes of fixtures that measure for some tests; those of a session only prepare."""


class Inconclusive:
    """The part of pytest that looks at the machine, and counts the tests that it left open."""

    def __init__(self, judges: Callable[[pytest.Item], bool], watch: Callable[[], Watch] = Watch) -> None:
        self._judges = judges
        self._new_watch = watch
        self._watch: Watch | None = None
        self._watched = False
        self._so_far: list[Lateness] = []
        self._of_fixture: dict[str, list[Lateness]] = {}
        self._run = 0
        self._open = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self._watched = self._judges(item)
        self._so_far = []
        if self._watched:
            self._watch = (self._watch or self._new_watch()).begin()

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: FixtureDef[object]) -> Generator[None, object, object]:
        before = len(self._so_far)
        try:
            return (yield)
        finally:
            if fixturedef.scope in SHARED and self._watched and self._watch is not None:
                self._so_far.append(self._watch.end())
                self._of_fixture[fixturedef.argname] = self._so_far[before:]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        failed = report.failed and call.excinfo is not None and isinstance(call.excinfo.value, JUDGED)
        if not failed or self._watch is None or not self._judges(item):
            return report
        said = ENGINE_LATE.search(str(call.excinfo.value)) if call.excinfo else None
        reason = self._late(item) or (said[1] if said else "")
        if reason:
            report.sections.append(("what did not hold", str(report.longrepr)))
            line = str(call.excinfo.value).strip().splitlines()[0] if call.excinfo and str(call.excinfo.value) else ""
            path, number, _ = report.location
            report.outcome = "skipped"
            report.longrepr = (path, (number or 0) + 1, f"Skipped: {WORD}{reason}; what did not hold: {line}")
        return report

    def _late(self, item: pytest.Item) -> str:
        """Return why the machine was late while the test ran or what it shares was made; empty if it was not."""
        assert self._watch is not None
        self._so_far.append(self._watch.end())
        shared = [late for name in getattr(item, "fixturenames", ()) for late in self._of_fixture.get(name, ())]
        return next((reason for late in (*self._so_far, *shared) if (reason := late.reason(BORNE))), "")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._run += report.when == "call"
        if report.skipped and isinstance(report.longrepr, tuple) and WORD in report.longrepr[2]:
            self._open += 1

    def pytest_sessionfinish(self) -> None:
        if self._watch is not None:
            self._watch.close()

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        if self._open:
            terminalreporter.section(f"{self._open} of {self._run} tests were inconclusive", sep="-")
