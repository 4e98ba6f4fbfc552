"""Processor time under load, of a hand-made series."""

from __future__ import annotations

import pyarrow as pa
import pytest

from wavebed.result.processors import processor_metrics
from wavebed.result.tables import SCHEMAS
from wavebed.workload.model import Span


def tables(*busy: tuple[float, float]) -> dict[str, pa.Table]:
    """Two processors in intervals of 100 ms."""
    rows = [
        {"time_ns": (number + 1) * 100_000_000, "core": core, "busy": each, "softirq": 0.0}
        for number, both in enumerate(busy)
        for core, each in enumerate(both)
    ]
    return {"cpu": pa.Table.from_pylist(rows, schema=SCHEMAS["cpu"])}


def test_busy_time_of_all_processors_counts_under_load_only() -> None:
    series = tables((1.0, 1.0), (0.5, 0.25), (1.0, 0.0), (1.0, 1.0))
    found = {each.name: each for each in processor_metrics(series, {"bulk": Span(0.1, 0.3, True)}, 5e8)}
    assert found["processor time"].value == pytest.approx(0.175)
    assert found["processor time per GB"].value == pytest.approx(0.35)
    assert {each.better for each in found.values()} == {"lower"}


def test_nothing_delivered_has_no_ratio() -> None:
    (_, ratio) = processor_metrics(tables((1.0, 1.0), (1.0, 1.0)), {"bulk": Span(0.0, 0.2, True)}, 0.0)
    assert ratio.value is None


@pytest.mark.parametrize(
    ("series", "spans"),
    [
        ({}, {"bulk": Span(0.0, 1.0, True)}),
        ({"cpu": SCHEMAS["cpu"].empty_table()}, {"bulk": Span(0.0, 1.0, True)}),
        (tables((1.0, 1.0), (1.0, 1.0)), {"ping": Span(0.0, 1.0, False)}),
    ],
)
def test_without_a_series_or_without_load_there_is_nothing(series: dict[str, pa.Table], spans: dict[str, Span]) -> None:
    assert list(processor_metrics(series, spans, 1e9)) == []
