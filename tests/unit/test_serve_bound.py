"""A server is waited for until its port is open, and ended if it never is."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from wavebed.errors import WavebedError
from wavebed.workload.serve import RunningServer
from wavebed.workload.serve import model as module

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


class Process:
    """A program that runs until it gets a signal."""

    def __init__(self, status: int | None = None) -> None:
        self.returncode = status

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float) -> int:
        if self.returncode is None:
            raise subprocess.TimeoutExpired("server", timeout)
        return self.returncode

    def send_signal(self, number: int) -> None:
        self.returncode = -number


def host(*tables: str) -> Any:
    """Return a host whose sockets are first these, then those; the last stay."""
    left = list(tables)
    return cast(
        "Any",
        SimpleNamespace(
            run=lambda *_, **__: SimpleNamespace(stdout=HEAD + (left.pop(0) if len(left) > 1 else left[0]))
        ),
    )


def server(folder: Path, process: Process) -> RunningServer:
    log = folder / "log"
    log.write_text("starting\nnot yet\n")
    return RunningServer("the server", cast("Any", process), log)


@pytest.mark.parametrize(
    "row", ["   0: 00000000:4E20 00000000:0000 0A 0", "   0: 00000000:4E20 00000000:0000 07 0"], ids=["tcp", "udp"]
)
def test_it_is_ready_when_its_port_is_open(tmp_path: Path, row: str) -> None:
    server(tmp_path, Process()).wait_until_bound(host("", row), 20000)


def test_a_connection_to_such_a_port_elsewhere_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "START_TIMEOUT_S", 0.05)
    process = Process()
    row = "   0: 00000000:8000 00000000:4E20 01 0\n   1: 00000000:4E20 0100007F:9000 01 0"
    with pytest.raises(WavebedError, match=r"the server does not open port 20000 within 0.05 s: not yet"):
        server(tmp_path, process).wait_until_bound(host(row), 20000)
    assert process.returncode == -15


def test_one_that_ends_first_says_how(tmp_path: Path) -> None:
    with pytest.raises(WavebedError, match="the server ended with 3: not yet"):
        server(tmp_path, Process(3)).wait_until_bound(host(""), 20000)
