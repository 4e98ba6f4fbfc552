"""The programs that drive browsers: conversation and sessions."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.memory_lab import MemoryLab, MemoryProcess, Program, Script

from wavebed.errors import WavebedError
from wavebed.lab.protocol import MachineClock
from wavebed.workload import call as call_module
from wavebed.workload import read_workload
from wavebed.workload import video as video_module
from wavebed.workload import web as web_module
from wavebed.workload.browser.remote import LOOK_EVERY_S, READY_S, STOP_GRACE_S, BrowserAgent
from wavebed.workload.model import TrialContext

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.memory_lab import MemoryProcess

    from wavebed.lab.protocol import Host
    from wavebed.workload.call import Call
    from wavebed.workload.video import Video
    from wavebed.workload.web import Web


class Silent:
    """An agent that comes up and then says nothing; or does not come up."""

    made: list[Silent]
    comes_up = True
    sandbox = "on"

    def __init__(self, host: Host, *_: object, **__: object) -> None:
        self.clock = host.clock
        self.told: list[object] = []
        self.closed = 0
        self.made.append(self)

    def tell(self, message: object) -> None:
        self.told.append(message)

    def hear(self, timeout_s: float) -> dict[str, Any]:
        self.clock.sleep(timeout_s)
        raise TimeoutError

    def await_ready(self) -> None:
        if not self.comes_up:
            raise WavebedError("the browser is not up")

    def close(self) -> None:
        self.closed += 1


class Server:
    def __init__(self) -> None:
        self.stopped = 0

    def failure(self) -> str | None:
        return None

    def stop(self) -> None:
        self.stopped += 1


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    """Stand in for web servers and browsers; return the server."""
    made = Server()
    monkeypatch.setattr(Silent, "made", [], raising=False)
    for module in (call_module, video_module, web_module):
        monkeypatch.setattr(module, "BrowserAgent", Silent)
    for module in (video_module, web_module):
        monkeypatch.setattr(module, "start_web_server", lambda *_: made)
    return made


def context(folder: Path) -> TrialContext:
    lab = MemoryLab({"ip": Program()})
    lab.begin()
    return TrialContext(lab.host("server"), lab.host("client"), folder, lab.clock, 20000, "198.19.1.", 1, 5.0)


def video(folder: Path) -> Video:
    workload = cast("Video", read_workload({"kind": "video"}))
    workload.root = folder
    return workload


def web(folder: Path) -> Web:
    workload = cast("Web", read_workload({"kind": "web", "site": "small", "protocol": "http/1.1", "tls": False}))
    origin = SimpleNamespace(name="www.small.example", folder="www")
    site = SimpleNamespace(name="small", origins=[origin], objects=[], first="/", compressed=False)
    workload.built = cast("Any", SimpleNamespace(site=site, folder=folder, routes={}))
    workload.device = {}
    return workload


def test_a_video_that_is_stopped_before_it_began_sends_nothing(server: Server, tmp_path: Path) -> None:
    session = video(tmp_path).open(context(tmp_path))
    session.stop()
    session.stop()
    with pytest.raises(WavebedError, match="stopped before it started"):
        session.run()
    (agent,) = Silent.made
    assert (agent.told, agent.closed, server.stopped) == ([], 1, 1)


def test_a_page_that_is_stopped_before_it_began_sends_nothing(server: Server, tmp_path: Path) -> None:
    session = web(tmp_path).open(context(tmp_path))
    session.stop()
    session.run()
    (agent,) = Silent.made
    assert (agent.told, agent.closed, server.stopped) == ([], 1, 1)
    outcome = session.report({})
    assert (outcome.status, outcome.reason) == ("failed", "stopped before it started")


@pytest.mark.parametrize("kind", ["video", "web"])
def test_a_browser_that_does_not_come_up_leaves_nothing_running(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(Silent, "comes_up", False)
    workload = video(tmp_path) if kind == "video" else web(tmp_path)
    with pytest.raises(WavebedError, match="not up"):
        workload.open(context(tmp_path))
    (agent,) = Silent.made
    assert (agent.closed, server.stopped) == (1, 1)


def test_a_page_whose_trace_has_no_page_has_failed(server: Server, tmp_path: Path) -> None:
    session = web(tmp_path).open(context(tmp_path))
    course = {"loaded": True, "settled": True, "error": None, "page": {}}
    (tmp_path / "page.json").write_text(json.dumps(course))
    (tmp_path / "trace.json").write_text('{"traceEvents": []}')
    outcome = session.report({})
    assert (outcome.status, outcome.reason) == ("failed", "the browser's trace has no page in it")


@pytest.mark.usefixtures("server")
def test_a_call_whose_ends_are_silent_heeds_the_word_to_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workload = cast("Call", read_workload({"kind": "call"}))
    monkeypatch.setattr(workload, "settings", dict)
    place = context(tmp_path)
    session = call_module.CallSession(workload, place)
    session._agents = {name: cast("Any", Silent(place.client)) for name in ("server", "client")}
    session.stop()
    with pytest.raises(WavebedError, match="stopped before"):
        session.run()
    assert place.clock.now_s() < 1
    assert [agent.closed for agent in Silent.made] == [1, 1]
    assert session.report({}).status == "failed"


@pytest.mark.usefixtures("server")
def test_a_call_whose_ends_never_answer_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workload = cast("Call", read_workload({"kind": "call"}))
    place = context(tmp_path)
    session = call_module.CallSession(workload, place)
    session._agents = {name: cast("Any", Silent(place.client)) for name in ("server", "client")}
    with pytest.raises(WavebedError, match="the client's end of the call: no answer within 10 s"):
        session.run()
    assert place.clock.now_s() == pytest.approx(10)


def test_a_call_lasts_as_long_as_it_should_and_leaves_what_both_ends_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def browser(process: MemoryProcess) -> int:
        process.read_line()
        for message in ({"sandbox": "on"}, {"ready": True}):
            process.host.clock.sleep(2.0)
            process.write(json.dumps(message) + "\n")
        while (told := json.loads(process.read_line()))["do"] != "finish":
            process.write(json.dumps({"value": told["do"]}) + "\n")
        process.write(json.dumps({"result": {"finished": process.host.clock.now_s()}}) + "\n")
        return 0

    workload = cast("Call", read_workload({"kind": "call", "duration": "100s"}))
    workload.film = tmp_path / "film"
    monkeypatch.setattr(workload, "settings", dict)
    lab = MemoryLab({Path(sys.executable).name: browser})
    session = workload.open(
        TrialContext(lab.host("server"), lab.host("client"), tmp_path, lab.clock, 20000, "198.19.1.", 1, 200.0)
    )
    lab.begin()
    session.run()
    assert [process.returncode for process in lab.started] == [0, 0]
    for end in ("server", "client"):
        said = json.loads((tmp_path / f"{end}.json").read_text())
        assert said["result"]["finished"] == pytest.approx(100)


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


def in_memory(folder: Path, script: Script) -> tuple[BrowserAgent, MemoryLab]:
    lab = MemoryLab({Path(sys.executable).name: script})
    lab.begin()
    return BrowserAgent(lab.host("client"), "the_agent", {}, folder), lab


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
def agent(tmp_path: Path) -> Iterator[Callable[[str], BrowserAgent]]:
    made = []

    def make(script: str) -> BrowserAgent:
        made.append(BrowserAgent(cast("Host", RealHost(script)), "the_agent", {}, tmp_path))
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
