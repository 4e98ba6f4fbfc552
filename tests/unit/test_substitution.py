"""Pipes that a shell passes as files can be read more than once, and by other programs."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from wavebed.cli.process import keep_pipes
from wavebed.errors import UserError
from wavebed.foreign import folder_of, openable, read_text

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def pipe() -> Iterator[int]:
    reading, writing = os.pipe()
    os.write(writing, b"title = 'x'\n")
    os.close(writing)
    yield reading
    with suppress(OSError):
        os.close(reading)


@pytest.mark.parametrize("form", ["/dev/fd/{}", "/proc/self/fd/{}", "--trace=/dev/fd/{}", "path.trace=/dev/fd/{}"])
def test_a_pipe_that_an_argument_names_is_read_more_than_once(pipe: int, form: str) -> None:
    keep_pipes(["shell", form.format(pipe)])
    name = Path(f"/dev/fd/{pipe}")
    assert [read_text(each, "") for each in (name, name, openable(name))] == ["title = 'x'\n"] * 3
    assert os.get_inheritable(pipe), "a program that takes this one's place has it too"


def test_a_pipe_of_the_command_after_two_dashes_stays(pipe: int) -> None:
    keep_pipes(["shell", "--", "cat", f"/dev/fd/{pipe}"])
    assert os.read(pipe, 100) == b"title = 'x'\n"


def test_a_pipe_with_too_much_in_it_is_refused(pipe: int) -> None:
    with pytest.raises(UserError, match=rf"^/dev/fd/{pipe}: is larger than 5 bytes: name a smaller file$"):
        keep_pipes([f"/dev/fd/{pipe}"], most_bytes=5)


@pytest.mark.parametrize("name", ["/dev/fd/999999", "/dev/fd/99999999999999999999", "/dev/fd/x", "/dev/fd/1/../2", ""])
def test_other_names_are_left_to_those_who_read_them(name: str) -> None:
    keep_pipes([name])


def test_names_in_a_file_from_a_pipe_are_relative_to_the_working_directory() -> None:
    assert folder_of(Path("/dev/fd/63")) == Path()
    assert folder_of(Path("walks/one.toml")) == Path("walks")
    assert openable(Path("walks/one.csv")) == Path("walks/one.csv")
