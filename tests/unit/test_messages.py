"""Every malformed scenario, option, scene and campaign gives one line with place, rule and remedy, and exit status 2.

The messages are stored beside the corpus. After a deliberate change, run with ``WAVEBED_WRITE_MESSAGES=1`` and read
the difference.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from tests.messages import Stored, refusal

from wavebed.errors import UserError
from wavebed.scene import load

HERE = Path(__file__).parents[1] / "bad_input"
SCENARIOS, SCENES, CAMPAIGNS = (sorted((HERE / name).glob("*.toml")) for name in ("scenarios", "scenes", "campaigns"))
OPTIONS = (HERE / "options.txt").read_text(encoding="utf-8").splitlines()


@pytest.fixture(autouse=True)
def no_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAVEBED_CORE", "/bin/false")


def test_each_corpus_is_large_enough() -> None:
    assert len(SCENARIOS) + len(OPTIONS) >= 60
    assert min(len(SCENES), len(CAMPAIGNS)) >= 100


@pytest.mark.parametrize("file", SCENARIOS, ids=lambda file: file.stem)
def test_scenario(file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HERE / "scenarios")
    message = refusal(["shell", "--scenario", file.name, "--", "true"], capsys)
    assert message.startswith(f"{file.name}: "), "the message names the file"
    Stored(HERE / "scenarios.messages").check(file.stem, message)


@pytest.mark.parametrize("line", OPTIONS)
def test_option(line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HERE / "scenarios")
    message = refusal(["shell", *shlex.split(line)], capsys)
    Stored(HERE / "options.messages").check(line, message)


@pytest.mark.parametrize("file", CAMPAIGNS, ids=lambda file: file.stem)
def test_campaign(file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HERE / "campaigns")
    message = refusal(["campaign", "plan", file.name], capsys)
    Stored(HERE / "campaigns.messages").check(file.stem, message)


@pytest.mark.parametrize("file", SCENES, ids=lambda file: file.stem)
def test_scene(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HERE / "scenes")
    with pytest.raises(UserError) as caught:
        load(file.name)
    message = str(caught.value)
    assert caught.value.exit_status == 2
    assert message.startswith(f"{file.name}: "), "the message names the file"
    assert message.isprintable(), "it is one line"
    Stored(HERE / "scenes.messages").check(file.stem, message)


def test_a_scene_that_does_not_exist_is_answered_with_the_nearest_shipped_one() -> None:
    with pytest.raises(UserError, match=r"^kau-e5g-9: no such file or scene: did you mean 'kau-e5g-4'\?$"):
        load("kau-e5g-9")
    with pytest.raises(UserError, match=r"^nowhere/street\.toml: no such file or directory: name a scene file"):
        load("nowhere/street.toml")
    with pytest.raises(UserError, match="is a directory"):
        load(HERE)
