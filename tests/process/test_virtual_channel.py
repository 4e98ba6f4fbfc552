"""The host's end of the channel of a guest: laboratories are shown and watched from files, and changed by one."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from wavebed.errors import UserError
from wavebed.lab.protocol import LaboratoryGoneError
from wavebed.path.control import ControlConnection, Running, connect
from wavebed.run.executor.inside import exactness, kept_changes
from wavebed.stranger import StrangerError
from wavebed.virtual.channel import ANSWERS, CHANGES, MAPS, STATE, Channel, Made, made_changes

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

SET = {"do": "set", "link": None, "key": "rate_bps", "value": 5_000_000}
REBIND = {"do": "rebind"}


class Guest:
    """What guest-init does, in this process: it overwrites the state, and answers changes."""

    def __init__(self, folder: Path, repeated: list[Made] | None = None) -> None:
        self.given, self.told = folder / "in", folder / "out"
        for each in (self.given, self.told):
            each.mkdir()
        self.name = f"test-{os.getpid()}"
        self.channel = Channel(self.given, self.told, self.name, repeated)
        self.connections: list[ControlConnection] = []
        self.at_ns = 0

    def state(self, lab: int, zero_ns: int | None = 10, sample: object = None) -> None:
        show = {"name": "inside", "zero_ns": zero_ns, "links": []}
        watching = None if zero_ns is None else {"watching": {"every_ms": 500}}
        self.at_ns += 1
        state = {"at_ns": self.at_ns, "lab": lab, "show": show, "watching": watching, "sample": sample}
        self.write(json.dumps({**state, "end_ns": self.at_ns}))

    def write(self, line: str) -> None:
        with (self.told / STATE).open("r+") as stream:
            stream.write(line + "\n")
        self.channel.serve()

    def end(self) -> None:
        self.write("null")

    def changes(self) -> list[dict[str, Any]]:
        lines = [line.split(" ", 2) for line in (self.given / CHANGES).read_text().splitlines()]
        assert {len(digits) for line in lines for digits in line[:2]} <= {20}
        return [{"lab": int(lab), "at_ns": int(at), "request": json.loads(request)} for lab, at, request in lines]

    def answer(self, lab: int, request: object, answer: object) -> None:
        line = json.dumps({"lab": lab, "at_ns": 500, "request": request, "answer": answer})
        with (self.told / ANSWERS).open("a") as stream:
            stream.write(line + "\n")
        self.channel.serve()

    def listeners(self) -> list[str]:
        """Return the abstract sockets of this laboratory that listen."""
        lines = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()]
        begin = f"@wavebed/{os.geteuid()}/{self.name}/"
        return [line[7][1:] for line in lines if len(line) == 8 and line[7].startswith(begin) and line[3] == "00010000"]

    def visit(self) -> Visitor:
        (listener,) = self.listeners()
        connection = connect(Running(self.name, os.geteuid(), listener))
        assert connection is not None
        self.connections.append(connection)
        return Visitor(self, connection)

    def leave(self) -> None:
        for each in self.connections:
            each.close()


class Visitor:
    """A connection as of ``wavebed ctl``, whose requests are served at once."""

    def __init__(self, guest: Guest, connection: ControlConnection) -> None:
        self._guest = guest
        self._connection = connection

    def tell(self, request: object) -> None:
        stream: socket.socket = self._connection._socket  # `ask` would wait for an answer of this process
        stream.setblocking(True)
        text = json.dumps(request).encode() + b"\n"
        while text:
            text = text[stream.send(text[: 1 << 15]) :]
            self._guest.channel.serve()

    def hear(self) -> dict[str, Any]:
        return self._connection.answer(1.0)

    def ask(self, request: object) -> dict[str, Any]:
        self.tell(request)
        return self.hear()


@pytest.fixture
def guest(tmp_path: Path) -> Iterator[Guest]:
    made = Guest(tmp_path)
    with made.channel:
        yield made
    made.leave()
    assert made.listeners() == []


def test_a_laboratory_is_listed_while_it_runs_and_shown_from_its_last_state(guest: Guest) -> None:
    guest.channel.serve()
    assert guest.listeners() == []
    guest.state(1, zero_ns=None)
    visitor = guest.visit()
    assert visitor.ask({"do": "show"})["name"] == guest.name
    with pytest.raises(UserError, match="time has not begun"):
        visitor.ask({"do": "watch", "every_ms": 100})
    with pytest.raises(UserError, match="time has not begun"):
        visitor.ask(SET)
    guest.state(1)
    assert visitor.ask({"do": "show"})["zero_ns"] == 10
    (guest.told / MAPS).write_text('{"maps": []}\n')
    assert visitor.ask({"do": "maps"}) == {"maps": []}
    with pytest.raises(UserError, match="run: is not for a laboratory in virtual time"):
        visitor.ask({"do": "run", "host": "client", "argv": ["true"]})
    with pytest.raises(UserError, match="a request"):
        visitor.ask([1])
    assert guest.changes() == []
    guest.end()
    with pytest.raises(LaboratoryGoneError):
        visitor.hear()
    assert guest.listeners() == []


def test_who_watches_gets_each_new_sample_once(guest: Guest) -> None:
    guest.state(1)
    visitor = guest.visit()
    assert visitor.ask({"do": "watch", "every_ms": 100}) == {"watching": {"every_ms": 500}}
    for number in (1, 1, 2):
        guest.state(1, sample={"links": [], "number": number})
    assert [visitor.hear()["number"] for _ in range(2)] == [1, 2]
    with pytest.raises(TimeoutError):
        visitor.hear()


def test_a_change_goes_to_the_guest_and_its_answer_back(guest: Guest) -> None:
    guest.state(1)
    one, other = guest.visit(), guest.visit()
    one.tell(SET)
    other.tell(REBIND)
    assert guest.changes() == [{"lab": 1, "at_ns": 0, "request": SET}, {"lab": 1, "at_ns": 0, "request": REBIND}]
    guest.answer(1, SET, {"ok": True})
    guest.answer(1, REBIND, {"error": "with nat the server is this machine"})
    assert one.hear() == {"ok": True}
    with pytest.raises(UserError, match="with nat the server"):
        other.hear()
    with pytest.raises(UserError, match="at most 63 KiB: use a shorter pattern"):
        one.ask({**SET, "key": "pattern", "value": "x" * (1 << 16)})


def test_the_next_laboratory_of_a_guest_gets_no_answer_of_the_last_one(guest: Guest) -> None:
    guest.state(1)
    guest.visit().tell(SET)
    guest.state(2)
    visitor = guest.visit()
    visitor.tell(REBIND)
    guest.answer(1, SET, {"ok": 1})
    guest.answer(2, REBIND, {"ok": 2})
    assert visitor.hear() == {"ok": 2}
    assert guest.changes()[-1] == {"lab": 2, "at_ns": 0, "request": REBIND}


def test_a_state_that_is_none_or_not_whole_is_passed_over(guest: Guest) -> None:
    for text in ("no json", "[]", '{"lab": 1}', '{"lab": 1'):
        guest.write(text)
        assert guest.listeners() == []
    guest.state(1)
    visitor = guest.visit()
    whole = (guest.told / STATE).read_text().partition("\n")[0]
    guest.write(whole.replace('"end_ns": 1', '"end_ns": 2').replace('"zero_ns": 10', '"zero_ns": 11'))
    assert visitor.ask({"do": "show"})["zero_ns"] == 10, "a state that is being written is passed over"
    with (guest.told / ANSWERS).open("a") as stream:
        stream.write("no answer\n")
    assert visitor.ask({"do": "show"})["name"] == guest.name


def test_changes_of_the_first_run_are_repeated_at_their_times_and_no_others_taken(tmp_path: Path) -> None:
    guest = Guest(tmp_path, made_changes('{"at_ns":1500,"request":{"do":"rebind"}}\n'))
    with guest.channel:
        assert guest.changes() == [{"lab": 1, "at_ns": 1500, "request": REBIND}]
        guest.state(1)
        with pytest.raises(UserError, match="repeats the changes of its first run"):
            guest.visit().ask(SET)
    guest.leave()
    with pytest.raises(StrangerError):
        made_changes("none\n")


def test_the_changes_of_a_trial_are_kept_and_told_and_ticks_make_it_inexact(tmp_path: Path) -> None:
    answers, kept = tmp_path / ANSWERS, tmp_path / "changes.jsonl"
    first = json.dumps({"lab": 1, "at_ns": 500, "request": SET, "answer": {"ok": True}}) + "\n"
    answers.write_text(first)
    assert kept_changes(answers, len(first), kept) == 0
    assert not kept.exists()
    answers.write_text(first + json.dumps({"lab": 2, "at_ns": 7, "request": REBIND, "answer": {"ok": True}}) + "\n")
    assert kept_changes(answers, len(first), kept) == 1
    assert made_changes(kept.read_text()) == [Made(7, REBIND)]
    assert exactness(0, lambda: (0, "")).holds
    changed = exactness(0, lambda: (0, ""), 2)
    assert changed.holds
    assert changed.evidence.endswith("; changes made from outside, which a rerun repeats: 2")
    ticked = exactness(0, lambda: (3, "python"), 2)
    assert (ticked.holds, ticked.code) == (False, "exact")
    assert ticked.evidence.startswith("not exact: python computed for 2 s without the kernel, 3 times; ")
