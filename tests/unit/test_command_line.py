"""Command lines: errors, statuses, the reference, progress, and packages of Node."""

from __future__ import annotations

import io
import json
import shlex
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from wavebed.cli import COMMANDS, GROUPS, build_parser, main
from wavebed.cli import trace as trace_command
from wavebed.cli.help import EXAMPLES
from wavebed.cli.references import command_line_page, subparsers
from wavebed.errors import MachineError, UserError, WavebedError
from wavebed.shipped import folder, names
from wavebed.terminal import StepProgress
from wavebed.workload.video_media import PLAYER_VERSION

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator


def raising(error: BaseException):
    def run(args: object) -> int:
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (UserError("a file\nis wrong"), 2, "wavebed: a file is wrong\n"),
        (MachineError("no /dev/net/tun"), 3, "wavebed: no /dev/net/tun\n"),
        (WavebedError("the experiment failed"), 1, "wavebed: the experiment failed\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_an_error_becomes_its_exit_status_and_one_line(error, status: int, said: str, monkeypatch, capsys) -> None:
    monkeypatch.setattr(trace_command, "run_trace", raising(error))
    assert main(["trace", "info", "x"]) == status
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", said)


def test_a_bug_keeps_its_traceback(monkeypatch) -> None:
    monkeypatch.setattr(trace_command, "run_trace", raising(ZeroDivisionError()))
    with pytest.raises(ZeroDivisionError):
        main(["trace", "info", "x"])


def test_the_status_of_a_command_is_passed_on(monkeypatch) -> None:
    monkeypatch.setattr(trace_command, "run_trace", lambda _: 7)
    assert main(["trace", "info", "x"]) == 7


@pytest.mark.parametrize("arguments", [[], ["nope"], ["--nope"], ["trace"], ["trace", "info", "x", "--nope"]])
def test_wrong_arguments_end_with_status_2_and_nothing_on_standard_output(arguments, capsys) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.endswith("\n")


def test_every_command_is_listed_and_can_be_asked_for_help(capsys) -> None:
    for name in COMMANDS:
        build_parser(name)
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    listed = capsys.readouterr().out
    assert all(f"\n  {name} " in listed for name in COMMANDS)
    assert len(GROUPS) == 5
    assert len(listed.splitlines()) <= 40
    assert max(map(len, listed.splitlines())) <= 80


def _parsers() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for name in COMMANDS:
        parser = subparsers(build_parser(name))[name]
        yield name, parser
        yield from ((f"{name} {verb}", inner) for verb, inner in subparsers(parser).items())


def test_each_command_begins_its_help_with_two_examples_that_are_parsed() -> None:
    assert set(EXAMPLES) == {name for name, _ in _parsers()}
    for name, parser in _parsers():
        shown = parser.format_help().split("\n\n")[1].splitlines()
        for (command, _), line in zip(EXAMPLES[name], shown, strict=True):
            assert line.startswith(f"  wavebed {command}")
            words = shlex.split(command)
            assert command.startswith(name)
            build_parser(words[0]).parse_args(words)


@pytest.mark.parametrize("name", ["shell", "run", "check", "bridge"])
def test_the_help_of_a_command_fits_one_screen(name: str, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main([name, "--help"])
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) <= 40
    assert max(map(len, shown)) <= 80


@pytest.mark.parametrize("name", ["shell", "check", "bridge"])
def test_the_options_of_a_path_are_shown_on_request(name: str, capsys) -> None:
    with pytest.raises(SystemExit):
        main([name, "--help"])
    assert "--help-path explains all" in (short := capsys.readouterr().out)
    assert "--rate-mode" not in short
    with pytest.raises(SystemExit) as ended:
        main([name, "--help-path"])
    assert ended.value.code == 0
    assert "--rate-mode" in capsys.readouterr().out


def test_each_shipped_scenario_is_listed_with_its_question_and_can_be_explained(capsys) -> None:
    assert main(["scenarios"]) == 0
    listed = capsys.readouterr().out
    for name in names():
        assert f"\n  {name} " in listed
        assert main(["scenarios", name]) == 0
        has_workloads = "\nworkloads " in (text := capsys.readouterr().out)
        assert text.startswith(f"{name}: ")
        assert text.splitlines()[0].endswith("?") == has_workloads
    assert main(["scenarios", "demo", "--toml"]) == 0
    assert "[[path.hop]]" in capsys.readouterr().out
    assert main(["scenarios", "lift/lte"]) == 2
    assert "it is a network condition: write wavebed scenes lift/lte" in capsys.readouterr().err
    assert main(["scenarios", "commute"]) == 2
    assert "it is a timeline: write wavebed shell --timeline commute" in capsys.readouterr().err


def test_the_reference_page_of_the_command_line_is_up_to_date() -> None:
    stored = (Path(__file__).parents[2] / "docs/reference/command-line.md").read_text()
    assert stored == command_line_page(), "run: python -m wavebed.cli.references docs/reference/command-line.md"


def test_plain_lines_say_the_step_and_the_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    with StepProgress("wavebed channel") as progress:
        progress.step("download", 90)
        progress.step("report", 0)
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["wavebed channel: download (about 90 s left)", "wavebed channel: report (about 0 s left)"]


def test_a_terminal_gets_one_line_that_is_cleared(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with StepProgress("wavebed channel") as progress:
        progress.step("download", 90)
    text = capsys.readouterr().err
    assert "wavebed channel: download (about 90 s left)" in text
    up_and_erase = "\n\x1b[?25h\r\x1b[1A\x1b[2K"
    assert text.endswith(up_and_erase)
    assert "\n" not in text.removesuffix(up_and_erase)


def test_nothing_is_said_before_patience_is_over(capsys: pytest.CaptureFixture[str]) -> None:
    with StepProgress("wavebed channel", patience_s=60) as progress:
        progress.step("seed 1 of 2", 9)
    assert capsys.readouterr().err == ""


FOLDER = resources.files("wavebed.workload") / "npm"


def test_each_package_has_a_hash_and_none_an_address() -> None:
    text = (FOLDER / "package-lock.json").read_text(encoding="utf-8")
    packages = json.loads(text)["packages"]
    wanted = packages.pop("")
    assert len(packages) >= 2
    assert all(package["integrity"].startswith("sha512-") for package in packages.values())
    assert "://" not in text
    assert packages["node_modules/dashjs"]["version"] == wanted["dependencies"]["dashjs"] == PLAYER_VERSION


def test_the_lock_file_is_that_of_the_packages() -> None:
    wanted = json.loads((FOLDER / "package.json").read_text(encoding="utf-8"))
    locked = json.loads((FOLDER / "package-lock.json").read_text(encoding="utf-8"))["packages"][""]
    for key in ("dependencies", "devDependencies"):
        assert locked[key] == wanted[key]


def test_the_last_lines_of_a_command_are_wrapped_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    from wavebed.terminal import closing_text

    rows = [("question", "Is it so?"), ("answer", "word " * 30)]
    assert closing_text(rows).splitlines()[0] == "question  Is it so?"
    assert len(closing_text(rows).splitlines()) == 2
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    lines = closing_text(rows).splitlines()
    assert len(lines) == 4
    assert all(len(line) <= 80 for line in lines)
    assert lines[2].startswith(" " * 10 + "word")


def test_progress_fits_80_columns() -> None:
    from wavebed.terminal import StatusLine

    stream = io.StringIO()
    StatusLine("wavebed run", stream).say("a word " * 40)
    (line,) = stream.getvalue().splitlines()
    assert len(line) == 80
    assert line.endswith("…")


def test_ctrl_c_says_what_is_kept_and_how_to_go_on(tmp_path: Path) -> None:
    from tests.unit.report_example import Plan, write_example

    from wavebed.cli.run import go_on, keeping
    from wavebed.run.progress import Live

    folder = write_example(tmp_path / "run", Plan(blocks=1, excluded=False))
    words = ["wavebed", "run", "walk.toml", "--trials", "9"]
    assert go_on(folder, words) == f"Go on with: wavebed run walk.toml --trials 9 -o {folder} --resume"
    again = ["wavebed", "run", "walk.toml", "-o", "run", "--resume"]
    assert go_on(folder, again) == "Go on with: wavebed run walk.toml -o run --resume"
    assert go_on(folder, ["wavebed", "rerun", "x"]) == f"Look at them with: wavebed report {folder}"
    for place, said in ((folder, "2 trials are kept in"), (tmp_path, "before the end of the first trial")):
        stream = io.StringIO()
        with pytest.raises(KeyboardInterrupt), keeping(Live("wavebed run", stream), place, "Go on so."):
            raise KeyboardInterrupt
        assert said in stream.getvalue()


def test_each_shipped_scenario_says_what_it_answers() -> None:
    questions = json.loads((folder() / "questions.json").read_text())
    assert sorted(questions) == sorted(names())
    assert all(questions.values())
