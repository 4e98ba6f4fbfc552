"""Runs inside a sandbox: containers on a Linux bridge, as engines make them, and paths for one of them.

machine br0 ─┬─ web0 ─── eth0 web
             └─ other0 ─ eth0 other
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bridge_agent import WITHIN_S, at, ip, round_trips_ms

if TYPE_CHECKING:
    from collections.abc import Callable

WAVEBED = [sys.executable, "-m", "wavebed"]
MACHINE, WEB, OTHER = "10.78.0.1", "10.78.0.2", "10.78.0.3"
WEB6 = "fd78::2"
PATH = ("--delay", "15ms")


def build() -> None:
    """Make the bridge and both containers."""
    ip("link", "add", "br0", "type", "bridge")
    ip("addr", "add", f"{MACHINE}/24", "dev", "br0")
    ip("addr", "add", "fd78::1/64", "dev", "br0", "nodad")
    ip("link", "set", "br0", "up")
    for name, address in (("web", WEB), ("other", OTHER)):
        ip("netns", "add", name)
        ip("link", "add", f"{name}0", "type", "veth", "peer", "name", "eth0", "netns", name)
        ip("link", "set", f"{name}0", "master", "br0", "up")
        at(name, "ip", "link", "set", "eth0", "up")
        at(name, "ip", "addr", "add", f"{address}/24", "dev", "eth0")
        at(name, "ip", "addr", "add", f"fd78::{address[-1]}/64", "dev", "eth0", "nodad")
        at(name, "ip", "route", "add", "default", "via", MACHINE)


def started(command: list[str], name: str) -> subprocess.Popen[str]:
    """Start a path, and return its process once its links run."""
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line)
        if line.startswith(f"wavebed-core: bridge {name}: "):
            return process
    raise AssertionError(f"no path: {''.join(said)}")


def refused(*words: str, environment: dict[str, str] | None = None) -> tuple[int, str]:
    done = subprocess.run(
        [*WAVEBED, *words],
        capture_output=True, text=True, check=False, timeout=WITHIN_S,
        env=None if environment is None else os.environ | environment,
    )  # fmt: skip
    return done.returncode, done.stderr


def pings() -> dict[str, list[float]]:
    """Return five round trips of each kind, milliseconds: by the container, to it, over IPv6, to its neighbour."""
    ways = {
        "out": ("web", MACHINE), "in": ("", WEB), "v6": ("", WEB6), "neighbour": ("web", OTHER),
        "without": ("other", MACHINE),
    }  # fmt: skip
    found = {}
    for way, (host, address) in ways.items():
        command = ["ping", "-c", "5", "-i", "0.05", "-w", "20", address]
        if host:
            text = at(host, *command, check=False)
        else:
            text = subprocess.run(command, capture_output=True, text=True, check=False, timeout=WITHIN_S).stdout
        found[way] = round_trips_ms(text)
    return found


def state() -> dict[str, Any]:
    """Return all that a path could leave: interfaces, addresses, routes and tables of the machine and the container."""
    tables = subprocess.run(["nft", "list", "tables"], capture_output=True, text=True, check=True).stdout
    found: dict[str, Any] = {"tables": tables, "sockets": Path("/proc/net/packet").read_text().splitlines()[1:]}
    for host in ("", "web"):
        inside = ["-n", host] if host else []
        links = json.loads(ip(*inside, "-d", "-j", "link"))
        found[f"links {host}"] = sorted((link["ifname"], link.get("master"), link.get("promiscuity")) for link in links)
        found[f"routes {host}"] = sorted(
            ip(*inside, "route").splitlines()
            + ip(*inside, "-6", "route", "show", "dev", "eth0" if host else "br0").splitlines()
        )
        found[f"addresses {host}"] = sorted(
            (link["ifname"], address["local"], address["prefixlen"])
            for link in json.loads(ip(*inside, "-j", "address"))
            for address in link["addr_info"]
        )
    return found


def mac_of_switch() -> str:
    """Return the address of the Linux bridge, which neighbours know; by default the least one of its ports."""
    (shown,) = json.loads(ip("-j", "link", "show", "dev", "br0"))
    return str(shown["address"])


def settled(wanted: dict[str, Any]) -> dict[str, Any]:
    """Return the state once it is `wanted`, or after some time: the kernel removes namespaces in the background."""
    end = time.monotonic() + WITHIN_S
    while (found := state()) != wanted and time.monotonic() < end:
        time.sleep(0.05)
    return found


def through(command: list[str], name: str, control: Callable[..., list[str]]) -> dict[str, Any]:
    """End a path in each way; return the round trips during and after each, and what changed for good."""
    # Link-local addresses come with a delay of the kernel.
    for host, device in (("", "br0"), ("web", "eth0")):
        end = time.monotonic() + WITHIN_S
        inside = ["-n", host] if host else []
        while "tentative" in ip(*inside, "-6", "addr", "show", "dev", device) and time.monotonic() < end:
            time.sleep(0.05)
    before = state()
    answer: dict[str, Any] = {"macs": [mac_of_switch()], "before": pings()}
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
        process = started(command, name)
        during = pings()
        answer["macs"].append(mac_of_switch())
        show = subprocess.run(control(name, "show"), capture_output=True, text=True, check=True, timeout=WITHIN_S)
        process.send_signal(number)
        status = process.wait(WITHIN_S)
        after = settled(before)
        answer[number.name] = {
            "during": during,
            "show": json.loads(show.stdout),
            "status": status,
            "after": pings(),
            "changed": {key: (before[key], after[key]) for key in before if after[key] != before[key]},
        }
    return answer


def attach() -> dict[str, Any]:
    """Attach to a namespace by its name, its path and a process; end the path in each way."""
    build()
    sleeper = subprocess.Popen(["ip", "netns", "exec", "web", "sleep", "600"])
    control = [*WAVEBED, "ctl", "--json"]
    answer = through(
        [*WAVEBED, "attach", "--netns", "web", *PATH, "--name", "phone"],
        "phone", lambda name, action: [*control, name, action],
    )  # fmt: skip
    process = started([*WAVEBED, "attach", "--pid", str(sleeper.pid), *PATH, "--name", "phone"], "phone")
    answer["pid"] = pings()
    answer["twice"] = refused("attach", "--netns", "/run/netns/web", *PATH)
    # A container that ends takes its end of the cable with it.
    sleeper.kill()
    sleeper.wait()
    ip("link", "delete", "web0")
    answer["gone"] = process.wait(WITHIN_S)
    return answer


def gateway() -> dict[str, Any]:
    """Run a gateway in the namespace of a container; end it in each way."""
    build()
    inside = ["ip", "netns", "exec", "web"]
    control = [*inside, *WAVEBED, "ctl", "--json"]
    command = [*inside, *WAVEBED, "gateway", *PATH]
    answer = through(command, "gateway", lambda name, action: [*control, name, action])
    # The process that moved the addresses, and would move them back, is killed.
    before = state()
    process = started(command, "gateway")
    (guard,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    core = Path(f"/proc/{guard}/task/{guard}/children").read_text().split()
    os.kill(int(guard), signal.SIGKILL)
    process.wait(WITHIN_S)
    after = settled(before)
    answer["guard"] = {key: (before[key], after[key]) for key in before if after[key] != before[key]}
    end = time.monotonic() + WITHIN_S
    while any(Path("/proc", each).exists() for each in core) and time.monotonic() < end:
        time.sleep(0.05)
    answer["left"] = [each for each in core if Path("/proc", each).exists()]
    return answer


def names(folder: str) -> dict[str, Any]:
    """Refuse what cannot be attached to, each in one line; `folder` gets an engine without containers."""
    build()
    ip("netns", "add", "plain")
    ip("netns", "add", "far")
    ip("link", "add", "plain0", "type", "veth", "peer", "name", "eth0", "netns", "plain")
    at("plain", "ip", "link", "set", "eth0", "up")
    at("plain", "ip", "route", "add", "default", "dev", "eth0")
    # A cable between two namespaces, whose numbers are those of the cable of web.
    ip("-n", "far", "link", "add", "eth0", "type", "veth", "peer", "name", "eth1", "netns", "plain")
    at("far", "ip", "link", "set", "eth0", "up")
    # Whoever owns a namespace gives its interfaces any names; these bytes are not even a text.
    ip("-n", "plain", "link", "add", "x\x1b[2J\udcff", "type", "bridge")
    ip("netns", "add", "bare")
    at("bare", "ip", "link", "add", "sw0", "type", "bridge")
    engine = Path(folder) / "podman"
    engine.write_text("#!/bin/sh\ntest $7 = web && echo 0 || exit 1\n")
    engine.chmod(0o755)
    engines = {"PATH": f"{engine.parent}:/usr/sbin:/sbin:/nowhere"}
    return {
        "missing": refused("attach", "--netns", "missing"),
        "own": refused("attach", "--netns", "/proc/self/ns/net"),
        "pid": refused("attach", "--pid", "web"),
        "interface": refused("attach", "--netns", "web", "--interface", "eth7"),
        "no bridge": refused("attach", "--netns", "plain"),
        "elsewhere": refused("attach", "--netns", "far"),
        "no veth": refused("attach", "--netns", "bare"),
        "no route": refused("attach", "--netns", "plain", "--interface", "eth1"),
        "container": refused("attach", "--container", "web", environment=engines),
        "two": refused("attach", "--container", "web", "--pid", "1"),
        "gateway": refused("gateway", "--interface", "eth7"),
        "loopback": refused("gateway", "--interface", "lo"),
    }


JOBS: dict[str, Callable[..., dict[str, Any]]] = {"attach": attach, "gateway": gateway, "names": names}

if __name__ == "__main__":
    print(json.dumps(JOBS[sys.argv[1]](*sys.argv[2:])))
