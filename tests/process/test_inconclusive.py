"""A test that judges times and fails on a late machine is inconclusive; nothing else is."""

from __future__ import annotations

import signal
import threading
import time

from tests.machine import Watch


def test_the_watch_sees_a_process_that_is_woken_late() -> None:
    watch = Watch().begin()
    time.sleep(0.2)
    found = watch.end()
    watch.close()
    assert 0 < found.p99_ms <= found.worst_ms
    assert 0 <= found.stolen <= 1


def test_the_watch_sees_that_it_stood_still_when_it_was_asked() -> None:
    watch = Watch().begin()
    watch._process.send_signal(signal.SIGSTOP)
    goes_on = threading.Timer(0.3, watch._process.send_signal, [signal.SIGCONT])
    goes_on.start()
    assert watch.end().worst_ms > 100
    goes_on.join()
    watch.close()
