"""Frames of an agent, and the files that come from it: hostile input ends in one line."""

from __future__ import annotations

import io
import json
import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavebed.hosts.files import Fetched
from wavebed.hosts.frames import FrameError, encode_frame, read_frame

if TYPE_CHECKING:
    from pathlib import Path


@given(st.dictionaries(st.text(), st.integers() | st.text()), st.binary(max_size=1000))
def test_a_frame_is_read_as_it_was_written(header: dict[str, int | str], payload: bytes) -> None:
    stream = io.BytesIO(encode_frame(header, payload) * 2)
    assert read_frame(stream) == (header, payload)
    assert read_frame(stream) == (header, payload)
    assert read_frame(stream) is None


@given(st.binary(min_size=1, max_size=300))
def test_any_bytes_are_frames_or_one_error(data: bytes) -> None:
    stream = io.BytesIO(data)
    try:
        while read_frame(stream) is not None:
            pass
    except FrameError as error:
        assert "\n" not in str(error)


def test_the_greeting_of_a_login_shell_is_named_as_the_reason() -> None:
    with pytest.raises(FrameError, match="start file of the shell"):
        read_frame(io.BytesIO(b"Welcome to this host!\n"))


@pytest.mark.parametrize("header", [b"[]", b"{", b"1"])
def test_a_header_that_is_no_object_is_refused(header: bytes) -> None:
    with pytest.raises(FrameError, match="no JSON"):
        read_frame(io.BytesIO(struct.pack("<II", len(header), 0) + header))


class Host:
    """An agent that sends files with the names that it is told."""

    name = "server"

    def __init__(self, fetched: Fetched, files: dict[str, bytes]) -> None:
        self._fetched = fetched
        self._files = files

    def ask(self, request: dict[str, object], **limits: float) -> dict[str, object]:
        assert limits["limit_s"] > 0
        for name, content in self._files.items():
            head = {"event": "file", "tag": request["tag"], "name": name, "bytes": len(content)}
            self._fetched.hear(head, b"")
            self._fetched.hear({"event": "piece", "tag": request["tag"], "name": name, "offset": 0}, content)
        return {}


def fetch(folder: Path, files: dict[str, bytes]) -> None:
    fetched = Fetched()
    fetched.fetch(Host(fetched, files), folder, folder, 1.0)  # type: ignore[arg-type]


def test_files_arrive_in_the_folder(tmp_path: Path) -> None:
    fetch(tmp_path, {"irtt.json": json.dumps({"a": 1}).encode(), "below/x": b"y"})
    assert json.loads((tmp_path / "irtt.json").read_text()) == {"a": 1}
    assert (tmp_path / "below" / "x").read_bytes() == b"y"


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x", ""])
def test_a_name_that_leads_out_of_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    with pytest.raises(Exception, match="came as the name of a file"):
        fetch(inside, {name: b"z"})
    assert not (tmp_path / "x").exists()


def test_a_link_in_the_folder_is_not_followed(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "x").symlink_to(tmp_path / "target")
    with pytest.raises(Exception, match="inside/x"):
        fetch(inside, {"x": b"z"})
    assert not (tmp_path / "target").exists()


class LateHost(Host):
    """An agent that answers a request in time, and sends the files of the request before it meanwhile."""

    last: dict[str, object] | None = None

    def ask(self, request: dict[str, object], **limits: float) -> dict[str, object]:
        last, self.last = self.last, request
        return {} if last is None else super().ask(last, **limits)


def test_files_of_a_request_that_was_given_up_are_in_no_later_answer(tmp_path: Path) -> None:
    fetched = Fetched()
    host = LateHost(fetched, {"x": b"y"})
    for _ in range(2):
        fetched.fetch(host, tmp_path, tmp_path, 1.0)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []
