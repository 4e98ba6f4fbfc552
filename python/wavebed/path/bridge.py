"""Resolve a path into the bridge file, which ``wavebed-core bridge`` reads: two ports of this machine and the hops."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, cast

from msgspec import Struct

from wavebed.errors import UserError
from wavebed.spec.network import second_leg
from wavebed.spec.part import plain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path as FilePath

    from wavebed.config.data import Json
    from wavebed.path.devices import Device
    from wavebed.spec.types import Network

__all__ = ["FAILURES", "BridgePlan", "bridge_file", "read_port"]

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
        The timeline of the path, by `wavebed.path.timed.timed_path`.
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


def bridge_file(network: Network, plan: BridgePlan, devices: Sequence[Device] = ()) -> dict[str, Json]:
    """Return the bridge file of a path: its hops in a row, whichever hosts stand between them; and those of `devices`.

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
    return {
        "version": VERSION,
        "name": plan.name,
        "seed": plan.seed,
        "mtu": network.mtu,
        "a": plan.a,
        "b": plan.b,
        "force": plan.force,
        "on_failure": plan.on_failure,
        "coalesce": known["coalesce"],
        "packet_memory_bytes": network.packet_memory_bytes,
        "hops": [hop for leg in legs for hop in leg["hops"]],
        "classes": [
            {
                "name": device.name,
                "addresses": list(device.addresses),
                "hops": [plain(hop) for hop in device.hops],
            }
            for device in devices
        ],
        "timeline": None if plan.timeline is None else dict(plan.timeline),
        "log_dir": _absolute(plan.log_dir),
        "packet_log": network.packet_log and plan.log_dir is not None,
        "pcap_dir": _absolute(plan.pcap_dir),
        "summary_file": _absolute(plan.summary_file),
    }


def _absolute(path: FilePath | None) -> str | None:
    return None if path is None else str(path.absolute())
