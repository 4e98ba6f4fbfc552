"""`wavebed check` over real laboratories: outcomes, exit statuses and measured values.

A check is inconclusive where the machine was late: these tests accept that word of trials that were late.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import shlex
import socket
import subprocess
import sys
import tempfile
import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.on_time import LATE

from wavebed.cli import main

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PATH = ("--rate", "20mbit", "--delay", "20ms", "--attempts", "2")
BUSY = LATE | {"processors", "samplers", "stolen", "stopped", "traffic"}
"""Codes of the checks that a busy machine fails, and of a command that sent nothing."""
BESIDE = {"backlogged"}
"""A late engine delivers less in a window of 200 ms; that counts as lateness only beside a code of `BUSY`."""


def check(folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    """Run a check; return its exit status and what it printed."""
    status = main(["check", *PATH, "-o", str(folder / "run"), "--json", *words])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return status, found


def assert_outcome(outcome: str, status: int, found: dict[str, Any], folder: Path) -> list[str]:
    """Fail unless a check had an outcome, or a busy machine left it open; return the reasons of all trials."""
    trials = [json.loads(file.read_text()) for file in (folder / "run").glob("trials/*/trial.json")]
    if found["outcome"] == "inconclusive":
        assert status == 3
        failed = {each["code"] for trial in trials for each in trial["checks"] if not each["holds"]}
        assert failed & BUSY, found
        assert failed <= BUSY | BESIDE, found
    else:
        assert (status, found["outcome"]) == ({"pass": 0, "fail": 1}[outcome], outcome), found
    return [reason for trial in trials for reason in trial["reasons"]]


def values(requirement: dict[str, Any]) -> list[float]:
    """Return the measured values of a requirement."""
    return [each["value"] for each in requirement["values"]]


def test_numbers_that_a_command_prints_are_decided_over_the_seeds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--seeds", "2", "--server", "exec python3 -m http.server {port}", "--server", "exec sleep 100"]
    words += ["--require", "connect every > 38 ms", "--require", "connect p50 < 60 s"]
    words += ["--require", "path.tcp rtt max max > 38 ms", "--require", "path.dropped down max <= 0 segments"]
    curl = ["curl", "-sSf", "-o", "/dev/null", "-w", "connect = %{time_connect} s\n", "http://{server}:{port}/"]
    status, found = check(tmp_path, capsys, *words, "--", *curl)
    assert_outcome("pass", status, found, tmp_path)
    every = found["requirements"][1]
    if status == 0:
        assert [len(each["values"]) for each in found["requirements"]] == [0, 2, 2, 2, 2]
        assert every["unit"] == "s"
    # One round trip of 40 ms at least, however late the machine is.
    assert all(value > 0.038 for value in values(every))


@pytest.mark.parametrize("family", [4, 6])
def test_the_family_of_the_packets_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str], family: int) -> None:
    check(tmp_path, capsys, "--seeds", "1", "--", "ping", f"-{family}", "-c", "1", "server")
    trials = [json.loads(file.read_text()) for file in (tmp_path / "run").glob("trials/*/trial.json")]
    evidence = {each["evidence"] for trial in trials for each in trial["checks"] if each["code"] == "traffic"}
    assert evidence == {f"2 segments entered the links, all of IPv{family}"}


def test_a_command_that_sends_nothing_decides_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, found = check(tmp_path, capsys, "--seeds", "1", "--require", "wall time p50 < 60 s", "--", "true")
    assert (status, found["outcome"]) == (3, "inconclusive")
    trials = list((tmp_path / "run").glob("trials/*/trial.json"))
    checks = [each for trial in trials for each in json.loads(trial.read_text())["checks"] if each["code"] == "traffic"]
    assert len(checks) == len(trials) > 0
    assert all(each["evidence"].startswith("no packet entered the links: the programs sent none") for each in checks)


_ASK = """
import socket, sys
client = socket.socket(socket.AF_UNIX)
try:
    client.connect(sys.argv[1])
    client.sendall(b"?")
    print("answer =", len(client.recv(9)))
except ConnectionRefusedError:
    print("answer = 0")
"""


@pytest.fixture
def outside() -> Iterator[str]:
    """Return the name of a socket at which a program outside of the laboratory answers."""
    with tempfile.TemporaryDirectory(prefix="wavebed out ") as folder, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{folder}/a socket")
        listener.listen()

        def answer() -> None:
            with contextlib.suppress(OSError):
                while True:
                    here, _ = listener.accept()
                    here.sendall(here.recv(9))
                    here.close()

        threading.Thread(target=answer, daemon=True).start()
        yield listener.getsockname()
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(("words", "answer"), [((), 0), (("--outside-sockets", "open"), 1)])
def test_a_socket_of_a_program_outside_is_closed_or_no_evidence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], outside: str, words: tuple[str, ...], answer: int
) -> None:
    ask = [sys.executable, "-c", _ASK, outside]
    status, found = check(tmp_path, capsys, *words, "--seeds", "1", "--require", "answer every >= 0", "--", *ask)
    assert (status, found["outcome"]) == (3, "inconclusive")
    assert set(values(found["requirements"][-1])) == {answer}
    for file in (tmp_path / "run").glob("trials/*/trial.json"):
        said = [each["evidence"] for each in json.loads(file.read_text())["checks"] if each["code"] == "traffic"]
        closed = "sockets of programs outside that were closed to them: "
        reason = f"a program connected to {outside}, a socket outside" if answer else closed
        assert len(said) == 1
        assert reason in said[0]


@pytest.mark.parametrize(("words", "answer"), [((), "answer = 1"), (("--outside-sockets", "closed"), "answer = 0")])
def test_a_shell_warns_of_a_socket_outside_in_one_line(outside: str, words: tuple[str, ...], answer: str) -> None:
    ask = [sys.executable, "-c", _ASK, outside]
    command = [sys.executable, "-m", "wavebed", "shell", "--delay", "20ms", *words, "--", *ask]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == answer
    said = f"a program connected to {outside}, a socket outside the laboratory: "
    warnings = [line for line in done.stderr.splitlines() if said in line]
    assert len(warnings) == (answer == "answer = 1")


def test_a_command_that_sends_to_nowhere_alone_decides_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    send = "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 9))"
    words = ["--seeds", "1", "--require", "wall time p50 < 60 s", "--", sys.executable, "-c", send]
    status, found = check(tmp_path, capsys, *words)
    assert (status, found["outcome"]) == (3, "inconclusive")
    trials = [json.loads(file.read_text()) for file in (tmp_path / "run").glob("trials/*/trial.json")]
    evidence = {each["evidence"] for trial in trials for each in trial["checks"] if each["code"] == "traffic"}
    # Sockets of the machine's own services may be counted behind it.
    said = "no packet entered the links but 1 to addresses that no host has"
    assert {each.split(";")[0] for each in evidence} == {said}


_DAEMON = """
import os, pathlib, signal, sys, time
file = pathlib.Path(sys.argv[1])
if os.fork():
    time.sleep(1000)
os.setsid()
signal.signal(signal.SIGTERM, lambda *_: sys.exit(file.unlink()))
os.close(os.open(file, os.O_CREAT | os.O_EXCL))
import socket
here = socket.create_server(("", int(sys.argv[2])))
while True:
    here.accept()
"""


def test_a_daemon_leaves_nothing_to_the_next_seed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # As conmon and dockerd: a process of another session, with a name or a number in a file that must not be there.
    (tmp_path / "daemon.py").write_text(_DAEMON)
    line = shlex.join([sys.executable, str(tmp_path / "daemon.py"), str(tmp_path / "daemon.pid")])
    words = [
        "--seeds",
        "3",
        "--grace",
        "60s",
        "--require",
        "exit status every = 0",
        "--server",
        f"exec {line} {{port}}",
    ]
    connect = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])))"
    status, found = check(tmp_path, capsys, *words, "--", sys.executable, "-c", connect, "{server}", "{port}")
    assert_outcome("pass", status, found, tmp_path)
    assert not (tmp_path / "daemon.pid").exists()


_SINK = """
import socket, sys
with socket.create_server(("", int(sys.argv[1]))) as here:
    there, _ = here.accept()
    print(sum(map(len, iter(lambda: there.recv(65536), b""))), flush=True)
"""
_SOURCE = """
import socket, sys
socket.create_connection((sys.argv[1], int(sys.argv[2]))).sendall(bytes(300_000))
"""
_COUNT = """
import signal, socket, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(print(len(got), flush=True)))
got, here = [], socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
here.bind(("", int(sys.argv[1])))
while True:
    got.append(here.recv(99))
"""
_DATAGRAMS = """
import socket, sys
here = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(10):
    here.sendto(b"one", (sys.argv[1], int(sys.argv[2])))
"""


@pytest.mark.parametrize(("server", "client", "counted"), [(_SINK, _SOURCE, 300_000), (_COUNT, _DATAGRAMS, 10)])
def test_the_last_bytes_arrive_after_the_command_has_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], server: str, client: str, counted: int
) -> None:
    words = ["--seeds", "1", "--drain", "60s", "--grace", "60s", "--require", "delivery time every > 20 ms"]
    (tmp_path / "server.py").write_text(server)
    words += ["--server", f"exec {shlex.join([sys.executable, str(tmp_path / 'server.py')])} {{port}}"]
    status, found = check(tmp_path, capsys, *words, "--", sys.executable, "-c", client, "{server}", "{port}")
    assert_outcome("pass", status, found, tmp_path)
    for said in (tmp_path / "run").glob("trials/*/raw/command/server.out.gz"):
        assert gzip.decompress(said.read_bytes()).decode().split() == [str(counted)]


def test_a_command_that_fails_fails_the_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--seeds", "1", "--server", "exec sleep 100", "--", "curl", "-sS", "http://{server}:81/"]
    status, found = check(tmp_path, capsys, *words)
    reasons = assert_outcome("fail", status, found, tmp_path)
    assert "command: curl ended with 7: " in "\n".join(reasons)
    assert status == 3 or "command: curl ended with 7: " in found["requirements"][0]["reasons"][0]


def test_a_command_waits_for_a_server_that_starts_late(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server = f"sleep 1; exec {shlex.quote(sys.executable)} -m http.server 8000"
    words = ["--seeds", "1", "--server", server, "--", "curl", "-sSf", "-o", "/dev/null", "http://{server}:8000/"]
    status, found = check(tmp_path, capsys, *words)
    assert_outcome("pass", status, found, tmp_path)


def test_a_server_that_ends_fails_the_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--seeds", "1", "--server", "echo no licence >&2; exit 4", "--wait-for-port", "80", "--", "true"]
    status, found = check(tmp_path, capsys, *words)
    reasons = assert_outcome("fail", status, found, tmp_path)
    assert "no licence" in "\n".join(reasons)
    assert status == 3 or "no licence" in found["requirements"][0]["reasons"][0]
