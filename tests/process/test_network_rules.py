"""The engine declares a network: Python has its types from there, and asks it what ties values together."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace
from tests.messages import refusal

from wavebed._core import find_core
from wavebed.cli.specification import FILE, formatted, types_of
from wavebed.config.units import Limit
from wavebed.errors import UserError, WavebedError
from wavebed.spec.network import check_networks
from wavebed.spec.types import (
    BottleneckStage,
    CodelQueue,
    ConstantRate,
    DelayStage,
    DropheadQueue,
    DroptailQueue,
    Hop,
    Host,
    Leg,
    Network,
    OffCoalesce,
    PacketsRate,
    PatternDelay,
    PatternRate,
    SampledRate,
    TokenBucketRate,
)

if TYPE_CHECKING:
    from pathlib import Path

    from wavebed.spec.types import Queue, Rate, Stage

ROOM = DroptailQueue(Limit(packets=100))
SLOW = ConstantRate(1_000_000)


def network(*down: Stage, **changes: Any) -> Network:
    leg = Leg("server", "client", (Hop("radio", "radio", down, ()),))
    found = Network(1500, False, OffCoalesce(), (Host("server"), Host("client")), (leg,))
    return replace(found, **changes)


def served(rate: Rate, queue: Queue = ROOM, **further: Any) -> Network:
    return network(BottleneckStage(rate, queue, **further))


def test_the_types_of_python_are_those_of_the_engine() -> None:
    schema = json.loads(subprocess.run([find_core(), "schema"], capture_output=True, check=True).stdout)
    assert FILE.read_text() == formatted(types_of(schema)), "run python -m wavebed.cli.specification"


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        (
            served(SLOW, CodelQueue(Limit(packets=9), target_ns=9, interval_ns=8)),
            "radio.down: queue.interval_ns: is 8, less than target_ns 9",
        ),
        (
            served(SLOW, CodelQueue(Limit(packets=9), ce_threshold_ns=9)),
            "radio.down: queue.ce_threshold_ns: requires ecn",
        ),
        (served(SLOW, DroptailQueue(Limit(bytes=1499))), "radio.down: queue.limit: no packet of the MTU, 1500 bytes"),
        (served(SampledRate(), ROOM), "radio.down: rate: has neither rate_bps nor file"),
        (served(SampledRate(9), DropheadQueue(Limit(packets=9))), "radio.down: queue.kind: does not fit a sampled"),
        (served(PacketsRate(9), outage="drop"), "radio.down: outage: is drop"),
        (served(TokenBucketRate(9, 1499)), "radio.down: rate.burst_bytes: is 1499: use at least the MTU"),
        (
            network(legs=(*network().legs, Leg("client", "server", (Hop("second", "radio", (), ()),)))),
            "legs[1]: leads from client to server",
        ),
        (
            network(
                BottleneckStage(PatternRate("/gone"), ROOM),
                BottleneckStage(SLOW, CodelQueue(Limit(packets=9), target_ns=9, interval_ns=8)),
            ),
            "radio.down: queue.interval_ns: is 8",
        ),
        (network(rebind_at_ns=(5, 5)), "rebind_at_ns: must rise"),
        (network(nat=True, rebind_at_ns=(5,)), "rebind_at_ns: with nat"),
        (network(hosts=(Host("client"), Host("server"))), "hosts: must be two or three"),
        (network(legs=()), "legs: 2 hosts require 1 legs"),
        (network(legs=(*network().legs,) * 2), "hops: names must be distinct"),
        (network(nat=True, legs=(*network().legs,) * 2), "legs: with nat there is no second leg"),
        (network(hosts=(Host("server"), Host("client", sysctls={"kernel.panic": "1"}))), "kernel.panic"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_rule_between_values_is_refused_by_link_and_key(wrong: Network, line: str) -> None:
    with pytest.raises(UserError, match=r"^path: ") as caught:
        check_networks([network(), wrong])
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)


def test_patterns_are_not_opened() -> None:
    rate, delay = PatternRate("/gone"), DelayStage(PatternDelay("/gone"))
    check_networks([served(rate), network(delay), network()])


def test_an_engine_that_does_not_answer_is_no_approval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAVEBED_CORE", "/bin/true")
    with pytest.raises(WavebedError, match="no answer"):
        check_networks([network()])


def test_a_scenario_that_breaks_one_is_refused_before_it_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "scenario.toml"
    radio = '{ preset = "nr-30khz", aggregation = { carriers = 2 }, grants = "off" }'
    text = f'[path]\ndown-rate = "1gbit"\nup-rate = "1gbit"\nradio = {radio}\nmtu = 9000\nqueue = "droptail:5us"\n'
    file.write_text(text + '[[workload]]\nkind = "bulk"\n')
    assert "path.queue: a limit of 5us lets no packet of the MTU" in refusal(["resolve", str(file)], capsys)
