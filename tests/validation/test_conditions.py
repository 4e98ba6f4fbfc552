"""Named conditions: what each name puts on a hop, and what the command says of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.path.model import PatternFile
from wavebed.path.timeline import load_timeline, timed_path
from wavebed.path.traces import Traces
from wavebed.pattern import read_trace

if TYPE_CHECKING:
    from pathlib import Path


def test_a_timeline_plays_conditions_with_the_rest_of_their_path(tmp_path: Path) -> None:
    file = tmp_path / "ride.toml"
    file.write_text(
        '[[stretch]]\nname = "lift"\nduration = "20s"\nscene = "lift/lte"\n'
        '[[stretch]]\nname = "train"\nduration = "20s"\nscene = "high-speed-train/lte"\n',
        encoding="utf-8",
    )
    traces = Traces()
    timed = timed_path(load_timeline(file), None, {}, traces)
    delay = timed.path.hops[0].down.delay
    assert isinstance(delay, PatternFile)
    pattern = read_trace(traces.engine_path(delay))
    assert pattern.delay_ns is not None
    assert list(zip(pattern.index.tolist(), pattern.delay_ns.tolist(), strict=True)) == [
        (0, 10_000_000),
        (20 * 10**9, 15_000_000),
    ]
    traces.close()
