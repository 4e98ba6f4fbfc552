"""The report of a run: what stands in the page, and that it stands alone."""

from __future__ import annotations

import json
import re
import shutil
from html import unescape
from typing import TYPE_CHECKING

import pytest
from tests.unit.report_example import EVIL, Plan, write_example

from wavebed.cli import main
from wavebed.errors import UserError
from wavebed.page import asset
from wavebed.page.text import amount
from wavebed.report.build import MOST_BYTES, small_page, write_report
from wavebed.report.first import PrimaryMetric, answer, closing_rows, effect, primary_of
from wavebed.report.metrics import KINDS_ORDER, PATH, Row, finding, metric_rows
from wavebed.report.source import Results, headlines, read_results, views
from wavebed.result.model import Check
from wavebed.run.scenario import RunTable
from wavebed.workload.model import Metric

if TYPE_CHECKING:
    from pathlib import Path

MANY = Plan(blocks=8, excluded=False)


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_example(tmp_path_factory.mktemp("example") / "run")


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_example(tmp_path_factory.mktemp("many") / "run", MANY)


@pytest.fixture(scope="module")
def text(example: Path) -> str:
    return write_report(example).read_text(encoding="utf-8")


def plain(text: str) -> str:
    """Return what people read, without mark-up."""
    body = re.sub(r"<(script|style)\b.*?</\1>", " ", text, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", body)).split())


def test_the_page_stands_alone(text: str) -> None:
    text = text.replace(asset("uplot/uPlot.iife.min.js"), "")  # it only names its home page
    addresses = re.findall(r"""(?:src|href)\s*=\s*["']?([^"'\s>]*)""", text)
    assert addresses
    assert all(address.startswith(("#", "data:")) for address in addresses)
    style = text.partition("<style>")[2].partition("</style>")[0]
    assert "url(" not in style
    assert "@import" not in style
    assert len(text.encode()) < MOST_BYTES


def test_what_others_wrote_is_escaped(text: str) -> None:
    assert EVIL not in text
    assert "<script>alert" not in text
    assert text.count("<script>") == 1
    assert EVIL in unescape(text)


def test_the_licence_of_the_library_is_in_the_page(text: str) -> None:
    assert "Copyright (c) 2022 Leon Sorokin" in text


def test_a_title_and_names_with_mark_up_are_escaped(tmp_path: Path) -> None:
    folder = write_example(tmp_path / "run", Plan(blocks=1, excluded=False, title=f"{EVIL}</title>"))
    text = write_report(folder).read_text(encoding="utf-8")
    assert "&lt;script&gt;alert(&#34;x&#34;)&lt;/script&gt;&lt;/title&gt;</title>" in text
    assert EVIL not in text


def test_the_picture_holds_the_values_that_the_script_draws(text: str) -> None:
    figures = re.findall(r'data-start="([^"]+)" data-end="([^"]+)"', text)
    assert figures
    assert all(float(start) < float(end) for start, end in figures)
    panels = re.findall(r'data-low="([^"]+)" data-high="([^"]+)">(.*?)</svg>', text, re.DOTALL)
    assert len(panels) > len(figures)
    assert all(float(low) < float(high) for low, high, _ in panels)
    for *_, drawn in panels:
        lines = re.findall(r'<path class="line [^"]+" data-name="[^"]*" d="([^"]*)"', drawn)
        assert lines
        assert all(re.fullmatch(r"(M\d+ \d+((l-?\d+ -?\d+)+|(h\d+v-?\d+)+|h10)?)+", line) for line in lines)


def test_every_workload_has_its_panel(text: str) -> None:
    for heading in ("Bulk", "Download", "Voice", "Call", "Video", "Web"):
        assert re.search(rf"<h3>{heading}\b", text), heading
    read = plain(text)
    for title in ("Queue at radio.down", "Round-trip time", "Congestion window", "Buffer", "idle"):
        assert title in read, title
    assert text.count('class="film"') == 6
    assert text.count('class="waterfall"') == 6


def test_excluded_trials_are_counted_and_named(text: str) -> None:
    read = plain(text)
    assert "2 of 6 trials are excluded" in read
    assert "1 of 3 with cubic, 1 of 3 with bbr" in read
    assert "processor saturated: 98 % of core 0 for 12.1 s" in read
    assert "a processor was free: passed in 5 of 6 trials" in read


def test_how_to_repeat_it_is_said(text: str) -> None:
    read = plain(text)
    assert "wavebed run example.toml --trials 3 --seed 1" in read
    assert "iperf3 3.12" in read
    assert "Linux 6.1.0" in read


def test_only_counted_trials_make_figures(example: Path) -> None:
    results = read_results(example)
    row = next(row for row in metric_rows(results)["download"] if row.metric.name == "download time")
    assert [block for block, _ in row.values["cubic"]] == [1, 2]
    assert [block for block, _ in row.values["bbr"]] == [1, 3]


def test_differences_are_paired_by_block(example: Path) -> None:
    row = next(row for row in metric_rows(read_results(example))["bulk"])
    paired = row.difference("cubic", "bbr")
    assert paired is not None
    assert paired.count == 1
    assert paired.estimate == pytest.approx(dict(row.values["bbr"])[1] - dict(row.values["cubic"])[1])


def test_few_trials_claim_no_difference(example: Path) -> None:
    sentences = finding(read_results(example))
    assert len(sentences) == 3
    assert all("not enough trials to compare (" in sentence for sentence in sentences)


def test_a_difference_is_claimed_where_its_interval_leaves_out_0(many: Path) -> None:
    sentences = finding(read_results(many))
    assert any("; lower with bbr, 95 % interval of the paired difference −" in sentence for sentence in sentences)


def first_screen(text: str) -> str:
    """Return what stands above the results."""
    return plain(text.partition("<header>")[2].partition('<section id="results">')[0])


def test_the_page_begins_with_the_answer_and_the_metric_that_the_scenario_names(many: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(many, tmp_path / "run")
    record = json.loads((folder / "run.json").read_text())
    record["primary"] = "ping.rtt loaded p95"
    (folder / "run.json").write_text(json.dumps(record))
    page = write_report(folder).read_text(encoding="utf-8")
    told = first_screen(page)
    assert "RTT loaded p95 of ping is lower with bbr: " in told
    assert re.search(r"bbr − cubic is −[\d.]+.ms \(95 %: −[\d.]+ to −[\d.]+.ms; 8 pairs\)\.", told)
    assert "The scenario names this metric." in told
    assert "the middle one of 8 by this metric" in told
    chart = page.partition('class="first"')[2].partition("</section>")[0]
    assert chart.count('class="spot') == 16
    assert "Round-trip time" in plain(chart)
    assert "downlink: capacity and delivery" in plain(chart)


def test_without_a_named_metric_the_rule_is_said(many: Path) -> None:
    results = read_results(many)
    primary = primary_of(results)
    assert primary is not None
    assert (primary.workload, primary.metric.name) == ("web", "speed index")
    assert "run.primary names another" in primary.rule
    (key,) = (each for each in RunTable.__annotations__.values() if "the report begins with" in str(each))
    assert ", ".join(KINDS_ORDER) in str(key), "the reference names the same order"


def test_a_named_metric_without_a_value_is_not_called_unnamed(many: Path) -> None:
    primary = primary_of(read_results(many), "path.recovery time")
    assert primary is not None
    assert primary.rule == "path.recovery time has no value in a counted trial: this metric is shown instead."


def test_few_pairs_decide_nothing_on_the_first_screen(example: Path) -> None:
    results = read_results(example)
    primary = primary_of(results)
    assert effect(results, primary).endswith("too few to decide, 6 are needed.")
    rows = dict(closing_rows(results))
    assert list(rows) == ["question", "answer", "effect", "timing"]
    assert rows["timing"].startswith("2 of 6 trials are not counted (processor saturated: 98 % of core 0 for 12.1 s; ")


def test_a_check_begins_with_its_verdict_and_each_requirement_with_numbers(many: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(many, tmp_path / "run")
    required = {
        "requirement": "ping.rtt loaded p95 max < 50 ms",
        "treatment": "cubic",
        "outcome": "fail",
        "unit": "ms",
        "value": 120.0,
        "values": [{"seed": 1, "value": 120.0, "decides": True}],
        "reasons": ["seed 1: 120 ms"],
        "statistic": "max",
        "comparison": "<",
        "bound": 50.0,
    }
    whole = {"requirement": "every trial completes", "treatment": "cubic", "outcome": "pass", "unit": "", "seeds": 8}
    whole |= {"value": None, "values": [], "reasons": []}
    (folder / "check.json").write_text(json.dumps({"outcome": "fail", "requirements": [whole, required]}))
    page = write_report(folder).read_text(encoding="utf-8")
    told = first_screen(page)
    assert "✗ fail 1 of 2 requirements failed." in told
    assert "ping.rtt loaded p95 max < 50 ms: 120 ms" in told
    assert "every trial completes: 8 seeds" in told
    assert 'class="bound"' in page
    assert "< 50 ms" in told


def test_a_requirement_that_only_a_check_computes_is_drawn_with_its_own_values(many: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(many, tmp_path / "run")
    required = {
        "requirement": "path.delivered down min > 50 mbit",
        "treatment": "cubic",
        "outcome": "pass",
        "unit": "Mbit/s",
        "value": 61.0,
        "values": [{"seed": 1, "value": 61.0, "decides": True}, {"seed": 2, "value": 87.0, "decides": True}],
        "reasons": [],
        "statistic": "min",
        "comparison": ">",
        "bound": 50.0,
    }
    (folder / "check.json").write_text(json.dumps({"outcome": "pass", "requirements": [required]}))
    chart = write_report(folder).read_text(encoding="utf-8").partition('class="first"')[2].partition("</section>")[0]
    assert "path: delivered down , Mbit/s" in plain(chart)
    assert "61\N{NO-BREAK SPACE}Mbit/s min of 2" in unescape(re.sub(r"<[^>]+>", "", chart))
    assert 'class="bound"' in chart
    assert "speed index" not in chart


def test_a_bound_is_drawn_on_no_other_metric(many: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(many, tmp_path / "run")
    required = {
        "requirement": "path.delivered down min > 50 mbit",
        "treatment": "cubic",
        "outcome": "inconclusive",
        "unit": "Mbit/s",
        "value": None,
        "values": [],
        "reasons": ["seed 1: not measured"],
        "statistic": "min",
        "comparison": ">",
        "bound": 50.0,
    }
    (folder / "check.json").write_text(json.dumps({"outcome": "inconclusive", "requirements": [required]}))
    page = write_report(folder).read_text(encoding="utf-8")
    assert "web: speed index" in first_screen(page)
    assert 'class="bound"' not in page


THREE = ("cubic", "bbr", "reno")
VALUES = {"cubic": 40.0, "bbr": 30.0, "reno": 35.0}


@pytest.mark.parametrize(
    ("blocks", "answered", "told"),
    [
        (8, "Goodput of x is higher with cubic: 43.5", "(95 % for all 3 comparisons: +10 to +10\N{NO-BREAK SPACE}"),
        (6, "Goodput of x: 32.5", "6 pairs of trials are too few to decide, 7 are needed."),
    ],
)
def test_of_three_treatments_the_extremes_are_compared_at_a_level_for_all_pairs(
    many: Path, blocks: int, answered: str, told: str
) -> None:
    results = Results(read_results(many).run, [], [], THREE)
    values = {name: [(block, value + block) for block in range(blocks)] for name, value in VALUES.items()}
    primary = PrimaryMetric("x", PATH, Row(Metric("goodput", None, "Mbit/s", "higher"), values, {}), "")
    assert answer(results, primary).startswith(answered)
    assert effect(results, primary).startswith("cubic − bbr is +10\N{NO-BREAK SPACE}Mbit/s")
    assert told in effect(results, primary)


def test_too_few_trials_of_three_treatments_have_no_best(many: Path) -> None:
    results = Results(read_results(many).run, [], [], THREE)
    row = Row(Metric("goodput", None, "Mbit/s", "higher"), {name: [(1, VALUES[name])] for name in THREE}, {})
    space = "\N{NO-BREAK SPACE}"
    assert answer(results, PrimaryMetric("x", PATH, row, "")) == (
        f"Goodput of x: 30{space}Mbit/s with bbr to 40{space}Mbit/s with cubic."
    )
    row = Row(row.metric, {**row.values, "bbr": []}, {})
    assert answer(results, PrimaryMetric("x", PATH, row, "")).endswith(" with reno. No value: bbr.")


def test_a_machine_is_blamed_only_if_it_was_late(many: Path) -> None:
    results = read_results(many)
    assert effect(results, None) == "No value counts."
    results.trials[0].record.checks.append(Check("departures in time", False, "invalid", "late", "late"))
    assert effect(results, None).startswith("The machine was too slow")


def test_a_check_that_was_interrupted_says_that_it_has_no_verdict(many: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(many, tmp_path / "run")
    record = json.loads((folder / "run.json").read_text())
    record["command_line"] = ["wavebed", "check", "--", "true"]
    (folder / "run.json").write_text(json.dumps(record))
    assert "There is no verdict: the check did not end." in first_screen(write_report(folder).read_text("utf-8"))


def test_many_bytes_are_shown_in_mb() -> None:
    assert amount(12_345_678, "bytes") == "12.3\N{NO-BREAK SPACE}MB"
    assert amount(-20_000, "bytes", sign=True) == "−20\N{NO-BREAK SPACE}kB"
    assert amount(900, "bytes") == "900\N{NO-BREAK SPACE}bytes"
    row = Row(Metric("size", None, "bytes"), {"a": [(1, 3e6)], "b": [(1, 5e3)]}, {"a": 0, "b": 0})
    assert row.scaled().metric.unit == "MB"
    assert row.scaled().values == {"a": [(1, 3.0)], "b": [(1, 0.005)]}


def test_what_was_never_measured_is_said_and_no_zero(text: str) -> None:
    assert "Not measured in any counted trial: recovery time." in plain(text)


def test_many_seeds_are_spread_over_the_results(many: Path) -> None:
    results = read_results(many)
    chosen, count = views(results, 3)
    assert (len(chosen), count) == (3, 8)
    workload, name = next(headlines(results))
    values = {
        trial.line.block: next(metric.value for metric in record.outcome.metrics if metric.name == name)
        for trial in results.trials
        if trial.line.treatment == "cubic" and (record := trial.workload(workload)) is not None
    }
    ranks = sorted(sorted(values, key=lambda block: values[block]).index(v.trials[0].line.block) for v in chosen)
    assert ranks[0] == 0
    assert ranks[-1] == 7


def test_a_page_that_would_be_too_large_draws_fewer_seeds(example: Path) -> None:
    results = read_results(example)
    whole = small_page(results)
    small = small_page(results, most_bytes=len(whole.encode()) * 2 // 3)
    assert len(small.encode()) < len(whole.encode()) * 2 // 3
    assert "1 of 3 seeds are drawn" in plain(small)


def test_the_tables_of_trials_that_are_not_drawn_are_not_kept_in_memory(many: Path) -> None:
    results = read_results(many)
    drawn = {trial.line.folder for view in views(results)[0] for trial in view.trials}
    for trial in results.trials:
        if trial.line.folder not in drawn:
            assert not {"flows", "_links"} & vars(trial).keys()


def test_treatments_that_change_the_channel_are_drawn_apart(example: Path, tmp_path: Path) -> None:
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    folder = shutil.copytree(example, tmp_path / "run")
    file = folder / "trials/0002-bbr/series/capacity.parquet"
    table = pq.read_table(file, partitioning=None)
    place = table.column_names.index("rate_bps")
    halved = pc.divide(table.column("rate_bps"), 2)
    pq.write_table(table.set_column(place, table.schema.field(place), halved), file)
    chosen, count = views(read_results(folder))
    assert count == 4
    assert [len(view.trials) for view in chosen] == [1, 1, 2, 2]


def test_a_trial_that_cannot_be_read_is_named_and_the_others_are_shown(example: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(example, tmp_path / "run")
    (folder / "trials/0001-cubic/trial.json").unlink()
    (folder / "trials/0002-bbr/series/links.parquet").write_bytes(b"cut short")
    text = write_report(folder).read_text(encoding="utf-8")
    assert "0001-cubic" in plain(text)
    assert "trial.json" in plain(text)
    assert 'class="chart"' in text


def test_a_run_without_trials_has_a_report(example: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(example, tmp_path / "run")
    record = json.loads((folder / "run.json").read_text())
    record["trials"], record["ended"] = [], None
    shutil.rmtree(folder / "trials")
    (folder / "run.json").write_text(json.dumps(record))
    read = plain(write_report(folder).read_text(encoding="utf-8"))
    assert "The run has not ended" in read
    assert "There are no results: no trial counts." in read


def test_the_command_prints_where_the_report_is(
    example: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "page.html"
    assert main(["report", str(example), "-o", str(file)]) == 0
    assert capsys.readouterr().out == f"{file}\n"
    assert file.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_folder_without_a_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "has no run.json" in error


def test_a_file_that_cannot_be_written_is_refused(example: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file or directory"):
        write_report(example, tmp_path / "none" / "page.html")
    assert list(tmp_path.iterdir()) == []


def test_the_map_of_a_scene_is_shown_as_the_run_drew_it_and_never_as_a_part_of_the_page(
    example: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(example, tmp_path / "run")
    (folder / "scene.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>')
    for file in folder.glob("trials/*/spec.json"):
        spec = json.loads(file.read_text())
        (origin,) = spec["patterns"].values()
        origin |= {"source": "scene", "name": "kau-e5g-1", "title": "behind one <long> building", "mode": "3gpp"}
        file.write_text(json.dumps(spec))
    drawn = write_report(folder).read_text(encoding="utf-8")
    assert 'src="data:image/svg+xml;base64,' in drawn
    assert "alert(1)" not in drawn
    assert "behind one &lt;long&gt; building, from above" in drawn
    assert "rate of the scene kau-e5g-1" in plain(drawn)


def test_results_of_before_there_were_specifications_have_their_path_drawn(example: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(example, tmp_path / "run")
    for file in folder.glob("trials/*/spec.json"):
        network = json.loads(file.read_text())["network"]
        bottleneck = network["legs"][0]["hops"][1]["down"][0]
        bottleneck["rate"]["file"] = "/proc/self/fd/3"
        trial = json.loads((file.parent / "trial.json").read_text())
        (file.parent / "trial.json").write_text(json.dumps({**trial, "laboratory": network}))
        file.unlink()
    drawn = plain(write_report(folder).read_text(encoding="utf-8"))
    assert "rate by a pattern" in drawn
    assert "droptail" in drawn
