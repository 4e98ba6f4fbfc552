"""Reading a trace takes at most four times the size of its file."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tests.samples_by_seed import sample

from wavebed.pattern import read_trace
from wavebed.pattern.curves import summarise

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NATIVE = "# wavebed pattern 1\n# kind = {}\n# duration_s = 10000000\ntime_s,{}\n"


def native(rows: int) -> str:
    head = NATIVE.format("steps", "rate_bps")
    return head + "".join(f"{row // 1000}.{row % 1000:03d},{10**7 + row % 9999}\n" for row in range(rows))


def native_sinr(rows: int) -> str:
    head = NATIVE.format("steps", "rate_bps,sinr_db,need_db")
    return head + "".join(
        f"{row // 1000}.{row % 1000:03d},{10**7 + row % 9999},{row % 40 - 9}.{row % 999:03d},{row % 30 - 5}.{row % 7}\n"
        for row in range(rows)
    )


def mahimahi(rows: int) -> str:
    return "".join(f"{10**6 + row}\n" for row in range(rows))


def kaunet(rows: int) -> str:
    return ",".join(f"{row},{10**6 + row % 99}" for row in range(rows)) + "\n"


def cellreplay_heavy(rows: int) -> str:
    return mahimahi(rows)


def cellreplay_light(rows: int) -> str:
    return "".join(f"{10**6 + row} {20 + row % 30} 0 1\n" for row in range(rows))


def seconds_mbit(rows: int) -> str:
    return "".join(f"{1 + row}.0 {row % 999}.{row % 97:03d}\n" for row in range(rows))


def lumos5g(rows: int) -> str:
    head = "run_num,seq_num,abstractSignalStr,latitude,longitude,nrStatus,Throughput\n"
    return head + "".join(
        f"1,{1 + row},2,44.97{row % 1000:03d},-93.25{row % 777:03d},CONNECTED,{row % 1999}\n" for row in range(rows)
    )


def ns3_mmwave(rows: int) -> str:
    head = "\ttime\tframe\tsubF\tslot\t1stSym\tsymbol#\tcellId\trnti\tccId\ttbSize\tmcs\trv\tSINR(dB)\tcorrupt\tTBler\n"
    return head + "".join(
        f"DL\t{row // 4000}.{row % 4000 * 250:06d}\t0\t0\t0\t1\t12\t1\t1\t0\t{row % 9999}\t28\t0\t37.2\t0\t0\n"
        for row in range(rows)
    )


def theaterq(rows: int) -> str:
    return "".join(f"1000,{20_000_000 + row},{10**8 + row % 999},0,1000\n" for row in range(rows))


def netem_trace(rows: int) -> str:
    steps = (f'{{"bw": "{1 + row % 999}Mbps", "duration": "10ms"}}' for row in range(rows))
    return "[" + ",\n".join(f'{{"StaticBwConfig": {step}}}' for step in steps) + "]\n"


def table(rows: int) -> str:
    return "t;dl\n" + "".join(f"{row // 1000}.{row % 1000:03d};{row % 999}.5\n" for row in range(rows))


GROWTH = """
import sys
from wavebed.pattern import ReadOptions, read_trace
from wavebed.pattern.curves import summarise

def most_kib():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))

form = sys.argv[1]
options = ReadOptions(columns=("time=t:s", "rate=dl:mbit")) if form == "table" else ReadOptions()
most = []
for file in sys.argv[2:]:
    summarise(read_trace(file, form, options))
    most.append(most_kib())
print((most[1] - most[0]) * 1024)
"""
FORMS = (
    native, native_sinr, mahimahi, kaunet, cellreplay_heavy, cellreplay_light, seconds_mbit, lumos5g, ns3_mmwave,
    theaterq, netem_trace, table,
)  # fmt: skip
SHORT_LINES = (native, mahimahi, kaunet, cellreplay_heavy)


@pytest.mark.parametrize("form", sample(FORMS, 1), ids=lambda form: form.__name__)
def test_reading_takes_at_most_four_times_the_size_of_the_file(form: Callable[[int], str], tmp_path: Path) -> None:
    small, large = tmp_path / "small", tmp_path / "large"
    # The small one has what is held of files of any size: the interpreter, and a block of lines.
    small.write_text(form(150_000))
    # Python takes memory by the MiB: of a smaller file, one such block more is a tenth.
    large.write_text(form(3_000_000 if form in SHORT_LINES else 600_000))
    command = [
        sys.executable,
        "-c",
        GROWTH,
        form.__name__.removesuffix("_sinr").replace("_", "-"),
        str(small),
        str(large),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    growth = int(done.stdout) / (large.stat().st_size - small.stat().st_size)
    assert growth < 4, f"{growth:.1f} times the size of the file"


def test_a_long_pattern_of_few_rows_has_few_windows(tmp_path: Path) -> None:
    file = tmp_path / "trace"
    file.write_text(NATIVE.format("opportunities", "bytes") + "0,1500\n")
    window_ns = summarise(read_trace(file)).rate_window_ns
    assert window_ns is not None
    assert 10**7 * 10**9 / window_ns <= 10**6
