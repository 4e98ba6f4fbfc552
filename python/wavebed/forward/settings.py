"""The settings of a test, and the options of ``wavebed forward`` that give them."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from wavebed.config.problems import Problem, at, choose, described
from wavebed.config.units import parse_rate
from wavebed.config.values import number
from wavebed.forward.cpu import CpuSource, parse_source
from wavebed.forward.frames import RFC2544_SIZES_BYTES, SIMPLE_IMIX, Headers, check_sizes
from wavebed.forward.model import PlainValue, ValueRange
from wavebed.secret import Secret

GoalName: TypeAlias = Literal["rfc2544", "ndr", "pdr"]


PartName: TypeAlias = Literal["search", "overload", "loss-rate", "latency", "burst", "imix"]


PARTS: tuple[PartName, ...] = ("overload", "search", "imix", "loss-rate", "latency", "burst")
"""In the order in which they run: latency needs the rate that the search finds."""


class GoalSettings(PlainValue, frozen=True):
    """A goal of the search, with the attributes of MLRsearch.

    Parameters
    ----------
    name : str
        ``rfc2544`` (throughput: not one frame lost in one long trial), ``ndr`` (no frame lost, in most of many short
        trials) or ``pdr`` (at most half a percent lost, in most of them).
    loss_ratio : float
        The fraction of frames that a good trial may lose.
    exceed_ratio : float
        The fraction of trial time that bad trials may take at a rate that is still accepted.
    relative_width : float
        The search ends when the bounds are this close, relative to the upper one.
    duration_sum_s : float
        Trial time that decides on a rate, seconds.
    preceding_targets : int
        Coarser and shorter searches before the final one.
    """

    name: GoalName
    loss_ratio: float
    exceed_ratio: float
    relative_width: float
    initial_trial_s: float
    final_trial_s: float
    duration_sum_s: float
    preceding_targets: int


WIDTH = 0.005
"""Half a percent, as CSIT has it: the rate is known to better than one percent."""


FULL_GOALS = (
    GoalSettings("rfc2544", 0.0, 0.0, WIDTH, 1.0, 60.0, 60.0, 2),
    GoalSettings("ndr", 0.0, 0.5, WIDTH, 1.0, 1.0, 21.0, 2),
    GoalSettings("pdr", 0.005, 0.5, WIDTH, 1.0, 1.0, 21.0, 2),
)
"""RFC 2544, section 24 (trials of 60 s), and the goals of FD.io CSIT."""


QUICK_GOALS = (
    GoalSettings("rfc2544", 0.0, 0.0, WIDTH, 0.25, 2.0, 2.0, 1),
    GoalSettings("ndr", 0.0, 0.5, WIDTH, 0.25, 0.25, 1.25, 1),
    GoalSettings("pdr", 0.005, 0.5, WIDTH, 0.25, 0.25, 1.25, 1),
)
"""The same goals in trials of 2 s and 0.25 s: for a first look. A device's buffer hides more overload in them."""


class ForwardSettings(PlainValue, frozen=True):
    """The test of one device. The defaults are the full test; `quick` is the short one.

    Parameters
    ----------
    parts : tuple of str
        Of `PARTS`.
    sizes_bytes : tuple of int
        Frame sizes with FCS; the smallest is the study's 64 B test, the largest its throughput test.
    mixes : mapping of str to tuple of int
        Rows of sizes that are searched under a name, as ``{"IMIX": (…)}``.
    headers : Headers
        IPv4 or IPv6, tag, PPPoE.
    link_mbps : float or None
        Speed of the link at L1 in Mbit/s. ``None``: the speed that the ports say; where they say nothing
        (veth), only the tester's ceiling limits the load.
    goals : tuple of GoalSettings
        All searched at once.
    warm_up_s : float
        Traffic before anything is measured: neighbours, flow tables, clocks of processors.
    overload_repeats : int
        At least 6 for a 95 % interval of a median.
    loss_rate_trial_s, loss_rate_step : float
        RFC 2544, section 26.3: a step of 10 % or less.
    loss_rate_sizes_bytes : tuple of int or None
        ``None``: the smallest and the largest.
    latency_trial_s, latency_fractions : float, tuple of float
        Fractions of the found loss-free rate (NDR).
    latency_sizes_bytes : tuple of int or None
        ``None``: the smallest and the largest.
    latency_repeats : int
        RFC 2544, section 26.2, asks for 20 trials of 120 s; the percentiles of every frame tell more, sooner.
    burst_repeats : int
        RFC 2544, section 26.4, asks for 50.
    burst_longest_s : float
        The longest burst tried, seconds at line rate (RFC 2544: at least 2).
    burst_sizes_bytes : tuple of int or None
        ``None``: the smallest.
    """

    parts: tuple[PartName, ...] = PARTS
    sizes_bytes: tuple[int, ...] = RFC2544_SIZES_BYTES
    mixes: dict[str, tuple[int, ...]] = msgspec.field(default_factory=lambda: {"IMIX": SIMPLE_IMIX})
    headers: Headers = msgspec.field(default_factory=Headers)
    link_mbps: float | None = None
    goals: tuple[GoalSettings, ...] = FULL_GOALS
    warm_up_s: float = 2.0
    overload_trial_s: float = 10.0
    overload_repeats: int = 6
    loss_rate_trial_s: float = 10.0
    loss_rate_step: float = 0.1
    loss_rate_sizes_bytes: tuple[int, ...] | None = None
    latency_trial_s: float = 10.0
    latency_fractions: tuple[float, ...] = (0.1, 0.5, 0.9, 1.0)
    latency_sizes_bytes: tuple[int, ...] | None = None
    latency_repeats: int = 1
    burst_repeats: int = 50
    burst_longest_s: float = 2.0
    burst_sizes_bytes: tuple[int, ...] | None = None
    seed: int = 1

    def quick(self) -> ForwardSettings:
        """Return the same test with short trials and few repeats."""
        return replace(
            self,
            goals=QUICK_GOALS,
            warm_up_s=1.0,
            overload_trial_s=1.0,
            loss_rate_trial_s=1.0,
            latency_trial_s=1.0,
            burst_repeats=3,
            burst_longest_s=0.5,
        )

    @property
    def ends_bytes(self) -> tuple[int, ...]:
        """The smallest and the largest size."""
        return tuple(sorted({min(self.sizes_bytes), max(self.sizes_bytes)}))


DEFAULT_PEER_PORT = 5544
"""Of ``wavebed serve forward``."""


SENDER_KINDS = ("live_frames", "af_xdp_zero_copy", "af_xdp_copy", "tx_ring", "sendmmsg")


TESTS: tuple[PartName, ...] = ("search", "overload", "latency", "loss-rate", "burst")


GOALS: tuple[GoalName, ...] = ("rfc2544", "ndr", "pdr")


MAX_FLOWS = 16_384
"""The sender's table has no more rows."""


MAX_ADDRESSES = 16_384


_DEFAULT_SIZES = (64, 512, 1518)


_QUICK_SIZES = (64, 1518)


_INTERFACE = re.compile(r"[^\s/:]{1,15}")


_PEER = re.compile(r"(?:\[([0-9A-Fa-f:.%a-z]+)\]|([A-Za-z0-9][A-Za-z0-9._-]*))(?::([0-9]{1,5}))?/(.+)")


@dataclass(frozen=True, slots=True)
class RealPorts:
    """Two ports of this machine with the device between them."""

    tx: str
    rx: str


@dataclass(frozen=True, slots=True)
class PeerPorts:
    """A port of this machine, and one of another on which ``wavebed serve forward`` runs, with its token."""

    tx: str
    host: str
    port: int
    rx: str
    token: Secret


@dataclass(frozen=True, slots=True)
class EmulatedDevice:
    """An emulated device, in namespaces; `text` is read by `read_device`."""

    kind: str
    text: str


Target: TypeAlias = RealPorts | PeerPorts | EmulatedDevice


class ForwardOptions(PlainValue, frozen=True):
    """The options as they were typed; ``None`` where one was not given."""

    tx: str | None = None
    rx: str | None = None
    dut: str | None = None
    peer: str | None = None
    token: str | None = None
    sizes: str | None = None
    imix: bool = False
    ipv6: bool = False
    vlan: str | None = None
    pppoe: str | None = None
    flows: str | None = None
    gateway: str | None = None
    sources: str | None = None
    destinations: str | None = None
    link_speed: str | None = None
    tests: str | None = None
    goals: str | None = None
    quick: bool = False
    thorough: bool = False
    seed: str | None = None
    cpu: str | None = None
    beside: tuple[str, ...] = ()
    sender: str | None = None
    name: str | None = None


class ForwardSpec(PlainValue, frozen=True):
    """The specification of a test.

    Parameters
    ----------
    gateway : str, optional
        The device's address at the sending port; without it the device is taken for a bridge.
    sources, destinations : Span, optional
        Addresses of the test frames; the addresses of the ports by default.
    cpu : CpuSource, optional
        Where to look at the device's processor.
    beside : tuple of str
        Other tools to run on the same device.
    """

    target: Target
    settings: ForwardSettings
    name: str
    flows: int = 256
    vlan: int | None = None
    pppoe_session: int | None = None
    gateway: str | None = None
    sources: ValueRange | None = None
    destinations: ValueRange | None = None
    cpu: CpuSource | None = None
    sender: str | None = None
    beside: tuple[str, ...] = ()


def parse_options(options: ForwardOptions) -> ForwardSpec:
    """Check the options.

    Raises
    ------
    Problem
        With one line: the option, the error, the remedy.
    """
    target = _target(options)
    vlan = None if options.vlan is None else at("--vlan", number(1, 4094), options.vlan)
    session = None if options.pppoe is None else at("--pppoe", number(1, 65_535), options.pppoe)
    cpu = at("--cpu", parse_source, options.cpu) if options.cpu is not None else None
    if isinstance(target, EmulatedDevice):
        _only_for_real(options, vlan, session, cpu)
        cpu = cpu or CpuSource("local")
    elif options.beside:
        raise Problem("iperf3 needs a host on each side of the device: it runs with --dut only", "--with")
    return ForwardSpec(
        target,
        _settings(options, Headers(ipv6=options.ipv6, vlan=vlan is not None, pppoe=session is not None)),
        at("--name", _name, options.name) if options.name is not None else _default_name(target),
        256 if options.flows is None else at("--flows", number(1, MAX_FLOWS), options.flows),
        vlan,
        session,
        _address("--gateway", options.gateway, ipv6=options.ipv6),
        _span("--sources", options.sources, ipv6=options.ipv6),
        _span("--destinations", options.destinations, ipv6=options.ipv6),
        cpu,
        at("--sender", lambda kind: choose(kind, SENDER_KINDS), options.sender) if options.sender is not None else None,
        tuple(dict.fromkeys(at("--with", lambda tool: choose(tool, ["iperf3"]), tool) for tool in options.beside)),
    )


def _target(options: ForwardOptions) -> Target:
    if options.dut is not None:
        for option, given in (("--tx", options.tx), ("--rx", options.rx), ("--peer", options.peer)):
            if given is not None:
                raise Problem("goes with real ports; --dut makes its own: leave one of them out", option)
        return at("--dut", _emulated, options.dut)
    if options.peer is not None:
        if options.rx is not None:
            raise Problem("the receiving port is the peer's: leave --rx or --peer out", "--rx")
        if options.tx is None:
            raise Problem("is missing: name the port of this machine that sends", "--tx")
        tx = at("--tx", _interface, options.tx)
        peer = at("--peer", lambda text: _peer(text, tx, options.token or ""), options.peer)
        if not options.token:
            raise Problem("is missing: write the one that wavebed serve forward printed there", "--token")
        return peer
    if options.token is not None:
        raise Problem("goes with --peer", "--token")
    if options.tx is None and options.rx is None:
        return EmulatedDevice("routing", "routing")
    if options.tx is None or options.rx is None:
        missing, other = ("--tx", "--rx") if options.tx is None else ("--rx", "--tx")
        raise Problem(f"is missing: {other} needs the other port too, or --peer HOST/IFACE", missing)
    tx, rx = at("--tx", _interface, options.tx), at("--rx", _interface, options.rx)
    if tx == rx:
        raise Problem("is the sending port as well: the device stands between two ports", "--rx")
    return RealPorts(tx, rx)


def _only_for_real(options: ForwardOptions, vlan: int | None, session: int | None, cpu: CpuSource | None) -> None:
    for option, given in (
        ("--gateway", options.gateway),
        ("--sources", options.sources),
        ("--destinations", options.destinations),
    ):
        if given is not None:
            raise Problem("goes with real ports; a device of --dut has its own addresses", option)
    for option, tag in (("--vlan", vlan), ("--pppoe", session)):
        if tag is not None:
            raise Problem("goes with real ports; no device of --dut takes such frames", option)
    if cpu is not None and cpu.kind != "local":
        raise Problem("a device of --dut is on this machine: write local", "--cpu")


def _interface(text: str) -> str:
    if not _INTERFACE.fullmatch(text) or text in {".", ".."}:
        raise Problem(f"{described(text)} is not the name of an interface: 1 to 15 characters without / : and blanks")
    return text


def _emulated(text: str) -> EmulatedDevice:
    from wavebed.forward.devices import read_device

    kind, colon, options = text.partition(":")
    described_as = f"routing{colon}{options}" if kind == "netns" else text
    return EmulatedDevice(read_device(described_as).name, described_as)


def _peer(text: str, tx: str, token: str) -> PeerPorts:
    match = _PEER.fullmatch(text)
    if match is None:
        raise Problem(f"{described(text)} is not a port of another machine: write HOST/IFACE or HOST:PORT/IFACE")
    literal, name, port, interface = match.groups()
    return PeerPorts(
        tx,
        literal or name,
        DEFAULT_PEER_PORT if port is None else number(1, 65_535)(port),
        _interface(interface),
        Secret(token),
    )


def _name(text: str) -> str:
    if not text.strip() or not text.isprintable() or len(text) > 60:
        raise Problem("a device's name is one line of at most 60 characters")
    return text


def _default_name(target: Target) -> str:
    if isinstance(target, EmulatedDevice):
        return target.kind
    if isinstance(target, PeerPorts):
        return f"device between {target.tx} and {target.host}/{target.rx}"
    return f"device between {target.tx} and {target.rx}"


def _address(option: str, text: str | None, *, ipv6: bool) -> str | None:
    if text is None:
        return None
    return str(at(option, lambda given: _ip(given, ipv6=ipv6), text))


def _ip(text: str, *, ipv6: bool) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        raise Problem(f"{described(text)} is not an address: write one as 198.18.0.1") from None
    if (address.version == 6) != ipv6:
        remedy = "write an IPv6 address, or leave --ipv6 out" if ipv6 else "write an IPv4 address, or add --ipv6"
        raise Problem(f"{described(text)} is of IPv{address.version}, the test frames are not: {remedy}")
    return address


def _span(option: str, text: str | None, *, ipv6: bool) -> ValueRange | None:
    if text is None:
        return None

    def read(given: str) -> ValueRange:
        first, times, count = given.partition("x")
        many = number(1, MAX_ADDRESSES)(count) if times else 1
        address = _ip(first, ipv6=ipv6)
        if int(address) + many - 1 > 2**address.max_prefixlen - 1:
            raise Problem(f"{many} addresses from {first} on go beyond the last one")
        return ValueRange(str(address), many)

    return at(option, read, text)


def _settings(options: ForwardOptions, headers: Headers) -> ForwardSettings:
    if options.quick and options.thorough:
        raise Problem("contradicts --quick: leave one of them out", "--thorough")
    settings = ForwardSettings(headers=headers, mixes={})
    parts: tuple[PartName, ...] = ("overload", "search", "loss-rate", "latency", "burst")
    if not options.thorough:
        settings = settings.quick()
        parts = ("overload", "search") if options.quick else ("overload", "search", "latency")
    if options.quick:
        settings = replace(settings, overload_repeats=3)
    sizes: tuple[int, ...] = (
        RFC2544_SIZES_BYTES if options.thorough else _QUICK_SIZES if options.quick else _DEFAULT_SIZES
    )
    if options.sizes is not None:
        sizes = at("--sizes", _sizes, options.sizes)
    else:
        sizes = tuple(sorted({min(max(size, headers.smallest_stamped_bytes), headers.largest_bytes) for size in sizes}))
    at("--sizes", lambda given: check_sizes(given, headers), sizes)
    if options.tests is not None:
        asked = at("--tests", lambda text: _words(text, TESTS), options.tests)
        parts = tuple(part for part in PARTS if part in asked)
        if "latency" in parts and "search" not in parts:
            raise Problem("latency is measured at fractions of the rate that search finds: add search", "--tests")
    if options.imix:
        parts = tuple(part for part in PARTS if part in parts or part == "imix")
        settings = replace(settings, mixes=ForwardSettings().mixes)
    if options.goals is not None:
        names = at("--goals", lambda text: _words(text, GOALS), options.goals)
        if "latency" in parts and "ndr" not in names:
            raise Problem("latency is measured at fractions of the rate of ndr: add ndr, or choose --tests", "--goals")
        settings = replace(settings, goals=tuple(goal for goal in settings.goals if goal.name in names))
    link = None if options.link_speed is None else at("--link-speed", _link_mbps, options.link_speed)
    seed = 1 if options.seed is None else at("--seed", number(0, 2**32 - 1), options.seed)
    return replace(settings, parts=parts, sizes_bytes=sizes, link_mbps=link, seed=seed)


def _link_mbps(text: str) -> float:
    bps = parse_rate(text)
    if not 10**6 <= bps <= 10**12:
        raise Problem(f"{described(text)} is not the speed of a link: write one from 1mbit to 1000gbit, as 1gbit")
    return bps / 1e6


def _sizes(text: str) -> tuple[int, ...]:
    sizes = [number(64, 9018)(part) for part in text.split(",")]
    if len(set(sizes)) != len(sizes):
        raise Problem("a size is given twice")
    return tuple(sizes)


def _words(text: str, known: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(choose(word, known) for word in text.split(","))
