"""Programs are found, and asked for their version without waiting for ever."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from wavebed.errors import MachineError
from wavebed.lab import tools


def _program(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> str:
    file = folder / "strange-program"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/bin:/usr/bin")
    tools.version.cache_clear()
    return file.name


def test_a_version_is_the_first_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tools.version(_program(tmp_path, monkeypatch, "echo strange 1.2; echo more")) == "strange 1.2"


@pytest.mark.timed
def test_a_program_that_does_not_say_its_version_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "_VERSION_TIMEOUT_S", 0.3)
    name = _program(tmp_path, monkeypatch, "exec sleep 30")
    began = time.monotonic()
    assert tools.version(name) == "unknown"
    assert time.monotonic() - began < 10


def test_a_program_that_is_missing_has_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools.shutil, "which", lambda *_, **__: None)
    assert tools.missing(["nginx", "curl"]) == ["nginx", "curl"]
    with pytest.raises(MachineError, match="nginx: not found: run `apt-get install nginx-light`"):
        tools.find("nginx")


def test_the_folder_of_the_cache_is_absolute_whatever_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAVEBED_CACHE", "here")
    assert tools.cache_folder() == Path.cwd() / "here"


def test_programs_without_a_debian_package_have_a_command_of_their_own() -> None:
    assert tools.install_commands(["haproxy", "ip"]) == ["apt-get install haproxy iproute2"]
    line = tools.not_found(["nft", "sing-box"])
    assert line.startswith("nft, sing-box: not found: run `apt-get install nftables` and `go install ")
    assert "@v" in line, "a version that is known to work"


def test_a_program_that_the_kernel_refuses_to_start_has_a_version_that_says_so(tmp_path: Path, monkeypatch) -> None:
    program = tmp_path / "irtt"
    program.write_bytes(b"\x7fELF")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    tools.version.cache_clear()
    assert tools.version("irtt") == "cannot be started: Exec format error"
    tools.version.cache_clear()
