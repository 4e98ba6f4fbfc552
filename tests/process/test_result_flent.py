"""Trials as files of other programs: flent opens its own, and the report of a run as JSON."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.report_example import write_example
from tests.unit.test_exports import flow_rows, made  # noqa: F401

from wavebed.cli import main
from wavebed.export.flent import export_flent
from wavebed.export.trial import open_trial

FLENT = Path(sys.executable).with_name("flent")
"""The program of the development group; it is run, never imported."""


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


def test_the_report_of_a_run_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_example(tmp_path)
    assert main(["report", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"report": str(folder / "report.html")}
