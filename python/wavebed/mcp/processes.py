"""Processes of the server: each in a session of its own, bounded in time and output, and ended with the server.

``python -m wavebed.mcp.processes DESCRIPTOR MODULE ARGUMENT…`` runs a module that ends with its owner. The descriptor
is the reading end of a pipe whose other end only the owner holds. When it closes, however the owner ended, the module's
process gets SIGTERM, as at Ctrl-C, and soon after the whole process group SIGKILL. SIGTERM goes on to the module.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

MOST_OUTPUT_BYTES = 4 << 20
"""Larger answers help no agent."""
POLL_S = 0.05
UNKNOWN = 255
"""The exit status of a process that other code reaped."""
_LOOK_ONLY = os.WEXITED | os.WNOHANG | os.WNOWAIT
GRACE_S = 1.5
"""From SIGTERM to SIGKILL: a client gives its server two seconds to end."""


class ToolError(Exception):
    """A tool cannot do what was asked: one line."""


class Ended:
    """The outcome of a process.

    Parameters
    ----------
    status : int
        Its exit status.
    out, err : str
        What it wrote.
    cut : bool
        Whether it wrote more to standard output than is kept.
    """

    def __init__(self, status: int, out: bytes, err: bytes) -> None:
        self.status = status
        self.cut = len(out) > MOST_OUTPUT_BYTES
        self.out = out[:MOST_OUTPUT_BYTES].decode(errors="replace")
        self.err = err[-MOST_OUTPUT_BYTES:].decode(errors="replace")

    @property
    def reason(self) -> str:
        """The last line of standard error: the message of a command that failed."""
        lines = [line for line in self.err.splitlines() if line.strip()]
        return lines[-1] if lines else f"it ended with status {self.status}"


class Child:
    """A running process. Several threads may wait for it and stop it.

    Only `stop` reaps it. Until then its number stays its own, and so does the number of its session.

    Parameters
    ----------
    module : str
        The module that it runs.
    arguments : sequence of str
        Its arguments.
    folder : pathlib.Path
        Its working directory.
    """

    def __init__(self, module: str, arguments: Sequence[str], folder: Path) -> None:
        import tempfile  # the process that owns the module needs none

        self._out = tempfile.TemporaryFile()  # noqa: SIM115 - `close` closes them
        self._err = tempfile.TemporaryFile()  # noqa: SIM115
        self._watched, self._alive = os.pipe2(os.O_CLOEXEC)
        self._reaping = threading.Lock()
        command = [sys.executable, "-P", "-m", "wavebed.mcp.processes", str(self._watched), module, *arguments]
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=self._out,
                stderr=self._err,
                cwd=folder,
                start_new_session=True,
                pass_fds=(self._watched,),
            )
        except BaseException:
            os.close(self._alive)
            self._out.close()
            self._err.close()
            raise
        finally:
            os.close(self._watched)

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        with self._reaping:
            return self._runs()

    def _runs(self) -> bool:
        """Return whether it has not ended, without reaping it; the caller holds the lock."""
        if self._is_reaped():
            return False
        try:
            return os.waitid(os.P_PID, self._process.pid, _LOOK_ONLY) is None  # Popen.poll would reap it
        except ChildProcessError:
            # Other code of this process reaped it. Its number may be another's now, which nothing may signal.
            self._process.returncode = UNKNOWN
            return False

    def _is_reaped(self) -> bool:
        return self._process.returncode is not None

    def wait(self, most_s: float, wanted: Callable[[], bool] = lambda: True) -> bool:
        """Wait until it has ended, at most `most_s` and while it is `wanted`; return whether it has ended."""
        until_s = time.monotonic() + most_s
        while self.runs and time.monotonic() < until_s and wanted():
            time.sleep(POLL_S)
        return not self.runs

    def stop(self) -> None:
        """End it and all processes of its session: first by SIGTERM, then by SIGKILL."""
        with self._reaping:
            if self._runs():
                os.kill(self._process.pid, signal.SIGTERM)  # Popen.terminate would reap it
        self.wait(GRACE_S)
        with self._reaping:
            self._runs()  # notes whether other code has reaped it since
            if not self._is_reaped():
                with suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()

    def close(self) -> Ended:
        """Return what became of it; it must have ended, or been stopped."""
        os.close(self._alive)
        parts = []
        for file in (self._out, self._err):
            file.seek(0)
            parts.append(file.read(MOST_OUTPUT_BYTES + 1))
            file.close()
        return Ended(self._process.returncode, *parts)


def _main() -> int:
    descriptor, module, *arguments = sys.argv[1:]
    process = subprocess.Popen([sys.executable, "-P", "-m", module, *arguments])
    signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    left_alone = threading.Event()

    def watch() -> None:
        while os.read(int(descriptor), 1):
            pass
        left_alone.set()
        process.terminate()
        time.sleep(GRACE_S)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, name="owner", daemon=True).start()
    status = process.wait()
    if left_alone.is_set():
        os.killpg(0, signal.SIGKILL)
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(_main())
