"""The plan: the time that was said is the time it takes, for hundreds of random devices."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.unit.forward.simulated import SimulatedTester

from wavebed.experiment.estimate import duration_text
from wavebed.forward.estimate import Evidence
from wavebed.forward.frames import Headers
from wavebed.forward.parts import find_bursts, longest_passing, most_steps
from wavebed.forward.plan import plan, plan_search, searched
from wavebed.forward.search import search_size
from wavebed.forward.settings import ForwardSettings
from wavebed.forward.trials import load_limit

OVERHEAD_S = 0.3
STEADY = Evidence(clean=4)


def time_of(tester: SimulatedTester, goals) -> tuple[float, list[str]]:
    limit = load_limit(1000, tester.calibrate((64,)), Headers())
    began_s = tester.now_s
    finding = search_size(tester.log(), "64", limit, goals, plan_search(goals).budget(OVERHEAD_S))
    return tester.now_s - began_s, [goal.outcome for goal in finding.goals]


def test_a_plan_names_every_part_in_its_order() -> None:
    settings = ForwardSettings(sizes_bytes=(64, 1518)).quick()
    names = [part.trial for part in plan(settings, 0.3)]
    assert names == [
        "throughput",
        "overload",
        "search 64",
        "search 1518",
        "search IMIX",
        "loss-rate 64",
        "loss-rate 1518",
        "latency 64",
        "latency 1518",
        "burst 64",
    ]


def test_delays_need_a_search_of_their_sizes_only() -> None:
    settings = replace(ForwardSettings(), parts=("latency",), latency_sizes_bytes=(64,))
    assert list(searched(settings)) == ["64"]
    assert searched(replace(settings, parts=("loss-rate",))) == {}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (45, "45 s"), (59.7, "1 min"), (200, "3 min 20 s"), (3599.6, "1 h"), (3900, "1 h 5 min")],
)
def test_times_are_said_as_people_say_them(seconds, text) -> None:
    assert duration_text(seconds) == text


@pytest.mark.parametrize("holds", [0, 1, 2, 7, 130, 9_999, 1_234_567, 2_999_999])
@pytest.mark.parametrize("guess", [None, 1, 100, 1_000_000])
def test_the_longest_burst_is_found_to_one_percent_wherever_it_is(holds, guess) -> None:
    tried: list[int] = []

    def passes(frames: int) -> bool:
        tried.append(frames)
        return frames <= holds

    found = longest_passing(passes, 3_000_000, guess)
    assert holds - max(1, 0.01 * holds + 1) <= found <= holds
    assert len(tried) == len(set(tried))
    if guess is None:
        assert len(tried) <= most_steps(3_000_000)


def test_bursts_end_in_the_time_that_was_planned() -> None:
    settings = replace(ForwardSettings().quick(), burst_repeats=10, sizes_bytes=(64,), parts=("burst",))
    (part,) = plan(settings, OVERHEAD_S)
    assert part.at_most_s is not None
    longest_s = settings.burst_longest_s
    for buffer_frames in (0, 10, 1000, 100_000):
        for noise in (0.0, 0.05):
            tester = SimulatedTester(400_000, buffer_frames=buffer_frames, noise=noise, overhead_s=OVERHEAD_S)
            limit = load_limit(1000, tester.calibrate((64,)), Headers())
            began_s = tester.now_s
            find_bursts(tester.log(), "64", limit, longest_s, 10, part.at_most_s - longest_s)
            assert tester.now_s - began_s <= part.at_most_s
