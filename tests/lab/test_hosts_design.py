"""The shipped design over real hosts, CUBIC against BBR: run, killed, resumed, and its report."""

from __future__ import annotations

from pathlib import Path

from hosts_state import begin, signal_part, wait_for
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
