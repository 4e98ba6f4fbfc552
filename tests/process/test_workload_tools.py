"""Programs are found, and asked for their version without waiting for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.lab import tools

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def _program(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> str:
    file = folder / "strange-program"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/bin:/usr/bin")
    tools.version.cache_clear()
    return file.name


def test_a_version_is_the_first_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tools.version(_program(tmp_path, monkeypatch, "echo strange 1.2; echo more")) == "strange 1.2"


def test_a_program_that_does_not_say_its_version_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "_VERSION_TIMEOUT_S", 0.3)
    name = _program(tmp_path, monkeypatch, "exec sleep 100000")
    assert tools.version(name) == "unknown"


def test_a_program_that_the_kernel_refuses_to_start_has_a_version_that_says_so(tmp_path: Path, monkeypatch) -> None:
    program = tmp_path / "irtt"
    program.write_bytes(b"\x7fELF")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    tools.version.cache_clear()
    assert tools.version("irtt") == "cannot be started: Exec format error"
    tools.version.cache_clear()
