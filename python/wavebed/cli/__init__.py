"""The command line: find the subcommand, run it, turn its outcome into an exit status.

A subcommand ``NAME`` is two functions, ``register_NAME(subparsers)`` and ``run_NAME(args) -> int``, in the module of
its name, or in the module that `_ELSEWHERE` has for it. Only the module of the command that was typed is imported, so
that ``wavebed shell`` does not import the modules of ``wavebed trace``.

Exit statuses: 0 success, 1 the experiment failed, 2 the arguments or a file are wrong, 3 the machine cannot do it,
130 interrupted. A reader that closes the pipe early ends the command as SIGPIPE does (141).
"""

from __future__ import annotations

import argparse
import errno
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn

from wavebed import __version__
from wavebed.cli.process import OutputLostError, give_up_output, keep_pipes, prepare_streams
from wavebed.errors import MissingPackageError, UserError, WavebedError
from wavebed.printable import message_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["COMMANDS", "GROUPS", "Parser", "build_parser", "main"]

GROUPS = {
    "begin": {
        "demo": "a first measurement on shipped input, ending in report.html",
        "doctor": "check what this machine can run, and name what is missing",
        "scenarios": "list the shipped scenarios, and what each answers",
        "scenes": "list, explain and plot the shipped network conditions",
        "kernel": "build or install the kernel of virtual time",
    },
    "use a path": {
        "shell": "run a command behind an emulated path",
        "bridge": "put a path between two ports, for real devices",
        "attach": "lead the traffic of a running container through a path",
        "gateway": "put the containers that share this network behind a path",
        "ctl": "show and change a running laboratory",
        "ui": "the same on a live page in the browser, with an HTTP API",
    },
    "measure": {
        "run": "run the workloads of a scenario, and write a report",
        "check": "decide whether an application meets requirements",
        "campaign": "run a scenario in many variants, and compare them",
        "rerun": "repeat one trial from its results",
        "resolve": "print one trial with every value explicit, as JSON",
        "reproduce": "repeat a published study",
        "league": "play the same recordings by several emulators",
        "forward": "test how fast a router forwards small packets",
        "serve": "lend this machine's ports to a forwarding test elsewhere",
    },
    "read results": {
        "report": "write the report of a run again",
        "compare": "compare folders of results, or find regressions",
        "explain": "show why packets of a trial were late or lost",
        "export": "write a trial for flent, Perfetto, qlog or as CSV",
    },
    "make input": {
        "trace": "read, convert, plot, cut and scale traces, get public ones",
        "channel": "compute the capacity of a radio scene",
        "fit": "learn a channel from measured walks",
        "record": "record a real access, replay it, and judge the replay",
        "site": "show a web site, or profile the structure of a page",
        "schema": "print the JSON Schema of a file format",
        "mcp": "serve agents over the Model Context Protocol",
    },
}
"""Every command with a summary, in five groups, as ``wavebed --help`` shows them on one screen."""

COMMANDS = {name: summary for commands in GROUPS.values() for name, summary in commands.items()}

_ELSEWHERE = {
    "bridge": "shell",
    "compare": "results",
    "demo": "campaign",
    "explain": "results",
    "export": "results",
    "gateway": "attach",
    "kernel": "doctor",
    "report": "results",
    "rerun": "run",
    "resolve": "run",
    "scenes": "channel",
    "serve": "forward",
    "ui": "ctl",
}
"""The module of each command that shares one with another command."""

EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141


class _Formatter(argparse.HelpFormatter):
    """Help as wide as the terminal. argparse makes one for every argument, and would import shutil for its width."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - 2)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        """Name the value of an option once: ``-o, --output DIR``."""
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        value = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{', '.join(action.option_strings)} {value}"


def _columns() -> int:
    given = os.environ.get("COLUMNS", "")
    try:
        return int(given) if given.isdecimal() and int(given) else os.get_terminal_size(1).columns or 80
    except OSError:
        return 80


class Parser(argparse.ArgumentParser):
    """An argument parser that answers a mistake with one line."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        kwargs.setdefault("allow_abbrev", False)
        kwargs.setdefault("formatter_class", _Formatter)
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]

    def error(self, message: str) -> NoReturn:
        """Raise the mistake as a `UserError` instead of printing the usage.

        Raises
        ------
        UserError
            Always.
        """
        missing = message.removeprefix("the following arguments are required: ")
        if missing != message:
            from wavebed.cli.help import example

            shown = example(self.prog.partition(" ")[2])
            message = f"{missing} is missing" + (f": write for example `{shown}`" if shown else "")
        raise UserError(message if "did you mean" in message else f"{message} (see {self.prog} --help)")

    def format_help(self) -> str:
        """Return the help, which begins with examples."""
        from wavebed.cli.help import help_text

        return help_text(self, GROUPS, _columns() - 2)

    def parse_known_args(  # type: ignore[override] # argparse has overloads for namespaces of other types
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse arguments; none may be left.

        Raises
        ------
        UserError
            If one is not known: a line with what was probably meant.
        """
        given = list(sys.argv[1:] if args is None else args)
        found, rest = super().parse_known_args(given, namespace)
        own = getattr(found, "argv", None)
        if rest or (own and "--" not in given and given[-len(own) :] != own):
            raise self._mistake(given, rest)
        return found, rest

    def _mistake(self, given: list[str], rest: list[str]) -> UserError:
        """Return the answer to arguments with an unknown `rest`, or with a command that follows without ``--``."""
        from wavebed.cli import mistakes

        if any(action.dest == "argv" for action in self._actions) and "--" not in given:
            place = self._begin_of_command(given)
            if place is not None:
                return mistakes.without_dashes(self.prog, given, place)
        options = self.options()
        unknown = next((each for each in rest if each.startswith("-") and len(each) > 1), None)
        if unknown is None:
            return mistakes.extra_words(self.prog, rest, given, self._actions)
        after = given[given.index(unknown) + 1 :] if unknown in given else []
        elsewhere = () if "--scenario" in options else _options_of("shell")
        return mistakes.unknown_option(self.prog, unknown, after, options, elsewhere)

    def options(self) -> set[str]:
        """Return the options of this parser."""
        return set(self._option_string_actions)

    def _begin_of_command(self, given: list[str]) -> int | None:
        """Return the place of the first word that is neither an option nor its value; ``None``: there is none."""
        for place, word in enumerate(given):
            if word.startswith("-"):
                continue
            try:
                found, rest = super().parse_known_args(given[:place], argparse.Namespace())
            except UserError:
                continue
            if not rest and not getattr(found, "argv", None):
                return place
        return None

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:  # noqa: SLF001
            from wavebed.cli.mistakes import unknown_choice

            raise unknown_choice(self.prog, value, action.choices)
        if action.choices is not None and value not in action.choices:
            from wavebed.config.problems import one_of

            hint = one_of(value, [str(each) for each in action.choices])
            raise argparse.ArgumentError(action, f"{value!r} is not a choice: {hint}")


class _PathHelp(argparse.Action):
    """``--help-path``: print the options of a path, and end."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from wavebed.cli.help import path_text

        print(path_text(parser), end="")
        parser.exit()


def build_parser(command: str | None = None) -> Parser:
    """Make the parser of the whole program.

    Parameters
    ----------
    command : str, optional
        The command whose arguments are wanted. The others are only listed.
    """
    parser = Parser(
        prog="wavebed",
        description="A 5G/mmWave network laboratory on one Linux machine.",
        epilog="wavebed COMMAND --help shows examples and options of a command.",
    )
    parser.add_argument("-V", "--version", action="version", version=f"wavebed {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=Parser)
    for name, summary in COMMANDS.items():
        if name == command:
            _function("register", name)(subparsers)
            _add_path_help(subparsers.choices[name])
        else:
            subparsers.add_parser(name, help=summary, add_help=False)
    return parser


def _add_path_help(parser: argparse.ArgumentParser) -> None:
    """Add ``--help-path`` to a command with the options of a path."""
    if any(group.title == "path options" for group in parser._action_groups):  # noqa: SLF001
        parser.add_argument("--help-path", action=_PathHelp, nargs=0, help="show the options of a path, and end")


def _options_of(command: str) -> set[str]:
    """Return the options of a command."""
    for action in build_parser(command)._actions:  # noqa: SLF001
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            return set(action.choices[command].options())
    return set()


def _function(what: str, command: str) -> Callable[..., int]:
    """Return ``register_COMMAND`` or ``run_COMMAND``."""
    found: Callable[..., int] = getattr(
        import_module(f"wavebed.cli.{_ELSEWHERE.get(command, command)}"), f"{what}_{command}"
    )
    return found


def _dispatch(arguments: Sequence[str], *, is_own_process: bool) -> int:
    command = arguments[0] if arguments and arguments[0] in COMMANDS else None
    parser = build_parser(command)
    if arguments and command is None and arguments[0] not in parser.options():
        from wavebed.cli.mistakes import unknown_command

        raise unknown_command(arguments, COMMANDS, _options_of)
    if not arguments:
        parser.print_help(sys.stderr)
        return UserError.exit_status
    if any("/fd/" in argument for argument in arguments):
        keep_pipes(arguments)
    options = parser.parse_args(arguments, argparse.Namespace(is_own_process=is_own_process))
    return _function("run", options.command)(options)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program.

    Parameters
    ----------
    arguments : sequence of str, optional
        The arguments after the program's name; by default the arguments of the process.

    Returns
    -------
    int
        The exit status.
    """
    prepare_streams()
    try:
        is_own_process = arguments is None
        return _dispatch_and_print(sys.argv[1:] if arguments is None else arguments, is_own_process=is_own_process)
    except OutputLostError as error:
        give_up_output()
        print(f"wavebed: {error}", file=sys.stderr)
        return error.exit_status
    except BrokenPipeError:
        give_up_output()
        return EXIT_BROKEN_PIPE


def _dispatch_and_print(arguments: Sequence[str], *, is_own_process: bool) -> int:
    try:
        return _dispatch(arguments, is_own_process=is_own_process)
    except OutputLostError:
        raise
    except WavebedError as error:
        command = f" {arguments[0]}" if isinstance(error, MissingPackageError) else ""
        print(f"wavebed{command}: {message_text(str(error))}", file=sys.stderr)
        return error.exit_status
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        print(f"wavebed: {message_text(str(error.filename))}: file name too long: write a shorter one", file=sys.stderr)
        return UserError.exit_status
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    finally:
        sys.stdout.flush()
