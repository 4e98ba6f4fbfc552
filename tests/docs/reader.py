"""Parse a page of the documentation: its files, commands and programs, of which none runs."""

from __future__ import annotations

import ast
import contextlib
import importlib
import tomllib
from typing import TYPE_CHECKING

from tests.docs.blocks import blocks
from tests.docs.commands import calls, commands, read_command
from tests.docs.fragments import read_toml_block
from tests.docs.material import lay_out

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.docs.blocks import Block

__all__ = ["check_program", "naming", "parse_page", "program_of", "write_file"]

_OURS = "wavebed"


def parse_page(page: str, folder: Path) -> None:
    """Parse the blocks of a page in their order.

    Parameters
    ----------
    page : str
        The page, relative to the root.
    folder : pathlib.Path
        An empty folder for the files that the page names.

    Raises
    ------
    AssertionError, SyntaxError, UserError
        If a block is wrong; a note names the block.
    """
    found = blocks(page)
    lay_out(folder, found, results=False)
    for block in found:
        with naming(block):
            if block.language == "toml" or block.value("file"):
                write_file(block, folder, slow=False)
            if block.language == "python":
                check_program(program_of(block), block.place)
            for words in (words for command in commands(block) for words in calls(command)):
                read_command(words, folder)


@contextlib.contextmanager
def naming(block: Block) -> Iterator[None]:
    """Name the block in errors."""
    try:
        yield
    except Exception as error:
        error.add_note(f"in the block at {block.place}")
        raise


def write_file(block: Block, folder: Path, *, slow: bool) -> None:
    """Write a block that is a file, and read a block of TOML by the reader of its kind.

    A slow block names files that slow commands write: without `slow`, only its syntax is checked.
    """
    waits = block.value("parsed") is not None or (block.value("slow") is not None and not slow)
    if block.language == "toml" and not waits:
        with contextlib.chdir(folder):
            read_toml_block(block, folder)
        return
    if block.language == "toml":
        tomllib.loads(block.text)
    if name := block.value("file"):
        (folder / name).write_text(block.text, encoding="utf-8")


def program_of(block: Block) -> str:
    """Return the program of a block as it runs."""
    return (block.value("given") or "") + "\n" + block.changed(block.text)


def check_program(text: str, place: str) -> None:
    """Compile a program, and import what it imports from this package."""
    tree = ast.parse(text, place)
    compile(tree, place, "exec")
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                if _is_ours(each.name):
                    importlib.import_module(each.name)
        elif isinstance(node, ast.ImportFrom) and node.module and _is_ours(node.module):
            module = importlib.import_module(node.module)
            for each in node.names:
                assert hasattr(module, each.name), f"{node.module} has no {each.name}"


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == _OURS
