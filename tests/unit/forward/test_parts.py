"""Overload, frame loss rate, latency and bursts, in virtual time."""

from __future__ import annotations

import pytest
from tests.unit.forward.simulated import SimulatedTester

from wavebed.forward.frames import Headers
from wavebed.forward.model import ForwardLatency, Refusal
from wavebed.forward.parts import base_rate, find_bursts, fractions, measure_latency, measure_loss_rate, overload
from wavebed.forward.plan import plan_search
from wavebed.forward.search import search_size
from wavebed.forward.settings import QUICK_GOALS
from wavebed.forward.trials import LoadLimit, load_limit

LATE = Refusal("late", "the machine was busy")
DUPLICATES = Refusal("duplicates", "12 frames came twice")
GONE = Refusal("peer", "the other machine went away")


def limit_of(tester: SimulatedTester, size: int = 64, link_mbps: float | None = 1000.0) -> LoadLimit:
    return load_limit(link_mbps, tester.calibrate((size,)), Headers())


# Overload


def test_overload_offers_line_rate_and_reports_what_came_through_beside_what_was_sent() -> None:
    tester = SimulatedTester(130_000)
    found = overload(tester.log(), "overload", limit_of(tester), 1.0, 6)
    assert found.asked is not None
    assert found.asked.l1_mbps == pytest.approx(1000)
    assert found.sent is not None
    assert found.sent.pps == pytest.approx(1_488_095, abs=1)
    assert found.received is not None
    assert found.received.pps == pytest.approx(130_000)
    assert found.loss_ratio.estimate == pytest.approx(1 - 130_000 / 1_488_095)
    assert found.cpu_busy_max.estimate == 0.5
    assert found.trials == tuple(range(6))


def test_overload_is_as_fast_as_the_tester_goes_where_that_is_less_or_the_link_has_no_speed() -> None:
    for link, ceiling in ((None, 2e6), (1000.0, 1e6)):
        tester = SimulatedTester(130_000, ceiling_pps=ceiling)
        found = overload(tester.log(), "overload", limit_of(tester, link_mbps=link), 1.0, 2)
        assert found.asked is None
        assert tester.made == [(None, 1.0)] * 2
        assert found.sent is not None
        assert found.sent.pps == ceiling


def test_six_repeats_have_an_interval_and_fewer_have_none() -> None:
    six, three = (SimulatedTester(130_000, noise=0.02) for _ in range(2))
    found = overload(six.log(), "overload", limit_of(six), 1.0, 6)
    interval = found.received_pps
    assert interval.low is not None
    assert interval.high is not None
    assert interval.estimate is not None
    assert interval.low < interval.estimate < interval.high
    assert overload(three.log(), "overload", limit_of(three), 1.0, 3).received_pps.low is None


def test_refused_repeats_are_named_and_left_out() -> None:
    tester = SimulatedTester(130_000, refuse=lambda number, _pps: LATE if number == 2 else None)
    found = overload(tester.log(), "overload", limit_of(tester), 1.0, 4)
    assert found.received_pps.count == 3
    assert found.refusals == (LATE,)
    assert len(found.trials) == 4


def test_overload_of_refused_repeats_alone_is_no_number() -> None:
    tester = SimulatedTester(130_000, refuse=lambda _number, _pps: DUPLICATES)
    found = overload(tester.log(), "overload", limit_of(tester), 1.0, 4)
    assert found.received is None
    assert found.sent is None
    assert found.received_pps.estimate is None
    assert found.refusals == (DUPLICATES,)


def test_a_peer_that_is_gone_ends_the_repeats() -> None:
    tester = SimulatedTester(130_000, refuse=lambda number, _pps: GONE if number > 1 else None)
    assert len(overload(tester.log(), "overload", limit_of(tester), 1.0, 6).trials) == 2


# Frame loss rate


def test_the_fractions_of_the_frame_loss_rate_test_go_down_to_the_last_step() -> None:
    assert fractions(0.1) == (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)
    assert len(fractions(0.01)) == 100
    assert fractions(0.3) == (1.0, 0.7, 0.4)
    assert fractions(1.0) == (1.0,)


def test_the_frame_loss_rate_test_ends_after_two_trials_in_a_row_without_loss() -> None:
    tester = SimulatedTester(0.75 * 1_488_095)
    found = measure_loss_rate(tester.log(), "64", limit_of(tester), 1.0, 0.1)
    assert [step.fraction for step in found.steps] == [1.0, 0.9, 0.8, 0.7, 0.6]
    assert found.clean
    losses = [step.loss_ratio for step in found.steps]
    assert losses[0] == pytest.approx(0.25, abs=1e-5)
    assert losses[3:] == [0, 0]


def test_one_clean_trial_between_lossy_ones_does_not_end_it() -> None:
    late_after = SimulatedTester(0.75 * 1_488_095, refuse=lambda number, _pps: LATE if number == 5 else None)
    found = measure_loss_rate(late_after.log(), "64", limit_of(late_after), 1.0, 0.1)
    assert [step.loss_ratio is None for step in found.steps] == [False] * 4 + [True] + [False] * 2
    assert found.steps[4].refusal == LATE
    assert found.clean


def test_the_loss_of_a_device_that_always_loses_never_gets_clean() -> None:
    tester = SimulatedTester(10.0)
    found = measure_loss_rate(tester.log(), "64", limit_of(tester), 1.0, 0.1)
    assert len(found.steps) == 10
    assert not found.clean


def test_a_refusal_that_speaks_against_the_device_ends_the_frame_loss_rate_test() -> None:
    tester = SimulatedTester(1e5, refuse=lambda number, _pps: DUPLICATES if number == 3 else None)
    found = measure_loss_rate(tester.log(), "64", limit_of(tester), 1.0, 0.1)
    assert [step.refusal for step in found.steps] == [None, None, DUPLICATES]
    assert found.steps[-1].loss_ratio is None


# Latency

DELAYS = ForwardLatency(1000, 1e-5, 2e-4, 4e-5, 3e-5, 6e-5, 1e-4, 1.5e-4, ((1e-5, 2e-5, 1000),))


def test_delays_are_measured_under_fractions_of_the_found_rate() -> None:
    tester = SimulatedTester(200_000, latency=DELAYS)
    limit, log = limit_of(tester), tester.log()
    size = search_size(log, "64", limit, QUICK_GOALS, plan_search(QUICK_GOALS).budget(0.3))
    base = base_rate(size)
    assert base is not None
    name, pps = base
    assert name == "ndr"
    rates = [(fraction, limit.rates(fraction * pps)) for fraction in (0.1, 0.5, 0.9, 1.0)]
    found = measure_latency(log, size, rates, name, 1.0)
    assert [one.fraction for one in found] == [0.1, 0.5, 0.9, 1.0]
    assert [one.offered.pps / pps for one in found] == pytest.approx([0.1, 0.5, 0.9, 1.0])
    assert found[0].typical_s == 3e-5
    assert found[0].worst_s == 1.5e-4
    assert found[0].loss_ratio == 0
    assert log.trials[found[3].trial].offered_pps == pps


def test_too_few_frames_have_no_worst_delay() -> None:
    few = ForwardLatency(499, 1e-5, 2e-4, 4e-5, 3e-5, 6e-5, 1e-4, 1.5e-4, ())
    tester = SimulatedTester(200_000, latency=few)
    limit, log = limit_of(tester), tester.log()
    size = search_size(log, "64", limit, QUICK_GOALS, plan_search(QUICK_GOALS).budget(0.3))
    (found,) = measure_latency(log, size, [(0.1, limit.rates(100))], "ndr", 1.0)
    assert found.typical_s == 3e-5
    assert found.worst_s is None


def test_a_refused_trial_has_no_delays() -> None:
    tester = SimulatedTester(200_000, latency=DELAYS)
    limit, log = limit_of(tester), tester.log()
    size = search_size(log, "64", limit, QUICK_GOALS, plan_search(QUICK_GOALS).budget(0.3))
    tester.refuse = lambda _number, _pps: LATE
    (found,) = measure_latency(log, size, [(0.1, limit.rates(100))], "ndr", 1.0)
    assert (found.typical_s, found.loss_ratio, found.refusal) == (None, None, LATE)
    assert found.counts == ()


# Bursts


@pytest.mark.parametrize("buffer_frames", [50, 1000, 20_000])
@pytest.mark.parametrize("fraction", [0.3, 0.8])
def test_the_corrected_buffer_is_the_devices(buffer_frames, fraction) -> None:
    tester = SimulatedTester(fraction * 1_488_095, buffer_frames=buffer_frames)
    found = find_bursts(tester.log(), "64", limit_of(tester), 2.0, 5, 1e9)
    assert len(found.lengths_frames) == 5
    # A burst is searched to one percent or to the frame.
    assert found.mean_frames == pytest.approx(buffer_frames / (1 - fraction), rel=0.011, abs=2)
    assert found.forwarding_pps == pytest.approx(fraction * 1_488_095, rel=1e-4)
    assert found.corrected_buffer_frames == pytest.approx(buffer_frames, rel=0.011, abs=1)
    assert found.corrected_buffer_s == pytest.approx(buffer_frames / 1_488_095, rel=0.011, abs=1e-6)
    assert found.deviation_frames is not None
    assert not found.unlimited


def test_a_device_that_keeps_up_shows_no_buffer() -> None:
    tester = SimulatedTester(1e9)
    found = find_bursts(tester.log(), "64", limit_of(tester), 2.0, 5, 1e9)
    assert found.unlimited
    assert found.mean_frames is None
    assert found.corrected_buffer_frames is None
    assert len(tester.made) == 1


def test_a_burst_is_made_again_when_the_tester_was_disturbed_but_not_for_ever() -> None:
    once = SimulatedTester(4e5, buffer_frames=500, refuse=lambda number, _pps: LATE if number == 4 else None)
    assert find_bursts(once.log(), "64", limit_of(once), 2.0, 2, 1e9).refusal is None
    always = SimulatedTester(4e5, buffer_frames=500, refuse=lambda number, _pps: LATE if number > 3 else None)
    found = find_bursts(always.log(), "64", limit_of(always), 2.0, 2, 1e9)
    assert found.refusal == LATE
    assert found.mean_frames is None
    assert found.lengths_frames == ()


def test_bursts_that_run_out_of_time_are_averaged_as_far_as_they_came() -> None:
    tester = SimulatedTester(4e5, buffer_frames=500)
    found = find_bursts(tester.log(), "64", limit_of(tester), 2.0, 50, 30.0)
    assert 0 < len(found.lengths_frames) < 50
    assert found.mean_frames is not None
    none = SimulatedTester(4e5, buffer_frames=500)
    cut = find_bursts(none.log(), "64", limit_of(none), 2.0, 50, 3.0)
    assert cut.refusal is not None
    assert cut.refusal.code == "unsteady"
    assert cut.mean_frames is None
