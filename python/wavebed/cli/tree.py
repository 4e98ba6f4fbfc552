"""The commands, their options and operands as values, read from the parsers: for completions and the man page."""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wavebed import shipped
from wavebed.cli import COMMANDS, build_parser

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["Command", "Operand", "commands", "subparsers"]

_FILES = frozenset({"FILE", "FILE|DIR", "OUT", "SCENARIO", "SCENE", "SITE", "TRACES"})
_FOLDERS = frozenset({"DIR", "DIR/TRIAL"})
_ALTERNATIVES = re.compile(r"[a-z0-9]+(\|[a-z0-9]+)+")


@dataclass(frozen=True, slots=True)
class Operand:
    """An option, or an argument without one.

    Parameters
    ----------
    flags : tuple of str
        ``("-o", "--output")``; empty for an argument without an option.
    value : str
        The name of its value in the help; empty for an option without one.
    help : str
        Its line in the help.
    words : tuple of str
        The values that can be listed: choices, names of shipped files.
    takes : str
        ``file``, ``folder`` or empty: which names of the disk its value can be, beside the words.
    many : bool
        Whether several values may follow.
    """

    flags: tuple[str, ...]
    value: str
    help: str
    words: tuple[str, ...]
    takes: str
    many: bool


@dataclass(frozen=True, slots=True)
class Command:
    """A command, ``("trace",)``, or a verb of one, ``("trace", "info")``; the program itself is ``()``."""

    path: tuple[str, ...]
    summary: str
    description: str
    usage: str
    options: tuple[Operand, ...]
    arguments: tuple[Operand, ...]
    verbs: tuple[str, ...]
    runs: bool
    """Whether a command of the user follows, after ``--``."""


def commands() -> tuple[Command, ...]:
    """Return the program, then each command with its verbs after it, in the order of the help."""
    program = build_parser()
    found = [_command((), "", program, tuple(COMMANDS))]
    for name, summary in COMMANDS.items():
        parser = subparsers(build_parser(name))[name]
        verbs = subparsers(parser)
        found.append(_command((name,), summary, parser, tuple(verbs)))
        found += [_command((name, verb), of_verb.description or "", of_verb, ()) for verb, of_verb in verbs.items()]
    return tuple(found)


def subparsers(parser: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    """Return the parsers of a parser's commands or verbs, by name."""
    return dict(_choices(parser))


def _choices(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to its subparsers
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for name, choice in action.choices.items():
                if isinstance(choice, argparse.ArgumentParser):
                    yield name, choice


def _command(path: tuple[str, ...], summary: str, parser: argparse.ArgumentParser, verbs: tuple[str, ...]) -> Command:
    shown = [
        action
        for action in parser._actions  # noqa: SLF001
        if action.help is not argparse.SUPPRESS and not isinstance(action, argparse._SubParsersAction)  # noqa: SLF001
    ]
    operands = [(_operand(parser, action), action) for action in shown]
    return Command(
        path=path,
        summary=summary,
        description=parser.description or "",
        usage=" ".join(parser.format_usage().split()).removeprefix("usage: "),
        options=tuple(operand for operand, action in operands if action.option_strings),
        arguments=tuple(operand for operand, action in operands if not action.option_strings),
        verbs=verbs,
        runs=any(action.metavar == "CMD" and not action.option_strings for action in shown),
    )


def _operand(parser: argparse.ArgumentParser, action: argparse.Action) -> Operand:
    value = "" if action.nargs == 0 else _value_name(action)
    return Operand(
        flags=tuple(action.option_strings),
        value=value,
        help=" ".join(parser._get_formatter()._expand_help(action).split()) if action.help else "",  # noqa: SLF001
        words=_words(value, action, parser.prog),
        takes="file" if value in _FILES else "folder" if value in _FOLDERS else "",
        many=action.nargs in ("*", "+"),
    )


def _value_name(action: argparse.Action) -> str:
    if isinstance(action.metavar, str):
        return action.metavar
    if action.choices is not None:
        return "|".join(str(choice) for choice in action.choices)
    return action.dest.rpartition(":")[2].upper()


def _words(value: str, action: argparse.Action, program: str) -> tuple[str, ...]:
    if action.choices is not None:
        return tuple(str(choice) for choice in action.choices)
    if value in ("SCENARIO", "SCENE"):
        return shipped.names("scenes" if value == "SCENE" else "")
    if "--timeline" in action.option_strings:
        return shipped.names("timelines")
    if "--scenario" in action.option_strings:
        return shipped.names()
    if program == "wavebed schema":
        from wavebed.cli.schema import NAMES

        return tuple(NAMES)
    if value == "STUDY":
        from wavebed.reproduce.studies import STUDIES

        return ("small-packets", *STUDIES)
    return tuple(value.split("|")) if _ALTERNATIVES.fullmatch(value) else ()
