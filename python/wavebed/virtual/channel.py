"""The channel between a guest of virtual time and its host: files of the guest's two folders.

At fixed virtual times a guest writes how far it is, and the state of its laboratory, whether or not the host reads it.
A write waits for nobody, so a host that watches moves no packet. Changes of the laboratory go the other way: the guest
takes them at fixed virtual times (`guest.rs`), and tells when. So they can be repeated.
"""

from __future__ import annotations

import os
import secrets
import socket
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any, Literal, Self

import msgspec

from wavebed.path.control import MOST_ANSWER_BYTES, peer_uid
from wavebed.prepared import prepared
from wavebed.stranger import Count, Line, StrangerError, decode

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from wavebed.config.data import Json

EVERY_S = 0.5
"""Virtual time between two lines of progress."""
PROGRESS, STATE, MAPS, ANSWERS, CHANGES = "progress", "state", "maps", "answers", "changes"
"""The files; changes are in the folder that the guest reads, the others in the one that it writes to."""
_MOST_CHANGE_BYTES = (1 << 16) - 100
"""Longest request, so that its line fits into the room of `channel.rs`."""
_MOST_CLIENTS = 64
_READ_BYTES = 1 << 16
_TAKEN = ("set", "timeline", "rebind")
"""Requests that go to the guest."""
_MOST_NEW_BYTES = 1 << 20
"""Longest text that the host reads at once: a program in the guest may write too."""


class Step(msgspec.Struct, frozen=True):
    """What a block does in its guest.

    Parameters
    ----------
    number : int
        Of the trial in the plan.
    at_s, planned_s : float
        Virtual time since time zero, and the expected end of the last workload.
    shown : str
        The running workloads, throughput, queue and round-trip time.
    """

    number: Count
    treatment: Line
    seed: Count
    stage: Literal["set-up", "running", "analysing"]
    at_s: float = 0.0
    planned_s: float = 0.0
    shown: Line = ""


_STEP = msgspec.json.Decoder(prepared(Step))


def tell(file: Path, step: Step) -> None:
    """Append a step to a file of the guest. A full disk loses it."""
    with suppress(OSError):
        # Closed at once: the guest's kernel gives a file to the host when it is closed.
        stream = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            os.write(stream, msgspec.json.encode(step) + b"\n")
        finally:
            os.close(stream)


class Told:
    """The steps of a guest, as far as the host has read them.

    The host makes the file and keeps it open, so that the guest can put no other one in its place.

    Parameters
    ----------
    file : Path
        In the guest's output folder.
    """

    def __init__(self, file: Path) -> None:
        self._stream = file.open("xb+", buffering=0)
        self._rest = b""

    def last(self) -> Step | None:
        """Return the last step that is new, if there is one."""
        *lines, self._rest = (self._rest + self._stream.read(_MOST_NEW_BYTES)).split(b"\n")
        self._rest = self._rest[:_MOST_NEW_BYTES]
        for line in reversed(lines):
            with suppress(StrangerError):
                return decode(line, _STEP, "a step of a guest")
        return None

    def close(self) -> None:
        """Read no more."""
        self._stream.close()


class Made(msgspec.Struct, frozen=True):
    """A change of a laboratory while it ran, and when it was made, nanoseconds after time zero."""

    at_ns: Count
    request: dict[str, Any]


class _Answer(Made, frozen=True):
    """What became of a change."""

    lab: Count
    answer: dict[str, Any]


class _State(msgspec.Struct, frozen=True):
    """The state of a guest's laboratory: its answers to ``show`` and ``watch``, and the last sample."""

    at_ns: Count
    lab: Count
    show: dict[str, Any]
    watching: dict[str, Any] | None
    sample: dict[str, Any] | None
    end_ns: Count


_ANSWER = msgspec.json.Decoder(prepared(_Answer))
_MADE = msgspec.json.Decoder(prepared(Made))
_STATE = msgspec.json.Decoder(prepared(_State | None))
_OBJECT = msgspec.json.Decoder(dict[str, Any])


def made_changes(text: str) -> list[Made]:
    """Return the changes of a trial, from the lines of its file.

    Raises
    ------
    StrangerError
        If a line is none.
    """
    return [decode(line, _MADE, "a change of a laboratory") for line in text.encode().splitlines()]


class _Client:
    """A connection of ``wavebed ctl`` or of the page."""

    def __init__(self, stream: socket.socket) -> None:
        self.stream = stream
        self.rest = b""
        self.watches = False

    def send(self, answer: object) -> bool:
        """Send a line; return whether there was room for it."""
        line = msgspec.json.encode(answer) + b"\n"
        try:
            return self.stream.send(line) == len(line)
        except OSError:
            return False


class Channel:
    """The host's end of the channel of one guest; a context that closes it.

    While a laboratory runs in the guest, it is listed by ``wavebed ctl``, and answers as one of real time: what it is
    shown comes from its last state, and its changes go into the guest.

    Parameters
    ----------
    given, told : Path
        The folder that the guest reads, and the one that it writes to.
    name : str
        Of the laboratory, as this machine lists it.
    repeated : list of Made
        Changes of the first run, which the guest's first laboratory gets at the same times. It takes no others.
    """

    def __init__(self, given: Path, told: Path, name: str, repeated: list[Made] | None = None) -> None:
        self._name = name
        self._repeats = bool(repeated)
        self._files: dict[str, IO[bytes]] = {}
        for file in (given / CHANGES, told / STATE, told / MAPS, told / ANSWERS):
            self._files[file.name] = file.open("xb+", buffering=0)
        for each in repeated or []:
            self._put(1, each)
        self._listener: socket.socket | None = None
        self._clients: list[_Client] = []
        self._asking: list[_Client] = []
        self._rest = b""
        self._text = b""
        self._state: _State | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()
        for file in self._files.values():
            file.close()

    def _put(self, lab: int, change: Made) -> None:
        head = f"{lab:020} {change.at_ns:020} ".encode()
        self._files[CHANGES].write(head + msgspec.json.encode(change.request) + b"\n")

    def serve(self) -> None:
        """Do what is to be done now, without a wait."""
        self._answer()
        self._look()
        if self._listener is None:
            return
        with suppress(OSError):
            while len(self._clients) < _MOST_CLIENTS:
                stream, _ = self._listener.accept()
                stream.setblocking(False)
                if peer_uid(stream) in (os.geteuid(), 0):
                    self._clients.append(_Client(stream))
                else:
                    stream.close()
        for client in list(self._clients):
            self._hear(client)

    def _look(self) -> None:
        """Read the state; begin or end to listen as the laboratory does."""
        text = self._first_line(STATE)
        if text == self._text:
            return
        try:
            state = decode(text, _STATE, "the state of a guest's laboratory")
        except StrangerError:  # the guest is writing
            return
        if state is not None and state.at_ns != state.end_ns:
            return
        self._text, before, self._state = text, self._state, state
        if state is None or (before is not None and before.lab != state.lab):
            self._stop()
        if state is not None and self._listener is None:
            self._listener = _listen(self._name)
        if state is not None and state.sample is not None and (before is None or before.sample != state.sample):
            for client in [each for each in self._clients if each.watches]:
                client.send(state.sample)

    def _first_line(self, name: str) -> bytes:
        """Return the first line of a file; behind it may be the rest of a longer one."""
        return os.pread(self._files[name].fileno(), MOST_ANSWER_BYTES, 0).partition(b"\n")[0]

    def _answer(self) -> None:
        """Tell clients what became of their changes."""
        *lines, self._rest = (self._rest + self._files[ANSWERS].read(_MOST_NEW_BYTES)).split(b"\n")
        self._rest = self._rest[:_MOST_NEW_BYTES]
        for line in lines:
            with suppress(StrangerError):
                answer = decode(line, _ANSWER, "an answer of a guest")
                # An earlier laboratory has left its clients already.
                if self._asking and self._state is not None and answer.lab == self._state.lab:
                    client = self._asking.pop(0)
                    if not client.send(answer.answer):
                        self._drop(client)

    def _hear(self, client: _Client) -> None:
        try:
            text = client.stream.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            text = b""
        if not text or len(client.rest) > MOST_ANSWER_BYTES:
            self._drop(client)
            return
        *lines, client.rest = (client.rest + text).split(b"\n")
        for line in lines:
            try:
                answer = self._answer_to(client, decode(line, _OBJECT, "a request"))
            except StrangerError as error:
                answer = {"error": str(error)}
            if answer is not None and not client.send(answer):
                self._drop(client)
                return

    def _answer_to(self, client: _Client, request: dict[str, Json]) -> dict[str, Json] | None:
        """Return the answer to a request; ``None``: the guest gives it."""
        state, what = self._state, request.get("do")
        assert state is not None, "it listens"
        if what == "show":
            return {**state.show, "name": self._name}
        if what == "maps":
            return decode(self._first_line(MAPS), _OBJECT, "maps of a guest")
        if what == "watch" and state.watching is not None:
            client.watches = True
            return state.watching
        if what not in (*_TAKEN, "watch"):
            return {"error": f"{what}: is not for a laboratory in virtual time, whose programs the guest starts"}
        if state.show.get("zero_ns") is None:
            return {"error": "the laboratory's time has not begun: wait for it"}
        if self._repeats:
            return {"error": "this trial repeats the changes of its first run: it takes no others"}
        if len(msgspec.json.encode(request)) > _MOST_CHANGE_BYTES:
            return {
                "error": f"a change in virtual time has at most {_MOST_CHANGE_BYTES >> 10} KiB: use a shorter pattern"
            }
        self._put(state.lab, Made(0, request))
        self._asking.append(client)
        return None

    def _drop(self, client: _Client) -> None:
        """Close a connection; a change of it that is under way keeps its place."""
        client.stream.close()
        if client in self._clients:
            self._clients.remove(client)

    def _stop(self) -> None:
        """Stop listening: the laboratory has ended."""
        self._asking.clear()
        for client in list(self._clients):
            self._drop(client)
        if self._listener is not None:
            self._listener.close()
            self._listener = None


def _listen(name: str) -> socket.socket:
    """Listen as `names.rs` does."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    listener.bind(f"\0wavebed/{os.geteuid()}/{name}/{secrets.token_hex(16)}")
    listener.listen()
    return listener
