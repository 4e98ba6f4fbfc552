"""Parquet tables made from what the engine wrote."""

from __future__ import annotations

import math
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wavebed.errors import WavebedError
from wavebed.result.names import TABLES
from wavebed.result.tables import SCHEMAS, write_tables
from wavebed.workload.model import Event, Series

LINK_HEADER = ",".join(name for name in SCHEMAS["links"].names if name != "link")
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
    written = source.split("fn link_header()")[1].split("header\n}")[0].replace("\\\n         ", "")
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
