"""Results: tables, logs of packets, and frames of what a run wrote."""

from __future__ import annotations

import importlib.util
import json
import math
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.result_folders import open_run, write_run
from tests.unit.export_example import RADIO, RADIO_BLOCKS, WIRED, made_run, write_log

import wavebed
from wavebed import load
from wavebed.errors import MachineError, UserError, WavebedError
from wavebed.result.model import RunRecord, TrialLine, TrialRecord, WorkloadRecord
from wavebed.result.names import AIR, TABLES
from wavebed.result.tables import SCHEMAS, packet_tables, write_tables
from wavebed.store.disk import new_partial
from wavebed.store.folder import write_trial
from wavebed.workload.model import Event, Metric, Outcome, Series, TimeSpan


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """A run of two trials; each has two metrics, one of them missing, and two samples."""
    record = RunRecord("two", "two.toml", "", {}, [], "2026-11-21T10:00:00Z", 1, 1, {}, {}, [], [])
    folder = tmp_path / "run"
    open_run(folder, record, "")
    for number, treatment in enumerate(("cubic", "bbr"), start=1):
        name = f"{number:04}-{treatment}"
        partial = new_partial(folder, name, "mark")
        write_tables(
            partial / "series",
            None,
            capacity=[(0.0, "radio.down", number * 10**6, "LOS")],
            samples={"ping": [Series("rtt", "ms", (0.0, 1.0), (40.0, None))]},
            events={},
        )
        outcome = Outcome(metrics=[Metric("rtt p50", None, "ms", "lower", "ping")])
        verdict = "valid" if number == 1 else "invalid"
        trial = TrialRecord(
            name, 1, treatment, 7, "", 1.0, verdict,
            workloads=[WorkloadRecord("ping", "latency", TimeSpan(0.0, 2.0, False), outcome)],
            transport=[Metric("share of capacity used", 90.0 + number, "%", "higher")],
        )  # fmt: skip
        write_trial(folder, partial, trial)
        record.trials.append(TrialLine(name, 1, treatment, 7, verdict))
        write_run(folder, record)
    return folder


def test_every_trial_and_every_metric_has_a_row_whatever_its_verdict(run_dir: Path) -> None:
    run = wavebed.load(run_dir)
    assert run.record.title == "two"
    assert list(run.trials["folder"]) == ["0001-cubic", "0002-bbr"]
    assert list(run.trials["verdict"]) == ["valid", "invalid"]
    metrics = run.metrics
    assert list(metrics.columns) == [
        "folder", "block", "treatment", "seed", "verdict", "workload", "name", "value", "unit", "better", "definition",
    ]  # fmt: skip
    assert list(metrics["workload"]) == ["path", "ping", "path", "ping"]
    assert list(metrics["value"].fillna(-1)) == [91.0, -1, 92.0, -1]
    assert str(metrics["value"].dtype) == "float64"


def test_a_table_of_all_trials_says_which_row_is_whose(run_dir: Path) -> None:
    frame = wavebed.load(str(run_dir)).table("capacity")
    assert list(frame.columns) == ["folder", "block", "treatment", "time_s", "link", "rate_bps", "state"]
    assert list(frame["treatment"]) == ["cubic", "bbr"]
    assert list(frame["rate_bps"]) == [10**6, 2 * 10**6]


def test_a_table_of_one_trial_and_of_some_columns_is_read_alone(run_dir: Path) -> None:
    (run_dir / "trials/0001-cubic/series/samples.parquet").unlink()
    frame = wavebed.load(run_dir).table("samples", trial="0002-bbr", columns=["time_s", "value"])
    assert list(frame.columns) == ["folder", "block", "treatment", "time_s", "value"]
    assert list(frame["value"].isna()) == [False, True]


def test_a_run_without_trials_has_empty_tables_and_metrics(run_dir: Path) -> None:
    data = json.loads((run_dir / "run.json").read_text())
    (run_dir / "run.json").write_text(json.dumps({**data, "trials": []}))
    shutil.rmtree(run_dir / "trials")
    run = wavebed.load(run_dir)
    assert len(run.metrics) == len(run.trials) == len(run.table("links")) == 0
    assert list(run.table("cpu").columns) == ["folder", "block", "treatment", "time_ns", "core", "busy", "softirq"]


def test_what_is_not_there_is_named_with_what_is(run_dir: Path) -> None:
    run = wavebed.load(run_dir)
    with pytest.raises(UserError, match="no table 'queues': it must be one of links, departures"):
        run.table("queues")
    with pytest.raises(UserError, match="no trial '0003': it has 0001-cubic, 0002-bbr"):
        run.table("links", trial="0003")
    with pytest.raises(UserError, match="no column 'speed': it must be one of time_s, link, rate_bps, state"):
        run.table("capacity", columns=["speed"])


def test_a_folder_that_holds_no_run_is_refused_in_one_line(tmp_path: Path) -> None:
    alone = tmp_path / "without a run"  # a run beside it would be suggested
    alone.mkdir()
    with pytest.raises(UserError, match=r"has no run.json: name a folder that wavebed run or wavebed forward wrote"):
        wavebed.load(alone)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not JSON"),
        ("[]", "names no schema"),
        ('{"schema": 2}', "is of schema 2; this wavebed reads schema 1: install a newer wavebed"),
        ('{"schema": 1}', "missing required field `title`"),
    ],
)
def test_a_damaged_or_foreign_file_is_refused_in_one_line(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(UserError, match=said):
        wavebed.load(tmp_path)


@pytest.mark.parametrize("number", [2**63, -(2**70)])
def test_a_number_that_no_table_holds_is_refused_in_one_line(number: int, run_dir: Path) -> None:
    data = json.loads((run_dir / "run.json").read_text())
    data["trials"][0]["block"] = number
    (run_dir / "run.json").write_text(json.dumps(data))
    with pytest.raises(UserError, match=r"run\.json: is not as documented .*trials\[0\]\.block"):
        wavebed.load(run_dir)


def test_a_record_whose_parts_are_of_another_kind_is_refused_in_one_line(run_dir: Path) -> None:
    data = json.loads((run_dir / "run.json").read_text())
    (run_dir / "run.json").write_text(json.dumps({**data, "trials": 3}))
    with pytest.raises(UserError, match=r"run\.json: is not as documented"):
        wavebed.load(run_dir)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("treatments", [1], r"Expected `object`, got `int` - at `\$.treatments"),
        ("treatments", [{}], "has no 'name'"),
        ("overrides", [], r"Expected `object`, got `array` - at `\$.overrides`"),
        ("started", 5, r"Expected `str`, got `int` - at `\$.started`"),
        (
            "trials",
            [{"folder": "a", "block": 1, "treatment": "a", "seed": 1, "verdict": "good"}],
            "Invalid enum value 'good'",
        ),
    ],
)
def test_a_run_that_is_not_as_documented_is_refused_in_one_line(
    run_dir: Path, key: str, value: object, said: str
) -> None:
    file = run_dir / "run.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {key: value}))
    with pytest.raises(UserError, match=said):
        wavebed.load(run_dir)


def test_a_metric_that_is_no_number_is_refused_in_one_line(run_dir: Path) -> None:
    file = run_dir / "trials" / "0001-cubic" / "trial.json"
    data = json.loads(file.read_text())
    data["metrics"][0]["value"] = "fast"
    file.write_text(json.dumps(data))
    with pytest.raises(UserError, match=r"trial\.json: is not as documented .*got `str` - at `\$.metrics.*value`"):
        wavebed.load(run_dir).trial("0001-cubic")


def test_a_damaged_table_is_named(run_dir: Path) -> None:
    file = run_dir / "trials/0001-cubic/series/links.parquet"
    file.write_bytes(b"PAR1")
    with pytest.raises(UserError, match=r"links\.parquet: cannot be read"):
        wavebed.load(run_dir).table("links")
    file.unlink()
    with pytest.raises(UserError, match=r"links\.parquet: is missing"):
        wavebed.load(run_dir).table("links")


def test_frames_of_polars_need_polars_and_say_so(run_dir: Path) -> None:
    run = wavebed.load(run_dir)
    if importlib.util.find_spec("polars") is None:
        with pytest.raises(MachineError, match="pip install polars"):
            run.polars("capacity")
    else:
        assert run.polars("capacity")["treatment"].to_list() == ["cubic", "bbr"]


LINK_HEADER = ",".join(name for name in SCHEMAS["links"].names if name not in ("link", AIR))
LINK_ROW = "{time_ms},2,3000,1,1500,0,0,0,1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,1500,3000,{sojourn},0,0,,"
FLOW_HEADER = ",".join(SCHEMAS["flows"].names)


def link_row(time_ms: int, sojourn: str = "500,700") -> str:
    return LINK_ROW.format(time_ms=time_ms, sojourn=sojourn) + "\n"


def tables_of(tmp_path: Path, files: dict[str, str], **other) -> dict[str, pa.Table]:
    source = tmp_path / "csv"
    source.mkdir()
    for name, text in files.items():
        (source / name).write_text(text)
    out = tmp_path / "series"
    write_tables(out, source, **{"capacity": (), "samples": {}, "events": {}, **other})
    return {name: pq.read_table(out / f"{name}.parquet") for name in TABLES}


def test_the_engine_writes_the_columns_that_the_schema_names() -> None:
    source = (Path(__file__).parents[2] / "crates/wavebed-path/src/series.rs").read_text()
    reasons = (Path(__file__).parents[2] / "crates/wavebed-link/src/counters.rs").read_text()
    named = [part.split('"')[1] for part in reasons.split("pub const fn name")[1].split("}\n    }")[0].split("=>")[1:]]
    written = source.split("fn link_header(")[1].split("header\n}")[0].replace("\\\n         ", "")
    parts = [part for part in written.split('"')[1::2] if "_segments" in part or "_bytes" in part]
    first, last = parts[0], parts[-1].removesuffix("\\n")
    doors = "".join(f",dropped_{name}_segments" for name in named)
    assert f"{first}{doors}{last}" == LINK_HEADER
    departures = source.split('DEPARTURE_HEADER: &str = "')[1].split("\\n")[0]
    assert departures == ",".join(name for name in SCHEMAS["departures"].names if name != "direction")


def test_the_files_of_all_links_become_one_table_with_the_link_as_a_column(tmp_path: Path) -> None:
    tables = tables_of(
        tmp_path,
        {
            "radio.down.csv": f"{LINK_HEADER}\n{link_row(5)}{link_row(9)}",
            "radio.up.csv": f"{LINK_HEADER}\n{link_row(6)}",
            "departures.1.down.csv": "time_ms,packets,segments,bytes,late_max_ns,refused_segments\n3,1,2,3000,17,0\n",
        },
    )
    links = tables["links"]
    assert links.column("link").to_pylist() == ["radio.down", "radio.down", "radio.up"]
    assert links.column("time_ms").to_pylist() == [5, 9, 6]
    assert links.column("delivered_bytes").to_pylist() == [1500] * 3
    assert tables["departures"].to_pylist() == [
        {
            "time_ms": 3,
            "direction": "1.down",
            "packets": 1,
            "segments": 2,
            "bytes": 3000,
            "late_max_ns": 17,
            "refused_segments": 0,
        }
    ]


def test_only_a_table_with_a_radio_has_air_time(tmp_path: Path) -> None:
    wired = {"internet.down.csv": f"{LINK_HEADER}\n{link_row(5)}"}
    (tmp_path / "wired").mkdir()
    assert AIR not in tables_of(tmp_path / "wired", wired)["links"].column_names
    radio = link_row(5).replace("\n", ",125000\n")
    links = tables_of(tmp_path, {**wired, "radio.down.csv": f"{LINK_HEADER},{AIR}\n{radio}"})["links"]
    assert links.schema.equals(SCHEMAS["links"])
    assert links.select(["link", AIR]).to_pylist() == [
        {"link": "internet.down", AIR: None},
        {"link": "radio.down", AIR: 125_000},
    ]


def test_a_sojourn_time_where_nothing_left_the_queue_is_null(tmp_path: Path) -> None:
    links = tables_of(tmp_path, {"radio.down.csv": f"{LINK_HEADER}\n{link_row(5, ',')}"})["links"]
    assert links.column("sojourn_mean_ns").to_pylist() == [None]


def test_a_line_that_a_crash_cut_short_is_dropped(tmp_path: Path) -> None:
    cut = f"{LINK_HEADER}\n{link_row(5)}{link_row(123456)[:4]}"
    assert tables_of(tmp_path, {"radio.down.csv": cut})["links"].column("time_ms").to_pylist() == [5]


def test_a_line_cut_within_its_last_number_is_dropped(tmp_path: Path) -> None:
    cut = f"{LINK_HEADER}\n{link_row(5)}{link_row(6)[:-2]}"
    assert tables_of(tmp_path, {"radio.down.csv": cut})["links"].column("time_ms").to_pylist() == [5]


@pytest.mark.parametrize("text", ["", "time_ms,offe", f"{LINK_HEADER}\n"])
def test_a_file_without_a_whole_row_is_an_empty_table(text: str, tmp_path: Path) -> None:
    assert tables_of(tmp_path, {"radio.down.csv": text})["links"].num_rows == 0


def test_what_the_engine_did_not_write_is_an_empty_table_with_its_columns(tmp_path: Path) -> None:
    for name, table in tables_of(tmp_path, {}).items():
        assert table.num_rows == 0
        assert table.schema.equals(SCHEMAS[name])
    assert write_tables(tmp_path / "none", None, capacity=(), samples={}, events={})["links"].num_rows == 0


def test_every_table_names_the_version_of_the_schema(tmp_path: Path) -> None:
    for table in tables_of(tmp_path, {}).values():
        assert table.schema.metadata[b"wavebed_schema"] == b"1"


def test_a_file_with_other_columns_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(WavebedError, match=r"cpu\.csv: the column 'idle' is not that of schema 1"):
        tables_of(tmp_path, {"cpu.csv": "time_ns,core,busy,softirq,idle\n1,0,0.5,0.5,0\n"})


def test_what_a_kernel_does_not_report_of_a_flow_is_null(tmp_path: Path) -> None:
    known = {"time_ns": "10", "host": "client", "cookie": str(2**64 - 1), "delivery_app_limited": "1", "rtt_us": "42"}
    row = ",".join(known.get(name, "") for name in SCHEMAS["flows"].names)
    flow = tables_of(tmp_path, {"flows.csv": f"{FLOW_HEADER}\n{row}\n"})["flows"].to_pylist()[0]
    assert flow["cookie"] == 2**64 - 1
    assert flow["delivery_app_limited"] is True
    assert (flow["rtt_us"], flow["ssthresh_segments"], flow["ca_state"]) == (42, None, None)


def test_samples_keep_what_is_missing_and_take_no_value_that_is_not_a_number(tmp_path: Path) -> None:
    series = Series("rtt", "ms", (0.5, 1.0, 1.5), (40.0, None, math.nan))
    samples = tables_of(tmp_path, {}, samples={"ping": [series]})["samples"]
    assert samples.column("value").to_pylist() == [40.0, None, None]
    assert samples.column("workload").to_pylist() == ["ping"] * 3
    assert samples.column("unit").to_pylist() == ["ms"] * 3


def test_events_of_all_workloads_stand_in_order_of_time(tmp_path: Path) -> None:
    events = {
        "video": [Event("stall", 4.0, 5.5), Event("switch", 7.0, text="720p", value=3e6)],
        "radio.down": [Event("state", 0.0, 6.0, text="LOS")],
    }
    table = tables_of(tmp_path, {}, events=events)["events"]
    assert table.column("name").to_pylist() == ["state", "stall", "switch"]
    assert table.column("end_s").to_pylist() == [6.0, 5.5, None]


def test_capacity_without_limit_or_state_is_null(tmp_path: Path) -> None:
    rows = [(0.0, "radio.down", 10**9, "LOS"), (1.0, "radio.down", None, None)]
    table = tables_of(tmp_path, {}, capacity=rows)["capacity"]
    assert table.column("rate_bps").to_pylist() == [10**9, None]
    assert table.column("state").to_pylist() == ["LOS", None]


MS = 1_000_000


def rows_of(tmp_path: Path, packets: dict[str, str], blocks: dict[str, str]) -> list[dict[str, object]]:
    return packet_tables(write_log(tmp_path / "log", packets, blocks))["packets"].to_pylist()


def test_segments_with_the_same_times_and_blocks_are_one_row(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, {"radio.down": RADIO}, {"radio.down": RADIO_BLOCKS})
    keys = ("packet", "first", "segments", "bytes", "blocks", "transmissions")
    assert [tuple(row[key] for key in keys) for row in rows] == [
        (1, 0, 1, 1500, [0], 2),
        (1, 1, 1, 1500, [0, 1], 3),
        (1, 2, 1, 700, [1], 1),
        (2, 0, 1, 500, [], None),
        (3, 0, 1, 80, [], None),
    ]
    times = ("entered_ns", "dequeued_ns", "sent_ns", "released_ns", "delivered_ns", "dropped_ns")
    assert [rows[1][name] for name in times] == [9 * MS, 9_500_000, 10 * MS, 12_500_000, 12_500_000, None]
    assert rows[2]["sent_ns"] == 10_500_000
    assert [rows[3][name] for name in (*times[1:], "drop_reason")] == [None, None, None, None, 10 * MS, "overflow"]
    assert [rows[4][name] for name in times] == [20 * MS, None, None, None, None, None]


def test_a_whole_packet_is_one_row_on_a_link_that_does_not_divide_it(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, {"internet.down": WIRED}, {})
    assert [(row["segments"], row["bytes"], row["delivered_ns"]) for row in rows] == [
        (3, 3700, 9 * MS),
        (1, 500, 10 * MS),
    ]


def test_a_copy_is_a_row_of_its_own(tmp_path: Path) -> None:
    original = "5,entered,1,0,0,1,90,90,9,\n8,delivered,1,0,0,1,90,90,9,\n"
    text = original + "7,entered,1,1,0,1,90,90,9,\n9,delivered,1,1,0,1,90,90,9,\n"
    rows = rows_of(tmp_path, {"a.up": text}, {})
    assert [(row["is_copy"], row["entered_ns"], row["delivered_ns"]) for row in rows] == [(False, 5, 8), (True, 7, 9)]


def test_blocks_come_in_the_order_of_their_slots(tmp_path: Path) -> None:
    table = packet_tables(write_log(tmp_path / "log", {"radio.down": RADIO}, {"radio.down": RADIO_BLOCKS}))["blocks"]
    assert table.column("slot_ns").to_pylist() == [10 * MS, 10_500_000, 12 * MS]
    assert table.column("failed").to_pylist() == [True, False, False]
    assert table.column("misheard").to_pylist() == [False, False, True]


def test_an_idle_link_has_no_rows_and_no_log_no_tables(tmp_path: Path) -> None:
    tables = packet_tables(write_log(tmp_path / "log", {"a.up": ""}, {}))
    assert (len(tables["packets"]), len(tables["blocks"])) == (0, 0)
    assert packet_tables(tmp_path) == {}


def test_a_log_of_another_version_is_named(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log", {"a.up": ""}, {})
    (log / "packets" / "a.up.csv").write_text("time_ns,event\n1,entered\n")
    with pytest.raises(WavebedError, match=r"a\.up\.csv: the column 'block' is not that of schema 1"):
        packet_tables(log)


def test_a_run_reads_the_log_or_says_how_to_get_one(tmp_path: Path) -> None:
    run = load(made_run(tmp_path))
    assert run.table("packets")["bytes"].sum() == 3700 + 500 + 3700 + 500 + 80 + 60
    (tmp_path / "other").mkdir()
    bare = load(made_run(tmp_path / "other", packet_log=False))
    with pytest.raises(UserError, match=r"no packet log: run it with --set path\.packet-log=true"):
        bare.table("packets")


_NAMES = ("entered", "dequeued", "sent", "sent", "left", "delivered", "dropped_loss")


@st.composite
def logs(draw: st.DrawFn) -> list[tuple[int, str, int, int, int, int, int | None]]:
    """Rows of time, event, packet, first, segments, bytes of the last segment, block; each segment enters once."""
    rows = []
    for packet in range(1, 1 + draw(st.integers(1, 3))):
        whole = draw(st.integers(1, 6))
        last = draw(st.integers(1, 10))
        for name in _NAMES:
            cuts = sorted(draw(st.sets(st.integers(1, whole), max_size=3)) | {whole}) if whole else []
            begin = 0
            for cut in cuts:
                if name == "entered" or draw(st.booleans()):
                    size = last if cut == whole else 10
                    block = draw(st.integers(0, 2)) if name == "sent" else None
                    rows.append((draw(st.integers(1, 3)), name, packet, begin, cut - begin, size, block))
                begin = cut
    return rows


@given(logs())
def test_the_rows_have_the_first_time_of_every_segment(tmp_path_factory, rows) -> None:
    expected: dict[tuple[int, int], dict[str, object]] = {}
    for at, name, packet, first, segments, last, block in sorted(rows, key=lambda row: row[0]):
        for index in range(first, first + segments):
            known = expected.setdefault((packet, index), {"bytes": 0, "blocks": []})
            known.setdefault(name, at)
            if name == "entered":
                known["bytes"] = last if index == first + segments - 1 else 10
            if name == "sent" and known["blocks"][-1:] != [block]:
                known["blocks"].append(block)
    text = "".join(
        f"{at},{name},{packet},0,{first},{segments},10,{last},9,{'' if block is None else block}\n"
        for at, name, packet, first, segments, last, block in rows
    )
    found = rows_of(tmp_path_factory.mktemp("log"), {"a.down": text}, {})
    columns = {"entered": "entered_ns", "dequeued": "dequeued_ns", "sent": "sent_ns", "left": "released_ns"}
    columns |= {"delivered": "delivered_ns", "dropped_loss": "dropped_ns"}
    seen = set()
    for row in found:
        indices = range(row["first"], row["first"] + row["segments"])
        assert row["bytes"] == sum(expected[row["packet"], index]["bytes"] for index in indices)
        for index in indices:
            known = expected[row["packet"], index]
            assert {name: row[column] for name, column in columns.items()} == {
                name: known.get(name) for name in columns
            }
            assert row["blocks"] == known["blocks"]
            assert (row["packet"], index) not in seen
            seen.add((row["packet"], index))
    assert seen == set(expected)
