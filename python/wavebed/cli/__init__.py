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

__all__ = ["COMMANDS", "Parser", "build_parser", "main"]

COMMANDS = {
    "demo": "the main job on shipped input, ending in report.html",
    "doctor": "check this machine for a laboratory, and name the remedies",
    "kernel": "build or install the kernel of virtual time",
    "run": "run the workloads of a scenario, any number of times, and report",
    "check": "decide whether an application meets requirements on a path, over several seeds",
    "campaign": "plan, run, resume and watch many trials of many cells",
    "resolve": "print a trial of a scenario as a value: every key explicit, patterns by content",
    "rerun": "repeat a trial from a folder of results alone",
    "schema": "print the JSON Schema of a file format",
    "explain": "why packets of a trial were late or lost",
    "export": "write a trial as a data file of flent",
    "report": "write the report of a run again from its results",
    "shell": "run a command behind an emulated path",
    "bridge": "an emulated path between two ports of this machine, for real devices",
    "attach": "lead the traffic of a running container through an emulated path",
    "gateway": "put the containers that share this network behind an emulated path",
    "ctl": "counters and live changes of a running laboratory",
    "record": "record a real access as patterns, replay them, and judge the replay",
    "ui": "a live page of running laboratories, and an HTTP API",
    "scenes": "list, explain and plot the shipped, named network conditions",
    "channel": "turn a radio scene into patterns, a picture and a table of states",
    "fit": "learn a channel from measured walks, and judge it on walks that were held out",
    "trace": "read, convert, plot, cut and scale traces and patterns",
    "mcp": "a server of the Model Context Protocol, for agents",
    "site": "show the objects of a web site for the workload `web`",
    "forward": "the small-packet forwarding test of a router",
    "serve": "lend the ports of this machine to a test that runs on another",
    "reproduce": "repeat a published study",
    "compare": "compare folders of results",
}

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
        raise UserError(f"{message} (see {self.prog} --help)")


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
        epilog="wavebed COMMAND --help explains a command.",
    )
    parser.add_argument("-V", "--version", action="version", version=f"wavebed {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=Parser)
    for name, summary in COMMANDS.items():
        if name == command:
            _function("register", name)(subparsers)
        else:
            subparsers.add_parser(name, help=summary, add_help=False)
    return parser


def _function(what: str, command: str) -> Callable[..., int]:
    """Return ``register_COMMAND`` or ``run_COMMAND``."""
    found: Callable[..., int] = getattr(
        import_module(f"wavebed.cli.{_ELSEWHERE.get(command, command)}"), f"{what}_{command}"
    )
    return found


def _dispatch(arguments: Sequence[str], *, is_own_process: bool) -> int:
    command = arguments[0] if arguments and arguments[0] in COMMANDS else None
    parser = build_parser(command)
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
