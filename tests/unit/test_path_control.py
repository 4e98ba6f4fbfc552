"""The conversation with a laboratory, against a socket that plays one."""

from __future__ import annotations

import json
import os
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from wavebed.errors import UserError
from wavebed.path.control import Connection, LaboratoryGoneError, socket_address

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = f"play-{os.getpid()}"


class Play:
    """A laboratory that gives the same bytes to whatever it is asked."""

    def __init__(self, answer: bytes) -> None:
        self.asked: list[object] = []
        self.files: list[int] = []
        self._answer = answer
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(f"\0wavebed/{os.geteuid()}/{NAME}")
        self._socket.listen()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        connection, _ = self._socket.accept()
        with connection:
            data, self.files, _, _ = socket.recv_fds(connection, 1 << 16, 8)
            if data:
                self.asked.append(json.loads(data))
                connection.sendall(self._answer)

    def wait(self) -> None:
        """Wait until it has answered and gone."""
        self._thread.join(5)

    def close(self) -> None:
        self.wait()
        self._socket.close()
        for file in self.files:
            os.close(file)


@pytest.fixture
def play() -> Iterator[list[Play]]:
    plays: list[Play] = []
    yield plays
    for each in plays:
        each.close()


def test_an_answer_is_one_line(play: list[Play]) -> None:
    play.append(Play(b'{"pid": 3}\n{"exit": 0}\n'))
    with Connection(NAME) as connection:
        assert connection.ask({"do": "run"}, [0, 1, 2]) == {"pid": 3}
        assert connection.answer(1) == {"exit": 0}
        assert connection.listener_pid == os.getpid()
    play[0].close()
    assert play[0].asked == [{"do": "run"}]
    assert len(play[0].files) == 3
    play[0].files.clear()


def test_a_refusal_names_the_laboratory(play: list[Play]) -> None:
    play.append(Play(b'{"error": "no such link"}\n'))
    with Connection(NAME) as connection, pytest.raises(UserError, match=f"{NAME}: no such link"):
        connection.ask({"do": "set"})


def test_an_end_in_the_middle_is_said(play: list[Play]) -> None:
    play.append(Play(b'{"half'))
    with Connection(NAME) as connection, pytest.raises(LaboratoryGoneError, match="has ended"):
        connection.ask({"do": "show"})


def test_nobody_there_is_said() -> None:
    with pytest.raises(UserError, match="'nobody-here' is no running laboratory"):
        Connection("nobody-here")


def test_an_address_belongs_to_a_user() -> None:
    assert socket_address("x") == f"\0wavebed/{os.geteuid()}/x"


def test_an_answer_of_one_that_has_gone_since_still_counts(play: list[Play]) -> None:
    play.append(Play(b'{"pid": 3}\n'))

    def send_and_wait_for_the_end(*arguments: object) -> int:
        sent = send_fds(*arguments)  # type: ignore[arg-type]
        play[0].wait()
        return sent

    send_fds = socket.send_fds
    with Connection(NAME) as connection, pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "send_fds", send_and_wait_for_the_end)
        assert connection.ask({"do": "run"}, [0]) == {"pid": 3}


def test_a_conversation_that_was_ended_here_says_that_the_laboratory_is_gone(play: list[Play]) -> None:
    play.append(Play(b""))
    connection = Connection(NAME)
    connection.close()
    with pytest.raises(LaboratoryGoneError):
        connection.answer(0.001)
