"""The command of the page: what it prints, and the options it refuses."""

from __future__ import annotations

import re
from io import StringIO
from typing import TYPE_CHECKING

import pytest

from wavebed.cli import ctl, main
from wavebed.path.control import Running
from wavebed.ui.server import PageServer

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Serve nothing, as if Ctrl-C came at once."""

    def interrupted(self: PageServer, poll_interval: float = 0.5) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(PageServer, "serve_forever", interrupted)
    _run(monkeypatch)


def _run(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Let laboratories of these names run."""
    monkeypatch.setattr(ctl, "running", lambda: [Running(name, 0, "") for name in names])


@pytest.mark.parametrize(
    ("names", "arguments", "said"),
    [
        ((), [], "no laboratory runs: start one in another terminal, as the page says"),
        (("walk",), [], "laboratory: walk"),
        (("walk", "ride"), [], "laboratories: walk, ride: choose one on the page, or write wavebed ui LAB"),
        (("walk", "ride"), ["walk"], ""),
        (("walk",), ["other"], "other does not run yet: the page waits for it"),
    ],
)
def test_the_laboratories_are_listed_below_the_address(
    names: tuple[str, ...], arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    _run(monkeypatch, *names)
    assert main(["ui", *arguments]) == 130
    told = capsys.readouterr().err.splitlines()
    assert told == [*([f"wavebed: {said}"] if said else []), "wavebed: Ctrl-C ends the page; the laboratories go on"]


def test_a_mistyped_laboratory_is_answered_with_the_one_that_runs(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    _run(monkeypatch, "walk", "ride")
    assert main(["ui", "wakl"]) == 2
    said = "wavebed: 'wakl' is no running laboratory: did you mean `wavebed ui walk`?\n"
    assert capsys.readouterr().err == said


@pytest.mark.parametrize(("answer", "lab"), [("2", "ride"), ("walk", "walk"), ("", None), ("7\nx\n1", "walk")])
def test_at_a_terminal_it_is_asked_which_laboratory_to_show(
    answer: str, lab: str | None, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    shown = []
    _run(monkeypatch, "walk", "ride")
    monkeypatch.setattr("sys.stdin", StringIO(f"{answer}\n"))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr("wavebed.ui.command.serve", shown.append)
    assert main(["ui"]) == 0
    assert [options.lab for options in shown] == [lab]
    assert capsys.readouterr().err.startswith("  1  walk\n  2  ride\nWhich laboratory? ")


def test_the_address_with_the_token_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ui"]) == 130
    printed = capsys.readouterr()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{43}\n", printed.out)
    assert printed.err.splitlines()[-1] == "wavebed: Ctrl-C ends the page; the laboratories go on"


def test_a_token_of_a_file_is_not_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "token"
    file.write_text("0123456789abcdef0123456789abcdef")
    file.chmod(0o600)
    assert main(["ui", "--token-file", str(file), "--listen", "127.0.0.1"]) == 130
    printed = capsys.readouterr()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\n", printed.out)
    assert f"the token is in {file}" in printed.err
    assert "0123456789abcdef" not in printed.out + printed.err


def test_an_address_of_the_network_is_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ui", "--listen", "0.0.0.0:0"]) == 130
    assert "wavebed: note: 0.0.0.0:0 is open to the network, and nothing is encrypted" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["No Name"], "LAB: 'No Name' is not a name"),
        (["--listen", "example.org:80"], "--listen: 'example.org:80' is no address and port"),
        (["--token-file", "/nowhere"], "/nowhere: no such file or directory: name a file with a token"),
        (["--record-to", "/dev/null/x"], "--record-to: '/dev/null/x': not a directory"),
    ],
)
def test_a_wrong_option_ends_with_one_line(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ui", *arguments]) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert said in printed.err


def test_a_port_that_is_taken_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["ui", "--listen", f"127.0.0.1:{port}"]) == 3
    assert f"--listen: 127.0.0.1 port {port}: address already in use" in capsys.readouterr().err
