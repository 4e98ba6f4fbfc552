"""The commands of a block, and reading them with the program's own parser, without running them."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
import tomllib
from typing import TYPE_CHECKING

from tests.docs.blocks import ROOT, Block

from wavebed._core import find_edge
from wavebed.cli import build_parser
from wavebed.path.scenario import read_path
from wavebed.path.tables import path_options
from wavebed.path.timeline import load_timeline
from wavebed.path.traces import Traces
from wavebed.run.scenario import parse_change, read_plan
from wavebed.shipped import find

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["calls", "commands", "read_command"]

OURS = ("wavebed", "wavebed-edge", "make", "pip", "pipx")
_HELPERS = ("mkdir",)
"""Programs that the commands of a page need before them."""
_PREFIXED = re.compile(r"^[$#] ")
_SEPARATORS = re.compile(r"^(?:&&|\|\||[;|&()<>]+)$")
_CAMPAIGN_ACTIONS = ("plan", "run")


def commands(block: Block) -> list[str]:
    """Return the commands of a block of kind ``sh`` or ``console``, each as one line of shell."""
    if block.language not in {"sh", "console"}:
        return []
    return [line for line in _joined(block) if line.strip() and not line.lstrip().startswith("#")]


def _joined(block: Block) -> Iterator[str]:
    """Yield the lines, those that belong together as one."""
    prompt = block.language == "console"
    held = ""
    for raw in block.text.splitlines():
        line = raw
        if prompt and not held:
            if not _PREFIXED.match(raw):
                continue  # output
            line = raw[2:]
        held = f"{held}\n{line}" if held else line
        if not _is_open(held):
            yield held.replace("\\\n", " ")
            held = ""
    assert not held, f"{block.place}: the last command has no end"


def _is_open(text: str) -> bool:
    """Whether a command goes on in the next line: a backslash, a quotation, a loop."""
    if text.endswith("\\"):
        return True
    try:
        words = shlex.split(text, comments=True)
    except ValueError:
        return True
    opened = sum(each in {"for", "until", "while"} for each in words[:1])
    return opened > sum(each.rstrip(";") == "done" for each in words)


def calls(command: str) -> list[list[str]]:
    """Return the calls of this project's programs in a line of shell, each as its arguments.

    Words that stand for others (``…``) are left out.
    """
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.commenters = "#" if re.search(r"\s#", command) else ""
    lexer.whitespace_split = True
    found: list[list[str]] = [[]]
    for word in lexer:
        if _SEPARATORS.match(word):
            found.append([])
        elif word != "…":
            found[-1].append(word)
    for words in found:
        while words and ("=" in words[0] or words[0] == "sudo"):
            words.pop(0)
    return [words for words in found if words and words[0] in (*OURS, *_HELPERS)]


def read_command(words: list[str], folder: Path) -> None:
    """Read a call as the program does, without running it: its arguments, and the files and scenarios that it names.

    Parameters
    ----------
    words : list of str
        The program and its arguments.
    folder : pathlib.Path
        The folder in which the page's files are.

    Raises
    ------
    UserError
        If the program refuses the arguments or a file.
    AssertionError
        If a program other than ``wavebed`` does.
    """
    program, *arguments = words
    if program == "wavebed":
        _read_wavebed(arguments, folder)
    elif program == "wavebed-edge":
        _read_edge(arguments)
    elif program == "make":
        for target in arguments:
            assert "=" in target or re.search(rf"^{re.escape(target)}\b.*:", _makefile(), re.MULTILINE), target
    elif program == "mkdir":
        (folder / arguments[0]).mkdir(exist_ok=True)
    else:
        _read_pip(arguments)


def _makefile() -> str:
    return (ROOT / "Makefile").read_text(encoding="utf-8")


def _read_pip(arguments: list[str]) -> None:
    """See that the extras of this package exist."""
    document = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    known = document["project"]["optional-dependencies"]
    for argument in arguments:
        named = re.fullmatch(r"(?:\.|wavebed)\[(\w+(?:,\w+)*)\]", argument)
        for extra in named[1].split(",") if named else ():
            assert extra in known, f"{extra}: is no extra of wavebed"


def _read_edge(arguments: list[str]) -> None:
    """Ask for the help of the same command: an unknown subcommand or option is an error before that."""
    program = find_edge()
    given = arguments[: arguments.index("--run")] if "--run" in arguments else arguments
    done = subprocess.run([program, *given, "--help"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def _read_wavebed(arguments: list[str], folder: Path) -> None:
    args = build_parser(arguments[0] if arguments else None).parse_args(arguments)
    with contextlib.chdir(folder):
        resolve = _RESOLVE.get(args.command)
        if resolve is not None:
            resolve(args)


def _resolve_run(args: argparse.Namespace) -> None:
    if not args.scenario.endswith(".json"):
        changes = dict(parse_change(each) for each in args.changes)
        read_plan(find(args.scenario, "scenario"), overrides=changes, only=args.workload)


def _resolve_path(args: argparse.Namespace) -> None:
    """Read the path; a timeline is read for itself, as its rates take seconds to compute."""
    if args.timeline is not None:
        load_timeline(args.timeline)
    traces = Traces()
    try:
        read_path(args.scenario, path_options(args), traces)
    finally:
        traces.close()


def _resolve_campaign(args: argparse.Namespace) -> None:
    from wavebed.campaign.read import campaign_file, read_campaign

    if args.action in _CAMPAIGN_ACTIONS and not getattr(args, "resume", None):
        file = campaign_file(args.file)
        if file.name == args.file:  # tests/unit/test_campaigns.py reads the shipped campaigns
            read_campaign(file)


def _resolve_channel(args: argparse.Namespace) -> None:
    from wavebed.scene import load

    if not os.fspath(args.scene).endswith(".json"):
        load(args.scene)


_RESOLVE = {
    "run": _resolve_run,
    "resolve": _resolve_run,
    "record": lambda args: read_plan(find(args.scenario, "scenario")),
    "shell": _resolve_path,
    "bridge": _resolve_path,
    "campaign": _resolve_campaign,
    "channel": _resolve_channel,
}
