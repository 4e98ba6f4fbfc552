"""Every malformed scene gives one line with the file, the key, the rule and the remedy, and exit status 2.

The messages are stored beside the corpus. After a deliberate change, run with ``WAVEBED_WRITE_MESSAGES=1`` and read
the difference.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from wavebed.errors import UserError
from wavebed.scene import load

HERE = Path(__file__).parents[1] / "bad_input"
SCENES = sorted((HERE / "scenes").glob("*.toml"))
STORED = HERE / "scenes.messages"


def test_the_corpus_is_large_enough() -> None:
    assert len(SCENES) >= 100


@pytest.mark.parametrize("file", SCENES, ids=lambda file: file.stem)
def test_scene(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HERE / "scenes")
    with pytest.raises(UserError) as caught:
        load(file.name)
    message = str(caught.value)
    assert caught.value.exit_status == 2
    assert message.startswith(f"{file.name}: "), "the message names the file"
    assert message.isprintable(), "it is one line"
    stored = dict(line.split(" => ", 1) for line in STORED.read_text("utf-8").splitlines()) if STORED.exists() else {}
    if os.environ.get("WAVEBED_WRITE_MESSAGES"):
        stored[file.stem] = message
        STORED.write_text("".join(f"{case} => {text}\n" for case, text in sorted(stored.items())), encoding="utf-8")
    assert stored.get(file.stem) == message


def test_a_scene_that_does_not_exist_is_answered_with_those_that_are_shipped() -> None:
    with pytest.raises(UserError, match=r"^kau-e5g-9: no such file or scene: write a file, or one of .*kau-e5g-1,"):
        load("kau-e5g-9")
    with pytest.raises(UserError, match=r"^nowhere/street\.toml: no such file or directory: name a scene file"):
        load("nowhere/street.toml")
    with pytest.raises(UserError, match="is a directory"):
        load(HERE)
