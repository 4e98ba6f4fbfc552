"""`wavebed attach` and `wavebed gateway` on containers made of namespaces: both ways, IPv6, and nothing left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_bridge import ask, check_accounts

AGENT = Path(__file__).with_name("attach_agent.py")
LEAST_MS = 30.0
"""Of a round trip through links of 15 ms each."""
STATUS = {"SIGTERM": 0, "SIGINT": 130, "SIGKILL": -9}


def check_pings(found: dict[str, list[float]], *, behind: bool) -> None:
    """Check that all pings came back, over the path or not. How long the machine itself takes says nothing."""
    for way, trips_ms in found.items():
        assert len(trips_ms) == 5, (way, found)
        if behind and way != "without":
            assert min(trips_ms) >= LEAST_MS, (way, found)
        else:
            assert min(trips_ms) < LEAST_MS, (way, found)


@pytest.mark.parametrize("how", ["attach", "gateway"])
def test_all_traffic_of_a_container_takes_the_path_until_its_end_however_it_ends(how: str) -> None:
    answer: dict[str, Any] = ask(AGENT, how)
    check_pings(answer["before"], behind=False)
    assert len(set(answer["macs"])) == 1, "the Linux bridge keeps its address"
    for name, status in STATUS.items():
        found = answer[name]
        check_pings(found["during"], behind=True)
        check_accounts(found["show"])
        # Out, in, IPv6 and the neighbour: five echo requests or replies each, in both directions.
        assert all(link["delivered_segments"] >= 20 for link in found["show"]["links"])
        assert found["status"] == status
        assert found["changed"] == {}, name
        check_pings(found["after"], behind=False)
    if how == "attach":
        check_pings(answer["pid"], behind=True)
        assert answer["twice"] == [2, "wavebed-core: web0 is behind a path already: `wavebed ctl` lists it\n"]
        assert answer["gone"] == 1
    else:
        assert answer["guard"] == {}
        assert answer["left"] == []


def test_what_cannot_be_attached_to_is_refused_in_one_line(tmp_path: Path) -> None:
    answer = ask(AGENT, "names", str(tmp_path))
    for name, status, words in (
        ("missing", 2, "--netns: missing: no network namespace: no such file or directory"),
        ("own", 2, "--netns: /proc/self/ns/net: is the network of this machine itself"),
        ("pid", 2, "--pid: 'web' is no number of a process: `ps` lists them"),
        ("interface", 2, "--interface: --netns: web has no interface 'eth7': it has eth0, lo"),
        ("no bridge", 2, "the other end of eth0, plain0, is on no Linux bridge: run the path inside: nsenter --net="),
        ("elsewhere", 2, "the other end of eth0 is in another namespace: run the path inside: nsenter --net="),
        ("no veth", 2, "sw0 is no end of a veth pair: run the path inside: nsenter --net="),
        ("no route", 2, "the other end of eth1 is in another namespace"),
        ("container", 2, "--container: no container 'web' runs: `podman ps` shows those that run"),
        ("two", 2, "not allowed with argument --container"),
        ("gateway", 2, "--interface: there is no 'eth7': `ip link` lists them"),
        ("loopback", 2, "--interface: lo is no Ethernet interface: name another one"),
    ):
        found_status, said = answer[name]
        assert found_status == status, (name, said)
        assert words in said, (name, said)
        assert said.count("\n") == 1, said
