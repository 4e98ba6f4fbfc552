"""Tables and logs as other programs write them: each reads right, or one line names a remedy that works."""

from __future__ import annotations

import gzip
import json
import re
import shlex
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavebed.errors import UserError
from wavebed.pattern import Pattern, ReadOptions, TraceSource, read_source, render
from wavebed.pattern.formats.base import clock_ns

if TYPE_CHECKING:
    from datetime import datetime

COLUMNS = re.compile(r"--columns((?: (?:'[^']*'|[^\s;,]+=[^\s;,]+))+)")
S = 10**9


def read(
    content: str | bytes, *columns: str, format_name: str | None = None, duration_ns: int | None = None
) -> tuple[Pattern, list[str]]:
    source = TraceSource("trace", content)
    return read_source(source, format_name, ReadOptions(columns=columns, duration_ns=duration_ns)), source.notes


def refused(content: str | bytes, *columns: str) -> str:
    with pytest.raises(UserError) as caught:
        read(content, *columns)
    message = str(caught.value)
    assert "\n" not in message
    return message


def advised(content: str | bytes) -> tuple[str, ...]:
    """Return the columns that the message advises."""
    match = COLUMNS.search(refused(content))
    assert match is not None
    return tuple(shlex.split(match.group(1)))


def series(pattern: Pattern) -> list[tuple[float, float]]:
    assert pattern.rate_bps is not None
    return list(zip((pattern.index / S).tolist(), (pattern.rate_bps / 10**6).tolist(), strict=True))


def told(notes: list[str], text: str) -> bool:
    return any(text in note for note in notes)


CLOCKS = {
    "iso": ("2024-05-01T10:00:00.250Z", "2024-05-01T10:00:01.750Z"),
    "iso_zones": ("2024-05-01T10:00:00.25+02:00", "2024-05-01T08:00:01.75Z"),
    "iso_space": ("2024-05-01 10:00:00.25", "2024-05-01 10:00:01.75"),
    "time_of_day": ("10:00:00.25", "10:00:01.75"),
    "next_day": ("23:59:59.5", "00:00:01"),
    "g_nettrack": ("2024.05.01_10.00.00", "2024.05.01_10.00.01.5"),
    "apache": ("[01/May/2024:10:00:00 +0000]", "[01/May/2024:10:00:01.5 +0000]"),
    "syslog": ("May  1 10:00:00", "May  1 10:00:01.5"),
    "python_logging": ("2024-05-01 10:00:00,250", "2024-05-01 10:00:01,750"),
    "twelve_hours": ("5/13/2024 11:59:59.5 AM", "5/13/2024 12:00:01 PM"),
    "day_first": ("13.05.2024 10:00:00", "13.05.2024 10:00:01.5"),
    "c_time": ("Wed May  1 10:00:00 2024", "Wed May  1 10:00:01.5 2024"),
    "compact": ("20240501T100000Z", "20240501T100001.5Z"),
}


@pytest.mark.parametrize("name", CLOCKS)
def test_clock_times_are_read_as_the_message_advises(name: str) -> None:
    first, second = CLOCKS[name]
    text = f"when;dl_mbps\n{first};5\n{second};6\n"
    assert advised(text) == ("time=when:clock", "rate=dl_mbps:mbit")
    pattern, notes = read(text, *advised(text))
    assert series(pattern) == [(0.0, 5.0), (1.5, 6.0)]
    assert told(notes, f"time begins with the first row, at {first}")
    assert told(notes, "taken as a time of the next day") == (name == "next_day")


def test_a_date_whose_day_and_month_cannot_be_told_apart_is_refused_only_if_it_matters() -> None:
    within = "when,mbps\n5/1/2024 10:00:00,5\n5/1/2024 10:00:01,6\n"
    assert series(read(within, "time=when:clock", "rate=mbps:mbit")[0]) == [(0.0, 5.0), (1.0, 6.0)]
    across = "when,mbps\n5/1/2024 23:59:59,5\n6/1/2024 00:00:00,6\n"
    assert "write dates as 2024-05-01" in refused(across, "time=when:clock", "rate=mbps:mbit")
    mended = across.replace("5/1/2024", "2024-01-05").replace("6/1/2024", "2024-01-06")
    assert series(read(mended, "time=when:clock", "rate=mbps:mbit")[0]) == [(0.0, 5.0), (1.0, 6.0)]


def test_a_clock_time_read_as_a_number_and_the_reverse_name_the_right_unit() -> None:
    clock, number = "t,r\n10:00:00,5\n10:00:01,6\n", "t,r\n0,5\n1,6\n"
    assert "write time=t:clock" in refused(clock, "time=t:s", "rate=r:mbit")
    assert "write time=t:s" in refused(number, "time=t:clock", "rate=r:mbit")


@pytest.mark.parametrize(
    ("name", "first", "step", "unit"),
    [
        ("epoch", 1714557600, 2, "s"),
        ("epoch", 1714557600000, 2000, "ms"),
        ("epoch", 1714557600000000, 2_000_000, "us"),
        ("time_ms", 0, 2000, "ms"),
        ("time (us)", 0, 2_000_000, "us"),
        ("elapsed_s", 0, 2, "s"),
    ],
)
def test_the_unit_of_numeric_times_is_advised_by_name_and_size(name: str, first: int, step: int, unit: str) -> None:
    text = f"{name},mbps\n{first},5\n{first + step},6\n"
    assert advised(text)[0] == f"time={name}:{unit}"
    pattern, notes = read(text, *advised(text))
    assert series(pattern) == [(0.0, 5.0), (2.0, 6.0)]
    assert told(notes, "2024-05-01 10:00:00 UTC if since 1970") == bool(first)


def test_milliseconds_since_1970_are_not_read_as_seconds() -> None:
    text = "t,r\n1714557600000,5\n1714557601000,6\n"
    assert "write time=t:ms" in refused(text, "time=t:s", "rate=r:mbit")
    message = refused("1714557600000 5\n1714557601000 6\n")
    assert "--columns time=1:ms rate=2:mbit" in message
    pattern, _ = read("1714557600000 5\n1714557601000 6\n", "time=1:ms", "rate=2:mbit")
    assert series(pattern) == [(0.0, 5.0), (1.0, 6.0)]


def test_a_unit_that_the_name_of_the_column_contradicts_is_told() -> None:
    _, notes = read("time_ms,r\n0,5\n1,6\n", "time=time_ms:s", "rate=r:mbit")
    assert told(notes, "says ms, the times are read as s")


@pytest.mark.parametrize("word", ["NaN", "-", "", "n/a", "null", "None", "--"])
def test_a_missing_value_keeps_the_one_before_and_that_is_told(word: str) -> None:
    pattern, notes = read(f"t,r\n0,{word}\n1,5\n2,{word}\n3,7\n", "time=t:s", "rate=r:mbit")
    assert series(pattern) == [(0.0, 5.0), (1.0, 5.0), (2.0, 5.0), (3.0, 7.0)]
    assert told(
        notes, "r (rate): 2 of 4 values missing, the first at line 2; each keeps the value before, the first 1 the"
    )


@pytest.mark.parametrize("word", ["inf", "-1", "fast", "5 Mbps", "1e999"])
def test_a_value_that_is_no_rate_is_refused_with_a_remedy_that_works(word: str) -> None:
    message = refused(f"t,r\n0,5\n1,{word}\n2,7\n", "time=t:s", "rate=r:mbit")
    assert message.startswith("trace:3: r (rate)")
    if word != "1e999":
        assert "leave the cell empty to keep the value before" in message
    assert series(read("t,r\n0,5\n1,\n2,7\n", "time=t:s", "rate=r:mbit")[0])[1] == (1.0, 5.0)


def test_a_column_without_values_is_refused() -> None:
    assert "leave delay= out of --columns" in refused("t,r,d\n0,5,-\n1,6,-\n", "time=t:s", "rate=r:mbit", "delay=d:ms")


def test_rows_of_one_time_become_their_mean_and_that_is_told() -> None:
    pattern, notes = read("t,r,d\n0,9,-\n0,12,8\n0,-,10\n1,5,-\n", "time=t:s", "rate=r:mbit", "delay=d:ms")
    assert series(pattern) == [(0.0, 10.5), (1.0, 5.0)]
    assert pattern.delay_ns is not None
    assert pattern.delay_ns.tolist() == [9_000_000, 9_000_000]
    assert told(notes, "2 rows at the time of the row before; rows of one time become their mean")
    assert told(notes, "d (delay): 1 of 2 values missing")


NUMBERS = {
    "decimal_comma": ("t;r\n0,0;10,5\n1,0;12,25\n", [(0.0, 10.5), (1.0, 12.25)]),
    "decimal_comma_alone": ("t;r\n0;1,234\n1;2,345\n", [(0.0, 1.234), (1.0, 2.345)]),
    "points_between_thousands": ("t;r\n0;1.234,5\n1;2.000\n", [(0.0, 1234.5), (1.0, 2000.0)]),
    "commas_between_thousands": ('t,r\n0,"1,234.5"\n1,"2,000"\n', [(0.0, 1234.5), (1.0, 2000.0)]),
    "spaces_between_thousands": ("t;r\n0;1 234,5\n1;2\u202f000,0\n", [(0.0, 1234.5), (1.0, 2000.0)]),
    "apostrophes": ("t;r\n0;1'234.5\n1;2'000.0\n", [(0.0, 1234.5), (1.0, 2000.0)]),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_of_other_countries_are_read_and_told(name: str) -> None:
    text, wanted = NUMBERS[name]
    pattern, notes = read(text, "time=t:s", "rate=r:mbit")
    assert series(pattern) == wanted
    assert told(notes, "numbers such as")


def test_a_comma_that_may_be_both_is_refused_and_both_remedies_work() -> None:
    text = "t\tr\n0\t1,234\n1\t2,345\n"
    assert "may be 1234 or 1.234; write 1234 or 1.234" in refused(text, "time=t:s", "rate=r:mbit")
    assert series(read(text.replace(",", ""), "time=t:s", "rate=r:mbit")[0])[0] == (0.0, 1234.0)
    assert series(read(text.replace(",", "."), "time=t:s", "rate=r:mbit")[0])[0] == (0.0, 1.234)


def test_two_decimal_marks_in_one_table_are_refused() -> None:
    message = refused('t;r\n0;1,5\n1;"1,234.5"\n', "time=t:s", "rate=r:mbit")
    assert message.startswith("trace:3: ")
    assert "use decimal points only" in message


PLAIN = "time,mbps\n0,5\n1,6\n"
LAYOUTS: dict[str, tuple[str | bytes, str]] = {
    "tabs": (PLAIN.replace(",", "\t"), ""),
    "semicolons": (PLAIN.replace(",", ";"), ""),
    "bars": (PLAIN.replace(",", "|"), ""),
    "blanks": (PLAIN.replace(",", "  "), ""),
    "quotes": ('"time","mbps"\n"0","5"\n"1","6"\n', ""),
    "spaces_beside_commas": (PLAIN.replace(",", " , "), ""),
    "crlf": (PLAIN.replace("\n", "\r\n"), ""),
    "byte_order_mark": (b"\xef\xbb\xbf" + PLAIN.encode(), ""),
    "utf_16": (PLAIN.encode("utf-16"), ""),
    "utf_16_big_endian": (b"\xfe\xff" + PLAIN.encode("utf-16-be"), ""),
    "gzip": (gzip.compress(PLAIN.encode()), ""),
    "gzip_of_utf_16": (gzip.compress(PLAIN.encode("utf-16")), ""),
    "blank_last_line": (PLAIN + "\n", ""),
    "blank_lines": (PLAIN.replace("1,6", "\n  \n1,6"), ""),
    "empty_rows_of_a_sheet": (PLAIN + ",\n,\n", ""),
    "comma_at_the_end": ("time,mbps,\n0,5,\n1,6,\n", ""),
    "units_row": ("time,mbps\ns,Mbit/s\n0,5\n1,6\n", "line 2 is left out as a row of units: 's, Mbit/s'"),
    "units_row_in_brackets": ("time,mbps\n[s],[Mbit/s]\n0,5\n1,6\n", "line 2 is left out as a row of units"),
    "comment_above": ("# made by a logger\n" + PLAIN, ""),
    "comment_amid": ("time,mbps\n0,5\n# handover\n1,6\n", "1 comment line skipped"),
    "header_in_a_comment": ("# " + PLAIN, ""),
    "excel_separator": ("sep=;\n" + PLAIN.replace(",", ";"), ""),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_table_in_any_layout_reads_as_the_message_advises(name: str) -> None:
    content, note = LAYOUTS[name]
    assert advised(content) == ("time=time:s", "rate=mbps:mbit")
    pattern, notes = read(content, *advised(content))
    assert series(pattern) == [(0.0, 5.0), (1.0, 6.0)]
    assert pattern.period == 2 * S
    assert told(notes, note)


HEADERLESS = {
    "commas": ("0,5\n1,6\n2,7\n", ("time=1:s", "rate=2:mbit")),
    "date_and_time": ("2024-05-01 10:00:00 5\n2024-05-01 10:00:01 6\n2024-05-01 10:00:02 7\n",
                      ("time=2:clock", "rate=3:mbit")),
    "clock_and_blanks": ("10:00:00 5\n10:00:01 6\n10:00:02 7\n", ("time=1:clock", "rate=2:mbit")),
    "iperf2_csv": ("".join(f"2024050110000{s},10.0.0.1,5001,10.0.0.2,5001,3,{s}.0-{s + 1}.0,9,{s + 5}000000\n"
                           for s in range(3)), ("time=1:clock", "rate=9:bit")),
}  # fmt: skip


@pytest.mark.parametrize("name", HEADERLESS)
def test_a_table_without_a_header_is_read_by_the_numbers_of_its_columns(name: str) -> None:
    text, columns = HEADERLESS[name]
    assert advised(text) == columns
    assert series(read(text, *columns)[0]) == [(0.0, 5.0), (1.0, 6.0), (2.0, 7.0)]


OOKLA = (
    '"server name","server id","idle latency","download","upload"\n"x","1","20","6250000","9"\n'
    '"x","1","20","7500000","9"\n'
)
SPEEDTEST_CLI = (
    "Server ID,Sponsor,Server Name,Timestamp,Distance,Ping,Download,Upload,Share,IP Address\n"
    "1,a,b,2024-05-01T10:00:00.1Z,1.0,20.1,50000000,1000.0,,192.0.2.1\n"
    "1,a,b,2024-05-01T10:05:00.1Z,1.0,20.1,60000000,1000.0,,192.0.2.1\n"
)
LOGGERS = {
    "g_nettrack": (
        "Timestamp,DL_bitrate,UL_bitrate,PINGAVG\n2024.05.01_10.00.00,7000,100,-\n2024.05.01_10.00.01,8000,100,-\n",
        ("time=Timestamp:clock", "rate=DL_bitrate:kbit"),
        [(0.0, 7.0), (1.0, 8.0)],
    ),
    "speedtest_cli": (
        SPEEDTEST_CLI,
        ("time=Timestamp:clock", "rate=Download:bit"),
        [(0.0, 50.0), (300.0, 60.0)],
    ),
    "ookla": (
        OOKLA,
        ("every=1s", "rate=download:byte"),
        [(0.0, 50.0), (1.0, 60.0)],
    ),
    "no_time": ("rssi,throughput\n-80,5\n-81,6\n", ("every=1s", "rate=throughput:mbit"), [(0.0, 5.0), (1.0, 6.0)]),
    "large_numbers": ("time,speed\n0,5000000\n1,0\n", ("time=time:s", "rate=speed:bit"), [(0.0, 5.0), (1.0, 0.0)]),
}  # fmt: skip


@pytest.mark.parametrize("name", LOGGERS)
def test_logs_of_measuring_programs_read_as_the_message_advises(name: str) -> None:
    text, columns, wanted = LOGGERS[name]
    assert advised(text) == columns
    assert series(read(text, *columns)[0]) == wanted


@pytest.mark.parametrize(
    ("name", "unit"),
    [("DL Mbps", "mbit"), ("rate (MB/s)", "mbyte"), ("rate_kbit", "kbit"), ("bits_per_second", "bit"), ("rate", "")],
)
def test_a_unit_that_the_file_does_not_say_is_told(name: str, unit: str) -> None:
    message = refused(f"time,{name}\n0,5\n1,6\n")
    assert f"rate={name}:{unit or 'mbit'}" in message
    assert message.endswith(f"; the file does not say the unit of '{name}'") == (not unit)


NOT_SERIES = {
    "mobileinsight": ('<dm_log_packet><pair key="log_msg_len">68</pair></dm_log_packet>\n', "is XML or HTML"),
    "speedtest_json_lines": ('{"type":"result","download":{"bandwidth":1}}\n{"type":"x"}\n', "several JSON values"),
    "any_json": ('{"download": 5}\n', "JSON that no format here fits"),
    "prose": ("once upon a time\n", "no format fits"),
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_SERIES)
def test_what_is_no_series_is_refused_and_the_table_that_is_advised_reads(name: str) -> None:
    text, fault = NOT_SERIES[name]
    message = refused(text)
    assert fault in message
    match = COLUMNS.search(message)
    assert match is not None
    assert "the header time_s,rate_mbit" in message
    pattern, _ = read("time_s,rate_mbit\n0,5\n1,6\n", *shlex.split(match.group(1)))
    assert series(pattern) == [(0.0, 5.0), (1.0, 6.0)]


def test_the_report_of_iperf3_for_readers_asks_for_json() -> None:
    assert "run iperf3 with --json" in refused("[ ID] Interval\n[  5]   0.00-1.00   sec  1.15 MBytes  9.65 Mbits/sec\n")


@pytest.mark.parametrize(
    ("content", "remedy"),
    [
        (b"PK\x03\x04....", "export the sheet as CSV"),
        (b"\xd0\xcf\x11\xe0....", "export the sheet as CSV"),
        (b"\xfd7zXZ\0...", "xz -d"),
        (b"BZh9....", "bzip2 -d"),
        (b"\x28\xb5\x2f\xfd....", "zstd -d"),
        (gzip.compress(b"1 2\n" * 99, mtime=0)[:-9], "copy the file again"),
        (b"\xff\xfe1", "save it as UTF-8"),
    ],
)
def test_other_compressed_files_name_the_program_that_unpacks_them(content: bytes, remedy: str) -> None:
    assert remedy in refused(content)


def test_times_that_go_back_name_two_remedies_that_work() -> None:
    text = "t,r\n0,5\n2,6\n1,7\n"
    assert "sort the rows by time, or number them with every=1s in place of time=" in refused(
        text, "time=t:s", "rate=r:mbit"
    )
    assert series(read("t,r\n0,5\n1,7\n2,6\n", "time=t:s", "rate=r:mbit")[0]) == [(0.0, 5.0), (1.0, 7.0), (2.0, 6.0)]
    assert series(read(text, "every=1s", "rate=r:mbit")[0]) == [(0.0, 5.0), (1.0, 6.0), (2.0, 7.0)]


def test_clock_times_that_go_back_are_refused() -> None:
    text = "t,r\n2024-05-01T02:59:59,5\n2024-05-01T02:00:00,6\n"
    assert "number them with every=1s" in refused(text, "time=t:clock", "rate=r:mbit")


def test_a_gap_is_told_and_the_last_row_after_it_lasts_the_usual_step() -> None:
    pattern, notes = read("t,r\n0,5\n1,6\n2,6\n102,7\n", "time=t:s", "rate=r:mbit")
    assert pattern.period == 103 * S
    assert told(notes, "1 gap of at least 3 usual steps of 1 s, the longest 100 s at line 4")
    assert told(notes, "taken to last 1 s, the usual step")


def test_every_that_shortens_a_table_with_times_is_told() -> None:
    rows = [(second, 5) for second in range(3680) if second % 10]
    text = "Timestamp,r\n" + "".join(f"{second},{rate}\n" for second, rate in rows)
    _, notes = read(text, "every=1s", "rate=r:mbit")
    assert told(notes, "column 'Timestamp' goes over 3678 s, every=1s makes 3311 s of its 3312 rows")
    assert told(notes, "write time=Timestamp:s")
    pattern, _ = read(text, "time=Timestamp:s", "rate=r:mbit")
    assert pattern.period == 3679 * S


def test_every_that_agrees_with_the_times_is_not_told() -> None:
    _, notes = read("Timestamp,r\n2024-05-01T10:00:00,5\n2024-05-01T10:00:01,6\n", "every=1s", "rate=r:mbit")
    assert notes == []


def test_times_that_begin_late_are_shifted_and_that_is_told() -> None:
    pattern, notes = read("100 4\n101 5\n102 6\n")
    assert series(pattern) == [(0.0, 4.0), (1.0, 5.0), (2.0, 6.0)]
    assert pattern.period == 3 * S
    assert told(notes, "the first time is 100 s; shifted to 1 s")


def test_seconds_since_1970_in_two_columns_are_shifted() -> None:
    pattern, notes = read("1714557600.5 5\n1714557601 6\n")
    assert series(pattern) == [(0.0, 5.0), (0.5, 6.0)]
    assert told(notes, "the first time is 1714557600.5 s; shifted to 0.5 s")


def test_a_gap_between_two_columns_is_told() -> None:
    pattern, notes = read("1 4\n2 5\n102 6\n")
    assert pattern.period == 102 * S
    assert told(notes, "1 gap of at least 3 usual steps of 1 s, the longest 100 s at line 3")


@pytest.mark.parametrize("name", ["seconds-mbit", "lumos5g"])
def test_a_long_first_step_is_written_so_that_it_is_not_read_as_an_offset(name: str) -> None:
    pattern, _ = read("0 9\n100 4\n101 5\n102 6\n")
    again = read_source(TraceSource("trace", render(pattern, name)), name)
    assert again.same_series(pattern)


@pytest.mark.parametrize("name", ["mahimahi", "cellreplay-heavy", "seconds-mbit", "cellreplay-light"])
def test_comments_and_a_blank_last_line_are_skipped_in_formats_of_lines(name: str) -> None:
    rows = {"seconds-mbit": ["1 5", "2 6"], "cellreplay-light": ["0 20 0", "100 25 0", "200 20 0"]}.get(
        name, ["1", "5"]
    )
    plain, _ = read("\n".join(rows) + "\n", format_name=name)
    pattern, notes = read("# a trace\n" + "\n  # more\n".join(rows) + "\n\n", format_name=name)
    assert pattern.same_series(plain)
    assert told(notes, f"{len(rows)} comment lines skipped")


def test_a_line_after_comments_is_named_by_its_number_in_the_file() -> None:
    assert refused("# a\n1 5\n# b\n2 x\n").startswith("trace:4: ")
    assert refused("# a\n1 5\n\n2 6\n").startswith("trace:3: the line is blank")


NS3_OLD = "\ttime\tframe\tsubF\t1stSym\tsymbol#\tcellId\trnti\tccId\ttbSize\tmcs\trv\tSINR(dB)\tcorrupt\tTBler\n"
LENA = "Time\tdirection\tframe\tsubF\tslot\trnti\ttbSize\tmcs\trv\tSINR(dB)\tCQI\tcorrupt\tTBler\n"


def test_the_older_file_of_ns3_mmwave_with_an_empty_value_is_read() -> None:
    row = "{}\t{}\t0\t0\t1\t12\t1\t1\t0\t{}\t28\t0\t37.2\t \t{}\t0\n"
    text = NS3_OLD + row.format("DL", "0.0001", 1000, 0) + row.format("DL", "0.0002", 9, 1)
    pattern, _ = read(text + row.format("UL", "0.0003", 9, 0))
    assert series(pattern) == [(0.0, 8.0)]


def test_the_oldest_file_of_ns3_mmwave_has_no_time_and_is_refused() -> None:
    message = refused(NS3_OLD.replace("time\t", "") + "DL\t0\t0\t1\t12\t1\t1\t0\t9\t28\t0\t37.2\t0\t0\n")
    assert "one column 'time'; run the simulation with a version that prints it" in message


def test_the_file_of_5g_lena_is_read_and_the_time_before_the_first_block_is_told() -> None:
    row = "{}\t{}\t40\t0\t0\t1\t{}\t10\t0\t20.5\t15\t{}\t0.0001\n"
    text = LENA + row.format("0.400000", "DL", 3000, 0) + row.format("0.401", "UL", 900, 0)
    pattern, notes = read(text + row.format("0.401", "DL", 3000, 1) + "\n")
    assert series(pattern) == [(0.0, 0.0), (0.4, 24.0), (0.401, 0.0)]
    assert told(notes, "no blocks before 0.4 s: the rate is 0 until then (wavebed trace cut --from 0.4s removes it)")


def test_netem_trace_lists_of_values_are_read() -> None:
    text = '{"RepeatedBwPatternConfig":{"pattern":[{"TraceBwConfig":{"pattern":[["1ms",["2Mbps","4Mbps"]],'
    pattern, _ = read(text + '[{"secs":0,"nanos":2000000},[{"gbps":0,"bps":1000000}]]]}}],"count":2}}')
    assert series(pattern)[:4] == [(0.0, 2.0), (0.001, 4.0), (0.002, 1.0), (0.004, 2.0)]
    assert pattern.period == 8_000_000


def test_a_netem_trace_sawtooth_is_the_wave_that_netem_trace_computes() -> None:
    wave = {"bottom": "12Mbps", "top": "16Mbps", "duration": "1s", "step": "100ms", "interval": "500ms"}
    pattern, _ = read(json.dumps({"SawtoothBwConfig": wave | {"duty_ratio": 0.8}}))
    assert series(pattern)[:6] == [(0.0, 12.0), (0.1, 13.0), (0.2, 14.0), (0.3, 15.0), (0.4, 16.0), (0.5, 12.0)]
    default, _ = read('{"SawtoothBwConfig":{}}')
    assert (len(default), default.period) == (1000, S)


def test_netem_trace_delays_per_packet_become_a_pattern_over_packets_and_come_back() -> None:
    items = [{"StaticDelayPerPacketConfig": {"delay": f"{ms}ms", "count": count}} for ms, count in ((10, 2), (20, 1))]
    pattern, _ = read(json.dumps({"RepeatedDelayPerPacketPatternConfig": {"pattern": items, "count": 2}}))
    assert (pattern.kind, pattern.index.tolist(), pattern.period) == ("packets", [0, 2, 3, 5], 6)
    assert pattern.delay_ns is not None
    assert pattern.delay_ns.tolist() == [10_000_000, 20_000_000, 10_000_000, 20_000_000]
    assert read_source(TraceSource("trace", render(pattern, "netem-trace"))).same_series(pattern)


def ntrace(*entries: dict[str, object], **header: object) -> str:
    return json.dumps({"version": 1, "description": "made up", "entries": list(entries)} | header)


def entry(number: int, second: int, **values: object) -> dict[str, object]:
    return {"entryNo": number, "dateTime": f"2024-01-01T00:00:{second:02d}Z"} | values


def test_an_ntrace_file_is_read_by_its_clock_times_in_kbit() -> None:
    place = {"latitude": 48.8, "longitude": 2.2}
    text = ntrace(
        entry(1, 0, gpsCoordinates=place), entry(2, 1, dlBw=5000, ulBw=100, dlLatency=20), entry(3, 10, dlBw=7000)
    )
    pattern, notes = read(text)
    assert series(pattern) == [(0.0, 5.0), (9.0, 7.0)]
    assert pattern.period == 18 * S
    for note in ("time begins with entry 2", "1 entry without dlBw", "ulBw is left out", "dlLatency and ulLatency"):
        assert told(notes, note)


def test_the_uplink_of_an_ntrace_file_is_read_as_the_message_advises() -> None:
    text = ntrace(entry(1, 0, ulBw=300), entry(2, 1, ulBw=400))
    assert "--format ntrace-up" in refused(text)
    assert series(read(text, format_name="ntrace-up")[0]) == [(0.0, 0.3), (1.0, 0.4)]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (ntrace(entry(1, 5, dlBw=1), entry(2, 5, dlBw=2)), "entry 2: dateTime"),
        (ntrace(entry(1, 5, dlBw=-1)), "entry 1: dlBw is not a number of kbit/s"),
        (ntrace({"entryNo": 1, "dateTime": "noon", "dlBw": 1}), "entry 1: dateTime is not a clock time"),
        (ntrace(entry(1, 5, dlBw=1), version=2), "version 2"),
        ('{"entries": [], "entryNo": 1, "dateTime": 1}', "no list of entries"),
        ('{"entries": [7], "entryNo": 1, "dateTime": 1}', "entry 1 is not an object"),
    ],
)
def test_a_damaged_ntrace_file_names_the_entry(text: str, fault: str) -> None:
    assert fault in refused(text)


def iperf3(*sums: object, **more: object) -> str:
    return json.dumps({"start": {"connected": []}, "intervals": [{"sum": total} for total in sums]} | more)


def test_the_json_of_iperf3_is_read_as_a_trace() -> None:
    text = iperf3({"start": 0, "end": 1.5, "bits_per_second": 5e6}, {"start": 1.5, "end": 2, "bits_per_second": 6e6})
    pattern, notes = read(text)
    assert series(pattern) == [(0.0, 5.0), (1.5, 6.0)]
    assert pattern.period == 2 * S
    assert told(notes, "taken as the capacity of the link")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (iperf3(error="unable to connect"), "has no intervals (iperf3 said: unable to connect)"),
        (iperf3({"start": 0, "end": 1}), "interval 1 has no sum"),
        (iperf3({"start": 1, "end": 1, "bits_per_second": 5}), "interval 1 does not follow"),
    ],
)
def test_a_report_of_iperf3_without_rates_is_refused(text: str, fault: str) -> None:
    assert fault in refused(text)


@given(st.datetimes(), st.sampled_from(["T", " "]))
def test_any_iso_time_is_read_to_the_microsecond(time: datetime, mark: str) -> None:
    midnight = time.replace(hour=0, minute=0, second=0, microsecond=0)
    found, start = clock_ns(time.isoformat(mark)), clock_ns(midnight.isoformat(mark))
    assert found is not None
    assert start is not None
    passed = time - midnight
    assert found - start == (passed.seconds * 10**6 + passed.microseconds) * 1000


@given(
    st.lists(st.tuples(st.integers(0, 40), st.one_of(st.none(), st.integers(0, 10**6))), min_size=2, max_size=20),
    st.sampled_from(",;\t|"),
    st.booleans(),
)
def test_any_table_of_repeated_times_and_missing_values_is_read_or_refused_in_one_line(
    rows: list[tuple[int, int | None]], mark: str, sort: bool
) -> None:
    rows = sorted(rows, key=lambda row: row[0]) if sort else rows
    text = f"t{mark}r\n" + "".join(f"{time}{mark}{'' if rate is None else rate}\n" for time, rate in rows)
    try:
        pattern, _ = read(text, "time=t:s", "rate=r:kbit", duration_ns=100 * S)
    except UserError as error:
        assert "\n" not in str(error)
        assert not sort or all(rate is None for _, rate in rows)
    else:
        times = sorted({time for time, _ in rows})
        assert (pattern.index // S).tolist() == [time - times[0] for time in times]


@given(st.integers(0, 10**12), st.sampled_from([".", ","]))
def test_a_number_with_marks_between_thousands_reads_as_the_number(thousandths: int, decimal: str) -> None:
    whole, rest = divmod(thousandths, 1000)
    group = "," if decimal == "." else "."
    text = f"{whole:,}".replace(",", group) + f"{decimal}{rest:03d}0"
    pattern, _ = read(f"t;r\n0;{text}\n1;0\n", "time=t:s", "rate=r:bit")
    assert pattern.rate_bps is not None
    assert abs(int(pattern.rate_bps[0]) * 1000 - thousandths) <= 500
