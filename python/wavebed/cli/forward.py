"""``wavebed forward`` and ``wavebed serve forward``: the forwarding test, and the ports that a machine lends it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from wavebed.cli.outputs import print_json
from wavebed.cli.process import end_on_signals
from wavebed.errors import WavebedError
from wavebed.extras import require
from wavebed.printable import printable
from wavebed.result.names import new_folder
from wavebed.secret import command_line

if TYPE_CHECKING:
    import argparse

    from wavebed.forward.settings import ForwardOptions

TOKEN_VARIABLE = "WAVEBED_TOKEN"  # noqa: S105 - the name of a variable

_DESCRIPTION = (
    "Send small packets through a device, and measure the rate that it forwards without loss, the rate under"
    " overload, the delay of frames, and the load of its processor. Without --tx and --dut a Linux router is emulated"
    " in a namespace of this machine and tested. Rates count frames at the receiving interface; a result that cannot be"
    " proved is refused, with the reason."
)
_EPILOG = (
    "Sizes are of frames with FCS. The folder of the results holds run.json, the trials, a sample of frames and"
    " report.html. The exit status is 1 if everything was refused. docs/guides/forwarding.md is the guide."
)
_USAGE = """wavebed forward [--dut KIND[:OPTIONS]] [OPTION]…
       wavebed forward --tx IFACE --rx IFACE [--gateway ADDR] [OPTION]…
       wavebed forward --tx IFACE --peer HOST[:PORT]/IFACE [OPTION]…"""


def register_forward(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``wavebed forward`` to the program's parser."""
    parser = subparsers.add_parser(
        "forward", help="the small-packet forwarding test of a router", description=_DESCRIPTION, epilog=_EPILOG
    )
    parser.usage = _USAGE
    _add_device_options(parser)
    _add_frame_options(parser)
    _add_test_options(parser)
    group = parser.add_argument_group("results")
    group.add_argument("--name", metavar="NAME", help="the device's name in tables and pages")
    group.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    group.add_argument(
        "-o", "--output", metavar="DIR", type=Path, help="folder of the results, new or empty (default: runs/NAME-TIME)"
    )


def _add_device_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the device")
    group.add_argument("--tx", metavar="IFACE", help="the port of this machine that sends to the device")
    group.add_argument("--rx", metavar="IFACE", help="the port of this machine that receives from it")
    group.add_argument(
        "--peer", metavar="HOST[:PORT]/IFACE", help="the receiving port, where wavebed serve forward runs"
    )
    group.add_argument("--token", metavar="T", help=f"the peer's token (default: ${TOKEN_VARIABLE})")
    group.add_argument(
        "--dut",
        metavar="KIND[:OPTIONS]",
        help="a device emulated in namespaces: netns (routing, the default), bridge, nat, xdp, relay, shaped;"
        " OPTIONS as relay:delay=50us or shaped:rate=100000",
    )
    group.add_argument(
        "--gateway", metavar="ADDR", help="the device's address at the sending port; without it, it is a bridge"
    )
    group.add_argument("--link-speed", metavar="RATE", help="of the link, at L1 (default: as the ports say)")
    group.add_argument(
        "--cpu",
        metavar="WHERE",
        help="measure the load of the device's processor: local (default with --dut), ssh://root@HOST,"
        " snmp://COMMUNITY@HOST or http://HOST:9100/metrics (node_exporter)",
    )


def _add_frame_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the frames")
    group.add_argument(
        "--sizes", metavar="LIST", help="bytes with FCS, as 64,128 (default: 64,512,1518; --thorough: the seven)"
    )
    group.add_argument("--imix", action="store_true", help="search the mix 7:4:1 of 64, 594 and 1518 bytes too")
    group.add_argument("--ipv6", action="store_true", help="IPv6; the smallest test frame is 84 bytes then")
    group.add_argument("--vlan", metavar="N", help="with an 802.1Q tag, at both ports")
    group.add_argument("--pppoe", metavar="N", help="in a PPPoE session of this number, at both ports")
    group.add_argument("--flows", metavar="N", help="distinct flows (default: 256)")
    group.add_argument(
        "--sources", metavar="ADDR[xN]", help="source addresses (default: the sending port's, or 198.18.0.2)"
    )
    group.add_argument(
        "--destinations", metavar="ADDR[xN]", help="destinations (default: the receiving port's, or 198.18.1.2x16)"
    )


def _add_test_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the test")
    group.add_argument(
        "--tests", metavar="LIST", help="of search,overload,latency,loss-rate,burst (default: search,overload,latency)"
    )
    group.add_argument("--goals", metavar="LIST", help="of rfc2544,ndr,pdr (default: all at once)")
    group.add_argument("--quick", action="store_true", help="two sizes, overload and search only: half a minute to two")
    group.add_argument(
        "--thorough", action="store_true", help="everything, in the long trials of the standards: half an hour to hours"
    )
    group.add_argument("--seed", metavar="N", help="of all random processes (default: 1)")
    group.add_argument(
        "--sender",
        metavar="KIND",
        help="live_frames, af_xdp_zero_copy, af_xdp_copy, tx_ring or sendmmsg (default: the best that works)",
    )
    group.add_argument(
        "--with",
        metavar="TOOL",
        dest="beside",
        action="append",
        default=[],
        help="run iperf3 as the study did on the same device, and show both; with --dut",
    )


def run_forward(args: argparse.Namespace) -> int:
    """Check the options, enter the sandbox if the device is emulated, test it, and print the results."""
    require("forward", "the forwarding test")
    from wavebed.forward.sandbox import enter
    from wavebed.forward.settings import EmulatedDevice, parse_options

    spec = parse_options(_options(args))
    if isinstance(spec.target, EmulatedDevice):
        enter(sys.argv[1:])
    end_on_signals()
    from wavebed.forward.run import run_spec
    from wavebed.terminal import StepProgress

    folder = args.output if args.output is not None else new_folder(f"forward-{_plain(spec.name)}")
    with StepProgress("wavebed forward") as progress:
        outcome = run_spec(spec, folder, command_line(), progress)
    if args.json:
        print_json("forward", outcome.as_json())
    else:
        print(printable(outcome.as_text(), keep="\n"))
    if outcome.interrupted:
        raise KeyboardInterrupt
    return 0 if outcome.measured else WavebedError.exit_status


def _options(args: argparse.Namespace) -> ForwardOptions:
    from wavebed.forward.settings import ForwardOptions

    given = {name: getattr(args, name) for name in ForwardOptions.__struct_fields__}
    given["beside"] = tuple(args.beside)
    given["tests"] = args.tests
    if args.peer is not None and args.token is None:
        given["token"] = os.environ.get(TOKEN_VARIABLE)
    return ForwardOptions(**given)


def _plain(name: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in name.lower()).strip("-") or "device"


_SERVE_DESCRIPTION = "Lend interfaces of this machine to a test that runs on another."
_FORWARD = (
    "Lend the interfaces of this machine to wavebed forward --peer on another, until Ctrl-C. It prints a token, which"
    " the other side must give. Whoever has it can send frames through every interface here, and the conversation is"
    " not encrypted: listen on a network that is yours."
)


def register_serve(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``wavebed serve`` to the program's parser."""
    parser = subparsers.add_parser("serve", help=_SERVE_DESCRIPTION, description=_SERVE_DESCRIPTION)
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    forward = verbs.add_parser("forward", help="lend interfaces to wavebed forward --peer", description=_FORWARD)
    forward.add_argument("--listen", metavar="ADDR:PORT", help="where to listen (default: 127.0.0.1:5544)")
    forward.add_argument(
        "--token", metavar="T", help="the token that the other side must know (default: a new one each time)"
    )


def run_serve(args: argparse.Namespace) -> int:
    """Serve until Ctrl-C."""
    end_on_signals()
    from wavebed.forward.server import serve
    from wavebed.forward.settings import DEFAULT_PEER_PORT

    serve(args.listen if args.listen is not None else f"127.0.0.1:{DEFAULT_PEER_PORT}", args.token)
    return 0
