"""``wavebed schema``: the JSON Schema of a file format, for editors and other programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from wavebed.config.problems import at, choose

if TYPE_CHECKING:
    import argparse

__all__ = ["NAMES", "register", "run"]

NAMES = ("trial",)
_DESCRIPTION = "Print the JSON Schema of a file format: trial is the specification that wavebed resolve writes."


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the program's parser."""
    parser = subparsers.add_parser("schema", help=_DESCRIPTION, description=_DESCRIPTION)
    parser.add_argument("name", metavar="NAME", nargs="?", default=NAMES[0], help=f"one of {', '.join(NAMES)}")


def run(args: argparse.Namespace) -> int:
    """Print the schema."""
    import msgspec

    from wavebed.spec.trial import TrialSpec

    at("NAME", lambda name: choose(name, NAMES), args.name)
    print(json.dumps(msgspec.json.schema(TrialSpec), indent=2))
    return 0
