"""The shipped design over real hosts: a killed run is resumed and keeps its trials, one of other values is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hosts_state import assert_nothing_left, begin, signal_part, state, wait_for
from two_hosts import two_hosts

import wavebed

SHIPPED = Path(wavebed.__file__).parent / "scenarios" / "real" / "bbr-5g.toml"
SHORT = {
    "lab.server": "ssh://root@server",
    "lab.expected-rate": "50mbit",
    "workload.bulk.duration": "5s",
    "workload.bulk.start": "500ms",
}
"""Long enough for CUBIC to fill the queue wherever its slow start ends: from 16 segments it has the 83 packets that
the path holds after 0.7 s, and its queue then grows by 50 ms in each second. Its round trip is 110 ms on average then,
that of BBR some 60 ms."""
RATE = {"rate": "50mbit", "delay": "10ms"}


def design(out: Path, **more: str) -> list[str]:
    """Return the words of a command that runs the design, with short trials."""
    sets = [word for key, value in {**SHORT, **more}.items() for word in ("--set", f"{key}={value}")]
    return ["run", str(SHIPPED), *sets, "-o", str(out), "--resume"]


def trials(out: Path) -> list[dict[str, Any]]:
    """Return the stored trials in their order."""
    return [json.loads(file.read_text()) for file in sorted(out.glob("trials/[0-9]*/trial.json"))]


def test_a_killed_run_is_resumed_and_keeps_its_trials(tmp_path: Path) -> None:
    out, short = tmp_path / "out", {"run.trials": "1", "workload.bulk.duration": "2s"}
    with two_hosts(tmp_path, **RATE) as hosts:
        before = state(hosts)
        run = begin(hosts, design(out, **short), tmp_path / "log")
        wait_for(lambda: trials(out) != [], 120)
        signal_part(hosts, "wavebed")
        run.wait(60)
        assert_nothing_left(hosts, before)
        kept = trials(out)
        done = hosts.wavebed(design(out, **short), 120)
        assert done.returncode == 0, done.stderr
        assert_nothing_left(hosts, before)
    found = trials(out)
    assert found[: len(kept)] == kept, "stored trials stay"
    assert sorted(trial["treatment"] for trial in found) == ["bbr", "cubic"]
    report = (out / "report.html").read_text()
    for word in ("ssh://root@server", "goodput", "rtt loaded average", "data volume", "nothing is emulated"):
        assert word in report, word


def test_another_run_is_not_gone_on_with(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with two_hosts(tmp_path, **RATE) as hosts:
        run = begin(hosts, design(out), tmp_path / "log")
        wait_for((out / "run.json").exists)
        signal_part(hosts, "wavebed")
        run.wait(60)
        done = hosts.wavebed(design(out, **{"workload.bulk.streams": "2"}))
    assert done.returncode == 2
    assert "its values of --set differs: name a new folder" in done.stderr
