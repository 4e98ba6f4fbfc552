"""Trials as data files that the program flent opens."""

from __future__ import annotations

import csv
import gzip
import io
import json
import subprocess
import sys
from pathlib import Path

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

FLENT = Path(sys.executable).with_name("flent")
"""The program of the development group; it is run, never imported."""


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


def flent(*arguments: object) -> str:
    done = subprocess.run([FLENT, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "rror" not in done.stderr
    return done.stdout


def columns(text: str) -> dict[str, list[float]]:
    """What ``-f csv`` prints, after the line with flent's version."""
    rows = list(csv.DictReader(io.StringIO(text.partition("\n")[2])))
    return {name: [float(row[name]) for row in rows if row[name]] for name in rows[0]}


def test_flent_reads_the_throughput_of_each_flow_and_the_ping(tmp_path: Path) -> None:
    run = made(tmp_path, [("server", 30.0), ("server", 20.0)], 40.0)
    file = tmp_path / "street.flent.gz"
    assert export_flent(open_trial(run), file) == "tcp_ndown"
    read = columns(flent(file, "-f", "csv"))
    # Samples are 10 ms apart and steps 200 ms: every step's rate is that of the flow.
    assert read["TCP download::1"] == pytest.approx([30.0] * 50, abs=0.01)
    assert read["TCP download::2"] == pytest.approx([20.0] * 50, abs=0.01)
    assert read["TCP download sum"] == pytest.approx([50.0] * 50, abs=0.01)
    assert read["Ping (ms) ICMP"] == pytest.approx([40.0] * 50)
    summary = flent(file, "-f", "summary")
    assert "street cubic" in summary
    assert "50.00" in summary


def test_flent_draws_the_plot_of_the_test(tmp_path: Path) -> None:
    run = made(tmp_path, [("server", 30.0)], 40.0)
    file, picture = tmp_path / "street.flent.gz", tmp_path / "totals.svg"
    export_flent(open_trial(run), file)
    flent(file, "-p", "totals", "-o", picture)
    assert "Download" in picture.read_text()


@pytest.mark.parametrize(
    ("flows", "test"),
    [
        ([("client", 9.0)], "tcp_nup"),
        ([("client", 9.0), ("server", 9.0)], "tcp_bidirectional"),
        ([], "ping"),
    ],
)
def test_the_flent_test_is_the_one_whose_plots_fit(flows: list[tuple[str, float]], test: str, tmp_path: Path) -> None:
    run = made(tmp_path, flows, 40.0)
    file = tmp_path / "street.flent.gz"
    assert export_flent(open_trial(run), file) == test
    read = columns(flent(file, "-f", "csv"))
    assert read["Ping (ms) ICMP"] == pytest.approx([40.0] * 50)
    throughputs = [name for name in read if name.startswith("TCP") and name[-3:] not in ("avg", "sum", "ess")]
    assert len(throughputs) == len(flows)
    assert all(read[name] == pytest.approx([9.0] * 50, abs=0.01) for name in throughputs)


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
