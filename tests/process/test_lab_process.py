"""A laboratory as its clients see it: its clock, processes, ports, end, and the conversation by its socket."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import nullcontext
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self, cast

import msgspec
import pytest
from tests.unit.test_lab import NAME, PORT, clock  # noqa: F401
from tests.virtual_clock import VirtualClock

from wavebed.errors import UserError
from wavebed.lab.protocol import LIMITS, LaboratoryGoneError, LaboratoryMalformedError, MachineClock
from wavebed.lab.tools import Computing
from wavebed.path import control
from wavebed.path.control import Running, connect_to, running
from wavebed.path.core import Core, LabProcess
from wavebed.path.lab import LabHost, computing_of
from wavebed.workload.programs import end_within

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from wavebed.lab.protocol import Clock
    from wavebed.path.control import ControlConnection


LATE_S = 1.3
WAIT_S = 60.0


class Conversation:
    """Stands for the connections to a laboratory, in virtual time; reports of the end come `LATE_S` after its cause.

    Parameters
    ----------
    ended : bool
        Whether the process ends by itself, and the laboratory knows of it when it is asked to send a signal.
    """

    def __init__(self, *, ended: bool) -> None:
        self._ended = ended
        self._now_s = 0.0
        self._due_s: float | None = None
        self._status = 0

    def answer(self, timeout_s: float | None = None) -> dict[str, int]:
        left_s = 3600.0 if self._due_s is None else max(0.0, self._due_s - self._now_s)
        if timeout_s is not None and timeout_s < left_s:
            self._now_s += timeout_s
            raise TimeoutError
        self._now_s += left_s
        return {"exit": self._status}

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        if self._ended:
            self._due_s = self._now_s + LATE_S
            raise UserError("there is no such process")
        if request["signal"] == signal.SIGKILL:
            self._due_s = self._now_s + LATE_S
            self._status = -signal.SIGKILL
        return {}

    def close(self) -> None:
        pass

    def again(self) -> AbstractContextManager[ControlConnection]:
        return nullcontext(cast("ControlConnection", self))


def process(conversation: Conversation) -> LabProcess:
    return LabProcess(cast("ControlConnection", conversation), 7, ["sleep"], conversation.again)  # type: ignore[arg-type]


def test_the_end_of_a_killed_process_is_awaited_for_longer_than_its_grace() -> None:
    assert process(Conversation(ended=False)).terminate(grace_s=0.1) == -signal.SIGKILL
    assert not end_within(process(Conversation(ended=False)), 0.0, grace_s=0.1)


def test_news_of_an_end_may_follow_the_refusal_of_a_signal_late() -> None:
    assert process(Conversation(ended=True)).terminate() == 0


class OneAnswer(Conversation):
    """Says once how the process ended, when it is let; afterwards the connection is closed."""

    def __init__(self) -> None:
        super().__init__(ended=True)
        self.waited_for = threading.Event()
        self.ends = threading.Event()
        self._answers = 0

    def answer(self, timeout_s: float | None = None) -> dict[str, int]:  # noqa: ARG002
        self._answers += 1
        if self._answers > 1:
            raise LaboratoryGoneError("the connection is closed")
        self.waited_for.set()
        assert self.ends.wait(WAIT_S)
        return {"exit": 3}


class Counted(Conversation):
    """Says at once how the process ended, and what it used of the host's processor."""

    def __init__(self, host_cpu_s: int | None) -> None:
        super().__init__(ended=True)
        self._counted = {} if host_cpu_s is None else {"host_cpu_ns": told(host_cpu_s)}

    def answer(self, timeout_s: float | None = None) -> dict[str, int | str]:  # noqa: ARG002
        return {"exit": 0, **self._counted}


def told(time_s: int) -> str:
    """Return a time of the host as the laboratory tells it."""
    return f"{time_s * 10**9:020}"


def test_the_processor_time_is_told_with_the_status_and_the_rest_is_no_workloads() -> None:
    server, client, ping = process(Counted(5)), process(Counted(2)), process(Counted(1))
    known = [("web", "server", server), ("web", "client", client), ("ping", "client", ping)]
    for _, _, each in known:
        assert each.wait() == 0
    went_on = ("web", "client", process(Conversation(ended=False)))
    found = computing_of(told(20), [*known, went_on])
    assert found is not None
    assert (found.total_s, found.of_s("web"), found.of_s("ping"), found.of_s("none")) == (20, 7 + 12, 1 + 12, 20)
    assert computing_of(None, known) is None
    plain = process(Counted(None))
    assert (plain.wait(), plain.host_cpu_ns) == (0, None)


def test_what_a_server_computed_before_the_client_started_is_no_workloads() -> None:
    server, client = process(Counted(5)), process(Counted(2))
    client.host_cpu_before_ns = told(4)
    for each in (server, client):
        assert each.wait() == 0
    known = [("web", "server", server), ("web", "client", client)]
    whole, of_server = computing_of(told(7), known), computing_of(told(7), known[:1])
    assert whole is not None
    assert of_server is not None
    assert (whole.of_s("web"), of_server.of_s("web")) == (7 - 4, 7)


def test_what_a_trial_keeps_of_the_host_has_one_length() -> None:
    few, many = (msgspec.json.encode(Computing(told(each))) for each in (0, 10**9))
    assert len(few) == len(many)


def test_two_threads_that_wait_for_a_process_get_its_status() -> None:
    conversation = OneAnswer()
    ends = process(conversation)
    statuses: list[int] = []
    waiting = threading.Thread(target=lambda: statuses.append(ends.wait(WAIT_S)))
    waiting.start()
    assert conversation.waited_for.wait(WAIT_S)
    assert ends.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        ends.wait(0.01)
    conversation.ends.set()
    assert ends.wait(WAIT_S) == 3
    waiting.join(WAIT_S)
    assert statuses == [3]


def test_a_day_passes_in_a_moment(clock: VirtualClock) -> None:
    clock.sleep(86_400)
    assert clock.now_s() == 86_400


def test_time_does_not_pass_while_somebody_works(clock: VirtualClock) -> None:
    ended = clock.start(lambda: time.sleep(0.01), "works")
    assert clock.wait(ended, 5.0)
    assert clock.now_s() == 0


@pytest.mark.parametrize("kind", [MachineClock, VirtualClock])
def test_every_clock_answers_alike(kind: type[VirtualClock | MachineClock]) -> None:
    made = kind()
    zero_ns = made.begin() if isinstance(made, VirtualClock) else time.monotonic_ns()
    if isinstance(made, MachineClock):
        made.begin(zero_ns)
    clock: Clock = made
    assert clock.of_monotonic_ns(zero_ns + 1_500_000_000) == 1.5
    before_s, monotonic_s = clock.now_s(), clock.monotonic_s()
    clock.sleep(0.01)
    assert clock.now_s() - before_s >= 0.01
    assert clock.monotonic_s() - monotonic_s >= 0.01 - 1e-6
    reading, writing = os.pipe()
    assert not clock.wait_readable(reading, 0.01)
    os.close(writing)
    assert clock.wait_readable(reading, 60.0)
    os.close(reading)
    ended = clock.start(lambda: None, "nothing")
    assert clock.wait(ended, 60.0)
    assert not clock.wait(threading.Event(), 0.01)


REFUSES = """#!{python}
import os, sys, time
os.close(int(sys.argv[4]))
time.sleep(0.3)
sys.exit(2)
"""


def connect_until_refused(core: Core) -> None:
    while True:
        with core.connect():
            time.sleep(0.01)


def test_one_that_closed_its_channel_keeps_its_exit_status(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "core"
    program.write_text(REFUSES.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setattr("wavebed.path.core.find_core", lambda: str(program))
    file = os.open(os.devnull, os.O_RDONLY)
    try:
        core = Core("slow to end", file, [file], LIMITS)
    finally:
        os.close(file)
    with pytest.raises(LaboratoryGoneError, match="has ended"):
        connect_until_refused(core)
    assert core.wait(60) == 2
    core.end(1)


RANDOM = "0123456789abcdef0123456789abcdef"


def listen(uid: int, name: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(f"\0wavebed/{uid}/{name}/{RANDOM}")
    listener.listen()
    return listener


def test_nobody_there_is_said() -> None:
    with pytest.raises(UserError, match="'nobody-here' is no running laboratory"):
        connect_to("nobody-here")


def test_a_laboratory_is_found_by_the_user_who_listens() -> None:
    uid = os.geteuid()
    with listen(uid, NAME), listen(uid + 1, NAME), listen(uid + 1, f"{NAME}-stolen"):
        mine = [lab for lab in running() if lab.name.startswith(NAME)]
        assert mine == [Running(NAME, uid, f"wavebed/{uid}/{NAME}/{RANDOM}")]
        connect_to(NAME).close()
        with pytest.raises(UserError, match="is no running laboratory"):
            connect_to(f"{NAME}-stolen")


def test_a_name_that_changed_hands_since_it_was_listed_is_not_spoken_to(monkeypatch: pytest.MonkeyPatch) -> None:
    uid = os.geteuid()
    stolen = Running(NAME, uid + 1, f"wavebed/{uid + 1}/{NAME}/{RANDOM}")
    monkeypatch.setattr(control, "running", lambda **_: [stolen])
    with listen(uid + 1, NAME), pytest.raises(UserError, match="is no running laboratory"):
        connect_to(NAME)


def test_a_name_of_several_users_is_ambiguous_and_ones_own_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    uid = os.geteuid()
    others = [Running(NAME, uid + 1, "x"), Running(NAME, uid + 2, "x")]
    monkeypatch.setattr(control, "running", lambda **_: others)
    with pytest.raises(UserError, match=rf"the users {uid + 1}, {uid + 2} run laboratories of this name"):
        connect_to(NAME)
    own = Running(NAME, uid, f"wavebed/{uid}/{NAME}/{RANDOM}")
    monkeypatch.setattr(control, "running", lambda **_: [*others, own])
    with listen(uid, NAME):
        connect_to(NAME).close()


def lab_host(*answers: dict[str, Any]) -> LabHost:
    """Return a host that tells first these open ports, then those; the last stay."""
    left = list(answers)

    class Answering:
        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None: ...

        def ask(self, request: object) -> dict[str, Any]:
            assert request == {"do": "ports", "host": "server"}
            return left.pop(0) if len(left) > 1 else left[0]

    laboratory = SimpleNamespace(name=NAME, clock=MachineClock(), connect=Answering)
    return LabHost(cast("Any", laboratory), "server")


@pytest.mark.parametrize("transport", ["tcp", "udp"])
def test_a_port_is_open_when_a_socket_without_a_peer_has_it(transport: str) -> None:
    lab_host({"ports": []}, {"ports": [[transport, PORT]]}).wait_for_port(PORT, udp=True)


def test_a_port_of_udp_is_none_of_tcp() -> None:
    with pytest.raises(TimeoutError, match=r"nothing on server listens on port 20000 after 0.05 s"):
        lab_host({"ports": [["udp", PORT], ["tcp", PORT + 1]]}).wait_for_port(PORT, 0.05)


def test_open_ports_of_another_type_are_one_error() -> None:
    with pytest.raises(LaboratoryMalformedError):
        lab_host({"ports": [["tcp", "80"]]}).open_ports()
