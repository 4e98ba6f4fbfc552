"""``wavebed attach`` and ``wavebed gateway``: a path for a running container, and for the containers of a namespace."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import wavebed.cli.quick_msgspec  # noqa: F401 - before those that import msgspec
from wavebed.cli.shell import add_bridge_outputs, add_failure_option, bridge_command
from wavebed.config.values import name as read_name
from wavebed.errors import MachineError, WavebedError
from wavebed.path.tables import add_path_options, give_option

if TYPE_CHECKING:
    import argparse

STANDARD_MTU = 1500
"""Of a path by default."""
_ATTACH_DESCRIPTION = "Lead the traffic of a running container or namespace through an emulated path (root only)."
_ATTACH_EPILOG = (
    "The container is the device: what it receives takes the downlink. It keeps its addresses and connections. Ctrl-C"
    " ends the path; the container is then connected as before. wavebed ctl NAME shows the counters and changes the"
    " links."
)
_GATEWAY_DESCRIPTION = (
    "Put this network namespace behind an emulated path: the gateway of containers that share its network."
)
_GATEWAY_EPILOG = (
    "Addresses and routes of the interface with the default route move to wb0, behind the links. They move back when"
    " the command ends. It needs the capabilities NET_ADMIN and NET_RAW. In Compose, write network_mode:"
    " service:wavebed at each container that shall be behind the path. Example: wavebed gateway --rate 20mbit"
)


def register_attach(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``wavebed attach`` to the program's parser."""
    parser = subparsers.add_parser(
        "attach", help=_ATTACH_DESCRIPTION, description=_ATTACH_DESCRIPTION, epilog=_ATTACH_EPILOG
    )
    parser.usage = "wavebed attach (--container NAME | --pid PID | --netns NETNS) [OPTION]…"
    group = parser.add_argument_group("container")
    which = group.add_mutually_exclusive_group(required=True)
    which.add_argument("--container", metavar="NAME", help="a running container of podman or Docker")
    which.add_argument("--pid", metavar="PID", help="a process of the container")
    which.add_argument("--netns", metavar="NETNS", help="a network namespace: its path, or its name for `ip netns`")
    group.add_argument("--interface", metavar="NAME", help="its interface (default: the one of the default route)")
    add_failure_option(group)
    add_path_options(parser)
    add_bridge_outputs(parser)


def run_attach(args: argparse.Namespace) -> int:
    """Become ``wavebed-core``; return only if nothing is to be run."""
    from wavebed.path.attach import by_container, by_path, by_pid, find_cable

    if os.geteuid() != 0:
        raise MachineError("requires root: sudo wavebed attach …")
    if args.container is not None:
        target = by_container(args.container)
    else:
        target = by_pid(args.pid) if args.pid is not None else by_path(args.netns)
    cable = find_cable(target, args.interface)
    if args.name is None and args.container is not None and _is_name(args.container):
        args.name = args.container
    _fit(args, cable.mtu)
    ports: dict[str, Any] = {
        "a": f"wb{cable.index}",
        "b": cable.port,
        "switch": cable.switch,
        "known_by": (cable.mac,),
    }
    command = bridge_command(args, **ports)
    if command is None:
        return 0
    sys.stdout.flush()
    os.execv(command[0], command)  # noqa: S606 - becoming the program is the point
    raise AssertionError("execv does not return")


def _is_name(text: str) -> bool:
    try:
        read_name(text)
    except WavebedError:
        return False
    return True


def _fit(args: argparse.Namespace, mtu: int) -> None:
    """Let the path carry the packets of an interface; none of its devices has links of its own."""
    if mtu > STANDARD_MTU:
        give_option(args, "mtu", str(mtu))
    args.devices = []


def register_gateway(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``wavebed gateway`` to the program's parser."""
    parser = subparsers.add_parser(
        "gateway", help=_GATEWAY_DESCRIPTION, description=_GATEWAY_DESCRIPTION, epilog=_GATEWAY_EPILOG
    )
    parser.usage = "wavebed gateway [PATH OPTION]… [OPTION]…"
    group = parser.add_argument_group("network")
    group.add_argument(
        "--interface",
        metavar="NAME",
        help="the interface towards the network (default: the one of the default route)",
    )
    add_failure_option(group)
    add_path_options(parser)
    add_bridge_outputs(parser)
    parser.set_defaults(name="gateway")


def run_gateway(args: argparse.Namespace) -> int:
    """Run the path until a signal ends it."""
    from wavebed.path.gateway import PORT, outward, run_behind

    interface = outward(args.interface)
    _fit(args, interface.mtu)
    command = bridge_command(args, a=interface.name, b=PORT, force=True)
    return 0 if command is None else run_behind(interface, command)
