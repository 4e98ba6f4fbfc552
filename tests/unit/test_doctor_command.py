"""The table of the doctor."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from wavebed.cli import main

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

CHECKS = [
    {"name": "kernel", "status": "ok", "found": "Linux 6.18", "remedy": None},
    {"name": "tun device", "status": "fail", "found": "/dev/net/tun: gone", "remedy": "modprobe tun"},
    {"name": "iperf3", "status": "warn", "found": "not there", "remedy": "apt-get install iperf3"},
]


def doctor(folder: Path, monkeypatch: pytest.MonkeyPatch, report: object, *options: str) -> int:
    program = folder / "core"
    program.write_text(f"#!/bin/sh\ntest \"$*\" = 'doctor --json' && cat <<'END'\n{json.dumps(report)}\nEND\n")
    program.chmod(0o755)
    monkeypatch.setenv("WAVEBED_CORE", str(program))
    return main(["doctor", *options])


def test_every_check_has_a_line_and_its_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert doctor(tmp_path, monkeypatch, {"can_run": False, "checks": CHECKS}) == 3
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["kernel", "ok", "Linux", "6.18"]
    assert lines[1].split(maxsplit=3)[2:] == ["FAIL", "/dev/net/tun: gone"]
    assert lines[2].strip() == "→ modprobe tun"
    assert lines[-1].startswith("No laboratory can run")


def test_a_machine_that_will_do_gives_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert doctor(tmp_path, monkeypatch, {"can_run": True, "checks": CHECKS[:1]}) == 0
    assert capsys.readouterr().out.endswith("Laboratories run on this machine.\n")


def test_json_is_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    report = {"can_run": True, "checks": CHECKS}
    assert doctor(tmp_path, monkeypatch, report, "--json") == 0
    assert json.loads(capsys.readouterr().out) == report


def test_a_core_that_breaks_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "core"
    program.write_text("#!/bin/sh\necho broken >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("WAVEBED_CORE", str(program))
    assert main(["doctor"]) == 1
    assert "wavebed-core doctor: broken" in capsys.readouterr().err
