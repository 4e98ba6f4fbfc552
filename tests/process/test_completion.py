"""Completion in bash, zsh and fish, and the man page: each is tried by its own program."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from wavebed import shipped
from wavebed.cli import COMMANDS
from wavebed.cli.installed import SHELLS, completion, manual_page, shown_arguments, subparsers, whole_parser

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Iterator
    from pathlib import Path

BASH = """
source {script}
COMP_WORDS=({words}) COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_shtab_wavebed
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("completions")
    for shell in SHELLS:
        (folder / shell).write_text(completion(shell))
    return folder


def output(*argv: str, folder: Path | None = None) -> str:
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def bash(scripts: Path, folder: Path, line: str) -> set[str]:
    """Return what a tab after the line offers; the last word is the one that is being written."""
    program = BASH.format(script=scripts / "bash", words=" ".join(f"'{word}'" for word in line.split(" ")))
    return set(output("bash", "--norc", "-c", program, folder=folder).split("\n")) - {""}


def parsers(parser: ArgumentParser, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], ArgumentParser]]:
    yield path, parser
    for name, choice in subparsers(parser).items():
        yield from parsers(choice, (*path, name))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "walk.csv").touch()
    (tmp_path / "results").mkdir()
    return tmp_path


def test_bash_offers_the_commands(scripts: Path, folder: Path) -> None:
    assert bash(scripts, folder, "wavebed ") == set(COMMANDS)
    assert bash(scripts, folder, "wavebed tr") == {"trace"}


def test_bash_offers_the_verbs_of_a_command_once(scripts: Path, folder: Path) -> None:
    assert bash(scripts, folder, "wavebed campaign ") == {"plan", "run", "status"}
    assert bash(scripts, folder, "wavebed campaign run --acc") == {"--accept-changes"}
    assert bash(scripts, folder, "wavebed run --acc") == set()


def test_bash_offers_the_options_of_the_command_that_was_written(scripts: Path, folder: Path) -> None:
    assert bash(scripts, folder, "wavebed shell --down-l") == {"--down-loss"}
    assert bash(scripts, folder, "wavebed doctor -") == {"-h", "--help", "--json"}


def test_bash_offers_the_values_of_an_option(scripts: Path, folder: Path) -> None:
    assert bash(scripts, folder, "wavebed shell --outage ") == {"hold", "drop"}
    assert bash(scripts, folder, "wavebed export x --format p") == {"perfetto"}
    assert bash(scripts, folder, "wavebed run x --seed ") == set()


def test_bash_offers_shipped_names_and_files(scripts: Path, folder: Path) -> None:
    assert bash(scripts, folder, "wavebed run ") == {*shipped.names(), "walk.csv", "results"}
    assert bash(scripts, folder, "wavebed channel ") == {*shipped.names("scenes"), "walk.csv", "results"}
    assert bash(scripts, folder, "wavebed report ") == {"results"}
    assert bash(scripts, folder, "wavebed trace info w") == {"walk.csv"}


def test_bash_offers_programs_after_two_dashes(scripts: Path, folder: Path) -> None:
    assert "mkdir" in bash(scripts, folder, "wavebed shell --rate 1mbit -- mkdi")
    assert bash(scripts, folder, "wavebed shell -- cat w") == {"walk.csv"}


def test_fish_offers_the_same(scripts: Path, folder: Path) -> None:
    def fish(line: str) -> set[str]:
        said = output("fish", "--no-config", "-c", f"source {scripts}/fish; complete -C '{line}'", folder=folder)
        return {offer.split("\t")[0] for offer in said.splitlines()}

    assert fish("wavebed ") == set(COMMANDS)
    assert fish("wavebed campaign ") >= {"plan", "run", "status"}
    assert fish("wavebed run --acc") == set()
    assert fish("wavebed campaign run --acc") == {"--accept-changes"}
    assert fish("wavebed shell --outage ") == {"hold", "drop"}
    assert fish("wavebed run ") >= {*shipped.names(), "walk.csv"}


def test_zsh_reads_every_option_of_every_command(scripts: Path) -> None:
    # A terminal's completion system reads these arrays; here its functions do nothing.
    begin = f"_arguments() {{ }}; source {scripts}/zsh >/dev/null; print -l --"
    for path, parser in parsers(whole_parser()):
        array = "_".join(["_shtab_wavebed", *path, "options"])
        given = output("zsh", "-f", "-c", f"{begin} ${array}")
        assert set(re.findall(r"^(?:\(.*?\)|\*)?(-[\w-]+)\[", given, re.MULTILINE)) == {
            flag for action in shown_arguments(parser) for flag in action.option_strings
        }, path
    formats = output("zsh", "-f", "-c", f"{begin} $_shtab_wavebed_export_options").splitlines()
    assert any(one.startswith("--format[") and one.endswith(":(flent perfetto qlog csv)") for one in formats)


@pytest.mark.parametrize(
    ("command", "takes"), [("fit", "_files"), ("compare", "_files -/"), ("shell", "_wavebed_program")]
)
def test_zsh_offers_values_for_each_of_several_arguments(scripts: Path, command: str, takes: str) -> None:
    begin = f"_arguments() {{ }}; source {scripts}/zsh >/dev/null"
    last = output("zsh", "-f", "-c", f"{begin}; print -- $_shtab_wavebed_{command}_options[-1]").strip()
    assert last.startswith("*:")
    assert last.endswith(f":{takes}")


@pytest.fixture(scope="module")
def manual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("man") / "wavebed.1"
    file.write_text(manual_page("2026-11-25"))
    return file


def test_the_man_page_has_no_fault_that_mandoc_finds(manual: Path) -> None:
    assert output("mandoc", "-Tlint", "-W", "warning", str(manual)) == ""


def test_the_man_page_tells_of_every_command_and_option(manual: Path) -> None:
    shown = output("mandoc", "-Thtml", str(manual))
    for path, parser in parsers(whole_parser()):
        for action in shown_arguments(parser):
            assert not action.option_strings or f"<b>{action.option_strings[-1]}</b>" in shown, path
