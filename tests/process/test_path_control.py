"""The conversation with a laboratory, against a socket that plays one."""

from __future__ import annotations

import os
import socket

import pytest
from tests.unit.test_path_control import NAME

from wavebed.errors import UserError
from wavebed.path import control
from wavebed.path.control import Running, connect_to, running

RANDOM = "0123456789abcdef0123456789abcdef"


def listen(uid: int, name: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(f"\0wavebed/{uid}/{name}/{RANDOM}")
    listener.listen()
    return listener


def test_nobody_there_is_said() -> None:
    with pytest.raises(UserError, match="'nobody-here' is no running laboratory"):
        connect_to("nobody-here")


def test_a_laboratory_is_found_by_the_user_who_listens() -> None:
    uid = os.geteuid()
    with listen(uid, NAME), listen(uid + 1, NAME), listen(uid + 1, f"{NAME}-stolen"):
        mine = [lab for lab in running() if lab.name.startswith(NAME)]
        assert mine == [Running(NAME, uid, f"wavebed/{uid}/{NAME}/{RANDOM}")]
        connect_to(NAME).close()
        with pytest.raises(UserError, match="is no running laboratory"):
            connect_to(f"{NAME}-stolen")


def test_a_name_that_changed_hands_since_it_was_listed_is_not_spoken_to(monkeypatch: pytest.MonkeyPatch) -> None:
    uid = os.geteuid()
    stolen = Running(NAME, uid + 1, f"wavebed/{uid + 1}/{NAME}/{RANDOM}")
    monkeypatch.setattr(control, "running", lambda: [stolen])
    with listen(uid + 1, NAME), pytest.raises(UserError, match="is no running laboratory"):
        connect_to(NAME)


def test_a_name_of_several_users_is_ambiguous_and_ones_own_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    uid = os.geteuid()
    others = [Running(NAME, uid + 1, "x"), Running(NAME, uid + 2, "x")]
    monkeypatch.setattr(control, "running", lambda: others)
    with pytest.raises(UserError, match=rf"the users {uid + 1}, {uid + 2} run laboratories of this name"):
        connect_to(NAME)
    own = Running(NAME, uid, f"wavebed/{uid}/{NAME}/{RANDOM}")
    monkeypatch.setattr(control, "running", lambda: [*others, own])
    with listen(uid, NAME):
        connect_to(NAME).close()
