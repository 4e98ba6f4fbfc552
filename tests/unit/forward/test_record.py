"""The folder of a forwarding test: whole, readable without wavebed, and read back as it was."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace
from tests.unit.forward.example import device, record

import wavebed
from wavebed.errors import UserError, WavebedError
from wavebed.forward.folder import ForwardRun, read_forward, write_forward
from wavebed.store.disk import make_new
from wavebed.store.load import load_run

if TYPE_CHECKING:
    from pathlib import Path

    from wavebed.forward.model import ForwardTrial


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    target = tmp_path / "run"
    write_forward(target, record(device("a", 600_000.0, refused=True)), {"iperf3-64.json": b"{}" * 2000})
    return target


def without_sample(trial: ForwardTrial) -> ForwardTrial:
    return trial if trial.counters is None else replace(trial, counters=replace(trial.counters, sample=()))


def test_what_was_written_is_read_back_as_it_was(folder: Path) -> None:
    run = read_forward(folder)
    told = device("a", 600_000.0, refused=True)
    expected = replace(told, trials=tuple(without_sample(trial) for trial in told.trials))
    assert run.result.trials == expected.trials
    assert run.result == expected
    assert run.record.command_line == ("wavebed", "forward", "--dut", "netns", "-o", "out dir")


def test_a_trial_that_measured_nothing_is_read_back_as_it_was(tmp_path: Path) -> None:
    told = device("a", 600_000.0)
    bare = replace(told.trials[0], offered_pps=None, tx=None, rx=None, send=None, counters=None, cpu={})
    write_forward(tmp_path / "run", record(replace(told, trials=(bare,))))
    run = read_forward(tmp_path / "run")
    assert run.result.trials == (bare,)


def test_load_opens_a_forwarding_test(folder: Path) -> None:
    run = wavebed.load(folder)
    assert isinstance(run, ForwardRun)
    trials = run.trials
    assert len(trials) == len(run.result.trials)
    assert set(trials["verdict"]) == {"valid", "invalid"}
    assert (trials["sent"] == trials["received"] + trials["lost"]).all()


def test_the_tables_need_no_wavebed(folder: Path) -> None:
    trials = pq.read_table(folder / "series" / "trials.parquet").to_pylist()
    assert trials[0]["sizes_bytes"] == [1518]
    assert trials[0]["tx_port_tx_packets"] == trials[0]["sent"] == trials[0]["send_frames"]
    refused = [row for row in trials if row["verdict"] == "invalid"]
    assert {row["refusals"][0]["code"] for row in refused} == {"super_packets"}
    sizes = pq.read_table(folder / "series" / "sizes.parquet").to_pylist()
    assert {"trial": 0, "size_bytes": 1518, "frames": trials[0]["received"]} in sizes


def test_outputs_of_other_tools_are_kept_compressed(folder: Path) -> None:
    assert gzip.decompress((folder / "raw" / "iperf3-64.json.gz").read_bytes()) == b"{}" * 2000


def test_run_json_says_what_it_is(folder: Path) -> None:
    told = json.loads((folder / "run.json").read_text())
    assert (told["kind"], told["schema"], told["verdict"]) == ("forward", 2, "suspect")
    assert told["result"]["device"] == "a"
    assert told["result"]["settings"]["seed"] == 1
    assert told["result"]["trials"] == []


def test_a_folder_that_holds_something_is_refused_before_anything_is_measured(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"run: holds a run: name a new folder"):
        make_new(folder)
    (tmp_path / "note").write_text("")
    with pytest.raises(UserError, match=r"holds other files \(.*\): name a new folder"):
        make_new(tmp_path)


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("wavebed.forward.folder.pq.write_table", full)
    with pytest.raises(WavebedError, match=r"run: no space left on device: nothing was kept"):
        write_forward(tmp_path / "run", record(device("a", 600_000.0)))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": 3}, r"is of schema 3; this wavebed reads schema 2"),
        ({"kind": "other"}, r"is not a forwarding test"),
        (
            {"result": {"version": 1}},
            r"is not as documented .*missing required field .*the results are not",
        ),
        ({"versions": []}, r"is not as documented .*versions is a list"),
    ],
)
def test_a_folder_that_cannot_be_read_is_told_in_one_line(
    folder: Path, change: dict[str, object], message: str
) -> None:
    file = folder / "run.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    with pytest.raises(UserError, match=message):
        read_forward(folder)


def test_a_missing_table_is_told(folder: Path) -> None:
    (folder / "series" / "sizes.parquet").unlink()
    with pytest.raises(UserError, match=r"sizes.parquet: is missing: the results are not complete"):
        assert read_forward(folder).result


def test_a_row_that_is_no_trial_is_told_in_one_line(folder: Path) -> None:
    file = folder / "series" / "trials.parquet"
    table = pq.read_table(file)
    purposes = pa.nulls(len(table), pa.string())
    pq.write_table(table.set_column(table.schema.get_field_index("purpose"), "purpose", purposes), file)
    with pytest.raises(
        UserError, match=r"run: trials: purpose: expected `str`, got `null`: the results are not complete"
    ):
        assert read_forward(folder).result


def test_what_reads_runs_of_applications_says_what_this_is(folder: Path) -> None:
    with pytest.raises(UserError, match="is of a forwarding test: use wavebed report"):
        load_run(folder)
