"""A forwarding test from its specification to its folder, in virtual time; its sample of frames, read by tshark."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import TYPE_CHECKING

from msgspec.structs import replace
from tests.forked import forked
from tests.unit.forward.fakes import FakeDevice
from tests.unit.forward.test_record import folder  # noqa: F401
from tests.unit.forward.test_run import (  # noqa: F401
    OPTIONS,
    Heard,
    _virtual,
    broken_off,
    ends_in,
    in_fake,
    setup_of,
    spec_of,
    stored_parts,
)

from wavebed.cli import main
from wavebed.experiment.machine_lock import VARIABLE, measuring
from wavebed.forward.folder import ForwardRecord, capture, read_forward, write_forward
from wavebed.forward.model import SampledFrame
from wavebed.forward.result import verdict_of
from wavebed.forward.run import Teller, measure
from wavebed.store.journal import TrialBegun, read_journal

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_another_run_on_the_machine_is_a_doubt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "lock"))
    read, write = os.pipe()

    def hold() -> None:
        with measuring():
            os.write(write, b"held")
            signal.pause()

    other = forked(hold)
    os.close(write)
    assert os.read(read, 4) == b"held"
    os.close(read)
    result, _ = measure(spec_of(tests="overload"), setup_of(FakeDevice(capacity_pps=60_000)), Teller(Heard()), {})
    os.kill(other, signal.SIGKILL)
    os.waitpid(other, 0)
    assert result.doubts.count(f"another run measured at the same time (process {other})") == 1
    result, _ = measure(spec_of(tests="overload"), setup_of(FakeDevice(capacity_pps=60_000)), Teller(Heard()), {})
    assert not any("another run" in doubt for doubt in result.doubts)


def test_a_killed_test_keeps_the_parts_that_had_ended_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    child = forked(lambda: broken_off(tmp_path, monkeypatch, "search 64", lambda: os.kill(os.getpid(), signal.SIGKILL)))
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["journal.jsonl", "raw", "run.json", "series"]
    result = read_forward(tmp_path / "run").result
    assert [one.name for one in result.overload] == ["throughput", "overload"]
    assert all(one.received is not None for one in result.overload)
    assert stored_parts(tmp_path / "run") == ["throughput", "overload"]
    last = read_journal(tmp_path / "run")[-1]
    assert isinstance(last, TrialBegun)
    assert last.trial == "search 64"
    assert verdict_of(result) == "suspect"
    said = "the test did not reach its end"
    assert main(["report", str(tmp_path / "run")]) == 0
    assert said in (tmp_path / "run/report.html").read_text()
    write_forward(tmp_path / "whole", ForwardRecord(replace(result, device="whole", refusals=())))
    capsys.readouterr()
    assert main(["compare", str(tmp_path / "run"), str(tmp_path / "whole")]) == 0
    assert said in capsys.readouterr().out


def test_a_test_killed_before_its_first_part_ended_leaves_no_empty_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = forked(
        lambda: broken_off(tmp_path, monkeypatch, "throughput", lambda: os.kill(os.getpid(), signal.SIGKILL))
    )
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    result = read_forward(tmp_path / "run").result
    assert (result.overload, verdict_of(result)) == ((), "invalid")


def test_the_sample_has_frames_of_every_size_and_of_what_was_refused(folder: Path) -> None:
    done = subprocess.run(
        ["tshark", "-r", str(folder / "raw" / "sample.pcapng"), "-T", "fields", "-e", "frame.len"],
        check=True, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    lengths = done.stdout.split()
    assert len(lengths) == 2 * (7 + 1 + 1), "two frames of each size, of the mix, and of the refused trial"
    assert {"60", "124", "1514"} <= set(lengths)


MACS = bytes.fromhex("020000000002020000000001")


def udp_frame(payload: int) -> bytes:
    """Make an Ethernet frame without FCS: IPv4, UDP, so many bytes of zeros."""
    udp = bytes.fromhex("c000c001") + (8 + payload).to_bytes(2) + bytes(2)
    total = (20 + 8 + payload).to_bytes(2)
    ip = (
        bytes.fromhex("4500")
        + total
        + bytes.fromhex("00000000401100 00".replace(" ", ""))
        + bytes((198, 18, 0, 2, 198, 18, 1, 2))
    )
    return MACS + bytes.fromhex("0800") + ip + udp + bytes(payload)


def read(file: Path, *fields: str) -> list[list[str]]:
    picked = [part for field in fields for part in ("-e", field)]
    done = subprocess.run(
        ["tshark", "-r", str(file), "-T", "fields", *picked], check=True, capture_output=True, text=True, timeout=120
    )
    return [line.split("\t") for line in done.stdout.splitlines()]


def test_tshark_confirms_the_lengths_and_the_time_stamps(tmp_path: Path) -> None:
    small, large = udp_frame(18), udp_frame(1472)
    file = tmp_path / "sample.pcapng"
    file.write_bytes(
        capture([SampledFrame(5_000_000_123, 60, small), SampledFrame(90_000_000_000_001, 1514, large)], "veth-rx")
    )
    assert read(file, "frame.len", "frame.time_epoch", "udp.length", "frame.interface_name") == [
        ["60", "5.000000123", "26", "veth-rx"],
        ["1514", "90000.000000001", "1480", "veth-rx"],
    ]


def test_a_frame_of_which_the_first_bytes_were_kept_has_its_whole_length(tmp_path: Path) -> None:
    file = tmp_path / "sample.pcapng"
    file.write_bytes(capture([SampledFrame(1, 1514, udp_frame(1472)[:61])], "eth0"))
    assert read(file, "frame.len", "frame.cap_len") == [["1514", "61"]]


def test_a_capture_of_nothing_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "sample.pcapng"
    file.write_bytes(capture([], "eth0"))
    assert read(file, "frame.len") == []
