"""Real laboratories are never faster than their paths say, in each direction and after each change.

No delay is shorter than commanded and no window of time has more bytes, on any machine: series are in model time.
"""

from __future__ import annotations

from pathlib import Path as FilePath
from typing import Any, cast

from programs import (
    LIMIT_S,
    arrivals,
    delivered_bytes,
    most_bytes,
    python,
    rtts_ms,
    rtts_until_below_ms,
    series,
    transfer,
    wait_for_datagrams,
)

from wavebed.path.api import Path

ROOT = FilePath(__file__).resolve().parents[2]
SEGMENT = 1500

_STAMP = """
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("0.0.0.0", {port}))
while True:
    _, peer = s.recvfrom(100)
    s.sendto(str(time.monotonic_ns()).encode(), peer)
"""
_ONE_WAY = """
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(30)
s.connect(("server", {port}))
least_down, end = 1e9, time.monotonic() + 60
while least_down >= {below_ms} and time.monotonic() < end:
    sent = time.monotonic_ns()
    s.send(b"?")
    stamp = int(s.recv(100))
    down = (time.monotonic_ns() - stamp) / 1e6
    least_down = min(least_down, down)
    print((stamp - sent) / 1e6, down)
"""


def test_each_direction_has_its_own_delay_by_ipv4_and_ipv6() -> None:
    with Path.of(down_delay="5ms", up_delay="20ms").up() as lab:
        for family in ("AF_INET", "AF_INET6"):
            assert min(rtts_ms(lab, count=5, family=family)) >= 25
        echo = lab.server.start(python(_STAMP))
        wait_for_datagrams(lab, "server")
        said = lab.client.run(python(_ONE_WAY, below_ms=20), capture_output=True, check=True, timeout=2 * LIMIT_S)
        echo.kill()
        echo.wait(LIMIT_S)
    up_ms, down_ms = zip(*(map(float, line.split()) for line in said.stdout.splitlines()), strict=True)
    assert min(up_ms) >= 20
    assert 5 <= min(down_ms) < 20


def test_three_hosts_reach_each_other_over_their_hops() -> None:
    with Path.load(ROOT / "scenarios/three-hosts.toml", delay="4ms", loss="0%").up() as lab:
        assert min(rtts_ms(lab, count=5)) >= 50
        assert min(rtts_ms(lab, count=5, host="edge")) >= 8
        names = lab.edge.run(["cat", "/proc/sys/kernel/hostname"], capture_output=True).stdout
        assert names == "edge\n"


def test_a_path_without_a_rate_carries_every_byte() -> None:
    with Path.of().up() as lab:
        transfer(lab, 20_000_000)
    assert lab.summary is not None
    down = cast("list[dict[str, Any]]", lab.summary["links"])[0]
    assert down["delivered_bytes"] > 20_000_000
    assert down["unaccounted_segments"] == 0


def test_changes_take_effect_and_no_window_exceeds_the_rate_of_its_time(tmp_path: FilePath) -> None:
    pattern = tmp_path / "p.csv"
    pattern.write_text("# wavebed pattern 1\n# kind = steps\n# duration_s = 99\ntime_s,rate_bps\n0,40000000\n")
    spans_ms: list[tuple[int, int]] = []
    with Path.of(rate="100mbit", delay="5ms", loss="0%").up(log=tmp_path / "log") as lab:

        def carry(size: int) -> None:
            from_ms = cast("int", lab.show()["now_ns"]) // 10**6 + 1
            transfer(lab, size)
            spans_ms.append((from_ms, cast("int", lab.show()["now_ns"]) // 10**6))

        assert min(rtts_until_below_ms(lab, 40)) >= 10
        carry(1_000_000)
        lab.set(delay="20ms")
        assert min(rtts_ms(lab, count=5)) >= 40
        lab.set(**{"radio.up.delay": "1ms"})
        assert min(rtts_until_below_ms(lab, 40)) >= 21
        lab.set(delay="1ms", rate="10mbit")
        carry(400_000)
        lab.set(pattern=str(pattern))
        carry(1_000_000)
        lab.set(loss="100%")
        assert arrivals(lab, 10) == []
        shown = cast("list[dict[str, Any]]", lab.show()["links"])
        assert shown[1]["dropped_segments"]["loss"] == 10
    most = [most_bytes(delivered_bytes(tmp_path / "log", *span), 20) for span in spans_ms]
    print("most bytes in 20 ms:", most, "rows", len(series(tmp_path / "log")))
    assert most[0] <= 250_000 + SEGMENT
    assert most[1] <= 25_000 + SEGMENT
    # Whatever comes in a burst leaves at the link's rate: more than the former rate has.
    assert 25_000 + SEGMENT < most[2] <= 100_000 + SEGMENT
