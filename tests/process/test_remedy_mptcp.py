"""The remedy mptcp: endpoints, the library that programs get, and what the kernel's counters say; in virtual time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.unit.test_remedy_mptcp import library  # noqa: F401

from wavebed.errors import MachineError
from wavebed.remedy import mptcp

if TYPE_CHECKING:
    from pathlib import Path


def fake(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = folder / "mptcpize"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_the_library_is_that_of_mptcpize(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    mptcp._library.cache_clear()
    fake(tmp_path, 'shift; LD_PRELOAD="" exec env LD_PRELOAD=/nowhere/wrap.so "$@" 2> /dev/null', monkeypatch)
    assert mptcp._library() == "/nowhere/wrap.so"
    mptcp._library.cache_clear()
    fake(tmp_path, "exit 1", monkeypatch)
    with pytest.raises(MachineError, match="mptcpize: does not say which library it preloads"):
        mptcp._library()
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    with pytest.raises(MachineError, match=r"mptcpize: not found: run .apt-get install mptcpize."):
        mptcp._library()
    mptcp._library.cache_clear()
