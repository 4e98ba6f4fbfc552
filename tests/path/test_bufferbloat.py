"""A deep buffer in front of a falling rate makes CUBIC's ping long, a shallow one does not: real TCP, real ping."""

from __future__ import annotations

import pytest
from bufferbloat_run import DEEP, SHALLOW, Cell, Course, run
from bufferbloat_series import percentile

pytestmark = pytest.mark.alone

# Short: two seconds at 300 Mbit/s fill the window, a second at 60 Mbit/s shows what waits.
COURSE = Course(idle_s=0.5, fall_s=2.2, low_s=2.4, back_s=3.5, end_s=3.6)
# Acknowledgements that a machine bunches end the slow start of one flow far below the path (HyStart: 5 of 24 runs
# beside two busy loops reached 70 of 164 Mbit/s). Four flows filled the path in 64 of 64.
FLOWS = 4


@pytest.mark.parametrize("direction", ["down", "up"])
def test_a_deep_buffer_at_a_falling_rate_gives_cubic_a_ping_of_hundreds_of_ms(direction: str) -> None:
    result = run(Cell("falling", direction, DEEP, "cubic", FLOWS), 1, COURSE)
    # 200 ms at 60 Mbit/s are 1.5 MB: windows that fit the path at 300 Mbit/s and 28 ms (1 MB) and half as much again.
    assert max(result.loaded_ms()) > 200
    # It is the buffer that makes them: before the transfer the same path takes 28 ms.
    idle_ms = percentile(result.idle_ms(), 0.5)
    assert idle_ms is not None
    assert idle_ms < 60


@pytest.mark.parametrize("direction", ["down", "up"])
def test_a_shallow_buffer_at_a_falling_rate_keeps_the_ping_of_cubic_below_100_ms(direction: str) -> None:
    result = run(Cell("falling", direction, SHALLOW, "cubic"), 1, COURSE)
    # 256 KiB at 60 Mbit/s, a tenth of it spent on failed blocks, wait 39 ms; with 28 ms of the path that is 67 ms.
    # The 95th percentile leaves out the few echoes that a busy machine holds up.
    loaded_ms = result.loaded_ms()
    longest_ms = percentile(loaded_ms, 0.95)
    assert longest_ms is not None
    assert longest_ms < 100
    # The link was loaded: a queue stood, and echoes were sent beside it.
    assert max(result.series.queue_peak_bytes) > 128 * 1024
    assert len(loaded_ms) > 20
