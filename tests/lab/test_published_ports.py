"""Ports of a laboratory on this machine, HTTPS inside, and a suite of Playwright that drives browsers on both hosts."""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.reached import content

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
PATIENCE_S = 240
SERVE = f"exec {shlex.quote(sys.executable)} -m http.server 3000"
PLAYWRIGHT = f"exec {shlex.quote(sys.executable)} -m playwright run-server --unsafe --port"


def free_ports(count: int) -> list[int]:
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in taken]
    for each in taken:
        each.close()
    return ports


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "wavebed", "shell", *arguments]


def environment(**more: str) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)} | more


@contextmanager
def running(*arguments: str, cwd: Path) -> Iterator[subprocess.Popen[str]]:
    """Run a laboratory whose command ends with its standard input, so also when this process is killed."""
    argv = command(*arguments)
    with subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env=environment(),
    ) as lab:
        try:
            yield lab
        finally:
            assert lab.stdin is not None
            lab.stdin.close()
            lab.wait(PATIENCE_S)


def wait_for_port(port: int) -> None:
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            assert time.monotonic() < end, port
            time.sleep(0.05)
        else:
            return


def test_a_published_port_leads_past_the_path_to_the_host_and_ends_with_the_laboratory(tmp_path: Path) -> None:
    (tmp_path / "name").write_text("server")
    (port,) = free_ports(1)
    summary = tmp_path / "summary.json"
    with running(
        "--rate", "1mbit", "--publish", f"{port}:server:3000", "--server", SERVE, "--summary", str(summary),
        "--", "cat", cwd=tmp_path,
    ):  # fmt: skip
        assert content(f"http://127.0.0.1:{port}/name", PATIENCE_S) == b"server"
    links = json.loads(summary.read_text())["links"]
    assert [link["delivered_segments"] for link in links] == [0, 0], "nothing of it took the path"
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", port))


def test_a_port_that_is_taken_ends_the_command_with_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run(
            command("--publish", f"{port}:client:80", "--", "true"), capture_output=True, text=True, env=environment(),
            check=False,
        )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith(f"wavebed: --publish: port {port} of 127.0.0.1: address already in use: name another")


PROGRAMS = {
    "curl": "curl -sS https://server/name",
    "python": f"{shlex.quote(sys.executable)} -c 'import urllib.request as u; print(u.urlopen(\"https://server/name\").read().decode())'",
    "node": "node -e 'fetch(\"https://server/name\").then(a => a.text()).then(console.log)'",
}


def test_programs_trust_https_of_the_server(tmp_path: Path) -> None:
    (tmp_path / "name").write_text("secret")
    every = "; ".join(f"echo $({program})" for program in PROGRAMS.values())
    done = subprocess.run(
        command("--https", "3000", "--server", SERVE, "--", "sh", "-c", every),
        capture_output=True, text=True, cwd=tmp_path, env=environment(), check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.stdout.splitlines() == ["secret"] * len(PROGRAMS), done.stderr


def test_browsers_of_a_suite_outside_call_each_other_through_the_path(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<!doctype html><title>call</title>")
    near, far = free_ports(2)
    summary = tmp_path / "summary.json"
    arguments = [
        "--delay", "30ms", "--rate", "20mbit", "--https", "3000", "--summary", str(summary),
        "--publish", f"{near}", "--publish", f"{far}:server:{far}",
        "--server", SERVE, "--server", f"{PLAYWRIGHT} {far}", "--", "sh", "-c", f"({PLAYWRIGHT} {near}) & exec cat",
    ]  # fmt: skip
    endpoints = [f"ws://127.0.0.1:{port}/" for port in (near, far)]
    with running(*arguments, cwd=tmp_path):
        for port in (near, far):
            wait_for_port(port)
        argv = [sys.executable, str(HERE / "call_suite.py"), *endpoints]
        done = subprocess.run(argv, capture_output=True, text=True, env=environment(), check=False, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert not found["plain"], "the reason for HTTPS"
    assert found["secure"] == [True, True]
    assert found["round_trip_s"] > 0.058, "the path adds 30 ms in each direction; Chromium rounds its times to 1 ms"
    links = json.loads(summary.read_text())["links"]
    assert min(link["delivered_segments"] for link in links) > 20
