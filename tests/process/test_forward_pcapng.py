"""A sample of frames as a capture: what tshark reads is what crossed the port."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from wavebed.forward.model import Sample
from wavebed.forward.pcapng import capture

if TYPE_CHECKING:
    from pathlib import Path

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
    file.write_bytes(capture([Sample(5_000_000_123, 60, small), Sample(90_000_000_000_001, 1514, large)], "veth-rx"))
    assert read(file, "frame.len", "frame.time_epoch", "udp.length", "frame.interface_name") == [
        ["60", "5.000000123", "26", "veth-rx"],
        ["1514", "90000.000000001", "1480", "veth-rx"],
    ]


def test_a_frame_of_which_the_first_bytes_were_kept_has_its_whole_length(tmp_path: Path) -> None:
    file = tmp_path / "sample.pcapng"
    file.write_bytes(capture([Sample(1, 1514, udp_frame(1472)[:61])], "eth0"))
    assert read(file, "frame.len", "frame.cap_len") == [["1514", "61"]]


def test_a_capture_of_nothing_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "sample.pcapng"
    file.write_bytes(capture([], "eth0"))
    assert read(file, "frame.len") == []
