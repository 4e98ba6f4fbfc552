"""The conversation with a browser's process: told to stop it answers soon, or is given up; closed it is left alone."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, cast

import pytest

from wavebed.errors import WavebedError
from wavebed.workload.browser import remote
from wavebed.workload.browser.remote import Agent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from wavebed.path.lab import LabHost

HEAD = "import json, sys, time\nhear = lambda: json.loads(sys.stdin.readline())\n"
SAY = "print(json.dumps({'result': 1}), flush=True)\n"
ENDS_WHEN_TOLD = f"{HEAD}hear()\nassert hear() == {{'stop': True}}\n{SAY}"
DEAF = f"{HEAD}hear()\ntime.sleep(60)"


class Host:
    """Runs a script here instead of a module on a host."""

    def __init__(self, script: str) -> None:
        self._script = script
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, _: object, **pipes: Any) -> subprocess.Popen[bytes]:
        assert pipes.pop("confined")
        self.process = subprocess.Popen([sys.executable, "-c", self._script], **pipes)
        return self.process


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Callable[[str], Agent]]:
    made = []

    def make(script: str) -> Agent:
        made.append(Agent(cast("LabHost", Host(script)), "the_agent", {}, tmp_path))
        return made[-1]

    yield make
    for each in made:
        each.close()


def never() -> str | None:
    return None


def test_its_result_is_waited_for(agent: Callable[[str], Agent]) -> None:
    assert agent(f"{HEAD}hear()\ntime.sleep(0.4)\n{SAY}").result(threading.Event(), never) == {"result": 1}


def test_it_is_told_to_stop_once_somebody_asks(agent: Callable[[str], Agent]) -> None:
    asked = threading.Event()
    asked.set()
    assert agent(ENDS_WHEN_TOLD).result(asked, never) == {"result": 1}


def test_it_is_told_to_stop_when_its_server_has_ended(agent: Callable[[str], Agent]) -> None:
    assert agent(ENDS_WHEN_TOLD).result(threading.Event(), lambda: "nginx was ended by signal 9") == {"result": 1}


def test_one_that_does_not_stop_is_given_up(agent: Callable[[str], Agent], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "STOP_GRACE_S", 0.1)
    asked = threading.Event()
    asked.set()
    began = time.monotonic()
    with pytest.raises(WavebedError, match="the_agent did not stop"):
        agent(DEAF).result(asked, never)
    assert time.monotonic() - began < 5


def test_one_that_ends_says_its_last_line(agent: Callable[[str], Agent]) -> None:
    with pytest.raises(WavebedError, match="the_agent ended: no display"):
        agent("import sys\nsys.exit('no display')").result(threading.Event(), never)


def test_what_is_told_after_its_end_goes_nowhere(agent: Callable[[str], Agent]) -> None:
    """The numbers of its pipes may be those of other files by then."""
    one = agent(f"{HEAD}hear()\n{SAY}")
    assert one.result(threading.Event(), never)
    one.close()
    one.close()
    pipes = [os.pipe() for _ in range(4)]
    one.tell({"stop": True})
    for reading, writing in pipes:
        os.close(writing)
        assert os.read(reading, 100) == b""
        os.close(reading)


def test_messages_may_come_in_pieces_and_together(agent: Callable[[str], Agent]) -> None:
    one = agent("import json\nprint(json.dumps({'a': 'x' * 200_000}) + '\\n' + json.dumps({'b': 2}), flush=True)")
    assert len(str(one.hear(10)["a"])) == 200_000
    assert one.hear(10) == {"b": 2}
