"""What the doctor says of programs, packages and AppArmor, and its table."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from tests.unit.test_doctor_command import _all_installed, _no_apparmor, _nothing_installed, _restricted  # noqa: F401

from wavebed.cli import doctor as doctor_command
from wavebed.cli import main
from wavebed.cli.doctor import apparmor_check, extra_checks, program_checks

if TYPE_CHECKING:
    from pathlib import Path

    from syrupy.assertion import SnapshotAssertion

CHECKS = [
    {"name": "kernel", "status": "ok", "found": "Linux 6.18", "remedy": None},
    {"name": "tun device", "status": "fail", "found": "/dev/net/tun: gone", "remedy": "modprobe tun"},
]


def doctor(folder: Path, monkeypatch: pytest.MonkeyPatch, report: object, *options: str) -> int:
    program = folder / "core"
    program.write_text(f"#!/bin/sh\ntest \"$*\" = 'doctor --json' && cat <<'END'\n{json.dumps(report)}\nEND\n")
    program.chmod(0o755)
    monkeypatch.setenv("WAVEBED_CORE", str(program))
    monkeypatch.setenv("COLUMNS", "100")
    return main(["doctor", *options])


@pytest.mark.usefixtures("_nothing_installed")
def test_what_is_missing_has_its_users_and_its_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion
) -> None:
    assert doctor(tmp_path, monkeypatch, {"can_run": False, "checks": CHECKS}) == 3
    assert capsys.readouterr().out == snapshot


@pytest.mark.usefixtures("_all_installed")
def test_a_machine_that_has_everything_gives_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion
) -> None:
    assert doctor(tmp_path, monkeypatch, {"can_run": True, "checks": CHECKS[:1]}) == 0
    assert capsys.readouterr().out == snapshot


@pytest.mark.usefixtures("_nothing_installed")
def test_json_has_the_same_checks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert doctor(tmp_path, monkeypatch, {"can_run": True, "checks": CHECKS}, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["can_run"] is True
    assert told["checks"][:2] == CHECKS
    assert [check["name"] for check in told["checks"][2:]] == ["apparmor", "virtual time"]
    assert (told["programs"], told["extras"]) == (program_checks(), extra_checks())


def test_a_core_that_breaks_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "core"
    program.write_text("#!/bin/sh\necho broken >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("WAVEBED_CORE", str(program))
    assert main(["doctor"]) == 1
    assert "wavebed-core doctor: broken" in capsys.readouterr().err


def test_the_profile_that_is_typed_names_the_binary_and_allows_user_namespaces(tmp_path: Path) -> None:
    (tmp_path / "it's").mkdir()
    remedy = _restricted(tmp_path, str(tmp_path / "it's" / "wavebed-core"))["remedy"]
    assert remedy is not None
    typed = next(line for line in remedy.splitlines() if "printf" in line).partition(" | sudo tee")[0]
    with os.popen(typed) as shell:
        lines = shell.read().splitlines()
    assert lines[2] == f'profile wavebed-core "{tmp_path}/it\'s/wavebed-core" flags=(unconfined) {{'
    assert lines[3:] == ["  userns,", "}"]


def test_lines_to_type_are_not_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    setting = tmp_path / "setting"
    setting.write_text("1\n")
    monkeypatch.setattr(doctor_command.apparmor_check, "__defaults__", (setting,))
    monkeypatch.setattr(doctor_command, "_PROFILE", tmp_path / "no-such-profile")
    assert doctor(tmp_path, monkeypatch, {"can_run": True, "checks": CHECKS[:1]}) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    remedy = apparmor_check(str(tmp_path / "core"), {}, setting)["remedy"]
    assert remedy is not None
    typed = [line.strip() for line in remedy.splitlines() if line.startswith("  ")]
    assert len(typed) == 4
    assert set(typed) <= set(lines)
