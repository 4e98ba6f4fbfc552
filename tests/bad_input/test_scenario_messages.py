"""Every malformed scenario and option gives one line with the place, the rule and the remedy, and exit status 2.

The messages are stored beside the corpus. After a deliberate change, run with ``WAVEBED_WRITE_MESSAGES=1`` and read
the difference.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from wavebed.cli import main

HERE = Path(__file__).parent
SCENARIOS = sorted((HERE / "scenarios").glob("*.toml"))
OPTIONS = (HERE / "options.txt").read_text(encoding="utf-8").splitlines()


class Stored:
    """Messages by case, in a file of ``case => message`` lines."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.messages: dict[str, str] = {}
        if file.exists():
            pairs = (line.partition(" => ") for line in file.read_text(encoding="utf-8").splitlines())
            self.messages = {case: message for case, _, message in pairs}

    def check(self, case: str, message: str) -> None:
        if os.environ.get("WAVEBED_WRITE_MESSAGES"):
            self.messages[case] = message
            lines = (f"{key} => {value}\n" for key, value in sorted(self.messages.items()))
            self.file.write_text("".join(lines), encoding="utf-8")
        assert self.messages.get(case) == message


@pytest.fixture(autouse=True)
def in_the_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HERE / "scenarios")
    monkeypatch.setenv("WAVEBED_CORE", "/bin/false")


def refusal(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    lines = shown.err.splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("wavebed: ")
    return lines[0].removeprefix("wavebed: ")


def test_the_corpus_is_large_enough() -> None:
    assert len(SCENARIOS) + len(OPTIONS) >= 60


@pytest.mark.parametrize("file", SCENARIOS, ids=lambda file: file.stem)
def test_scenario(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = refusal(["shell", "--scenario", file.name, "--", "true"], capsys)
    assert message.startswith(f"{file.name}: "), "the message names the file"
    Stored(HERE / "scenarios.messages").check(file.stem, message)


@pytest.mark.parametrize("line", OPTIONS)
def test_option(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    message = refusal(["shell", *shlex.split(line)], capsys)
    Stored(HERE / "options.messages").check(line, message)
