"""Round trips per minute by the draft's formula, from what curl says about fresh connections."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from tests.memory_lab import MemoryLab, Program, Script

from wavebed.errors import WavebedError
from wavebed.workload import rpm
from wavebed.workload.model import Span, TrialContext
from wavebed.workload.rpm import (
    EVERY_S,
    Exchange,
    RpmProber,
    foreign_rpm,
    read_exchanges,
    rpm_metrics,
    rpm_series,
    trimmed_mean,
)
from wavebed.workload.serve import Certificate

if TYPE_CHECKING:
    from collections.abc import Callable
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


CURL_SAID = {"time_namelookup": 0.001, "time_connect": 0.041, "time_appconnect": 0.091, "time_starttransfer": 0.151}


@pytest.fixture
def begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Script], tuple[RpmProber, MemoryLab]]:
    """Return what begins to probe in a laboratory with this curl."""
    monkeypatch.setattr(rpm, "start_web_server", lambda *_: SimpleNamespace(stop=lambda: None))

    def begun(curl: Script) -> tuple[RpmProber, MemoryLab]:
        lab = MemoryLab({"curl": curl})
        lab.begin()
        context = TrialContext(lab.host("server"), lab.host("client"), tmp_path, lab.clock, 20000, "198.19.1.", 1, 5.0)
        prober = RpmProber(context, 20000, Certificate(tmp_path / "pem", "c2hhMjU2"))
        prober.start()
        return prober, lab

    return begun


def test_an_exchange_begins_every_quarter_of_a_second(begin: Callable[[Script], tuple[RpmProber, MemoryLab]]) -> None:
    prober, lab = begin(Program(0.151, output=json.dumps(CURL_SAID)))
    lab.clock.sleep(10.1)
    prober.end()
    found = prober.exchanges()
    assert [each.start_s for each in found] == pytest.approx([number * EVERY_S for number in range(len(found))])
    assert len(found) == 40  # the one that ran at the end is left out


def test_one_that_takes_longer_is_followed_at_once(begin: Callable[[Script], tuple[RpmProber, MemoryLab]]) -> None:
    prober, lab = begin(Program(2.0, output=json.dumps(CURL_SAID)))
    lab.clock.sleep(7.0)
    prober.end()
    assert [each.start_s for each in prober.exchanges()] == pytest.approx([0, 2, 4], abs=0.06)


def test_a_curl_that_says_nonsense_ends_the_probing_with_a_reason(
    begin: Callable[[Script], tuple[RpmProber, MemoryLab]],
) -> None:
    prober, lab = begin(Program(0.1, output="nonsense"))
    prober.look()
    lab.clock.sleep(1.0)
    with pytest.raises(WavebedError, match="rpm: Expecting value"):
        prober.look()
    with pytest.raises(WavebedError, match="rpm: Expecting value"):
        prober.end()
