"""Commands as workloads: their keys, the parsers of their output, and the programs that they need."""

from __future__ import annotations

import contextlib
import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavebed.config.problems import Problem
from wavebed.errors import MachineError, WavebedError
from wavebed.lab import tools
from wavebed.workload import read_workload
from wavebed.workload.parsers import PARSERS


def test_a_program_is_an_array_and_a_line_is_for_the_shell() -> None:
    assert read_workload({"kind": "command", "run": ["a", "b c"]}).options.run == ["a", "b c"]
    assert read_workload({"kind": "command", "run": "a | b"}).options.run == ["sh", "-c", "a | b"]


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ({}, "run: is missing: write run = "),
        ({"run": []}, "run: an array is not a command"),
        ({"run": 3}, "run: 3 is not a command"),
        ({"run": ["a", 3]}, "run: 3 is not text: write each argument"),
        ({"run": [""]}, "run: has an empty name"),
        ({"run": " "}, "run: ' ' is not text"),
        ({"run": ["a"], "parser": "xml"}, "parser: 'xml' is not a choice: write one of none, json-numbers"),
        ({"run": ["a"], "may-be-stopped": "yes"}, "may-be-stopped: 'yes' is neither true nor false"),
    ],
)
def test_a_wrong_value_is_said_with_its_key(keys: dict[str, object], line: str) -> None:
    with pytest.raises(Problem) as caught:
        read_workload({"kind": "command", **keys})
    assert str(caught.value).startswith(line)


PING = """PING server (198.18.0.1) 56(84) bytes of data.
64 bytes from 198.18.0.1: icmp_seq=1 ttl=64 time=40.3 ms

--- server ping statistics ---
4 packets transmitted, 3 received, 25% packet loss, time 3005ms
rtt min/avg/max/mdev = 40.128/40.300/40.512/0.151 ms
"""
PING_LOST = """--- server ping statistics ---
2 packets transmitted, 0 received, +2 errors, 100% packet loss, time 1005ms
"""


def values(parser: str, text: str) -> dict[str, tuple[float | None, str]]:
    return {metric.name: (metric.value, metric.unit) for metric in PARSERS[parser](text)}


def test_none_keeps_everything_and_reads_nothing() -> None:
    assert values("none", "anything = 1") == {}


def test_json_numbers_become_metrics_and_null_is_missing() -> None:
    assert values("json-numbers", '{"goodput": 12.5, "count": 3, "delay": null}') == {
        "goodput": (12.5, ""),
        "count": (3, ""),
        "delay": (None, ""),
    }


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "json-numbers: the output is not JSON"),
        ("[1]", "json-numbers: the output is not an object"),
        ('{"a": true}', "json-numbers: a: is not a number"),
        ('{"a": {"b": 1}}', "json-numbers: a: is not a number"),
        ('{"a": NaN}', "json-numbers: a: nan is not finite"),
    ],
)
def test_json_that_is_not_flat_numbers_is_refused(text: str, line: str) -> None:
    with pytest.raises(WavebedError) as caught:
        values("json-numbers", text)
    assert str(caught.value).startswith(line)


def test_key_values_have_units_and_other_lines_are_not_read() -> None:
    text = "hello\n  frame rate = 29.97 fps\nscore=7\nstalls = - s\nname = value\na = 1 b c\n"
    assert values("key-value", text) == {"frame rate": (29.97, "fps"), "score": (7, ""), "stalls": (None, "s")}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("nothing here", "key-value: the output has no line NAME = NUMBER UNIT"),
        ("a = 1\na = 2", "key-value: a: appears twice"),
        ("a = inf s", "key-value: a: inf is not finite"),
    ],
)
def test_key_values_that_say_nothing_certain_are_refused(text: str, line: str) -> None:
    with pytest.raises(WavebedError) as caught:
        values("key-value", text)
    assert str(caught.value).startswith(line)


def test_ping_gives_what_it_prints_at_its_end() -> None:
    assert values("ping", PING) == {
        "rtt min": (40.128, "ms"),
        "rtt average": (40.3, "ms"),
        "rtt max": (40.512, "ms"),
        "rtt mdev": (0.151, "ms"),
        "loss": (25, "%"),
    }


def test_ping_without_an_answer_has_no_round_trip() -> None:
    found = values("ping", PING_LOST)
    assert found.pop("loss") == (100, "%")
    assert set(found.values()) == {(None, "ms")}


def test_iperf3_gives_the_sums_at_its_end() -> None:
    text = '{"start": {}, "end": {"sum_received": {"bits_per_second": 95e6}, "sum_sent": {"retransmits": 4}}}'
    assert values("iperf3", text) == {"goodput": (95, "Mbit/s"), "retransmits": (4, "segments")}
    with pytest.raises(WavebedError, match="iperf3: unable to connect"):
        values("iperf3", '{"start": {}, "end": {}, "error": "unable to connect"}')


@given(st.sampled_from(sorted(PARSERS)), st.text(max_size=200))
def test_no_output_breaks_a_parser(parser: str, text: str) -> None:
    with contextlib.suppress(WavebedError):
        PARSERS[parser](text)


MEMBERS = st.sampled_from(["start", "end", "error", "sum_received", "sum_sent", "bits_per_second", "retransmits"])
VALUES = st.none() | st.booleans() | st.floats() | st.text(max_size=5)


@given(
    st.dictionaries(
        MEMBERS, st.recursive(VALUES, lambda inner: st.dictionaries(MEMBERS, inner) | st.lists(inner), max_leaves=10)
    )
)
def test_no_json_breaks_the_parser_of_iperf3(document: dict[str, object]) -> None:
    try:
        found = values("iperf3", json.dumps({"start": {}, **document}))
    except WavebedError:
        return
    assert all(value is None or math.isfinite(value) for value, _ in found.values())


def test_printed_numbers_become_metrics_if_there_are_any() -> None:
    assert values("printed", "no number here") == {}
    assert values("printed", "a = 3 ms\nb=1e3\nc = -\nd = fast\nsize = 4 of\n") == {
        "a": (3.0, "ms"),
        "b": (1000.0, ""),
        "c": (None, ""),
        "size": (4.0, "of"),
    }


def test_a_number_that_is_printed_twice_or_is_not_finite_is_no_metric() -> None:
    assert values("printed", "a = 3\na = 4\nb = nan\nc = inf\nd = 1\n") == {"d": (1.0, "")}


def test_a_program_that_is_missing_has_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools.shutil, "which", lambda *_, **__: None)
    assert tools.missing(["nginx", "curl"]) == ["nginx", "curl"]
    with pytest.raises(MachineError, match="nginx: not found: run `apt-get install nginx-light`"):
        tools.find("nginx")


def test_the_folder_of_the_cache_is_absolute_whatever_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAVEBED_CACHE", "here")
    assert tools.cache_folder() == Path.cwd() / "here"


def test_programs_without_a_debian_package_have_a_command_of_their_own() -> None:
    assert tools.install_commands(["haproxy", "ip"]) == ["apt-get install haproxy iproute2"]
    line = tools.not_found(["nft", "sing-box"])
    assert line.startswith("nft, sing-box: not found: run `apt-get install nftables` and `go install ")
    assert "@v" in line, "a version that is known to work"
