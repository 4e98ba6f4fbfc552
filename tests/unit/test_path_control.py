"""The conversation with a laboratory, against a socket that plays one."""

from __future__ import annotations

import json
import os
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from wavebed.errors import UserError
from wavebed.lab.errors import LaboratoryGoneError, LaboratoryHungError
from wavebed.path.control import Connection

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = f"play-{os.getpid()}"


class Play:
    """A laboratory that gives the same bytes to whatever it is asked."""

    def __init__(self, answer: bytes) -> None:
        self.asked: list[object] = []
        self.files: list[int] = []
        self._answer = answer
        self.client, self._socket = socket.socketpair()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        with self._socket as connection:
            data, self.files, _, _ = socket.recv_fds(connection, 1 << 16, 8)
            if data:
                self.asked.append(json.loads(data))
                connection.sendall(self._answer)

    def wait(self) -> None:
        """Wait until it has answered and gone."""
        self._thread.join(60)

    def close(self) -> None:
        self.client.close()
        self.wait()
        for file in self.files:
            os.close(file)


@pytest.fixture
def play() -> Iterator[list[Play]]:
    plays: list[Play] = []
    yield plays
    for each in plays:
        each.close()


def connect(play: list[Play], answer: bytes) -> Connection:
    play.append(Play(answer))
    return Connection(NAME, play[-1].client)


def test_an_answer_is_one_line(play: list[Play]) -> None:
    with connect(play, b'{"pid": 3}\n{"exit": 0}\n') as connection:
        assert connection.ask({"do": "run"}, [0, 1, 2]) == {"pid": 3}
        assert connection.answer(1) == {"exit": 0}
    play[0].wait()
    assert play[0].asked == [{"do": "run"}]
    assert len(play[0].files) == 3


def test_a_refusal_names_the_laboratory(play: list[Play]) -> None:
    with connect(play, b'{"error": "no such link"}\n') as connection, pytest.raises(UserError) as refusal:
        connection.ask({"do": "set"})
    assert str(refusal.value) == f"{NAME}: no such link"


def test_an_end_in_the_middle_is_said(play: list[Play]) -> None:
    with connect(play, b'{"half') as connection, pytest.raises(LaboratoryGoneError, match="has ended"):
        connection.ask({"do": "show"})


def test_a_laboratory_that_does_not_answer_hangs_and_its_owner_hears_of_it() -> None:
    ours, theirs = socket.socketpair()
    heard: list[str] = []
    with theirs, Connection(NAME, ours, 0.05, heard.append) as connection:
        with pytest.raises(LaboratoryHungError, match=r"did not answer 'show' within 0\.05 s"):
            connection.ask({"do": "show"})
        # What is sent waits no longer than what is received: nobody reads these 8 MB.
        with pytest.raises(LaboratoryHungError, match="did not answer 'set'"):
            connection.ask({"do": "set", "value": "x" * (8 << 20)})
    assert len(heard) == 2


def test_an_answer_of_one_that_has_gone_since_still_counts(play: list[Play]) -> None:
    def send_and_wait_for_the_end(*arguments: object) -> int:
        sent = send_fds(*arguments)  # type: ignore[arg-type]
        play[0].wait()
        return sent

    send_fds = socket.send_fds
    with connect(play, b'{"pid": 3}\n') as connection, pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "send_fds", send_and_wait_for_the_end)
        assert connection.ask({"do": "run"}, [0]) == {"pid": 3}


def test_a_conversation_that_was_ended_here_says_that_the_laboratory_is_gone(play: list[Play]) -> None:
    connection = connect(play, b"")
    connection.close()
    with pytest.raises(LaboratoryGoneError):
        connection.answer(0.001)
