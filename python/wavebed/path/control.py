"""Speak with a running laboratory: JSON lines over a stream socket.

The owner of a laboratory makes each connection as a pair of sockets and sends one end over a channel that
``wavebed-core`` inherited (`wavebed.path.core`): no name is involved, so nobody can come between. Other terminals find
a laboratory by the name of its abstract socket. Anybody may bind any name, so both ends ask the kernel who the other
one is: the laboratory serves its owner's user and root, and a client speaks only with a listener of the user in the
name.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, cast

from wavebed._core import find_core
from wavebed.errors import MachineError, UserError
from wavebed.lab.errors import LaboratoryGoneError, LaboratoryHungError
from wavebed.lab.limits import LIMITS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from wavebed.config.data import Json

__all__ = ["Connection", "Running", "connect_to", "running"]


@dataclass(frozen=True, slots=True)
class Running:
    """A running laboratory: its name, the number of its user, the abstract name of its socket."""

    name: str
    uid: int
    socket: str


def running() -> list[Running]:
    """Return the running laboratories of this user, or for root everybody's; nobody else can pretend to be one.

    Raises
    ------
    MachineError
        If they cannot be listed.
    """
    arguments = [find_core(), "list", "--json"]
    try:
        done = subprocess.run(
            arguments, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=LIMITS.answer_s
        )
    except subprocess.TimeoutExpired:
        raise MachineError(f"wavebed-core list did not end within {LIMITS.answer_s:g} s") from None
    if done.returncode != 0:
        told = done.stderr.decode(errors="replace").strip()
        raise MachineError(told or f"wavebed-core list ended with {done.returncode}")
    return [Running(lab["name"], lab["uid"], lab["socket"]) for lab in json.loads(done.stdout)["laboratories"]]


def connect_to(name: str) -> Connection:
    """Return a connection to the laboratory called `name`: this user's, or for root the only one of that name.

    Raises
    ------
    UserError
        If there is none, or more than one.
    """
    found = [lab for lab in running() if lab.name == name]
    mine = [lab for lab in found if lab.uid == os.geteuid()] or found
    if len(mine) > 1:
        users = ", ".join(str(lab.uid) for lab in mine)
        raise UserError(f"{name!r}: the users {users} run laboratories of this name: run `wavebed ctl` as one of them")
    stream = _connected(mine[0]) if mine else None
    if stream is None:
        raise UserError(f"{name!r} is no running laboratory: `wavebed ctl` lists those that are")
    return Connection(name, stream)


def _connected(lab: Running) -> socket.socket | None:
    """Return a stream to the laboratory, if it is its user who listens."""
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        stream.connect(f"\0{lab.socket}")
        if _peer_uid(stream) == lab.uid:
            return stream
    except OSError:
        pass
    stream.close()
    return None


def _peer_uid(stream: socket.socket) -> int:
    credentials = stream.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    uid: int = struct.unpack("3i", credentials)[1]
    return uid


class Connection:
    """One conversation with a laboratory.

    Parameters
    ----------
    name : str
        The laboratory's name.
    stream : socket
        To the laboratory; the connection owns it.
    answer_s : float
        How long an answer may take, seconds.
    hung : callable, optional
        Called with a line when the laboratory does not answer.
    """

    def __init__(
        self,
        name: str,
        stream: socket.socket,
        answer_s: float = LIMITS.answer_s,
        hung: Callable[[str], None] | None = None,
    ) -> None:
        self.name = name
        self._socket = stream
        self._answer_s = answer_s
        self._hung = hung
        self._rest = b""
        self._lost = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the conversation."""
        self._socket.close()

    def ask(
        self, request: Mapping[str, Json], files: Sequence[int] = (), limit_s: float | None = None
    ) -> dict[str, Json]:
        """Send a request, with open files if it needs them, and return the answer.

        Parameters
        ----------
        limit_s : float, optional
            How long this answer may take, seconds.

        Raises
        ------
        UserError
            If the laboratory refuses the request.
        LaboratoryGoneError
            If it ended.
        LaboratoryHungError
            If it did not answer in time, this request or one before it on this connection.
        """
        if self._lost:
            raise LaboratoryHungError(self._lost)
        limit_s = self._answer_s if limit_s is None else limit_s
        line = json.dumps(request).encode() + b"\n"
        try:
            self._socket.settimeout(limit_s)
            if files:
                line = line[socket.send_fds(self._socket, [line], list(files)) :]
            # Nothing is sent when nothing is left: the peer may have answered and gone, and its answer still counts.
            if line:
                self._socket.sendall(line)
            return self.answer(limit_s)
        except TimeoutError:
            told = f"laboratory {self.name!r} hangs: it did not answer {request['do']!r} within {limit_s:g} s"
            # The next request would take a late answer for its own.
            self._lost = told
            self.close()
            if self._hung is not None:
                self._hung(told)
            raise LaboratoryHungError(told) from None
        except OSError:
            raise self._gone() from None

    def answer(self, timeout_s: float | None = None) -> dict[str, Json]:
        """Wait for the next answer.

        Parameters
        ----------
        timeout_s : float, optional
            Seconds to wait; without it, for ever.

        Raises
        ------
        TimeoutError
            If nothing came in time.
        UserError
            If the answer is a refusal.
        LaboratoryGoneError
            If the laboratory ended.
        """
        while b"\n" not in self._rest:
            try:
                self._socket.settimeout(timeout_s)
                data = self._socket.recv(1 << 16)
            except TimeoutError:
                raise
            except OSError:
                data = b""
            if not data:
                raise self._gone()
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        answer = cast("dict[str, Json]", json.loads(line))
        if "error" in answer:
            raise UserError(f"{self.name}: {answer['error']}")
        return answer

    def _gone(self) -> LaboratoryGoneError:
        return LaboratoryGoneError(f"laboratory {self.name!r} has ended")
