"""The agent on a host: its start on this machine or over ssh, questions and answers, news of its programs."""

from __future__ import annotations

import itertools
import os
import queue
import signal
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

from wavebed._core import find_agent
from wavebed.errors import MachineError, UserError
from wavebed.hosts.address import HostAddress, ssh_command
from wavebed.hosts.clocks import ClockBounds
from wavebed.hosts.frames import encode_frame, read_frame
from wavebed.hosts.messages import Message, answer_of, message_of
from wavebed.lab.errors import LaboratoryGoneError, LaboratoryHungError
from wavebed.stranger import Budget, StrangerError, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from io import BufferedReader

    from wavebed.config.data import Json
    from wavebed.hosts.messages import Event, Header

__all__ = ["SILENT_S", "Agent"]

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
"""So long an agent may be silent before its trial is given up; a silent wavebed ends it as well (SILENCE_NS)."""
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
        """CLOCK_MONOTONIC of the host beside that of this machine."""
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
