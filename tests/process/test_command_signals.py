"""SIGINT and SIGTERM to a command: the first one clears away, the second one ends it whatever hangs."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

HANGS = """
import time
from wavebed.cli import signals
signals.AGAIN_S = 0.1
signals.end_on_signals()
try:
    print("ready", flush=True)
    time.sleep(60)
finally:
    said = False
    while True:
        try:
            if not said:
                said = True
                print("clearing", flush=True)
            time.sleep(60)
        except BaseException:
            pass
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_clearing_that_hangs_ends_with_the_second_signal(number: int) -> None:
    with subprocess.Popen([sys.executable, "-c", HANGS], stdout=subprocess.PIPE, text=True) as command:
        try:
            assert command.stdout is not None
            assert command.stdout.readline() == "ready\n"
            command.send_signal(number)
            assert command.stdout.readline() == "clearing\n"
            assert command.poll() is None
            command.send_signal(number)
            assert command.wait(60) == 128 + number
        finally:
            command.kill()


def test_foreign_text_in_an_error_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    from wavebed.cli import main

    assert main(["ctl", "no\x1b[2Jlab"]) == 2
    told = capsys.readouterr().err
    assert "\x1b" not in told
    assert "is no running laboratory" in told
