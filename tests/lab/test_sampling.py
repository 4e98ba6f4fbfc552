"""Samples of connections and processors agree with what the programs say."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, cast

import pytest

from wavebed.errors import UserError
from wavebed.path.api import Path

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path as FilePath


@pytest.fixture
def small(tmp_path: FilePath) -> Iterator[FilePath]:
    """A folder on a disk of 100 kB."""
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=100k", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def test_samples_that_cannot_be_written_are_a_doubt_and_packets_go_on(small: FilePath, tmp_path: FilePath) -> None:
    with Path.of(delay="1ms").up(log=small, sample=True, summary=tmp_path / "summary.json") as lab:
        server = lab.server.start(["iperf3", "-s", "-1"], stdout=subprocess.DEVNULL)
        lab.server.wait_for_port(5201)
        lab.client.run(["iperf3", "-c", "server", "-P", "20", "-t", "1"], check=True, capture_output=True)
        server.wait(30)
        ping = ["ping", "-c1", "-W30", "server"]
        lab.client.run(ping, check=True, capture_output=True)
    assert lab.summary is not None
    doubts = "\n".join(cast("list[str]", lab.summary["doubts"]))
    full = "No space left on device (os error 28): rows are missing"
    assert f"sampler: cannot write {small}/flows.csv: {full}" in doubts
    assert f"series: cannot write {small}/" in doubts
    assert json.loads((tmp_path / "summary.json").read_text())["doubts"] == lab.summary["doubts"]
    assert set(lab.summary["missing"]) <= set(lab.summary["doubts"])
    assert len(lab.summary["missing"]) >= 2


def test_samples_need_a_folder() -> None:
    with pytest.raises(UserError, match="sample: there is nowhere to write to"):
        Path.of(delay="1ms").up(sample=True)
