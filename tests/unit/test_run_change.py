"""Changes of a scenario by key."""

from __future__ import annotations

import pytest

from wavebed.config.problems import Problem
from wavebed.run.change import changed, key_parts, parse_change

DOCUMENT: dict[str, object] = {
    "path": {"rate": "1mbit", "hop": [{"name": "internet"}, {"name": "radio", "queue": "droptail:10p"}]},
    "workload": [{"kind": "download"}, {"kind": "bulk", "name": "other"}],
}


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("path.rate=50mbit", "path.rate", "50mbit"),
        ("path.seed = 3", "path.seed", 3),
        ("path.nat=true", "path.nat", True),
        ('path.rate="1gbit"', "path.rate", "1gbit"),
        ("path.queue={ kind = 'codel' }", "path.queue", {"kind": "codel"}),
        ("workload.web.site=a=b", "workload.web.site", "a=b"),
        ('path.server.sysctl."net.ipv4.tcp_ecn"=1', 'path.server.sysctl."net.ipv4.tcp_ecn"', 1),
    ],
)
def test_a_value_is_read_as_toml_where_it_is_toml(text: str, key: str, value: object) -> None:
    assert parse_change(text) == (key, value)


def test_a_key_in_quotes_is_one_part() -> None:
    assert key_parts('path.server.sysctl."net.ipv4.tcp_ecn"') == ("path", "server", "sysctl", "net.ipv4.tcp_ecn")


def test_hops_and_workloads_are_found_by_name_and_the_original_stays() -> None:
    result = changed(DOCUMENT, {"path.hop.radio.queue": "fq_codel", "workload.other.streams": 4, "run.trials": 2})
    assert result["run"] == {"trials": 2}
    path = result["path"]
    assert isinstance(path, dict)
    assert path["hop"][1]["queue"] == "fq_codel"
    workloads = result["workload"]
    assert isinstance(workloads, list)
    assert workloads[1] == {"kind": "bulk", "name": "other", "streams": 4}
    assert changed(DOCUMENT, {"workload.download.size": "2mb"})["workload"] == [
        {"kind": "download", "size": "2mb"},
        {"kind": "bulk", "name": "other"},
    ]
    assert "run" not in DOCUMENT


@pytest.mark.parametrize(
    ("key", "rule"),
    [
        ("rate", "begins with no table"),
        ("title.x", "begins with no table"),
        ("path", "begins with no table"),
        ("path..rate", "is not a key"),
        ("path.hop.lte.queue", "there is no hop 'lte': write one of internet, radio"),
        ("workload.nothing.size", "there is no workload 'nothing': write one of download, other"),
        ("workload.download", "leads to no value"),
        ("path.rate.x", "leads to no value"),
        ("path.rate.x.y", "is below a value that is no table"),
    ],
)
def test_a_key_that_leads_nowhere_is_said(key: str, rule: str) -> None:
    with pytest.raises(Problem, match=rule):
        changed(DOCUMENT, {key: 1})


@pytest.mark.parametrize("text", ["path.rate", "=1", ""])
def test_a_change_without_a_value_is_said(text: str) -> None:
    with pytest.raises(Problem, match="KEY=VALUE"):
        parse_change(text)
