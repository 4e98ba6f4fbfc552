"""What is answered to a mistyped command line: one line with what was probably meant.

Only mistakes import this module.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from wavebed.config.suggest import meant, nearest
from wavebed.errors import UserError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Sequence

_COMMANDS = {
    "assert": "check",
    "conditions": "scenes",
    "dashboard": "ui",
    "diff": "compare",
    "example": "demo",
    "examples": "demo",
    "exec": "shell",
    "gui": "ui",
    "init": "demo",
    "install": "doctor",
    "labs": "ctl",
    "list": "scenarios",
    "ls": "scenarios",
    "netem": "shell",
    "ps": "ctl",
    "quickstart": "demo",
    "replay": "rerun",
    "status": "ctl",
    "test": "check",
    "verify": "check",
    "web": "ui",
    "workloads": "scenarios",
}
"""What other programs call a command."""

_OPTIONS = {
    "--assert": ("--require",),
    "--bandwidth": ("--rate",),
    "--buffer": ("--queue",),
    "--bw": ("--rate",),
    "--condition": ("--scene",),
    "--count": ("--trials", "--seeds"),
    "--dir": ("--output", "--log"),
    "--drop": ("--loss",),
    "--expect": ("--require",),
    "--format": ("--json",),
    "--latency": ("--delay",),
    "--limit-rate": ("--rate",),
    "--network": ("--scene",),
    "--out": ("--output",),
    "--output": ("--log",),
    "--output-dir": ("--output", "--log"),
    "--packet-loss": ("--loss",),
    "--profile": ("--scene",),
    "--qdisc": ("--queue",),
    "--repeat": ("--trials", "--seeds"),
    "--rtt": ("--delay",),
    "--runs": ("--trials", "--seeds"),
    "--speed": ("--rate",),
    "--throughput": ("--rate",),
    "--timeout": ("--limit",),
    "--trials": ("--seeds", "--blocks"),
    "--seeds": ("--trials",),
    "-n": ("--trials", "--seeds"),
}
"""What other programs call an option, and the options here that it may be."""

_PATH_OF = "run", "resolve", "record", "demo"
"""Commands that change a path with ``--set``."""


_VERBS = "explain", "info", "list", "plot", "run", "show", "start"
"""Actions that other programs have, between a command and a name."""


def unknown_command(arguments: Sequence[str], commands: Iterable[str], options: Callable[[str], set[str]]) -> UserError:
    """Return the answer to arguments that do not begin with a command.

    Parameters
    ----------
    options : callable
        Returns the options of a command.
    """
    word, rest = arguments[0], list(arguments[1:])
    commands = list(commands)
    if word == "help":
        known = [each for each in rest if each in commands][:1]
        return _refused("help is no command", [*known, "--help"])
    if word == "version":
        return _refused("version is no command", ["--version"])
    if word.startswith("-"):
        return _option_first(list(arguments), commands, options)
    if word in _COMMANDS:
        return _refused(f"{word} is no command", [_COMMANDS[word], *rest])
    near = nearest(word, commands)
    if near is not None:
        return _refused(f"{word} is no command", [near, *rest])
    from wavebed import shipped

    if word in shipped.names() or word.endswith(".toml"):
        return _refused(f"{word} is no command", ["run", word, *rest])
    return UserError(f"{word} is no command: `wavebed --help` lists them")


def _option_first(arguments: list[str], commands: list[str], options: Callable[[str], set[str]]) -> UserError:
    word = arguments[0].partition("=")[0]
    named = next((each for each in arguments if each in commands), None)
    if named is not None:
        arguments.remove(named)
        return _refused(f"{word} belongs behind the command", [named, *arguments])
    if word in options("shell"):
        return _refused(f"{word} belongs to a command", ["shell", *arguments])
    return UserError(f"{word} is no option here: {meant(word, ['--help', '--version'], '`wavebed --help` shows how')}")


def _refused(rule: str, arguments: Sequence[str]) -> UserError:
    return UserError(f"{rule}: did you mean `{written(arguments)}`?")


def written(arguments: Sequence[str]) -> str:
    """Return a command line of this program as a shell reads it."""
    return shlex.join(["wavebed", *arguments])


def unknown_choice(prog: str, value: object, choices: Iterable[object]) -> UserError:
    """Return the answer to a word that is no action of a command."""
    known = [str(each) for each in choices]
    near = nearest(str(value), known)
    if near is not None:
        return UserError(f"{value} is no action of {prog}: did you mean `{prog} {near}`?")
    return UserError(f"{value} is no action of {prog}: write one of {', '.join(known)}")


def unknown_option(
    prog: str, word: str, rest: Sequence[str], known: Iterable[str], elsewhere: Iterable[str]
) -> UserError:
    """Return the answer to an option that a command does not have.

    Parameters
    ----------
    word : str
        The option as typed, perhaps with ``=VALUE``.
    rest : sequence of str
        What was typed after it.
    known, elsewhere : iterable of str
        The options of the command, and the options of a path if it has none.
    """
    option, equals, value = word.partition("=")
    known = list(known)
    command = prog.partition(" ")[2]
    if option in elsewhere and command in _PATH_OF:
        value = value or next((each for each in rest[:1] if not each.startswith("-")), "VALUE")
        change = f"--set {shlex.quote(f'path.{option[2:]}={value}')}"
        hint = f"did you mean {change}?" if command != "demo" else f"did you mean `wavebed run demo {change}`?"
        return UserError(f"{option} is no option of {prog}: {hint}")
    near = next((each for each in _OPTIONS.get(option, ()) if each in known), None) or nearest(option, known)
    if near is not None:
        return UserError(f"{option} is no option of {prog}: did you mean {near}{equals}{value}?")
    return UserError(f"{option} is no option of {prog}: `{prog} --help` lists them")


def without_dashes(prog: str, arguments: Sequence[str], place: int) -> UserError:
    """Return the answer to a command of the user, from `place` on, without ``--`` before it."""
    command = prog.partition(" ")[2]
    whole = written([command, *arguments[:place], "--", *arguments[place:]])
    return UserError(f"options follow the command {arguments[place]}: write -- before it: did you mean `{whole}`?")


def extra_words(
    prog: str, rest: Sequence[str], arguments: Sequence[str], actions: Iterable[argparse.Action]
) -> UserError:
    """Return the answer to words that are too many."""
    command = prog.partition(" ")[2]
    changes = [each for each in actions if each.metavar == "KEY=VALUE" and each.option_strings]
    for action in changes:
        for flag, key, value in zip(arguments, arguments[1:], arguments[2:], strict=False):
            if flag in action.option_strings and "=" not in key and value == rest[0]:
                return UserError(
                    f"{flag} {key}: is not KEY=VALUE: did you mean {flag} {shlex.quote(f'{key}={value}')}?"
                )
    words = [each for each in arguments if not each.startswith("-")]
    if len(words) > 1 and rest[0] == words[1] and nearest(words[0], _VERBS) is not None:
        without = [each for each in arguments if each != words[0]]
        return UserError(f"{words[0]}: {prog} has no actions: did you mean `{written([command, *without])}`?")
    return UserError(f"{' '.join(rest)}: too many arguments: `{prog} --help` shows how")
