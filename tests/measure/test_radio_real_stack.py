"""Idle round trips through a radio.

The machine may be busy with something else. A run in which the engine was late, or the processors were, says nothing
about the radio: it is inconclusive, with the reason.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import pytest
from tests.lab.programs import LIMIT_S, python, wait_for_datagrams

from wavebed.path.api import Path

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wavebed.path.lab import Laboratory


SLOT_NS = 125_000


def inconclusive(reason: str) -> None:
    """End the test: the engine or the hosts were not on time."""
    pytest.skip(f"inconclusive: {reason}")


def check_on_time(lab: Laboratory, limit_us: float, hosts: str) -> None:
    """End the test unless 99 % of departures to `hosts` were less than `limit_us` late, and no device lost packets."""
    assert lab.summary is not None
    for departure in cast("list[dict[str, Any]]", lab.summary["departures"]):
        late_us = departure["surely_late_p99_us"]
        if departure["name"] == hosts and late_us is not None and late_us > limit_us:
            inconclusive(f"{departure['name']} was late by {late_us:.0f} µs at p99")
    for host in cast("list[dict[str, Any]]", lab.summary["hosts"]):
        if host["device_dropped_packets"]:
            inconclusive(f"{host['name']} lost {host['device_dropped_packets']} packets at its device")


_HOLDING_ECHO = """
import random, socket, struct, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("0.0.0.0", {port}))
rng = random.Random(1)
while True:
    data, peer = s.recvfrom(2000)
    start = time.perf_counter_ns()
    time.sleep(rng.uniform(0.001, 0.006))
    s.sendto(struct.pack("q", time.perf_counter_ns() - start), peer)
"""

_PROBE = """
import random, socket, struct, time
address = socket.getaddrinfo("server", {port}, socket.AF_INET, socket.SOCK_DGRAM)[0][4]
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(30)
rng = random.Random(2)
for i in range({count}):
    time.sleep(rng.uniform(0.001, 0.006))
    start = time.perf_counter_ns()
    s.sendto(bytes(8), address)
    held = struct.unpack("q", s.recv(100))[0]
    if i >= 10:
        print(time.perf_counter_ns() - start - held)
"""


def idle_round_trips_ns(lab: Laboratory, count: int) -> NDArray[np.float64]:
    """Return round trips without the time that the server held them.

    Either side waits for a time that the frame knows nothing of, so that all phases are equally likely: a fixed
    interval such as ping's 10 ms is a multiple of the frame, and would see few of them.
    """
    echo = lab.server.start(python(_HOLDING_ECHO))
    wait_for_datagrams(lab, "server")
    try:
        done = lab.client.run(python(_PROBE, count=count), capture_output=True, check=True, timeout=LIMIT_S)
    finally:
        echo.kill()
        echo.wait(LIMIT_S)
    return np.array([int(line) for line in done.stdout.split()], dtype=np.float64)


class Frame(NamedTuple):
    """`DDDSU`, and the times of the preset ``nr-120khz``, in slots; decoding in ns."""

    down: tuple[int, ...] = (0, 1, 2, 3)
    up: tuple[int, ...] = (3, 4)
    length: int = 5
    prepare: int = 2
    decode_ns: int = 100_000
    request_period: int = 10
    schedule: int = 2
    grant: int = 3


def next_of(slots: tuple[int, ...], index: int, length: int) -> int:
    return next(slot for slot in range(index, index + length) if slot % length in slots)


def down_ns(at_ns: int, frame: Frame) -> int:
    """Return how long a packet of an idle downlink takes that comes at `at_ns`."""
    earliest = math.floor(at_ns / SLOT_NS + frame.prepare) + 1
    slot = next_of(frame.down, earliest, frame.length)
    return (slot + 1) * SLOT_NS + frame.decode_ns - at_ns


def up_ns(at_ns: int, frame: Frame) -> int:
    """Return how long a packet of an idle uplink takes: request, grant, data."""
    after = math.floor(at_ns / SLOT_NS) + 1
    requests = (next_of(frame.up, k * frame.request_period, frame.length) for k in range(100))
    request = next(slot for slot in requests if slot >= after)
    granting = next_of(frame.down, request + frame.schedule, frame.length)
    slot = next_of(frame.up, granting + frame.grant, frame.length)
    return (slot + 1) * SLOT_NS + frame.decode_ns - at_ns


def computed_ns() -> NDArray[np.float64]:
    """Return every pair of phases of arrival in the period of requests (up) and in the frame (down)."""
    frame = Frame()
    step_ns = 6_250
    up = [up_ns(at_ns, frame) for at_ns in range(0, frame.request_period * SLOT_NS, step_ns)]
    down = [down_ns(at_ns, frame) for at_ns in range(0, frame.length * SLOT_NS, step_ns)]
    both: NDArray[np.float64] = np.add.outer(np.array(up), np.array(down)).ravel().astype(np.float64)
    return both


def test_the_computed_round_trips_are_those_of_the_slot_diagram() -> None:
    frame = Frame()
    # Request in slot 3 (S), grant in slot 5 (D), data in slot 8 (S): `docs/models/uplink-grants.md`.
    assert up_ns(2 * SLOT_NS + 1, frame) == 7 * SLOT_NS - 1 + 100_000
    assert up_ns(3 * SLOT_NS, frame) == 16 * SLOT_NS + 100_000
    # Two slots ahead, so slot 3, then slot 5: slot 4 is none of the downlink's.
    assert down_ns(1, frame) == 4 * SLOT_NS - 1 + 100_000
    assert down_ns(SLOT_NS * 3 // 2, frame) == SLOT_NS * 9 // 2 + 100_000
    assert down_ns(SLOT_NS * 5 // 2, frame) == SLOT_NS * 7 // 2 + 100_000


def test_idle_round_trips_are_distributed_as_computed() -> None:
    wire_ns = 2 * 2_000_000
    with Path.of(delay="2ms").up() as lab:
        errors_ns = idle_round_trips_ns(lab, 310) - wire_ns
    check_on_time(lab, 250, "server-client.down")
    if np.quantile(errors_ns, 0.95) > 2 * SLOT_NS:
        inconclusive(f"an empty path has errors of {np.quantile(errors_ns, 0.95) / 1000:.0f} µs at p95")
    with Path.of(down_rate="3gbit", up_rate="300mbit", radio="nr-120khz", delay="2ms").up() as lab:
        found_ns = idle_round_trips_ns(lab, 510)
    check_on_time(lab, 250, "server-client.down")
    # What hosts, programs and engine take is measured on a path with nothing but the delay, and added.
    exact_ns = computed_ns() + wire_ns
    expected_ns = np.add.outer(exact_ns, errors_ns)
    shares = (0.05, 0.5, 0.95)
    found, exact, expected = (np.quantile(values, shares) / 1000 for values in (found_ns, exact_ns, expected_ns))
    print(f"computed {exact}, with the error of an empty path {expected}, found {found} µs (p5, p50, p95)")
    print(f"error of an empty path: {np.quantile(errors_ns, shares) / 1000} µs")
    assert abs(found[2] - expected[2]) <= SLOT_NS / 1000
    assert abs(found[1] - expected[1]) <= SLOT_NS / 1000
