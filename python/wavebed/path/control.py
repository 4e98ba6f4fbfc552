"""The state of a running laboratory as types: the answer to ``show``, which ``wavebed ctl`` and the API print.

Counters only grow. Differences of two answers give rates; the mean time in a queue is a difference of times by one of
segments. A condition of ``null`` means that the link has none, or that it is not known without traffic; a counter of
``null``, that nobody counts it: between real hosts only interfaces count.
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
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Struct, ValidationError

from wavebed._core import find_core
from wavebed.errors import MachineError, UserError
from wavebed.lab.protocol import LIMITS, LaboratoryGoneError, LaboratoryHungError, LaboratoryMalformedError
from wavebed.prepared import prepared

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import TracebackType

    from wavebed.config.data import Json


class LinkState(Struct, frozen=True, forbid_unknown_fields=True):
    """One link: counters since time zero, its queue and its conditions now."""

    name: Annotated[str, Meta(description="`HOP.down` (towards the client) or `HOP.up`")]
    takes: Annotated[
        tuple[str, ...], Meta(description="the changes that it takes: `rate`, `delay`, `loss`, `pattern`, `handover`")
    ]
    offered_segments: Annotated[int | None, Meta(description="wire segments that entered")]
    offered_bytes: Annotated[int | None, Meta(description="their IP bytes")]
    duplicated_segments: Annotated[int | None, Meta(description="copies made by duplication")]
    delivered_segments: Annotated[int | None, Meta(description="segments that left at the far end")]
    delivered_bytes: Annotated[int | None, Meta(description="their IP bytes")]
    dropped_segments: Annotated[dict[str, int], Meta(description="segments dropped, by reason")]
    marked_segments: Annotated[int | None, Meta(description="segments marked CE")]
    l4s_marked_segments: Annotated[int | None, Meta(description="those of them that were ECT(1)")]
    l4s_dropped_segments: Annotated[int | None, Meta(description="dropped segments with ECT(1) or CE")]
    corrupted_segments: Annotated[int | None, Meta(description="segments with a flipped bit")]
    blocks_sent: Annotated[int | None, Meta(description="transmissions of radio blocks, repetitions included")]
    blocks_failed: Annotated[int | None, Meta(description="failed transmissions")]
    air_ns: Annotated[int | None, Meta(description="air time of radio blocks: of each its part of a slot, nanoseconds")]
    link_failures: Annotated[int | None, Meta(description="failures of the radio link")]
    queued_segments: Annotated[int | None, Meta(description="segments in the link now")]
    queued_bytes: Annotated[int | None, Meta(description="their IP bytes")]
    waited_ns: Annotated[int | None, Meta(description="sum of the times in the queue, modulo 2^64")]
    waited_segments: Annotated[int | None, Meta(description="segments in this sum")]
    rate_bps: Annotated[int | None, Meta(description="rate of the link now, bits per second")]
    delay_ns: Annotated[int | None, Meta(description="delay beside queueing now; the mean of a distribution")]
    loss: Annotated[float | None, Meta(description="probability of loss now, 0 to 1")]
    state: Annotated[
        str | None, Meta(description="state of the radio: `los`, `nlos`, `blocked`, `outage`, `handover`, `fallback`")
    ]
    sinr_db: Annotated[float | None, Meta(description="effective SINR of the data, dB")]


class DirectionState(Struct, frozen=True, forbid_unknown_fields=True):
    """One direction between two neighbouring hosts: the emulated one-way delay."""

    name: Annotated[str, Meta(description="`HOST-HOST.down` or `.up`")]
    transit_ns: Annotated[int, Meta(description="sum of the times from device to device, modulo 2^64")]
    transit_segments: Annotated[int, Meta(description="segments in this sum")]


class HostState(Struct, frozen=True, forbid_unknown_fields=True):
    """One host."""

    name: str
    ipv4: str | None
    ipv6: str | None
    interface: Annotated[str | None, Meta(description="of a real host: its interface towards the other")] = None
    clock_ahead_ms: Annotated[
        float | None, Meta(description="of a real host: its clock minus this machine's; null if one of them was set")
    ] = None
    clock_error_ms: Annotated[float | None, Meta(description="which it is never off by more than")] = None


class HopState(Struct, frozen=True, forbid_unknown_fields=True):
    """One hop, with a link in each direction."""

    name: str
    kind: Annotated[str, Meta(description="`wired` or `radio`")]


class UserState(Struct, frozen=True, forbid_unknown_fields=True):
    """A modelled user of a cell."""

    name: str
    offered_bytes: Annotated[int, Meta(description="bytes that it asked for; of a full buffer, those that it got")]
    served_bytes: Annotated[int, Meta(description="bytes that it got")]
    queued_bytes: Annotated[int | None, Meta(description="bytes that it waits for; null of a full buffer")]
    air_ns: Annotated[int, Meta(description="air time: of its parts of the slots, nanoseconds")]
    files: Annotated[int, Meta(description="files or segments that it has")]
    file_mean_ms: Annotated[float | None, Meta(description="mean time of a file; null without files")]
    file_p95_ms: Annotated[float | None, Meta(description="95th percentile; null without files")]
    stalled_ns: Annotated[int, Meta(description="time for which its video stood still, nanoseconds")]


class CellState(Struct, frozen=True, forbid_unknown_fields=True):
    """Where the slots of one direction of a cell went."""

    name: Annotated[str, Meta(description="`CELL.down` or `CELL.up`")]
    slots_ns: Annotated[int, Meta(description="time of all slots on all carriers, nanoseconds")]
    control_ns: Annotated[int, Meta(description="time that control information took, nanoseconds")]
    background: Annotated[tuple[UserState, ...], Meta(description="the modelled users")]


class Flows(Struct, frozen=True, forbid_unknown_fields=True):
    """The server's established TCP connections at the last sample."""

    count: int
    max_rtt_us: Annotated[int | None, Meta(description="the longest smoothed round trip (TCP_INFO), microseconds")]


class StretchState(Struct, frozen=True, forbid_unknown_fields=True):
    """A stretch of a timeline."""

    name: str
    start_ns: Annotated[int, Meta(description="when it begins in the timeline")]


class TimelineState(Struct, frozen=True, forbid_unknown_fields=True):
    """A timeline, and where it is."""

    position_ns: Annotated[int, Meta(description="time within it; its duration once it has ended")]
    duration_ns: Annotated[int, Meta(description="of one pass")]
    stretch: Annotated[str, Meta(description="the stretch there")]
    playing: Annotated[bool, Meta(description="false in a pause")]
    ended: Annotated[bool, Meta(description="whether it is over; its last values hold")]
    speed: Annotated[float, Meta(description="1: as written")]
    loop: Annotated[bool, Meta(description="whether it begins again at its end")]
    stretches: Annotated[tuple[StretchState, ...], Meta(description="all of them, in order")]


class LabState(Struct, frozen=True, forbid_unknown_fields=True):
    """A running laboratory."""

    name: str
    links: Annotated[tuple[LinkState, ...], Meta(description="none before time zero")]
    hosts: tuple[HostState, ...]
    hops: tuple[HopState, ...]
    now_ns: Annotated[int | None, Meta(description="time since time zero; null before")] = None
    zero_ns: Annotated[int | None, Meta(description="time zero on CLOCK_MONOTONIC; null before")] = None
    directions: tuple[DirectionState, ...] = ()
    cells: Annotated[tuple[CellState, ...], Meta(description="the directions of a cell that several users share")] = ()
    flows: Annotated[Flows | None, Meta(description="null where connections are not sampled")] = None
    confined_user: Annotated[int | None, Meta(description="user number of confined programs")] = None
    in_flight_bytes: Annotated[int, Meta(description="bytes of packets in flight")] = 0
    pool_bytes: Annotated[int, Meta(description="memory of the packet pool")] = 0
    state: Annotated[
        str | None, Meta(description="of a bridge: `shaping`, or `unshaped` after a failure of its engine")
    ] = None
    ports: Annotated[dict[str, str] | None, Meta(description="of a bridge: the interfaces `a` and `b`")] = None
    frames: Annotated[
        tuple[dict[str, str | int | dict[str, int]], ...],
        Meta(
            description="of a bridge: the frames of each direction, from which port to which, and what became of them"
        ),
    ] = ()
    timeline: Annotated[TimelineState | None, Meta(description="the timeline that links follow; null without")] = None


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


def connect_to(name: str, *, all_users: bool = False) -> ControlConnection:
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
    every = running(all_users=all_users)
    found = [lab for lab in every if lab.name == name]
    mine = [lab for lab in found if lab.uid == os.geteuid()] or found
    if len(mine) > 1:
        users = ", ".join(str(lab.uid) for lab in mine)
        raise UserError(f"{name!r}: the users {users} run laboratories of this name: run `wavebed ctl` as one of them")
    connection = connect(mine[0]) if mine else None
    if connection is None:
        others = ", with --all-users also other users'" if os.geteuid() == 0 and not all_users else ""
        from wavebed.config.suggest import meant  # few names are mistyped

        hint = meant(name, [lab.name for lab in every], f"`wavebed ctl` lists those that are{others}")
        raise UserError(f"{name!r} is no running laboratory: {hint}")
    return connection


def connect(lab: Running) -> ControlConnection | None:
    """Return a connection to a laboratory that was listed; ``None`` if its user listens no more."""
    stream = _connected(lab)
    return None if stream is None else ControlConnection(lab.name, stream)


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
    return _peer(stream)[1]


def peer_pid(stream: socket.socket) -> int:
    """Return the number of the process at the other end."""
    return _peer(stream)[0]


def _peer(stream: socket.socket) -> tuple[int, int, int]:
    credentials = stream.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, gid = struct.unpack("3i", credentials)
    return pid, uid, gid


class ControlConnection:
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

    def peer_pid(self) -> int:
        """Return the number of the process that listens."""
        return peer_pid(self._socket)

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


LEAST_MS, MOST_MS = 10, 10_000
"""Between two samples (`control.rs`)."""

Value: TypeAlias = int | float | str | None


class SampleHead(Struct, frozen=True):
    """The names that the values of samples have, in their order."""

    links: tuple[str, ...]
    directions: tuple[str, ...]
    link_columns: tuple[str, ...]
    direction_columns: tuple[str, ...]
    every_ms: int
    zero_ns: int
    timeline: TimelineState | None = None
    timeline_columns: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    user_columns: tuple[str, ...] = ()


class _Watching(Struct):
    """The answer to ``watch``."""

    watching: SampleHead


class LinkSample(Struct, frozen=True):
    """The values of all links and directions at one time, a row each.

    Parameters
    ----------
    lost : int
        Samples lost before this one, since the watch began.
    timeline : list or None
        The state of the timeline, by `SampleHead.timeline_columns`; ``None`` without one.
    """

    links: list[list[Value]]
    directions: list[list[Value]]
    lost: int
    timeline: list[int | float | bool] | None = None
    users: list[list[Value]] = []


class Watch:
    """The samples of one connection, which it takes over.

    Parameters
    ----------
    connection : ControlConnection
        To the laboratory; closing it ends the watch.
    every_ms : int
        Milliseconds between two samples, `LEAST_MS` to `MOST_MS`.

    Raises
    ------
    UserError
        If the time is out of bounds, or the laboratory's time has not begun.
    LaboratoryGoneError, LaboratoryHungError, LaboratoryMalformedError
        If the laboratory does not answer.
    """

    def __init__(self, connection: ControlConnection, every_ms: int = LEAST_MS) -> None:
        if not LEAST_MS <= every_ms <= MOST_MS:
            raise UserError(f"every_ms: {every_ms} is out of range: write a whole number from {LEAST_MS} to {MOST_MS}")
        self._connection = connection
        answer = connection.ask({"do": "watch", "every_ms": every_ms})
        self.head = answer_as(connection.name, answer, _Watching).watching

    def next(self, timeout_s: float | None = None) -> LinkSample:
        """Wait for the next sample.

        Raises
        ------
        TimeoutError
            If none came in time.
        LaboratoryGoneError
            If the laboratory ended.
        LaboratoryMalformedError
            If it is no sample.
        """
        sample = answer_as(self._connection.name, self._connection.answer(timeout_s), LinkSample)
        head = self.head
        with understood(self._connection.name):
            for names, columns, rows in (
                (head.links, head.link_columns, sample.links),
                (head.directions, head.direction_columns, sample.directions),
                (head.users, head.user_columns, sample.users),
            ):
                if len(rows) != len(names) or any(len(row) != len(columns) for row in rows):
                    raise ValidationError("a sample of another form than its head")
        return sample

    @property
    def name(self) -> str:
        """The laboratory's name."""
        return self._connection.name

    def close(self) -> None:
        """End the watch and its connection."""
        self._connection.close()
