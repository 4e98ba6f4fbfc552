"""The options of ``wavebed forward``: what they ask for, and one line for each mistake."""

from __future__ import annotations

import pytest

from wavebed.config.problems import Problem
from wavebed.forward.model import ValueRange
from wavebed.forward.settings import EmulatedDevice, ForwardOptions, PeerPorts, RealPorts, parse_options
from wavebed.secret import Secret


def test_without_options_a_router_in_a_namespace_is_tested() -> None:
    spec = parse_options(ForwardOptions())
    assert spec.target == EmulatedDevice("routing", "routing")
    assert spec.settings.sizes_bytes == (64, 512, 1518)
    assert spec.settings.parts == ("overload", "search", "latency")
    assert spec.cpu is not None
    assert spec.cpu.kind == "local"
    assert parse_options(ForwardOptions(dut="netns")).target == spec.target


@pytest.mark.parametrize(
    ("options", "target"),
    [
        (ForwardOptions(tx="eth0", rx="eth1"), RealPorts("eth0", "eth1")),
        (
            ForwardOptions(tx="eth0", peer="lab-2/eth1", token="t"),
            PeerPorts("eth0", "lab-2", 5544, "eth1", Secret("t")),
        ),
        (
            ForwardOptions(tx="eth0", peer="192.0.2.7:7000/eth1", token="t"),
            PeerPorts("eth0", "192.0.2.7", 7000, "eth1", Secret("t")),
        ),
        (
            ForwardOptions(tx="eth0", peer="[2001:db8::7]:7000/eth1", token="t"),
            PeerPorts("eth0", "2001:db8::7", 7000, "eth1", Secret("t")),
        ),
        (ForwardOptions(dut="relay:delay=50us"), EmulatedDevice("relay", "relay:delay=50us")),
        (ForwardOptions(dut="nat"), EmulatedDevice("nat", "nat")),
    ],
)
def test_each_kind_of_device_can_be_named(options: ForwardOptions, target: object) -> None:
    assert parse_options(options).target == target


def test_the_whole_order_is_read() -> None:
    spec = parse_options(
        ForwardOptions(
            tx="lan0",
            rx="wan0",
            sizes="72,1518",
            pppoe="17",
            flows="1000",
            gateway="192.168.1.1",
            sources="192.168.1.10x16",
            destinations="198.18.1.2",
            link_speed="1gbit",
            tests="search,latency",
            goals="pdr,ndr",
            thorough=True,
            seed="7",
            cpu="ssh://root@192.168.1.1",
            sender="tx_ring",
            name="device A",
        )
    )
    assert (spec.pppoe_session, spec.vlan, spec.flows, spec.gateway) == (17, None, 1000, "192.168.1.1")
    assert (spec.sources, spec.destinations) == (ValueRange("192.168.1.10", 16), ValueRange("198.18.1.2", 1))
    assert spec.settings.link_mbps == 1000.0
    assert spec.settings.parts == ("search", "latency")
    assert [goal.name for goal in spec.settings.goals] == ["ndr", "pdr"]
    assert max(goal.final_trial_s for goal in spec.settings.goals) == 1.0
    assert (spec.settings.seed, spec.sender, spec.name) == (7, "tx_ring", "device A")


def test_default_sizes_grow_with_the_headers() -> None:
    assert parse_options(ForwardOptions(ipv6=True)).settings.sizes_bytes == (84, 512, 1518)
    assert parse_options(ForwardOptions(tx="a", rx="b", pppoe="1")).settings.sizes_bytes[0] == 72


def test_imix_is_searched_when_asked_for() -> None:
    settings = parse_options(ForwardOptions(imix=True, tests="search")).settings
    assert settings.parts == ("search", "imix")
    assert len(settings.mixes["IMIX"]) == 12
    assert parse_options(ForwardOptions()).settings.mixes == {}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (ForwardOptions(tx="eth0"), "--rx: is missing: --tx needs the other port too, or --peer HOST/IFACE"),
        (ForwardOptions(rx="eth0"), "--tx: is missing"),
        (ForwardOptions(tx="eth0", rx="eth0"), "--rx: is the sending port as well"),
        (ForwardOptions(tx="eth0", rx="eth1", peer="h/eth1"), "--rx: the receiving port is the peer's"),
        (ForwardOptions(peer="h/eth1"), "--tx: is missing"),
        (
            ForwardOptions(tx="eth0", peer="h/eth1"),
            "--token: is missing: write the one that wavebed serve forward printed",
        ),
        (ForwardOptions(tx="eth0", rx="eth1", token="t"), "--token: goes with --peer"),
        (ForwardOptions(tx="eth0", peer="h"), "--peer: 'h' is not a port of another machine"),
        (ForwardOptions(tx="eth0", peer="h:0/eth1"), "--peer: 0 is out of range"),
        (ForwardOptions(tx="a b", rx="c"), "--tx: 'a b' is not the name of an interface"),
        (ForwardOptions(tx="an-interface-name", rx="c"), "--tx: 'an-interface-name' is not the name"),
        (ForwardOptions(dut="netns", tx="eth0"), "--tx: goes with real ports"),
        (ForwardOptions(dut="router"), "--dut: 'router' is not a choice: did you mean 'routing'?"),
        (ForwardOptions(dut="relay:"), "--dut: '' is not an option: write relay:KEY=VALUE"),
        (ForwardOptions(dut="relay:delay"), "--dut.delay: 'delay' is not a time"),
        (ForwardOptions(dut="relay:delay=1us,delay=2us"), "each key once"),
        (ForwardOptions(dut="netns:delay=1us"), "--dut.delay: the device routing has no options"),
        (ForwardOptions(gateway="192.0.2.1"), "--gateway: goes with real ports"),
        (ForwardOptions(vlan="5"), "--vlan: goes with real ports"),
        (ForwardOptions(cpu="ssh://router"), "--cpu: a device of --dut is on this machine"),
        (ForwardOptions(cpu="router"), "--cpu: 'router' is not a place"),
        (ForwardOptions(tx="a", rx="b", vlan="4095"), "--vlan: 4095 is out of range"),
        (ForwardOptions(tx="a", rx="b", pppoe="0"), "--pppoe: 0 is out of range"),
        (ForwardOptions(tx="a", rx="b", gateway="router"), "--gateway: 'router' is not an address"),
        (
            ForwardOptions(tx="a", rx="b", gateway="::1"),
            "--gateway: '::1' is of IPv6, the test frames are not: write an IPv4",
        ),
        (ForwardOptions(tx="a", rx="b", ipv6=True, gateway="10.0.0.1"), "or leave --ipv6 out"),
        (ForwardOptions(tx="a", rx="b", sources="10.0.0.1x0"), "--sources: 0 is out of range"),
        (ForwardOptions(tx="a", rx="b", destinations="255.255.255.255x2"), "--destinations: 2 addresses from"),
        (ForwardOptions(tx="a", rx="b", beside=("iperf3",)), "--with: iperf3 needs a host on each side"),
        (ForwardOptions(beside=("ipref3",)), "--with: 'ipref3' is not a choice: did you mean 'iperf3'?"),
        (ForwardOptions(sizes=""), "--sizes: '' is not a whole number"),
        (ForwardOptions(sizes="63"), "--sizes: 63 is out of range"),
        (ForwardOptions(sizes="64,64"), "--sizes: a size is given twice"),
        (ForwardOptions(sizes="1519"), "--sizes: size 1519: an MTU of 1500 carries at most 1518 B"),
        (ForwardOptions(sizes="64", ipv6=True), "--sizes: size 64: headers and the 18 B stamp need at least 84 B"),
        (ForwardOptions(flows="0"), "--flows: 0 is out of range"),
        (ForwardOptions(link_speed="1000"), "--link-speed: '1000' has no unit"),
        (ForwardOptions(link_speed="1kbit"), "--link-speed: '1kbit' is not the speed of a link"),
        (ForwardOptions(tests="serach"), "--tests: 'serach' is not a choice: did you mean 'search'?"),
        (ForwardOptions(tests="latency"), "--tests: latency is measured at fractions of the rate that search finds"),
        (ForwardOptions(goals="ndr,nrd"), "--goals: 'nrd' is not a choice: did you mean 'ndr'?"),
        (ForwardOptions(goals="rfc2544"), "--goals: latency is measured at fractions of the rate of ndr"),
        (ForwardOptions(quick=True, thorough=True), "--thorough: contradicts --quick"),
        (ForwardOptions(seed="-1"), "--seed: '-1' is not a whole number"),
        (ForwardOptions(sender="dpdk"), "--sender: 'dpdk' is not a choice"),
        (ForwardOptions(name=" "), "--name: a device's name is one line"),
    ],
)
def test_a_mistake_is_answered_with_one_line(options: ForwardOptions, said: str) -> None:
    with pytest.raises(Problem) as ended:
        parse_options(options)
    assert said in str(ended.value)
    assert "\n" not in str(ended.value)
