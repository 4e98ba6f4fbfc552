"""Write the reference page of the command line from its own help: ``python -m wavebed.cli.reference FILE``."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from wavebed.cli import COMMANDS, build_parser
from wavebed.output import write_output

if TYPE_CHECKING:
    from collections.abc import Iterator

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
            parser = _subparsers(build_parser(name))[name]
            parts.append(_section(f"wavebed {name}", parser))
            parts += [_section(f"wavebed {name} {verb}", sub) for verb, sub in _subparsers(parser).items()]
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before
    return "\n".join(parts)


def _section(title: str, parser: argparse.ArgumentParser) -> str:
    lines = [line.rstrip() for line in parser.format_help().splitlines()]
    return f"## {title}\n\n```\n" + "\n".join(lines) + "\n```\n"


def _subparsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    return dict(_choices(parser))


def _choices(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to its subparsers
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for name, choice in action.choices.items():
                if isinstance(choice, argparse.ArgumentParser):
                    yield name, choice


if __name__ == "__main__":
    if len(sys.argv) == 2:
        write_output(sys.argv[1], command_line_page(), "FILE")
    else:
        print(command_line_page(), end="")
