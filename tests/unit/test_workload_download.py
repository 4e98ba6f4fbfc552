"""The keys of `download`, and its file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from wavebed.config.problems import Problem
from wavebed.workload import read_workload
from wavebed.workload.arrivals import Arrivals
from wavebed.workload.download import Download

if TYPE_CHECKING:
    from wavebed.lab.protocol import Clock


def download(**keys: object) -> Download:
    workload = read_workload({"kind": "download", **keys})
    assert isinstance(workload, Download)
    return workload


def test_by_default_two_megabytes_come_by_http_1_1() -> None:
    assert (download().size_bytes, download().protocol) == (2_000_000, "http/1.1")


def test_the_file_has_its_size_and_takes_no_space(tmp_path: Path) -> None:
    workload = download(size="20gb")
    workload.prepare(tmp_path)
    file = tmp_path / "download" / workload.file_name
    assert file.stat().st_size == 20_000_000_000
    assert file.stat().st_blocks < 100
    made = file.stat().st_ino
    download(size="20gb").prepare(tmp_path)
    assert file.stat().st_ino == made
    assert [each.name for each in file.parent.iterdir()] == [file.name]


def test_the_estimate_never_exceeds_the_limit() -> None:
    assert download(size="2gb", limit="40s").expected_s() == 40
    assert download().expected_s() < 3


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ({"size": "0b"}, "size: 0 bytes are not a download"),
        ({"size": 2_000_000}, "size: 2000000 has no unit"),
        ({"protocol": "h3"}, "protocol: 'h3' is not a choice"),
    ],
)
def test_a_wrong_value_is_said_with_its_key(keys: dict[str, object], line: str) -> None:
    with pytest.raises(Problem) as caught:
        download(**keys)
    assert str(caught.value).startswith(line)


@pytest.mark.parametrize(
    ("marks", "line"),
    [
        ("2mb", r"marks: '2mb' is not an array: write sizes, as in \[\"2mb\", \"20mb\"\]"),
        (["2mb", 20], r"marks\[2\]: 20 has no unit"),
        (["2mb", "2mb"], "marks: a size is there twice: leave one out"),
        (["2mb", "200mb"], "marks: 200mb is more than the file has: write at most 20mb"),
        (["0b"], r"marks\[1\]: 0 bytes are not a download"),
    ],
)
def test_wrong_marks_are_said_with_their_key(marks: object, line: str) -> None:
    with pytest.raises(Problem, match=line):
        read_workload({"kind": "download", "size": "20mb", "marks": marks})


class Still:
    """A clock that stands."""

    def now_s(self) -> float:
        return 7.0


def test_a_pipe_is_timed_at_its_first_byte_and_at_each_mark() -> None:
    arrivals = Arrivals([5, 3], cast("Clock", Still()))

    def program(pipe: int) -> int:
        return os.dup(pipe)

    pipe = arrivals.started(program)
    os.write(pipe, b"1234")
    os.close(pipe)
    arrivals.end()
    assert arrivals.first_s == 7.0
    assert arrivals.reached_s == {3: 7.0}


def test_a_program_that_cannot_start_leaves_no_pipe() -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    arrivals = Arrivals([1], cast("Clock", Still()))

    def fail(_pipe: int) -> None:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        arrivals.started(fail)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
