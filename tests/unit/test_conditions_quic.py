"""The scenarios of the QUIC network simulator: their options, and the losses that they make."""

from __future__ import annotations

from itertools import groupby

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import wavebed
from wavebed.conditions import quic
from wavebed.errors import UserError
from wavebed.path.losses import loss_pattern
from wavebed.path.model import LimitedLoss, LostPackets, LostTimes
from wavebed.spec.link import Constant, ConstantDelay, Independent

LINK = "--delay=15ms --bandwidth=10Mbps --queue=25"


def links(scene: str):  # type: ignore[no-untyped-def]
    hop = wavebed.Path.of(scene=scene).model.hops[0]
    return hop.down, hop.up


@pytest.mark.parametrize(
    "scene",
    [
        f"simple-p2p {LINK}",
        f"drop-rate {LINK} --rate_to_client=10 --rate_to_server=20",
        f"droplist {LINK} --drops_to_client=1,3,15",
        f"blackhole {LINK} --on=10s --off=2s",
    ],
)
def test_every_scenario_is_a_link_with_a_rate_a_delay_and_a_queue(scene: str) -> None:
    for link in links(scene):
        assert link.rate == Constant(10_000_000)
        assert link.delay == ConstantDelay(15_000_000)
        assert link.queue is not None
        assert (link.queue.kind, link.queue.limit.packets) == ("droptail", 25)


def test_a_drop_rate_is_that_of_its_direction() -> None:
    down, up = links(f"drop-rate {LINK} --rate_to_client=10 --rate_to_server=20")
    assert (down.loss, up.loss) == (Independent(0.1), Independent(0.2))
    down, up = links(f"drop-rate {LINK} --rate_to_client=30 --rate_to_server=20 --burst_to_client=3")
    assert (down.loss, up.loss) == (LimitedLoss(0.3, 3), Independent(0.2))


def test_a_droplist_names_the_packets_of_its_direction() -> None:
    down, up = links(f"droplist {LINK} --drops_to_client=3,1,1 --drops_to_server=5")
    assert (down.loss, up.loss) == (LostPackets((1, 3)), LostPackets((5,)))
    assert links(f"droplist {LINK}")[0].loss is None


def test_a_blackhole_opens_and_closes_so_many_times() -> None:
    second = 10**9
    once = LostTimes(((10 * second, 12 * second),))
    assert [link.loss for link in links(f"blackhole {LINK} --on=10s --off=2s")] == [once, once]
    down, up = links(f"blackhole {LINK} --on=10s --off=2s --repeat=2 --direction=toserver")
    assert down.loss is None
    assert up.loss == LostTimes(((10 * second, 12 * second), (22 * second, 24 * second)))


def test_an_asymmetric_link_has_rates_and_queues_of_its_own() -> None:
    down, up = links(
        "asymmetric-p2p --delay=20ms --forward-data-rate=10Mbps --forward-queue=25 --return-data-rate=512kbps"
        " --return-queue=9 --drop-rate-to-server=4"
    )
    assert (down.rate, up.rate) == (Constant(10_000_000), Constant(512_000))
    assert (down.queue.limit.packets, up.queue.limit.packets) == (25, 9)
    assert (down.loss, up.loss) == (None, Independent(0.04))


@pytest.mark.parametrize("scenario", quic.REFUSED)
def test_what_the_engine_cannot_do_is_refused_with_a_remedy(scenario: str) -> None:
    with pytest.raises(UserError, match=f"^--scene: {scenario}: [^\n]*: (use|interrupt)[^\n]*$"):
        wavebed.Path.of(scene=f"{scenario} {LINK}")


@pytest.mark.parametrize(
    ("scene", "says"),
    [
        ("simple-p2p", "options are missing: add --delay= --bandwidth= --queue="),
        (f"simple-p2p {LINK} --delai=3ms", "--delai: unknown key: did you mean 'delay'?"),
        (f"simple-p2p {LINK} now", "'now' is no option: write --NAME=VALUE"),
        ("simple-p2p --delay=15 --bandwidth=10Mbps --queue=25", "--delay=15: write a time such as 15ms"),
        ("simple-p2p --delay=15ms --bandwidth=10Mbit --queue=25", "--bandwidth=10Mbit: write a rate such as 10Mbps"),
        ("simple-p2p --delay=15ms --bandwidth=10Mbps --queue=0", "--queue=0: write a whole number from 1"),
        (f"drop-rate {LINK} --rate_to_client=101 --rate_to_server=1", "--rate_to_client=101: write a whole number"),
        (f"droplist {LINK} --drops_to_client=0,1", "numbers of packets from 1"),
        (f"blackhole {LINK} --on=1s --off=0s", "--off=0s: write a time above 0"),
        (f"blackhole {LINK} --on=1s --off=1s --direction=up", "one of both, toclient, toserver"),
        (f"blackhole {LINK} --on='1s", "a quotation mark is missing"),
    ],
)
def test_a_wrong_option_gets_one_line(scene: str, says: str) -> None:
    with pytest.raises(UserError) as error:
        wavebed.Path.of(scene=scene)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


@given(st.lists(st.integers(1, 300), min_size=1, max_size=20), st.integers(0, 3))
def test_listed_packets_are_lost_and_no_others(numbers: list[int], seed: int) -> None:
    pattern, end = loss_pattern(LostPackets(tuple(sorted(set(numbers)))), "down", seed)
    assert end == "hold"
    rows = np.searchsorted(pattern.index, np.arange(400), side="right") - 1
    assert pattern.loss is not None
    lost = np.flatnonzero(pattern.loss[np.minimum(rows, len(pattern) - 1)]) + 1
    assert lost.tolist() == sorted(set(numbers))


def test_times_are_lost_from_their_begin_to_their_end() -> None:
    pattern, end = loss_pattern(LostTimes(((0, 5), (7, 9))), "down", 1)
    assert end == "hold"
    assert pattern.loss is not None
    assert list(zip(pattern.index.tolist(), pattern.loss.tolist(), strict=True)) == [(0, 1), (5, 0), (7, 1), (9, 0)]


@pytest.mark.parametrize("most", [1, 3])
def test_limited_losses_never_exceed_their_row_and_keep_their_probability(most: int) -> None:
    pattern, end = loss_pattern(LimitedLoss(0.3, most), "down", 7)
    assert end == "repeat"
    assert pattern.loss is not None
    lost = np.repeat(pattern.loss, pattern.lengths()).astype(int)
    runs = [len(list(group)) for value, group in groupby(lost.tolist()) if value]
    assert max(runs) == most
    arriving = 0.7 / (1 - 0.3 ** (most + 1))  # the Markov chain of losses in a row, which `most` ends
    assert lost.mean() == pytest.approx(1 - arriving, abs=0.01)


def test_losses_differ_between_directions_and_seeds_and_repeat_for_one() -> None:
    loss = LimitedLoss(0.2, 3)
    first, again, up, other = (
        loss_pattern(loss, direction, seed)[0] for direction, seed in (("down", 1), ("down", 1), ("up", 1), ("down", 2))
    )
    assert first.same_series(again)
    assert not first.same_series(up)
    assert not first.same_series(other)
