"""``wavebed ui``: a page of running laboratories in the browser, and the HTTP API behind it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from wavebed.cli.signals import end_on_signals

if TYPE_CHECKING:
    import argparse

__all__ = ["register", "run"]

_DESCRIPTION = (
    "Show the running laboratories on a page in the browser, live: rates, queues, delays, drops and the state of the"
    " radio of each link, and change them, until Ctrl-C. It prints the address, with a token."
)
_EPILOG = (
    "The page is this machine's own: it asks nothing of other servers, and nobody without the token gets an answer. The"
    " API behind it is described at /api/openapi.json; /metrics is for Prometheus."
)


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the program's parser."""
    parser = subparsers.add_parser("ui", help=_DESCRIPTION, description=_DESCRIPTION, epilog=_EPILOG)
    parser.add_argument(
        "lab",
        nargs="?",
        metavar="LAB",
        help="name of the only laboratory that is shown (default: all that wavebed ctl lists)",
    )
    parser.add_argument(
        "--listen",
        metavar="ADDRESS:PORT",
        default="127.0.0.1:0",
        help="where to listen (default: 127.0.0.1 and a free port); another machine reaches 0.0.0.0:PORT, unencrypted",
    )
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        type=Path,
        help="read the token from FILE, which only you can read (default: a new one each time)",
    )
    parser.add_argument(
        "--record-to", metavar="DIR", type=Path, help="allow recordings, as CSV files in DIR (default: none)"
    )


def run(args: argparse.Namespace) -> int:
    """Serve until Ctrl-C."""
    end_on_signals()
    from wavebed.ui.command import Options, serve

    serve(Options(args.lab, args.listen, args.token_file, args.record_to))
    return 0
