"""The processors of a router that ssh reaches: OpenWrt or any Linux, over one connection that stays open."""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import tempfile
import time
from typing import TYPE_CHECKING

from wavebed.errors import MachineError, WavebedError
from wavebed.forward.cpu.model import LIMIT_S, CpuMeter, Reading
from wavebed.forward.cpu.proc import reading

if TYPE_CHECKING:
    from typing import IO

__all__ = ["SshMeter"]

_END_S = 0.5
"""For its last words, within the limit."""
_MOST_BYTES = 4 << 20
_LOOP = (
    "while read -r n; do for f in uptime stat softirqs net/softnet_stat; do"
    ' echo "=wavebed $f"; cat /proc/$f 2>/dev/null; done; echo "=wavebed end $n"; done'
)
"""For the smallest of shells (busybox ash): each line that it reads makes it write the four files."""


class SshMeter(CpuMeter):
    """Reads /proc of another machine by the program ``ssh``, which must come in without a password.

    Parameters
    ----------
    host : str
        Name or address.
    user : str, optional
    port : int, optional
    """

    def __init__(self, host: str, user: str | None = None, port: int | None = None) -> None:
        super().__init__(
            f"ssh://{f'{user}@' if user else ''}{f'[{host}]' if ':' in host else host}{f':{port}' if port else ''}"
        )
        # OpenSSH's own way to answer nothing and to give up: ssh_config(5).
        self._command = ["ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=4", "-o", "ServerAliveInterval=2"]
        self._command += ["-o", "ServerAliveCountMax=3", *(["-l", user] if user else [])]
        self._command += [*(["-p", str(port)] if port else []), "--", host, _LOOP]
        self._process: subprocess.Popen[bytes] | None = None
        self._said: IO[bytes] | None = None
        self._asked = 0
        self._rest = b""

    def read(self) -> Reading:
        """Read the counters now.

        Raises
        ------
        MachineError
            If there is no ``ssh``.
        WavebedError
            If the router does not answer.
        """
        process = self._open()
        self._asked += 1
        assert process.stdin is not None
        try:
            process.stdin.write(f"{self._asked}\n".encode())
            process.stdin.flush()
        except OSError:
            raise self._failed() from None
        parts = self._parts(self._answer(process, f"=wavebed end {self._asked}\n".encode()))
        uptime = parts.get("uptime", "").split()
        try:
            at_s = float(uptime[0])
        except (IndexError, ValueError):
            raise WavebedError(f"--cpu {self.source}: it has no /proc/uptime: only Linux is read by ssh") from None
        try:
            return reading(at_s, parts.get("stat", ""), parts.get("softirqs", ""), parts.get("net/softnet_stat", ""))
        except WavebedError as error:
            raise WavebedError(f"--cpu {self.source}: {error}") from None

    def close(self) -> None:
        """End the connection."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        for stream in (process.stdin, process.stdout, self._said):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        process.wait()

    def _open(self) -> subprocess.Popen[bytes]:
        if self._process is not None:
            return self._process
        self._rest = b""
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        try:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said, start_new_session=True
            )
        except OSError:
            self._said.close()
            raise MachineError(f"--cpu {self.source}: there is no program ssh: install openssh-client") from None
        return self._process

    def _answer(self, process: subprocess.Popen[bytes], end: bytes) -> bytes:
        assert process.stdout is not None
        deadline = time.monotonic() + LIMIT_S - _END_S
        text = self._rest
        with selectors.DefaultSelector() as ready:
            ready.register(process.stdout, selectors.EVENT_READ)
            while end not in text:
                if not ready.select(max(0.0, deadline - time.monotonic())):  # what has come by then is read
                    self.close()
                    raise WavebedError(f"--cpu {self.source}: no answer within {LIMIT_S:.0f} s")
                more = os.read(process.stdout.fileno(), 1 << 16)
                text += more
                if not more or len(text) > _MOST_BYTES:
                    raise self._failed()
        answer, _, self._rest = text.partition(end)
        return answer

    def _failed(self) -> WavebedError:
        said = ""
        if self._process is not None and self._said is not None:
            try:
                self._process.wait(_END_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._said.seek(0)
            lines = self._said.read(1 << 16).decode("utf-8", "replace").strip().splitlines()
            said = lines[-1] if lines else ""
        self.close()
        remedy = "try: ssh -o BatchMode=yes, by hand; it must come in with a key, without a question"
        return WavebedError(f"--cpu {self.source}: ssh ended: {said or 'it said nothing'} ({remedy})")

    @staticmethod
    def _parts(answer: bytes) -> dict[str, str]:
        parts: dict[str, list[str]] = {}
        name = ""
        for line in answer.decode("ascii", "replace").splitlines():
            if line.startswith("=wavebed "):
                name = line.removeprefix("=wavebed ")
            elif name:
                parts.setdefault(name, []).append(line)
        return {name: "\n".join(lines) for name, lines in parts.items()}
