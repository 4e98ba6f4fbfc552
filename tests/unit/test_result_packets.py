"""The packet log of the engine as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.export_example import RADIO, RADIO_BLOCKS, WIRED, made_run, write_log

from wavebed import load
from wavebed.errors import UserError, WavebedError
from wavebed.result.packets import packet_tables

if TYPE_CHECKING:
    from pathlib import Path

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
