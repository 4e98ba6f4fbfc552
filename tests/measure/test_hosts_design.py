"""The shipped design over real hosts, CUBIC against BBR: killed and resumed, its volume, and its report."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from tests.lab.hosts_state import assert_nothing_left, begin, signal_part, state, wait_for
from tests.lab.test_hosts_design import RATE, design, trials
from tests.lab.two_hosts import two_hosts

from wavebed.config.values import size_bytes

if TYPE_CHECKING:
    from pathlib import Path

    from two_hosts import TwoHosts


def volume_mb(trial: dict[str, Any]) -> float:
    """Return what a trial carried."""
    (found,) = [each["value"] for each in trial["metrics"] if each["name"] == "data volume"]
    return float(found)


def assert_all_shown(hosts: TwoHosts, out: Path, log: str) -> None:
    """Check the trials, their volume beside the estimate, and the report."""
    found = trials(out)
    assert sorted(trial["treatment"] for trial in found) == ["bbr"] * 3 + ["cubic"] * 3
    assert [trial["block"] for trial in found] == [1, 1, 2, 2, 3, 3]
    # Tests beside this one may keep the processors busy.
    busy = ("processors not saturated", "every host kept up")
    doubts = [reason for trial in found for reason in trial["reasons"] if not any(check in reason for check in busy)]
    assert not doubts
    told = re.search(r"about ([0-9.]+mb) of data", log)
    assert told, log
    assert sum(volume_mb(trial) for trial in found) == pytest.approx(size_bytes(told[1]) / 1e6, rel=0.05)
    report = (out / "report.html").read_text()
    for word in ("ssh://root@server", "goodput", "rtt loaded average", "data volume", "nothing is emulated"):
        assert word in report, word
    rtt = {
        name: [one["value"] for trial in found if trial["treatment"] == name for one in rtts(trial)]
        for name in ("cubic", "bbr")
    }
    assert min(rtt["cubic"]) > 1.5 * max(rtt["bbr"]), "CUBIC fills the queue"


def rtts(trial: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the average round-trip time under load of a trial."""
    return [each for each in trial["metrics"] if each["name"] == "rtt loaded average"]


def test_the_design_runs_is_killed_goes_on_and_has_one_report(tmp_path: Path) -> None:
    out, log = tmp_path / "out", tmp_path / "log"
    with two_hosts(tmp_path, **RATE) as hosts:
        before = state(hosts)
        run = begin(hosts, design(out), log)
        wait_for(lambda: len(trials(out)) >= 2, 120)
        wait_for(lambda: "iperf3 -s" in " ".join(state(hosts).commands))
        signal_part(hosts, "wavebed")
        run.wait(60)
        assert_nothing_left(hosts, before)
        kept = trials(out)
        done = hosts.wavebed(design(out), 240)
        assert done.returncode == 0, done.stderr
        assert_nothing_left(hosts, before)
    assert len(kept) < 6
    assert trials(out)[: len(kept)] == kept, "stored trials stay"
    assert_all_shown(hosts, out, done.stderr)
