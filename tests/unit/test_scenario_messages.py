"""Every malformed scenario and option gives one line with the place, the rule and the remedy, and exit status 2.

The messages are stored beside the corpus. After a deliberate change, run with ``WAVEBED_WRITE_MESSAGES=1`` and read
the difference.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from tests.messages import Stored, refusal

HERE = Path(__file__).parents[1] / "bad_input"
SCENARIOS = sorted((HERE / "scenarios").glob("*.toml"))
OPTIONS = (HERE / "options.txt").read_text(encoding="utf-8").splitlines()


@pytest.fixture(autouse=True)
def in_the_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HERE / "scenarios")
    monkeypatch.setenv("WAVEBED_CORE", "/bin/false")


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
