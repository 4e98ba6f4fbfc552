"""The GitHub Action with the rights of a hosted runner's user: no root, no capability, only what all may do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import wavebed

ROOT = Path(__file__).parents[2]


def test_the_action_checks_a_program_without_rights() -> None:
    programs = Path(sys.executable).parent
    assert shutil.which("wavebed", path=str(programs))
    done = subprocess.run(
        [
            ROOT / "scripts/as-hosted-runner",
            ROOT / "scripts/run-action-locally",
            "package=",
            "command=curl --silent --show-error --output /dev/null http://{server}:8000/",
            "server=python3 -m http.server 8000",
            "options=--rate 20mbit\n--delay 10ms\n--wait-for-port 8000",
            "require=wall time p90 < 20 s",
            "seeds=1",
            "working-directory=/tmp",
        ],
        env=os.environ
        | {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHONPATH": str(Path(wavebed.__file__).parents[1]),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "a laboratory can be made in a user namespace" in said
    assert "artefact wavebed: check.json check.md check.xml report.html results" in said
    if "output outcome: inconclusive" in said:
        pytest.skip("inconclusive: the machine was late")
    assert "output outcome: pass" in said
