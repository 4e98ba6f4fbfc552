"""``wavebed fit`` as a user meets it, on made-up walks."""

from __future__ import annotations

import json
import re
import tomllib

import pytest
from tests.made_up_handovers import MadeUpHandover, write_recording
from tests.made_up_walks import SECONDS, write_walks

from wavebed.channel.placemap import load_map
from wavebed.cli import main

KEYS = {"ks_median", "ks_p90", "ks_pooled", "ks_dips"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    walks = tmp_path / "walks"
    walks.mkdir()
    write_walks(walks, 8)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def fit(*arguments: str) -> int:
    return main(["fit", "walks", *arguments])


def test_a_fit_prints_fitted_beside_held_out_walks(folder, capsys):
    assert fit() == 0
    text = capsys.readouterr().out
    assert text.startswith("6 walks fitted, 2 held out (rule every:4); mmWave; 200 walks drawn\n")
    assert re.search(r"KS of 1 s rates, median of walks +0\.\d\d +0\.\d\d +0\.\d\d +≤ 0\.20 +yes", text)
    assert "autocorrelation at 30 s" in text
    assert re.search(r"download of 200 MB, s +[0-9.]+ +[0-9.]+ +[0-9.]+ +[+−]\d+ % +0\.\d\d +[+−]\d+ %", text)
    assert re.search(r"map, 10 s ahead +rates until 10 s before", text)
    assert re.search(r"targets are met on walks that were held out; \d+ of 11 traits", text.splitlines()[-1])


def test_a_fit_as_json_has_every_figure_with_its_unit(folder, capsys):
    assert fit("--json", "-o", "place.json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["held_out_walks"] == ["4_walking.txt", "8_walking.txt"]
    assert len(found["fitted_walks"]) == 6
    assert found["fitted_s"] == 6 * SECONDS
    assert {each["key"] for each in found["distances"]} == KEYS
    assert all(0 <= each[side] <= 1 for each in found["distances"] for side in ("fitted", "held_out", "floor"))
    assert len(found["traits"]) == 11
    assert [each["key"] for each in found["applications"]] == [
        "download_200_mb_s", "video_4_s_duration_of_a_stall", "video_4_s_time_stalled",
    ]  # fmt: skip
    download = found["applications"][0]
    assert download["met"] is (abs(download["deviation_share"]) <= 0.1 and download["ks"] <= 0.2)
    assert download["deviation_share"] == pytest.approx(download["drawn"] / download["held_out"] - 1)
    assert [each["key"] for each in found["predictions"]] == [
        "pooling", "lap_time", "aligned", "surrogate", "persistence", "forecast",
    ]  # fmt: skip
    assert set(found["predictions"][-1]["held_out"]) == {"mae_mbps", "crps_gain_share", "minute_correlation"}
    learned = load_map("place.json")
    assert learned.title == "map of 6 walks"
    assert learned.source == "6 walks (1_walking.txt, 2_walking.txt, …, 7_walking.txt), held out by rule every:4"


def test_held_out_walks_have_no_effect_on_the_map(folder):
    assert fit("-o", "first.json") == 0
    held_out = folder / "walks" / "4_walking.txt"
    held_out.write_text("".join(f"{second + 1:.1f}\t4321.0\n" for second in range(SECONDS)))
    assert fit("-o", "other.json") == 0
    first, other = (folder / name for name in ("first.json", "other.json"))
    assert first.read_bytes() == other.read_bytes()


def test_a_held_out_quarter_is_compared_with_pooling(folder, capsys):
    assert fit("--held-out", "quarter:2", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert {each["key"] for each in found["distances"]} == {"ks_quarter", *KEYS - {"ks_median"}}
    assert found["traits"] == found["applications"] == found["predictions"] == []
    assert found["fitted_s"] == 8 * SECONDS * 3 // 4
    assert fit("--held-out", "quarter:2") == 0
    text = capsys.readouterr().out
    assert text.startswith("quarter 2 of the lap time held out of 8 walks (rule quarter:2); mmWave")
    assert re.search(r"new walks +fitted +held out +pooling +target", text)


def test_without_held_out_walks_nothing_is_claimed(folder, capsys):
    assert fit("--held-out", "none", "--report", "fit.html") == 0
    text = capsys.readouterr().out
    assert text.startswith("8 walks fitted, 0 held out (rule none)")
    assert text.splitlines()[-1] == ("No walk was held out, so nothing says how well new walks are predicted.")
    assert "yes" in text  # traits have a band without held-out walks
    assert "held-out walks, median" not in (folder / "fit.html").read_text()


def test_the_report_is_one_page_that_needs_no_network(folder):
    assert fit("--report", "fit.html") == 0
    page = (folder / "fit.html").read_text()
    assert "<h1>Fit of 6 walks as map</h1>" in page
    assert "<h3>Applications</h3>" in page
    assert not re.search(r"(?:src|href)=\"(?:https?:)?//", page)
    for part in ("results", "distribution", "memory", "places", "example", "walks"):
        assert f'id="{part}"' in page
    assert page.count("<figure") == 2 + 1 + 2
    assert "nan" not in re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL).lower()


def test_the_report_of_a_quarter_has_no_figures_of_whole_walks(folder):
    assert fit("--held-out", "quarter:4", "--report", "fit.html") == 0
    page = (folder / "fit.html").read_text()
    assert page.count("<figure") == 1
    assert "the table compares the held-out quarter alone" in page


def test_an_unusable_trace_is_left_out_with_a_note(folder, capsys):
    (folder / "walks" / "9_notes.txt").write_text("walked on a Monday\n")
    assert fit("--json") == 0
    out, err = capsys.readouterr()
    assert len(json.loads(out)["fitted_walks"]) == 6
    (line,) = [line for line in err.splitlines() if "note" in line]
    assert line.startswith("wavebed fit: note: walks/9_notes.txt: ")
    assert line.endswith(": left out")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "place.toml"], "-o place.toml: the name of a map must end in .json"),
        (["-o", "walks"], "-o walks: is a folder: write the name of a file"),
        (["--report", "no/fit.html"], "--report no/fit.html: its folder does not exist: make it, or choose another"),
        (["-o", "a.json", "--report", "a.json"], "-o and --report: name one file: write to different ones"),
        (
            ["--held-out", "all"],
            "--held-out all: is no rule: write every:N, last:FRACTION, quarter:N, files:PATH or none, as every:4,",
        ),
        (
            ["--held-out", "every:9"],
            "--held-out every:9: holds out no walk of 8: write another rule, or name more walks",
        ),
        (["--held-out", "last:0.9"], "1 walk to learn from: name at least 2 beside those held out"),
        (["missing.txt"], "missing.txt: no such file or directory: "),
        (["--as", "guess"], "argument --as: 'guess' is not a choice"),
    ],
)
def test_a_wrong_argument_ends_with_status_2_and_one_line(folder, capsys, arguments, message):
    assert fit(*arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"wavebed: {message}")


def test_a_trace_is_not_overwritten(folder, capsys):
    assert main(["fit", "walks/1_walking.txt", "walks/2_walking.txt", "--report", "walks/1_walking.txt"]) == 2
    assert "is a trace itself" in capsys.readouterr().err


def test_handovers_give_the_timers_of_a_scene(tmp_path, monkeypatch, capsys):
    made = [MadeUpHandover("scg", 5.0 + 3 * number, gap_s=0.1 + number / 100) for number in range(16)]
    write_recording(tmp_path / "m2ho", made)
    monkeypatch.chdir(tmp_path)
    assert main(["fit", "m2ho", "--as", "handovers", "-o", "timers.toml", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["interruption_ms"]["scg"][5] == pytest.approx(175, abs=1)
    assert [each["metric"] for each in found["distances"] if each["kind"] == "scg"] == ["dip", "RTT spike", "recovery"]
    timers = tomllib.loads((tmp_path / "timers.toml").read_text())["timers"]
    assert timers["handover"][0] == "100ms"
    assert timers["handover"][-1] == "250ms"
    assert main(["fit", "m2ho", "--as", "handovers"]) == 0
    text = capsys.readouterr().out
    assert re.search(r"change of the NR cell +16 +70 \(70 to 70\) +175 \(115 to 235\)", text)
    assert main(["fit", "m2ho", "--as", "handovers", "-o", "timers.json"]) == 2
    assert "the name of a file of timers must end in .toml" in capsys.readouterr().err
    assert main(["fit", "m2ho", "--as", "handovers", "--report", "page.html"]) == 2
