"""Whether two runs of a trial are the same: the files that are compared, the first difference, and the inputs."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from wavebed.result.identity import Inputs, compare_trials, digests, input_differences, inputs_json, read_inputs

if TYPE_CHECKING:
    from pathlib import Path

INPUTS = Inputs(
    wavebed="1 abc",
    kernel="7.2-wavebed-1",
    processor="A",
    environment={"PATH": "/bin"},
    files={"/usr/bin/ping": "11" * 32, "/usr/lib/libc.so.6": "22" * 32},
)


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Path, Path]:
    """Return the folders of two runs, which differ in their place and in what computing took."""
    found = []
    for number, name in enumerate(("first", "second"), 1):
        folder = tmp_path / name
        (folder / "series").mkdir(parents=True)
        (folder / "raw").mkdir()
        record = {"folder": f"000{number}-a", "block": number, "attempt": 1, "seed": 7, "metrics": [{"value": 1.5}]}
        (folder / "trial.json").write_text(json.dumps(record))
        (folder / "computing.json").write_text(str(number))
        (folder / "inputs.json").write_bytes(inputs_json(INPUTS))
        (folder / "raw/ping.txt.gz").write_bytes(gzip.compress(b"one\ntwo\n", mtime=0))
        _table(folder, [1, 2, None, 4])
        found.append(folder)
    return found[0], found[1]


def _table(folder: Path, times: list[int | None]) -> None:
    pq.write_table(pa.table({"link": ["a"] * len(times), "time_ns": times}), folder / "series/packets.parquet")


def test_runs_in_another_place_are_identical(runs: tuple[Path, Path]) -> None:
    found = compare_trials(*runs, "runs/a")
    assert found.is_identical
    assert found.text().startswith("identical to runs/a: 3 files compared: series/packets.parquet, raw/ping.txt.gz, ")
    assert found.json()["compared"] == ["series/packets.parquet", "raw/ping.txt.gz", "trial.json"]


@pytest.mark.parametrize(
    ("times", "told"),
    [
        ([1, 2, None, 5], "row 4: time_ns 5 here, 4 there"),
        ([1, 2, 3, 5], "row 3: time_ns 3 here, null there"),
        ([1, 2, None], "row 4: 3 rows here, 4 there"),
    ],
)
def test_the_first_row_that_differs_is_told(runs: tuple[Path, Path], times: list[int | None], told: str) -> None:
    _table(runs[1], times)
    found = compare_trials(*runs, "runs/a")
    assert found.difference == f"series/packets.parquet: {told}"
    assert found.text().splitlines() == [
        "differs from runs/a:",
        "  inputs: none differs",
        f"  first difference: series/packets.parquet: {told}",
    ]


def test_the_first_line_of_a_packed_text_and_the_first_key_that_differ_are_told(runs: tuple[Path, Path]) -> None:
    (runs[1] / "raw/ping.txt.gz").write_bytes(gzip.compress(b"one\nzwei\n", mtime=0))
    assert compare_trials(*runs, "a").difference == "raw/ping.txt.gz: line 2: zwei here, two there"
    (runs[1] / "raw/ping.txt.gz").unlink()
    assert compare_trials(*runs, "a").difference == "raw/ping.txt.gz: is not there in the second run"
    (runs[1] / "raw/ping.txt.gz").write_bytes((runs[0] / "raw/ping.txt.gz").read_bytes())
    (runs[1] / "raw/more.txt").write_text("x")
    assert compare_trials(*runs, "a").difference == "raw/more.txt: is there in the second run only"
    (runs[1] / "raw/more.txt").unlink()
    (runs[1] / "trial.json").write_text((runs[1] / "trial.json").read_text().replace("1.5", "2.5"))
    assert compare_trials(*runs, "a").difference == "trial.json: metrics.1.value: 2.5 here, 1.5 there"


def test_a_file_of_which_only_the_hash_is_known_is_compared_too(runs: tuple[Path, Path]) -> None:
    known = digests(runs[0])
    (runs[0] / "raw/ping.txt.gz").unlink()
    assert compare_trials(*runs, "a", known).is_identical
    (runs[1] / "raw/ping.txt.gz").write_bytes(b"x")
    assert compare_trials(*runs, "a", known).difference == "raw/ping.txt.gz: has another hash"


def test_inputs_that_differ_are_told_first_here_and_then_there(runs: tuple[Path, Path]) -> None:
    files = {"/opt/bin/ping": "11" * 32, "/usr/lib/libc.so.6": "33" * 32, "/usr/lib/new.so": "44" * 32}
    other = replace(INPUTS, kernel="7.2-wavebed-2", processor="B", environment={}, files=files)
    assert input_differences(INPUTS, other) == [
        "kernel: 7.2-wavebed-2 here, 7.2-wavebed-1 there",
        "processor: B here, A there",
        "variable PATH: none here, /bin there",
        "/usr/lib/libc.so.6: 333333333333 here, 222222222222 there",
        "/usr/lib/new.so: opened here only",
    ]
    (runs[1] / "inputs.json").write_bytes(inputs_json(other))
    assert read_inputs(runs[1]) == other
    assert "inputs that differ, without an effect:\n  input: kernel: " in compare_trials(*runs, "a").text()
    _table(runs[1], [2])
    assert compare_trials(*runs, "a").text().splitlines()[1] == (
        "  input: kernel: 7.2-wavebed-2 here, 7.2-wavebed-1 there"
    )


def test_a_run_without_inputs_says_so(runs: tuple[Path, Path]) -> None:
    (runs[0] / "inputs.json").unlink()
    _table(runs[1], [2])
    assert "inputs: the first run did not record them" in compare_trials(*runs, "a").text()
