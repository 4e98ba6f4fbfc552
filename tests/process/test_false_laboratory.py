"""What a false laboratory answers: drips, floods and nonsense are one error each, in bounded time and memory."""

from __future__ import annotations

import argparse
import ast
import json
import socket
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
from tests.played_lab import PlayedLab

import wavebed
from wavebed.cli import ctl, main
from wavebed.errors import UserError, WavebedError
from wavebed.lab.protocol import LaboratoryGoneError, LaboratoryHungError, LaboratoryMalformedError
from wavebed.path import live
from wavebed.path.control import MOST_ANSWER_BYTES, ControlConnection, Running, Watch
from wavebed.ui import events, prometheus
from wavebed.ui.guard import Labs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wavebed.config.data import Json

NAME = "walk"
LONG_S = 60.0


class False_(threading.Thread):  # noqa: N801 - what it is
    """A laboratory that answers a request with bytes, and then repeats others until nobody reads them."""

    def __init__(self, answer: bytes, then: bytes = b"", every_s: float = 0.0) -> None:
        super().__init__(daemon=True)
        self._answer, self._then, self._every_s = answer, then, every_s
        self.client, self._server = socket.socketpair()
        self.sent = 0
        self.start()

    def run(self) -> None:
        with self._server, suppress(OSError):
            self._server.recv(1 << 16)
            self._server.sendall(self._answer)
            while self._then:
                self.sent += self._server.send(self._then)
                time.sleep(self._every_s)
            self._server.recv(1 << 16)


@contextmanager
def answering(answer: bytes, then: bytes = b"", every_s: float = 0.0) -> Iterator[tuple[ControlConnection, False_]]:
    laboratory = False_(answer, then, every_s)
    with ControlConnection(NAME, laboratory.client) as connection:
        yield connection, laboratory
    laboratory.join(LONG_S)
    assert not laboratory.is_alive()


def line(value: object) -> bytes:
    return json.dumps(value).encode() + b"\n"


@pytest.mark.parametrize("answer", [b"", b"{", b'{"name": "', b"\r"])
@pytest.mark.parametrize("drip", [b" ", b"x" * 100])
def test_an_answer_that_drips_ends_with_the_limit_of_the_whole(answer: bytes, drip: bytes) -> None:
    with answering(answer, drip, 0.01) as (connection, _):
        with pytest.raises(LaboratoryHungError, match=r"did not answer 'show' within 0\.3 s"):
            connection.ask({"do": "show"}, limit_s=0.3)
        with pytest.raises(LaboratoryHungError):
            connection.ask({"do": "show"})


def test_a_watch_that_drips_says_that_no_sample_came() -> None:
    with answering(b"", b" ", 0.01) as (connection, _), pytest.raises(TimeoutError):
        connection.answer(0.3)


@pytest.mark.parametrize("flood", [b"x" * (1 << 20), b" " * (1 << 20), b"[" * (1 << 20)])
def test_a_flood_ends_at_the_longest_line(flood: bytes) -> None:
    with answering(b"", flood) as (connection, laboratory), pytest.raises(LaboratoryMalformedError, match="16 MiB"):
        connection.ask({"do": "show"}, limit_s=LONG_S)
    assert laboratory.sent < 2 * MOST_ANSWER_BYTES


def test_a_line_just_above_the_longest_is_refused_though_it_has_an_end() -> None:
    answer = b'{"a": "' + b"x" * MOST_ANSWER_BYTES + b'"}\n'
    with answering(answer) as (connection, _), pytest.raises(LaboratoryMalformedError, match="16 MiB"):
        connection.ask({"do": "show"}, limit_s=LONG_S)


NONSENSE = [
    b"[1,2\n", b"5\n", b"[]\n", b"null\n", b'"x"\n', b"\n", b"\xff\n", b'{"a": NaN}\n', b'{"a": 1e999}\n', b'{"a": \n',
    b'{"error": 5}\n', b'{"error": {"a": 1}}\n', b"[" * 100_000 + b"\n", b'{"a":' * 100_000 + b"\n", b"\0\n",
    b'{"a": 1} {"b": 2}\n', b'{1: 2}\n', b'{"a": "\\ud800"}\n',
]  # fmt: skip


@pytest.mark.parametrize("answer", NONSENSE, ids=lambda answer: repr(answer[:12]))
def test_nonsense_is_one_error_of_one_line_and_the_last_of_its_connection(answer: bytes) -> None:
    with answering(answer + b'{"ok": true}\n') as (connection, _):
        with pytest.raises(LaboratoryMalformedError, match="'walk' sent no answer") as error:
            connection.ask({"do": "show"})
        assert len(str(error.value).splitlines()) == 1
        assert len(str(error.value)) < 400
        with pytest.raises(LaboratoryGoneError):
            connection.ask({"do": "show"})


def test_a_refusal_is_not_endless() -> None:
    with answering(line({"error": "x" * (1 << 20)})) as (connection, _), pytest.raises(UserError) as error:
        connection.ask({"do": "set"})
    assert len(str(error.value)) < 3000


SHOWN = cast("dict[str, Json]", PlayedLab(NAME, timed=True).show())
WRONG: list[Json] = [None, 5, "x", [], [5], [None], {}, {"a": 1}, [{}], True]


@pytest.mark.parametrize(
    "wrong", [{"name": "a --privileged"}, {"name": "a\n"}, {"ipv4": "10.0.0.1 --volume=/:/all"}, {"ipv4": "::1"}]
)
def test_no_option_of_podman_comes_from_a_laboratory(wrong: dict[str, Json]) -> None:
    (host, *_) = cast("list[dict[str, Json]]", SHOWN["hosts"])
    right = {**host, "name": "server", "ipv4": "10.0.0.1"}
    with answering(line({**SHOWN, "hosts": [right]})) as (connection, _):
        found = live.podman_options(connection, "/proc/1/fd/2")
        assert found == ["--network=ns:/proc/1/fd/2", "--add-host=server:10.0.0.1", "--dns=none"]
    with (
        answering(line({**SHOWN, "hosts": [right | wrong]})) as (connection, _),
        pytest.raises(LaboratoryMalformedError),
    ):
        live.podman_options(connection, "/proc/1/fd/2")


def wrong_states() -> Iterator[dict[str, Json]]:
    for key in SHOWN:
        yield from ({**SHOWN, key: value} for value in WRONG if value != SHOWN[key])
    for key in ("name", "links", "hosts", "hops"):
        yield {other: value for other, value in SHOWN.items() if other != key}
    (link, *_) = cast("list[dict[str, Json]]", SHOWN["links"])
    for key in link:
        yield from ({**SHOWN, "links": [{**link, key: value}]} for value in WRONG)
    yield {**SHOWN, "name": "another"}
    yield {**SHOWN, "more": 1}
    yield {**SHOWN, "frames": [{"from": "a"}]}
    yield {**SHOWN, "frames": [{"dropped_frames": "x"}]}
    yield {**SHOWN, "links": [{**link, "waited_ns": 10**400, "rate_bps": -(10**400)}]}


class Played:
    """Laboratories that a test plays, as `wavebed.ui.command` has them."""

    def __init__(self, *laboratories: Callable[[], ControlConnection]) -> None:
        self._laboratories = laboratories
        self.opened = 0

    def running(self) -> list[Running]:
        return [Running(NAME, number, "x") for number in range(len(self._laboratories))]

    def open(self, lab: Running) -> ControlConnection:
        self.opened += 1
        return self._laboratories[lab.uid]()


def test_every_wrong_state_is_understood_or_one_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `ctl` and `/metrics` use it; neither fails otherwise."""
    given = {"json": False, "all_users": False, "podman": False, "lab": NAME, "changes": []}
    for state in wrong_states():
        answer = line(state)
        labs = Played(lambda answer=answer: ControlConnection(NAME, False_(answer).client))  # type: ignore[misc]
        assert prometheus.metrics(cast("Labs", labs)).startswith(b"# HELP wavebed_link")
        monkeypatch.setattr(ctl, "connect_to", lambda *_, labs=labs, **__: labs.open(labs.running()[0]))
        for action in ("show", "timeline"):
            with suppress(LaboratoryMalformedError, UserError):
                ctl.run_ctl(argparse.Namespace(**given, action=action))
    capsys.readouterr()


@pytest.mark.parametrize("wrong", [{}, {"maps": 5}, {"maps": [{}]}, {"timeline": 5}, {"watching": {}}, {"watching": 5}])
def test_other_answers_of_wrong_form_are_the_same_error(wrong: dict[str, Json]) -> None:
    uses: list[Callable[[ControlConnection], object]] = [
        live.maps, Watch, live.state, lambda connection: live.control_timeline(connection, {"do": "timeline"}),
    ]  # fmt: skip
    for use in uses:
        with answering(line(wrong)) as (connection, _), pytest.raises(LaboratoryMalformedError):
            use(connection)


HEAD: dict[str, Json] = {
    "links": ["a.down"], "directions": ["a-b.down"], "link_columns": ["at_ns"],
    "direction_columns": ["transit_ns", "n"],
    "every_ms": 10, "zero_ns": 0,
}  # fmt: skip


@pytest.mark.parametrize(
    "sample",
    [
        {}, {"links": [], "directions": [], "lost": 0}, {"links": [[]], "directions": [[1, 1]], "lost": 0},
        {"links": [[1]], "directions": [[1]], "lost": 0}, {"links": [["x"]], "directions": [[1, 1]], "lost": 0},
        {"links": [[None]], "directions": [[1, 1]], "lost": 0}, {"links": [[5]], "directions": [["x", "y"]], "lost": 0},
        {"links": [[10**400]], "directions": [[1, 10**400]], "lost": 0},
    ],
)  # fmt: skip
def test_a_stream_of_wrong_samples_ends_with_one_event(sample: dict[str, Json]) -> None:
    later = {**sample, "links": [[9 * 10**400]]}
    with answering(line({"watching": HEAD}) + line(sample) + line(later)) as (connection, _):
        streamed = [*events.Streams().open(lambda: Watch(connection))]
    assert streamed[-1].startswith(b'event: end\ndata: {"error":"laboratory')
    assert b"sent no answer" in streamed[-1]


def test_metrics_have_a_limit_of_their_own_whoever_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus, "LAB_S", 0.05)
    monkeypatch.setattr(prometheus, "ALL_S", 0.2)
    walk = PlayedLab(NAME)
    pairs = [socket.socketpair() for _ in range(100)]
    silent = [lambda ours=ours: ControlConnection(NAME, ours) for ours, _ in pairs]  # type: ignore[misc]
    labs = Played(walk.connect, *silent)
    prometheus.metrics(cast("Labs", labs))
    assert labs.opened <= 6, "each silent one takes 0.05 s of 0.2 s"
    for ours, theirs in pairs:
        ours.close()
        theirs.close()


def test_metrics_leave_out_what_is_no_answer_and_have_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus, "LAB_S", 60.0)
    monkeypatch.setattr(prometheus, "ALL_S", 60.0)
    walk = PlayedLab(NAME)
    wrong = [lambda answer=answer: ControlConnection(NAME, False_(answer).client) for answer in NONSENSE]  # type: ignore[misc]
    text = prometheus.metrics(cast("Labs", Played(*wrong, walk.connect, *wrong))).decode()
    assert text.count("wavebed_link_offered_segments_total{") == len(walk.links)


def test_an_error_of_a_stranger_reaches_no_terminal_as_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = line({"error": "radio.down\x1b]0;pwned\x07\x1b[31mRED\nsecond line\u202e"})
    monkeypatch.setattr(ctl, "connect_to", lambda *_, **__: ControlConnection(NAME, False_(answer).client))
    assert main(["ctl", NAME, "set", "rate=1mbit"]) != 0
    told = capsys.readouterr().err
    assert not set(told.removesuffix("\n")) & set("\x1b\x07\n\u202e"), repr(told)


def test_a_page_opens_only_what_is_listed_for_its_own_user(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, object]] = []
    monkeypatch.setattr("wavebed.ui.guard.running", lambda **given: asked.append(given) or [])
    monkeypatch.setattr("wavebed.path.control.running", lambda **given: asked.append(given) or [])
    assert Labs().running() == []
    with pytest.raises(WavebedError, match="no running laboratory"):
        Labs().connect("other")
    assert not any(given.get("all_users") for given in asked)
    assert len(asked) == 2


PACKAGE = Path(wavebed.__file__).parent
READERS = [
    "path/live.py",
    "cli/ctl.py",
    *(f"ui/{file.name}" for file in (PACKAGE / "ui").glob("*.py")),
]


@pytest.mark.parametrize("name", READERS)
def test_no_reader_of_answers_decodes_or_waits_by_itself(name: str) -> None:
    """Answers become values in `wavebed.path.control` only; connections of strangers wait in `wavebed.ui.server`."""
    nodes = [*ast.walk(ast.parse((PACKAGE / name).read_text(encoding="utf-8")))]
    called = {
        node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        for node in nodes
        if isinstance(node, ast.Call)
    }
    forbidden = {"convert", "loads", "recv", "recv_into", "makefile", "settimeout"}
    allowed = {"ui/server.py": {"settimeout", "recv_into"}}
    assert called & forbidden <= allowed.get(name, set())
    if name.startswith("ui/"):
        assert "all_users" not in {node.arg for node in nodes if isinstance(node, ast.keyword)}
