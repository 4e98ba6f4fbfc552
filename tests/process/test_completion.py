"""Completion in bash, zsh and fish, and the man page: each is tried by its own program."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from wavebed import shipped
from wavebed.cli import COMMANDS
from wavebed.cli.completion import SHELLS, completion
from wavebed.cli.manpage import manual_page
from wavebed.cli.tree import commands

if TYPE_CHECKING:
    from pathlib import Path

BASH = """
source {script}
COMP_WORDS=({words}) COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_wavebed
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


def test_zsh_reads_every_function_and_has_one_for_each_command(scripts: Path) -> None:
    # A terminal's completion system calls these functions; here its own are replaced, and print what they are asked.
    begin = f"_arguments() {{ print -l -- $@ }}; source {scripts}/zsh >/dev/null"
    defined = set(output("zsh", "-f", "-c", f"{begin}; print -l ${{(k)functions}}").split())
    assert {"_".join(["_wavebed", *command.path]) for command in commands()} <= defined
    asked = output("zsh", "-f", "-c", f"{begin}; _wavebed_export").splitlines()
    assert any(one.startswith("--format[") and one.endswith(":(flent perfetto qlog csv)") for one in asked)


@pytest.fixture(scope="module")
def manual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("man") / "wavebed.1"
    file.write_text(manual_page("2026-11-25"))
    return file


def test_the_man_page_has_no_fault_that_mandoc_finds(manual: Path) -> None:
    assert output("mandoc", "-Tlint", "-W", "warning", str(manual)) == ""


def test_the_man_page_tells_of_every_command_and_option(manual: Path) -> None:
    shown = output("mandoc", "-Thtml", str(manual))
    for command in commands():
        for option in command.options:
            assert f"<b>{option.flags[-1]}</b>" in shown, command.path
