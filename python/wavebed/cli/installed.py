"""Write what is installed beside the program: ``python -m wavebed.cli.installed bash|zsh|fish|man FILE``.

shtab makes the completions, from parsers that also name shipped files, alternatives and programs. The man page comes
from the same parsers.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from typing import TYPE_CHECKING

from wavebed import __version__, shipped
from wavebed.cli import COMMANDS, build_parser
from wavebed.cli.help import EXAMPLES
from wavebed.cli.references import VARIABLES, subparsers
from wavebed.output import write_output

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SHELLS = ("bash", "zsh", "fish")

_FILES = frozenset({"FILE", "FILE|DIR", "OUT", "SCENARIO", "SCENE", "SITE", "TRACES"})
_FOLDERS = frozenset({"DIR", "DIR/TRIAL"})
_ALTERNATIVES = re.compile(r"[a-z0-9]+(\|[a-z0-9]+)+")
_MOST_HELP = 70
_NAMES_OR_FILES = {
    "bash": '{name}() {{ compgen -W "{words}" -- "$1"; compgen -f -- "$1"; }}',
    "zsh": "{name}() {{ compadd -- {words}; _files }}",
    "fish": "function {name}; printf '%s\\n' {words}; __fish_complete_path (commandline -ct); end",
}
"""Functions that offer shipped names and files. A name with ``_file`` has bash quote file names."""
_PROGRAMS = {
    "bash": """\
_wavebed_program() {
    if [ "${COMP_WORDS[COMP_CWORD - 1]}" = -- ]; then compgen -c -- "$1"; else compgen -f -- "$1"; fi
}""",
    "zsh": "_wavebed_program() { if [[ $words[1] == -- ]]; then shift words; ((CURRENT--)); fi; _normal }",
    "fish": "function _wavebed_program; __fish_complete_subcommand; end",
}
"""The program of the user that ``--`` begins, and its arguments."""


def whole_parser() -> argparse.ArgumentParser:
    """Return the parser of the program with the parsers of all commands; `build_parser` makes only one command's."""
    program = build_parser()
    for action in program._actions:  # noqa: SLF001 - argparse has no other way to its subparsers
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            action.choices.update({name: subparsers(build_parser(name))[name] for name in COMMANDS})
    return program


def shown_arguments(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield the options and arguments that the help shows, except those with commands."""
    for action in parser._actions:  # noqa: SLF001
        if action.help is not argparse.SUPPRESS and not isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            yield action


def _value(action: argparse.Action) -> str:
    """Return the name of its value in the help; empty for an option without one."""
    if action.nargs == 0:
        return ""
    if isinstance(action.metavar, str):
        return action.metavar
    if action.choices is not None:
        return "|".join(str(choice) for choice in action.choices)
    return action.dest.rpartition(":")[2].upper()


def _help(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    return " ".join(parser._get_formatter()._expand_help(action).split()) if action.help else ""  # noqa: SLF001


def completion(shell: str) -> str:
    """Return the completion of a shell."""
    import shtab  # one of the tools, which users do not have

    program = whole_parser()
    functions = {"_wavebed_program": _PROGRAMS[shell]}
    for name, words in _complete(program, program.prog):
        functions[name] = _NAMES_OR_FILES[shell].format(name=name, words=" ".join(words))
    script = shtab.complete(program, shell, preamble="\n".join(functions.values()))
    # shtab means "none or more arguments" by this, but to zsh it is one that stands alone.
    return script.replace('"(*):', '"*:') if shell == "zsh" else script


def _complete(parser: argparse.ArgumentParser, path: str, summary: str = "") -> Iterator[tuple[str, Iterable[str]]]:
    """Tell shtab which values each argument takes; yield each function that offers shipped names, with the names."""
    import shtab

    parser.description = _one_line(summary or parser.description or "")
    for action in shown_arguments(parser):
        action.help = _one_line(_help(parser, action)).replace("%", "%%")
        value = _value(action)
        words = _words(value, action, path)
        takes: object = None
        if value == "CMD" and not action.option_strings:
            takes = _function("_wavebed_program")
        elif words and value in _FILES:
            name = f"_wavebed_{action.dest.rpartition(':')[2].replace('-', '_')}_file"
            takes = _function(name)
            yield name, words
        elif words:
            action.choices = words
        elif value in _FILES:
            takes = shtab.FILE
        elif value in _FOLDERS:
            takes = shtab.DIRECTORY
        if takes is not None:
            action.complete = takes  # type: ignore[attr-defined] # the attribute that shtab reads
    for name, choice in subparsers(parser).items():
        yield from _complete(choice, f"{path} {name}", COMMANDS[name] if path == "wavebed" else "")


def _function(name: str) -> dict[str, str]:
    return {"bash": name, "zsh": name, "fish": f"({name})"}


def _words(value: str, action: argparse.Action, path: str) -> tuple[str, ...]:
    """Return the values that can be listed: choices, and names of shipped files."""
    if action.choices is not None:
        return tuple(str(choice) for choice in action.choices)
    if value in ("SCENARIO", "SCENE"):
        return shipped.names("scenes" if value == "SCENE" else "")
    if "--timeline" in action.option_strings:
        return shipped.names("timelines")
    if "--scenario" in action.option_strings or path == "wavebed scenarios":
        return shipped.names() if value else ()
    if value == "FILE" and (action.dest.endswith("trace") or path.startswith("wavebed trace ")):
        return shipped.names(shipped.TRACES) if action.dest != "output" else ()
    if path in ("wavebed campaign plan", "wavebed campaign run") and value in ("FILE", "FILE|DIR"):
        return shipped.names("campaigns")
    if path == "wavebed scenes" and value == "NAME":
        from wavebed.conditions import names

        return tuple(name for name in names() if name.isprintable() and " " not in name)
    if path == "wavebed schema":
        from wavebed.cli.schema import NAMES

        return tuple(NAMES)
    if value == "STUDY":
        from wavebed.reproduce.studies import STUDIES

        return ("small-packets", *STUDIES)
    return tuple(value.split("|")) if _ALTERNATIVES.fullmatch(value) else ()


def _one_line(text: str) -> str:
    """Return the first clause of a help text."""
    first = re.split(r"[;:.](?: |$)", re.sub(r" ?\([^)]*\)", "", text), maxsplit=1)[0]
    if len(first) > _MOST_HELP:
        first = first[: _MOST_HELP - 1].rsplit(" ", 1)[0] + " …"
    return first.replace("`", "").strip()


_ABOUT = (
    "wavebed computes the capacity of a radio scene, emulates a path between a server and a client for any real"
    " program, and runs applications across it, trial by trial, into a report. Rates are written 10gbit, 54mbit"
    " (bits of IP packets, powers of 1000), times 10ms, 125us, 2s, sizes 64kb, 1mb (1000), 64kib (1024)"
    " or packets 1000p, fractions and probabilities 0.01%. Data goes to standard output, progress and logs to"
    " standard error."
)
_STATUS = (
    ("0", "Success; wavebed shell has the status of its command."),
    ("1", "The experiment failed."),
    ("2", "The arguments or a file are wrong: one line names the argument or file, the rule and the remedy."),
    ("3", "The machine cannot do it: wavebed doctor explains."),
    ("130", "Interrupted."),
)


def manual_page(day: str) -> str:
    """Return the page in the format of man(7); `day` is the day of the release, ``2026-11-25``."""
    program = whole_parser()
    lines = [
        f'.TH WAVEBED 1 {day} "wavebed {__version__}" "User Commands"',
        ".SH NAME",
        "wavebed \\- a 5G and mmWave network laboratory on one Linux machine",
        ".SH SYNOPSIS",
        ".B wavebed",
        "COMMAND [OPTIONS]",
        ".SH DESCRIPTION",
        _roff(_ABOUT),
        ".SH OPTIONS",
        *(line for action in shown_arguments(program) for line in _entry(program, action)),
        ".SH COMMANDS",
        *_sections(program),
        ".SH EXIT STATUS",
        *_table(_STATUS),
        ".SH ENVIRONMENT",
        *_table(tuple((each.name, each.meaning) for each in VARIABLES if each.place == "user")),
    ]
    return "\n".join(lines) + "\n"


def _sections(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the sections of a parser's commands, each with its verbs after it."""
    for name, choice in subparsers(parser).items():
        arguments = [action for action in shown_arguments(choice) if "--help" not in action.option_strings]
        yield f".SS {_roff(choice.prog)}"
        yield _roff(choice.format_usage().removeprefix("usage: "))
        yield from (".PP", _roff(choice.description or COMMANDS[name]))
        for example, note in EXAMPLES.get(choice.prog.partition(" ")[2], ()):
            yield from (".TP", f".B {_roff(f'wavebed {example}')}", _roff(note) or "\\&")
        for is_option in (False, True):
            for action in arguments:
                if bool(action.option_strings) == is_option:
                    yield from _entry(choice, action)
        yield from _sections(choice)


def _entry(parser: argparse.ArgumentParser, action: argparse.Action) -> Iterator[str]:
    flags = ", ".join(f"\\fB{_roff(flag)}\\fR" for flag in action.option_strings)
    value = f"\\fI{_roff(_value(action))}\\fR" if _value(action) else ""
    yield from (".TP", " ".join(part for part in (flags, value) if part))
    yield _roff(_help(parser, action)) or "\\&"


def _table(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    for name, meaning in rows:
        yield from (".TP", f".B {_roff(name)}", _roff(meaning))


def _roff(text: str) -> str:
    """Return a text on one line, without what roff would act on."""
    escaped = " ".join(text.split()).replace("\\", "\\e").replace("-", "\\-")
    plain = "".join(each if each.isascii() else f"\\[u{ord(each):04X}]" for each in escaped)
    return f"\\&{plain}" if plain.startswith((".", "'")) else plain


if __name__ == "__main__":
    what, file = sys.argv[1:]
    if what == "man":
        moment = int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))
        write_output(file, manual_page(time.strftime("%Y-%m-%d", time.gmtime(moment))), "FILE")
    else:
        write_output(file, completion(what), "FILE")
