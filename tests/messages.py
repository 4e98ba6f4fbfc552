"""Messages that refuse a corpus of malformed files, stored beside it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from wavebed.cli import main

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

__all__ = ["Stored", "refusal"]


class Stored:
    """Messages by case, in a file of ``case => message`` lines."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.messages: dict[str, str] = {}
        if file.exists():
            pairs = (line.partition(" => ") for line in file.read_text(encoding="utf-8").splitlines())
            self.messages = {case: message for case, _, message in pairs}

    def check(self, case: str, message: str) -> None:
        """Check a message against the stored one, or store it."""
        if os.environ.get("WAVEBED_WRITE_MESSAGES"):
            self.messages[case] = message
            lines = (f"{key} => {value}\n" for key, value in sorted(self.messages.items()))
            self.file.write_text("".join(lines), encoding="utf-8")
        assert self.messages.get(case) == message


def refusal(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Return the one line with which a command is refused."""
    assert main(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    lines = shown.err.splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("wavebed: ")
    return lines[0].removeprefix("wavebed: ")
