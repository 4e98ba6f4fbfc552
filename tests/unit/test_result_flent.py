"""Trials as data files that the program flent opens."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from wavebed.cli import main
from wavebed.errors import UserError
from wavebed.experiment.store import new_partial
from wavebed.export.flent import export_flent
from wavebed.export.trial import open_trial
from wavebed.result.model import RunRecord, TrialLine, TrialRecord, WorkloadRecord
from wavebed.result.tables import SCHEMAS, write_tables
from wavebed.run.write import open_run, write_run, write_trial
from wavebed.workload.model import Outcome, Series, Span

if TYPE_CHECKING:
    from pathlib import Path


def flow_rows(host: str, cookie: int, mbit_s: float) -> list[dict[str, object]]:
    empty = dict.fromkeys(SCHEMAS["flows"].names)
    return [
        {
            **empty,
            "time_ns": sample * 10_000_000,
            "host": host,
            "cookie": cookie,
            "remote": "198.18.0.2:40000",
            "bytes_acked": round(mbit_s * 1e6 / 8 * sample / 100),
        }
        for sample in range(1001)
    ]


def made(tmp_path: Path, flows: list[tuple[str, float]], rtt_ms: float | None, trials: int = 1) -> Path:
    """A run whose trials have flows (host that sends, Mbit/s) for 10 s, and a ping every 200 ms."""
    folder = tmp_path / "run"
    record = RunRecord("street", "s.toml", "", {}, [], "2026-11-21T10:00:00Z", 1, 1, {"kernel": "6.1"}, {}, [], [])
    open_run(folder, record, "")
    for number in range(1, trials + 1):
        name = f"{number:04}-cubic"
        partial = new_partial(folder, name, "mark")
        times = [probe * 0.2 + 0.1 for probe in range(50)]
        pings = {} if rtt_ms is None else {"ping": [Series("rtt", "ms", times, [rtt_ms] * 50)]}
        tables = write_tables(partial / "series", None, capacity=(), samples=pings, events={})
        rows = [row for cookie, (host, rate) in enumerate(flows) for row in flow_rows(host, cookie, rate)]
        pq.write_table(tables["flows"].from_pylist(rows, schema=SCHEMAS["flows"]), partial / "series/flows.parquet")
        trial = TrialRecord(
            name, 1, "cubic", 7, "2026-11-21T10:00:01+00:00", 12.0, "valid",
            workloads=[WorkloadRecord("ping", "latency", Span(0.0, 10.0, False), Outcome())],
        )  # fmt: skip
        write_trial(folder, partial, trial)
        record.trials.append(TrialLine(name, 1, "cubic", 7, "valid"))
    write_run(folder, record)
    return folder


def test_a_step_without_a_ping_is_null_in_the_file(tmp_path: Path) -> None:
    run = made(tmp_path, [("server", 30.0)], None)
    file = tmp_path / "street.flent.gz"
    export_flent(open_trial(run), file)
    data = json.loads(gzip.decompress(file.read_bytes()))
    assert data["version"] == 4
    assert "Ping (ms) ICMP" not in data["results"]
    assert all(len(values) == len(data["x_values"]) for values in data["results"].values())


def test_a_trial_is_named_where_there_are_several(tmp_path: Path) -> None:
    run = made(tmp_path, [], 40.0, trials=2)
    file = tmp_path / "street.flent.gz"
    with pytest.raises(UserError, match=r"has 2 trials: name one by --trial \(0001-cubic, 0002-cubic\)"):
        export_flent(open_trial(run), file)
    assert export_flent(open_trial(run, "0002-cubic"), file) == "ping"
    assert export_flent(open_trial(run / "trials" / "0001-cubic"), file) == "ping"


def test_what_flent_could_not_plot_is_refused(tmp_path: Path) -> None:
    run = made(tmp_path, [], None)
    with pytest.raises(UserError, match="neither TCP flows nor pings"):
        export_flent(open_trial(run), tmp_path / "a.flent.gz")
    with pytest.raises(UserError, match=r"the ending \.flent\.gz"):
        export_flent(open_trial(run), tmp_path / "a.json")


def test_the_command_says_which_test_it_wrote_on_standard_error(tmp_path: Path, capsys) -> None:
    run = made(tmp_path, [("server", 30.0)], 40.0)
    file = tmp_path / "street.flent.gz"
    assert main(["export", str(run), "-o", str(file)]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == f"{file}: as flent's test tcp_ndown\n"
    assert main(["export", str(tmp_path), "-o", str(file)]) == 2
