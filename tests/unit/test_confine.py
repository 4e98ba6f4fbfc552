"""What a confined program is given, as Python asks for it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from wavebed.lab.confine import Confined, confined_user, confinement_rules, module_path, program_files, take_back
from wavebed.path import confine
from wavebed.workload.raw import create, open_to_all, read_end


def test_the_user_of_confined_programs_has_no_account() -> None:
    accounts = Path("/etc/passwd").read_text() + Path("/etc/group").read_text()
    assert 61184 <= confined_user() <= 65519
    assert f":{confined_user()}:" not in accounts


def test_a_number_that_somebody_has_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    first = confined_user.__wrapped__()
    monkeypatch.setattr(confine, "_USERS", range(first + 1))
    monkeypatch.setattr("pwd.getpwuid", lambda number: None if number != first else _missing())
    assert confined_user.__wrapped__() == first


def _missing() -> None:
    raise KeyError


def test_homes_are_hidden_and_the_interpreter_is_not(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    rules = confinement_rules()
    assert {"/home", "/root", "/run/user", str(tmp_path)} <= set(rules["hidden"])  # type: ignore[arg-type]
    assert {sys.prefix, sys.base_prefix, str(Path(sys.executable).resolve())} <= set(rules["read"])  # type: ignore[arg-type]


@pytest.mark.parametrize("home", ["/", "/usr", "/var", "", "relative"])
def test_a_home_that_holds_the_system_is_not_hidden(monkeypatch: pytest.MonkeyPatch, home: str) -> None:
    monkeypatch.setenv("HOME", home)
    assert home not in confinement_rules()["hidden"]  # type: ignore[operator]


def test_a_program_is_found_by_every_link_to_it(tmp_path: Path) -> None:
    program = tmp_path / "real" / "program"
    program.parent.mkdir()
    program.touch(mode=0o755)
    (tmp_path / "second").symlink_to("real/program")
    (tmp_path / "first").symlink_to(tmp_path / "second")
    assert list(dict.fromkeys(program_files(str(tmp_path / "first")))) == [
        str(tmp_path / name) for name in ("first", "second", "real/program")
    ]
    (tmp_path / "loop").symlink_to("loop")
    assert program_files(str(tmp_path / "loop")) == program_files("no-such-program") == []


def test_modules_are_found_without_a_home() -> None:
    assert str(Path(confine.__file__).parents[2]) in module_path()
    assert all(path.startswith("/") for path in module_path())


def test_what_a_program_needs_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    needs = Confined(read=[tmp_path / "link"], write=[tmp_path], capabilities=("net_admin",)).request(["nothing-there"])
    assert needs == {
        "read": [str(tmp_path / "link"), str(tmp_path / "target")],
        "write": [str(tmp_path)],
        "capabilities": ["net_admin"],
    }


def test_a_file_is_made_only_where_nothing_is(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "victim")
    with pytest.raises(FileExistsError):
        create(tmp_path / "link")
    with create(tmp_path / "file") as file:
        file.write(b"x")
    with pytest.raises(FileExistsError):
        create(tmp_path / "file")
    assert not (tmp_path / "victim").exists()


def test_the_end_of_a_file_is_read_and_of_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"a" * 10 + b"\xff end")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    os.mkfifo(tmp_path / "pipe")
    assert read_end(tmp_path / "file", 5) == "\ufffd end"
    assert [read_end(tmp_path / name) for name in ("link", "pipe", "missing", ".")] == [""] * 4


def test_content_of_the_cache_becomes_readable_for_other_users(tmp_path: Path) -> None:
    folder = tmp_path / "site"
    folder.mkdir(mode=0o700)
    (folder / "file").touch(mode=0o600)
    (folder / "link").symlink_to("/etc/shadow")
    before = Path("/etc/shadow").stat().st_mode
    open_to_all(folder)
    assert (folder.stat().st_mode & 0o777, (folder / "file").stat().st_mode & 0o777) == (0o755, 0o644)
    assert Path("/etc/shadow").stat().st_mode == before


def test_what_is_neither_file_nor_folder_is_removed(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "folder").symlink_to("/etc")
    os.mkfifo(tmp_path / "in" / "pipe")
    (tmp_path / "in" / "file").write_text("kept")
    assert sorted(take_back(tmp_path)) == ["in/folder", "in/pipe"]
    assert (tmp_path / "in" / "file").read_text() == "kept"
    assert Path("/etc").is_dir()
