"""Taking connections while the process has no descriptor for one."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest
from tests.descriptors import no_descriptors

from wavebed.accept import accept

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        made.settimeout(60)
        yield made


def test_a_connection_for_which_there_is_no_descriptor_waits_for_one(listener: socket.socket) -> None:
    with socket.create_connection(listener.getsockname()) as client:
        with no_descriptors():
            assert accept(listener) is None
        taken = accept(listener)
        assert taken is not None
        connection, address = taken
        with connection:
            assert address == client.getsockname()


def test_nobody_within_the_timeout_is_none(listener: socket.socket) -> None:
    listener.settimeout(0.01)
    assert accept(listener) is None


def test_a_listener_that_is_closed_is_an_error(listener: socket.socket) -> None:
    listener.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        accept(listener)
