"""Write the page of commands that tests only read: ``python -m tests.docs.table FILE``."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.docs.blocks import blocks, pages
from tests.docs.commands import OURS, calls, commands

__all__ = ["commands_page"]

_HEAD = """# Tested commands

This page is made from the pages: `python -m tests.docs.table docs/development/tested-commands.md`.

`tests/docs` plays every page of the documentation in a folder of its own: blocks of TOML are read by the reader of
their file, blocks of Python and commands run in their order. A comment above a block says what differs in the test:
`tests/docs/blocks.py` lists these marks. `make test-slow` also runs the commands that are marked *slow*; `make test`
reads them only, with the parser of the program and the scenario that they name.

{runs} commands of this project's programs run, {slow} of them as slow tests. The commands of the table are only read.

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
