"""The whole test of a device: the real tester between faked ports, in virtual time."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace
from tests.unit.forward.fakes import FakeDevice, fake_tester
from tests.unit.forward.result_example import port
from tests.unit.forward.simulated import SimulatedTester

from wavebed.forward.model import Refusal
from wavebed.forward.result import DeviceResult
from wavebed.forward.settings import PARTS, ForwardSettings
from wavebed.forward.suite import About, link_speed_mbps, run_suite
from wavebed.store.journal import CheckFailed, Event, LoadMeasured, RunPlanned, TrialBegun, TrialStored

ABOUT = About("router", "routing", port("a"), port("b"), "tx_ring", "xdp_native", machine={"kernel": "6.18"})
QUICK = replace(ForwardSettings(link_mbps=1000.0, sizes_bytes=(64, 1518)).quick(), burst_repeats=2)


def of_fake(device: FakeDevice, settings: ForwardSettings = QUICK, heard: list[Event] | None = None) -> DeviceResult:
    tester = fake_tester(device)
    world = tester._tx.world  # type: ignore[attr-defined]
    emit = ([] if heard is None else heard).append
    return run_suite(tester, settings, ABOUT, emit, lambda: world.now_ns / 1e9)


def test_a_device_of_known_capacity_gets_every_part() -> None:
    result = of_fake(FakeDevice(capacity_pps=400_000, buffer_frames=300))
    assert [one.name for one in result.sizes] == ["64", "1518", "IMIX"]
    small = result.sizes[0]
    assert [goal.outcome for goal in small.goals] == ["found"] * 3
    strict = small.goal("rfc2544")
    assert strict is not None
    assert strict.rate is not None
    # The buffer of 300 frames hides so much from a trial of 2 s.
    assert strict.rate.pps == pytest.approx(400_150, rel=0.006)
    assert [goal.outcome for goal in result.sizes[1].goals] == ["line_rate"] * 3
    assert [one.name for one in result.overload] == ["throughput", "overload"]
    assert result.overload[1].received is not None
    assert result.overload[1].received.pps == pytest.approx(400_300)
    assert [one.name for one in result.loss_rates] == ["64", "1518"]
    assert len(result.latency) == 2 * len(QUICK.latency_fractions)
    assert result.latency[0].typical_s == pytest.approx(20e-6, rel=0.02)
    assert result.bursts[0].corrected_buffer_frames == pytest.approx(300, rel=0.05)
    assert result.refusals == ()
    assert result.doubts == ()


def test_a_result_survives_json() -> None:
    result = of_fake(FakeDevice(capacity_pps=400_000))
    back = DeviceResult.from_plain(json.loads(json.dumps(result.to_plain())))
    assert back.to_plain() == result.to_plain()
    assert back.sizes == result.sizes
    assert back.settings == result.settings


def test_the_first_trial_of_each_size_keeps_a_sample() -> None:
    result = of_fake(FakeDevice(capacity_pps=400_000))
    sampled = [trial for trial in result.trials if trial.counters and trial.counters.sample]
    assert sorted({trial.sizes_bytes for trial in sampled}) == sorted({trial.sizes_bytes for trial in result.trials})
    assert len(sampled) == 3


def test_every_part_ends_in_the_time_that_was_planned() -> None:
    for capacity, buffer_frames in ((1e5, 0), (4e5, 2000), (1.6e6, 0)):
        result = of_fake(FakeDevice(capacity_pps=capacity, buffer_frames=buffer_frames))
        for part in result.plan:
            assert part.took_s is not None
            assert part.took_s <= part.at_most_s, part
        assert result.took_s <= sum(part.at_most_s for part in result.plan) + QUICK.warm_up_s + 10


def test_progress_tells_the_parts_and_the_time_left() -> None:
    heard: list[Event] = []
    result = of_fake(FakeDevice(capacity_pps=400_000), heard=heard)
    (planned,) = (one for one in heard if isinstance(one, RunPlanned))
    names = [part.name for part in result.plan]
    assert [part.trial for part in planned.parts] == names
    begun = [one for one in heard if isinstance(one, TrialBegun)]
    assert [one.trial for one in begun] == names
    left = [one.left_s for one in begun]
    assert left == sorted(left, reverse=True)
    assert left[0] == pytest.approx(planned.expected_s)
    assert [(one.number, one.trials) for one in begun] == [(place, len(names)) for place in range(1, len(names) + 1)]
    assert sum(isinstance(one, LoadMeasured) for one in heard) == len(result.trials)
    stored = [one for one in heard if isinstance(one, TrialStored)]
    assert [(one.trial, one.verdict, one.reasons) for one in stored] == [(name, "valid", ()) for name in names]


def test_what_speaks_against_a_trial_is_told_by_its_code() -> None:
    heard: list[Event] = []
    of_fake(FakeDevice(duplicates=40), heard=heard)
    codes = {(one.code, one.severity) for one in heard if isinstance(one, CheckFailed)}
    assert ("duplicates", "invalid") in codes
    stored = [one for one in heard if isinstance(one, TrialStored)]
    assert {one.verdict for one in stored} == {"invalid"}
    assert "arrived more than once" in stored[0].reasons[0]


@pytest.mark.parametrize("part", PARTS)
def test_each_part_can_be_asked_for_alone(part) -> None:
    result = of_fake(FakeDevice(capacity_pps=400_000), replace(QUICK, parts=(part,)))
    made = {
        "search": result.sizes,
        "imix": result.sizes,
        "overload": result.overload,
        "loss-rate": result.loss_rates,
        "latency": result.latency,
        "burst": result.bursts,
    }
    assert made[part]
    others = [name for name in made if name != part and made[name]]
    assert others in ([], ["search"], ["imix"], ["search", "imix"])
    assert bool(others) is (part in ("search", "imix", "latency"))


@pytest.mark.parametrize(
    ("device", "code"),
    [
        (FakeDevice(super_packets=True), "super_packets"),
        (FakeDevice(goes_down=True), "port_down"),
        (FakeDevice(duplicates=40), "duplicates"),
        (FakeDevice(gone_at_s=3.0), "peer"),
    ],
)
def test_faults_end_in_a_verdict_and_never_in_a_number(device, code) -> None:
    result = of_fake(device)
    assert code in {one.code for one in result.refusals}
    assert all(goal.rate is None for size in result.sizes for goal in size.goals)
    assert all(one.received is None for one in result.overload)
    assert all(one.mean_frames is None for one in result.bursts)
    assert len(result.trials) < 25


def test_a_peer_that_vanishes_in_the_middle_leaves_what_was_found_before() -> None:
    gone = Refusal("peer", "the other machine went away")
    tester = SimulatedTester(4e5, refuse=lambda number, _pps: gone if number > 20 else None)
    result = run_suite(tester, QUICK, ABOUT, clock=tester.clock)
    assert result.overload[0].received is not None
    assert result.refusals == (gone,)
    assert len(result.trials) == 21
    assert [part.took_s is None for part in result.plan] == sorted(part.took_s is None for part in result.plan)
    assert result.plan[-1].took_s is None


def test_a_buffer_that_deceives_short_trials_is_a_doubt() -> None:
    result = of_fake(FakeDevice(capacity_pps=400_000, buffer_frames=5000), replace(QUICK, parts=("search", "burst")))
    doubts = [doubt for doubt in result.doubts if "buffer" in doubt]
    assert any("0.25 s trials of ndr" in doubt for doubt in doubts)
    assert any("2 s trials of rfc2544" in doubt for doubt in doubts)


def test_without_a_loss_free_rate_delays_are_not_measured_and_that_is_said() -> None:
    tester = SimulatedTester(1.0)
    result = run_suite(tester, replace(QUICK, parts=("search", "latency")), ABOUT, clock=tester.clock)
    assert result.latency == ()
    assert "64: delays were not measured, since no loss-free rate was found" in result.doubts


def test_later_parts_ask_for_no_more_than_the_tester_reached_in_the_search() -> None:
    tester = SimulatedTester(4e5, reach_pps=7e5)
    settings = replace(QUICK, parts=("search", "loss-rate"), sizes_bytes=(64,), loss_rate_sizes_bytes=(64,))
    result = run_suite(tester, settings, ABOUT, clock=tester.clock)
    assert result.loss_rates[0].maximum.pps <= 7e5
    assert all(step.refusal is None for step in result.loss_rates[0].steps)


def test_the_speed_of_a_link_is_what_was_asked_or_what_both_ports_say() -> None:
    real = replace(port("a"), driver="igb", speed_mbps=1000)
    faster = replace(port("b"), driver="ixgbe", speed_mbps=10_000)
    assert link_speed_mbps(ForwardSettings(), real, faster) == 1000
    assert link_speed_mbps(ForwardSettings(link_mbps=100.0), real, faster) == 100
    assert link_speed_mbps(ForwardSettings(), real, replace(faster, speed_mbps=None)) is None
    veth = replace(port("a"), driver="veth", speed_mbps=10_000)
    assert link_speed_mbps(ForwardSettings(), veth, veth) is None
