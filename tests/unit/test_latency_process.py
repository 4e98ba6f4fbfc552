"""Programs that probe are watched, and all of them are ended whatever one of them does."""

from __future__ import annotations

import pytest
from tests.virtual_clock import VirtualClock

from wavebed.errors import WavebedError
from wavebed.workload.latency_process import Watch


class Fake:
    """A prober that is fine until it is said to be dead."""

    def __init__(self, *, dead: bool = False, stuck: bool = False) -> None:
        self.dead, self.stuck, self.ended = dead, stuck, 0

    def look(self) -> None:
        if self.dead:
            raise WavebedError("one ended with 2 before its time")

    def end(self) -> None:
        self.ended += 1
        self.look()
        if self.stuck:
            raise WavebedError("one did not end within 3 s")


@pytest.fixture
def clock() -> VirtualClock:
    made = VirtualClock()
    made.begin()
    return made


@pytest.mark.parametrize(("fault", "words"), [("dead", "before its time"), ("stuck", "did not end")])
def test_one_that_fails_does_not_keep_the_others_from_ending(clock: VirtualClock, fault: str, words: str) -> None:
    bad, good = Fake(dead=fault == "dead", stuck=fault == "stuck"), Fake()
    with pytest.raises(WavebedError, match=words):
        Watch(clock, 5.0, 0.0).keep([bad, good])
    assert (bad.ended, good.ended) == (1, 1)


def test_one_that_dies_is_noticed_before_the_duration_is_over(clock: VirtualClock) -> None:
    bad, good = Fake(), Fake()
    clock.at(10.0, lambda: setattr(bad, "dead", True))
    with pytest.raises(WavebedError, match="before its time"):
        Watch(clock, 60.0, 0.0).keep([good, bad])
    assert 10 <= clock.now_s() <= 10.2
    assert good.ended == 1


def test_it_lasts_as_long_as_it_should(clock: VirtualClock) -> None:
    watch, prober = Watch(clock, 12.5, 0.0), Fake()
    assert watch.keep([prober]) == pytest.approx(12.5)
    assert prober.ended == 1
    assert not watch.stopped_early


def test_asked_to_stop_before_it_began_it_ends_at_once(clock: VirtualClock) -> None:
    watch, prober = Watch(clock, 60, 0.0), Fake()
    watch.stop()
    watch.stop()
    assert watch.keep([prober]) == 0
    assert prober.ended == 1
    assert watch.stopped_early


def test_its_tail_comes_after_the_word_to_stop(clock: VirtualClock) -> None:
    watch, prober = Watch(clock, None, 2.0), Fake()
    clock.at(100.0, watch.stop)
    assert watch.keep([prober]) == pytest.approx(102)
    assert not watch.stopped_early
