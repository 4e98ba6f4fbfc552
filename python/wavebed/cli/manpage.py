"""Write the man page from the parsers: ``python -m wavebed.cli.manpage FILE``."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

from wavebed import __version__
from wavebed.cli.environment_reference import VARIABLES
from wavebed.cli.tree import commands
from wavebed.output import write_output

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wavebed.cli.tree import Command, Operand

__all__ = ["manual_page"]

_STATUS = (
    ("0", "Success; wavebed shell has the status of its command."),
    ("1", "The experiment failed."),
    ("2", "The arguments or a file are wrong: one line names the argument or file, the rule and the remedy."),
    ("3", "The machine cannot do it: wavebed doctor explains."),
    ("130", "Interrupted."),
)


def manual_page(day: str) -> str:
    """Return the page in the format of man(7); `day` is that of the release, ``2026-11-25``."""
    program, *others = commands()
    lines = [
        f'.TH WAVEBED 1 {day} "wavebed {__version__}" "User Commands"',
        ".SH NAME",
        "wavebed \\- a 5G and mmWave network laboratory on one Linux machine",
        ".SH SYNOPSIS",
        ".B wavebed",
        "COMMAND [OPTIONS]",
        ".SH DESCRIPTION",
        _text(
            "wavebed computes the capacity of a radio scene, emulates a path between a server and a client for any real"
            " program, and runs applications across it, trial by trial, into a report. Rates are written 10gbit, 54mbit"
            " (bits of IP packets, powers of 1000), times 10ms, 125us, 2s, sizes 64kb, 1mb (1000), 64kib (1024)"
            " or packets 1000p, fractions and probabilities 0.01%. Data goes to standard output, progress and logs to"
            " standard error."
        ),
        ".SH OPTIONS",
        *(line for option in program.options for line in _entry(option)),
        ".SH COMMANDS",
        *(line for command in others for line in _section(command)),
        ".SH EXIT STATUS",
        *_table(_STATUS),
        ".SH ENVIRONMENT",
        *_table(tuple((each.name, each.meaning) for each in VARIABLES if each.place == "user")),
    ]
    return "\n".join(lines) + "\n"


def _section(command: Command) -> Iterator[str]:
    yield f".SS {_text(' '.join(('wavebed', *command.path)))}"
    yield from (_text(command.usage), ".PP", _text(command.description or command.summary))
    for operand in (*command.arguments, *command.options):
        if operand.flags != ("-h", "--help"):
            yield from _entry(operand)


def _entry(operand: Operand) -> Iterator[str]:
    flags = ", ".join(f"\\fB{_text(flag)}\\fR" for flag in operand.flags)
    value = f"\\fI{_text(operand.value)}\\fR" if operand.value else ""
    yield from (".TP", " ".join(part for part in (flags, value) if part))
    yield _text(operand.help) if operand.help else "\\&"


def _table(rows: tuple[tuple[str, str], ...]) -> Iterator[str]:
    for name, meaning in rows:
        yield from (".TP", f".B {_text(name)}", _text(meaning))


def _text(text: str) -> str:
    """Return a text on one line, without what roff would act on."""
    escaped = " ".join(text.split()).replace("\\", "\\e").replace("-", "\\-")
    plain = "".join(each if each.isascii() else f"\\[u{ord(each):04X}]" for each in escaped)
    return f"\\&{plain}" if plain.startswith((".", "'")) else plain


if __name__ == "__main__":
    moment = int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))
    write_output(sys.argv[1], manual_page(time.strftime("%Y-%m-%d", time.gmtime(moment))), "FILE")
