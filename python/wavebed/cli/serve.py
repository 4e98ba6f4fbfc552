"""``wavebed serve forward``: lend the ports of this machine to a forwarding test that runs on another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.cli.signals import end_on_signals

if TYPE_CHECKING:
    import argparse

__all__ = ["register", "run"]

_DESCRIPTION = "Lend interfaces of this machine to a test that runs on another."
_FORWARD = (
    "Lend the interfaces of this machine to wavebed forward --peer on another, until Ctrl-C. It prints a token, which"
    " the other side must give. Whoever has it can send frames through every interface here, and the conversation is"
    " not encrypted: listen on a network that is yours."
)


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the program's parser."""
    parser = subparsers.add_parser("serve", help=_DESCRIPTION, description=_DESCRIPTION)
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    forward = verbs.add_parser("forward", help="lend interfaces to wavebed forward --peer", description=_FORWARD)
    forward.add_argument("--listen", metavar="ADDR:PORT", help="where to listen (default: 127.0.0.1:5544)")
    forward.add_argument(
        "--token", metavar="T", help="the token that the other side must know (default: a new one each time)"
    )


def run(args: argparse.Namespace) -> int:
    """Serve until Ctrl-C."""
    end_on_signals()
    from wavebed.forward.server import serve
    from wavebed.forward.settings import DEFAULT_PEER_PORT

    serve(args.listen if args.listen is not None else f"127.0.0.1:{DEFAULT_PEER_PORT}", args.token)
    return 0
