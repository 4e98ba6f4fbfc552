"""A laboratory as its clients see it: clocks, tables, ports, and the conversation by its socket."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.memory_lab import MemoryHost, MemoryLab, Program
from tests.virtual_clock import VirtualClock

from wavebed.errors import UserError, WavebedError
from wavebed.lab.protocol import LaboratoryGoneError, LaboratoryHungError, MachineClock
from wavebed.path.control import ControlConnection
from wavebed.run.design import plan_text
from wavebed.run.scenario import read_plan
from wavebed.spec.trial import HostsLab, NamespacesLab
from wavebed.workload.serve import RunningServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wavebed.run.scenario import Plan


@pytest.fixture
def clock() -> VirtualClock:
    made = VirtualClock()
    made.begin()
    return made


def test_threads_go_on_in_the_order_of_their_moments(clock: VirtualClock) -> None:
    seen: list[tuple[str, float]] = []
    for name, at_s in (("late", 3.0), ("early", 1.0), ("middle", 2.0), ("also early", 1.0)):
        clock.at(at_s, lambda name=name: seen.append((name, clock.now_s())))  # type: ignore[misc]
    clock.sleep(10)
    assert seen == [("early", 1.0), ("also early", 1.0), ("middle", 2.0), ("late", 3.0)]


def test_an_event_ends_a_wait_before_its_limit(clock: VirtualClock) -> None:
    event = threading.Event()
    clock.at(4.0, event.set)
    assert clock.wait(event, 60)
    assert clock.now_s() == 4.0


def test_a_wait_ends_at_its_limit_without_the_event(clock: VirtualClock) -> None:
    assert not clock.wait(threading.Event(), 5.0)
    assert clock.now_s() == 5.0


def test_waiting_for_what_never_comes_is_a_mistake_and_no_hang(clock: VirtualClock) -> None:
    with pytest.raises(RuntimeError, match="waits for ever"):
        clock.wait(threading.Event())


def test_the_systems_clock_and_the_monotonic_one_name_the_same_moments() -> None:
    clock = MachineClock()
    clock.begin(time.monotonic_ns())
    assert clock.of_unix_s(time.time()) == pytest.approx(clock.now_s(), abs=1)


ROOT = Path(__file__).parents[2]
BULK = '[[workload]]\nkind = "bulk"\nduration = "10s"\n'


def plan(folder: Path, lab: str, path: str = "", workloads: str = BULK) -> Plan:
    file = folder / "s.toml"
    file.write_text(f"[lab]\n{lab}\n[path]\n{path}\n{workloads}")
    return read_plan(file)


def test_without_a_backend_the_hosts_are_emulated(tmp_path: Path) -> None:
    assert plan(tmp_path, "").treatments[0].lab == NamespacesLab()


def test_the_client_is_this_machine_by_default(tmp_path: Path) -> None:
    lab = plan(tmp_path, 'backend = "hosts"\nserver = "ssh://ada@server:2222"').treatments[0].lab
    assert lab == HostsLab("ssh://ada@server:2222", "local")


def test_a_treatment_cannot_change_the_hosts_by_a_wrong_key(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"lab\.sever: unknown key"):
        plan(tmp_path, 'sever = "ssh://x"')


@pytest.mark.parametrize(
    ("lab", "path", "workloads", "line"),
    [
        ('backend = "hosts"', "", BULK, r"lab\.server: is missing"),
        ('server = "ssh://x"', "", BULK, r'lab\.server: is for real hosts: remove it, or write backend = "hosts"'),
        ('backend = "hosts"\nserver = "x"', "", BULK, r"lab\.server: 'x' is not a host"),
        ('backend = "hosts"\nserver = "ssh://a:b@x"', "", BULK, r"lab\.server: has a password"),
        ('backend = "hosts"\nserver = "ssh://-oProxyCommand=x"', "", BULK, r"a name that is none of a host"),
        ('backend = "hosts"\nserver = "ssh://x:99999"', "", BULK, r"no port from 1 to 65535"),
        ('backend = "hosts"\nserver = "local"', "", BULK, r"lab\.server-address: is missing"),
        ('backend = "hosts"\nserver = "ssh://x"\nclient = "ssh://x"', "", BULK, r"lab\.client: is the server too"),
        ('backend = "hosts"\nserver = "ssh://x"\nserver-address = "x"', "", BULK, r"is not an IPv4 address"),
        ('backend = "hosts"\nserver = "ssh://x"', 'rate = "1mbit"', BULK, r"path: .*nothing is emulated"),
        ('backend = "hosts"\nserver = "ssh://x"', 'loss = "1%"', BULK, r"path: .*nothing is emulated"),
        (
            'backend = "hosts"\nserver = "ssh://x"',
            "",
            '[[workload]]\nkind = "web"\nsite = "google"\nnames = "resolver"\n',
            r'workload\.web: .*lacks a DNS server of its own: write names = "mapped"',
        ),
        (
            'backend = "hosts"\nserver = "ssh://x"',
            "",
            '[[workload]]\nkind = "command"\nrun = "nc {client} 1"\n',
            r"workload\.command: .*leave \{client\} out",
        ),
    ],
)
def test_what_does_not_fit_real_hosts_is_refused(
    tmp_path: Path, lab: str, path: str, workloads: str, line: str
) -> None:
    with pytest.raises(UserError, match=line):
        plan(tmp_path, lab, path, workloads)


def test_the_data_volume_is_estimated_from_the_expected_rate(tmp_path: Path) -> None:
    lab = 'backend = "hosts"\nserver = "ssh://x"\nexpected-rate = "100mbit"\ndata-limit = "200mb"'
    text = plan_text(plan(tmp_path, lab))
    assert "about 132mb of data, at most 200mb in each trial" in text


def test_without_an_expected_rate_there_is_no_estimate(tmp_path: Path) -> None:
    assert "data" not in plan_text(plan(tmp_path, 'backend = "hosts"\nserver = "ssh://x"'))


def test_the_shipped_design_of_bbr_5g_compares_cubic_and_bbr_over_real_hosts() -> None:
    shipped = read_plan(ROOT / "scenarios" / "real" / "bbr-5g.toml", overrides={"lab.server": "ssh://ada@server"})
    assert [treatment.name for treatment in shipped.treatments] == ["cubic", "bbr"]
    assert all(
        isinstance(treatment.lab, HostsLab) and treatment.lab.server == "ssh://ada@server"
        for treatment in shipped.treatments
    )
    assert shipped.trials == 3
    assert "of data, at most 3gb in each trial" in plan_text(shipped)


PORT = 20_000


def started(folder: Path, program: Program) -> tuple[MemoryHost, RunningServer]:
    host = MemoryLab({"nginx": program}).host("server")
    log = folder / "log"
    log.write_text("starting\nnot yet\n")
    return host, RunningServer("the server", host.start(["nginx"]), log)


def since(host: MemoryHost, began_s: float = MemoryLab({}).clock.monotonic_s()) -> float:
    return host.clock.monotonic_s() - began_s


def test_it_is_ready_when_its_port_is_open(tmp_path: Path) -> None:
    host, server = started(tmp_path, Program(None, ports=(PORT,), opens_s=7.0))
    server.wait_until_bound(host, PORT)
    assert since(host) == pytest.approx(7, abs=0.02)


def test_one_that_never_opens_its_port_is_ended(tmp_path: Path) -> None:
    host, server = started(tmp_path, Program(None, ports=(PORT + 1,)))
    with pytest.raises(WavebedError, match=r"the server does not open port 20000 within 10 s: not yet"):
        server.wait_until_bound(host, PORT)
    assert server.process.returncode == -15
    assert since(host) == pytest.approx(10, abs=0.5)


def test_one_that_ends_first_says_how(tmp_path: Path) -> None:
    host, server = started(tmp_path, Program(2.0, status=3))
    with pytest.raises(WavebedError, match="the server ended with 3: not yet"):
        server.wait_until_bound(host, PORT)
    assert since(host) == pytest.approx(2, abs=0.3)


def test_all_ports_of_a_web_server_are_waited_for_within_one_limit(tmp_path: Path) -> None:
    host, server = started(tmp_path, Program(None, ports=(PORT,), opens_s=6.0))
    server.wait_for_ports(host, [PORT])
    with pytest.raises(WavebedError, match="the server does not listen on port 20001: not yet"):
        server.wait_for_ports(host, [PORT, PORT + 1])
    assert since(host) == pytest.approx(16, abs=0.5)


def test_one_whose_port_another_program_has_and_that_ended_has_failed(tmp_path: Path) -> None:
    host, server = started(tmp_path, Program(0.0, status=1))
    host.ports.add(PORT)
    with pytest.raises(WavebedError, match="the server ended with 1: not yet"):
        server.wait_for_ports(host, [PORT])


NAME = f"play-{os.getpid()}"


class Play:
    """A laboratory that gives the same bytes to whatever it is asked."""

    def __init__(self, answer: bytes) -> None:
        self.asked: list[object] = []
        self.files: list[int] = []
        self._answer = answer
        self.client, self._socket = socket.socketpair()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        with self._socket as connection:
            data, self.files, _, _ = socket.recv_fds(connection, 1 << 16, 8)
            if data:
                self.asked.append(json.loads(data))
                connection.sendall(self._answer)

    def wait(self) -> None:
        """Wait until it has answered and gone."""
        self._thread.join(60)

    def close(self) -> None:
        self.client.close()
        self.wait()
        for file in self.files:
            os.close(file)


@pytest.fixture
def play() -> Iterator[list[Play]]:
    plays: list[Play] = []
    yield plays
    for each in plays:
        each.close()


def connect(play: list[Play], answer: bytes) -> ControlConnection:
    play.append(Play(answer))
    return ControlConnection(NAME, play[-1].client)


def test_an_answer_is_one_line(play: list[Play]) -> None:
    with connect(play, b'{"pid": 3}\n{"exit": 0}\n') as connection:
        assert connection.ask({"do": "run"}, [0, 1, 2]) == {"pid": 3}
        assert connection.answer(1) == {"exit": 0}
    play[0].wait()
    assert play[0].asked == [{"do": "run"}]
    assert len(play[0].files) == 3


def test_a_refusal_names_the_laboratory(play: list[Play]) -> None:
    with connect(play, b'{"error": "no such link"}\n') as connection, pytest.raises(UserError) as refusal:
        connection.ask({"do": "set"})
    assert str(refusal.value) == f"{NAME}: no such link"


def test_an_end_in_the_middle_is_said(play: list[Play]) -> None:
    with connect(play, b'{"half') as connection, pytest.raises(LaboratoryGoneError, match="has ended"):
        connection.ask({"do": "show"})


def test_a_laboratory_that_does_not_answer_hangs_and_its_owner_hears_of_it() -> None:
    ours, theirs = socket.socketpair()
    heard: list[str] = []
    with (
        theirs,
        ControlConnection(NAME, ours, 0.05, heard.append) as connection,
        pytest.raises(LaboratoryHungError, match=r"did not answer 'show' within 0\.05 s"),
    ):
        connection.ask({"do": "show"})
    ours, theirs = socket.socketpair()
    # What is sent waits no longer than what is received: nobody reads these 8 MB.
    with (
        theirs,
        ControlConnection(NAME, ours, 0.05, heard.append) as connection,
        pytest.raises(LaboratoryHungError, match="did not answer 'set'"),
    ):
        connection.ask({"do": "set", "value": "x" * (8 << 20)})
    assert len(heard) == 2


def test_a_late_answer_is_not_that_of_the_next_request() -> None:
    ours, theirs = socket.socketpair()
    with theirs, ControlConnection(NAME, ours) as connection:
        with pytest.raises(LaboratoryHungError, match="did not answer 'show'"):
            connection.ask({"do": "show"}, limit_s=0.01)
        with pytest.raises(BrokenPipeError):
            theirs.sendall(b'{"late": 1}\n')
        with pytest.raises(LaboratoryHungError, match="did not answer 'show'"):
            connection.ask({"do": "set"})


def test_an_answer_of_one_that_has_gone_since_still_counts(play: list[Play]) -> None:
    def send_and_wait_for_the_end(*arguments: object) -> int:
        sent = send_fds(*arguments)  # type: ignore[arg-type]
        play[0].wait()
        return sent

    send_fds = socket.send_fds
    with connect(play, b'{"pid": 3}\n') as connection, pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "send_fds", send_and_wait_for_the_end)
        assert connection.ask({"do": "run"}, [0]) == {"pid": 3}


def test_a_conversation_that_was_ended_here_says_that_the_laboratory_is_gone(play: list[Play]) -> None:
    connection = connect(play, b"")
    connection.close()
    with pytest.raises(LaboratoryGoneError):
        connection.answer(0.001)
