"""Programs that probe are watched, and all of them are ended whatever one of them does."""

from __future__ import annotations

import threading
import time

import pytest

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


@pytest.mark.parametrize(("fault", "words"), [("dead", "before its time"), ("stuck", "did not end")])
def test_one_that_fails_does_not_keep_the_others_from_ending(fault: str, words: str) -> None:
    bad, good = Fake(dead=fault == "dead", stuck=fault == "stuck"), Fake()
    with pytest.raises(WavebedError, match=words):
        Watch(0.05, 0.0).keep([bad, good])
    assert (bad.ended, good.ended) == (1, 1)


def test_asked_to_stop_before_it_began_it_ends_at_once() -> None:
    watch, prober = Watch(60, 0.0), Fake()
    watch.stop()
    watch.stop()
    watch.keep([prober])
    assert prober.ended == 1
    assert watch.stopped_early


def test_its_tail_comes_after_the_word_to_stop() -> None:
    watch, prober = Watch(None, 0.2), Fake()
    told = threading.Timer(0.1, watch.stop)
    began = time.monotonic()
    told.start()
    watch.keep([prober])
    told.join()
    assert time.monotonic() - began >= 0.3
    assert not watch.stopped_early
