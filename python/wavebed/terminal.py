"""Tables and a progress line on a terminal, laid out by Rich."""

from __future__ import annotations

import io
import os
import shutil
import sys
import textwrap
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Self, TextIO

from wavebed.printable import message_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from rich.progress import Progress

PLAIN_EVERY_S = 15.0
REFRESH_EVERY_S = 0.5
_UNLIMITED = 10_000
_BAR_WIDE = 10
_PLAIN_WIDE = 80


def table_text(rows: Sequence[Sequence[str]], *, left: bool = False) -> str:
    """Return rows as a table; the first row is its head. On a terminal it has a rule, and cells wrap to fit the width.

    Parameters
    ----------
    left : bool
        Whether all columns are left-aligned; otherwise all but the first are right-aligned.
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    terminal = sys.stdout.isatty()
    table = Table(box=SIMPLE_HEAD if terminal else None, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0))
    for place, name in enumerate(rows[0]):
        table.add_column(Text(name), justify="left" if left or place == 0 else "right")
    for row in rows[1:]:
        table.add_row(*map(Text, row))
    width = shutil.get_terminal_size().columns if terminal else _UNLIMITED
    drawn = io.StringIO()
    Console(file=drawn, width=width, color_system=None).print(table)
    return "\n".join(line.rstrip() for line in drawn.getvalue().splitlines())


def closing_text(rows: Sequence[tuple[str, str]]) -> str:
    """Return the last lines of a command: a word and its text each, wrapped on a terminal."""
    wide = max(len(word) for word, _ in rows) + 2
    rows = [(word, text.replace("\N{NO-BREAK SPACE}", " ")) for word, text in rows]  # so that grep finds it
    if not sys.stdout.isatty():
        return "\n".join(f"{word:<{wide}}{text}" for word, text in rows)
    room = max(shutil.get_terminal_size().columns, wide + 20)
    lines = []
    for word, text in rows:
        indent = " " * wide
        wrapped = textwrap.wrap(text, room, initial_indent=indent, subsequent_indent=indent, break_long_words=False)
        lines.append(f"{word:<{wide}}" + "\n".join(wrapped or [indent])[wide:])
    return "\n".join(lines)


class StatusLine:
    """Progress on standard error: on a terminal a refreshed line with a bar, elsewhere plain lines.

    Parameters
    ----------
    command : str
        What each line begins with.
    stream : file, optional
        Where it goes; standard error by default.
    """

    def __init__(self, command: str, stream: TextIO | None = None) -> None:
        self._command = command
        self._stream = stream or sys.stderr
        self._began_s = time.monotonic()
        self._said_s = float("-inf")
        self._bar: Progress | None = None
        self._lock = threading.Lock()
        self._terminal = self._stream.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")

    def is_due(self) -> bool:
        """Say whether it is time for a line about one of many small steps."""
        return time.monotonic() - self._said_s >= (REFRESH_EVERY_S if self._terminal else PLAIN_EVERY_S)

    def say(self, text: str, left_s: float | None = None) -> None:
        """Say a line; on a terminal the next one replaces it.

        Parameters
        ----------
        left_s : float, optional
            How long the command is expected to take from now on, seconds: what the bar shows.
        """
        with self._lock:
            self._said_s = time.monotonic()
            line = f"{self._command}: {message_text(text)}"
            room = shutil.get_terminal_size().columns - _BAR_WIDE - 2 if self._terminal else _PLAIN_WIDE
            line = line if len(line) <= room else f"{line[: max(room - 1, 1)]}…"
            if not self._terminal:
                print(line, file=self._stream, flush=True)
                return
            bar = self._bar = self._bar or _bar(self._stream)
            gone_s = self._said_s - self._began_s
            share = None if left_s is None else gone_s / max(gone_s + left_s, 1e-9)
            bar.update(bar.task_ids[0], description=line, completed=share, refresh=True)

    def note(self, text: str) -> None:
        """Say a line that stays."""
        with self._lock:
            line = f"{self._command}: {message_text(text)}"
            if self._bar is None:
                print(line, file=self._stream, flush=True)
            else:
                self._bar.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def clear(self) -> None:
        """Take the line away."""
        with self._lock:
            if self._bar is not None:
                self._bar.stop()
            self._bar = None


def _bar(stream: TextIO) -> Progress:
    """Return a progress line with a bar that fits the terminal and is drawn only on changes."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn
    from rich.table import Column

    text = TextColumn("{task.description}", markup=False, table_column=Column(ratio=1))
    calm = partial(Progress, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False)
    bar = calm(text, BarColumn(_BAR_WIDE), console=Console(file=stream), expand=True)
    bar.add_task("", total=1.0)
    bar.start()
    bar.console.show_cursor(True)  # whoever kills this program finds it as it was
    return bar


class StepProgress(StatusLine):
    """Shows the progress and the remaining time.

    Parameters
    ----------
    command : str
        The start of each line.
    patience_s : float
        Seconds at the start in which nothing is printed.
    """

    def __init__(self, command: str, patience_s: float = 0.0) -> None:
        super().__init__(command)
        self._speak_s = time.monotonic() + patience_s
        self._end_s = time.monotonic()
        self._step = "starting"
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._refresh, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._thread.join()
        self.clear()

    def step(self, text: str, left_s: float) -> None:
        """Say that a new step begins, and that it and all that follow are expected to take `left_s` seconds."""
        self.go_on(text, left_s)
        self._tell(force=True)

    def go_on(self, text: str, left_s: float) -> None:
        """Take note of one of many small steps; it is said when it is time for a word."""
        self._step = text
        self._end_s = time.monotonic() + left_s

    def _refresh(self) -> None:
        while not self._end.wait(REFRESH_EVERY_S):
            self._tell(force=False)

    def _tell(self, *, force: bool) -> None:
        now = time.monotonic()
        if now >= self._speak_s and (force or self.is_due()):
            left_s = max(0.0, self._end_s - now)
            self.say(f"{self._step} (about {left_s:.0f} s left)", left_s)
