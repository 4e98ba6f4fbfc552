"""``wavebed shell`` and ``wavebed bridge``: a path for a program or for real devices."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import wavebed.cli.quick_msgspec  # noqa: F401 - before those that import msgspec
from wavebed._core import find_core
from wavebed.cli.options import add_memory_option, add_time_options, guest_memory
from wavebed.config.problems import Problem, at
from wavebed.config.values import end_wait
from wavebed.config.values import name as read_name
from wavebed.path.laboratory import LabPlan, laboratory_file, random_name, resolve_network
from wavebed.path.launch import clean_environment, make_folder, write_laboratory
from wavebed.path.model import chosen_device, scene_maps
from wavebed.path.tables import DEFAULT_SYSCTLS, add_path_options, chosen_path
from wavebed.path.traces import Traces
from wavebed.printable import message_text

if TYPE_CHECKING:
    import argparse

    from wavebed.config.data import Json
    from wavebed.path.model import PathModel

_GUEST = "guest"
"""Name of a laboratory in a guest, which nothing outside reaches: the same in each run."""
_DESCRIPTION = "Run CMD (default: your shell) on the client, behind an emulated path."
_EPILOG = (
    "Inside, the hosts are called server, edge and client; devices of a cell have their own names. $WAVEBED_SERVER, and"
    " {server} in the command, are the server's address. The exit status is that of CMD. Variables that name a"
    " proxy are removed."
)


def register_shell(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``wavebed shell`` to the program's parser."""
    parser = subparsers.add_parser("shell", help=_DESCRIPTION, description=_DESCRIPTION, epilog=_EPILOG)
    parser.usage = "wavebed shell [PATH OPTION]… [OPTION]… [-- CMD…]"
    add_path_options(parser)
    group = parser.add_argument_group("programs and outputs")
    group.add_argument(
        "--device",
        metavar="NAME",
        help="with a cell, the device on which CMD runs (default: the first one of the scenario)",
    )
    group.add_argument(
        "--confine",
        action="store_true",
        help="run CMD and the servers without privileges and homes",
    )
    group.add_argument(
        "--server",
        metavar="CMD",
        action="append",
        default=[],
        help="a shell command on the server, beside CMD; repeatable",
    )
    group.add_argument(
        "--https",
        metavar="PORT",
        help="https://server leads to PORT of the server; programs trust its certificate, browsers by $WAVEBED_SPKI",
    )
    group.add_argument(
        "--publish",
        metavar="[OUTSIDE:][HOST:]PORT",
        action="append",
        default=[],
        help="let 127.0.0.1:OUTSIDE of this machine lead to PORT of a host, past the path (default: PORT, client)",
    )
    group.add_argument(
        "--drain",
        metavar="TIME",
        default="5s",
        help="longest wait for the last data after CMD (default: 5s)",
    )
    group.add_argument("--grace", metavar="TIME", default="5s", help="servers: from SIGTERM to SIGKILL (default: 5s)")
    add_time_options(group)
    add_memory_option(group)
    group.add_argument("--name", metavar="LAB", help="name for wavebed ctl (default: drawn)")
    group.add_argument("--log", metavar="DIR", type=Path, help="write each link's series, a row per millisecond")
    group.add_argument("--pcap", metavar="DIR", type=Path, help="capture packets at the entry and exit of each link")
    group.add_argument("--summary", metavar="FILE", type=Path, help="write the packet counters as JSON at the end")
    group.add_argument("--print-laboratory", action="store_true", help="print the laboratory file, and run nothing")
    parser.add_argument("argv", metavar="CMD", nargs="*", help="the command and its arguments, after --")


def _check_virtual(args: argparse.Namespace, path: PathModel) -> None:
    """Check that a laboratory can be in a guest.

    Raises
    ------
    Problem
        If it has no command, or its path needs the outside.
    """
    from wavebed.virtual.guest import outside_of_path

    if not args.argv and not args.print_laboratory:
        raise Problem("time stands still at the prompt of a shell: write a command after --", "--virtual-time")
    if why := outside_of_path(path):
        raise Problem(f"{why}: leave the option out", "--virtual-time")


def _check_ports(args: argparse.Namespace, *, is_virtual: bool) -> None:
    """Check that the options of ports fit the others.

    Raises
    ------
    Problem
        If not.
    """
    for option, given in (("--https", args.https), ("--publish", args.publish)):
        if not given:
            continue
        if is_virtual:
            raise Problem(
                "nothing outside reaches a guest: leave out one of the two options", f"--virtual-time, {option}"
            )
        if args.confine:
            raise Problem(
                "needs a relay, which is not confined: leave out one of the two options", f"--confine, {option}"
            )


def _rules() -> dict[str, Json]:
    from wavebed.lab.confine import confinement_rules

    return confinement_rules()


def run_shell(args: argparse.Namespace) -> int:
    """Become ``wavebed-core``; return only if nothing is to be run."""
    traces = Traces()
    path, timeline = chosen_path(args, traces)
    is_virtual = args.time == "virtual"
    memory_bytes = guest_memory(args)
    if is_virtual:
        _check_virtual(args, path)
    elif memory_bytes is not None:
        raise Problem("is for virtual time: add --virtual-time, or leave it out", "--guest-memory")
    _check_ports(args, is_virtual=is_virtual)
    device = at("--device", lambda name: chosen_device(name, path), args.device)
    servers: list[tuple[str, ...]] = [("/bin/sh", "-c", command) for command in args.server]
    trust: dict[str, str] = {}
    if args.https is not None:
        from wavebed.path.publish import HTTPS_NAMES, https_relay, read_port
        from wavebed.workload.serve import trusted_certificate

        port = at("--https", read_port, args.https)
        certificate, trust = trusted_certificate(HTTPS_NAMES, os.environ)
        servers.append(https_relay(port, certificate.file))
    plan = LabPlan(
        name=(_GUEST if is_virtual else random_name()) if args.name is None else at("--name", read_name, args.name),
        seed=path.seed,
        command=args.argv or [os.environ.get("SHELL") or "/bin/sh"],
        command_host=device,
        background=[("server", command) for command in servers],
        log_dir=args.log,
        pcap_dir=args.pcap,
        confine=_rules() if args.confine else None,
        confined=args.confine,
        drain_s=at("--drain", end_wait, args.drain),
        grace_s=at("--grace", end_wait, args.grace),
        maps=scene_maps(path),
        timeline=timeline,
        summary_file=args.summary if args.summary or not args.log else args.log / "summary.json",
    )
    # An ssh agent or a display may be wanted; in a guest there is none.
    laboratory = laboratory_file(resolve_network(path, traces, outside_sockets=not is_virtual), plan)
    for note in traces.notes:
        print(f"wavebed: note: {message_text(note)}", file=sys.stderr)
    if any(host.remedies for host in path.hosts):
        print("wavebed: note: remedies run in trials only: start one by hand, or use wavebed run", file=sys.stderr)
    if args.print_laboratory:
        import json

        print(json.dumps(laboratory, indent=2))
        return 0
    for folder, option in ((args.log, "--log"), (args.pcap, "--pcap")):
        if folder is not None:
            make_folder(folder, option)
    if is_virtual:
        from wavebed.cli.process import end_on_signals
        from wavebed.virtual.shell import run_laboratory

        end_on_signals()
        return run_laboratory(laboratory, path.seed, memory_bytes, args.name or "")
    core = find_core()
    if args.publish:
        from wavebed.path.publish import publish_beside, read_published

        hosts = [host.name for host in path.hosts]
        publish_beside(
            plan.name,
            [at("--publish", lambda text: read_published(text, hosts, device), each) for each in args.publish],
        )
    descriptor = write_laboratory(laboratory)
    sys.stdout.flush()
    arguments = [core, "lab", f"/proc/self/fd/{descriptor}"]
    os.execve(core, arguments, clean_environment(os.environ) | trust)  # noqa: S606 - becoming the program is the point
    raise AssertionError("execve does not return")


_BRIDGE_DESCRIPTION = "Carry Ethernet frames between two ports of this machine through an emulated path (root only)."
_BRIDGE_EPILOG = (
    "IP packets go through the links of the path, also inside one or two VLAN tags. ARP, IPv6 neighbour discovery,"
    " DHCP, IGMP, MLD and every other protocol pass around them, byte for byte. wavebed ctl NAME shows the counters and"
    " changes the links. Ctrl-C ends the bridge, and nothing of it stays."
)


def register_bridge(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``wavebed bridge`` to the program's parser."""
    parser = subparsers.add_parser(
        "bridge", help=_BRIDGE_DESCRIPTION, description=_BRIDGE_DESCRIPTION, epilog=_BRIDGE_EPILOG
    )
    parser.usage = "wavebed bridge --a PORT --b PORT [PATH OPTION]… [OPTION]…"
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
    add_failure_option(group)
    group.add_argument(
        "--force", action="store_true", help="take a port even if this machine's default route goes through it"
    )
    add_path_options(parser)
    add_bridge_outputs(parser)


def add_failure_option(group: argparse._ActionsContainer) -> None:
    """Add ``--on-failure``."""
    from wavebed.path.bridge import FAILURES

    group.add_argument(
        "--on-failure",
        choices=FAILURES,
        default="closed",
        help="when the link engine fails, frames stop (closed), or pass without the links (open) (default: closed)",
    )


def add_bridge_outputs(parser: argparse.ArgumentParser) -> None:
    """Add the name and the outputs of a bridge."""
    group = parser.add_argument_group("outputs")
    group.add_argument("--name", help="name of the bridge, for wavebed ctl (default: drawn)")
    group.add_argument("--log", metavar="DIR", type=Path, help="write each link's series, a row per millisecond")
    group.add_argument(
        "--pcap", metavar="DIR", type=Path, help="capture IP packets at the entry and the exit of each link"
    )
    group.add_argument("--summary", metavar="FILE", type=Path, help="write the counters at the end as JSON")
    group.add_argument("--print-bridge", action="store_true", help="print the bridge file as resolved, and run nothing")


def run_bridge(args: argparse.Namespace) -> int:
    """Become ``wavebed-core``; return only if nothing is to be run."""
    from wavebed.path.bridge import read_port

    ports: dict[str, Any] = {"a": read_port("--a", args.a), "b": read_port("--b", args.b), "force": args.force}
    command = bridge_command(args, has_cell=True, **ports)
    if command is None:
        return 0
    sys.stdout.flush()
    os.execv(command[0], command)  # noqa: S606 - becoming the program is the point
    raise AssertionError("execv does not return")


def bridge_command(args: argparse.Namespace, *, has_cell: bool = False, **ports: Any) -> list[str] | None:
    """Return the command that runs the bridge of these options, which inherits a descriptor; ``None`` for a print.

    Parameters
    ----------
    args : argparse.Namespace
        The options of a path and of the outputs.
    has_cell : bool
        Whether several devices may be behind the bridge, in a cell.
    **ports : object
        The ports, as `wavebed.path.bridge.BridgePlan` has them.
    """
    from wavebed.path.bridge import BridgePlan, bridge_file, devices_of_cell, read_devices

    traces = Traces()
    path, timeline = chosen_path(args, traces, has_real_devices=has_cell)
    plan = BridgePlan(
        name=random_name() if args.name is None else at("--name", read_name, args.name),
        seed=path.seed,
        on_failure=args.on_failure,
        log_dir=args.log,
        pcap_dir=args.pcap,
        timeline=timeline,
        summary_file=args.summary if args.summary or not args.log else args.log / "summary.json",
        **ports,
    )
    if path.cell is None:
        devices = read_devices(args.devices, path.mtu, traces)
    elif not has_cell:
        raise Problem("a cell is for several devices: use wavebed bridge, or leave [cell] and [[device]] out", "device")
    elif args.devices:
        raise Problem("the scenario has a cell: write this device there, as [[device]] with its address", "--devices")
    else:
        devices = devices_of_cell(path.cell)
    bridge = bridge_file(resolve_network(path, traces), plan, devices)
    for note in traces.notes:
        print(f"wavebed: note: {message_text(note)}", file=sys.stderr)
    if path.edge_after is not None:
        print("wavebed: note: a bridge has no hosts: all hops of the path are in a row", file=sys.stderr)
    if any(host.remedies or host.congestion_control or host.sysctls != DEFAULT_SYSCTLS for host in path.hosts):
        print(
            "wavebed: note: real devices keep their settings: congestion-control, sysctl and remedy do nothing here",
            file=sys.stderr,
        )
    if args.print_bridge:
        import json

        print(json.dumps(bridge, indent=2))
        return None
    for folder, option in ((args.log, "--log"), (args.pcap, "--pcap")):
        if folder is not None:
            make_folder(folder, option)
    return [find_core(), "bridge", f"/proc/self/fd/{write_laboratory(bridge)}"]
