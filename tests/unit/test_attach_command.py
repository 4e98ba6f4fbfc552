"""What `attach` and `gateway` make of the lists that `ip` prints; tests/lab/test_attach.py runs them."""

from __future__ import annotations

from typing import Any

import pytest

from wavebed.errors import MachineError, UserError
from wavebed.path import attach, gateway
from wavebed.path.attach import AttachTarget, by_path, by_pid


def veth(number: int, peer: int, namespace_id: int = 3, kind: str = "veth") -> dict[str, Any]:
    return {
        "ifname": f"veth{number}", "ifindex": number, "link_index": peer, "link_netnsid": namespace_id,
        "linkinfo": {"info_kind": kind},
    }  # fmt: skip


def test_a_namespace_is_named_by_its_path_its_name_or_a_process() -> None:
    assert by_path("blue").path == "/run/netns/blue"
    assert by_path("./blue").path == "./blue"
    assert by_pid("17").path == "/proc/17/ns/net"
    assert AttachTarget("--netns", "a b", "/a b").inside == "nsenter --net='/a b' wavebed gateway"
    with pytest.raises(UserError, match="--pid: '-1' is no number of a process"):
        by_pid("-1")


def test_the_other_end_names_this_end_and_its_namespace() -> None:
    own = veth(2, 10)
    other = veth(10, 2)
    assert attach._other_end(own, [veth(9, 2), other], 3) is other
    # Numbers are unique in their namespace only: another container has the same.
    assert attach._other_end(own, [veth(10, 2, 4)], 3) is None
    assert attach._other_end(own, [veth(10, 3)], 3) is None
    assert attach._other_end(own, [veth(10, 2, kind="macvlan")], 3) is None


@pytest.mark.parametrize(
    ("shown", "typed"),
    [
        (
            {
                "family": "inet", "local": "172.18.0.2", "prefixlen": 16, "broadcast": "172.18.255.255",
                "scope": "global",
            },
            "172.18.0.2/16 broadcast 172.18.255.255 scope global",
        ),
        (
            {
                "family": "inet6", "local": "fd00::2", "prefixlen": 64, "scope": "global",
                "valid_life_time": 86400, "preferred_life_time": 3600,
            },
            "fd00::2/64 scope global nodad valid_lft 86400 preferred_lft 3600",
        ),
        (
            {
                "family": "inet6", "local": "fe80::2", "prefixlen": 64, "scope": "link",
                "valid_life_time": gateway.FOREVER, "preferred_life_time": gateway.FOREVER,
            },
            "fe80::2/64 scope link nodad",
        ),
    ],
)  # fmt: skip
def test_an_address_is_typed_as_it_was_shown(shown: dict[str, Any], typed: str) -> None:
    assert gateway._typed(shown) == typed


def test_names_of_interfaces_have_control_characters_and_nonsense_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attach, "ip", lambda *_: '[{"ifname": "x\x1b[2J"}]')
    assert attach.interfaces() == [{"ifname": "x\x1b[2J"}]
    monkeypatch.setattr(attach, "ip", lambda *_: '[{"ifname": "x""}]')
    with pytest.raises(MachineError, match="ip -d -j link show: printed no JSON"):
        attach.interfaces()


def test_a_route_that_fails_costs_no_other_when_all_move_back(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def run(words: list[str], given: str = "") -> None:
        ran.append(" ".join(words))
        if "nhid" in words:
            raise MachineError("mutually exclusive")

    monkeypatch.setattr(gateway, "ip", run)
    routes = ("-4 10.99.0.0/24 nhid 5 via 10.9.0.1", "-6 default via fe80::1")
    interface = gateway.Outward("eth0", "02:00:00:00:00:01", 1500, ("10.9.0.2/24",), routes, "none")
    gateway._move_back(interface)
    assert ran[0] == "link delete wb0"
    assert ran[1] == "link set eth0 addrgenmode none", "as it was"
    assert ran[-1] == "-6 route replace default via fe80::1 dev eth0"


def test_a_route_is_typed_without_what_only_the_kernel_says() -> None:
    shown = "default via fe80::1 proto ra metric 1024 expires 1798sec hoplimit 64 pref medium"
    assert gateway._NOT_TYPED.sub("", shown) == "default via fe80::1 proto ra metric 1024 hoplimit 64 pref medium"
    assert gateway._NOT_TYPED.sub("", "10.0.0.0/8 via 10.9.0.1 linkdown") == "10.0.0.0/8 via 10.9.0.1"
