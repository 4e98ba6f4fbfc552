"""A deep buffer in front of a falling rate makes CUBIC's ping long, a shallow one does not: real TCP, real ping."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from bufferbloat_plan import DEEP, SHALLOW, Cell, Course, run_cells
from experiments import echoes

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from wavebed.result.load import Run


# Short: two seconds at 300 Mbit/s fill the window, a second at 60 Mbit/s shows the queue.
COURSE = Course(idle_s=0.6, fall_s=2.3, low_s=2.5, back_s=3.5, end_s=3.6)
# Acknowledgements that a machine bunches end the slow start of one flow far below the path (HyStart: 5 of 24 runs
# beside two busy loops reached 70 of 164 Mbit/s). Four flows filled the path in 64 of 64.
FLOWS = 4


def one_trial(cell: Cell, folder: Path) -> tuple[Run, NDArray[np.float64], NDArray[np.float64]]:
    """Run one cell with one seed; return its run, and the answered echoes of the idle and of the loaded path, ms."""
    run = run_cells(folder, [cell], 1, COURSE)
    (line,) = run.record.trials
    span = next(each.span for each in run.trial(line.folder).workloads if each.name == "bulk")
    assert span is not None, line.reasons
    pings = echoes(run, line.folder)
    at_s, rtt_ms = pings["time_s"].to_numpy(), pings["value"].to_numpy()
    idle = at_s + rtt_ms / 1e3 < span.start_s
    loaded = (at_s >= span.start_s) & (at_s < span.end_s)
    assert idle.any(), "an echo was answered before the transfer"
    assert loaded.any(), "an echo was answered during the transfer"
    return run, rtt_ms[idle], rtt_ms[loaded]


@pytest.mark.parametrize("direction", ["down", "up"])
def test_a_deep_buffer_at_a_falling_rate_gives_cubic_a_ping_of_hundreds_of_ms(direction: str, tmp_path: Path) -> None:
    _, idle_ms, loaded_ms = one_trial(Cell("falling", direction, DEEP, "cubic", FLOWS), tmp_path)
    # 200 ms at 60 Mbit/s are 1.5 MB: windows that fit the path at 300 Mbit/s and 28 ms (1 MB) and half as much again.
    assert loaded_ms.max() > 200
    # It is the buffer that makes them: before the transfer the same path takes 28 ms.
    assert np.median(idle_ms) < 60


@pytest.mark.parametrize("direction", ["down", "up"])
def test_a_shallow_buffer_at_a_falling_rate_keeps_the_ping_of_cubic_below_100_ms(
    direction: str, tmp_path: Path
) -> None:
    run, _, loaded_ms = one_trial(Cell("falling", direction, SHALLOW, "cubic"), tmp_path)
    # 256 KiB at 60 Mbit/s, a tenth of it spent on failed blocks, wait 39 ms; with 28 ms of the path that is 67 ms.
    # The 95th percentile leaves out the few echoes that a busy machine delays.
    assert np.percentile(loaded_ms, 95) < 100
    # The link was loaded: a queue stood, and echoes were sent beside it.
    links = run.table("links", columns=["link", "queue_peak_bytes"])
    assert links[links["link"] == f"radio.{direction}"]["queue_peak_bytes"].max() > 128 * 1024
    assert len(loaded_ms) > 20
