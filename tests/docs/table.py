"""Write the page of commands that tests only parse: ``python -m tests.docs.table FILE``."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.docs.blocks import blocks, pages
from tests.docs.commands import OURS, calls, commands

__all__ = ["commands_page"]

_HEAD = """# Tested commands

This page is made from the pages: `python -m tests.docs.table docs/development/tested-commands.md`.

`pytest tests/docs` parses every page and runs none of its commands. The program's own parser reads the arguments of
each command, and the files and scenarios that the command names. Each block of TOML goes through the reader of its
file. Each program in Python compiles, and what it imports from `wavebed` exists.

`make play-docs` runs the commands, programs and notebooks of all pages, each page in a folder of its own.
`make play-docs PLAY=20` draws twenty blocks or notebooks by a seed, as CI does, and runs them with the earlier blocks
that they need. The seed is the hash of the commit; the output has the command that plays the same blocks again.
A wrong exit status fails. Trials that are invalid because the machine was late are listed, and do not fail.

A comment above a block says what differs in the test: `tests/docs/blocks.py` lists these marks. Commands that are
marked *slow* are never drawn.

{runs} commands of this project's programs can run; {slow} of them are slow. The commands of the table are only parsed.

| page | command | why |
|---|---|---|
"""


def commands_page() -> str:
    """Return the page in Markdown."""
    rows = []
    runs = slow = 0
    for page in pages():
        for block in blocks(page):
            for command in commands(block):
                if not any(words[0] in OURS for words in calls(command)):
                    continue
                reason = block.value("parsed", command)
                runs += reason is None
                slow += reason is None and block.value("slow", command) is not None
                if reason is not None:
                    rows.append(f"| {page} | `{_shown(command)}` | {reason} |")
    return _HEAD.format(runs=runs, slow=slow) + "\n".join(rows) + "\n"


def _shown(command: str) -> str:
    line = " ".join(command.partition(" # ")[0].split()).replace("|", "\\|")
    return line if len(line) <= 80 else line[:79] + "…"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(commands_page(), encoding="utf-8")
