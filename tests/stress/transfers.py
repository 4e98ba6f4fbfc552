"""TCP transfers whose bytes are the same at both ends, whatever the path does."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from tests.stress.figure import Figure, of_all
from tests.stress.sandbox import run_all
from tests.stress.transfer_programs import PORT

from wavebed.path.api import Path

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["COUNT", "measure"]

COUNT = 105
SIDE_BY_SIDE = 2
TRANSFER_S = 40.0
_BASE = {"rate": "200mbit", "delay": "1ms", "queue": "droptail:1mb"}
_PROGRAM = [sys.executable, "-m", "tests.stress.transfer_programs"]


@dataclass(frozen=True)
class Case:
    """A way to transfer bytes.

    Parameters
    ----------
    name : str
        What it is called.
    size : int
        Bytes.
    path : dict
        Options of the path besides the usual ones.
    program : tuple of str
        Words for the programs.
    ecn : bool
        Whether both hosts use ECN.
    counted : str
        A count of the downlink that must not be 0: what the case is about has happened.
    least_segments : int
        How many wire segments the downlink has at least.
    """

    name: str
    size: int = 1_500_000
    path: dict[str, Any] = field(default_factory=dict)
    program: tuple[str, ...] = ()
    ecn: bool = False
    counted: str = ""
    least_segments: int = 0


_CODEL = {"kind": "codel", "ecn": True, "limit": "1000p", "target": "1ms", "interval": "10ms"}
CASES: Sequence[Case] = (
    Case("plain", 4_000_000),
    Case("urgent data", program=("urgent",)),
    Case("ECN", path={"queue": _CODEL, "rate": "50mbit"}, ecn=True, counted="marked_segments"),
    Case("MSS 88", 300_000, program=("mss=88",), least_segments=300_000 // 88),
    Case("MTU 1280", path={"mtu": "1280"}, least_segments=1_500_000 // 1280),
    Case("MTU 9000", path={"mtu": "9000"}),
    Case("corruption", 1_000_000, path={"corrupt": "0.5%"}, counted="corrupted_segments"),
    Case("duplication", path={"duplicate": "5%"}, counted="duplicated_segments"),
    Case("reordering", path={"reorder": {"probability": "2%", "delay": "500us"}}),
    Case("loss", 1_000_000, path={"loss": "0.5%"}, counted="dropped_segments"),
)
COALESCE = ("125us", "off", "slot")


def measure(count: int = COUNT) -> list[Figure]:
    """Make `count` transfers: every case over IPv4 and IPv6, again and again with other seeds and coalescing."""
    wanted = [(number % len(CASES), "46"[number // len(CASES) % 2], number // len(CASES)) for number in range(count)]
    hands = [{"wanted": hand} for place in range(SIDE_BY_SIDE) if (hand := wanted[place::SIDE_BY_SIDE])]
    told = run_all("tests.stress.transfers:transfer_each", hands, timeout_s=60 + count * TRANSFER_S)
    results = [(str(name), not problem) for hand in told for name, problem in hand]
    return [of_all("TCP transfers with equal SHA-256 at both ends", results, what="transfers")]


def transfer_each(wanted: Sequence[tuple[int, str, int]]) -> list[tuple[str, str]]:
    """Make transfers one after another, in a sandbox; return the name of each, and what was wrong with it."""
    results = []
    for place, family, again in wanted:
        problem = _transfer(CASES[place], family, again)
        name = f"{CASES[place].name}, IPv{family}, seed {again}, coalesce {COALESCE[again % len(COALESCE)]}"
        results.append((f"{name}: {problem}" if problem else name, problem))
    return results


def _transfer(case: Case, family: str, again: int) -> str:
    options = {**_BASE, **case.path, "seed": str(again), "coalesce": COALESCE[again % len(COALESCE)]}
    words = [str(case.size), f"family={family}", *case.program]
    with Path.of(**options).up() as lab:
        if case.ecn:
            for host in (lab.server, lab.client):
                host.run(["sysctl", "-q", "-w", "net.ipv4.tcp_ecn=1"], check=True)
        sender = lab.server.start([*_PROGRAM, "send", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        lab.server.wait_for_port(PORT, TRANSFER_S)
        try:
            done = lab.client.run([*_PROGRAM, "receive", *words], capture_output=True, timeout=TRANSFER_S)
            sender.wait(TRANSFER_S)
        except subprocess.TimeoutExpired:
            return f"took more than {TRANSFER_S:g} s"
        sent, said = sender.output()
    if lab.summary is None:
        return f"no summary: {lab.messages[-200:]}"
    if not sent or sent != done.stdout:
        return f"sent {sent!r}, received {done.stdout!r} {said} {done.stderr}"
    links = cast("list[dict[str, Any]]", lab.summary["links"])
    if any(link["unaccounted_segments"] for link in links):
        return "packets unaccounted for"
    happened = links[0].get(case.counted, 1)
    happened = sum(happened.values()) if isinstance(happened, dict) else happened
    return "" if happened and links[0]["offered_segments"] >= case.least_segments else "it did not happen"
