"""Tables and metrics of a trial as CSV."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
import pytest
from tests.unit.export_example import made_run

from wavebed.cli import main
from wavebed.errors import UserError
from wavebed.export.tables_csv import NAMES, export_csv, table_csv
from wavebed.export.trial import open_trial
from wavebed.result.names import TABLES

if TYPE_CHECKING:
    from pathlib import Path


def test_every_table_is_a_file_that_pandas_reads_as_it_was(tmp_path: Path) -> None:
    trial = open_trial(made_run(tmp_path))
    assert export_csv(trial, tmp_path / "csv") == list(NAMES)
    for name in (*TABLES, "blocks"):
        frame = pd.read_csv(tmp_path / "csv" / f"{name}.csv")
        table = trial.table(name).to_pandas()
        assert list(frame.columns) == list(table.columns)
        pd.testing.assert_frame_equal(_known(frame), _known(table), check_dtype=False)


def _known(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.astype(object).where(frame.notna(), None)


def test_a_missing_value_is_empty_and_a_list_is_text(tmp_path: Path) -> None:
    trial = open_trial(made_run(tmp_path))
    metrics = table_csv(trial, "metrics").decode().splitlines()
    assert metrics[1] == '"0001-cubic",1,"cubic",7,"valid","ping","rtt",20,"ms","lower","median, ""as ping"""'
    assert metrics[2] == '"0001-cubic",1,"cubic",7,"valid","ping","loss",,"%","lower",""'
    lines = table_csv(trial, "packets").decode().splitlines()
    assert lines[0].endswith('"drop_reason","blocks","transmissions"')
    of_radio = [line for line in lines if line.startswith('"radio.down"')]
    assert of_radio[1].endswith(',12500000,,,,,"0 1",3')
    assert of_radio[3].endswith(',10000000,,,"overflow",,')


def test_a_trial_without_a_packet_log_has_the_other_tables(tmp_path: Path) -> None:
    trial = open_trial(made_run(tmp_path, packet_log=False))
    assert export_csv(trial, tmp_path / "csv") == ["metrics", *TABLES]
    with pytest.raises(UserError, match="no packet log"):
        table_csv(trial, "packets")


def test_one_table_goes_to_standard_output_or_a_file(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    run = str(made_run(tmp_path))
    assert main(["export", run, "--format", "csv", "--table", "cpu"]) == 0
    expected = b'"time_ns","core","busy","softirq"\n10000000,0,0.5,0.1\n20000000,0,0.25,\n'
    assert capfdbinary.readouterr().out == expected
    file = tmp_path / "cpu.csv"
    assert main(["export", run, "--format", "csv", "--table", "cpu", "-o", str(file)]) == 0
    assert file.read_bytes() == expected
    assert main(["export", run, "--format", "csv", "--table", "cores"]) == 2
    assert b"--table: 'cores' is no table: it must be one of metrics, links, " in capfdbinary.readouterr().err


def test_the_folder_is_named_after_the_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = made_run(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["export", str(run / "trials" / "0001-cubic"), "--format", "csv"]) == 0
    assert (tmp_path / "0001-cubic-csv" / "links.csv").is_file()
    assert capsys.readouterr().err.startswith("0001-cubic-csv: metrics, links, departures, ")
