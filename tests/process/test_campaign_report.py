"""The report of a campaign: its text, figures and tables, and that nothing is claimed beyond the sample."""

from __future__ import annotations

import os
import re
from html import unescape
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.made_up_campaigns import Wanted, write_campaign_folder
from tests.result_folders import write_run

import wavebed
from wavebed.campaign.report.answers import ChosenResults, summary_table
from wavebed.campaign.report.build import MOST_BYTES, closing_rows, write_campaign_report
from wavebed.campaign.report.build import page as whole_page
from wavebed.campaign.report.pictures import numeric
from wavebed.campaign.results import matrices, read_campaign_results
from wavebed.cli import main
from wavebed.experiment.machine_lock import BESIDE
from wavebed.page.charts import STYLES, WIDTH_IN
from wavebed.page.document import breakable
from wavebed.page.tables import Table, csv_text, latex_text, markdown_text
from wavebed.page.text import LONGEST_WORD, longest_word
from wavebed.result.model import Group, PrimaryRecord, TrialLine
from wavebed.stats.intervals import median_interval
from wavebed.stats.verdict import percentile
from wavebed.store.records import read_run

if TYPE_CHECKING:
    from pathlib import Path

    from syrupy.assertion import SnapshotAssertion

    from wavebed.result.model import Verdict

LEAST_PT = 7.0


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    wanted = Wanted(folders=48, lost={(3, "codel-50ms"): "failed"}, repeated=[(2, "droptail-5ms")])
    folder = write_campaign_folder(tmp_path_factory.mktemp("small") / "run", wanted)
    write_campaign_report(folder)
    return folder


def page(folder: Path) -> str:
    return (folder / "report.html").read_text(encoding="utf-8")


def plain(text: str) -> str:
    """Return what people read, a line for each block of text; versions of libraries are left out."""
    body = re.sub(r"<(script|style)\b.*?</\1>", " ", text.partition("<main>")[2], flags=re.DOTALL)
    body = re.sub(r"</(p|h1|h2|h3|tr|li|figcaption|summary)>", "\n", body.replace("\n", " ")).replace("</t", " </t")
    lines = [" ".join(unescape(re.sub(r"<[^>]+>", "", line)).split()) for line in body.split("\n")]
    told = "\n".join(filter(None, lines))
    return re.sub(r"(numpy|scipy) [\d.]+", r"\1 VERSION", told)


def reported(folder: Path, wanted: Wanted) -> str:
    return without_figures(write_campaign_folder(folder / "run", wanted))


def without_figures(folder: Path) -> str:
    """Return the text of the page; drawing takes most of the time."""
    links = dict.fromkeys(("answers", "summary", "exploration", "trials"), "")
    return plain(whole_page(ChosenResults(read_campaign_results(folder)), [], links, ""))


def drawn(folder: Path, wanted: Wanted) -> str:
    write_campaign_report(write_campaign_folder(folder / "run", wanted))
    return plain(page(folder / "run"))


def test_the_page_reads_as_before(small: Path, snapshot: SnapshotAssertion) -> None:
    assert plain(page(small)) == snapshot


@pytest.mark.parametrize(
    "name", ["answers.csv", "answers.md", "answers.tex", "summary.csv", "summary.md", "summary.tex"]
)
def test_the_tables_read_as_before(name: str, small: Path, snapshot: SnapshotAssertion) -> None:
    text = (small / "tables" / name).read_text(encoding="utf-8")
    assert re.sub(r"\d\.\d{6,}", lambda number: f"{float(number[0]):.5g}", text) == snapshot


def test_the_page_stands_alone_and_its_links_lead_to_files(small: Path) -> None:
    body = page(small).partition("<main>")[2].partition("</main>")[0]
    addresses = re.findall(r"""(?:src|href)\s*=\s*["']?([^"'\s>]*)""", body)
    files = [address for address in addresses if not address.startswith(("#", "data:"))]
    assert len(files) > 80
    missing = [each for each in files if not each.startswith("trials/") and not (small / each).exists()]
    assert missing == []
    style, script = re.search(r"<style>(.*?)</style>.*<script>(.*?)</script>", page(small), re.DOTALL).groups()  # type: ignore[union-attr]
    assert not re.search(r"url\(|@import|https?:", style + script)


def test_every_attempt_has_a_link(small: Path) -> None:
    links = set(re.findall(r'href="trials/([^"]+)/"', page(small)))
    assert links == {line.folder for line in read_run(small).trials}
    assert len(links) == 73


def test_a_page_elsewhere_has_the_same_figures_and_links_to_the_folder(small: Path, tmp_path: Path) -> None:
    before = {file: file.read_bytes() for file in [small / "report.html", *(small / "figures").iterdir()]}
    target = write_campaign_report(small, tmp_path / "page.html")
    assert {file: file.read_bytes() for file in before} == before
    told = target.read_text(encoding="utf-8")
    files = re.findall(r'href="([^"#]+\.(?:csv|pdf))"', told)
    assert len(files) > 10
    assert all((tmp_path / name).resolve().exists() for name in files)
    prefix = os.path.relpath(small, tmp_path) + "/"
    assert told.replace(f'href="{prefix}', 'href="') == page(small)


def test_figures_are_as_wide_as_a_column_with_legible_text(small: Path) -> None:
    pictures = sorted((small / "figures").glob("*.svg"))
    kinds = {"effects", "values", "distribution", "over-delay"}
    names = {f"{metric}-{kind}" for metric in ("download-download-time", "ping-rtt-loaded-p95") for kind in kinds}
    assert {file.stem for file in pictures} == names | {"time-1", "time-2", "time-3"}
    for file in pictures:
        text = file.read_text(encoding="utf-8")
        width = re.search(r'<svg [^>]*?width="([\d.]+)pt"', text)
        assert width is not None
        assert float(width[1]) == pytest.approx(WIDTH_IN * 72, rel=0.01)
        sizes = [float(size) for size in re.findall(r"font(?:-size)?: (?:\w+ )*?([\d.]+)px", text)]
        assert len(sizes) > 5
        assert min(sizes) >= LEAST_PT
        pdf = file.with_suffix(".pdf").read_bytes()
        box = re.search(rb"/MediaBox \[ ?0 0 ([\d.]+) ", pdf)
        assert box is not None
        assert float(box[1]) == pytest.approx(WIDTH_IN * 72, rel=0.01)


def test_lines_and_boxes_differ_by_more_than_their_colour() -> None:
    for of in ("line", "marker", "hatch"):
        assert len({str(getattr(style, of)) for style in STYLES}) == len(STYLES)


def test_an_incomplete_campaign_says_so_and_has_intervals_of_a_confidence_sequence(tmp_path: Path) -> None:
    read = reported(tmp_path, Wanted(planned=40, blocks=12))
    assert "not complete: 12 of 40 blocks" in read
    assert "those of a confidence sequence, which is valid at every look" in read
    assert "anytime-signed-ranks, version 1" in read


def test_a_stopped_campaign_says_why(tmp_path: Path) -> None:
    read = reported(tmp_path, Wanted(planned=40, stop="decided", stopped="every primary metric is decided"))
    assert "stopped after 12 of at most 40 blocks: every primary metric is decided" in read
    assert "not complete" not in read


@pytest.mark.parametrize(
    ("replicate", "said"),
    [
        ("channel", "cover realisations of the channel"),
        ("start", "begins elsewhere in the same pattern"),
        ("host", "cover the variation of this host alone"),
    ],
)
def test_what_an_interval_covers_is_said(replicate: str, said: str, tmp_path: Path) -> None:
    assert said in reported(tmp_path, Wanted(replicate=replicate, blocks=6, planned=6)).split("Answers\n")[0]


def test_the_level_is_that_of_all_questions_or_of_each_comparison(tmp_path: Path) -> None:
    every = reported(tmp_path, Wanted())
    assert "The intervals hold with 95 % for all 6 questions together." in every
    assert "Each interval has at least 99.17 % (Bonferroni)" in every
    each = reported(tmp_path / "other", Wanted(family="comparison"))
    assert "95 % for each comparison for its 2 primary metrics together, not for all comparisons together" in each
    assert "Each interval has at least 97.5 % (Bonferroni)" in each


def test_too_few_pairs_are_said_with_the_number_that_is_needed(tmp_path: Path) -> None:
    read = reported(tmp_path, Wanted(blocks=6, planned=6))
    assert "6 of 6 answers have no interval: 6 to 6 pairs are too few" in read
    assert "an interval needs 8." in read
    assert "Undecided whether codel-5ms is better than droptail-5ms" in read


def test_drift_is_found_and_named(tmp_path: Path) -> None:
    read = reported(tmp_path, Wanted(blocks=20, planned=20, drifts=0.05))
    assert "Drift: the values rise or fall with the order of the blocks (download time)." in read
    assert re.search(r"download time codel-5ms rising 0\.\d+ 0\.\d+ s <?0\.\d+", read)


def test_exclusions_that_differ_are_a_warning_with_the_worst_case(tmp_path: Path) -> None:
    lost = {(block, "codel-50ms"): "failed" for block in range(1, 8)}
    read = reported(tmp_path, Wanted(blocks=16, planned=16, lost=lost))
    assert "Exclusions differ between cells: missing trials may hide or make a difference." in read
    assert "codel-50ms 7 of 16" in read
    assert "answers would have another verdict with them at their worst." in read
    assert re.search(r"download time codel-50ms droptail-50ms .*: better .* to .*: undecided 7", read)


def test_groups_machines_and_neighbours_are_listed(tmp_path: Path) -> None:
    wanted = Wanted(groups=(Group(), Group(("queues.toml has other content",))), machines=("lab-1", "lab-2"))
    folder = write_campaign_folder(tmp_path / "run", wanted)
    record = read_run(folder)
    first = record.trials[0]
    reasons = [f"the only run on this machine: {BESIDE} (process 7)"]
    record.trials[0] = TrialLine(first.folder, first.block, first.treatment, first.seed, "suspect", reasons)
    write_run(folder, record)
    read = without_figures(folder)
    assert "Inputs changed: the blocks are of 2 groups with different inputs." in read
    assert "Group 2: blocks 7 to 12queues.toml has other content" in read
    assert "Other runs measured on the machine at the same time in 1 trials." in read
    assert "The blocks ran on 2 machines: lab-1, lab-2." in read


def test_exploratory_findings_are_apart_and_called_false_alarms(small: Path) -> None:
    answers, _, explored = plain(page(small)).partition("Exploratory findings\n")
    assert "figure 1" not in answers
    assert "With 9 comparisons some are false alarms: about 0.45 are expected if nothing differs." in explored


def test_without_a_primary_metric_nothing_is_decided(tmp_path: Path) -> None:
    read = drawn(tmp_path, Wanted(primaries=()))
    assert "it decides nothing: all findings are exploratory" in read
    assert "Answers\n" not in read
    assert "download time: values by cell." in read


def test_a_campaign_without_factors_has_medians(tmp_path: Path) -> None:
    read = drawn(tmp_path, Wanted(factors={}))
    assert "The campaign compares no cells" in read
    assert "download time: values by cell." in read


def test_a_primary_metric_that_was_never_measured_has_no_answer(tmp_path: Path) -> None:
    read = reported(tmp_path, Wanted(primaries=(PrimaryRecord("web", "speed index", 5.0, "%"),)))
    assert "No primary metric was measured in a counted trial" in read


def test_the_effect_at_the_end_names_its_cells_and_its_metric(small: Path) -> None:
    rows, count = closing_rows(small)
    assert count == 6
    told = dict(rows)["effect"]
    assert " pairs (codel-50ms against droptail-50ms, the largest effect on download time): 1 value missing" in told


def test_a_prompt_shows_the_answer_of_a_campaign_and_reads_no_trial(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wavebed.report.source.read_results", None)
    rows, _ = closing_rows(small)
    shown = repr(wavebed.load(small))
    assert shown.splitlines() == [*(f"{name:10}{text}" for name, text in rows), f"folder    {small}"]


def test_a_campaign_without_a_counted_trial_has_no_good_timing(tmp_path: Path) -> None:
    cells = [f"{queue}-{delay}" for queue in ("droptail", "codel") for delay in ("5ms", "20ms", "50ms")]
    lost: dict[tuple[int, str], Verdict] = {(1, cell): "invalid" for cell in cells}
    rows, _ = closing_rows(write_campaign_folder(tmp_path / "run", Wanted(blocks=1, planned=1, lost=lost)))
    assert dict(rows)["timing"].startswith("no trial counts; 6 of 6 attempts not counted")


def test_percentiles_are_given_only_where_the_sample_bears_them(tmp_path: Path) -> None:
    few = write_campaign_folder(tmp_path / "few", Wanted(blocks=28, planned=28))
    assert not any(name.startswith("tail") for name in summary_table(ChosenResults(read_campaign_results(few))).head)
    more = write_campaign_folder(tmp_path / "more", Wanted(blocks=29, planned=29, lost={(1, "codel-5ms"): "failed"}))
    table = summary_table(ChosenResults(read_campaign_results(more)))
    rows = {(row[0], row[2]): dict(zip(table.head, row, strict=True)) for row in table.rows}
    assert "tail 95 %" not in rows[("download time", "codel-20ms")]
    assert rows[("download time", "codel-20ms")]["tail 90 % bound"] is not None
    assert rows[("download time", "codel-5ms")]["tail 90 %"] is None


def test_medians_and_percentiles_of_a_matrix_are_those_of_the_samples(tmp_path: Path) -> None:
    lost = {(block, "codel-5ms"): "failed" for block in range(1, 9)} | {(2, "codel-20ms"): "invalid"}
    results = read_campaign_results(write_campaign_folder(tmp_path / "run", Wanted(blocks=40, planned=40, lost=lost)))
    matrix = results.matrices[("download", "download time")]
    assert matrix.counts.tolist() == [40, 40, 40, 32, 39, 40]
    medians, tails = matrix.medians(), matrix.percentiles(0.9)
    for row, values in enumerate(matrix.values):
        sample = values[np.isfinite(values)].tolist()
        one, other = median_interval(sample), percentile(sample, 0.9)
        assert [medians.estimate[row], medians.low[row], medians.high[row]] == pytest.approx(
            [one.estimate, one.low, one.high]
        )
        assert [tails.estimate[row], tails.high[row]] == pytest.approx([other.estimate, other.high])


def test_a_matrix_has_only_the_wanted_cells_blocks_and_metrics(tmp_path: Path) -> None:
    results = read_campaign_results(write_campaign_folder(tmp_path / "run", Wanted(blocks=4, planned=4)))
    found = matrices(results.metrics, ["codel-5ms"], [2, 3], [("ping", "rtt loaded p95")])
    (matrix,) = found.values()
    whole = results.matrices[("ping", "rtt loaded p95")]
    row = results.cells.index("codel-5ms")
    assert matrix.values.tolist() == [whole.values[row, 1:3].tolist()]
    assert (matrix.unit, matrix.better, matrix.definition) == ("ms", "lower", "ICMP, while the path has load")


def test_many_cells_are_drawn_as_maps_and_the_rest_is_said_to_be_left_out(tmp_path: Path) -> None:
    delays, rates = [f"{each}ms" for each in range(1, 16)], [f"{each}mbit" for each in range(1, 11)]
    factors = {"queue": ("droptail", "codel"), "delay": delays, "rate": rates}
    read = drawn(tmp_path, Wanted(factors=factors, blocks=8, planned=8, effects={"codel": 0.8}))
    assert "download time over rate and delay." in read
    assert "16 of 150 comparisons, those of the largest effects." in read
    assert "12 of 300 cells, those of the largest effects." in read
    text = page(tmp_path / "run")
    assert len(text.encode()) < MOST_BYTES
    assert 'id="trial-list"' in text
    with (tmp_path / "run/tables/trials.csv").open() as stream:
        assert sum(1 for _ in stream) == 2401


def test_the_command_writes_the_page_of_a_campaign(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (small / "report.html").unlink()
    assert main(["report", str(small)]) == 0
    assert capsys.readouterr().out == f"{small / 'report.html'}\n"
    assert "How the answers were obtained" in page(small)


def test_names_with_mark_up_are_escaped(tmp_path: Path) -> None:
    evil = "<img src=x onerror=alert(1)>"
    folder = write_campaign_folder(tmp_path / "run", Wanted(title=evil, blocks=6, planned=6, more_metrics=0))
    write_campaign_report(folder)
    assert evil not in page(folder)
    assert evil in plain(page(folder))


@pytest.mark.parametrize(
    ("levels", "values", "unit"),
    [
        (["5ms", "20ms", "0.1s"], [5, 20, 100], "ms"),
        (["500us", "2ms"], [500, 2000], "us"),
        (["1mbit", "20mbit"], [1, 20], "Mbit/s"),
        (["500kbit", "1mbit"], [500, 1000], "kbit/s"),
        (["64kb", "1mb"], [64, 1000], "kB"),
        (["64kib", "128kib"], [64, 128], "KiB"),
        (["100p", "1000p"], [100, 1000], "packets"),
        (["1", "2.5"], [1, 2.5], ""),
        (["0.1%", "1%"], [0.1, 1], "%"),
    ],
)
def test_levels_that_are_quantities_become_numbers(levels: list[str], values: list[float], unit: str) -> None:
    axis = numeric(levels)
    assert axis is not None
    assert (list(axis.values), axis.unit) == (pytest.approx(values), unit)


@pytest.mark.parametrize("levels", [["cubic", "bbr"], ["5ms", "1mbit"], ["5ms", "0.005s"], ["5ms", "off"]])
def test_other_levels_are_categories(levels: list[str]) -> None:
    assert numeric(levels) is None


def test_a_long_range_of_levels_has_a_logarithmic_axis() -> None:
    axes = [numeric(levels) for levels in (["1mbit", "10mbit"], ["1mbit", "100mbit"], ["0ms", "100ms"])]
    assert [axis is not None and axis.logarithmic for axis in axes] == [False, True, False]


def test_markdown_keeps_code_and_escapes_single_backticks() -> None:
    table = Table("t", "T", ["again"], [["`run --only a_b=*` or a_b"], ["a`b_c"], ["`a|b`"], ["<b>`"]])
    assert markdown_text(table).splitlines()[4:] == [
        r"| `run --only a_b=*` or a\_b |",
        r"| a\`b\_c |",
        r"| \`a\|b\` |",
        r"| \<b\>\` |",
    ]


def test_tables_escape_what_their_formats_would_read() -> None:
    table = Table("t", "A & B", ["name_1", "share %"], [["a|b_c", 0.123456], ['x, "y"', None]])
    assert csv_text(table) == 'name_1,share %\na|b_c,0.123456\n"x, ""y""",\n'
    assert markdown_text(table).splitlines()[2:] == [
        r"| name\_1 | share % |",
        "|---|---:|",
        r"| a\|b\_c | 0.123 |",
        '| x, "y" | – |',
    ]
    assert latex_text(table).splitlines()[1:] == [
        r"\begin{tabular}{lr}",
        r"\hline",
        r"name\_1 & share \% \\",
        r"\hline",
        r"a|b\_c & 0.123 \\",
        r'x, "y" & -- \\',
        r"\hline",
        r"\end{tabular}",
    ]


def test_names_break_between_words_only() -> None:
    assert breakable("fq-codel_5ms <a>") == "fq-<wbr>codel_<wbr>5ms <wbr>&lt;a&gt;"
    assert breakable("0.5ms") == "0.5ms"
    assert longest_word("a-verylongword") == len("verylongword")
    assert longest_word("x" * 99) == LONGEST_WORD


def test_of_too_many_comparisons_those_of_the_largest_relative_differences_are_explored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_campaign_folder(tmp_path / "run", Wanted(primaries=(), more_metrics=4))
    every = read_campaign_results(folder).exploration
    assert (every.total, len(every.answers)) == (18, 18)
    monkeypatch.setattr("wavebed.campaign.results.MOST_EXPLORED", 6)
    few = read_campaign_results(folder).exploration
    assert (few.total, len(few.answers)) == (18, 6)
    assert {answer.question.values.title for answer in few.answers} == {"download time", "ping: rtt loaded p95"}
    known = {(each.question.values.title, each.question.pair.cell): each.finding for each in every.answers}
    assert all(known[(each.question.values.title, each.question.pair.cell)] == each.finding for each in few.answers)
    assert "Only the 6 with the largest differences relative to their spread were computed" in without_figures(folder)


def test_exclusions_of_many_cells_are_tested_between_the_levels_of_the_compared_factor(tmp_path: Path) -> None:
    factors = {"queue": ("droptail", "codel"), "delay": tuple(f"{each}ms" for each in range(60))}
    lost = {(block, f"codel-{each}ms"): "failed" for block in (1, 2) for each in range(9)}
    folder = write_campaign_folder(tmp_path / "run", Wanted(factors, blocks=6, planned=6, lost=lost))
    found = read_campaign_results(folder)
    assert found.exclusions_between == "the levels of queue"
    assert found.exclusions.excluded == (("droptail", 0, 360), ("codel", 18, 360))
    assert found.exclusions.code == "differ"
