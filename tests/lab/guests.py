"""Runs in guests of virtual time, and how two are compared."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from wavebed.result.names import COMPUTING_FILE, INPUTS_FILE

if TYPE_CHECKING:
    from pathlib import Path

PING = """
title = "ping"
[path]
rate = "100mbit"
delay = "10ms"
[[workload]]
kind = "latency"
duration = "1s"
"""
CUBIC = """
title = "one flow"
[path]
rate = "20mbit"
delay = "10ms"
packet-log = true
[[workload]]
kind = "bulk"
duration = "2s"
"""


def started(scenario: str, folder: Path, *options: str, path: str = "") -> subprocess.Popen[str]:
    """Start a run in virtual time; `path` comes before the folders in which programs are searched for."""
    file = folder.with_suffix(".toml")
    file.write_text(scenario)
    command = [sys.executable, "-m", "wavebed", "run", str(file), "--virtual-time", "-o", str(folder), *options]
    environment = os.environ | {"PATH": os.pathsep.join(filter(None, [path, os.environ["PATH"]]))}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)


def ended(process: subprocess.Popen[str]) -> None:
    said, _ = process.communicate()
    assert process.returncode == 0, said


def trial_files(folder: Path) -> dict[str, bytes]:
    trials = folder / "trials"
    apart = (COMPUTING_FILE, INPUTS_FILE)
    files = [file for file in trials.rglob("*") if file.is_file() and file.name not in apart]
    return {str(file.relative_to(trials)): file.read_bytes() for file in files}


def differing(first: Path, second: Path, but: tuple[str, ...] = ()) -> list[str]:
    one, other = trial_files(first), trial_files(second)
    assert one.keys() == other.keys()
    return [name for name, content in one.items() if other[name] != content and not name.endswith(but)]


def assert_same(first: Path, second: Path, but: tuple[str, ...] = ()) -> None:
    assert not differing(first, second, but)
