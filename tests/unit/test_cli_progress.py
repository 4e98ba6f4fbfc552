"""Progress of long commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.cli.progress import Progress

if TYPE_CHECKING:
    import pytest


def test_plain_lines_say_the_step_and_the_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("wavebed channel") as progress:
        progress.step("download", 90)
        progress.step("report", 0)
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["wavebed channel: download (about 90 s left)", "wavebed channel: report (about 0 s left)"]


def test_a_terminal_gets_one_line_that_is_cleared(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with Progress("wavebed channel") as progress:
        progress.step("download", 90)
    text = capsys.readouterr().err
    assert "wavebed channel: download (about 90 s left)" in text
    up_and_erase = "\n\x1b[?25h\r\x1b[1A\x1b[2K"
    assert text.endswith(up_and_erase)
    assert "\n" not in text.removesuffix(up_and_erase)


def test_nothing_is_said_before_patience_is_over(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("wavebed channel", patience_s=60) as progress:
        progress.step("seed 1 of 2", 9)
    assert capsys.readouterr().err == ""
