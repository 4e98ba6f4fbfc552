"""Numbers, thinning, and the path of the report."""

from __future__ import annotations

import numpy as np
import pytest

from wavebed.forward.report.chart import json_island
from wavebed.report.figure import Figure, Line, Panel
from wavebed.report.numbers import figure, nice_ticks, signed, ticks_between
from wavebed.report.path import path_row
from wavebed.report.thin import Points, held, summed, thinned


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (float("nan"), "–"),
        (0.0, "0"),
        (0.0999999, "0.100"),
        (9.999, "10.0"),
        (1234.4, "1234"),
        (84.0, "84"),
        (22.34, "22.3"),
        (-0.05, "−0.0500"),
        (200e6, "200\u202f000\u202f000"),
        (4e-7, "0.000000400"),
    ],
)
def test_numbers_have_three_digits(value: float | None, text: str) -> None:
    assert figure(value) == text


def test_differences_have_a_sign() -> None:
    assert [signed(value) for value in (1.5, -1.5, 0.0, None)] == ["+1.50", "−1.50", "0", "–"]


def test_ticks_are_round() -> None:
    assert nice_ticks(0, 1005) == [0, 500, 1000, 1500]
    assert nice_ticks(0, 0)[-1] >= 1
    assert ticks_between(0.3, 2.1, 4) == [0.5, 1.0, 1.5, 2.0]


def test_thinning_keeps_extremes_and_gaps() -> None:
    time_s = np.linspace(0, 10, 100_001)
    value = np.sin(time_s)
    value[50_000] = 7.0
    value[70_000] = -9.0
    value[20_000:30_000] = np.nan
    few = thinned(Points(time_s, value), 0, 10, 100)
    assert len(few) <= 310
    assert (np.nanmax(few.value), np.nanmin(few.value)) == (7.0, -9.0)
    assert np.isnan(few.value[(few.time_s > 2.01) & (few.time_s < 2.99)]).all()
    assert (np.diff(few.time_s) > 0).all()


def test_few_points_stay_as_they_are() -> None:
    points = Points(np.array([0.0, 1.0]), np.array([5.0, np.nan]))
    assert thinned(points, 0, 1, 10) is points


def test_a_value_holds_until_the_next() -> None:
    points = Points(np.array([1.0, 2.0]), np.array([5.0, 6.0]))
    out = held(points, np.array([0.5, 1.5, 9.0]))
    assert np.isnan(out[0])
    assert out[1:].tolist() == [5.0, 6.0]


def test_a_rate_is_what_was_carried_in_each_step() -> None:
    rate = summed(np.array([0.0, 0.05, 0.35]), np.array([1.0, 2.0, 4.0]), 0.1, 0.4)
    assert rate.value.tolist() == pytest.approx([30, 0, 0, 40])


def test_a_line_is_cut_at_a_gap() -> None:
    points = Points(np.array([0.0, 1.0, 2.0, 3.0]), np.array([1.0, 2.0, np.nan, 1.0]))
    html = Figure("f", 0, 4, [Panel("p", "ms", [Line("a", "t0", points)])]).render()
    assert 'd="M0 5000l25000 -5000M75000 5000h10"' in html


def test_capacity_holds_from_the_start_to_the_end() -> None:
    points = Points(np.array([0.0, 5.0]), np.array([10.0, 20.0]))
    line = Line("capacity", "capacity", points, stepped=True, holds=True)
    html = Figure("f", 2, 10, [Panel("p", "Mbit/s", [line])]).render()
    assert 'd="M0 5000h37500v-5000h62500v0"' in html


def test_data_cannot_leave_its_island() -> None:
    assert "</script><b>" not in json_island("data", ["</script><b>"])


def test_the_path_names_what_each_link_does() -> None:
    delay = {"stage": "delay", "delay": {"kind": "constant", "delay_ns": 11_000_000}}
    limit = {"kind": "droptail", "limit": {"packets": 1000}}
    down = {"stage": "bottleneck", "rate": {"kind": "constant", "rate_bps": 54_000_000}, "queue": limit}
    segment = {"name": "lte", "kind": "radio", "down": [down, delay], "up": [delay]}
    hosts = [{"name": "server"}, {"name": "client", "congestion_control": "bbr"}]
    row = path_row({"network": {"hosts": hosts, "legs": [{"hops": [segment]}]}})
    assert "54 Mbit/s, queue droptail 1\u202f000 packets, delay 11 ms" in row
    assert path_row({}) == ""
