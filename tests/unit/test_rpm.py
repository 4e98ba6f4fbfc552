"""Round trips per minute by the draft's formula, from what curl says about fresh connections."""

from __future__ import annotations

import json
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from wavebed.errors import WavebedError
from wavebed.workload import rpm
from wavebed.workload.model import Clock, Span, Stage
from wavebed.workload.rpm import Exchange, RpmProber, foreign_rpm, read_exchanges, rpm_metrics, rpm_series, trimmed_mean
from wavebed.workload.serve import Certificate

if TYPE_CHECKING:
    from pathlib import Path


def test_three_parts_of_20_ms_are_3000_round_trips_per_minute() -> None:
    assert foreign_rpm(20, 20, 20) == pytest.approx(3000)
    assert foreign_rpm(30, 60, 90) == pytest.approx(1000)


def test_the_trimmed_mean_leaves_out_the_largest_five_per_cent() -> None:
    assert trimmed_mean([*[10.0] * 19, 1000.0]) == 10
    assert trimmed_mean([*[10.0] * 38, 500.0, 1000.0]) == 10
    # Fewer than 20 have no whole value to leave out.
    assert trimmed_mean([10.0, 20.0]) == 15


def test_the_parts_of_an_exchange_are_what_lies_between_curls_moments(tmp_path: Path) -> None:
    said = {"time_namelookup": 0.001, "time_connect": 0.041, "time_appconnect": 0.091, "time_starttransfer": 0.151}
    rows = [
        {"start_s": 1.5, "curl": said},
        {"start_s": 2.0, "error": "curl: (28) timed out"},
        {"start_s": 3.0, "error": "ended with the workload"},
    ]
    file = tmp_path / "rpm.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done, failed = read_exchanges(file)
    assert (done.start_s, done.tcp_ms, done.tls_ms, done.http_ms) == pytest.approx((1.5, 40, 50, 60))
    assert (failed.start_s, failed.tcp_ms) == (2.0, None)


def test_each_window_has_its_own_figure_and_failures_are_counted() -> None:
    idle = [Exchange(index / 4, 40, 40, 40) for index in range(12)]
    loaded = [Exchange(3 + index / 4, 80, 80, 80) for index in range(12)]
    failed = [Exchange(6.0, None, None, None)]
    found = {
        metric.name: metric.value for metric in rpm_metrics([*idle, *loaded, *failed], [Span(2.9, 9, is_load=True)])
    }
    assert found["rpm foreign idle"] == pytest.approx(1500)
    assert found["rpm foreign loaded"] == pytest.approx(750)
    assert found["rpm tls_f loaded"] == pytest.approx(80)
    assert found["rpm failed"] == pytest.approx(4)


def test_few_exchanges_say_nothing() -> None:
    found = {metric.name: metric.value for metric in rpm_metrics([Exchange(0, 40, 40, 40)] * 9, [])}
    assert found["rpm foreign idle"] is None
    assert found["rpm tcp_f idle"] is None
    assert found["rpm failed"] == 0
    assert {metric.value for metric in rpm_metrics([], [])} == {None}


def test_the_definition_says_which_formula_it_is_and_what_it_lacks() -> None:
    for metric in rpm_metrics([], []):
        if metric.name.startswith("rpm foreign"):
            assert "draft-ietf-ippm-responsiveness" in metric.definition
            assert "without L" in metric.definition


def test_a_failed_exchange_is_missing_in_the_series() -> None:
    series = rpm_series([Exchange(0, 40, 41, 42), Exchange(1, None, None, None)])
    assert [one.name for one in series] == ["rpm tcp_f", "rpm tls_f", "rpm http_f"]
    assert list(series[1].value) == [41, None]


def test_a_curl_that_says_nonsense_ends_the_probing_with_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = SimpleNamespace(wait=lambda _: 0, returncode=0, output=lambda: ("nonsense", ""))
    host = cast("Any", SimpleNamespace(name="server", start=lambda *_, **__: process))
    monkeypatch.setattr(rpm, "start_web_server", lambda *_: SimpleNamespace(stop=lambda: None))
    clock = Clock()
    clock.begin(0)
    stage = Stage(cast("Any", None), host, host, tmp_path, clock, 20000, "198.19.1.", 1, 5.0)
    prober = RpmProber(stage, 20000, Certificate(tmp_path / "pem", "c2hhMjU2"))
    prober.start()
    until = time.monotonic() + 10
    while prober._error is None and time.monotonic() < until:
        time.sleep(0.01)
    with pytest.raises(WavebedError, match="rpm: Expecting value"):
        prober.look()
    with pytest.raises(WavebedError, match="rpm: Expecting value"):
        prober.end()
