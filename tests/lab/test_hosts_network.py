"""What a trial over real hosts does with a network that is not ours: routes, limits of data, cross traffic."""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from hosts_state import assert_nothing_left, begin, flows, signal_part, state, wait_for
from tests.on_time import lateness, only_late
from tests.samples_by_seed import sample
from two_hosts import two_hosts

from wavebed.run.hosts import cross_traffic_check

if TYPE_CHECKING:
    from two_hosts import TwoHosts

    from wavebed.lab.protocol import Process

SCENARIO = """
[lab]
backend = "hosts"
server = "ssh://root@server"
{lab}
[path]
{path}
[[workload]]
kind = "bulk"
duration = "{duration}"
limit = "40s"
"""


def start(hosts: TwoHosts, folder: Path, duration: str, lab: str = "", path: str = "") -> Process:
    """Start a run, and wait until its data flow."""
    (folder / "s.toml").write_text(SCENARIO.format(lab=lab, path=path, duration=duration))
    run = begin(hosts, ["run", str(folder / "s.toml"), "-o", str(folder / "out")], folder / "log")
    wait_for(lambda: flows(hosts) or run.poll() is not None)
    return run


def trial(folder: Path) -> dict[str, Any]:
    """Return the trial of a run."""
    (file,) = folder.glob("out/trials/[0-9]*/trial.json")
    return dict(json.loads(file.read_text()))


def ended_well(run: Process, folder: Path) -> None:
    """Fail unless a run ended with usable trials, or only a late machine made one invalid."""
    status = run.wait(90)
    assert status == 0 or only_late((folder / "out").glob("trials/*/trial.json")), (folder / "log").read_text()


def routes(hosts: TwoHosts) -> str:
    """Return the server's routes."""
    return hosts.lab.server.run(["ip", "route"], capture_output=True).stdout


def test_a_congestion_control_by_route_is_in_force_in_the_trial_and_restored_after_it(tmp_path: Path) -> None:
    with two_hosts(tmp_path, rate="50mbit", delay="5ms") as hosts:
        before = state(hosts)
        run = start(hosts, tmp_path, "6s", path='congestion-control = "reno"')
        assert "congctl reno" in routes(hosts)
        assert run.wait(90) == 0 or only_late((tmp_path / "out").glob("trials/*/trial.json")), (
            tmp_path / "log"
        ).read_text()
        assert_nothing_left(hosts, before)
    (bulk,) = trial(tmp_path)["workloads"]
    assert bulk["details"]["congestion_control"] == {"down": "reno"}


@pytest.mark.parametrize("victim", sample(["agent", "sshd", "wavebed"], 1))
def test_a_route_is_restored_whatever_is_killed(tmp_path: Path, victim: str) -> None:
    with two_hosts(tmp_path, rate="50mbit", delay="5ms") as hosts:
        hosts.lab.server.run(["ip", "route", "add", "198.18.0.2/32", "dev", "wb0", "congctl", "cubic"], check=True)
        before = state(hosts)
        run = start(hosts, tmp_path, "20s", path='congestion-control = "reno"')
        assert "congctl reno" in routes(hosts)
        if victim == "agent":  # all of it but the process that restores, which has a session of its own
            words = [
                "sh",
                "-c",
                "for pid in $(pgrep -f remove-own-file); do [ $(ps -o sid= $pid) = $pid ] || echo $pid; done",
            ]
            found = hosts.lab.server.run(words, capture_output=True).stdout.split()
            hosts.lab.server.run(["kill", "-9", *found])
        else:
            signal_part(hosts, victim)
        run.wait(90)
        assert_nothing_left(hosts, before)
        assert "congctl cubic" in routes(hosts)


def test_a_congestion_control_that_a_host_does_not_have_is_told_in_one_line(tmp_path: Path) -> None:
    with two_hosts(tmp_path, rate="50mbit") as hosts:
        before = state(hosts)
        run = start(hosts, tmp_path, "2s", path='congestion-control = "nonesuch"')
        assert run.wait(90) == 2
        assert_nothing_left(hosts, before)
    last = (tmp_path / "log").read_text().strip().rpartition("\n")[2]
    assert "congctl nonesuch" in last


def test_a_trial_ends_at_its_data_limit(tmp_path: Path) -> None:
    with two_hosts(tmp_path, rate="50mbit", delay="5ms") as hosts:
        before = state(hosts)
        run = start(hosts, tmp_path, "30s", lab='data-limit = "10mb"')
        assert run.wait(90) == 1
        assert_nothing_left(hosts, before)
    found = trial(tmp_path)
    assert found["verdict"] == "failed"
    assert found["reasons"][0] == "the trial carried more than 10mb, the limit of lab.data-limit"
    (carried_mb,) = [each["value"] for each in found["metrics"] if each["name"] == "data volume"]
    whole_mb = 50 / 8 * 30
    assert 10 < carried_mb < whole_mb / 2, "the limit, what a second carries, and what a busy machine adds"


def test_an_idle_path_that_is_slower_after_the_trial_makes_it_suspect(tmp_path: Path) -> None:
    with two_hosts(tmp_path, rate="50mbit", delay="5ms") as hosts:
        run = start(hosts, tmp_path, "8s")
        hosts.lab.set(delay="15ms")
        ended_well(run, tmp_path)
    found = trial(tmp_path)
    (check,) = [each for each in found["checks"] if each["code"] == "cross-traffic"]
    idle = found["engine"]["idle_rtts_ms"]
    assert min(idle["before"]) >= 10
    assert min(idle["after"]) >= 30
    # A busy machine may delay pings one after another, and such pings prove no shift.
    assert check == asdict(cross_traffic_check(idle["before"], idle["after"]))
    assert check["holds"] or found["verdict"] == "suspect" or lateness(found)


def test_an_address_that_changes_in_the_trial_makes_it_invalid(tmp_path: Path) -> None:
    with two_hosts(tmp_path, rate="50mbit", delay="5ms") as hosts:
        run = start(hosts, tmp_path, "8s")
        for words in (
            ["ip", "address", "add", "198.18.0.77/32", "dev", "wb0"],
            ["ip", "route", "add", "198.18.0.1/32", "dev", "wb0", "src", "198.18.0.77"],
        ):
            hosts.lab.client.run(words, check=True)
        assert run.wait(90) == 1
    found = trial(tmp_path)
    assert found["verdict"] == "invalid"
    assert "client: 198.18.0.2 became 198.18.0.77" in found["reasons"][0]


MMCLI = """#!/bin/sh
case "$*" in
*--signal-get*) echo '{"modem": {"signal": {"5g": {"rsrp": "-91.00", "snr": "12.50"}, "lte": {"rsrp": "--"}}}}' ;;
*--location-get*) echo '{"modem": {"location": {"3gpp": {"cid": "0ABC1201"}}}}' ;;
*) echo '{"modem": {}}' ;;
esac
"""


def test_the_state_of_the_modem_is_in_the_results_and_in_the_report(tmp_path: Path) -> None:
    with (
        two_hosts(tmp_path, rate="50mbit", delay="5ms") as hosts,
        tempfile.TemporaryDirectory(prefix="wavebed-test-", dir="/usr/local/lib") as programs,
    ):
        Path(programs).chmod(0o755)
        (Path(programs) / "mmcli").write_text(MMCLI)
        (Path(programs) / "mmcli").chmod(0o755)
        path = f"{programs}:{hosts.variables['PATH']}"
        before = state(hosts)
        run = start(hosts._replace(variables={**hosts.variables, "PATH": path}), tmp_path, "3s")
        assert run.wait(90) == 0 or only_late((tmp_path / "out").glob("trials/*/trial.json")), (
            tmp_path / "log"
        ).read_text()
        assert_nothing_left(hosts, before)
    found = trial(tmp_path)
    samples = found["engine"]["modem"]["samples"][:-1]  # the last look may have been ended amid its questions
    assert samples
    assert {(each["technology"], each["rsrp_dbm"], each["sinr_db"], each["cell"]) for each in samples} == {
        ("NR", -91.0, 12.5, "0ABC1201")
    }
    assert all(-1 < each["time_s"] < 60 for each in samples)
    (folder,) = tmp_path.glob("out/trials/[0-9]*")
    rows = pq.read_table(folder / "series" / "samples.parquet").to_pandas()
    of_modem = rows[rows["workload"] == "modem"]
    assert sorted(set(of_modem["series"])) == ["rsrp", "sinr"]
    assert (folder / "raw" / "modem.txt.gz").exists()
    report = (tmp_path / "out" / "report.html").read_text()
    assert "<h3>Modem</h3>" in report
    assert "0ABC1201" in report
