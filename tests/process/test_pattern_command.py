"""``wavebed trace`` as a user meets it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from wavebed.cli import main

ACTIONS = ["info", "convert", "plot", "cut", "scale"]
TWO = "1.0\t10\n2.0\t0\n3.0\t0\n4.0\t30\n"


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    (tmp_path / "a.txt").write_text(TWO)
    return tmp_path


def command(*arguments: str) -> int:
    return main(["trace", *arguments])


@pytest.mark.parametrize("action", ["", *ACTIONS])
def test_help_is_as_recorded(action: str, folder, capsys, snapshot) -> None:
    with pytest.raises(SystemExit) as ended:
        command(*([action] if action else []), "--help")
    assert ended.value.code == 0
    text = re.sub(r"\s+", " ", capsys.readouterr().out)
    text = re.sub(r"(-\w) [A-Z]+, --", r"\1, --", text)  # Python 3.13 names the value once
    assert text == snapshot


def test_info_prints_the_figures(folder, capsys, snapshot) -> None:
    assert command("info", "a.txt") == 0
    assert capsys.readouterr().out == snapshot


def test_info_as_json_has_the_unit_in_each_key(folder, capsys) -> None:
    assert command("info", "a.txt", "--json", "--outage", "10mbit") == 0
    found = json.loads(capsys.readouterr().out)
    assert found == {
        "file": "a.txt",
        "kind": "steps",
        "rows": 4,
        "duration_s": 4.0,
        "mean_bps": 10_000_000.0,
        "percentiles_bps": {"p5": 0, "p25": 0, "p50": 0, "p75": 10_000_000, "p95": 30_000_000},
        "peak_bps": 30_000_000,
        "outages": {"threshold_bps": 10_000_000, "count": 1, "total_s": 3.0, "longest_s": 3.0},
    }
    assert command("info", "a.txt", "a.txt", "--json") == 0
    assert len(json.loads(capsys.readouterr().out)["traces"]) == 2


def test_help_lists_every_format() -> None:
    from wavebed.cli import trace
    from wavebed.pattern import FORMATS

    assert tuple(FORMATS) == trace.FORMATS


def test_plots_cope_with_odd_and_equal_names(folder) -> None:
    names = ["one/_x$1$.txt", "two/_x$1$.txt", "two/\u7121\u7dda.txt"]
    for position, name in enumerate(names):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(f"1.0\t{position}\n2.0\t0\n")
    for arguments in (names, [*names, "--stack"]):
        assert command("plot", *arguments, "-o", "a.png") == 0
        assert command("plot", *arguments, "-o", "a.html") == 0


def test_convert_chooses_the_format_by_the_name_and_says_what_is_lost(folder, capsys) -> None:
    assert command("convert", "a.txt", "-o", "b.kaunet") == 0
    assert Path("b.kaunet").read_text() == "0,10000000,1000,0,2000,0,3000,30000000\n"
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "the list does not hold the duration" in captured.err
    assert command("convert", "b.kaunet", "--duration", "4s", "-o", "c.txt") == 0
    assert command("convert", "c.txt") == 0
    assert "# source = c.txt\ntime_s,rate_bps\n0,10000000\n1,0\n2,0\n3,30000000\n" in capsys.readouterr().out


def test_convert_of_a_native_file_changes_no_byte(folder) -> None:
    assert command("convert", "a.txt", "-o", "a.csv") == 0
    assert command("convert", "a.csv", "-o", "b.csv") == 0
    assert Path("a.csv").read_bytes() == Path("b.csv").read_bytes()


def test_several_files_go_to_a_folder(folder, capsys) -> None:
    (folder / "b.txt").write_text("1.0\t5\n")
    assert command("convert", "a.txt", "b.txt", "-o", "out.csv") == 2
    assert "give one that exists" in capsys.readouterr().err
    (folder / "out").mkdir()
    assert command("convert", "a.txt", "b.txt", "-o", "out", "--to", "netem-trace") == 0
    assert sorted(path.name for path in (folder / "out").iterdir()) == ["a.json", "b.json"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(folder, monkeypatch, capsys) -> None:
    (folder / "out.csv").write_text("old")

    def refuse(*args: object, **more: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "rename", refuse)
    assert command("convert", "a.txt", "-o", "out.csv") == 2
    assert capsys.readouterr().err == ("wavebed: out.csv: no space left on device: name another file with -o\n")
    assert (folder / "out.csv").read_text() == "old"
    assert sorted(path.name for path in folder.iterdir()) == ["a.txt", "out.csv"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("convert", "a.txt", "-o", "b.unknown"), "the name does not say which format to write"),
        (("convert", "a.txt", "--to", "table"), "can be read but not written"),
        (("convert", "a.txt", "-o", "none/b.csv"), "none/b.csv: no such file or directory: name another file with -o"),
        (("plot", "a.txt", "-o", "a.gif"), "must end in .png, .svg or .html"),
        (("cut", "a.txt", "--from", "3"), "'3' has no unit"),
        (("cut", "a.txt", "--from", "3s", "--to", "9s"), "not within the pattern"),
        (("scale", "a.txt"), "scale needs --rate, --mean or --time"),
        (("scale", "a.txt", "--rate", "-1"), "--rate"),
        (("scale", "a.txt", "--rate", "1e9"), "is not a factor"),
        (("info", "a.txt", "--window", "0s"), "--window 0s"),
        (("info",), "FILE is missing: write for example `wavebed trace info kau-e5g-1`"),
        (("inform", "a.txt"), "inform is no action of wavebed trace: did you mean `wavebed trace info`?"),
    ],
)
def test_a_wrong_argument_gives_one_line_and_status_2(arguments, message: str, folder, capsys) -> None:
    assert command(*arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert message in captured.err


def test_cut_keeps_the_part(folder, capsys) -> None:
    assert command("cut", "a.txt", "--from", "500ms", "--to", "3.5s") == 0
    assert capsys.readouterr().out.endswith("# duration_s = 3\n# source = a.txt\ntime_s,rate_bps\n0,10000000\n0.5,0\n1.5,0\n2.5,30000000\n")  # fmt: skip # noqa: E501


def test_scale_changes_rate_and_time(folder, capsys) -> None:
    assert command("scale", "a.txt", "--mean", "20mbit", "--time", "0.5", "-o", "b.txt") == 0
    assert Path("b.txt").read_text() == "0.5\t20.0\n1.0\t0.0\n1.5\t0.0\n2.0\t60.0\n"


@pytest.mark.parametrize("stacked", [(), ("--stack",)])
@pytest.mark.parametrize("kind", ["png", "svg", "html"])
def test_plots_are_made_and_are_the_same_each_time(kind: str, stacked, folder) -> None:
    (folder / "b.theaterq").write_text("500000,10000000,5000000,0,9\n500000,20000000,0,4294967295,9\n")
    (folder / "c.down").write_text("100\n100\n900\n")
    files = ("a.txt", "b.theaterq", "c.down")
    assert command("plot", *files, *stacked, "-o", f"one.{kind}") == 0
    assert command("plot", *files, *stacked, "-o", f"two.{kind}") == 0
    data = (folder / f"one.{kind}").read_bytes()
    assert data == (folder / f"two.{kind}").read_bytes()
    start = {"png": b"\x89PNG\r\n\x1a\n", "svg": b"<?xml", "html": b"<!doctype html>"}[kind]
    assert data.startswith(start)


def test_the_page_is_whole_and_holds_the_values(folder) -> None:
    (folder / "a.csv").write_text(
        "# wavebed pattern 1\n# kind = steps\n# duration_s = 4\n# title = </script><b>x\n"
        "time_s,rate_bps\n0,5000000\n1,0\n"
    )
    assert command("plot", "a.csv", "-o", "a.html") == 0
    page = (folder / "a.html").read_text()
    assert not re.search(r"(src|href)\s*=|https?://|@import|__[A-Z]+__", page)
    assert page.count("</script>") == 2
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL).group(1))
    assert data["panels"][0]["curves"][0]["edges"] == [0, 1, 4]
    assert data["panels"][0]["curves"][0]["mean"] == [5, 0]
    assert data["panels"][0]["outages"] == [[1, 4]]


RADIO = (
    "# wavebed pattern 1\n# kind = steps\n# duration_s = 9\ntime_s,rate_bps,bler,state\n"
    "0,900000000,0.1,los\n2,100000000,0.3,nlos\n5,0,0,outage\n6,50000000,0.1,fallback\n8,0,0,handover\n"
    "8.1,900000000,0.1,los\n"
)


def test_info_of_a_radio_pattern_says_block_errors_and_states(folder, capsys) -> None:
    (folder / "radio.csv").write_text(RADIO)
    assert command("info", "radio.csv") == 0
    out = capsys.readouterr().out
    assert re.search(r"BLER +mean 15\.44%  p5 0%", out)
    assert re.search(r"states +los 32\.22%  nlos 33\.33%  outage 11\.11%  handover 1\.111%  fallback 22\.22%", out)
    assert command("info", "radio.csv", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["mean_bler_share"] == pytest.approx((0.29 + 0.9 + 0.2) / 9)
    assert found["states_share"]["nlos"] == pytest.approx(1 / 3)


SINR = (
    "# wavebed pattern 1\n# kind = steps\n# duration_s = 10\ntime_s,rate_bps,sinr_db,need_db\n"
    "0,900000000,12.345,10\n5,100000000,-2.5,0\n"
)


def test_the_sinr_of_a_radio_pattern_is_shown_drawn_and_kept(folder, capsys) -> None:
    (folder / "radio.csv").write_text(SINR)
    assert command("info", "radio.csv") == 0
    out = capsys.readouterr().out
    assert re.search(r"SINR +mean 4\.923 dB  p5 -2\.5 dB .* p95 12\.3[45] dB", out)
    assert re.search(r"SINR needed +mean 5 dB  p5 0 dB", out)
    assert command("info", "radio.csv", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["mean_sinr_db"] == pytest.approx(4.9225)
    assert found["percentiles_need_db"] == {"p5": 0, "p25": 0, "p50": 0, "p75": 10, "p95": 10}
    assert command("plot", "radio.csv", "-o", "radio.html") == 0
    page = (folder / "radio.html").read_text()
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL).group(1))
    rate, sinr, need = data["panels"]
    assert (rate["base"], sinr["label"], need["label"]) == (0, "SINR (dB)", "SINR needed (dB)")
    assert sinr["curves"][0]["mean"] == [12.345, -2.5]
    assert sinr["base"] < -2.5 < 12.345 < sinr["top"]
    assert command("plot", "radio.csv", "-o", "radio.png") == 0
    assert command("cut", "radio.csv", "--from", "1s", "--to", "6s") == 0
    assert "0,900000000,12.345,10\n4,100000000,-2.5,0\n" in capsys.readouterr().out


LIGHT = (
    "# wavebed pattern 1\n# kind = steps\n# duration_s = 10\n# light_bytes = 15000\n# light_idle_s = 0.1\n"
    "# title = both\ntime_s,rate_bps,light_rate_bps\n0,80000000,20000000\n5,10000000,90000000\n"
)


def test_a_light_rate_is_shown_drawn_and_kept(folder, capsys) -> None:
    (folder / "light.csv").write_text(LIGHT)
    assert command("info", "light.csv") == 0
    out = capsys.readouterr().out
    assert re.search(
        r"after idle +mean 55 Mbit/s  p5 20 Mbit/s .* p95 90 Mbit/s\n +the first 15000 bytes after 0\.1 s", out
    )
    assert command("info", "light.csv", "--json") == 0
    found = json.loads(capsys.readouterr().out)["light"]
    assert (found["mean_bps"], found["percentiles_bps"]["p75"]) == (55_000_000, 90_000_000)
    assert (found["bytes"], found["idle_s"]) == (15_000, 0.1)
    assert command("plot", "light.csv", "-o", "light.html") == 0
    page = (folder / "light.html").read_text()
    (rate,) = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL).group(1))["panels"]
    full, light = rate["curves"]
    assert (full["mean"], light["mean"], rate["unit"]) == ([80, 10], [20, 90], "Mbit/s")
    assert light["name"] == "after idle"
    assert full["series"] != light["series"]
    assert rate["top"] > 90
    assert "the second line is the rate of the first 15000 bytes after 0.1 s without packets" in page
    for name in ("light.png", "light.svg"):
        assert command("plot", "light.csv", "-o", name) == 0
    picture = (folder / "light.svg").read_text()
    assert "stroke-dasharray" in picture
    assert "after idle" in picture
    (folder / "plain.csv").write_text(
        re.sub("# light.*\n", "", LIGHT)
        .replace(",light_rate_bps", "")
        .replace(",20000000", "")
        .replace(",90000000", "")
    )
    assert command("plot", "plain.csv", "-o", "plain.svg") == 0
    assert "stroke-dasharray" not in (folder / "plain.svg").read_text()
    assert command("plot", "light.csv", "plain.csv", "-o", "two.html") == 0
    assert '"name":"both, after idle"' in (folder / "two.html").read_text()
    assert command("convert", "light.csv", "-o", "light.mahimahi", "--to", "mahimahi") == 0
    assert "light rate cannot be written in this format" in capsys.readouterr().err
    assert command("cut", "light.csv", "--from", "1s", "--to", "6s") == 0
    out = capsys.readouterr().out
    assert "# light_bytes = 15000\n# light_idle_s = 0.1\n" in out
    assert "0,80000000,20000000\n4,10000000,90000000\n" in out


def test_the_states_of_a_radio_pattern_are_shaded_in_place_of_outages(folder) -> None:
    (folder / "radio.csv").write_text(RADIO)
    assert command("plot", "radio.csv", "-o", "radio.html") == 0
    page = (folder / "radio.html").read_text()
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL).group(1))
    rate, bler = data["panels"]
    assert bler["name"] == "BLER"
    assert rate["outages"] == []
    spans = [state["spans"] for state in rate["states"]]
    assert spans == [[[2, 5]], [[5, 6]], [[8, 8.1]], [[6, 8]]]
    assert rate["states"] == bler["states"]
    assert re.search("Shaded: .*nlos.*outage.*handover.*fallback", page)
    assert command("plot", "radio.csv", "-o", "radio.png") == 0


def test_many_rows_are_drawn_as_mean_and_range(folder) -> None:
    import numpy as np

    from wavebed.pattern.curves import draw
    from wavebed.pattern.model import steps

    rates = np.tile(np.array([0, 10**9], dtype=np.int64), 10_000)
    curve = draw(steps(np.arange(20_000, dtype=np.int64) * 10**6, 20 * 10**9, rate_bps=rates), "x").panels["rate"]
    assert len(curve.mean) == 2000
    assert (curve.low == 0).all()
    assert (curve.high == 10**9).all()
    assert curve.mean == pytest.approx(5e8)


def run(*arguments: str, **options) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2] / "python")}
    return subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False, **options
    )


def test_a_reader_that_leaves_early_ends_the_command_quietly(folder) -> None:
    (folder / "long.txt").write_text("".join(f"{n}.0\t5\n" for n in range(1, 50_000)))
    read_end, write_end = os.pipe()
    os.close(read_end)
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2] / "python")}
    arguments = [sys.executable, "-m", "wavebed", "trace", "convert", "long.txt"]
    done = subprocess.run(arguments, env=environment, stdout=write_end, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write_end)
    assert (done.returncode, done.stderr) == (141, "")


def test_importing_the_package_and_listing_the_commands_needs_no_numpy(folder) -> None:
    code = (
        "import sys, wavebed, wavebed.cli, wavebed.config.units; wavebed.cli.build_parser('trace'); "
        "print('numpy' in sys.modules or 'matplotlib' in sys.modules)"
    )
    assert run("-c", code).stdout == "False\n"


def test_the_version_is_printed(folder) -> None:
    import wavebed

    assert run("-m", "wavebed", "--version").stdout == f"wavebed {wavebed.__version__}\n"


def test_the_version_is_that_of_the_workspace() -> None:
    import tomllib

    import wavebed

    manifest = tomllib.loads((Path(__file__).parents[2] / "Cargo.toml").read_text())
    assert manifest["workspace"]["package"]["version"] == wavebed.__version__
