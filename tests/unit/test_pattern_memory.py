"""Reading a trace takes at most four times the size of its file."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from wavebed.pattern import read_trace
from wavebed.pattern.statistics import summarise

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NATIVE = "# wavebed pattern 1\n# kind = {}\n# duration_s = 10000000\ntime_s,{}\n"


def native(rows: int) -> str:
    head = NATIVE.format("steps", "rate_bps")
    return head + "".join(f"{row // 1000}.{row % 1000:03d},{10**7 + row % 9999}\n" for row in range(rows))


def mahimahi(rows: int) -> str:
    return "".join(f"{10**6 + row}\n" for row in range(rows))


def kaunet(rows: int) -> str:
    return ",".join(f"{row},{10**6 + row % 99}" for row in range(rows)) + "\n"


GROWTH = """
import sys
from wavebed.pattern import read_trace
from wavebed.pattern.statistics import summarise

def most_kib():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))

most = []
for file in sys.argv[2:]:
    summarise(read_trace(file, sys.argv[1]))
    most.append(most_kib())
print((most[1] - most[0]) * 1024)
"""


@pytest.mark.parametrize("form", [native, mahimahi, kaunet], ids=lambda form: form.__name__)
def test_reading_takes_at_most_four_times_the_size_of_the_file(form: Callable[[int], str], tmp_path: Path) -> None:
    small, large = tmp_path / "small", tmp_path / "large"
    # The small one has what is held of files of any size: the interpreter, and a block of lines.
    small.write_text(form(150_000))
    large.write_text(form(1_000_000))
    command = [sys.executable, "-c", GROWTH, form.__name__, str(small), str(large)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 4 * (large.stat().st_size - small.stat().st_size)


def test_a_long_pattern_of_few_rows_has_few_windows(tmp_path: Path) -> None:
    file = tmp_path / "trace"
    file.write_text(NATIVE.format("opportunities", "bytes") + "0,1500\n")
    window_ns = summarise(read_trace(file)).rate_window_ns
    assert window_ns is not None
    assert 10**7 * 10**9 / window_ns <= 10**6
