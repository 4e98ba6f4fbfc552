"""Real laboratories: accounts, the packets that they lose and reorder, settings of hosts, and what is refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import pytest
from programs import arrivals, transfer

from wavebed.errors import UserError
from wavebed.path.api import Path

if TYPE_CHECKING:
    from pathlib import Path as FilePath


def test_the_books_close_and_go_to_files(tmp_path: FilePath) -> None:
    with Path.of(rate="50mbit", loss="1%", duplicate="1%").up(log=tmp_path / "log", pcap=tmp_path / "pcap") as lab:
        transfer(lab, 2_000_000)
    assert lab.summary is not None
    links = cast("list[dict[str, Any]]", lab.summary["links"])
    assert [link["name"] for link in links] == ["radio.down", "radio.up"]
    for link in links:
        gone = link["delivered_segments"] + sum(link["dropped_segments"].values()) + link["queued_segments"]
        assert link["offered_segments"] + link["duplicated_segments"] == gone
        assert link["unaccounted_segments"] == 0
    assert links[0]["dropped_segments"]["loss"] > 0
    stored = json.loads((tmp_path / "log/summary.json").read_text())
    assert stored["links"] == links
    rows = (tmp_path / "log/radio.down.csv").read_text().splitlines()
    column = rows[0].split(",").index("delivered_bytes")
    assert sum(int(row.split(",")[column]) for row in rows[1:]) == links[0]["delivered_bytes"]
    assert list((tmp_path / "pcap").iterdir())


def test_the_same_seed_loses_the_same_packets() -> None:
    seen = []
    for seed in ("3", "3", "4"):
        with Path.of(up_loss="20%", seed=seed).up() as lab:
            seen.append(arrivals(lab, 300))
    assert 180 < len(seen[0]) < 280
    assert seen[0] == seen[1] != seen[2]


def test_loss_by_packet_index_is_exact(tmp_path: FilePath) -> None:
    pattern = "# wavebed pattern 1\n# kind = packets\n# packets = 10\npacket,loss\n0,0\n3,1\n5,0\n"
    (tmp_path / "p.csv").write_text(pattern)
    with Path.of(up_loss={"pattern": str(tmp_path / "p.csv")}).up() as lab:
        assert arrivals(lab, 20) == [number for number in range(20) if number % 10 not in (3, 4)]


def test_duplicates_and_stragglers_arrive_as_commanded() -> None:
    with Path.of(up_duplicate="100%").up() as lab:
        assert arrivals(lab, 5) == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    with Path.of(up_reorder={"probability": "30%", "delay": "5ms"}).up() as lab:
        order = arrivals(lab, 100)
    assert sorted(order) == list(range(100)) != order


def test_congestion_control_and_settings_belong_to_hosts(tmp_path: FilePath) -> None:
    file = tmp_path / "s.toml"
    file.write_text(
        "[path]\ncongestion-control = 'cubic'\n[path.server]\ncongestion-control = 'reno'\n"
        "[path.client.sysctl]\n'net.ipv4.tcp_rmem' = '4096 65536 1000000'\n"
    )
    with Path.load(file).up() as lab:
        assert transfer(lab, 100_000)[1:] == ("reno", "cubic")
        text = lab.client.run(["cat", "/proc/sys/net/ipv4/tcp_rmem"], capture_output=True).stdout
        assert text.split() == ["4096", "65536", "1000000"]


PATTERNS = {
    "steps.csv": "# wavebed pattern 1\n# kind = steps\n# duration_s = 1\n"
    "time_s,rate_bps,delay_s,loss\n0,5000000,0.001,0\n0.5,50000000,0.002,0\n",
    "opportunities.csv": "# wavebed pattern 1\n# kind = opportunities\n# duration_s = 0.001\n"
    "time_s,bytes\n0.001,3000\n",
    "trace.down": "1\n1\n2\n3\n",
}


@pytest.mark.parametrize(
    "options",
    [
        {"rate": {"token-bucket": "10mbit", "burst": "15kb"}},
        {"rate": "10mbit", "queue": "drophead:100p"},
        {"rate": "10mbit", "queue": "infinite"},
        {"rate": "10mbit", "queue": "codel"},
        {"rate": "10mbit", "queue": "fq_codel:20ms"},
        {"rate": "10mbit", "queue": "droptail:64kb", "queue_unit": "superpacket", "overhead": "24"},
        {"rate": "10mbit", "rate_mode": "sampled", "coalesce": "off"},
        {"trace": "steps.csv", "trace_end": "hold", "start_at": "200ms", "outage": "drop"},
        {"trace": "steps.csv", "rate_mode": "sampled"},
        {"trace": "opportunities.csv", "coalesce": "slot"},
        {"trace": "trace.down", "trace_format": "mahimahi"},
        {"delay": {"distribution": "normal", "mean": "3ms", "spread": "1ms", "correlation": "25%", "reorder": True}},
        {"delay": {"distribution": "paretonormal", "mean": "3ms", "spread": "1ms"}},
        {"delay": {"pattern": "steps.csv"}},
        {"loss": {"model": "gilbert-elliott", "p": "0.1%", "r": "90%"}, "loss_unit": "superpacket"},
        {"loss": {"model": "four-state", "p13": "0.1%", "p31": "90%", "p23": "50%", "p32": "10%", "p14": "0.1%"}},
        {"loss": "0.1%", "loss_at": "entry", "rate": "10mbit"},
        {"corrupt": "0.1%", "mtu": "9000"},
    ],
    ids=lambda options: " ".join(f"{key}={value}" for key, value in options.items())[:70],
)
def test_every_kind_of_stage_carries_data(
    options: dict[str, object], tmp_path: FilePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in PATTERNS.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    with Path.of(**options).up() as lab:
        transfer(lab, 200_000)
    assert lab.summary is not None
    links = cast("list[dict[str, Any]]", lab.summary["links"])
    assert [link["unaccounted_segments"] for link in links] == [0, 0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rate": "1mbit"}, "rate: .* no link has a stage"),
        ({"radio.sideways.delay": "1ms"}, "is no link"),
        ({"lte.down.delay": "1ms"}, "lte"),
    ],
)
def test_a_change_that_nothing_takes_is_refused(changes: dict[str, str], message: str) -> None:
    with Path.of(delay="5ms").up() as lab, pytest.raises(UserError, match=message):
        lab.set(**changes)
