"""What runs and lies on two hosts that ssh joins, before and after a trial: processes, mounts, namespaces, files."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from two_hosts import TwoHosts

    from wavebed.lab.protocol import Process

PARTS = {
    "wavebed": "wavebed run",
    "ssh": "ssh -F none",
    "sshd": "dropbear -F",
    "agent": "--remove-own-file",
    "local agent": "wavebed-agent",
    "program": "iperf3 ",
}
"""What is in the command line of each part of a run."""

_LOOK = """
import json, os
from pathlib import Path
found = []
for it in Path('/proc').glob('[0-9]*'):
    try:
        words = (it / 'cmdline').read_bytes().decode(errors='replace').split(chr(0))
        spaces = [os.readlink(it / 'ns' / kind) for kind in ('mnt', 'pid', 'user')]
    except OSError:
        continue
    if words[0] and int(it.name) != os.getpid():
        found.append([int(it.name), spaces, ' '.join(words).strip()])
print(json.dumps(found))
"""


class Running(NamedTuple):
    """A process on one of the hosts."""

    pid: int
    namespaces: frozenset[str]
    command: str


class State(NamedTuple):
    """What there is on the hosts, as far as a run could leave it there."""

    commands: tuple[str, ...]
    namespaces: frozenset[str]
    mounts: str
    routes: str
    files: tuple[str, ...]


def running(hosts: TwoHosts) -> list[Running]:
    """Return the processes of both hosts, but those of this look."""
    told = hosts.lab.server.run([sys.executable, "-c", _LOOK], capture_output=True).stdout
    return [Running(pid, frozenset(namespaces), command) for pid, namespaces, command in json.loads(told)]


def state(hosts: TwoHosts) -> State:
    """Return what there is now."""
    processes = running(hosts)
    mounts = hosts.lab.server.run(["cat", f"/proc/{hosts.sshd.pid}/mounts"], capture_output=True, check=True).stdout
    # The host began with a copy of what other tests had mounted. Such a mount goes when its test removes the folder.
    own, others = Path(hosts.variables["TMPDIR"]).parent, Path(tempfile.gettempdir())
    mounts = "".join(line for line in mounts.splitlines(keepends=True) if not _of_others(line, own, others))
    routes = "".join(
        host.run(["ip", "route"], capture_output=True).stdout for host in (hosts.lab.server, hosts.lab.client)
    )
    folders = [f"/proc/{hosts.sshd.pid}/root/{name}" for name in ("tmp", "root")]
    script = 'find "$@" -mindepth 1 2>/dev/null | grep -v -e /root/root/.ssh | sort'
    files = hosts.lab.server.run(["sh", "-c", script, "sh", *folders, hosts.variables["TMPDIR"]], capture_output=True)
    return State(
        tuple(sorted(each.command for each in processes)),
        frozenset().union(*(each.namespaces for each in processes)),
        mounts,
        routes,
        tuple(files.stdout.splitlines()),
    )


def _of_others(line: str, own: Path, others: Path) -> bool:
    """Return whether a line of /proc/PID/mounts is in the temporary folder of the machine, outside this test's own."""
    place = Path(line.split()[1])
    return others in place.parents and not place.is_relative_to(own)


def assert_nothing_left(hosts: TwoHosts, before: State, limit_s: float = 40.0) -> None:
    """Wait until all is as it was before."""
    end_s = time.monotonic() + limit_s
    while (now := state(hosts)) != before and time.monotonic() < end_s:
        time.sleep(0.2)
    for name, was, found in zip(State._fields, before, now, strict=True):
        if isinstance(was, str):
            assert found == was, f"{name}: {found}"
        else:
            changed = {*was} ^ {*found}
            assert not changed, f"{name}: {changed}"
    assert now == before, "several of the same are left"


def of_part(hosts: TwoHosts, part: str) -> list[Running]:
    """Return the processes of a part of a run."""
    wanted = PARTS[part]
    found = [each for each in running(hosts) if wanted in each.command and "sh -c" not in each.command[:12]]
    if part == "sshd":  # the listening one stays
        return [each for each in found if each.pid != hosts.sshd.pid]
    if part == "agent":
        return [each for each in found if "ssh -F" not in each.command]
    if part == "local agent":
        return [each for each in found if PARTS["agent"] not in each.command and "wavebed run" not in each.command]
    return found


def signal_part(hosts: TwoHosts, part: str, signal: str = "KILL") -> None:
    """Send a signal to every process of a part."""
    found = of_part(hosts, part)
    assert found, [each.command for each in running(hosts)]
    pids = [str(each.pid) for each in found]
    hosts.lab.server.run(["kill", f"-{signal}", *pids])


def begin(hosts: TwoHosts, words: Sequence[str], log: Path) -> Process:
    """Start wavebed on the client; its output goes to a file."""
    with log.open("ab") as stream:
        return hosts.lab.client.start(
            [sys.executable, "-m", "wavebed", *words], env=hosts.variables, stdout=stream, stderr=stream
        )


def flows(hosts: TwoHosts) -> bool:
    """Return whether iperf3 has its connection for control and the one for data."""
    words = ["ss", "-Htn", "state", "established", "( dport != :22 and dst 198.18.0.1 )"]
    return len(hosts.lab.client.run(words, capture_output=True, check=True).stdout.splitlines()) >= 2


def wait_for(condition: Callable[[], object], limit_s: float = 120.0) -> None:
    """Wait until something holds."""
    end_s = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end_s, "it did not happen in time"
        time.sleep(0.05)
