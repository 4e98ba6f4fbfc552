"""Made-up recordings of handovers, in the form of those in `shared/data/m2ho`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["COMMANDS", "HEAD", "MadeUpHandover", "events_text", "write_recording"]

HEAD = "phone_time,modem_time,direction,channel,technology,message,details\n"
COMMANDS = {
    "scg": "ENDC SN Release Request / Split Bearer Config / keyToUse : secondary",
    "lte": "ENDC LTE HO Request(DiffLTE-SameNR) / Split Bearer Config",
    "addition": "ENDC LTE HO Request(DiffLTE-DiffNR) / Split Bearer Config",
    "release": "Split Bearer Config / Split Bearer Config (Primary Path: MCG / ul-DataSplitThreshold: infinity)",
}
STARTED_S = 6.5 * 3600
"""Of a transfer: 06:30 UTC."""


@dataclass(frozen=True)
class MadeUpHandover:
    """A command, its answers in milliseconds after it, and how long nothing arrives."""

    kind: str
    at_s: float
    completed_ms: int = 20
    access_ms: int = 70
    gap_s: float = 0.2


def clock(time_s: float) -> str:
    ms = round(1000 * time_s) % 86_400_000
    return f"{ms // 3_600_000:02d}:{ms // 60_000 % 60:02d}:{ms // 1000 % 60:02d}.{ms % 1000:03d}"


def events_text(handovers: Sequence[MadeUpHandover], zone_s: float = -8 * 3600, modem_s: float = 17.5) -> str:
    """Return a file of messages; the phone logs each one 5 to 30 ms after its modem."""
    lines = []
    for number, each in enumerate(handovers):
        messages = [
            (0, "LTE rrcConnectionReconfiguration", COMMANDS[each.kind]),
            (each.completed_ms, "LTE rrcConnectionReconfigurationComplete", ""),
            (each.access_ms, "5GNR MAC RACH Attempt", "SUCCESS"),
        ]
        for place, (after_ms, message, details) in enumerate(messages):
            if each.kind == "release" and message.startswith("5GNR"):
                continue
            true_s = STARTED_S + zone_s + each.at_s + after_ms / 1000
            late_s = (5, 30, 17)[(number + place) % 3] / 1000
            lines.append(
                (true_s, f'{clock(true_s + late_s)},{clock(true_s + modem_s)},<---,UL,LTE,{message},"{details}"\n')
            )
    return HEAD + "".join(line for _, line in sorted(lines))


def write_recording(
    folder: Path,
    handovers: Sequence[MadeUpHandover],
    shift_s: float = 0.0,
    *,
    day: str = "20230213",
    sender: bool = True,
) -> None:
    """Write a recording of 100 Mbit/s; the phone's clock is `shift_s` early."""
    length_s = max(each.at_s for each in handovers) + 10
    moved = [
        MadeUpHandover(each.kind, each.at_s - shift_s, each.completed_ms, each.access_ms, each.gap_s)
        for each in handovers
    ]
    folder.mkdir(exist_ok=True)
    (folder / f"{day}-1-ho.events.csv").write_text(events_text(moved), encoding="utf-8")
    columns = "end_s,bytes,retransmits,cwnd_bytes,rtt_us,jitter_ms,lost_packets,packets"
    head = f"start_s (from 2023-02-14T06:30:00+00:00),{columns}\n"
    received, sent = [], []
    for number in range(round(10 * length_s)):
        begin, end = number / 10, (number + 1) / 10
        gaps = [(each.at_s, each.at_s + each.gap_s) for each in handovers]
        missing = sum(max(0.0, min(end, last) - max(begin, first)) for first, last in gaps)
        size = round(1_250_000 * (1 - missing / 0.1))
        hit = any(first <= end <= last + 0.1 for first, last in gaps)
        received.append(f"{begin:g},{end:g},{size},,,,,,\n")
        sent.append(f"{begin:g},{end:g},{size},{3 * hit},500000,{90_000 if hit else 40_000},,,\n")
    (folder / f"{day}-tcp-recv-1-x.tcp.csv").write_text(head + "".join(received), encoding="utf-8")
    if sender:
        (folder / f"{day}-iperf-sender-tcp-1-x.tcp.csv").write_text(head + "".join(sent), encoding="utf-8")
