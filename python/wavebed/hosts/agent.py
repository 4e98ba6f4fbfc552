"""Where a host of the backend ``hosts`` is: this machine, or one that ssh reaches."""

from __future__ import annotations

import itertools
import json
import math
import os
import queue
import re
import shlex
import signal
import struct
import subprocess
import threading
import time
from bisect import bisect_left
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Literal, NamedTuple, TypedDict, cast
from urllib.parse import urlsplit

import msgspec

from wavebed._core import find_agent
from wavebed.config.problems import Problem, described
from wavebed.config.reader import reader
from wavebed.errors import MachineError, UserError
from wavebed.lab.protocol import LaboratoryGoneError, LaboratoryHungError
from wavebed.prepared import prepared
from wavebed.stranger import Budget, Count, Line, Name, StrangerError, decode, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from io import BufferedReader

    from wavebed.config.data import Json


LOCAL = "local"
_SCHEME = "ssh"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*|[0-9A-Fa-f:]+")
_ALIVE_EVERY_S = 5
_ALIVE_TRIES = 3
_CONNECT_S = 10


@dataclass(frozen=True, slots=True)
class HostAddress:
    """A host: this machine, or one behind ssh.

    Parameters
    ----------
    name : str
        Its name or address for ssh, perhaps an alias of the user's configuration; empty: this machine.
    user : str
        The account; empty: from the user's configuration.
    port : int or None
        The port of ssh; ``None``: from the user's configuration.
    """

    name: str = ""
    user: str = ""
    port: int | None = None

    @property
    def is_local(self) -> bool:
        """Whether it is this machine."""
        return not self.name

    def __str__(self) -> str:
        if self.is_local:
            return LOCAL
        name = f"[{self.name}]" if ":" in self.name else self.name
        return f"ssh://{self.user + '@' if self.user else ''}{name}{'' if self.port is None else f':{self.port}'}"


@reader("ssh://[USER@]HOST[:PORT]|local", {"type": "string", "pattern": "^(local|ssh://.+)$"}, str)
def host_address(value: object) -> HostAddress:
    """Read ``local`` or an address of ssh."""
    wanted = 'write "local" or "ssh://USER@HOST:PORT"'
    if value == LOCAL:
        return HostAddress()
    if not isinstance(value, str):
        raise Problem(f"{described(value)} is not a host: {wanted}")
    try:
        parts = urlsplit(value)
        port = parts.port
    except ValueError:
        raise Problem(f"{described(value)} has no port from 1 to 65535: {wanted}") from None
    if parts.scheme != _SCHEME or parts.path not in ("", "/") or parts.query or parts.fragment or not parts.hostname:
        raise Problem(f"{described(value)} is not a host: {wanted}")
    if parts.password is not None:
        raise Problem("has a password: leave it out, ssh uses keys")
    if not _HOST.fullmatch(parts.hostname) or (parts.username and not _NAME.fullmatch(parts.username)):
        raise Problem(f"{described(value)} has a name that is none of a host or user: {wanted}")
    return HostAddress(parts.hostname, parts.username or "", port)


def ssh_command(address: HostAddress, script: str) -> list[str]:
    """Return the command that runs a script of the shell on a host.

    The variable ``WAVEBED_SSH`` replaces ``ssh``, with options, as ``GIT_SSH_COMMAND`` does for git. Everything else is
    the user's configuration of ssh.
    """
    program = shlex.split(os.environ.get("WAVEBED_SSH", "")) or ["ssh"]
    options = [
        "-T",
        "-C",
        "-oBatchMode=yes",
        f"-oConnectTimeout={_CONNECT_S}",
        f"-oServerAliveInterval={_ALIVE_EVERY_S}",
        f"-oServerAliveCountMax={_ALIVE_TRIES}",
    ]
    where = [f"-p{address.port}"] if address.port is not None else []
    account = [f"-l{address.user}"] if address.user else []
    return [*program, *options, *where, *account, "--", address.name, f"sh -c {shlex.quote(script)}"]


MOST_HEADER_BYTES = 1 << 20
MOST_PAYLOAD_BYTES = 1 << 20
_LENGTHS = struct.Struct("<II")


def encode_frame(header: Mapping[str, Json], payload: bytes = b"") -> bytes:
    """Return a frame as bytes."""
    text = json.dumps(header).encode()
    assert len(text) <= MOST_HEADER_BYTES, "command lines are short"
    assert len(payload) <= MOST_PAYLOAD_BYTES, "files are sent in pieces"
    return _LENGTHS.pack(len(text), len(payload)) + text + payload


def read_frame(stream: BinaryIO) -> tuple[bytes, bytes] | None:
    """Return the next header and its payload; ``None`` at the end of the stream.

    Raises
    ------
    StrangerError
        If something else comes, such as the greeting of a login shell, or the stream ends within a frame.
    """
    head = stream.read(_LENGTHS.size)
    if not head:
        return None
    if len(head) < _LENGTHS.size:
        raise StrangerError(f"{head!r} came in place of a frame")
    header_bytes, payload_bytes = _LENGTHS.unpack(head)
    if header_bytes > MOST_HEADER_BYTES or payload_bytes > MOST_PAYLOAD_BYTES:
        raise StrangerError(f"{head!r} came in place of a frame: does a start file of the shell print something?")
    text, payload = stream.read(header_bytes), stream.read(payload_bytes)
    if len(text) < header_bytes or len(payload) < payload_bytes:
        raise StrangerError("the stream ended within a frame")
    return text, payload


Header = dict[str, "Json"]
Stream = Literal["stdout", "stderr"]
_Address = Annotated[str, msgspec.Meta(pattern=r"^[0-9A-Fa-f:][0-9A-Fa-f:.]{1,63}$")]
"""Programs get it on their command lines."""
_MOST_WORDS = 1000


class ProgramOutput(msgspec.Struct, frozen=True, tag_field="event", tag="output"):
    """Output of a program."""

    pid: Count
    stream: Stream


class Closed(msgspec.Struct, frozen=True, tag_field="event", tag="closed"):
    """The end of an output stream."""

    pid: Count
    stream: Stream


class Exit(msgspec.Struct, frozen=True, tag_field="event", tag="exit"):
    """The end of a program: its status, negative for a signal."""

    pid: Count
    status: Annotated[int, msgspec.Meta(ge=-255, le=255)]


class File(msgspec.Struct, frozen=True, tag_field="event", tag="file"):
    """A file of a folder that was asked for."""

    tag: Count
    name: Name
    bytes: Count


class Piece(msgspec.Struct, frozen=True, tag_field="event", tag="piece"):
    """A part of a file."""

    tag: Count
    name: Name
    offset: Count


Event = ProgramOutput | Closed | Exit | File | Piece


class Message(msgspec.Struct, frozen=True):
    """What every header may have: an event is no answer."""

    id: Count | None = None
    event: Line | None = None
    error: Line | None = None


class _Hello(TypedDict):
    version: Count
    is_root: bool
    system: Line
    kernel: Line
    name: Line
    architecture: Line
    processors: Annotated[int, msgspec.Meta(ge=1, le=1 << 20)]
    congestion_controls: Annotated[list[Line], msgspec.Meta(max_length=_MOST_WORDS)]
    reached_from: _Address | None
    congestion_control: Line


class _Clock(TypedDict):
    unix_ns: tuple[Count, Count]
    monotonic_ns: tuple[Count, Count]


class _Run(TypedDict):
    pid: Annotated[int, msgspec.Meta(ge=1, le=1 << 31)]


class _Ports(TypedDict):
    ports: list[tuple[Literal["tcp", "udp"], Annotated[int, msgspec.Meta(ge=0, le=65535)]]]


class _Flows(TypedDict):
    count: Count
    max_rtt_us: Count | None


class _Towards(TypedDict):
    interface: Line
    address: _Address
    rx_bytes: Count
    tx_bytes: Count
    rx_packets: Count
    tx_packets: Count
    rx_dropped: Count
    tx_dropped: Count


class _Done(TypedDict):
    pass


_MESSAGE = msgspec.json.Decoder(prepared(Message))
_EVENT = msgspec.json.Decoder(prepared(Event))
_DONE: msgspec.json.Decoder[Any] = msgspec.json.Decoder(prepared(_Done))
_ANSWERS: dict[str, msgspec.json.Decoder[Any]] = {
    "hello": msgspec.json.Decoder(prepared(_Hello)),
    "clock": msgspec.json.Decoder(prepared(_Clock)),
    "run": msgspec.json.Decoder(prepared(_Run)),
    "ports": msgspec.json.Decoder(prepared(_Ports)),
    "flows": msgspec.json.Decoder(prepared(_Flows)),
    "towards": msgspec.json.Decoder(prepared(_Towards)),
}
"""By the word ``do`` of the request; answers to other requests have nothing that is used."""


def message_of(text: bytes) -> Event | Message:
    """Return an event, or what is common to all answers.

    Raises
    ------
    StrangerError
        If it is neither.
    """
    message = decode(text, _MESSAGE, "the header of a frame")
    return message if message.event is None else decode(text, _EVENT, "the header of a frame")


def answer_of(do: object, text: bytes) -> Header:
    """Return the answer to a request.

    Raises
    ------
    StrangerError
        If it has another type.
    """
    return cast("Header", decode(text, _ANSWERS.get(str(do), _DONE), f"the answer to {do}"))


MOST_RATE = 600e-6
"""Linux slews a clock by 500 ppm at most (adjtimex(2)); an oscillator is off by less than 100 ppm."""


class ClockSteppedError(Exception):
    """No offset agrees with all answers: one of the clocks was set."""


class _Ceiling:
    """The lowest of many bounds from above at any time; each rises with the distance from its own time."""

    def __init__(self) -> None:
        self._bounds: list[tuple[int, float]] = []
        self._tight: list[tuple[int, float]] = []

    def add(self, at_ns: int, bound_ns: float) -> None:
        self._bounds.append((at_ns, bound_ns))
        self._tight = []

    def tight(self) -> list[tuple[int, float]]:
        """Return the time of each bound, and the lowest of all bounds at that time."""
        if not self._tight:
            ordered = sorted(self._bounds)
            self._tight = _swept(_swept(ordered)[::-1])[::-1]
        return self._tight

    def at(self, at_ns: int) -> float:
        tight = self.tight()
        place = bisect_left(tight, (at_ns, -math.inf))
        near = tight[max(0, place - 1) : place + 1]
        return min(bound_ns + MOST_RATE * abs(at_ns - then_ns) for then_ns, bound_ns in near)


def _swept(bounds: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """Return each bound or, if that is lower, the one before it at its time."""
    found: list[tuple[int, float]] = []
    for at_ns, bound_ns in bounds:
        if found:
            before_ns, lowest_ns = found[-1]
            bound_ns = min(bound_ns, lowest_ns + MOST_RATE * abs(at_ns - before_ns))  # noqa: PLW2901
        found.append((at_ns, bound_ns))
    return found


class ClockBounds:
    """Bounds of the offset of another machine's clock: its reading minus ours at the same moment."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._above = _Ceiling()
        self._below = _Ceiling()
        """Bounds from below, with the opposite sign."""
        self._is_consistent: bool | None = None
        """Whether the answers agree; ``None`` until it is asked after the last of them."""

    def add(self, asked_ns: int, read_ns: int, sent_ns: int, heard_ns: int) -> None:
        """Add an answer.

        Parameters
        ----------
        asked_ns, heard_ns : int
            When the question left and the answer came, of our clock.
        read_ns, sent_ns : int
            The other clock when the question had come, and before the answer left.
        """
        with self._lock:
            self._above.add(asked_ns, read_ns - asked_ns)
            self._below.add(heard_ns, heard_ns - sent_ns)
            self._is_consistent = None

    def at(self, at_ns: int) -> tuple[int, int]:
        """Return the offset at a time of our clock, and its error, nanoseconds; at least one answer was added.

        Raises
        ------
        ClockSteppedError
            If no offset agrees with all answers.
        """
        above, below = self._bounds(at_ns)
        if above < below:
            raise ClockSteppedError
        return round((above + below) / 2), math.ceil((above - below) / 2) + 1

    def middle(self, at_ns: int) -> int:
        """Return the offset at a time of our clock; between its bounds, even if they do not agree."""
        return round(sum(self._bounds(at_ns)) / 2)

    def _bounds(self, at_ns: int) -> tuple[float, float]:
        with self._lock:
            return self._above.at(at_ns), -self._below.at(at_ns)

    def is_consistent(self) -> bool:
        """Return whether some offset agrees with all answers."""
        with self._lock:
            if self._is_consistent is None:
                times = [at_ns for ceiling in (self._above, self._below) for at_ns, _ in ceiling.tight()]
                self._is_consistent = all(self._above.at(at_ns) >= -self._below.at(at_ns) for at_ns in times)
            return self._is_consistent


_SCRIPT = """umask 077
[ "$(uname -m)" = {machine} ] || {{ echo "this host is a $(uname -m), the agent is for {machine}" >&2; exit 3; }}
d=$(mktemp -d "${{TMPDIR:-/tmp}}/wavebed-agent.XXXXXXXX") || exit 3
trap 'rm -rf "$d"' EXIT HUP INT TERM
head -c {size} > "$d/wavebed-agent" && chmod 700 "$d/wavebed-agent" || exit 3
[ "$(wc -c < "$d/wavebed-agent")" -eq {size} ] || exit 3
exec "$d/wavebed-agent" --remove-own-file"""
"""Receives the agent on standard input and becomes it; the agent removes its file and folder first. Half an agent, of a
connection that broke, is not run."""
SILENT_S = 20.0
"""A trial is given up after this silence of an agent; a silent wavebed ends it as well (SILENCE_NS)."""
_SSH_FAILED = 255
_START_S = 30.0
_LAST_WORDS_S = 5.0
"""What it said is read within this, unless a program that it left holds its standard error open."""
_MOST_TOLD_BYTES = 4096


class Agent:
    """A running agent.

    Parameters
    ----------
    name : str
        The host's name in the scenario, for messages.
    address : HostAddress
        Where it is.
    on_event : callable
        Called by the reading thread with each event of a program and its bytes; with ``None`` at the end.

    Raises
    ------
    MachineError
        If ssh or the agent is not installed here.
    """

    def __init__(self, name: str, address: HostAddress, on_event: Callable[[Event | None, bytes], None]) -> None:
        self.name = name
        self.address = address
        self._on_event = on_event
        self._numbers = itertools.count(1)
        self._waiting: dict[int, _Waiting] = {}
        self.budget = Budget()
        """What the host may send; an agent has one trial."""
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._told = bytearray()
        self._gone = threading.Event()
        self._why = ""
        self.unix = ClockBounds()
        """The host's system clock beside CLOCK_MONOTONIC of this machine."""
        self.monotonic = ClockBounds()
        """CLOCK_MONOTONIC of the host beside this machine's."""
        self._process = self._start()
        assert self._process.stdin is not None
        self._input = cast("BinaryIO", self._process.stdin)
        self._errors = threading.Thread(target=self._read_errors, name=f"{name} errors", daemon=True)
        self._errors.start()
        self._frames = threading.Thread(target=self._read, name=f"{name} frames", daemon=True)
        self._frames.start()

    def _start(self) -> subprocess.Popen[bytes]:
        program = Path(find_agent())
        if self.address.is_local:
            argv, first = [str(program)], b""
        else:
            first = program.read_bytes()
            script = _SCRIPT.format(machine=os.uname().machine, size=len(first))
            argv = ssh_command(self.address, script)
        try:
            # In a session of its own, so that Ctrl-C does not end ssh before the laboratory is closed.
            process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise MachineError(f"{argv[0]}: {(error.strerror or 'cannot be run').lower()}") from None
        assert process.stdin is not None
        try:
            process.stdin.write(first)
            process.stdin.flush()
        except OSError:
            pass  # it has ended: the first question says why
        return process

    @property
    def is_alive(self) -> bool:
        """Whether it still answers, as far as is known."""
        return not self._gone.is_set()

    @property
    def why(self) -> str:
        """Why it has ended: one line, or an empty text."""
        return self._why

    def hello(self, request: Mapping[str, Json]) -> Header:
        """Send the first request.

        Raises
        ------
        MachineError
            If the host cannot be reached or cannot run programs; the line says why.
        """
        try:
            return self.ask({"do": "hello", "version": 1, **request}, limit_s=_START_S)
        except (LaboratoryGoneError, LaboratoryHungError, UserError) as error:
            raise MachineError(str(error)) from None

    def ask(
        self,
        request: Mapping[str, Json],
        payload: bytes = b"",
        *,
        limit_s: float = 20.0,
        then: Callable[[Header], None] | None = None,
    ) -> Header:
        """Send a request and return its answer.

        Parameters
        ----------
        then : callable, optional
            Called by the reading thread with the answer, before it reads on.

        Raises
        ------
        UserError
            If it refuses; the line is its own.
        LaboratoryGoneError
            If it ended first.
        LaboratoryHungError
            If it did not answer in time.
        """
        number = next(self._numbers)
        answers: queue.SimpleQueue[Header | str | None] = queue.SimpleQueue()
        with self._lock:
            self._waiting[number] = _Waiting(request.get("do"), answers, then)
        try:
            self._send({**request, "id": number}, payload)
            try:
                answer = answers.get(timeout=limit_s)
            except queue.Empty:
                what = f"{self.name}: the agent on {self.address} did not answer within {limit_s:g} s"
                raise LaboratoryHungError(what) from None
        finally:
            with self._lock:
                self._waiting.pop(number, None)
        if answer is None:
            raise LaboratoryGoneError(self._why)
        if isinstance(answer, str):
            raise UserError(f"{self.name}: {answer}")
        return answer

    def ask_clock(self, limit_s: float = 20.0) -> None:
        """Ask for its clocks once, and keep the bounds.

        Raises
        ------
        LaboratoryGoneError, LaboratoryHungError
            As `ask`.
        """
        heard = [0]

        def then(answer: Header) -> None:
            heard[0] = time.monotonic_ns()
            for bounds, key in ((self.unix, "unix_ns"), (self.monotonic, "monotonic_ns")):
                read_ns, sent_ns = cast("list[int]", answer[key])
                bounds.add(asked_ns, read_ns, sent_ns, heard[0])

        asked_ns = time.monotonic_ns()
        self.ask({"do": "clock"}, limit_s=limit_s, then=then)

    def close(self, limit_s: float) -> None:
        """End it and its programs; kill its connection after `limit_s` seconds, which ends it as well."""
        with suppress(LaboratoryGoneError, LaboratoryHungError, UserError):
            self.ask({"do": "stop"}, limit_s=limit_s)
        with suppress(OSError):
            self._input.close()
        try:
            self._process.wait(limit_s)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._frames.join(limit_s)  # it tells the host's programs that the agent is gone

    def kill(self, why: str) -> None:
        """Cut the connection; the agent ends its programs and itself."""
        self._why = self._why or why
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _send(self, header: Mapping[str, Json], payload: bytes) -> None:
        if self._gone.is_set():
            raise LaboratoryGoneError(self._why)
        frame = encode_frame(header, payload)
        try:
            with self._writing:
                self._input.write(frame)
                self._input.flush()
        except (OSError, ValueError):
            self._gone.wait(_START_S)  # the reading thread knows why
            raise LaboratoryGoneError(self._why or f"{self.name}: the agent has ended") from None

    def _read(self) -> None:
        why = ""
        try:
            with cast("BinaryIO", self._process.stdout) as stream:
                while (frame := read_frame(stream)) is not None:
                    self._take(*frame)
        except Exception as error:  # noqa: BLE001 - whatever a host sends, the rest of the run goes on
            why = f": {error}" if isinstance(error, StrangerError | OSError) else f": {type(error).__name__}: {error}"
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        status = self._process.wait()
        self._errors.join(_LAST_WORDS_S)
        told = one_line(self._told.decode(errors="replace").strip().rpartition("\n")[2].removeprefix("wavebed-agent: "))
        said = told or _meaning(status, is_ssh=not self.address.is_local)
        where = "the agent on this machine" if self.address.is_local else f"the connection to {self.address}"
        self._why = self._why or f"{self.name}: {where} ended{why}: {said}"
        self._gone.set()
        with self._lock:
            waiting = list(self._waiting.values())
        for one in waiting:
            one.answers.put(None)
        self._on_event(None, b"")

    def _take(self, text: bytes, payload: bytes) -> None:
        self.budget.take(len(payload))
        message = message_of(text)
        if not isinstance(message, Message):
            self._on_event(message, payload)
            return
        with self._lock:
            waiting = None if message.id is None else self._waiting.get(message.id)
        if waiting is None:
            return
        if message.error is not None:
            waiting.answers.put(one_line(message.error))
            return
        answer = answer_of(waiting.do, text)
        if waiting.then is not None:
            waiting.then(answer)
        waiting.answers.put(answer)

    def _read_errors(self) -> None:
        with cast("BufferedReader", self._process.stderr) as stream:
            while chunk := stream.read1(_MOST_TOLD_BYTES):
                self._told += chunk
                del self._told[:-_MOST_TOLD_BYTES]


class _Waiting(NamedTuple):
    """Who waits for an answer: for which request, where it goes, and what is called with it first."""

    do: object
    answers: queue.SimpleQueue[Header | str | None]
    then: Callable[[Header], None] | None


def _meaning(status: int, *, is_ssh: bool) -> str:
    if status < 0:
        return f"signal {-status}"
    return "ssh lost the host" if is_ssh and status == _SSH_FAILED else f"status {status}"
