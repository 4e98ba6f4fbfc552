"""The GitHub Action: its steps in order, with a program in place of wavebed that writes down its arguments."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = """#!/usr/bin/env python3
import json, os, pathlib, sys
folder = pathlib.Path(os.environ["FAKE"])
if sys.argv[1] == "check":
    (folder / "arguments.json").write_text(json.dumps(sys.argv[2:]))
    pathlib.Path(sys.argv[sys.argv.index("--markdown") + 1]).write_text("**the table**\\n")
    print((folder / "said").read_text(), end="")
    sys.exit(int((folder / "status").read_text()))
print("wavebed 0.0")
"""


@pytest.fixture
def fake(tmp_path: Path) -> Path:
    program = tmp_path / "wavebed"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    return tmp_path


def act(fake: Path, outcome: str, status: int, **inputs: str) -> tuple[int, str]:
    """Run the action; return its status and what was printed."""
    (fake / "said").write_text(json.dumps({"outcome": outcome, "requirements": []}) if outcome else "")
    (fake / "status").write_text(str(status))
    given = [f"{name.replace('_', '-')}={value}" for name, value in {"package": "", **inputs}.items()]
    done = subprocess.run(
        [ROOT / "scripts/run-action-locally", *given],
        env=os.environ | {"PATH": f"{fake}:{os.environ['PATH']}", "FAKE": str(fake)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_every_input_becomes_an_argument(fake: Path) -> None:
    status, said = act(
        fake,
        "pass",
        0,
        scene="street-canyon-bus",
        require="wall time p90 < 2 s\nrate mean > 5 mbit\n",
        server="python3 -m http.server 8000\niperf3 -s",
        options="--delay 10ms\n--fail-fast\n--limit 2 min",
        command='curl "http://{server}:8000/a b"',
        seeds="3",
    )
    assert status == 0, said
    arguments = json.loads((fake / "arguments.json").read_text())
    assert arguments[:3] == ["--seeds", "3", "--json"]
    assert arguments[arguments.index("--scene") :] == [
        "--scene", "street-canyon-bus",
        "--require", "wall time p90 < 2 s", "--require", "rate mean > 5 mbit",
        "--server", "python3 -m http.server 8000", "--server", "iperf3 -s",
        "--delay", "10ms", "--fail-fast", "--limit", "2 min",
        "--", "bash", "-c", 'curl "http://{server}:8000/a b"',
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("outcome", "status", "inconclusive", "expected"),
    [
        ("pass", 0, "warn", 0),
        ("fail", 1, "warn", 1),
        ("inconclusive", 3, "warn", 0),
        ("inconclusive", 3, "fail", 3),
        ("", 3, "warn", 3),  # the machine cannot make a laboratory
        ("", 2, "warn", 2),
    ],
)
def test_the_step_ends_as_the_check_does(
    outcome: str, status: int, inconclusive: str, expected: int, fake: Path
) -> None:
    found, said = act(fake, outcome, status, command="true", inconclusive=inconclusive)
    assert found == expected, said
    assert f"output outcome: {outcome}\n" in said
    assert ("::warning title=wavebed::inconclusive" in said) == (outcome == "inconclusive" and inconclusive == "warn")


def test_the_table_is_in_the_summary_and_the_files_are_kept_whatever_the_outcome(fake: Path) -> None:
    _, said = act(fake, "fail", 1, command="true")
    assert "summary: 1 lines" in said
    assert "artefact wavebed: check.json check.md" in said
    _, said = act(fake, "fail", 1, command="true", artifact="")
    assert "artefact" not in said


def test_an_unknown_input_is_refused(fake: Path) -> None:
    status, said = act(fake, "pass", 0, scenery="x")
    assert status == 1
    assert "no such inputs: scenery" in said
