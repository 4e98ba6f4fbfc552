"""Faults of hosts, agents and connections: the trial fails with one line, nothing is left, and the next trial runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hosts_state import assert_nothing_left, begin, flows, of_part, running, signal_part, state, wait_for
from tests.on_time import lateness
from tests.samples_by_seed import sample
from two_hosts import two_hosts

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from two_hosts import TwoHosts

SCENARIO = """
[lab]
backend = "hosts"
server = "ssh://root@server"
[path]
[run]
trials = 2
[[workload]]
kind = "bulk"
duration = "{duration}"
limit = "40s"
[[workload]]
kind = "latency"
tail = "200ms"
"""

LONG = "6s"
"""On a busy machine it takes a second or two to look for a part and to end it, which has to come amid the trial."""

LEAVE_NO_MEMORY = """
for attempt in $(seq 20); do
    used=$(df -P -k / | awk 'NR == 2 { print ($3 > 4 ? $3 : 4) }')
    if mount -o remount,size="${used}k" /; then exit 0; fi
done
exit 1
"""
"""The kernel refuses less than what is used, which grows meanwhile."""


def trials(out: Path) -> list[dict[str, Any]]:
    """Return the stored trials in their order."""
    return [json.loads(file.read_text()) for file in sorted(out.glob("trials/[0-9]*/trial.json"))]


class Broken:
    """A run whose first trial something breaks."""

    def __init__(self, hosts: TwoHosts, folder: Path, duration: str) -> None:
        self.hosts, self.out, self.log = hosts, folder / "out", folder / "log"
        (folder / "s.toml").write_text(SCENARIO.format(duration=duration))
        self.before = state(hosts)
        self.run = begin(hosts, ["run", str(folder / "s.toml"), "-o", str(self.out)], self.log)
        wait_for(lambda: flows(hosts))

    def ends(self, limit_s: float = 90.0) -> str:
        """Wait for the end; return why the first trial failed. The second one was not touched."""
        self.run.wait(limit_s)
        assert_nothing_left(self.hosts, self.before)
        told = self.log.read_text()
        assert "Traceback" not in told
        first, second = trials(self.out)
        assert first["verdict"] == "failed", first["reasons"]
        assert second["verdict"] in ("valid", "suspect") or lateness(second), second["reasons"]
        reason = str(first["reasons"][0])
        assert "\n" not in reason
        assert f"is failed: {reason}" in told
        return reason


KILLED = [
    ("ssh", "the connection to ssh://root@server ended: signal 9"),
    ("sshd", "the connection to ssh://root@server ended"),
    ("agent", "the connection to ssh://root@server ended"),
    ("local agent", "the agent on this machine ended: signal 9"),
    ("program", "bulk: "),
]


def is_killed(hosts: TwoHosts, broken: Broken, victim: str) -> None:
    signal_part(hosts, victim)
    assert dict(KILLED)[victim] in broken.ends()


def has_no_memory(hosts: TwoHosts, broken: Broken, _: str) -> None:
    agent = min(each.pid for each in of_part(hosts, "agent") if is_inside(hosts, each.namespaces))
    hosts.lab.server.run(["nsenter", "-t", str(agent), "-m", "sh", "-c", LEAVE_NO_MEMORY], check=True)
    assert "samples of connections and processors" in broken.ends()


def is_stopped(hosts: TwoHosts, broken: Broken, victim: str) -> None:
    signal_part(hosts, victim, "STOP")
    reason = broken.ends()
    # It is silent, or the kernel has ended it by then.
    assert "did not answer within 20 s" in reason or " ended: " in reason


def has_a_dead_link(hosts: TwoHosts, broken: Broken, _: str) -> None:
    hosts.lab.set(loss="100%")
    wait_for(lambda: trials(broken.out), 60)
    hosts.lab.set(loss="0%")
    assert "the connection to ssh://root@server ended" in broken.ends()


def cannot_be_reached(hosts: TwoHosts, broken: Broken, _: str) -> None:
    hosts.lab.server.run(["kill", "-STOP", str(hosts.sshd.pid)])
    signal_part(hosts, "ssh")
    broken.run.wait(60)
    hosts.lab.server.run(["kill", "-CONT", str(hosts.sshd.pid)])
    assert_nothing_left(hosts, broken.before, 40)
    assert [trial["verdict"] for trial in trials(broken.out)] == ["failed", "failed"]
    assert "connection to ssh://root@server ended" in trials(broken.out)[1]["reasons"][0]


FAULTS = [
    *((is_killed, victim, LONG) for victim, _ in KILLED),
    (has_no_memory, "", LONG),
]
SILENT = [
    (is_stopped, "agent"),
    (is_stopped, "local agent"),
    (is_stopped, "ssh"),
    (has_a_dead_link, ""),
    (cannot_be_reached, ""),
]
"""Each takes the 20 s after which a silent part is given up, or more."""


@pytest.mark.parametrize(
    ("happens", "victim", "duration"), [*sample(FAULTS, 1), *((*each, "8s") for each in sample(SILENT, 1))]
)
def test_a_part_that_fails_fails_its_trial_alone(
    happens: Callable[[TwoHosts, Broken, str], None], victim: str, duration: str, tmp_path: Path
) -> None:
    with two_hosts(tmp_path, rate="50mbit", delay="5ms", loss="0.0001%") as hosts:
        happens(hosts, Broken(hosts, tmp_path, duration), victim)


def test_a_full_disk_of_the_far_host_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(SCENARIO.format(duration="2s"))
    with two_hosts(tmp_path, memory="1m", rate="50mbit", delay="5ms") as hosts:
        before = state(hosts)
        done = hosts.wavebed(["run", str(tmp_path / "s.toml"), "-o", str(tmp_path / "out")])
        assert_nothing_left(hosts, before)
    assert done.returncode == 3
    assert "No space left on device" in done.stderr.splitlines()[-1]


def is_inside(hosts: TwoHosts, namespaces: frozenset[str]) -> bool:
    """Whether a process has namespaces of its own."""
    (sshd,) = [each for each in running(hosts) if each.pid == hosts.sshd.pid]
    return namespaces != sshd.namespaces
