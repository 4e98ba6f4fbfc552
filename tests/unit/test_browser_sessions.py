"""Sessions with browsers that do not do what they should, or are stopped at a bad moment."""

from __future__ import annotations

import json
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from wavebed.errors import WavebedError
from wavebed.workload import call as call_module
from wavebed.workload import read_workload
from wavebed.workload import video as video_module
from wavebed.workload import web as web_module
from wavebed.workload.model import Clock, Stage

if TYPE_CHECKING:
    from pathlib import Path

    from wavebed.workload.call import Call
    from wavebed.workload.video import Video
    from wavebed.workload.web import Web


class Silent:
    """An agent that comes up and then says nothing; or does not come up."""

    made: list[Silent]
    comes_up = True
    sandbox = "on"

    def __init__(self, *_: object) -> None:
        self.told: list[object] = []
        self.closed = 0
        self.made.append(self)

    def tell(self, message: object) -> None:
        self.told.append(message)

    def hear(self, timeout_s: float) -> dict[str, Any]:
        time.sleep(min(timeout_s, 0.02))
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
        monkeypatch.setattr(module, "Agent", Silent)
    for module in (video_module, web_module):
        monkeypatch.setattr(module, "start_web_server", lambda *_: made)
        monkeypatch.setattr(module, "find", lambda name: name)
    return made


def stage(folder: Path) -> Stage:
    clock = Clock()
    clock.begin(0)
    host = SimpleNamespace(name="server", run=lambda *_, **__: None)
    return Stage(cast("Any", None), cast("Any", host), cast("Any", host), folder, clock, 20000, "198.19.1.", 1, 5.0)


def video(folder: Path) -> Video:
    workload = cast("Video", read_workload({"kind": "video"}))
    workload.root = folder
    return workload


def web(folder: Path) -> Web:
    workload = cast("Web", read_workload({"kind": "web", "site": "small", "protocol": "http/1.1", "tls": False}))
    origin = SimpleNamespace(name="www.small.example", folder="www")
    site = SimpleNamespace(name="small", origins=[origin], objects=[], first="/")
    workload.built = cast("Any", SimpleNamespace(site=site, folder=folder, routes={}))
    workload.device = {}
    return workload


def test_a_video_that_is_stopped_before_it_began_sends_nothing(server: Server, tmp_path: Path) -> None:
    session = video(tmp_path).open(stage(tmp_path))
    session.stop()
    session.stop()
    with pytest.raises(WavebedError, match="stopped before it began"):
        session.run()
    (agent,) = Silent.made
    assert (agent.told, agent.closed, server.stopped) == ([], 1, 1)


def test_a_page_that_is_stopped_before_it_began_sends_nothing(server: Server, tmp_path: Path) -> None:
    session = web(tmp_path).open(stage(tmp_path))
    session.stop()
    session.run()
    (agent,) = Silent.made
    assert (agent.told, agent.closed, server.stopped) == ([], 1, 1)
    outcome = session.report({})
    assert (outcome.status, outcome.reason) == ("failed", "stopped before it began")


@pytest.mark.parametrize("kind", ["video", "web"])
def test_a_browser_that_does_not_come_up_leaves_nothing_running(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(Silent, "comes_up", False)
    workload = video(tmp_path) if kind == "video" else web(tmp_path)
    with pytest.raises(WavebedError, match="not up"):
        workload.open(stage(tmp_path))
    (agent,) = Silent.made
    assert (agent.closed, server.stopped) == (1, 1)


def test_a_page_whose_trace_has_no_page_has_failed(server: Server, tmp_path: Path) -> None:
    session = web(tmp_path).open(stage(tmp_path))
    course = {"loaded": True, "settled": True, "error": None, "page": {}}
    (tmp_path / "page.json").write_text(json.dumps(course))
    (tmp_path / "trace.json").write_text('{"traceEvents": []}')
    outcome = session.report({})
    assert (outcome.status, outcome.reason) == ("failed", "the browser's trace has no page in it")


@pytest.mark.usefixtures("server")
def test_a_call_whose_ends_are_silent_heeds_the_word_to_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workload = cast("Call", read_workload({"kind": "call"}))
    monkeypatch.setattr(workload, "settings", dict)
    session = call_module.CallSession(workload, stage(tmp_path))
    session._agents = {"server": cast("Any", Silent()), "client": cast("Any", Silent())}
    session.stop()
    began = time.monotonic()
    with pytest.raises(WavebedError, match="stopped before"):
        session.run()
    assert time.monotonic() - began < 2
    assert [agent.closed for agent in Silent.made] == [1, 1]
    assert session.report({}).status == "failed"
