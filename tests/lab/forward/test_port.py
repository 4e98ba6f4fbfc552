"""Ports of the tester, by their protocol: two of them back to back, in a sandbox."""

from __future__ import annotations

import json
import re
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from wavebed._core import find_core

if TYPE_CHECKING:
    from collections.abc import Iterator

AGENT = Path(__file__).with_name("port_agent.py")
ANSWERS_WITHIN_S = 60.0
FASTEST_PPS = 1e9
"""More than memory carries: a rate above it has another unit."""
RIGHT_MAC = "02:00:00:00:00:02"
SENDERS = ("live_frames", "af_xdp_copy", "tx_ring", "sendmmsg")
COUNTS = ("unique", "duplicates", "stale", "other_trial", "damaged", "reordered", "receiver_lost")
RECEIVERS = ("xdp_native", "xdp_generic", "rx_ring")


def frames(**changes: object) -> dict[str, Any]:
    ports = {"first": 49152, "count": 64}
    return {
        "sizes_bytes": [64],
        "source_mac": "02:00:00:00:00:01",
        "destination_mac": RIGHT_MAC,
        "vlan": None,
        "pppoe_session": None,
        "sources": {"first": "198.18.0.2", "count": 1},
        "destinations": {"first": "198.18.1.2", "count": 16},
        "source_ports": ports,
        "destination_ports": ports,
        "flows": 256,
    } | changes


def frames_v6(**changes: object) -> dict[str, Any]:
    addresses = {
        "sources": {"first": "2001:2::2", "count": 1},
        "destinations": {"first": "2001:2:0:1::2", "count": 16},
    }
    return frames(sizes_bytes=[84]) | addresses | changes


class Pair:
    """Two ports at the ends of a veth pair, ``left`` and ``right``."""

    def __init__(self) -> None:
        command = [find_core(), "sandbox", "--", sys.executable, str(AGENT)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for line in (
            "ip link add left address 02:00:00:00:00:01 type veth peer name right address 02:00:00:00:00:02",
            "ip address add 198.18.0.1/24 dev left",
            "ip link set left up",
            "ip link set right up",
        ):
            self.run(line)
        for port in ("left", "right"):
            self.say(start=port)
            self.ask(port, "describe")  # until then it may not have opened its interface

    def say(self, **options: object) -> Any:
        assert self.process.stdin is not None, "it was asked for"
        assert self.process.stdout is not None, "it was asked for"
        self.process.stdin.write(json.dumps(options) + "\n")
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], ANSWERS_WITHIN_S)
        assert ready, f"no answer to {options}"
        return json.loads(self.process.stdout.readline())

    def run(self, line: str) -> str:
        text: str = self.say(run=line.split())
        return text

    def ask(self, port: str, what: str, **fields: object) -> dict[str, Any]:
        answer = self.say(port=port, ask={"do": what, **fields})
        assert "ok" in answer, answer
        value: dict[str, Any] = answer["ok"]
        return value

    def refused(self, port: str, what: str, **fields: object) -> tuple[str, str]:
        return self.refused_text(port, json.dumps({"do": what, **fields}))

    def refused_text(self, port: str, text: str) -> tuple[str, str]:
        answer = self.say(port=port, text=text)
        assert set(answer) == {"error", "kind"}, answer
        assert "\n" not in answer["error"]
        return answer["kind"], answer["error"]

    def receive(self, spec: dict[str, Any], trial: int = 7, sample: int = 2, receiver: str | None = None) -> str:
        how: str = self.ask("right", "receive", frames=spec, trial=trial, sample=sample, receiver=receiver)["receiver"]
        return how

    def send(self, spec: dict[str, Any], count: int, **changes: object) -> dict[str, Any]:
        return self.ask("left", "send", **sending(spec, count, **changes))

    def frame_counters(self, count: int) -> dict[str, Any]:
        """The counters when they hold `count` frames; the last ones may still be on their way for a moment."""
        end = time.monotonic() + 60
        while True:
            counters = self.ask("right", "frame_counters")
            if counters["unique"] >= count or time.monotonic() > end:
                return counters
            time.sleep(0.02)


def sending(spec: dict[str, Any], count: int, **changes: object) -> dict[str, Any]:
    return {
        "frames": spec,
        "trial": 7,
        "count": count,
        "rate_pps": None,
        "batch": 8,
        "deadline_ns": 60_000_000_000,
        "sender": None,
    } | changes


@pytest.fixture
def pair() -> Iterator[Pair]:
    pair = Pair()
    with pair.process:
        try:
            yield pair
            assert pair.process.stdin is not None, "it was asked for"
            pair.process.stdin.close()
            assert pair.process.wait(60) == 0
        finally:
            pair.process.kill()


def test_a_port_says_what_its_interface_is(pair: Pair) -> None:
    left = pair.ask("left", "describe")
    assert left["version"] == 2
    assert (left["interface"], left["mac"], left["mtu"]) == ("left", "02:00:00:00:00:01", 1500)
    assert (left["up"], left["carrier"], left["xdp"], left["driver"]) == (True, True, False, "veth")
    assert "198.18.0.1/24" in left["addresses"]
    assert left["offloads"]["tx-udp-segmentation"] is True
    assert "tx-udp-segmentation" not in left["fixed"]
    assert "rx-gro-hw" in left["fixed"]
    assert left["machine"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert left["cores"] == len(re.findall(r"^cpu\d", Path("/proc/stat").read_text(), re.MULTILINE))


def test_a_feature_stays_as_it_was_switched(pair: Pair) -> None:
    assert pair.ask("left", "offload", name="tx-udp-segmentation", on=False) == {"on": False}
    assert pair.ask("left", "describe")["offloads"]["tx-udp-segmentation"] is False
    kind, line = pair.refused("left", "offload", name="tx-magic", on=False)
    assert (kind, "tx-magic" in line) == ("wrong", True)


def test_neighbours_are_found_where_a_port_answers_for_them(pair: Pair) -> None:
    pair.ask("right", "answer", addresses={"first": "198.18.0.2", "count": 4})
    options = {"source": "198.18.0.1", "timeout_ns": 30_000_000_000, "vlan": None}
    assert pair.ask("left", "resolve", address="198.18.0.5", **options) == {"mac": RIGHT_MAC}
    assert pair.ask("left", "resolve", address="198.18.0.3", **(options | {"vlan": 7})) == {"mac": RIGHT_MAC}
    pair.ask("right", "answer", addresses=["2001:2::5"])
    wish6 = {"source": "2001:2::1", "timeout_ns": 30_000_000_000, "vlan": None}
    assert pair.ask("left", "resolve", address="2001:2::5", **wish6) == {"mac": RIGHT_MAC}
    # The kernel itself asks, too, and believes the answer.
    pair.ask("right", "answer", addresses=["198.18.0.9"])
    pair.run("ping -c 1 -W 30 198.18.0.1")
    pair.run("ip neighbour flush dev left")
    kind, line = pair.refused("left", "resolve", address="198.18.0.5", **(options | {"timeout_ns": 100_000_000}))
    assert kind == "failed"
    assert "nobody at left answers for 198.18.0.5" in line
    kind, line = pair.refused("left", "resolve", address="2001:2::5", **options)
    assert (kind, "families" in line) == ("wrong", True)


@pytest.mark.parametrize("sender", SENDERS)
@pytest.mark.parametrize("receiver", RECEIVERS)
def test_every_frame_that_was_sent_is_counted(pair: Pair, sender: str, receiver: str) -> None:
    if sender == "live_frames":
        # A veth takes redirected frames while its other end polls.
        assert pair.ask("right", "offload", name="rx-gro", on=True) == {"on": True}
    probe = pair.ask("left", "probe")
    works = {binding["kind"]: binding["works"] for binding in probe["senders"] + probe["receivers"]}
    assert (works[receiver], works[sender]) == (True, True), probe
    for spec, size in ((frames(sizes_bytes=[64, 594, 1518]), 594), (frames_v6(), 84)):
        assert pair.receive(spec, receiver=receiver) == receiver
        before = pair.ask("left", "counters"), pair.ask("right", "counters")
        # A sender without a pace may fill the 256 places of a veth while its other end waits for a processor.
        count = 201 if sender == "live_frames" else 3000
        sent = pair.send(spec, count, sender=sender)
        assert (sent["frames"], sent["refused"], sent["sender"]) == (count, 0, sender)
        counters = pair.frame_counters(count)
        counts = {
            key: counters[key] for key in ("unique", "duplicates", "stale", "other_trial", "damaged", "reordered")
        }
        assert counts == dict.fromkeys(counts, 0) | {"unique": count}
        assert sum(counters["sizes"].values()) == count
        assert counters["sizes"][str(size)] == (count // 3 if size == 594 else count)
        assert sum(counters["latency"].values()) == count
        assert 0 <= counters["latency_min_ns"] <= counters["latency_max_ns"]
        assert before[0]["time_ns"] < counters["first_ns"] <= counters["last_ns"]
        after = pair.ask("right", "counters")
        assert after["rx_packets"] - before[1]["rx_packets"] >= count
        [first, second] = counters["sample"]
        assert first["length"] == spec["sizes_bytes"][0] - 4
        assert first["hex"].startswith("020000000002020000000001")
        assert second["time_ns"] >= first["time_ns"]


@pytest.mark.parametrize("receiver", RECEIVERS)
def test_a_port_answers_while_it_receives(pair: Pair, receiver: str) -> None:
    pair.receive(frames(), receiver=receiver)
    pair.ask("right", "answer", addresses=["198.18.0.5", "2001:2::5"])
    for address, source in (("198.18.0.5", "198.18.0.1"), ("2001:2::5", "2001:2::1")):
        options = {"address": address, "source": source, "timeout_ns": 30_000_000_000, "vlan": None}
        assert pair.ask("left", "resolve", **options) == {"mac": RIGHT_MAC}
    assert pair.ask("right", "frame_counters")["foreign"] >= 2


def test_the_counters_of_a_trial_begin_at_zero(pair: Pair) -> None:
    spec = frames()
    pair.receive(spec, trial=7)
    pair.send(spec, 100)
    assert pair.frame_counters(100)["unique"] == 100
    pair.receive(spec, trial=8)
    assert pair.ask("right", "frame_counters")["unique"] == 0
    pair.send(spec, 10)
    pair.send(spec, 20, trial=8)
    counters = pair.frame_counters(20)
    assert (counters["unique"], counters["other_trial"]) == (20, 10)
    assert pair.ask("right", "describe")["xdp"] is False, "its own program is no stranger's"
    pair.ask("right", "release")
    kind, line = pair.refused("right", "frame_counters")
    assert (kind, "receive" in line) == ("wrong", True)


def test_a_port_whose_input_ends_stops_sending_and_leaves_nothing(pair: Pair) -> None:
    spec = frames()
    pair.receive(spec, receiver="xdp_native")
    assert "xdp" in pair.run("ip link show right")
    options = sending(spec, 10**9, deadline_ns=60_000_000_000)
    pair.say(port="left", tell={"do": "send", **options})
    assert pair.frame_counters(10)["unique"] >= 10
    for port in ("left", "right"):
        assert pair.say(end=port)["status"] == 0, "before its deadline"
    assert "xdp" not in pair.run("ip link show right")


def test_what_cannot_be_done_is_said_in_one_line(pair: Pair) -> None:
    spec = frames()
    cases: list[tuple[str, dict[str, Any], str]] = [
        ("send", sending(frames(sizes_bytes=[1519]), 1), "need an MTU of 1501"),
        ("send", sending(frames(sizes_bytes=[63]), 1), "63 bytes"),
        ("send", sending(frames(flows=0), 1), "flows: 0"),
        ("send", sending(spec, 1, rate_pps=0), "rate_pps: 0"),
        ("send", sending(spec, 1, batch=65), "batch: 65"),
        ("send", sending(spec, -1), "-1"),
        ("send", sending(spec, 1, sender="dpdk"), "dpdk"),
        ("send", sending(frames(source_mac="2:0"), 1), "is no MAC address"),
        ("send", sending(spec, 1, colour="red"), "colour"),
        ("receive", {"frames": spec, "trial": 65536, "sample": 0, "receiver": None}, "65536"),
        ("dance", {}, "dance"),
    ]
    for what, fields, expected in cases:
        kind, line = pair.refused("left", what, **fields)
        assert (kind, expected in line) == ("wrong", True), line
    for text in ("", "{", "[]", '"describe"', "\0"):
        assert pair.refused_text("left", text)[0] == "wrong"
    kind, _ = pair.refused("left", "send", **sending(spec, 1, sender="af_xdp_zero_copy"))
    assert kind == "cannot", "a veth has none"
    assert pair.ask("left", "describe")["up"] is True


def test_an_interface_that_is_not_there_ends_a_port_at_once() -> None:
    command = [find_core(), "port", "nobody0"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "wavebed-core: nobody0: there is no such interface\n"


def ceiling_of(pair: Pair, sizes: list[int]) -> dict[str, Any]:
    """Return the ceiling of the port and how long it took, s; a busy machine may give it no time to send at first."""
    end = time.monotonic() + 60
    while True:
        ask = {"do": "ceiling", "size_bytes": sizes, "flows": 256, "seconds": 0.2, "sender": None, "receiver": None}
        begun = time.monotonic()
        answer = pair.say(port="left", ask=ask)
        took_s = time.monotonic() - begun
        if "ok" in answer or "none was received" not in answer["error"] or time.monotonic() > end:
            assert "ok" in answer, answer
            return {**answer["ok"], "took_s": took_s}


def test_the_ceiling_is_measured_apart_from_the_interface(pair: Pair) -> None:
    before = pair.ask("left", "counters")
    for sizes in ([64], [64, 1518], [9018]):
        ceiling = ceiling_of(pair, sizes)
        assert ceiling["sender"] in SENDERS
        assert ceiling["receiver"] in RECEIVERS
        # On one processor nothing is lost on the way.
        assert 0 < ceiling["received"] <= ceiling["sent"]
        assert ceiling["received"] / ceiling["took_s"] <= ceiling["pps"] < FASTEST_PPS
    after = pair.ask("left", "counters")
    # The kernel may solicit routers in the meantime.
    assert after["tx_packets"] - before["tx_packets"] < 10, "its own interface saw none of it"
