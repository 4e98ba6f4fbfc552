"""The keys of `download`, and its file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from wavebed.config.problems import Problem
from wavebed.workload import read_workload
from wavebed.workload.download import Download

if TYPE_CHECKING:
    from pathlib import Path


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


def test_only_http2_needs_a_certificate(tmp_path: Path) -> None:
    plain, secure = download(), download(protocol="h2")
    plain.prepare(tmp_path)
    assert plain.certificate is None
    secure.prepare(tmp_path)
    assert secure.certificate is not None


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
