"""The command line of bridges: what `bridge` hands to the core, what it refuses, and what `ctl` shows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.unit.test_bridge_command import PORTS

from wavebed.cli import main

if TYPE_CHECKING:
    import pytest

PACKAGING = Path(__file__).parents[2] / "packaging/bridge"
CORE = """#!/bin/sh
test "$1" = bridge || exit 9
cat "$2"
exit 42
"""


def test_the_command_becomes_the_core_and_gives_its_status(tmp_path: Path) -> None:
    program = tmp_path / "core"
    program.write_text(CORE)
    program.chmod(0o755)
    command = [sys.executable, "-m", "wavebed", "bridge", *PORTS, "--rate", "10mbit", "--name", "mine"]
    command += ["--log", str(tmp_path / "logs"), "--on-failure", "open"]
    path = os.pathsep.join(path for path in sys.path if path)
    variables = os.environ | {"PYTHONPATH": path, "WAVEBED_CORE": str(program)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=variables)
    assert done.returncode == 42, done.stderr
    bridge = json.loads(done.stdout)
    assert {key: bridge[key] for key in ("name", "a", "b", "force", "on_failure")} == {
        "name": "mine",
        "a": "eth1",
        "b": "eth2",
        "force": False,
        "on_failure": "open",
    }
    assert (tmp_path / "logs").is_dir()
    assert bridge["summary_file"] == str(tmp_path / "logs/summary.json")


def test_systemd_takes_the_unit_and_its_example_is_a_bridge(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unit = (PACKAGING / "wavebed-bridge@.service").read_text()
    assert "ExecStart=wavebed bridge --name %i $OPTIONS" in unit
    copy = tmp_path / "wavebed-bridge@.service"
    # Verified on a machine that has another program in the place of wavebed.
    copy.write_text(unit.replace("ExecStart=wavebed ", "ExecStart=/bin/true "))
    done = subprocess.run(["systemd-analyze", "verify", copy], capture_output=True, text=True, check=False)
    # It speaks of other units of the machine too.
    assert done.returncode == 0, done.stderr
    assert "wavebed-bridge" not in done.stderr
    (options,) = [
        line.removeprefix("OPTIONS=")
        for line in (PACKAGING / "example.conf").read_text().splitlines()
        if line.startswith("OPTIONS=")
    ]
    assert main(["bridge", "--print-bridge", *options.split()]) == 0
    assert json.loads(capsys.readouterr().out)["on_failure"] == "closed"
