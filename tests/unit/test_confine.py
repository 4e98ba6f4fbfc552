"""Programs of workloads: confinement, and secrets that nobody reads."""

from __future__ import annotations

import gzip
import json
import os
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.unit.forward.example import device, record

from wavebed.cli import main
from wavebed.forward.cpu_remote import open_meter
from wavebed.forward.folder import write_forward
from wavebed.forward.report.build import write_forward_report
from wavebed.forward.settings import ForwardOptions, ForwardSpec, parse_options
from wavebed.lab import confine
from wavebed.lab.confine import Confined, confined_user, confinement_rules, module_path, program_files, take_back
from wavebed.result.model import RunRecord
from wavebed.secret import Secret, redacted, redacted_line, redacted_table
from wavebed.store.records import run_json
from wavebed.workload.programs import create, open_to_all, read_end


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


def test_folders_of_temporary_files_are_not_shown_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/tmp:/tmp/own:/:/var")
    assert [path for path in module_path() if path in ("/tmp", "/tmp/own", "/", "/var")] == ["/tmp/own"]


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


SECRET = "hunter2hunter2"
COMMANDS = [
    ["--token", SECRET],
    [f"--token={SECRET}"],
    ["--cpu", f"snmp://{SECRET}@192.0.2.1:161"],
    [f"--cpu=snmp://{SECRET}@192.0.2.1"],
    ["--cpu", f"http://me:{SECRET}@192.0.2.1:9100/metrics"],
    ["--cpu", f"http://me:{SECRET}/or@so@192.0.2.1:9100/metrics"],
    ["--cpu", f"ssh://root:{SECRET}@192.0.2.1"],
    ["--cpu", f"http://192.0.2.1:9100/metrics?x=1&token={SECRET}&y=2"],
    ["--set", f"workload.fetch.api-token={SECRET}"],
    ["--set", f'workload.fetch.run=["curl", "-H", "Authorization: Bearer {SECRET}"]'],
    ["--password", SECRET],
]


def parsed() -> ForwardSpec:
    return parse_options(ForwardOptions(tx="eth0", peer="peer/eth1", token=SECRET, cpu=f"snmp://{SECRET}@192.0.2.1"))


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words)[:24])
def test_a_command_line_is_told_without_its_secrets(words: list[str]) -> None:
    told = redacted_line(["wavebed", *words, "-o", "folder"])
    assert SECRET not in " ".join(told)
    assert (told[0], told[-2:]) == ("wavebed", ["-o", "folder"])


def test_what_is_no_secret_stays() -> None:
    words = ["wavebed", "run", "a@b.toml", "--cpu", "ssh://root@192.0.2.1", "--set", "path.rate.token-bucket=1mbit"]
    words += ["--listen", "[::1]:5544", "--set", "path.rate={token-bucket='1mbit'}", "https://one.example/?q=1"]
    assert redacted_line(words) == words
    table = {"path.rate": {"token-bucket": "1mbit"}, "trials": 3}
    assert redacted_table(table) == table


def test_a_secret_does_not_print_itself() -> None:
    secret = Secret(SECRET)
    assert SECRET not in f"{secret} {secret!r} {[secret]} {parsed()!r}"
    with pytest.raises(TypeError):
        json.dumps(secret)
    assert secret.is_same(SECRET)
    assert not secret.is_same("\ud800")


def test_no_byte_of_a_forwarding_tests_folder_tells_a_secret(tmp_path: Path) -> None:
    order = parsed()
    assert order.cpu is not None
    meter = open_meter(order.cpu)
    meter.close()
    words = [word for command in COMMANDS for word in command]
    result = replace(device("a", 600_000.0), doubts=(f"the processor is read by {meter!r}",))
    told = replace(record(result), command_line=("wavebed", "forward", *words))
    write_forward(tmp_path / "run", told, {"said.txt": b"nothing"})
    write_forward_report(tmp_path / "run")
    assert "--token" in (tmp_path / "run" / "report.html").read_text()
    files = [file for file in (tmp_path / "run").rglob("*") if file.is_file()]
    assert len(files) > 5
    for file in files:
        data = file.read_bytes()
        assert SECRET.encode() not in (gzip.decompress(data) if file.suffix == ".gz" else data), file


def test_the_record_of_a_run_tells_no_secret() -> None:
    told = RunRecord(
        title="",
        source="",
        scenario="x.toml",
        overrides={"workload.x.token": SECRET, "workload.x.run": ["curl", f"http://me:{SECRET}@one.example"]},
        command_line=["wavebed", "run", *(word for command in COMMANDS for word in command)],
        started="",
        seed=1,
        blocks=1,
        versions={},
        machine={},
        workloads=[],
        treatments=[],
    )
    assert SECRET not in run_json(told)


@pytest.mark.parametrize(
    "where",
    [
        f"snmp://{SECRET}@192.0.2.1:99999",
        f"snmp://{SECRET}@",
        f"snmp://{SECRET}@192.0.2.1/path",
        f"http://me:{SECRET}@192.0.2.1:9100/metrics",
        f"ssh://root:{SECRET}@192.0.2.1",
        f"ftp://me:{SECRET}@192.0.2.1",
    ],
)
def test_no_message_about_an_option_tells_its_secret(where: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["forward", "--tx", "eth0", "--rx", "eth1", "--cpu", where]) == 2
    told = capsys.readouterr()
    assert "--cpu" in told.err
    assert SECRET not in told.out + told.err + redacted(where)
