"""Failure of a link and its recovery: timers, fallback, handover, and the beams of Wi-Fi."""

from __future__ import annotations

import numpy as np
import pytest

from wavebed.channel.serving import (
    BEACON_S,
    LOST_S,
    Phase,
    ServingLink,
    follow,
    follow_sectors,
    indications,
    interrupted,
    length_s,
    running_mean_db,
    sweep_s,
)
from wavebed.scene.model import Timers

GOOD, BAD = 20.0, -30.0
PERIOD_S = 0.02
PLAIN = Timers(beam_failure_instances=0)


def sinr(length_s: float, *bad: tuple[float, float], good: float = GOOD, floor: float = BAD) -> np.ndarray:
    """One beam that is bad in the given times."""
    values = np.full(round(length_s / PERIOD_S), good)
    for start_s, end_s in bad:
        values[round(start_s / PERIOD_S) : round(end_s / PERIOD_S)] = floor
    return values


def one(values: np.ndarray) -> np.ndarray:
    return values[None, None, :]


def timeline(phases: tuple[Phase, ...]) -> list[tuple[float, str]]:
    """Times and states, whatever the beam."""
    changes = [p for k, p in enumerate(phases) if k == 0 or p.link != phases[k - 1].link]
    return [(round(p.start_s, 6), p.link.name.lower()) for p in changes]


def test_a_good_link_stays_connected():
    assert timeline(follow(one(sinr(5)), PLAIN)) == [(0.0, "connected")]


def test_out_of_sync_takes_the_whole_evaluation_period():
    judged = indications(one(sinr(3, (1.0, 2.0))), PLAIN)
    assert np.flatnonzero(judged.out_of_sync[0, 0])[0] * PERIOD_S == pytest.approx(1.18)
    assert np.flatnonzero(judged.in_sync[0, 0][50:])[0] == 0  # one good value in five is above Q_in
    assert np.flatnonzero(~judged.in_sync[0, 0])[0] * PERIOD_S == pytest.approx(1.08)


def test_radio_link_failure_after_t310():
    phases = follow(one(sinr(6, (1.0, 3.5))), PLAIN)
    # out of sync at 1.18, T310 of 1 s, cell found at 3.5, re-established in 0.1 s
    assert timeline(phases) == [(0.0, "connected"), (2.18, "outage"), (3.6, "connected")]


def test_recovers_before_t310_expires():
    assert timeline(follow(one(sinr(6, (1.0, 2.1))), PLAIN)) == [(0.0, "connected")]


def test_n310_and_n311_count_indications_in_a_row():
    late = Timers(beam_failure_instances=0, n310=5)
    assert timeline(follow(one(sinr(6, (1.0, 3.5))), late))[1] == (2.26, "outage")
    # five in-sync indications in a row are not there before T310 expires at 2.18
    slow = Timers(beam_failure_instances=0, n311=5)
    assert timeline(follow(one(sinr(6, (1.0, 2.12))), slow))[1] == (2.18, "outage")


def test_a_new_connection_after_t311():
    timers = Timers(beam_failure_instances=0, t311_s=1.0)
    # failure at 2.18, T311 runs out at 3.18, the cell is back at 5.0
    phases = follow(one(sinr(7, (1.0, 5.0))), timers, setup_s=0.4)
    assert timeline(phases) == [(0.0, "connected"), (2.18, "outage"), (5.4, "connected")]


def test_beam_recovery_shortens_outage():
    blocked = (1.0, 4.0)
    direct, reflected = sinr(6, blocked), sinr(6, good=5.0)
    # the reflected beam appears only after the direct one has failed, so that beam management cannot use it in time
    reflected[: round(1.3 / PERIOD_S)] = BAD
    both = np.stack([direct, reflected])[None]
    without = timeline(follow(both, Timers(beam_failure_instances=0, n310=1)))
    with_recovery = timeline(follow(both, Timers(beam_failure_instances=4, beam_recovery_limit_s=0.5)))
    # five bad values make the beam bad at 1.08; the fourth instance is at 1.14; the beam appears at 1.30;
    # the search after a radio link failure at 2.18 finds it at the next indication, 2.20
    assert with_recovery == [(0.0, "connected"), (1.14, "outage"), (1.32, "connected")]
    assert without == [(0.0, "connected"), (2.18, "outage"), (2.3, "connected")]


def test_beam_management_switches_a_live_link_without_a_gap():
    both = np.stack([sinr(3, (1.0, 2.0)), sinr(3, good=5.0)])[None]
    phases = follow(both, Timers())
    assert [(p.start_s, p.link, p.beam) for p in phases] == [
        (0.0, ServingLink.CONNECTED, 0),
        (pytest.approx(1.0), ServingLink.CONNECTED, 1),
        (pytest.approx(2.0), ServingLink.CONNECTED, 0),
    ]


def test_beam_recovery_without_a_beam_is_a_radio_link_failure():
    # were it not, the beam's return at 3.00 would end the outage after the 20 ms of beam recovery
    phases = follow(one(sinr(4, (1.0, 3.0))), Timers())
    assert timeline(phases) == [(0.0, "connected"), (1.14, "outage"), (3.1, "connected")]


def test_falls_back_and_returns_after_hysteresis():
    phases = follow(one(sinr(6, (1.0, 3.0))), Timers(), falls_back=True)
    # failed at 1.34; 70 ms to the fall-back carrier; good from 3.00, for 320 ms; 76 ms back
    assert timeline(phases) == [
        (0.0, "connected"),
        (1.14, "outage"),
        (1.34, "handover"),
        (1.41, "fallback"),
        (3.32, "handover"),
        (3.396, "connected"),
    ]


def test_does_not_return_for_a_moment_of_good_signal():
    phases = follow(one(sinr(6, (1.0, 2.0), (2.2, 4.0))), Timers(), falls_back=True)
    assert timeline(phases)[4] == (4.32, "handover")


def test_hands_over_after_the_time_to_trigger():
    near, far = sinr(4), sinr(4, good=10.0)
    far[100:] = 30.0
    phases = follow(np.stack([near, far])[:, None], Timers())
    assert timeline(phases) == [(0.0, "connected"), (2.16, "handover"), (2.21, "connected")]
    assert [p.station for p in phases] == [0, 1, 1]


def test_does_not_hand_over_within_the_offset_or_for_a_moment():
    near, far = sinr(4), sinr(4, good=22.0)
    far[100:105] = 30.0
    assert timeline(follow(np.stack([near, far])[:, None], Timers())) == [(0.0, "connected")]


def test_a_running_mean_is_of_ratios_not_of_decibels():
    assert running_mean_db(np.array([[[0.0, 10.0]]]), 2)[0, 0].tolist() == pytest.approx([0.0, 10 * np.log10(5.5)])


STEP_S = 0.001
TRAINING_S = sweep_s(34, 34)


def beam(*levels: tuple[float, float]) -> np.ndarray:
    """SINR in dB of one beam for 2 s: (from, value)."""
    values = np.empty(2000)
    for start_s, level in levels:
        values[round(start_s / STEP_S) :] = level
    return values


def followed(*beams: np.ndarray) -> list[tuple[float, ServingLink, int]]:
    phases = follow_sectors(np.stack(beams), STEP_S, 1.0, TRAINING_S)
    return [(p.start_s, p.link, p.beam) for p in phases]


def test_a_sweep_of_34_sectors_on_both_sides_takes_1_27_ms():
    assert sweep_s(34, 34) == pytest.approx(1.27e-3, abs=5e-6)


def test_a_lost_beam_is_replaced_after_detection_and_one_sweep():
    got = followed(beam((0, 20), (0.95, -20)), beam((0, 8)))
    lost_s = 0.95 + LOST_S - STEP_S
    assert got == [
        (0.0, ServingLink.CONNECTED, 0),
        (pytest.approx(lost_s), ServingLink.OUTAGE, 1),
        (pytest.approx(lost_s + TRAINING_S), ServingLink.CONNECTED, 1),
    ]


def test_the_first_beacon_after_the_obstacle_has_gone_brings_the_better_beam_back():
    got = followed(beam((0, 20), (0.95, -20), (1.3, 20)), beam((0, 8)))
    start_s, link, used = got[3]
    assert (link, used) == (ServingLink.CONNECTED, 0)
    assert 1.3 <= start_s <= 1.3 + BEACON_S


def test_without_another_beam_each_beacon_tries_again():
    got = followed(beam((0, 20), (0.95, -20), (1.3, 20)))
    assert [link for _, link, _ in got] == [ServingLink.CONNECTED, ServingLink.OUTAGE, ServingLink.CONNECTED]
    assert 1.3 + TRAINING_S <= got[2][0] <= 1.3 + BEACON_S + TRAINING_S


def test_a_short_fade_is_not_a_lost_beam():
    assert followed(beam((0, 20), (0.95, -20), (0.955, 20)), beam((0, 8))) == [(0.0, ServingLink.CONNECTED, 0)]


def test_the_length_of_a_handover_is_drawn_from_its_distribution():
    near, far = sinr(4, (1.0, 2.5), floor=0.0), sinr(4, (0.0, 1.0), (2.5, 4.0), floor=0.0)
    timers = Timers(handover_s=(0.04, 0.1, 0.4))
    phases = follow(np.stack([near, far])[:, None], timers, draw=lambda period: 0.25 if period < 100 else 0.75)
    changes = timeline(phases)
    assert [name for _, name in changes] == ["connected", "handover", "connected", "handover", "connected"]
    assert changes[2][0] - changes[1][0] == pytest.approx(0.07)
    assert changes[4][0] - changes[3][0] == pytest.approx(0.25)
    assert length_s((0.04, 0.1, 0.4), 0.0) == 0.04
    assert length_s((0.04, 0.1, 0.4), 1.0) == 0.4
    assert length_s((0.05,), 0.7) == 0.05


def test_interruptions_stand_where_the_link_is_well_and_end_with_its_next_failure():
    well, away, lost = ServingLink.CONNECTED, ServingLink.FALLBACK, ServingLink.OUTAGE
    phases = (Phase(0, well, 0, 0), Phase(5, well, 0, 1), Phase(8, lost, 0, 1), Phase(9, away, 0, 1))
    gap = ServingLink.HANDOVER
    assert interrupted(phases, []) == phases
    assert interrupted(phases, [(2.0, 2.1)]) == (
        phases[0],
        Phase(2.0, gap, 0, 0),
        Phase(2.1, well, 0, 0),
        *phases[1:],
    )
    over_a_beam = interrupted(phases, [(4.95, 5.05)])
    assert over_a_beam[:3] == (phases[0], Phase(4.95, gap, 0, 0), Phase(5.05, well, 0, 1))
    assert interrupted(phases, [(7.9, 8.2)]) == (*phases[:2], Phase(7.9, gap, 0, 1), *phases[2:])
    assert interrupted(phases, [(8.5, 8.6), (9.5, 9.6)]) == phases, "nothing carries data there, or LTE does"
    twice = interrupted(phases, [(2.0, 3.0), (2.5, 3.5)])
    assert twice == interrupted(phases, [(2.0, 3.0)]), "one within another is left out"
