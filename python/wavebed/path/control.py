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
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeVar

import msgspec

from wavebed._core import find_core
from wavebed.errors import MachineError, UserError
from wavebed.lab.errors import LaboratoryGoneError, LaboratoryHungError, LaboratoryMalformedError
from wavebed.lab.limits import LIMITS
from wavebed.prepared import prepared

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import TracebackType

    from wavebed.config.data import Json

__all__ = ["MOST_ANSWER_BYTES", "Connection", "Running", "answer_as", "connect", "connect_to", "peer_uid", "running"]
__all__ += ["understood"]

MOST_ANSWER_BYTES = 16 << 20
"""Longest line of an answer: the maps of many scenes."""
_MOST_REFUSAL = 2000
"""Characters of a refusal that are shown."""
_DECODER = msgspec.json.Decoder(dict[str, Any])
_MISUNDERSTOOD: tuple[type[Exception], ...] = (
    msgspec.MsgspecError,
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
"""Every error that a foreign value can cause where it is used."""

_Type = TypeVar("_Type")


@contextmanager
def understood(name: str) -> Iterator[None]:
    """Turn every error that an answer causes in the block into one error of the laboratory called `name`.

    Raises
    ------
    LaboratoryMalformedError
        If the block fails on a value.
    """
    try:
        yield
    except _MISUNDERSTOOD as error:
        reason = str(error) if isinstance(error, msgspec.MsgspecError) else type(error).__name__
        raise LaboratoryMalformedError(
            f"laboratory {name!r} sent no answer of this version of wavebed ({reason[:200]}): stop it"
        ) from None


def answer_as(name: str, answer: Mapping[str, Json], kind: type[_Type]) -> _Type:
    """Return an answer of the laboratory called `name` as a type.

    Raises
    ------
    LaboratoryMalformedError
        If it is not of this type.
    """
    with understood(name):
        return msgspec.convert(answer, prepared(kind))


@dataclass(frozen=True, slots=True)
class Running:
    """A running laboratory: its name, the number of its user, the abstract name of its socket."""

    name: str
    uid: int
    socket: str


def running(*, all_users: bool = False) -> list[Running]:
    """Return the running laboratories of this user; nobody else can pretend to be one.

    Parameters
    ----------
    all_users : bool
        Whether laboratories of other users are listed too. Only root may control them.

    Raises
    ------
    UserError
        If another user than root asks for the laboratories of others.
    MachineError
        If they cannot be listed.
    """
    if all_users and os.geteuid() != 0:
        raise UserError("--all-users: only root controls the laboratories of other users: leave it out")
    arguments = [find_core(), "list", "--json", *(["--all-users"] if all_users else [])]
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


def connect_to(name: str, *, all_users: bool = False) -> Connection:
    """Return a connection to the laboratory called `name`: this user's, or else the only one of another user.

    Parameters
    ----------
    all_users : bool
        Whether it may be another user's, who then chooses what it answers.

    Raises
    ------
    UserError
        If there is none, or more than one.
    """
    found = [lab for lab in running(all_users=all_users) if lab.name == name]
    mine = [lab for lab in found if lab.uid == os.geteuid()] or found
    if len(mine) > 1:
        users = ", ".join(str(lab.uid) for lab in mine)
        raise UserError(f"{name!r}: the users {users} run laboratories of this name: run `wavebed ctl` as one of them")
    connection = connect(mine[0]) if mine else None
    if connection is None:
        others = ", with --all-users also other users'" if os.geteuid() == 0 and not all_users else ""
        raise UserError(f"{name!r} is no running laboratory: `wavebed ctl` lists those that are{others}")
    return connection


def connect(lab: Running) -> Connection | None:
    """Return a connection to a laboratory that was listed; ``None`` if its user listens no more."""
    stream = _connected(lab)
    return None if stream is None else Connection(lab.name, stream)


def _connected(lab: Running) -> socket.socket | None:
    """Return a stream to the laboratory, if it is its user who listens."""
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        stream.connect(f"\0{lab.socket}")
        if peer_uid(stream) == lab.uid:
            return stream
    except OSError:
        pass
    stream.close()
    return None


def peer_uid(stream: socket.socket) -> int:
    """Return the number of the user at the other end."""
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
        self._rest = bytearray()
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
        LaboratoryMalformedError
            If what it sent is no answer.
        """
        if self._lost:
            raise LaboratoryHungError(self._lost)
        limit_s = self._answer_s if limit_s is None else limit_s
        end_s = time.monotonic() + limit_s
        line = json.dumps(request).encode() + b"\n"
        try:
            self._socket.settimeout(limit_s)
            if files:
                line = line[socket.send_fds(self._socket, [line], list(files)) :]
            # Nothing is sent when nothing is left: the peer may have answered and gone, and its answer still counts.
            if line:
                self._socket.sendall(line)
            return self.answer(max(0.0, end_s - time.monotonic()))
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
            Seconds until the whole answer has come; without it, for ever.

        Raises
        ------
        TimeoutError
            If it did not come in time.
        UserError
            If the answer is a refusal.
        LaboratoryGoneError
            If the laboratory ended.
        LaboratoryMalformedError
            If what came is no answer. The connection is closed then.
        """
        end_s = None if timeout_s is None else time.monotonic() + timeout_s
        looked = 0
        while (end := self._rest.find(b"\n", looked)) < 0 and len(self._rest) <= MOST_ANSWER_BYTES:
            if looked and end_s is not None and time.monotonic() >= end_s:
                raise TimeoutError
            looked = len(self._rest)
            self._rest += self._receive(end_s)
        line = bytes(self._rest[: max(end, 0)])
        del self._rest[: end + 1]
        try:
            with understood(self.name):
                if not 0 <= end <= MOST_ANSWER_BYTES:
                    raise msgspec.DecodeError(f"a line of more than {MOST_ANSWER_BYTES >> 20} MiB")
                answer: dict[str, Json] = _DECODER.decode(line)
                if not isinstance(refusal := answer.get("error", ""), str):
                    raise msgspec.DecodeError("a refusal that is no text")
        except LaboratoryMalformedError:
            self.close()
            self._rest.clear()
            raise
        if "error" in answer:
            raise UserError(f"{self.name}: {refusal[:_MOST_REFUSAL]}")
        return answer

    def _receive(self, end_s: float | None) -> bytes:
        """Return what has come, after a wait if it is nothing.

        Raises
        ------
        TimeoutError
            If nothing came until `end_s`.
        LaboratoryGoneError
            If the laboratory ended.
        """
        try:
            # A time of zero would mean not to wait, with another error.
            self._socket.settimeout(None if end_s is None else max(end_s - time.monotonic(), 1e-6))
            data = self._socket.recv(1 << 16)
        except TimeoutError:
            raise
        except OSError:
            data = b""
        if not data:
            raise self._gone()
        return data

    def _gone(self) -> LaboratoryGoneError:
        return LaboratoryGoneError(f"laboratory {self.name!r} has ended")
