"""Malformed traces: each gives one line that names the file, the place, the rule and the remedy, and exit status 2."""

from __future__ import annotations

import gzip
import json
import os
import shlex
from pathlib import Path

import pytest

from wavebed.cli import main
from wavebed.errors import UserError
from wavebed.path.model import PatternFile
from wavebed.path.traces import Traces

NATIVE = "# wavebed pattern 1\n# kind = steps\n# duration_s = 40\n"
LIGHT = "# light_bytes = 15000\n# light_idle_s = 0.1\n"
OPPORTUNITIES = "# wavebed pattern 1\n# kind = opportunities\n# duration_s = 1\ntime_s,bytes\n"
PACKETS = "# wavebed pattern 1\n# kind = packets\n# packets = 10\npacket,loss\n"
NS3 = "DL/UL\ttime\trnti\ttbSize\tmcs\tcorrupt\n"
LUMOS = "run_num,seq_num,Throughput\n"
TABLE = ("--columns", "time=t:s", "rate=r:mbit")


def static(**fields: object) -> str:
    return json.dumps({"StaticBwConfig": {"bw": "12Mbps", "duration": "1s"} | fields})


def repeated(pattern: object, count: object = 0) -> str:
    return json.dumps({"RepeatedBwPatternConfig": {"pattern": pattern, "count": count}})


ONE = {"StaticBwConfig": {"bw": "12Mbps", "duration": "1s"}}

# name: (content, arguments)
CORPUS: dict[str, tuple[str | bytes, tuple[str, ...]]] = {
    "any_empty": ("", ()),
    "any_blank": ("\n  \n", ()),
    "any_not_utf8": (b"12\n\xff\n", ()),
    "any_nul": (b"12\n1\0\n", ()),
    "any_prose": ("once upon a time\nthere was a link\n", ()),
    "any_unknown_format": ("1\n", ("--format", "mahimahii")),
    "any_fits_two_deliveries": ("1\n2\n3\n", ()),
    "any_fits_two_columns": ("100 1.5\n200 3\n", ()),
    "any_table_without_columns": ("t,r\n0,1\n", ()),
    "any_columns_and_format": ("1\n", ("--format", "mahimahi", "--columns", "every=1s", "rate=r:bit")),
    "native_version": ("# wavebed pattern 2\n# kind = steps\n", ()),
    "native_no_kind": ("# wavebed pattern 1\n# duration_s = 40\ntime_s,rate_bps\n0,1\n", ()),
    "native_unknown_kind": ("# wavebed pattern 1\n# kind = ramps\n# duration_s = 4\ntime_s,rate_bps\n0,1\n", ()),
    "native_no_duration": ("# wavebed pattern 1\n# kind = steps\ntime_s,rate_bps\n0,1\n", ()),
    "native_zero_duration": ("# wavebed pattern 1\n# kind = steps\n# duration_s = 0\ntime_s,rate_bps\n0,1\n", ()),
    "native_header_not_key_value": (NATIVE + "# hello\ntime_s,rate_bps\n0,1\n", ()),
    "native_header_twice": (NATIVE + "# kind = steps\ntime_s,rate_bps\n0,1\n", ()),
    "native_no_columns": (NATIVE, ()),
    "native_no_rows": (NATIVE + "time_s,rate_bps\n", ()),
    "native_first_column": (NATIVE + "t,rate_bps\n0,1\n", ()),
    "native_unknown_column": (NATIVE + "time_s,rate\n0,1\n", ()),
    "native_column_twice": (NATIVE + "time_s,rate_bps,rate_bps\n0,1,1\n", ()),
    "native_only_time": (NATIVE + "time_s\n0\n", ()),
    "native_first_not_zero": (NATIVE + "time_s,rate_bps\n1,1\n", ()),
    "native_time_repeats": (NATIVE + "time_s,rate_bps\n0,1\n2.5,2\n2.5,3\n", ()),
    "native_past_the_end": (NATIVE + "time_s,rate_bps\n0,1\n40,2\n", ()),
    "native_fractional_rate": (NATIVE + "time_s,rate_bps\n0,1.5\n", ()),
    "native_negative_rate": (NATIVE + "time_s,rate_bps\n0,-1\n", ()),
    "native_rate_too_large": (NATIVE + "time_s,rate_bps\n0,1000000000001\n", ()),
    "native_exponent": (NATIVE + "time_s,rate_bps\n0,1e9\n", ()),
    "native_space": (NATIVE + "time_s,rate_bps\n0, 1\n", ()),
    "native_nan": (NATIVE + "time_s,loss\n0,nan\n", ()),
    "native_loss_above_one": (NATIVE + "time_s,loss\n0,1.5\n", ()),
    "native_bler_without_rate": (NATIVE + "time_s,bler\n0,0.1\n", ()),
    "native_bler_above_one": (NATIVE + "time_s,rate_bps,bler\n0,1,1.5\n", ()),
    "native_sinr_without_need": (NATIVE + "time_s,rate_bps,sinr_db\n0,1,3\n", ()),
    "native_need_without_sinr": (NATIVE + "time_s,rate_bps,need_db\n0,1,3\n", ()),
    "native_sinr_without_rate": (NATIVE + "time_s,sinr_db,need_db\n0,3,3\n", ()),
    "native_sinr_too_low": (NATIVE + "time_s,rate_bps,sinr_db,need_db\n0,1,-100.5,3\n", ()),
    "native_sinr_too_high": (NATIVE + "time_s,rate_bps,sinr_db,need_db\n0,1,100.5,3\n", ()),
    "native_sinr_four_digits": (NATIVE + "time_s,rate_bps,sinr_db,need_db\n0,1,3.1234,3\n", ()),
    "native_sinr_plus": (NATIVE + "time_s,rate_bps,sinr_db,need_db\n0,1,+3,3\n", ()),
    "native_fallback_without_rate": (NATIVE + "time_s,fallback_rate_bps\n0,1\n", ()),
    "native_fallback_rate_negative": (NATIVE + "time_s,rate_bps,fallback_rate_bps\n0,1,-1\n", ()),
    "native_fallback_sinr_without_its_rate": (
        NATIVE + "time_s,rate_bps,fallback_sinr_db,fallback_need_db\n0,1,3,3\n",
        (),
    ),
    "native_fallback_sinr_without_need": (NATIVE + "time_s,rate_bps,fallback_rate_bps,fallback_sinr_db\n0,1,3,3\n", ()),
    "native_fallback_need_too_high": (
        NATIVE + "time_s,rate_bps,fallback_rate_bps,fallback_sinr_db,fallback_need_db\n0,1,3,3,101\n",
        (),
    ),
    "native_light_without_rate": (NATIVE + LIGHT + "time_s,light_rate_bps\n0,1\n", ()),
    "native_light_without_bytes": (NATIVE + "# light_idle_s = 0.1\ntime_s,rate_bps,light_rate_bps\n0,1,1\n", ()),
    "native_light_without_idle": (NATIVE + "# light_bytes = 9\ntime_s,rate_bps,light_rate_bps\n0,1,1\n", ()),
    "native_light_keys_alone": (NATIVE + LIGHT + "time_s,rate_bps\n0,1\n", ()),
    "native_light_idle_of_opportunities": (
        "# wavebed pattern 1\n# kind = opportunities\n# duration_s = 1\n# light_idle_s = 0.1\ntime_s,bytes\n0,1\n",
        (),
    ),
    "native_light_bytes_zero": (
        NATIVE + "# light_bytes = 0\n# light_idle_s = 0.1\ntime_s,rate_bps,light_rate_bps\n0,1,1\n",
        (),
    ),
    "native_light_idle_zero": (
        NATIVE + "# light_bytes = 9\n# light_idle_s = 0\ntime_s,rate_bps,light_rate_bps\n0,1,1\n",
        (),
    ),
    "native_light_idle_with_unit": (
        NATIVE + "# light_bytes = 9\n# light_idle_s = 100ms\ntime_s,rate_bps,light_rate_bps\n0,1,1\n",
        (),
    ),
    "native_light_rate_too_large": (NATIVE + LIGHT + "time_s,rate_bps,light_rate_bps\n0,1,1000000000001\n", ()),
    "native_unknown_state": (NATIVE + "time_s,state\n0,los\n3,LOS\n", ()),
    "native_state_missing": (NATIVE + "time_s,rate_bps,state\n0,1,\n", ()),
    "native_state_of_packets": ("# wavebed pattern 1\n# kind = packets\n# packets = 9\npacket,state\n0,los\n", ()),
    "native_ten_digits": (NATIVE + "time_s,rate_bps\n0,1\n0.0000000001,1\n", ()),
    "native_missing_value": (NATIVE + "time_s,rate_bps\n0,\n", ()),
    "native_too_few_values": (NATIVE + "time_s,rate_bps\n0,1\n3\n", ()),
    "native_blank_line": (NATIVE + "time_s,rate_bps\n0,1\n\n3,2\n", ()),
    "native_late_comment": (NATIVE + "time_s,rate_bps\n0,1\n# now an outage\n3,0\n", ()),
    "native_opportunity_back": (OPPORTUNITIES + "0.2,1500\n0.1,1500\n", ()),
    "native_opportunity_late": (OPPORTUNITIES + "0.2,1500\n1.1,1500\n", ()),
    "native_opportunity_empty": (OPPORTUNITIES + "0.2,0\n", ()),
    "native_packet_past_end": (PACKETS + "0,0\n10,1\n", ()),
    "mahimahi_back": ("5\n4\n", ("--format", "mahimahi")),
    "mahimahi_blank": ("5\n\n6\n", ("--format", "mahimahi")),
    "mahimahi_fraction": ("5\n5.5\n", ("--format", "mahimahi")),
    "mahimahi_negative": ("-5\n5\n", ("--format", "mahimahi")),
    "mahimahi_zero_period": ("0\n0\n", ("--format", "mahimahi")),
    "mahimahi_huge": ("1\n99999999999999999999999\n", ("--format", "mahimahi")),
    "cellreplay_light_two_lines": ("0 20 0 1\n100 21 0\n", ()),
    "cellreplay_light_back": ("0 20 0\n100 21 0\n50 20 0\n", ()),
    "cellreplay_light_fraction": ("0 20 0\n100 21.5 0\n150 20 0\n", ()),
    "cellreplay_offset": ("100 0\n200 1.5\n300 2\n", ("--format", "cellreplay-offset")),
    "seconds_mbit_three_values": ("1.0 5\n2.0 5 6\n3 4\n", ()),
    "seconds_mbit_blank": ("1.0 5\n\n3 4\n", ()),
    "seconds_mbit_back": ("1.0 5\n3.0 5\n2.0 4\n", ()),
    "seconds_mbit_text": ("1.0 5\n2.0 fast\n3.0 4\n", ()),
    "seconds_mbit_negative": ("1.0 5\n2.0 -5\n", ()),
    "seconds_mbit_only_zero": ("0.0 5\n", ()),
    "seconds_mbit_too_fast": ("1.0 1000001\n", ()),
    "kaunet_odd": ("0,1000,5\n", ()),
    "kaunet_back": ("0,1000,50,2000,40,3000\n", ()),
    "kaunet_one_pair": ("0,1000\n", ()),
    "kaunet_short_duration": ("0,1000,50,2000\n", ("--duration", "20ms")),
    "kaunet_first_not_zero": ("5,1000,50,2000\n", ("--format", "kaunet")),
    "ns3_no_time": ("DL/UL\trnti\ttbSize\tcorrupt\nDL\t1\t100\t0\n", ()),
    "ns3_cut_off": (NS3 + "DL\t0.1\t1\t100\t28\t0\nDL\t0.2\t1\n", ()),
    "ns3_neither_dl_nor_ul": (NS3 + "XL\t0.1\t1\t100\t28\t0\n", ()),
    "ns3_only_uplink": (NS3 + "UL\t0.1\t1\t100\t28\t0\n", ()),
    "ns3_corrupt_not_flag": (NS3 + "DL\t0.1\t1\t100\t28\t7\n", ()),
    "lumos5g_two_runs": (LUMOS + "1,1,5\n2,1,6\n", ()),
    "lumos5g_no_such_run": (LUMOS + "1,1,5\n", ("--run", "9")),
    "lumos5g_nan": (LUMOS + "1,1,NaN\n", ()),
    "lumos5g_short_row": (LUMOS + "1,1\n", ()),
    "theaterq_zero_keep": ("1000,0,5,0,10\n0,0,5,0,10\n7,0,5,0,10\n", ()),
    "theaterq_four_values": ("1000,0,5,0,10\n1000,0,5,0\n1000,0,5,0,10\n", ()),
    "theaterq_loss": ("1000,0,5,4294967296,10\n", ()),
    "theaterq_rate": ("1000,0,-2,0,10\n", ()),
    "theaterq_rate_far_below": ("1000,0,-55555555555555555555555,0,10\n", ()),
    "netem_trace_not_json": ('{"StaticBwConfig": \n', ()),
    "netem_trace_empty_list": ("[]", ()),
    "netem_trace_unknown": ('{"StaircaseBwConfig": {}}', ()),
    "netem_trace_random": ('{"NormalizedBwConfig": {}}', ()),
    "netem_trace_noisy_wave": ('{"SawtoothBwConfig": {"std_dev": "1Mbps"}}', ()),
    "netem_trace_wave_upside_down": ('{"SawtoothBwConfig": {"bottom": "20Mbps"}}', ()),
    "netem_trace_empty_values": ('{"TraceBwConfig": {"pattern": [["1s", []]]}}', ()),
    "netem_trace_delay_per_packet_beside_rate": (
        json.dumps([ONE, {"StaticDelayPerPacketConfig": {"delay": "1ms", "count": 3}}]), (),
    ),
    "netem_trace_no_duration": ('{"StaticBwConfig": {"bw": "1Mbps"}}', ()),
    "netem_trace_unknown_key": (static(speed=3), ()),
    "netem_trace_bare_rate": (static(bw="12"), ()),
    "netem_trace_rate_number": (static(bw=12), ()),
    "netem_trace_zero_duration": (static(duration="0s"), ()),
    "netem_trace_empty_pattern": (repeated([]), ()),
    "netem_trace_negative_count": (repeated([ONE], -1), ()),
    "netem_trace_endless_inside": (repeated([json.loads(repeated([ONE]))], 1), ()),
    "netem_trace_too_many": (repeated([ONE], 10**9), ()),
    "netem_trace_mixed": (repeated([{"StaticDelayConfig": {"delay": "1ms", "duration": "1s"}}]), ()),
    "netem_trace_burst_loss": ('{"StaticLossConfig": {"loss": [0.1, 0.5], "duration": "1s"}}', ()),
    "netem_trace_durations_differ": (
        json.dumps([ONE, {"StaticDelayConfig": {"delay": "1ms", "duration": "2s"}}]), (),
    ),
    "table_no_such_column": ("t,x\n0,1\n", TABLE),
    "table_column_twice": ("t,r,r\n0,1,2\n", TABLE),
    "table_back": ("t,r\n0,1\n2,1\n1,1\n", TABLE),
    "table_before_first": ("t,r\n5,1\n2,1\n", TABLE),
    "table_one_row": ("t,r\n0,1\n", TABLE),
    "table_short_row": ("t,r\n0,1\n1\n", TABLE),
    "table_text": ("t,r\n0,1\n1,fast\n", TABLE),
    "table_open_quote": ('t,r\n0,"1\n', TABLE),
    "table_no_rows": ("t,r\n", TABLE),
    "table_bare_column": ("t,r\n0,1\n", ("--columns", "time=t", "rate=r:mbit")),
    "table_unknown_name": ("t,r\n0,1\n", ("--columns", "speed=r:mbit")),
    "table_no_time": ("t,r\n0,1\n", ("--columns", "rate=r:mbit")),
    "table_no_rate": ("t,r\n0,1\n", ("--columns", "time=t:s")),
    "table_bare_every": ("t,r\n0,1\n", ("--columns", "every=1", "rate=r:mbit")),
}  # fmt: skip


@pytest.mark.parametrize("name", CORPUS)
def test_a_malformed_trace_gives_one_line_and_writes_nothing(name, tmp_path, monkeypatch, capsys, snapshot) -> None:
    content, arguments = CORPUS[name]
    monkeypatch.chdir(tmp_path)
    Path("trace").write_bytes(content if isinstance(content, bytes) else content.encode())
    status = main(["trace", "convert", "trace", "-o", "out.csv", *arguments])
    captured = capsys.readouterr()
    assert status == 2
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["trace"]
    assert captured.err == snapshot


@pytest.mark.parametrize("command", [("trace", "info"), ("shell", "--print-laboratory", "--trace")])
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("absent.csv", "no such file or directory"),
        (".", "is a directory, not a regular file"),
        ("/dev/zero", "is a device, not a regular file"),
        ("pipe", "is a named pipe, not a regular file"),
        ("huge", "is larger than 1073741824 bytes"),
    ],
)
def test_only_regular_files_of_bounded_size_are_read(
    command: tuple[str, ...], name: str, said: str, tmp_path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    with Path("huge").open("wb") as huge:
        huge.truncate(2**30 + 1)
    assert main([*command, name]) == 2
    message = capsys.readouterr().err
    assert message.startswith("wavebed: ")
    assert message.endswith(f"{name}: {said}: name a trace file\n")
    assert message.count("\n") == 1


def test_deep_json_is_refused(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    Path("trace").write_text("[" * 100_000)
    assert main(["trace", "info", "trace"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


TABLES = {
    "phone.csv": "Timestamp,DL_bitrate\n2024.05.01_10.00.00,7000\n2024.05.01_10.00.01,8000\n",
    "my walk.csv": "time;Downlink rate (Mbps)\n0,0;7,5\n1,0;8,5\n",
}


def columns_of(file: str) -> tuple[frozenset[str], list[str]]:
    """Return the columns of a trace as a laboratory takes it, and the notes."""
    traces = Traces()
    try:
        return traces.columns(PatternFile(Path(file))), traces.notes
    finally:
        traces.close()


@pytest.mark.parametrize("name", TABLES)
def test_a_table_given_to_a_laboratory_names_the_command_that_converts_it(name, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(TABLES[name])
    with pytest.raises(UserError) as caught:
        columns_of(name)
    message = str(caught.value)
    assert "\n" not in message
    command = shlex.split(message.partition("convert the file first: wavebed ")[2])
    assert main(command) == 0
    assert columns_of(command[-1]) == ({"time_s", "rate_bps"}, [])


def test_a_trace_that_fits_two_formats_names_the_command_that_converts_it(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("trace").write_text("1\n2\n3\n")
    with pytest.raises(UserError, match=r"first: wavebed trace convert trace OPTIONS -o trace\.pattern"):
        columns_of("trace")
    assert main(["trace", "convert", "trace", "--format", "mahimahi", "-o", "trace.pattern"]) == 0
    assert columns_of("trace.pattern") == ({"time_s", "bytes"}, [])


def test_a_note_on_an_option_of_trace_names_the_command_that_has_it(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("trace").write_text("0,5000,10,6000,30,7000\n")
    _, notes = columns_of("trace")
    assert "(wavebed trace convert --duration says otherwise)" in notes[0]


@pytest.mark.parametrize("compress", [False, True])
def test_a_laboratory_reads_a_trace_that_is_compressed(compress, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (NATIVE + "time_s,rate_bps\n0,5000000\n").encode()
    Path("trace").write_bytes(gzip.compress(text) if compress else text)
    assert columns_of("trace") == ({"time_s", "rate_bps"}, [])
