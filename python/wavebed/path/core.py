"""Hand a laboratory to ``wavebed-core``: the laboratory file in memory, the patterns beside it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
from typing import TYPE_CHECKING

from wavebed._core import find_core
from wavebed.errors import UserError
from wavebed.lab.protocol import LIMITS, LaboratoryGoneError, Process
from wavebed.path.control import ControlConnection
from wavebed.path.launch import clean_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wavebed.lab.protocol import Limits


STOP_GRACE_S = 5.0


class Pump:
    """A thread that reads a pipe to its end, or writes one."""

    def __init__(self, descriptor: int, data: bytes | None = None) -> None:
        self._descriptor = descriptor
        self._chunks: list[bytes] = []
        work = self._read if data is None else lambda: self._write(data)
        self._thread = threading.Thread(target=work, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with open(self._descriptor, "rb", buffering=0) as pipe:  # noqa: PTH123 - a descriptor has no path
            while chunk := pipe.read(1 << 16):
                self._chunks.append(chunk)

    def _write(self, data: bytes) -> None:
        try:
            with open(self._descriptor, "wb", buffering=0) as pipe:  # noqa: PTH123 - a descriptor has no path
                view = memoryview(data)
                while view:
                    view = view[pipe.write(view) :]
        except BrokenPipeError:
            pass  # the program did not want all of it, which is its affair

    def result(self, limit_s: float | None = None) -> str:
        """Wait for the end of the pipe, `limit_s` seconds at most, and return what came out of it."""
        self._thread.join(limit_s)
        return b"".join(self._chunks).decode(errors="replace")


class LabProcess(Process):
    """A process that runs on a host, as `subprocess.Popen` is one that runs here. Several threads may wait for it.

    Parameters
    ----------
    connection : ControlConnection
        The conversation in which the process was started; its next answer says how it ended.
    pid : int
        Its number inside the laboratory.
    args : sequence of str
        Its command line.
    connect : callable
        Makes another connection to its laboratory.
    host_cpu_before_ns : str or None
        The host's processor time that all programs of its laboratory had used when it started, as
        `wavebed.lab.tools` writes it; ``None``: the kernel does not count it.
    """

    def __init__(
        self,
        connection: ControlConnection,
        pid: int,
        args: Sequence[str],
        connect: Callable[[], ControlConnection],
        host_cpu_before_ns: str | None = None,
    ) -> None:
        self._connection = connection
        self._connect = connect
        self.pid = pid
        self.args = list(args)
        self.returncode: int | None = None
        self.host_cpu_before_ns = host_cpu_before_ns
        self.host_cpu_ns: str | None = None
        """The host's processor time that it used, from its end on; ``None``: the kernel does not count it."""
        self._pumps: dict[str, Pump] = {}
        self._waiting = threading.Lock()

    def attach(self, pumps: dict[str, Pump]) -> None:
        """Keep the pumps of its pipes."""
        self._pumps = pumps

    def let_go(self) -> None:
        """End the conversation about it; for a laboratory that has ended."""
        self._connection.close()

    def poll(self) -> int | None:
        """Return the exit status, negative for a signal; ``None`` while it runs."""
        try:
            return self.wait(timeout=0.001)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit status, negative for a signal.

        Parameters
        ----------
        timeout : float, optional
            Seconds.

        Raises
        ------
        subprocess.TimeoutExpired
            If it still runs then.
        LaboratoryGoneError
            If the laboratory ended first.
        """
        # One thread takes the status from the connection and closes it; the others take the status from here.
        if not self._waiting.acquire(timeout=-1 if timeout is None else timeout):
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        try:
            if self.returncode is None:
                self.returncode = self._status(timeout)
                self._connection.close()
            return self.returncode
        finally:
            self._waiting.release()

    def _status(self, timeout: float | None) -> int:
        """Wait for the exit status and return it; the caller holds the lock."""
        try:
            answer = self._connection.answer(timeout)
        except TimeoutError:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0) from None
        status, host_cpu_ns = answer.get("exit"), answer.get("host_cpu_ns")
        self.host_cpu_ns = host_cpu_ns if isinstance(host_cpu_ns, str) else None
        assert isinstance(status, int), "the answer to a run is its exit status"
        return status

    def output(self) -> tuple[str | None, str | None]:
        """Return the captured standard output and standard error; ``None`` for a stream that was not captured."""
        results = {name: pump.result() for name, pump in self._pumps.items()}
        return results.get("stdout"), results.get("stderr")

    def send_signal(self, number: int) -> None:
        """Send a signal, if it still runs."""
        if self.poll() is not None:
            return
        try:
            with self._connect() as connection:
                connection.ask({"do": "kill", "pid": self.pid, "signal": int(number)})
        except LaboratoryGoneError:
            return
        except UserError:
            # It may have ended since it was looked at; the news is on its way.
            try:
                self.wait(LIMITS.answer_s)
            except subprocess.TimeoutExpired:
                pass
            else:
                return
            raise

    def terminate(self, grace_s: float = STOP_GRACE_S) -> int:
        """End it: SIGTERM, and SIGKILL if it is still there after `grace_s` seconds. Return the exit status."""
        self.send_signal(signal.SIGTERM)
        try:
            return self.wait(grace_s)
        except subprocess.TimeoutExpired:
            self.kill()
            return self.wait(LIMITS.answer_s)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)


def pipe_or(given: int | None, mode: str) -> tuple[int, int | None]:
    """Return the descriptor for the process and, for ``subprocess.PIPE``, our end of the pipe."""
    if given == subprocess.PIPE:
        reading, writing = os.pipe2(os.O_CLOEXEC)
        return (writing, reading) if mode == "r" else (reading, writing)
    if given == subprocess.DEVNULL:
        return os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC), None
    if given is None or given < 0:
        raise UserError(f"{given!r} is no descriptor: give a file, a descriptor, PIPE or DEVNULL")
    return os.dup(given), None


class Core:
    """``wavebed-core lab``, which ends with this process at the latest.

    Parameters
    ----------
    name : str
        The laboratory's name.
    file : int
        The descriptor of the laboratory file.
    descriptors : sequence of int
        What it inherits beside that.
    """

    def __init__(self, name: str, file: int, descriptors: Sequence[int], limits: Limits) -> None:
        self.name = name
        self.problem = ""
        self._limits = limits
        # Connections travel over this channel. However this process ends, its end closes, and the laboratory with it.
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._process = subprocess.Popen(
                [find_core(), "lab", f"/proc/self/fd/{file}", "--control", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=clean_environment(os.environ),
                pass_fds=[theirs.fileno(), file, *descriptors],
                start_new_session=True,
            )
        except BaseException:
            self._channel.close()
            raise
        finally:
            theirs.close()
        self._channel.settimeout(limits.answer_s)
        assert self._process.stderr is not None, "it was asked for"
        self._messages = Pump(os.dup(self._process.stderr.fileno()))
        self._process.stderr.close()

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    def is_alive(self) -> bool:
        """Return whether it still runs."""
        return self._process.poll() is None

    def connect(self) -> ControlConnection:
        """Return a new connection to the laboratory.

        Raises
        ------
        LaboratoryGoneError
            If it has ended.
        """
        if self.problem:  # it was killed: its end takes a moment
            raise LaboratoryGoneError(self.problem)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            socket.send_fds(self._channel, [b"C"], [theirs.fileno()])
        except OSError as error:
            ours.close()
            # One that takes no more connections is killed like one that does not answer. One that has closed its
            # channel is about to end, and must keep its exit status.
            told = f"laboratory {self.name!r} has ended"
            if isinstance(error, TimeoutError):
                told = f"laboratory {self.name!r} hangs: it takes no connection"
                self.kill(told)
            raise LaboratoryGoneError(told) from None
        finally:
            theirs.close()
        return ControlConnection(self.name, ours, self._limits.answer_s, self.kill)

    def kill(self, why: str = "") -> None:
        """End it at once, whatever hangs inside; the kernel ends the rest."""
        self.problem = self.problem or why
        self._process.kill()

    def wait(self, limit_s: float) -> int | None:
        """Wait for its end; return the exit status, or ``None`` if it still runs."""
        try:
            return self._process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return None

    def end(self, limit_s: float) -> None:
        """Let go of it; kill it if it is not gone after `limit_s`. One that the kernel then keeps is a problem."""
        try:
            self._channel.close()
            if self.wait(limit_s) is None:
                self.kill()
        finally:
            if self.is_alive():
                self._process.kill()
            killed_s = self._limits.killed_s
            if self.wait(killed_s) is None:
                self.problem = self.problem or f"laboratory {self.name!r} was killed, and stays for {killed_s:g} s"

    def messages(self) -> str:
        """Return what it printed, once it has ended."""
        return self._messages.result(self._limits.killed_s)
