"""The dispatcher: exit statuses and what goes where."""

from __future__ import annotations

from pathlib import Path

import pytest

from wavebed.cli import COMMANDS, build_parser, main
from wavebed.cli import trace as trace_command
from wavebed.cli.reference import command_line_page
from wavebed.errors import MachineError, UserError, WavebedError


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
    monkeypatch.setattr(trace_command, "run", raising(error))
    assert main(["trace", "info", "x"]) == status
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", said)


def test_a_bug_keeps_its_traceback(monkeypatch) -> None:
    monkeypatch.setattr(trace_command, "run", raising(ZeroDivisionError()))
    with pytest.raises(ZeroDivisionError):
        main(["trace", "info", "x"])


def test_the_status_of_a_command_is_passed_on(monkeypatch) -> None:
    monkeypatch.setattr(trace_command, "run", lambda _: 7)
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
    assert all(f"    {name} " in listed for name in COMMANDS)


def test_the_reference_page_of_the_command_line_is_up_to_date() -> None:
    stored = (Path(__file__).parents[2] / "docs/reference/command-line.md").read_text()
    assert stored == command_line_page(), "run: python -m wavebed.cli.reference docs/reference/command-line.md"
