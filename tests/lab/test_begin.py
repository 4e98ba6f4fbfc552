"""Laboratories whose time begins when it is told to."""

import subprocess
import time

import pytest

import wavebed
from wavebed.errors import UserError


def test_time_begins_when_it_is_told_to() -> None:
    with wavebed.Path.of(delay="5ms").up(wait=True) as lab:
        assert lab.zero_ns is None
        waiting = lab.client.start(["ping", "-c1", "-W60", "server"], stdout=subprocess.DEVNULL)
        time.sleep(0.1)
        assert waiting.poll() is None, "nothing crosses before time begins"
        before_ns = time.monotonic_ns()
        zero_ns = lab.begin()
        assert before_ns <= zero_ns <= time.monotonic_ns()
        assert lab.zero_ns == zero_ns
        assert waiting.wait(60) == 0
        with pytest.raises(UserError, match="begun already"):
            lab.begin()


def test_a_laboratory_that_does_not_wait_knows_its_time_zero() -> None:
    before_ns = time.monotonic_ns()
    with wavebed.Path.of(rate="10mbit").up() as lab:
        assert lab.zero_ns is not None
        assert before_ns < lab.zero_ns < time.monotonic_ns()
