"""The demonstration's figures and page, drawn from series made here for the purpose."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from wavebed.demo import run as demo
from wavebed.demo.figures import figures, table, verdicts
from wavebed.demo.phases import Bulk, Phase, Ping
from wavebed.demo.run import Outcome
from wavebed.demo.series import LinkSeries, binned, percentile, read_capacity, read_link_series
from wavebed.errors import MachineError, UserError, WavebedError
from wavebed.report.chart import nice_ticks
from wavebed.report.page import page

ROOT = Path(__file__).resolve().parents[2]
CAPACITY = read_capacity(ROOT / "scenarios/patterns/kau-e5g-1.csv")
HEADER = "time_ms,offered_bytes,delivered_bytes,queue_peak_bytes,sojourn_mean_ns\n"


def phase(name: str = "cubic", unaccounted: int = 0, late_us: float | None = 31.0) -> Phase:
    series = LinkSeries([125_000] * 40_000, [30_000] * 40_000, [2.0] * 40_000)
    summary: dict[str, Any] = {
        "links": [{"offered_segments": 10, "unaccounted_segments": unaccounted}],
        "hosts": [{"device_dropped_packets": 0, "udp_receive_buffer_errors": 0}],
        "departures": [{"refused_segments": 0, "late_p99_us": late_us, "late_max_us": late_us}],
    }
    pings = [Ping(second / 10, 22.0 if second > 210 else 42.0) for second in range(400)]
    return Phase(name, Bulk(1.0, 21.0, 200e6, 7), pings, series, summary)


def outcome(*phases: Phase) -> Outcome:
    rows = [figures(each, CAPACITY) for each in phases]
    about = {"date": "now", "seed": "1", "machine": "</script><b>", "kernel": "Linux"}
    return Outcome(list(phases), rows, verdicts(list(phases)), CAPACITY, about, 'title = "<x>"', "{}")


def test_capacity_is_integrated_over_its_steps() -> None:
    assert CAPACITY.bits(0, 1) == pytest.approx(945e6)
    assert CAPACITY.bits(2.0, 2.2) == pytest.approx(0.1 * 945e6 + 0.1 * 318e6)
    assert CAPACITY.bits(39, 50) == pytest.approx(1005e6)


def test_figures_of_a_flow() -> None:
    row = figures(phase(), CAPACITY)
    assert row.goodput_mbps == 200
    assert row.capacity_share == pytest.approx(200e6 * 20 / (1.1 * 945e6 + 18.9 * 318e6))
    assert (row.loaded_p50_ms, row.idle_p95_ms) == (42.0, 22.0)
    assert (row.queue_p95_bytes, row.queue_p95_ms) == (30_000, 2.0)


def test_missing_is_not_zero() -> None:
    silent = phase()
    row = figures(Phase("cubic", silent.bulk, [], LinkSeries([], [], []), silent.summary), CAPACITY)
    assert (row.idle_p50_ms, row.loaded_p95_ms, row.queue_p95_ms) == (None, None, None)
    assert table([row]).count("\N{EN DASH}") == 3


def test_percentiles_are_interpolated() -> None:
    assert percentile([], 0.5) is None
    assert percentile([3, 1, 2], 0.5) == 2
    assert percentile([0, 10], 0.95) == pytest.approx(9.5)


def test_bins_of_nothing_stay_nothing() -> None:
    assert binned([1, None, None, None, 5, 7], 2, "mean") == [1, None, 6]
    assert binned([1, 2, 3], 2, "sum") == [3, 3]
    assert binned([1, 2, 3], 2, "max") == [2, 3]


@pytest.mark.parametrize("packed", [False, True])
def test_series_are_read_with_their_gaps(tmp_path: Path, packed: bool) -> None:
    text = HEADER + "0,1,2,3,4000000\n2,1,5,6,\n"
    file = tmp_path / ("a.csv.gz" if packed else "a.csv")
    file.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    assert read_link_series(file) == LinkSeries([2, 0, 5], [3, 0, 6], [4.0, None, None])


def test_a_series_without_a_column_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("time_ms,offered_bytes\n")
    with pytest.raises(UserError, match=r"a\.csv: has no column 'delivered_bytes'"):
        read_link_series(tmp_path / "a.csv")


def test_verdicts_follow_the_books() -> None:
    assert all(verdict.holds for verdict in verdicts([phase()]))
    assert [verdict.holds for verdict in verdicts([phase(unaccounted=-3)])] == [False, True, True]
    assert [verdict.holds for verdict in verdicts([phase(), phase(late_us=260.0)])] == [True, True, False]


def test_ticks_are_round_and_enclose() -> None:
    assert nice_ticks(0, 1005) == [0, 250, 500, 750, 1000, 1250]
    assert nice_ticks(0, 0)[-1] >= 1


def test_the_page_stands_alone() -> None:
    text = page(outcome(phase("download"), phase("cubic"), phase("bbr")))
    assert len(text) < 1_000_000
    assert not re.search(r"(?:src|href)\s*=|url\(|@import|https?://", text)
    assert "<b>" not in text.partition("<body>")[2]
    assert text.count("</script>") == 2
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])  # type: ignore[index]
    assert [flow["key"] for flow in data["flows"]] == ["download", "cubic", "bbr"]
    assert len(data["capacity_mbps"]) == len(data["flows"][0]["mbps"]) == 400
    assert data["flows"][1]["mbps"][100] == 1000
    assert data["flows"][1]["mbps"][5] is None


def test_an_existing_folder_is_not_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "find_tools", dict)
    monkeypatch.setattr(demo, "available_congestion_controls", lambda: ["cubic", "bbr"])
    with pytest.raises(UserError, match=r"-o: .* is there already"):
        demo.run_demo(tmp_path, 1)


def test_a_failure_is_marked_and_an_interrupt_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "find_tools", dict)
    monkeypatch.setattr(demo, "_about", lambda *_: {})
    monkeypatch.setattr(demo, "available_congestion_controls", lambda: ["cubic", "bbr"])

    def fail(*_: object) -> Outcome:
        raise UserError("curl ended with 7")

    def interrupt(*_: object) -> Outcome:
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "_run_phases", fail)
    with pytest.raises(WavebedError, match=r"curl ended with 7; what there was is in .*run\.failed"):
        demo.run_demo(tmp_path / "run", 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.failed"]
    monkeypatch.setattr(demo, "_run_phases", interrupt)
    with pytest.raises(KeyboardInterrupt):
        demo.run_demo(tmp_path / "other", 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.failed"]


def test_missing_tools_name_their_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wavebed.demo.tools.shutil.which", lambda name, **_: None if name == "nginx" else name)
    with pytest.raises(MachineError, match="nginx: not found: run `apt-get install nginx-light`"):
        demo.find_tools()
