"""What workloads do where hosts have one address, clocks of their own, and not every program."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.memory_lab import MemoryLab, Program

from wavebed.hosts.clocks import ClockBounds
from wavebed.hosts.host import AgentHost
from wavebed.lab.clock import MachineClock
from wavebed.lab.ports import first_ports
from wavebed.run.folder import programs
from wavebed.run.resolve import programs_on
from wavebed.run.scenario import read_plan
from wavebed.workload import read_workload
from wavebed.workload import web as web_module
from wavebed.workload.call import reachable
from wavebed.workload.model import TrialContext

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from wavebed.workload.serve import VirtualHost
    from wavebed.workload.web import Web

SDP = """v=0
a=candidate:1 1 udp 2122260223 10.0.0.5 40001 typ host generation 0 network-id 1
a=candidate:2 1 udp 2122194687 172.17.0.1 40002 typ host generation 0 network-id 2
a=candidate:3 1 udp 2122129151 2001:db8::1 40003 typ host generation 0 network-id 3
a=candidate:4 1 tcp 1518280447 10.0.0.5 9 typ host tcptype active generation 0 network-id 1
a=end-of-candidates
"""


def candidates(address: str) -> list[str]:
    told = cast("dict[str, str]", reachable({"type": "offer", "sdp": SDP}, address))
    assert told["type"] == "offer"
    lines = told["sdp"].split("\r\n")
    assert (lines[0], lines[-2:]) == ("v=0", ["a=end-of-candidates", ""])
    return [" ".join(line.split()[4:6]) for line in lines if line.startswith("a=candidate")]


def test_only_the_address_on_the_path_is_offered_to_the_other_end() -> None:
    assert candidates("10.0.0.5") == ["10.0.0.5 40001"]


def test_behind_a_translator_of_addresses_the_outer_one_stands_for_the_inner_ones() -> None:
    assert candidates("192.0.2.7") == ["192.0.2.7 40001", "192.0.2.7 40002"]


def test_emulated_hosts_offer_all_their_addresses() -> None:
    assert reachable({"sdp": SDP}, "") == {"sdp": SDP}


def test_no_two_workloads_share_a_port() -> None:
    assert first_ports([20, 35, 20]) == [20000, 20020, 20055]


class Silent:
    """Stands in for a browser; keeps its settings."""

    settings: dict[str, Any]
    sandbox = "on"

    def __init__(self, _: object, __: str, settings: dict[str, Any], *___: object, **____: object) -> None:
        type(self).settings = settings

    def await_ready(self) -> None: ...

    def close(self) -> None: ...


def test_each_origin_of_a_page_has_a_port_of_its_own_and_keeps_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[VirtualHost] = []

    def serve(host: object, hosts: Sequence[VirtualHost], *_: object) -> object:
        served.extend(hosts)
        return SimpleNamespace(stop=lambda: None, failure=lambda: None)

    monkeypatch.setattr(web_module, "Agent", Silent)
    monkeypatch.setattr(web_module, "start_web_server", serve)
    workload = cast("Web", read_workload({"kind": "web", "site": "small", "protocol": "h3"}))
    origins = [SimpleNamespace(name=f"{name}.example", folder=name) for name in ("www", "static")]
    site = SimpleNamespace(name="small", origins=origins, objects=[], first="/")
    workload.built = cast("Any", SimpleNamespace(site=site, folder=tmp_path, routes={}))
    workload.device = {}
    workload.certificate = cast("Any", SimpleNamespace(spki_sha256="x"))
    lab = MemoryLab({"ip": Program(status=1)})  # nothing gives the host further addresses
    lab.begin()
    server = lab.host("server")
    server.only_address = "192.0.2.7"
    workload.open(TrialContext(server, lab.host("client"), tmp_path, lab.clock, 20040, "198.19.1.", 1, 5.0))
    assert [(each.name, each.address, each.port) for each in served] == [
        ("www.example", "*", 20040),
        ("static.example", "*", 20041),
    ]
    arguments = " ".join(Silent.settings["arguments"])
    assert "MAP www.example 192.0.2.7:20040, MAP static.example 192.0.2.7:20041, MAP * ~NOTFOUND" in arguments
    assert "--origin-to-force-quic-on=www.example:443,static.example:443" in arguments
    assert Silent.settings["url"] == "https://www.example/"


def host(offset_ns: int, *, is_far: bool) -> AgentHost:
    """Return a host whose clocks are ahead of ours by an offset, without an agent."""
    made = AgentHost.__new__(AgentHost)
    made.clock, made.is_far = MachineClock(), is_far
    made.clock.begin(1_000_000_000_000)
    bounds = ClockBounds()
    for at_ns in range(1_000_000_000_000, 1_010_000_000_000, 1_000_000_000):
        bounds.add(at_ns, at_ns + offset_ns + 5_000_000, at_ns + offset_ns + 5_000_000, at_ns + 10_000_000)
    made.agent = cast("Any", SimpleNamespace(unix=bounds, monotonic=bounds))
    return made


@pytest.mark.parametrize("offset_ns", [0, 50_000_000, -5_000_000_000_000, 1_790_000_000_000_000_000])
def test_a_far_host_tells_times_of_the_trial_by_its_own_clocks(offset_ns: int) -> None:
    far = host(offset_ns, is_far=True)
    shown_ns = 1_003_000_000_000 + offset_ns
    assert far.of_monotonic_ns(shown_ns) == pytest.approx(3, abs=1e-3)
    assert far.of_unix_s(shown_ns / 1e9) == pytest.approx(3, abs=1e-3)


def test_this_machine_tells_them_by_its_own() -> None:
    near = host(77_000_000_000, is_far=False)
    assert near.of_monotonic_ns(1_003_000_000_000) == 3


def test_each_host_needs_the_programs_of_its_end_of_the_workloads() -> None:
    tables = [{"kind": "web", "site": "google"}, {"kind": "bulk"}, {"kind": "latency", "probe": "icmp"}]
    assert programs_on([read_workload(table) for table in tables]) == {
        "server": ["nginx", "iperf3"],
        "client": ["chromium", "iperf3", "ping"],
    }


def test_this_machine_needs_no_programs_of_the_far_end(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(
        '[lab]\nbackend = "hosts"\nserver = "ssh://x"\n[path]\n[[workload]]\nkind = "download"\nprotocol = "h2"\n'
    )
    assert programs(read_plan(tmp_path / "s.toml")) == {"curl", "openssl"}
