"""Packets of unusual kinds: every one is accounted for, and nothing crashes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any, cast

from tests.stress.figure import Figure
from tests.stress.sandbox import inside

from wavebed.path.api import Path

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["KINDS", "measure"]

KINDS = {
    "options": ("IP options", 1500),
    "fragments": ("fragments", 3975),
    "extensions": ("IPv6 extension headers", 1500),
    "icmp": ("ICMP", 1500),
    "segments": ("UDP-GSO segments of odd sizes", 19_314),
    "supers": ("hand-made super-packets", 2456),
    "malformed": ("malformed packets", 1537),
}
"""What each kind is called, and how many were sent when this was first measured."""
PATHS: Sequence[dict[str, str]] = (
    {"rate": "1gbit", "delay": "1ms", "queue": "droptail:50mb"},
    {"delay": "200us", "coalesce": "off"},
    {"rate": "300mbit", "delay": "1ms", "loss": "1%", "duplicate": "1%", "corrupt": "0.5%", "queue": "codel"},
)
LIMIT_S = 60.0
_PROGRAM = [sys.executable, "-m", "tests.stress.packet_programs"]


def measure(percent: int = 100, seed: int = 1) -> list[Figure]:
    """Send packets of each kind over several paths.

    Parameters
    ----------
    percent : int
        Of the usual numbers.
    seed : int
        Chooses contents and sizes.
    """
    figures = []
    for kind, (name, usual) in KINDS.items():
        wanted = max(usual * percent // 100, 1)
        each = -(-wanted // len(PATHS))
        told = [
            inside("tests.stress.packets:send", kind=kind, count=each, seed=seed * 100 + place, timeout_s=2 * LIMIT_S)
            for place in range(len(PATHS))
        ]
        figures.append(_figure(name, wanted, told))
    return figures


def _figure(name: str, wanted: int, told: Sequence[dict[str, Any]]) -> Figure:
    sent, offered, unaccounted, refused = (
        sum(one[key] for one in told) for key in ("taken", "offered", "unaccounted", "refused")
    )
    faults = [fault for one in told for fault in one["faults"]]
    dropped = sum((Counter(one["dropped"]) for one in told), Counter())
    drops = [*(f"{reason} {count}" for reason, count in sorted(dropped.items())), f"refused at the end {refused}"]
    found = f"{unaccounted} unaccounted of {offered} ({sent} sent; {', '.join(drops)})"
    held = unaccounted == 0 and sent >= wanted and not faults
    return Figure(name, f"0 unaccounted, {wanted} sent", found, "met" if held else "missed", "; ".join(faults))


def send(kind: str, count: int, seed: int) -> dict[str, Any]:
    """Send packets of a kind over a path, in a sandbox, and return the account."""
    place = seed % 100
    with Path.of(**PATHS[place]).up() as lab:
        reading, writing = os.pipe2(os.O_CLOEXEC)
        sink = lab.server.start([*_PROGRAM, "sink"], stdin=reading, stdout=subprocess.PIPE)
        os.close(reading)
        _await_sink(lab)
        done = lab.client.run([*_PROGRAM, "send", kind, str(count), str(seed)], capture_output=True, timeout=LIMIT_S)
        os.close(writing)
        sink.wait(LIMIT_S)
        arrived = sink.output()[0]
        alive = lab.client.run(["ping", "-c", "20", "-i", "0.02", "-q", "server"], capture_output=True)
    sent = json.loads(done.stdout or "{}")
    if not sent or not arrived or lab.summary is None:
        return {"taken": 0, "unaccounted": 0, "offered": 0, "dropped": {}, "refused": 0,
                "faults": [f"{kind}: {done.stderr[-200:]} {lab.messages[-200:]}"]}  # fmt: skip
    links = cast("list[dict[str, Any]]", lab.summary["links"])
    departures = cast("list[dict[str, Any]]", lab.summary["departures"])
    faults = [] if " 0 received" not in alive.stdout else [f"{kind}: nothing passes afterwards"]
    if kind in ("options", "fragments", "extensions", "segments") and place < 2:
        faults += _arrived(kind, sent, json.loads(arrived), cast("list[dict[str, Any]]", lab.summary["hosts"]))
    return {
        "taken": sent["taken"],
        "unaccounted": sum(abs(_balance(link)) + abs(link["unaccounted_segments"]) for link in links),
        "offered": sum(link["offered_segments"] for link in links),
        "dropped": dict(sum((Counter(link["dropped_segments"]) for link in links), Counter())),
        "refused": sum(each["refused_segments"] for each in departures),
        "faults": faults,
    }


def _balance(link: dict[str, Any]) -> int:
    gone = link["delivered_segments"] + sum(link["dropped_segments"].values()) + link["queued_segments"]
    return int(link["offered_segments"] + link["duplicated_segments"] - gone)


def _arrived(kind: str, sent: dict[str, int], arrived: dict[str, int], hosts: list[dict[str, Any]]) -> list[str]:
    """Compare what programs sent and received over a path that loses nothing."""
    wanted = sent["taken"] if kind == "segments" else sent["packets"]
    lost = sum(host["udp_receive_buffer_errors"] for host in hosts)
    if arrived["damaged"] or arrived["got"] != wanted:
        return [f"{kind}: {arrived['got']} of {wanted} arrived, {arrived['damaged']} damaged, {lost} without room"]
    return []


def _await_sink(lab: Any) -> None:
    from tests.stress.packet_programs import PORT
    from tests.stress.remains import wait_until

    def bound() -> bool:
        return f":{PORT:04X} " in lab.server.run(["cat", "/proc/net/udp6"], capture_output=True).stdout

    if wait_until(bound, LIMIT_S) is None:
        raise RuntimeError("the sink did not start")
