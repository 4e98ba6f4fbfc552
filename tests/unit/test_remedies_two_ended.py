"""Remedies of two hosts, and HAProxy: programs, routes, rules and files, and their end; in virtual time."""

from __future__ import annotations

import json
import signal
import tomllib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from tests.memory_lab import MemoryHost, MemoryLab, Program

from wavebed.errors import UserError, WavebedError
from wavebed.remedy import remedy_of
from wavebed.remedy.third_party import PORT, haproxy_configuration
from wavebed.run.scenario import read_plan

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Sequence
    from pathlib import Path

    from tests.memory_lab import MemoryProcess

    from wavebed.remedy.model import RunningRemedy

ADDRESSES = {
    "server": {"wb0": ("198.18.0.1", "198.18.0.2")},
    "edge": {"wb0": ("198.18.0.2", "198.18.0.1"), "wb1": ("198.18.0.2", "198.18.1.2")},
    "client": {"wb0": ("198.18.1.2", "198.18.0.2")},
}
"""The own address and a neighbour's by each device of the hosts."""
ROUTES = {
    ("server", "wb0"): [
        "198.18.0.0/30 scope link src 198.18.0.1 congctl cubic",
        "198.18.1.0/30 scope link src 198.18.0.1",
    ],
    ("edge", "wb0"): ["198.18.0.0/30 scope link src 198.18.0.2", "198.19.0.0/16 scope link src 198.18.0.2"],
    ("edge", "wb1"): ["198.18.1.0/30 scope link src 198.18.0.2 congctl cubic", "fe80::/64 proto kernel metric 256"],
    ("client", "wb0"): [
        "default scope link src 198.18.1.2",
        "198.18.0.0/30 scope link src 198.18.1.2",
        "198.19.0.0/16 scope link src 198.18.1.2",
    ],
}


@dataclass
class Machine:
    """What the programs of a laboratory in memory know of it: its size of packets, and what they were told."""

    mtu: int = 1500
    told: list[tuple[str, str]] = field(default_factory=list)
    """Host and line of every batch, in order."""
    devices: dict[str, set[str]] = field(default_factory=dict)
    keys: dict[str, bool] = field(default_factory=dict)
    """Whether the file of a key was there when its program read it."""
    refused: str = ""
    refused_on: str = ""
    """The host that refuses; by default all."""
    connects: bool = True
    """Whether the tunnel's ends get a connection."""
    passwords: list[str] = field(default_factory=list)
    """Those of Hysteria, as its programs read them."""
    made: MemoryLab | None = None
    """The laboratory."""

    def ip(self, process: MemoryProcess) -> int:
        """Answer as ip does."""
        host, words = process.host.name, process.args[1:]
        if "-batch" in words:
            return 0
        if "get" in words:
            dev, own = next((dev, own) for dev, (own, _) in ADDRESSES[host].items() if _leads(host, dev, words[-1]))
            answer: object = [{"dev": dev, "prefsrc": own}]
        elif "address" in words:
            answer = [{"addr_info": []}, {"addr_info": [{"local": next(iter(ADDRESSES[host].values()))[0]}]}]
        elif "up" in words:
            answer = [{"ifname": name} for name in self.devices.get(host, ())]
        elif "link" in words:
            answer = [{"mtu": self.mtu}]
        else:
            lines = ROUTES[host, words[-1]] if "-4" in words else []
            process.write("".join(f"{line} \n" for line in lines))
            return 0
        process.write(json.dumps(answer))
        return 0

    def edge_program(self, process: MemoryProcess) -> int:
        """Answer as wavebed-edge tunnel does."""
        from pathlib import Path

        if process.args[2] == "key":
            Path(process.args[3]).write_text("secret")
            process.write(f"public-{process.host.name}\n")
            return 0
        settings = tomllib.loads(Path(process.args[3]).read_text())
        self.keys[settings["key"]] = Path(settings["key"]).exists()
        return self._serve(process, settings["device"], 0.3)

    def sing_box(self, process: MemoryProcess) -> int:
        """Answer as sing-box does."""
        from pathlib import Path

        read = json.loads(Path(process.args[-1]).read_text())
        (inbound,) = read["inbounds"]
        self.passwords.append((inbound.get("users") or read["outbounds"])[0]["password"])
        if "tls" in inbound:
            self.keys[inbound["tls"]["key_path"]] = Path(inbound["tls"]["key_path"]).exists()
        process.write("INFO[0000] sing-box started (0.01s)\n")
        return self._serve(process, inbound.get("interface_name", ""), 0.1)

    def _serve(self, process: MemoryProcess, device: str, late_s: float) -> int:
        process.host.clock.sleep(late_s)
        if self.refused and self.refused_on in ("", process.host.name):
            process.write(f"wavebed-edge: {self.refused}\n")
            return 3
        self.devices.setdefault(process.host.name, set()).add(device)
        number, seconds = None, 0
        while number is None:
            process.write(json.dumps({"connected": self.connects and seconds > 2}, separators=(",", ":")) + "\n")
            number = process.next_signal(1.0)
            seconds += 1
        return 0 if number == signal.SIGTERM else 1

    def lab(self) -> MemoryLab:
        """Return a laboratory in which batches are noted."""
        programs = {
            "ip": self.ip,
            "nft": Program(),
            "wavebed-edge": self.edge_program,
            "sing-box": self.sing_box,
            "haproxy": Program(None, ports=[PORT]),
        }
        self.made = Noting(programs, self)
        return self.made

    def lines(self, host: str) -> list[str]:
        """Return what a host was told."""
        return [line for name, line in self.told if name == host]


class Noting(MemoryLab):
    """A laboratory that notes the standard input of programs."""

    def __init__(self, programs: dict[str, object], machine: Machine) -> None:
        super().__init__(programs, ("server", "edge", "client"))  # type: ignore[arg-type]
        self._hosts = {name: NotingHost(self, name, machine) for name in self._hosts}  # type: ignore[assignment]


class NotingHost(MemoryHost):
    """A host of it."""

    def __init__(self, lab: MemoryLab, name: str, machine: Machine) -> None:
        super().__init__(lab, name)
        self._machine = machine

    def run(self, argv: Sequence[str], *, input: str | None = None, **keys: object) -> subprocess.CompletedProcess[str]:  # type: ignore[override] # noqa: A002
        """Note it and run the script."""
        self._machine.told += [(self.name, line) for line in (input or "").splitlines()]
        return super().run(argv, **keys)  # type: ignore[arg-type]


def _leads(host: str, device: str, to: str) -> bool:
    if host == "edge":
        return (to == "198.18.1.2") == (device == "wb1")
    return True


@pytest.fixture(autouse=True)
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("wavebed-edge", "sing-box", "haproxy", "ip", "nft"):
        (folder / name).write_text("#!/bin/false\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("WAVEBED_EDGE", str(folder / "wavebed-edge"))
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def started(machine: Machine, folder: Path, host: str, kind: str, **options: object) -> tuple[MemoryLab, RunningRemedy]:
    lab = machine.lab()
    remedy = remedy_of(kind, options)  # type: ignore[arg-type]
    return lab, remedy.start(lab, host, folder / f"remedy.{host}.{kind}.log")


def programs_of(lab: MemoryLab, name: str) -> list[MemoryProcess]:
    return [each for each in lab.started if each.args[0].endswith(name) and "key" not in each.args]


def test_a_tunnel_has_an_end_on_each_host_and_all_routes_lead_into_it(tmp_path: Path) -> None:
    machine = Machine()
    lab, running = started(machine, tmp_path, "client", "tunnel", peer="server")
    assert [process.host.name for process in programs_of(lab, "wavebed-edge")] == ["server", "client"]
    near = tomllib.loads((tmp_path / "remedy.client.tunnel.server.toml").read_text())
    far = tomllib.loads((tmp_path / "remedy.client.tunnel.client.toml").read_text())
    assert (near["kind"], far["kind"]) == ("listen", "connect")
    assert near["at"] == far["at"] == "198.18.0.1:2862"
    assert (near["peer"], far["peer"]) == ("public-client", "public-server")
    assert near["mtu"] == far["mtu"] == 1425
    assert (near["law"], near["start-mbit"], near["floor-mbit"], near["most-mbit"]) == ("delivery", 20, 0.5, 2000)
    assert near["target-queue-ms"] == 5
    assert machine.lines("server") == [
        "route add 198.18.0.0/30 scope link src 198.18.0.1 congctl cubic dev wb-client table 2862",
        "route add 198.18.1.0/30 scope link src 198.18.0.1 dev wb-client table 2862",
        "rule add from 198.18.0.1 ipproto udp sport 2862 lookup main priority 2762",
        "rule add from all lookup 2862 priority 2862",
    ]
    assert machine.lines("client")[-2] == "rule add to 198.18.0.1 ipproto udp dport 2862 lookup main priority 2760"
    assert machine.lines("client")[0].endswith("src 198.18.1.2 dev wb-server table 2860")
    lab.begin()
    lab.clock.sleep(20.0)
    assert running.stop() == ""
    assert all(process.returncode == 0 for process in programs_of(lab, "wavebed-edge"))


def test_the_keys_of_a_tunnel_are_files_only_until_it_has_read_them(tmp_path: Path) -> None:
    machine = Machine()
    started(machine, tmp_path, "edge", "tunnel", peer="client")
    assert len(machine.keys) == 2
    assert all(machine.keys.values())
    assert not list(tmp_path.glob("*.key"))


def test_the_options_of_a_tunnel_reach_both_ends(tmp_path: Path) -> None:
    options = {
        "law": "autorate",
        "start-rate": "5mbit",
        "least-rate": "1mbit",
        "most-rate": "90mbit",
        "target-queue": "2ms",
    }
    started(Machine(), tmp_path, "edge", "tunnel", peer="client", **options)
    for end in ("edge", "client"):
        settings = tomllib.loads((tmp_path / f"remedy.edge.tunnel.{end}.toml").read_text())
        rates = (settings["start-mbit"], settings["floor-mbit"], settings["most-mbit"])
        assert (settings["law"], rates, settings["target-queue-ms"]) == ("autorate", (5, 1, 90), 2)


def test_the_end_of_a_tunnel_takes_its_rules_back(tmp_path: Path) -> None:
    machine = Machine()
    lab, running = started(machine, tmp_path, "edge", "tunnel", peer="client")
    lab.begin()
    machine.told.clear()
    running.stop()
    assert machine.lines("edge") == ["rule del from all priority 2862", "rule del priority 2762"]
    assert machine.lines("client") == ["rule del from all priority 2861", "rule del priority 2761"]


def test_a_tunnel_without_a_connection_did_not_work(tmp_path: Path) -> None:
    lab, running = started(Machine(connects=False), tmp_path, "server", "tunnel", peer="client")
    lab.begin()
    lab.clock.sleep(20.0)
    assert running.stop() == "tunnel: server and client never had a connection"


def test_a_trial_too_short_to_tell_is_not_judged(tmp_path: Path) -> None:
    lab, running = started(Machine(connects=False), tmp_path, "server", "tunnel", peer="client")
    lab.begin()
    lab.clock.sleep(2.0)
    assert running.stop() == ""


def test_a_tunnel_that_does_not_start_leaves_neither_programs_nor_keys(tmp_path: Path) -> None:
    machine = Machine(refused="no TUN device")
    with pytest.raises(WavebedError, match="on server: no TUN device"):
        started(machine, tmp_path, "server", "tunnel", peer="client")
    assert machine.told == []
    assert not list(tmp_path.glob("*.key"))
    assert machine.made is not None
    ends = programs_of(machine.made, "wavebed-edge")
    assert [process.host.name for process in ends] == ["server", "client"]
    assert all(process.poll() is not None for process in ends)


def test_a_path_whose_packets_are_too_small_for_a_tunnel_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"too small packets: write path.mtu = 1355 or more"):
        started(Machine(mtu=1300), tmp_path, "server", "tunnel", peer="client")


def test_haproxy_has_the_congestion_control_of_each_leg_by_its_routes_and_puts_them_back(tmp_path: Path) -> None:
    machine = Machine()
    lab, running = started(machine, tmp_path, "edge", "haproxy", down="bbr", up="reno")
    changed = [line for line in machine.lines("edge") if line.startswith("route change")]
    assert changed == [
        "route change 198.18.1.0/30 scope link src 198.18.0.2 dev wb1 congctl bbr",
        "route change 198.18.0.0/30 scope link src 198.18.0.2 dev wb0 congctl reno",
        "route change 198.19.0.0/16 scope link src 198.18.0.2 dev wb0 congctl reno",
    ]
    assert any("tproxy ip to 127.0.0.1:2859" in line for line in machine.lines("edge"))
    machine.told.clear()
    assert running.stop() == ""
    assert machine.lines("edge") == [
        "delete table inet wavebed_haproxy",
        *["rule del fwmark 0x2b59 lookup 2859 priority 2859", "route del local default dev lo table 2859"] * 2,
        "route change 198.18.0.0/30 scope link src 198.18.0.2 dev wb0",
        "route change 198.19.0.0/16 scope link src 198.18.0.2 dev wb0",
        "route change 198.18.1.0/30 scope link src 198.18.0.2 congctl cubic dev wb1",
    ]
    (process,) = programs_of(lab, "haproxy")
    assert process.returncode == -signal.SIGTERM, "HAProxy lets the signal end it"


def test_haproxy_is_transparent_and_splices_unless_told_otherwise() -> None:
    text = haproxy_configuration(splice=True)
    assert "  option splice-auto\n" in text
    assert "  source 0.0.0.0 usesrc clientip\n" in text
    assert f"  bind 127.0.0.1:{PORT} transparent\n" in text
    assert "  no option splice-auto\n" in haproxy_configuration(splice=False)


HOPS = "".join(f'[[path.hop]]\nname = "{name}"\nkind = "{name}"\nrate = "9mbit"\n' for name in ("wired", "radio"))
WORKLOAD = '[[workload]]\nkind = "command"\nrun = ["true"]\n'


@pytest.mark.parametrize(
    ("tables", "line"),
    [
        ('[path.client]\nremedy = { kind = "tunnel" }\n', "path.client.remedy.peer: is missing: write peer = HOST"),
        (
            '[path.client]\nremedy = { kind = "tunnel", peer = "edge" }\n',
            "path.client.remedy.tunnel.peer: 'edge' is not another host of this path: write server",
        ),
        (
            '[path.client]\nremedy = { kind = "tunnel", peer = "client" }\n',
            "'client' is not another host of this path: write server",
        ),
        (
            (
                '[path.client]\nremedy = { kind = "tunnel", peer = "server" }\n'
                '[path.server]\nremedy = { kind = "hysteria", peer = "client" }\n'
            ),
            "path.client.remedy.tunnel.peer: another remedy carries this traffic already: leave one out",
        ),
        (
            '[path.client]\nremedy = { kind = "tunnel", peer = "server", most-rate = "fast" }\n',
            r"path.client.remedy.most-rate: ",
        ),
        (
            '[path.client]\nremedy = { kind = "hysteria", peer = "server", down = "400kbit" }\n',
            "path.client.remedy.down: '400kbit' is not in whole Mbit/s, as Hysteria takes rates: write 1mbit or more",
        ),
        (
            '[path.client]\nremedy = { kind = "haproxy" }\n',
            r"'haproxy' is no remedy of this host: write it in \[path.edge\]",
        ),
    ],
)
def test_a_mistake_about_the_other_end_is_named_with_its_place(tmp_path: Path, tables: str, line: str) -> None:
    file = tmp_path / "s.toml"
    file.write_text(f"[path]\n{HOPS}{tables}{WORKLOAD}")
    with pytest.raises(UserError, match=line):
        read_plan(file)


def test_a_tunnel_with_nat_cannot_end_on_this_machine(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    remedy = '[path.client]\nremedy = { kind = "tunnel", peer = "server" }\n'
    file.write_text(f'[path]\nnat = true\nrate = "9mbit"\n{remedy}{WORKLOAD}')
    with pytest.raises(UserError, match="with nat the server is this machine and has no remedies: choose another"):
        read_plan(file)


def test_two_tunnels_may_meet_at_the_edge(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    remedies = (
        '[path.edge]\nafter = "wired"\nremedy = { kind = "tunnel", peer = "client" }\n'
        '[path.server]\nremedy = { kind = "tunnel", peer = "edge" }\n'
    )
    file.write_text(f"[path]\n{HOPS}{remedies}{WORKLOAD}")
    (treatment,) = read_plan(file).treatments
    assert [len(host.remedies) for host in treatment.path.hosts] == [1, 1, 0]  # type: ignore[union-attr]
