"""Devices behind a bridge: with links of their own (``--devices NAME@ADDRESS,ADDRESS=SCENARIO``), or in a cell."""

from __future__ import annotations

import re
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, cast

from msgspec import Struct
from msgspec.structs import replace

from wavebed.config.problems import at
from wavebed.config.values import name as read_name
from wavebed.errors import UserError
from wavebed.path.cell_tables import read_address
from wavebed.path.laboratory import resolve_network
from wavebed.path.scenario import read_path
from wavebed.spec.network import second_leg
from wavebed.spec.part import plain
from wavebed.spec.types import Hop

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wavebed.config.data import Json
    from wavebed.path.model import CellModel
    from wavebed.path.traces import Traces
    from wavebed.spec.types import Network


WRITE = "[NAME@]ADDRESS[,ADDRESS…]=SCENARIO"
SHARED = Hop(name="wire", kind="wired", down=(), up=())
"""Of a cell without hops before its radio: the account needs a link that frames of no device pass."""
LONGEST_NAME = 32
"""Of a hop, with the name of its device and a dot before it."""


class BridgeDevice(Struct, frozen=True):
    """A device: its name, its MAC and IP addresses, and its hops."""

    name: str
    addresses: tuple[str, ...]
    hops: tuple[Hop, ...]


def read_devices(options: Sequence[str], mtu: int, traces: Traces) -> list[BridgeDevice]:
    """Return the devices of these options.

    Parameters
    ----------
    options : sequence of str
        As typed.
    mtu : int
        Bytes of the largest IP packet of the bridge.
    traces : Traces
        Reads the patterns that the scenarios name.

    Raises
    ------
    UserError
        If an option or a scenario is wrong, or a name or an address is given twice.
    """
    devices: list[BridgeDevice] = []
    for number, option in enumerate(options, 1):
        device = _device(option, number, mtu, traces)
        for other in devices:
            if device.name == other.name:
                raise UserError(f"--devices: {device.name!r} is the name of two devices: choose another")
            twice = set(device.addresses) & set(other.addresses)
            if twice:
                raise UserError(f"--devices: {min(twice)} is an address of two devices: leave one out")
        devices.append(device)
    return devices


def _device(option: str, number: int, mtu: int, traces: Traces) -> BridgeDevice:
    who, equals, scenario = option.partition("=")
    if not equals or not scenario:
        raise UserError(f"--devices: {option!r} names no scenario: write {WRITE}")
    given_name, named, addresses = who.rpartition("@")
    name = at("--devices", read_name, given_name) if named else f"device-{number}"
    path = read_path(FilePath(scenario), {"mtu": mtu}, traces)
    if path.cell is not None:
        raise UserError(f"--devices: {scenario}: device: a cell is no path of one device: write --scenario {scenario}")
    network = resolve_network(path, traces)
    if network.nat or second_leg(network) is not None:
        raise UserError(f"--devices: {scenario}: a bridge has neither NAT nor a second radio: leave them out")
    if network.rebind_at_ns:
        raise UserError(f"--devices: {scenario}: rebind-at: a bridge has no server: leave it out")
    return BridgeDevice(
        name=name,
        addresses=tuple(at("--devices", read_address, address) for address in addresses.split(",")),
        hops=tuple(_named(hop, name) for leg in network.legs for hop in leg.hops),
    )


def _named(hop: Hop, device: str) -> Hop:
    name = f"{device}.{hop.name}"
    if len(name) > LONGEST_NAME:
        raise UserError(f"--devices: {name!r} is longer than {LONGEST_NAME} characters: give the device a shorter name")
    return replace(hop, name=name)


def devices_of_cell(cell: CellModel) -> list[BridgeDevice]:
    """Return the real devices of a cell, which has their links."""
    return [BridgeDevice(device.name, device.addresses, ()) for device in cell.devices]


VERSION = 1
FAILURES = ("closed", "open")
"""What becomes of the traffic when the link engine fails: it stops, or it passes without the links."""


class BridgePlan(Struct, frozen=True):
    """The options of a bridge beside its path.

    Parameters
    ----------
    name : str
        Its name, for ``wavebed ctl``.
    seed : int
        Of all random processes.
    a, b : str
        The ports towards the network (the server's side of the path) and towards the devices (the client's side).
    force : bool
        Whether a port may be the one of the machine's default route.
    on_failure : str
        One of `FAILURES`.
    log_dir, pcap_dir, summary_file : pathlib.Path or None
        Where the series, the captures and the summary go.
    timeline : mapping or None
        The timeline of the path, by `wavebed.path.timeline.timed_path`.
    switch : str or None
        The Linux bridge that `b` is and stays a port of; `a` is then a further port, which it gets for the time.
    known_by : sequence of str
        MAC addresses behind `b`, with `switch` only.
    """

    name: str
    seed: int
    a: str
    b: str
    force: bool = False
    on_failure: str = "closed"
    log_dir: FilePath | None = None
    pcap_dir: FilePath | None = None
    summary_file: FilePath | None = None
    timeline: Mapping[str, Json] | None = None
    switch: str | None = None
    known_by: tuple[str, ...] = ()


def read_port(option: str, name: str) -> str:
    """Return the name of an interface.

    Raises
    ------
    UserError
        If no interface can have it.
    """
    if not re.fullmatch(r"[^\s/:\0]{1,15}", name) or name in {".", ".."}:
        raise UserError(f"{option}: {name!r} is no interface: write a name that `ip link` lists, such as eth1")
    return name


def bridge_file(network: Network, plan: BridgePlan, devices: Sequence[BridgeDevice] = ()) -> dict[str, Json]:
    """Return the bridge file of a path: its hops in a row, whichever hosts stand between them; and the devices' hops.

    Devices of a cell share the hops before its radio. Frames of no device take these hops alone: broadcasts and the
    access point's own frames pass, and take no slots.

    Raises
    ------
    UserError
        If the path has what a bridge cannot have: NAT or a second radio.
    """
    if network.nat:
        raise UserError("nat: a bridge has no server: leave --nat out")
    if network.rebind_at_ns:
        raise UserError("rebind-at: a bridge has no server, which would see other ports: leave --rebind-at out")
    if second_leg(network) is not None:
        raise UserError("path: second-radio: a bridge has two ports: leave the second radio out")
    known = plain(network)
    legs = cast("list[dict[str, list[Json]]]", known["legs"])
    hops = [hop for leg in legs for hop in leg["hops"]]
    if network.cell is not None and not hops:
        hops = [plain(SHARED)]
    return {
        "version": VERSION,
        "name": plan.name,
        "seed": plan.seed,
        "mtu": network.mtu,
        "a": plan.a,
        "b": plan.b,
        "switch": plan.switch,
        "known_by": list(plan.known_by),
        "force": plan.force,
        "on_failure": plan.on_failure,
        "coalesce": known["coalesce"],
        "packet_memory_bytes": network.packet_memory_bytes,
        "hops": hops,
        "classes": [
            {
                "name": device.name,
                "addresses": list(device.addresses),
                "hops": [plain(hop) for hop in device.hops],
            }
            for device in devices
        ],
        "cell": known.get("cell"),
        "timeline": None if plan.timeline is None else dict(plan.timeline),
        "log_dir": _absolute(plan.log_dir),
        "packet_log": network.packet_log and plan.log_dir is not None,
        "pcap_dir": _absolute(plan.pcap_dir),
        "summary_file": _absolute(plan.summary_file),
    }


def _absolute(path: FilePath | None) -> str | None:
    return None if path is None else str(path.absolute())
