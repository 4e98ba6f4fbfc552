"""Play blocks of a page of the documentation: write its files, run its commands and programs, in their order.

A block fails by a wrong command, a wrong exit status or a missing file. A slow machine is no fault of the page: trials
that are invalid because the machine was late are noted, and the page goes on.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.docs.blocks import ROOT, blocks, mentions
from tests.docs.commands import calls, commands
from tests.docs.material import lay_out
from tests.docs.reader import naming, program_of, write_file
from tests.on_time import only_late

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from tests.docs.blocks import Block

__all__ = ["Player"]

LIMIT_S = 1800.0
"""Time limit of a command. It ends a command that hangs; it judges no speed."""
_LABORATORY = "docs-{}"
_STANDS_FOR = "LAB"
_ANY_COMMAND = re.compile(r" -- …")
"""A command of the reader's: the player runs `true`."""
_NOT_LISTENING = re.compile(r"[^\n]* ports are open after [^\n]*")
"""How the program says that a server was slower than its limit."""
_ANY = "any"
"""The status of a command that judges this machine."""


@dataclass
class Player:
    """Blocks of one page, played in a folder of their own.

    Parameters
    ----------
    page : str
        The page, relative to the root.
    folder : pathlib.Path
        An empty folder, in which the commands run.
    lines : container of int, optional
        The lines at which the blocks to play begin; by default all blocks.
    slow : bool
        Whether commands marked ``slow`` run, too.
    """

    page: str
    folder: Path
    lines: Container[int] | None = None
    slow: bool = False
    ran: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    names: dict[str, object] = field(default_factory=dict)
    _unusable: set[str] = field(default_factory=set)

    def play(self) -> None:
        """Play the blocks in the order of the page.

        Raises
        ------
        AssertionError
            If a command has another exit status than the page says.
        """
        found = blocks(self.page)
        lay_out(self.folder, found, results=True)
        self._programs()
        with contextlib.ExitStack() as stack, self._laboratory(found):
            self.names["entered"] = stack.enter_context
            stack.callback(self.names.clear)
            for block in found:
                with naming(block):
                    self._play_block(block)

    def _play_block(self, block: Block) -> None:
        if block.language == "toml" or block.value("file"):
            write_file(block, self.folder, slow=self.slow)
        if not self._is_wanted(block):
            return
        if block.language == "python" and self._runs(block):
            with contextlib.chdir(self.folder):
                exec(compile(program_of(block), block.place, "exec"), self.names)
            self.ran.append(block.place)
        for command in commands(block):
            if calls(command) and self._runs(block, command):
                self._command(block, command)

    def _is_wanted(self, block: Block) -> bool:
        return self.lines is None or block.line in self.lines

    def _runs(self, block: Block, command: str = "") -> bool:
        """Whether a command or a program runs this time."""
        slow = block.value("slow", command) is not None and not self.slow
        return not slow and block.value("parsed", command) is None

    def _command(self, block: Block, command: str) -> None:
        wanted = block.value("status", command) or "0"
        added = block.value("with", command)
        line = _with_options(command, added) if added else command
        line = block.changed(_ANY_COMMAND.sub(" -- true", line))
        before = self._trials()
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
        self.ran.append(command)
        if wanted in {str(done.returncode), _ANY}:
            return
        trials = self._trials() - before
        late = self._lateness(done, trials, command)
        assert late, f"{block.place}: {line}\nstatus {done.returncode}\n{done.stdout}{done.stderr}"
        self.late.append(f"{block.place}: {' '.join(command.split())}: {late}")
        self._unusable |= {trial.relative_to(self.folder).parts[0] for trial in trials}

    def _trials(self) -> set[Path]:
        """Return the files of the trials that commands wrote so far."""
        return set(self.folder.rglob("trials/*/trial.json"))

    def _lateness(self, done: subprocess.CompletedProcess[str], trials: set[Path], command: str) -> str:
        """Return how a late machine explains an exit status; empty if it does not."""
        if done.returncode == 1 and (late := only_late(sorted(trials))):
            return late
        if slow := _NOT_LISTENING.search(done.stderr):
            return slow[0]
        named = sorted(each for each in self._unusable if mentions(command, each))
        return f"{named[0]} has late trials" if named else ""

    def _programs(self) -> None:
        """Write a program ``wavebed`` that is this package and this interpreter, whatever is installed."""
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
    def _laboratory(self, found: tuple[Block, ...]) -> Iterator[None]:
        """Keep a laboratory running where a played block names one."""
        played = [block for block in found if self._is_wanted(block)]
        if not any(f" {_STANDS_FOR}" in each for block in played for each in commands(block)):
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
