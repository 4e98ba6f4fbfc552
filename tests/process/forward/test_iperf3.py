"""The study's iperf3 commands beside our own test: what they print, and what it is worth."""

from __future__ import annotations

import json
import os
import stat
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest

from wavebed.errors import MachineError, WavebedError
from wavebed.forward.iperf3 import Iperf3Host, run_study_command, study_command
from wavebed.forward.model import InterfaceCounters

if TYPE_CHECKING:
    from pathlib import Path

# What iperf3 3.12 printed for the 18-byte command through a router made of veth interfaces; streams left out.
REAL = {
    "start": {"version": "iperf 3.12"},
    "intervals": [],
    "end": {
        "sum": {"seconds": 2.000859, "bits_per_second": 15751864.7, "lost_packets": 16308, "packets": 218840},
        "sum_sent": {"seconds": 2.000586, "bits_per_second": 15751864.7, "lost_packets": 0, "packets": 218840},
        "sum_received": {"seconds": 2.000859, "bits_per_second": 14576043.6, "lost_packets": 16308, "packets": 218840},
    },
}

# `ip netns exec NAME PROGRAM …` without namespaces, and an iperf3 that says what the test wrote down.
FAKE_IP = """
    import os, sys
    os.execvp(sys.argv[4], sys.argv[4:])
"""
FAKE_IPERF3 = """
    import os, sys, time
    if "-s" in sys.argv:
        print("Server listening on 5201 (test #1)", flush=True)
        time.sleep(30)
    open(os.environ["FAKE_SAID"] + ".argv", "w").write(" ".join(sys.argv[1:]))
    print(open(os.environ["FAKE_SAID"]).read())
"""


def counters(frames: int, size: int) -> InterfaceCounters:
    return InterfaceCounters(0, frames, frames * size, 0, 0, 0, 0, 0, 0, 0, 0, True, {})


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, body in (("ip", FAKE_IP), ("iperf3", FAKE_IPERF3)):
        (folder / name).write_text(f"#!{sys.executable}\n{textwrap.dedent(body)}")
        (folder / name).chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_SAID", str(tmp_path / "said"))
    monkeypatch.setattr("wavebed.forward.iperf3._READY_S", 60.0)
    monkeypatch.setattr("wavebed.forward.iperf3._BEYOND_S", 60.0)
    return tmp_path


def run(folder: Path, said: object, readings: list[InterfaceCounters], test: str = "overload"):
    (folder / "said").write_text(said if isinstance(said, str) else json.dumps(said))
    remaining = iter(readings)
    last = readings[-1]
    client, server = Iperf3Host("tx", "198.18.0.2"), Iperf3Host("rx", "198.18.1.2")
    return run_study_command(test, client, server, lambda: next(remaining, last), seconds=2)  # type: ignore[arg-type]


def test_frames_are_counted_at_the_interface_and_the_formula_is_set_beside_the_right_one(programs: Path) -> None:
    found = run(programs, REAL, [counters(1000, 60), counters(204_000, 60)])
    assert (found.frames, found.frame_bytes_mean, found.doubt) == (203_000, 64.0, "")
    assert found.pps == pytest.approx(203_000 / 2.000859)
    assert found.claimed_pps == pytest.approx((218_840 - 16_308) / 2.000859)
    assert found.claimed_mbps == pytest.approx(14.576, abs=0.001)
    # 14.576 Mbit/s of 18 B payload are 0.1012 Mpps; the study's formula makes 0.0217 of them, 4.67 times too low.
    assert found.conversion.corrected_mpps == pytest.approx(0.10122, abs=0.0001)
    assert found.conversion.study_mpps == pytest.approx(0.02169, abs=0.0001)
    assert found.conversion.factor == pytest.approx(84 / 18)


def test_an_interface_that_counts_behind_the_ethernet_header_is_understood(programs: Path) -> None:
    # As veth does with NAPI: 46 bytes for the 60 of the frame.
    found = run(programs, REAL, [counters(0, 46), counters(203_000, 46)])
    assert (found.frame_bytes_mean, found.doubt) == (64.0, "")


def test_the_commands_are_the_studys(programs: Path) -> None:
    assert " ".join(study_command("S", 18, 10)).startswith("iperf3 -u -c S -b 1000M -P 10 -i 1 -l 18 ")
    found = run(programs, REAL, [counters(0, 60), counters(100, 60)], test="throughput")
    assert (programs / "said.argv").read_text() == "-u -c 198.18.1.2 -b 1000M -P 10 -i 1 -l 1472 -t 2 -J"
    told = found.for_record()
    assert told["conversion"]["factor"] == pytest.approx(1518 / 1472, rel=0.02)  # type: ignore[index, call-overload]
    assert told["command"] == "iperf3 -u -c 198.18.1.2 -b 1000M -P 10 -i 1 -l 1472 -t 2 -J"


def test_super_packets_are_not_counted_as_small_ones(programs: Path) -> None:
    found = run(programs, REAL, [counters(0, 60), counters(3_000, 1194)])
    assert "frames of 1198 B on average arrived, not of 64 B: super-packets" in found.doubt


def test_nothing_that_arrives_is_said(programs: Path) -> None:
    assert run(programs, REAL, [counters(5, 60)]).doubt == "no frame arrived at the interface"


def test_an_older_iperf3_with_one_sum_is_read(programs: Path) -> None:
    old = {"start": {"version": "iperf 3.1.3"}, "end": {"sum": REAL["end"]["sum"]}}  # type: ignore[index]
    assert run(programs, old, [counters(0, 60), counters(9, 60)]).claimed_pps == pytest.approx(101_223, abs=1)


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({"error": "unable to connect to server: No route to host"}, "iperf3: unable to connect to server: No route"),
        ("hello", "is not the JSON of iperf3"),
        ({"start": {}, "end": {}}, "is not the JSON of iperf3"),
    ],
)
def test_an_iperf3_that_fails_says_why(programs: Path, said: object, error: str) -> None:
    with pytest.raises(WavebedError, match=error):
        run(programs, said, [counters(0, 60)])


def test_a_missing_iperf3_is_the_machines_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MachineError, match="install iproute2 and iperf3"):
        run(tmp_path, REAL, [counters(0, 60)])
