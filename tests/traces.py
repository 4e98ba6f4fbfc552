"""Real traces, which are not part of the repository, and made-up excerpts in their formats that stand in for them.

Tests of formats and of replay always run on the made-up ones. What only the real ones can show is left out where they
are absent, and counted apart.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

__all__ = ["FOLDER", "SECONDS", "WORD", "Absent", "trace"]

FOLDER = Path(os.environ.get("WAVEBED_TRACES", Path(__file__).parents[1] / ".." / "shared" / "traces"))
WORD = "trace not present"
SECONDS = 20


def trace(name: str, folder: Path) -> Path:
    """Return a trace by its name: one made up in `folder`, or a real one; skip the test where that is absent."""
    if name in _MADE_UP:
        path = folder / name
        path.write_text(_MADE_UP[name](random.Random(name)))
        return path
    if not (FOLDER / name).exists():
        pytest.skip(WORD)
    return FOLDER / name


class Absent:
    """The part of pytest that counts the tests for which a real trace was absent."""

    def __init__(self) -> None:
        self._left_out = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._left_out += report.skipped and isinstance(report.longrepr, tuple) and WORD in report.longrepr[2]

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        if self._left_out:
            said = f"{self._left_out} tests were left out: no real traces (WAVEBED_TRACES names their folder)"
            terminalreporter.section(said, sep="-")


def _walk(rng: random.Random) -> str:
    """Seconds and Mbit/s: a mmWave walk with a second without signal."""
    rates = [0.0 if second == 12 else rng.randrange(50, 1900) for second in range(SECONDS)]
    return "".join(f"{second + 1:.1f}\t{rate:.1f}\n" for second, rate in enumerate(rates))


def _lte(rng: random.Random) -> str:
    """Milliseconds at which a packet of 1500 bytes may leave: LTE at 2 to 40 Mbit/s."""
    times: list[int] = []
    for second in range(SECONDS):
        times += sorted(rng.randrange(1000) + 1000 * second for _ in range(rng.randrange(170, 3300)))
    return "".join(f"{time}\n" for time in [*times, SECONDS * 1000])


def _sinr(rng: random.Random) -> str:
    rows = [f"{10 * row}.5,CONNECTED,-65,-76,{rng.randrange(5, 25)},{rng.uniform(1, 3000):.6f}" for row in range(30)]
    return "Timestamp,nrStatus,LTE_RSRP,nr_ssRsrp,nr_ssSinr,downlink_Mbps\n" + "\n".join(rows) + "\n"


def _probes(rng: random.Random) -> str:
    rows = [f"5G-NSA-mmWave,Operator,{row / 10},{rng.randrange(40, 1500)},5,YEP" for row in range(30)]
    return "enabled_radio_type,carrier,interval,RTT1,active_radio_type,KeepOrDrop\n" + "\n".join(rows) + "\n"


_MADE_UP = {
    "made-up-walk.txt": _walk,
    "made-up-lte.down": _lte,
    "made-up-sinr.csv": _sinr,
    "made-up-probes.csv": _probes,
}
