"""Files of others, and characters that no terminal prints."""

from __future__ import annotations

import os
import time
import tomllib
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import wavebed
from wavebed import foreign
from wavebed.campaign.read import read_campaign
from wavebed.cli import main
from wavebed.errors import UserError
from wavebed.foreign import parse_toml, read_bytes, read_json, read_text, read_toml
from wavebed.printable import printable
from wavebed.report.build import write_report
from wavebed.store.load import load_run


def test_results_are_no_pipes(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "run.json")
    for read in (load_run, write_report):
        with pytest.raises(UserError, match=r"run\.json"):
            read(tmp_path)


def test_a_file_that_says_no_size_is_bounded_all_the_same() -> None:
    with pytest.raises(UserError, match="larger than 10 bytes: name another"):
        read_bytes("/proc/self/maps", "name another", most=10)
    assert b"[stack]" in read_bytes("/proc/self/maps", "name another")


def test_a_large_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(foreign.MAX_BYTES + 1)
    tracemalloc.start()
    with pytest.raises(UserError, match="larger than 1073741824 bytes"):
        read_bytes(tmp_path / "huge", "name another")
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_a_link_is_followed_only_where_that_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    (tmp_path / "link").symlink_to("file")
    assert read_text(tmp_path / "link", "name another") == "text"
    with pytest.raises(UserError, match="link: is a symbolic link"):
        read_bytes(tmp_path / "link", "name another", follow=False)


@pytest.mark.parametrize(
    ("data", "said"),
    [(b"\xff", "not UTF-8"), (b"a = ", "not TOML"), (b"a = " + b"[" * 5000, "64 deep"), (b"a=" + b"9" * 5000, "TOML")],
)
def test_what_is_no_toml_is_told_in_one_line(data: bytes, said: str, tmp_path: Path) -> None:
    file = tmp_path / "file.toml"
    file.write_bytes(data)
    with pytest.raises(UserError, match=said) as refused:
        read_toml(file, "name another")
    assert len(str(refused.value)) < len(str(file)) + 200


def test_what_is_no_json_is_told_in_one_line(tmp_path: Path) -> None:
    for data in (b"{", b"[" * 100_000, b"\xff\xfe\xff"):
        (tmp_path / "file").write_bytes(data)
        with pytest.raises(UserError, match="not JSON"):
            read_json(tmp_path / "file", "name another")


def test_half_a_character_in_json_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    file.write_bytes(rb'{"title": "\ud800"}')
    with pytest.raises(UserError, match="half of a character"):
        read_json(file, "name another")
    file.write_bytes(rb'{"title": "\uD83D\uDE00"}')
    assert read_json(file, "name another") == {"title": "\U0001f600"}


def test_json_that_is_nested_too_deeply_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    file.write_bytes(b"[" * 50_000)
    with pytest.raises(UserError, match="is not JSON"):
        read_json(file, "name another")


@pytest.mark.parametrize("command", ["run", "campaign run", "channel", "rerun", "report", "compare"])
def test_a_name_that_no_file_can_have_ends_in_one_line(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command.split(), "9" * 300]) == UserError.exit_status
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_campaign_whose_scenario_has_a_name_that_no_file_can_have_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "campaign.toml"
    file.write_text(f'scenario = "{"9" * 300}"\n[[factor]]\nname = "x"\nkey = "path.rate"\nvalues = ["1mbit"]\n')
    with pytest.raises(UserError, match=r"neither a file nor a shipped scenario"):
        read_campaign(file)


def test_terminal_escapes_become_text() -> None:
    assert printable("a\x1b]0;title\x07b") == "a\\x1b]0;title\\x07b"


def test_plain_text_in_any_script_stays() -> None:
    assert printable("Käfer 5 Gbit/s 測定") == "Käfer 5 Gbit/s 測定"


def test_kept_characters_stay() -> None:
    assert printable("one\ntwo\r", keep="\n") == "one\ntwo\\r"


def test_lone_surrogates_can_be_encoded_afterwards() -> None:
    assert printable("\udc80").encode("utf-8") == b"\\udc80"


@given(st.text(st.characters()))
def test_no_control_character_passes(text: str) -> None:
    shown = printable(text)
    assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in shown)
    shown.encode("utf-8")


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (".".join("a" * 40_000) + " = 1", "a key has more than 32 parts"),
        (f"[{'.'.join('a' * 40_000)}]", "a key has more than 32 parts"),
        ("x = {" + " . ".join("a" * 40_000) + " = 1}", "a key has more than 32 parts"),
        (".".join(["'a'", '"="', '"#"'] * 20_000) + " = 1", "a key has more than 32 parts"),
        ('x = """"""\n' + ".".join("a" * 40_000) + " = 1", "a key has more than 32 parts"),
        ("x = " + "[" * 100 + "]" * 100, "is nested more than 64 deep"),
        ("x = " + "{a = " * 100 + "1" + "}" * 100, "is nested more than 64 deep"),
        ("#" * 1_000_001, "is larger than 1000000 bytes"),
        ('x = "' + '\\"' * 400_000, "is not TOML"),
    ],
    ids=["key", "heading", "inline", "quoted", "after a text", "arrays", "tables", "size", "open text"],
)
def test_toml_whose_cost_is_more_than_its_size_is_refused(text: str, rule: str) -> None:
    began_s = time.process_time()
    with pytest.raises(UserError, match=f"^scenario: {rule}") as failed:
        parse_toml(text, "scenario")
    assert "\n" not in str(failed.value)
    assert time.process_time() - began_s < 60  # quadratic time at the largest size is hours


@pytest.mark.parametrize(
    "text",
    [
        f'x = "{"a." * 100}"',
        f"x = '''\n{'[' * 100}\n{'a.' * 100}'''",
        f'x = """\n{"{" * 100} \\"\\"\\" {"a." * 100}"""',
        f"# {'a.' * 100} {'[' * 100}\nx = 1",
        f"x = [{'1.5, ' * 1000}]",
        ".".join("a" * 32) + " = 1",
        "x = " + "[" * 64 + "]" * 64,
    ],
)
def test_toml_that_a_person_writes_is_parsed(text: str) -> None:
    assert parse_toml(text, "scenario") == tomllib.loads(text)


def test_one_module_parses_toml() -> None:
    package = Path(wavebed.__file__).parent
    users = [file for file in package.rglob("*.py") if "import tomllib" in file.read_text(encoding="utf-8")]
    assert users == [package / "foreign.py"], "wavebed.foreign bounds what a TOML text costs: use its parse_toml"


def test_the_options_that_take_toml_have_the_same_bounds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "base", "--set", f"{'.'.join('a' * 40_000)}=1"]) == 2
    assert main(["run", "base", "--set", f"path.rate={'[' * 5000}"]) == 2
    assert capsys.readouterr().err.count("\n") == 2
