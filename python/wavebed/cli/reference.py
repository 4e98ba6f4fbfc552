"""Write the reference page of the command line from its own help: ``python -m wavebed.cli.reference FILE``."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from wavebed.cli import COMMANDS, build_parser
from wavebed.cli.installed import subparsers
from wavebed.output import write_output

if TYPE_CHECKING:
    import argparse

__all__ = ["command_line_page"]

_HEAD = """# The command line

This page is made from the program: `python -m wavebed.cli.reference docs/reference/command-line.md`.

Data goes to standard output, progress and logs to standard error. Rates are written `10gbit 2.5gbit 54mbit` (bits of IP
packets, powers of 1000), times `10ms 125us 2s`, sizes `64kb 1mb` (1000) `64kib` (1024) or packets `1000p`,
fractions and probabilities `0.01%`.

| exit status | meaning |
|---|---|
| 0 | success; `shell` has the status of its command |
| 1 | the experiment failed |
| 2 | the arguments or a file are wrong: one line names the argument or file, the rule and the remedy |
| 3 | the machine cannot do it: `wavebed doctor` explains |
| 130 | interrupted |
"""


def command_line_page() -> str:
    """Return the page: the help of every command, 96 columns wide."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "96"
    try:
        parts = [_HEAD, _section("wavebed", build_parser())]
        for name in COMMANDS:
            parser = subparsers(build_parser(name))[name]
            parts.append(_section(f"wavebed {name}", parser))
            parts += [_section(f"wavebed {name} {verb}", sub) for verb, sub in subparsers(parser).items()]
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before
    return "\n".join(parts)


def _section(title: str, parser: argparse.ArgumentParser) -> str:
    lines = [line.rstrip() for line in parser.format_help().splitlines()]
    return f"## {title}\n\n```\n" + "\n".join(lines) + "\n```\n"


if __name__ == "__main__":
    if len(sys.argv) == 2:
        write_output(sys.argv[1], command_line_page(), "FILE")
    else:
        print(command_line_page(), end="")
