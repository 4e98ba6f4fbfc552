"""A far host that sends what it likes in place of an agent: its trial fails, soon and alone."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import pytest

from wavebed.hosts.agent import Agent, HostAddress
from wavebed.lab.protocol import LaboratoryGoneError

if TYPE_CHECKING:
    from pathlib import Path

    from wavebed.hosts.agent import Event

SSH = """
import json, os, struct, sys, threading
out = sys.stdout.buffer
def send(header, payload=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    out.write(struct.pack("<II", len(text), len(payload)) + text + payload)
    out.flush()
last = b""
while b'"do": "clock"' not in last:  # the agent, and then a question
    last = last[-100:] + os.read(0, 1 << 16)
{evil}
threading.Event().wait()
"""
EVILS = {
    "a huge frame": 'out.write(b"\\xff" * 8); out.flush()',
    "an event of another type": 'send({"event": "output", "pid": [1], "stream": "x"})',
    "an unknown event": 'send({"event": "gone"})',
    "a header that is no object": "send([1])",
    "a header that is no text": 'send(b"\\xff\\xfe")',
    "a header nested a million deep": 'send(b"[" * 1000000)',
    "an answer of texts": 'send({"id": 1, "unix_ns": ["x", None], "monotonic_ns": [1, 2]})',
    "an answer of 10^30": 'send({"id": 1, "unix_ns": [1, 2], "monotonic_ns": [10**30] * 2})',
    "an answer of no numbers": 'send({"id": 1, "unix_ns": [float("nan")] * 2, "monotonic_ns": [1, 2]})',
    "an error that is no text": 'send({"id": 1, "error": [1]})',
    "half a frame": 'out.write(b"\\1\\0\\0\\0"); out.flush(); os._exit(0)',
    "last words that act": 'os.write(2, b"\\x1b]0;pwned\\x07\\x1b[31mhello\\n"); os._exit(255)',
}


@pytest.mark.parametrize("evil", EVILS)
def test_a_host_that_sends_nonsense_is_given_up_soon_in_one_line(
    evil: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "ssh.py"
    program.write_text(SSH.format(evil=EVILS[evil]))
    monkeypatch.setenv("WAVEBED_SSH", f"{sys.executable} {program}")
    gone = []

    def hear(event: Event | None, _: bytes) -> None:
        time.sleep(0.1)  # the end waits for what is told last
        gone.append(event)

    agent = Agent("client", HostAddress("far"), hear)
    begun = time.monotonic()
    with pytest.raises(LaboratoryGoneError) as told:
        agent.ask_clock(60)  # the limit of this wait must not be what ends it
    assert time.monotonic() - begun < 55
    agent.close(10)
    assert gone == [None]
    assert not agent.is_alive
    assert str(told.value).startswith("client: the connection to ssh://far ended")
    assert str(told.value).isprintable()


def test_an_error_in_taking_an_event_ends_this_agent_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "ssh.py"
    program.write_text(SSH.format(evil='send({"event": "exit", "pid": 1, "status": 0})'))
    monkeypatch.setenv("WAVEBED_SSH", f"{sys.executable} {program}")

    def hear(event: Event | None, _: bytes) -> None:
        if event is not None:
            raise ZeroDivisionError("whatever")

    agent = Agent("client", HostAddress("far"), hear)
    with pytest.raises(LaboratoryGoneError, match="ended: ZeroDivisionError: whatever"):
        agent.ask_clock(60)
    agent.close(10)
