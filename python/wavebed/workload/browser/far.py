"""A browser on a host that is another machine, driven from here: nothing but the browser is needed there.

The program that drives it, `wavebed.workload.browser.agent`, runs here and starts as its browser
`wavebed.workload.browser.far`. That one hands its command line and the two pipes of Chromium's debugging protocol
to `FarBrowser`, which starts the browser on the host with them. What the protocol has to say goes over ssh.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from wavebed.errors import UserError, WavebedError
from wavebed.lab.confine import Confined, module_path
from wavebed.lab.protocol import Process

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.config.data import Json
    from wavebed.lab.protocol import Host


SOCKET = "WAVEBED_BROWSER"
"""Name of the variable with the path of the socket to which the stand-in connects."""

_LOOK_S = 0.05
_START_S = 30.0
_PIPES = 'exec 3<&0 4>&1 </dev/null >&2; exec "$@"'
"""For the shell on the host: its standard input and output become descriptors 3 and 4, where Chromium expects them."""
_MOST_BYTES = 1 << 20


class FarBrowser:
    """Starts a browser on a host for a program that runs here.

    Parameters
    ----------
    host : Host
        Another machine.
    read : sequence of pathlib.Path
        Files that the browser reads; they are sent there.

    Raises
    ------
    MachineError
        If it has no Chromium.
    """

    def __init__(self, host: Host, read: Sequence[Path]) -> None:
        self._host = host
        self._read = list(read)
        self._chromium = host.program("chromium")
        if self._read:
            # Copy the files now: over a slow connection this takes longer than the time limit of the browser's start.
            host.run(["true"], confined=Confined(read=self._read))
        # The browser makes its profile at the same path on the host, where only /tmp is certain.
        self._folder = Path(tempfile.mkdtemp(prefix="wavebed-browser-", dir="/tmp"))
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(self._folder / "socket"))
        self._server.listen()
        stand_in = self._folder / "chromium"
        stand_in.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m wavebed.workload.browser.far "$@"\n')
        stand_in.chmod(0o700)
        threading.Thread(target=self._serve, name=f"browser of {host.name}", daemon=True).start()

    def settings(self) -> dict[str, Json]:
        """Return what the program that drives it has to know."""
        return {"chromium": str(self._folder / "chromium"), "far": str(self._folder)}

    def start(self, argv: Sequence[str], told: int, says: int, log: IO[bytes]) -> Process:
        """Start that program, with these descriptors as its standard input and output."""
        paths, folder = os.pathsep.join(module_path()), str(self._folder)
        variables = {**os.environ, "PYTHONPATH": paths, "TMPDIR": folder, SOCKET: f"{folder}/socket"}
        # In a session of its own, so that Ctrl-C does not end it before the laboratory is closed.
        return _HereProcess(
            subprocess.Popen(argv, stdin=told, stdout=says, stderr=log, env=variables, start_new_session=True)
        )

    def close(self) -> None:
        """Take no further browser; the program that drives it has ended."""
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._server.accept()
                with connection:
                    self._run(connection)

    def _run(self, connection: socket.socket) -> None:
        """Run a browser until it or its stand-in ends."""
        said, descriptors = _received(connection)
        try:
            told, answers, errors = descriptors
            process = self._host.start(
                ["sh", "-c", _PIPES, "sh", self._chromium, *json.loads(said)],
                stdin=told,
                stdout=answers,
                stderr=errors,
                confined=Confined(read=self._read),
            )
        except (WavebedError, OSError, ValueError) as error:
            with suppress(OSError, IndexError):
                os.write(descriptors[2], f"{error}\n".encode())
            connection.sendall(b"1")
            return
        finally:
            for each in descriptors:
                os.close(each)
        with suppress(WavebedError):
            connection.sendall(str(_followed(process, connection)).encode())


def _received(connection: socket.socket) -> tuple[bytes, list[int]]:
    """Return the line of a stand-in, and the descriptors that came with it."""
    connection.settimeout(_START_S)
    said, descriptors, _, _ = socket.recv_fds(connection, 1 << 16, 3)
    while said and not said.endswith(b"\n") and len(said) < _MOST_BYTES and (more := connection.recv(1 << 16)):
        said += more
    return said, descriptors


def _followed(process: Process, connection: socket.socket) -> int:
    """Wait for a browser, which ends with its stand-in; return its exit status."""
    while True:
        try:
            return abs(process.wait(_LOOK_S))
        except subprocess.TimeoutExpired:
            if select.select([connection], [], [], 0)[0]:
                with suppress(UserError):
                    process.kill()
                return 1


class _HereProcess(Process):
    """A program on this machine, outside of the laboratory.

    Parameters
    ----------
    process : subprocess.Popen
        The program, which leads a process group.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit status; ``None`` while it runs."""
        self.returncode = self._process.poll()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit status."""
        self.returncode = self._process.wait(timeout)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal to it and its children."""
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    def kill(self) -> None:
        """Send SIGKILL to it and its children."""
        self.send_signal(9)

    def output(self) -> tuple[str | None, str | None]:
        """Wait for its end; its output went elsewhere."""
        self.wait()
        return None, None


_TOLD, _ANSWERS, _ERRORS = 3, 4, 2
"""Descriptors of Chromium's ``--remote-debugging-pipe``: what it reads and what it writes; and standard error."""


def main() -> int:
    """Hand over, wait for the browser's end, and return its exit status."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(os.environ[SOCKET])
        socket.send_fds(connection, [json.dumps(sys.argv[1:]).encode() + b"\n"], [_TOLD, _ANSWERS, _ERRORS])
        # Whoever drives the browser sees the end of the pipes when the browser itself closes them.
        for each in (_TOLD, _ANSWERS):
            os.close(each)
        return int(connection.recv(16) or b"1")


if __name__ == "__main__":
    sys.exit(main())
