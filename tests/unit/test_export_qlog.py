"""The qlog files of a trial's programs, merged on the clock of the trial."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pytest
from tests.unit.export_example import ZERO_UNIX_NS, made_run

from wavebed.cli import main
from wavebed.errors import UserError
from wavebed.export.qlog import export_qlog
from wavebed.export.trial import open_trial

if TYPE_CHECKING:
    from pathlib import Path

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
