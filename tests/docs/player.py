"""A page of the documentation, played: its files are written, its commands and programs are run, in their order."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.docs.blocks import ROOT, blocks
from tests.docs.commands import calls, commands, read_command
from tests.docs.fragments import read_toml_block
from tests.docs.material import lay_out

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.docs.blocks import Block

__all__ = ["Player"]

LIMIT_S = 600.0
_LABORATORY = "docs-{}"
_STANDS_FOR = "LAB"
_ANY_COMMAND = re.compile(r" -- …")
"""A command of the reader's: a test runs the one that does nothing."""
_LATE = "is invalid: check failed"
_ANY = "any"
"""The status of a command that judges this machine."""


@dataclass
class Player:
    """One page in a folder of its own.

    Parameters
    ----------
    page : str
        The page, relative to the root.
    folder : pathlib.Path
        An empty folder, in which the commands run.
    slow : bool
        Whether commands marked ``slow`` run, too; else they are only parsed.
    """

    page: str
    folder: Path
    slow: bool = False
    ran: list[str] = field(default_factory=list)
    parsed: list[str] = field(default_factory=list)
    names: dict[str, object] = field(default_factory=dict)

    def play(self) -> None:
        """Play the page to its end.

        Raises
        ------
        AssertionError
            If a command does not do what the page says.
        """
        found = blocks(self.page)
        lay_out(self.folder, found)
        self._programs()
        with contextlib.ExitStack() as stack, self._laboratory(found):
            self.names["entered"] = stack.enter_context
            stack.callback(self.names.clear)
            for block in found:
                try:
                    self._play_block(block)
                except Exception as error:
                    error.add_note(f"in the block at {block.place}")
                    raise

    def _play_block(self, block: Block) -> None:
        if block.language == "toml" and not self._waits(block):
            with contextlib.chdir(self.folder):
                read_toml_block(block, self.folder)
        elif block.value("file"):
            (self.folder / str(block.value("file"))).write_text(block.text, encoding="utf-8")
        if block.language == "python":
            self._python(block)
        for command in commands(block):
            self._command(block, command)

    def _waits(self, block: Block, command: str = "") -> bool:
        """Whether a command, or a program, is only read this time."""
        slow = block.value("slow", command) is not None and not self.slow
        return slow or block.value("parsed", command) is not None

    def _python(self, block: Block) -> None:
        code = compile((block.value("given") or "") + "\n" + block.changed(block.text), block.place, "exec")
        if self._waits(block):
            self.parsed.append(block.place)
            return
        with contextlib.chdir(self.folder):
            exec(code, self.names)
        self.ran.append(block.place)

    def _command(self, block: Block, command: str) -> None:
        found = calls(command)
        if not found:
            return  # a command of another program
        if self._waits(block, command):
            for words in found:
                read_command(words, self.folder)
            self.parsed.append(command)
            return
        wanted = block.value("status", command) or "0"
        added = block.value("with", command)
        line = _with_options(command, added) if added else command
        line = block.changed(_ANY_COMMAND.sub(" -- true", line))
        done = subprocess.run(
            ["bash", "-c", line.replace(_STANDS_FOR, _LABORATORY.format(os.getpid()))],
            cwd=self.folder,
            env=self._variables(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        if done.returncode == 1 and _LATE in done.stderr:
            pytest.skip(f"inconclusive: {block.place}: the machine was late: a trial of {command!r} is invalid")
        assert wanted in {str(done.returncode), _ANY}, (
            f"{block.place}: {line}\nstatus {done.returncode}\n{done.stdout}{done.stderr}"
        )
        self.ran.append(command)

    def _programs(self) -> None:
        """Let ``wavebed`` be this package and this interpreter, whatever is installed."""
        folder = self.folder / ".bin"
        folder.mkdir()
        program = folder / "wavebed"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m wavebed "$@"\n', encoding="utf-8")
        program.chmod(0o755)

    def _variables(self) -> dict[str, str]:
        path = f"{self.folder / '.bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        sources = os.pathsep.join([str(ROOT / "python"), *filter(None, [os.environ.get("PYTHONPATH")])])
        return {**os.environ, "PATH": path, "PYTHONPATH": sources, "COLUMNS": "100", "MPLBACKEND": "Agg"}

    @contextlib.contextmanager
    def _laboratory(self, found: list[Block]) -> Iterator[None]:
        """Keep a laboratory running where the page speaks of one that does."""
        if not any(f" {_STANDS_FOR}" in each for block in found for each in commands(block)):
            yield
            return
        from wavebed import Path as NetworkPath

        with NetworkPath.of(rate="100mbit", delay="10ms").up(name=_LABORATORY.format(os.getpid())):
            yield


def _with_options(command: str, options: str) -> str:
    """Return the command with more options, before what it runs itself."""
    before, dashes, after = command.partition(" -- ")
    line, comment, rest = before.partition(" # ")
    return f"{line} {options}{dashes}{after}{comment}{rest}"
