"""A deep buffer in front of a falling rate makes CUBIC's ping long: real TCP, real ping."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from bufferbloat_plan import DEEP, Cell, Course, run_cells
from experiments import echoes

if TYPE_CHECKING:
    from pathlib import Path


# Short: two seconds at 300 Mbit/s fill the window, a second at 60 Mbit/s shows the queue.
COURSE = Course(idle_s=0.6, fall_s=2.3, low_s=2.5, back_s=3.5, end_s=3.6)
# Acknowledgements that a machine bunches end the slow start of one flow far below the path (HyStart: 5 of 24 runs
# beside two busy loops reached 70 of 164 Mbit/s). Four flows filled the path in 64 of 64.
FLOWS = 4


@pytest.mark.parametrize("direction", ["down", "up"])
def test_a_deep_buffer_at_a_falling_rate_gives_cubic_a_ping_of_hundreds_of_ms(direction: str, tmp_path: Path) -> None:
    run = run_cells(tmp_path, [Cell("falling", direction, DEEP, "cubic", FLOWS)], 1, COURSE)
    line = run.record.trials[-1]  # those that a late machine made invalid come before
    span = next(each.span for each in run.trial(line.folder).workloads if each.name == "bulk")
    assert span is not None, line.reasons
    pings = echoes(run, line.folder)
    at_s, rtt_ms = pings["time_s"].to_numpy(), pings["value"].to_numpy()
    idle_ms = rtt_ms[at_s + rtt_ms / 1e3 < span.start_s]
    loaded_ms = rtt_ms[(at_s >= span.start_s) & (at_s < span.end_s)]
    # 200 ms at 60 Mbit/s are 1.5 MB: windows that fit the path at 300 Mbit/s and 28 ms (1 MB) and half as much again.
    assert loaded_ms.max() > 200
    # It is the buffer that makes them: before the transfer the same path takes 28 ms.
    assert np.median(idle_ms) < 60
