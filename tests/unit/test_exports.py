"""Trials for other programs: CSV, qlog, and flent."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pandas as pd
import pyarrow.parquet as pq
import pytest
from tests.unit.export_example import ZERO_UNIX_NS, made_run

from wavebed.cli import main
from wavebed.errors import UserError
from wavebed.experiment.store import new_partial
from wavebed.export.flent import export_flent
from wavebed.export.qlog import export_qlog
from wavebed.export.tables_csv import NAMES, export_csv, table_csv
from wavebed.export.trial import open_trial
from wavebed.result.model import RunRecord, TrialLine, TrialRecord, WorkloadRecord
from wavebed.result.names import TABLES
from wavebed.result.tables import SCHEMAS, write_tables
from wavebed.run.write import open_run, write_run, write_trial
from wavebed.workload.model import Outcome, Series, Span

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


ZERO_MS = ZERO_UNIX_NS // 10**6


def sequence(head: dict[str, object], events: list[dict[str, object]]) -> bytes:
    return b"".join(b"\x1e" + json.dumps(record).encode() + b"\n" for record in (head, *events))


def old(common: dict[str, object], times: list[float]) -> bytes:
    """As quic-go wrote it: qlog 0.3, a JSON text sequence."""
    head = {
        "qlog_version": "0.3", "qlog_format": "JSON-SEQ",
        "trace": {"vantage_point": {"type": "client"}, "common_fields": common},
    }  # fmt: skip
    return sequence(head, [{"time": at, "name": "transport:packet_sent", "data": {"raw": 1}} for at in times])


def new(common: dict[str, object], times: list[float]) -> bytes:
    """The current draft, one JSON object."""
    events = [{"time": at, "name": "quic:packet_sent", "data": {}} for at in times]
    trace = {"vantage_point": {"type": "server"}, "common_fields": common, "events": events}
    return json.dumps({
        "file_schema": "urn:ietf:params:qlog:file:contained", "serialization_format": "application/qlog+json",
        "traces": [trace, {"error_description": "no file", "uri": "x"}],
    }).encode()  # fmt: skip


def merged(tmp_path: Path, raw: dict[str, bytes]) -> tuple[dict[str, object], list[str]]:
    trial = open_trial(made_run(tmp_path, raw=raw))
    file = tmp_path / "all.qlog"
    found = export_qlog(trial, file)
    document = json.loads(file.read_text())
    assert found.traces == len(document["traces"])
    assert found.events == sum(len(trace["events"]) for trace in document["traces"])
    return document, found.unmoved


def times(trace: dict[str, object]) -> list[float]:
    return [event["time"] for event in trace["events"]]


def test_relative_times_of_two_files_are_moved_to_time_zero(tmp_path: Path) -> None:
    raw = {
        "get/a.sqlog": old({"time_format": "relative", "reference_time": ZERO_MS + 500.25, "ODCID": "aa"}, [0, 1.5]),
        "get/b.qlog": old({"time_format": "relative", "reference_time": ZERO_MS - 100}, [100.5]),
    }
    document, unmoved = merged(tmp_path, raw)
    assert unmoved == []
    assert (document["qlog_version"], document["qlog_format"]) == ("0.3", "JSON")
    first, second = document["traces"]
    assert times(first) == [500.25, 501.75]
    assert times(second) == [0.5]
    assert first["common_fields"] == {"time_format": "relative", "reference_time": ZERO_MS, "ODCID": "aa"}
    assert first["events"][0]["data"] == {"raw": 1}, "events stay as they are"
    assert first["vantage_point"] == {"type": "client"}


def test_absolute_and_delta_times_are_moved_too(tmp_path: Path) -> None:
    raw = {
        "a.qlog": old({}, [ZERO_MS + 3.0, ZERO_MS + 4.0]),
        "b.qlog": old({"time_format": "delta"}, [ZERO_MS + 3.0, 0.5, 2.0]),
    }
    document, _ = merged(tmp_path, raw)
    assert [times(trace) for trace in document["traces"]] == [[3.0, 4.0], [3.0, 3.5, 5.5]]


def test_the_current_draft_keeps_its_form_with_the_epoch_at_time_zero(tmp_path: Path) -> None:
    reference = {"clock_type": "monotonic", "epoch": "unknown", "wall_clock_time": "2026-11-18T11:06:40.250Z"}
    document, unmoved = merged(tmp_path, {"a.qlog": new({"reference_time": reference}, [10.0])})
    assert unmoved == []
    assert document["file_schema"] == "urn:ietf:params:qlog:file:contained"
    trace = document["traces"][0]
    assert times(trace) == [260.0]
    assert trace["common_fields"]["reference_time"] == {"clock_type": "system", "epoch": "2026-11-18T11:06:40.000000Z"}
    assert trace["common_fields"]["time_format"] == "relative_to_epoch"


@pytest.mark.parametrize(
    "common",
    [{"time_format": "relative"}, {"time_format": "relative", "reference_time": 77_000}, {"time_format": "sundial"}],
)
def test_a_file_whose_clock_is_not_known_keeps_its_times_and_is_named(
    tmp_path: Path, common: dict[str, object]
) -> None:
    document, unmoved = merged(tmp_path, {"get/a.sqlog": old(common, [5.0])})
    assert unmoved == ["get/a.sqlog.gz"]
    assert times(document["traces"][0]) == [5.0]
    assert document["traces"][0]["common_fields"] == common


def test_lines_of_json_and_an_incomplete_last_record_are_read(tmp_path: Path) -> None:
    lines = old({}, [ZERO_MS + 1.0]).replace(b"\x1e", b"")
    cut = old({}, [ZERO_MS + 1.0]) + b'\x1e{"time": 17'
    document, _ = merged(tmp_path, {"a.sqlog": lines, "b.sqlog.gz": gzip.compress(cut)})
    assert [times(trace) for trace in document["traces"]] == [[1.0], [1.0]]


def test_what_is_no_qlog_is_named(tmp_path: Path) -> None:
    for number, content in enumerate((b"", b"[1]", b"{}", b'\x1e{"qlog_version": "0.3"}\n\x1e7\n\x1e{}\n')):
        folder = tmp_path / str(number)
        folder.mkdir()
        trial = open_trial(made_run(folder, raw={"a.qlog": content}))
        with pytest.raises(UserError, match=r"a\.qlog\.gz: is no qlog file"):
            export_qlog(trial, folder / "x.qlog")


def test_versions_are_not_mixed(tmp_path: Path) -> None:
    trial = open_trial(made_run(tmp_path, raw={"a.qlog": old({}, [1.0]), "b.qlog": new({}, [1.0])}))
    with pytest.raises(UserError, match=r"different versions \(a\.qlog\.gz in 0\.3, b\.qlog\.gz in the current one\)"):
        export_qlog(trial, tmp_path / "x.qlog")


def test_a_trial_without_qlog_says_what_would_write_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = made_run(tmp_path)
    assert main(["export", str(run), "--format", "qlog", "-o", str(tmp_path / "x.qlog")]) == 2
    line = capsys.readouterr().err
    assert "no workload has written a qlog file (raw/…/*.qlog, *.sqlog): run a QUIC program that writes them" in line
    assert not (tmp_path / "x.qlog").exists()


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
