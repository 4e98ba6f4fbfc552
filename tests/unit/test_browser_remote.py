"""The conversation with a browser's process: told to stop it answers soon, or is given up; closed it is left alone."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.memory_lab import MemoryLab, MemoryProcess, Script

from wavebed.errors import WavebedError
from wavebed.lab.clock import MachineClock
from wavebed.workload.browser.remote import LOOK_EVERY_S, READY_S, STOP_GRACE_S, Agent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wavebed.lab.protocol import Host


def say_result(process: MemoryProcess) -> int:
    process.write(json.dumps({"result": 1}) + "\n")
    return 0


def ends_when_told(process: MemoryProcess) -> int:
    process.read_line()
    assert json.loads(process.read_line()) == {"stop": True}
    return say_result(process)


def takes_its_time(process: MemoryProcess) -> int:
    process.host.clock.sleep(40.0)
    return say_result(process)


def is_deaf(process: MemoryProcess) -> int:
    process.host.clock.sleep(600.0)
    return 0


def in_memory(folder: Path, script: Script) -> tuple[Agent, MemoryLab]:
    lab = MemoryLab({Path(sys.executable).name: script})
    lab.begin()
    return Agent(lab.host("client"), "the_agent", {}, folder), lab


class RealHost:
    """Runs a script of Python here instead of a module on a host."""

    is_far = False

    def __init__(self, script: str) -> None:
        self._script = script
        self.clock = MachineClock()
        self.process: subprocess.Popen[bytes] | None = None

    def program(self, name: str) -> str:
        return f"/usr/bin/{name}"

    def start(self, _: object, **pipes: Any) -> subprocess.Popen[bytes]:
        assert pipes.pop("confined")
        self.process = subprocess.Popen([sys.executable, "-c", self._script], **pipes)
        return self.process


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Callable[[str], Agent]]:
    made = []

    def make(script: str) -> Agent:
        made.append(Agent(cast("Host", RealHost(script)), "the_agent", {}, tmp_path))
        return made[-1]

    yield make
    for each in made:
        each.close()


def never() -> str | None:
    return None


def test_its_result_is_waited_for(tmp_path: Path) -> None:
    agent, lab = in_memory(tmp_path, takes_its_time)
    assert agent.result(threading.Event(), never) == {"result": 1}
    assert lab.clock.now_s() == pytest.approx(40)


def test_it_is_told_to_stop_once_somebody_asks(tmp_path: Path) -> None:
    agent, lab = in_memory(tmp_path, ends_when_told)
    asked = threading.Event()
    lab.clock.at(20.0, asked.set)
    assert agent.result(asked, never) == {"result": 1}
    assert 20 <= lab.clock.now_s() <= 20 + LOOK_EVERY_S


def test_it_is_told_to_stop_when_its_server_has_ended(tmp_path: Path) -> None:
    agent, _ = in_memory(tmp_path, ends_when_told)
    assert agent.result(threading.Event(), lambda: "nginx was ended by signal 9") == {"result": 1}


def test_one_that_does_not_stop_is_given_up(tmp_path: Path) -> None:
    agent, lab = in_memory(tmp_path, is_deaf)
    asked = threading.Event()
    asked.set()
    with pytest.raises(WavebedError, match="the_agent did not stop"):
        agent.result(asked, never)
    assert STOP_GRACE_S <= lab.clock.now_s() <= STOP_GRACE_S + 2 * LOOK_EVERY_S


def test_a_browser_that_does_not_come_up_is_given_up_at_its_limit(tmp_path: Path) -> None:
    agent, lab = in_memory(tmp_path, is_deaf)
    with pytest.raises(WavebedError, match="the_agent: the browser is not up: the_agent said nothing for 50 s"):
        agent.await_ready()
    assert lab.clock.now_s() == pytest.approx(READY_S)


def test_one_that_goes_on_after_its_input_ended_is_killed(tmp_path: Path) -> None:
    agent, lab = in_memory(tmp_path, is_deaf)
    agent.close()
    assert lab.started[0].returncode == -signal.SIGKILL
    assert lab.clock.now_s() == pytest.approx(3)
