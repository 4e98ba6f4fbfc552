"""The program accepts every command and file of the documentation, and programs compile; `test_play.py` runs them."""

from __future__ import annotations

import argparse
import functools
import re
from typing import TYPE_CHECKING

import pytest
import yaml
from tests.docs.blocks import ROOT, Block, blocks, pages
from tests.docs.commands import calls, commands, read_command
from tests.docs.reader import check_program, parse_page
from tests.docs.table import commands_page

from wavebed.cli import COMMANDS, build_parser
from wavebed.errors import UserError

if TYPE_CHECKING:
    from pathlib import Path

PARSED = [
    page for page in pages() if any(block.language in {"sh", "console", "python", "toml"} for block in blocks(page))
]
LANGUAGES = {
    "",
    "text",
    "sh",
    "console",
    "python",
    "py",
    "toml",
    "json",
    "yaml",
    "sql",
    "html",
    "xml",
    "rust",
    "go",
    "java",
    "js",
    "ts",
}
INLINE = re.compile(r"(?<!`)`(wavebed [a-z][^`]*)`(?!`)")


@functools.cache
def options_of(command: str) -> set[str]:
    """Return the options of a command, those of its verbs among them."""
    found: set[str] = set()
    waiting = [choices_of(build_parser(command))[command]]
    while waiting:
        parser = waiting.pop()
        found |= {option for action in parser._actions for option in action.option_strings}
        waiting += choices_of(parser).values()
    return found


def choices_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    subparsers = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    return {name: choice for each in subparsers for name, choice in each.choices.items()}


@pytest.mark.parametrize("page", PARSED)
def test_the_program_accepts_the_commands_and_files_of_a_page(page: str, tmp_path: Path) -> None:
    parse_page(page, tmp_path)


def test_the_commands_of_the_pages_are_found() -> None:
    found = [words for page in pages() for block in blocks(page) for each in commands(block) for words in calls(each)]
    assert len(found) > 200


def test_every_command_stands_in_a_block_that_is_tested() -> None:
    untested = [
        block.place
        for page in pages()
        for block in blocks(page)
        if block.language in {"", "text"}
        and any(line.removeprefix("$ ").startswith(("wavebed ", "wavebed-edge ")) for line in block.text.splitlines())
        and not any(line.startswith(("usage:", "wavebed: ", "wavebed run: ")) for line in block.text.splitlines())
    ]
    assert untested == [], "name the language of these blocks: sh or console"


def test_every_block_has_a_known_language() -> None:
    assert [block.place for page in pages() for block in blocks(page) if block.language not in LANGUAGES] == []


def test_blocks_of_yaml_are_yaml() -> None:
    found = [block for page in pages() for block in blocks(page) if block.language == "yaml"]
    assert found
    for block in found:
        list(yaml.safe_load_all(block.text))


def test_the_table_of_commands_that_are_only_parsed_is_up_to_date() -> None:
    stored = (ROOT / "docs/development/tested-commands.md").read_text(encoding="utf-8")
    assert stored == commands_page(), "run: python -m tests.docs.table docs/development/tested-commands.md"


def test_a_command_that_the_program_refuses_is_found(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--colour"):
        read_command(["wavebed", "shell", "--colour", "red"], tmp_path)
    with pytest.raises(UserError, match="nowhere"):
        read_command(["wavebed", "run", "nowhere"], tmp_path)


def test_a_program_that_imports_what_is_not_there_is_found() -> None:
    with pytest.raises(AssertionError, match=r"wavebed\.scene has no nothing"):
        check_program("from wavebed.scene import nothing", "page")
    with pytest.raises(ModuleNotFoundError, match=r"wavebed\.nowhere"):
        check_program("def later():\n    import wavebed.nowhere", "page")
    with pytest.raises(SyntaxError):
        check_program("return 1", "page")


def test_a_block_is_cut_into_its_commands() -> None:
    loop = "for i in 1 2; do\n  wavebed run b\ndone\n"
    text = f'wavebed run a \\\n    --trials 2   # twice\n{loop}X=1 wavebed run "c d" | wc\n'
    cut = commands(Block("page", 1, "sh", text, ()))
    assert [calls(each) for each in cut] == [
        [["wavebed", "run", "a", "--trials", "2"]],
        [],
        [["wavebed", "run", "c d"]],
    ]


def test_only_lines_with_a_prompt_are_commands_of_a_console() -> None:
    block = Block("page", 1, "console", "$ wavebed doctor\nwavebed shell is output\n# wavebed bridge --a x --b y\n", ())
    assert commands(block) == ["wavebed doctor", "wavebed bridge --a x --b y"]


def test_options_that_the_text_names_exist() -> None:
    unknown = []
    for page in sorted({*pages()} - {"docs/development/tested-commands.md"}):  # made from the others, and shortened
        text = (ROOT / page).read_text(encoding="utf-8")
        for span in INLINE.findall(re.sub(r"^ *```.*?^ *```$", "", text, flags=re.DOTALL | re.MULTILINE)):
            words = span.replace("\n", " ").split()
            known = options_of(words[1]) if len(words) > 1 and words[1] in COMMANDS else None
            for word in words[2:]:
                if word == "--" or known is None:
                    break
                if re.fullmatch(r"--[a-z][a-z-]*", word) and word not in known:
                    unknown.append(f"{page}: {span}: {word}")
    assert unknown == []
