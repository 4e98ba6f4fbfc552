"""``wavebed bridge``: two ports of this machine with an emulated path between them, for real devices.

As ``wavebed shell``, Python resolves the options and is replaced by ``wavebed-core``.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import wavebed.cli.quick_msgspec  # noqa: F401 - before those that import msgspec
from wavebed._core import find_core
from wavebed.config.problems import at
from wavebed.config.values import name as read_name
from wavebed.path.bridge import FAILURES, BridgePlan, bridge_file, read_devices, read_port
from wavebed.path.core import make_folder, write_laboratory
from wavebed.path.laboratory import random_name, resolve_network
from wavebed.path.tables import add_path_options, chosen_path
from wavebed.path.traces import Traces

if TYPE_CHECKING:
    import argparse

__all__ = ["register", "run"]

_DESCRIPTION = "Carry Ethernet frames between two ports of this machine through an emulated path (root only)."
_EPILOG = (
    "IP packets go through the links of the path, also inside one or two VLAN tags. ARP, IPv6 neighbour discovery,"
    " DHCP, IGMP, MLD and every other protocol pass around them, byte for byte. wavebed ctl NAME shows the counters and"
    " changes the links. Ctrl-C ends the bridge, and nothing of it stays."
    " Examples: wavebed bridge --a eth1 --b eth2 --rate 50mbit --delay 10ms;"
    " wavebed bridge --a eth1 --b eth2 --scene street-canyon-bus"
)


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the program's parser."""
    parser = subparsers.add_parser("bridge", help=_DESCRIPTION, description=_DESCRIPTION, epilog=_EPILOG)
    parser.usage = "wavebed bridge --a PORT --b PORT [PATH OPTIONS]"
    group = parser.add_argument_group("ports")
    group.add_argument("--a", metavar="PORT", required=True, help="the port towards the network: the server's side")
    group.add_argument("--b", metavar="PORT", required=True, help="the port towards the devices: the client's side")
    group.add_argument(
        "--devices",
        metavar="[NAME@]ADDRESS[,ADDRESS…]=SCENARIO",
        action="append",
        default=[],
        help="give a device behind b, known by MAC or IP addresses, the path of a scenario (a file, or a shipped one by"
        " its name), with links NAME.HOP.down and NAME.HOP.up of its own (default: all have the path options below)",
    )
    group.add_argument(
        "--on-failure",
        choices=FAILURES,
        default="closed",
        help="when the link engine fails, frames stop (closed), or pass without the links (open) (default: closed)",
    )
    group.add_argument(
        "--force", action="store_true", help="take a port even if this machine's default route goes through it"
    )
    add_path_options(parser)
    group = parser.add_argument_group("outputs")
    group.add_argument("--name", help="name of the bridge, for wavebed ctl (default: drawn)")
    group.add_argument("--log", metavar="DIR", type=Path, help="write each link's series, a row per millisecond")
    group.add_argument(
        "--pcap", metavar="DIR", type=Path, help="capture IP packets at the entry and the exit of each link"
    )
    group.add_argument("--summary", metavar="FILE", type=Path, help="write the counters at the end as JSON")
    group.add_argument("--print-bridge", action="store_true", help="print the bridge file as resolved, and run nothing")


def run(args: argparse.Namespace) -> int:
    """Become ``wavebed-core``; return only if nothing is to be run."""
    traces = Traces()
    path, timeline = chosen_path(args, traces)
    plan = BridgePlan(
        name=random_name() if args.name is None else at("--name", read_name, args.name),
        seed=path.seed,
        a=read_port("--a", args.a),
        b=read_port("--b", args.b),
        force=args.force,
        on_failure=args.on_failure,
        log_dir=args.log,
        pcap_dir=args.pcap,
        timeline=timeline,
        summary_file=args.summary if args.summary or not args.log else args.log / "summary.json",
    )
    devices = read_devices(args.devices, path.mtu, traces)
    bridge = bridge_file(resolve_network(path, traces), plan, devices)
    for note in traces.notes:
        print(f"wavebed: note: {note}", file=sys.stderr)
    if len(path.hosts) > 2:
        print("wavebed: note: a bridge has no hosts: all hops of the path are in a row", file=sys.stderr)
    if args.print_bridge:
        import json

        print(json.dumps(bridge, indent=2))
        return 0
    for folder, option in ((args.log, "--log"), (args.pcap, "--pcap")):
        if folder is not None:
            make_folder(folder, option)
    core = find_core()
    descriptor = write_laboratory(bridge)
    sys.stdout.flush()
    os.execv(core, [core, "bridge", f"/proc/self/fd/{descriptor}"])  # noqa: S606 - becoming the program is the point
    raise AssertionError("execv does not return")
