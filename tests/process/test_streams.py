"""Standard streams that are closed, full or broken: the status is right, files are written, nothing is traced back."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

LOST = "wavebed: standard output: no space left on device: the rest was not printed\n"


def run(folder: Path, words: str, redirection: str) -> subprocess.CompletedProcess[str]:
    """Run the program in a shell, which can close streams before it starts."""
    (folder / "a.txt").write_text("0.5\t20\n1.0\t0\n2.5\t30\n3.0\t5\n")
    return subprocess.run(
        ["bash", "-c", f"{sys.executable} -m wavebed {words} {redirection}"],
        cwd=folder, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("redirection", ["2>/dev/full", "2>&-", "<&- 2>&-", "<&- >&- 2>&-", ">&-"])
def test_a_command_that_writes_a_file_does_so_whoever_listens(tmp_path: Path, redirection: str) -> None:
    # Mahimahi has no outages: a note is said on standard error.
    done = run(tmp_path, "trace convert a.txt --to mahimahi -o out.up", redirection)
    assert done.returncode == 0
    assert (tmp_path / "out.up").stat().st_size > 100
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "out.up"]
    assert "Traceback" not in done.stderr + done.stdout + (tmp_path / "out.up").read_text()


@pytest.mark.parametrize(
    ("words", "redirection", "status", "told"),
    [
        ("trace info a.txt", ">/dev/full", 1, LOST),
        ("--help", ">/dev/full", 1, LOST),
        ("trace info a.txt", ">/dev/full 2>/dev/full", 1, ""),
        ("trace info a.txt", ">&-", 0, ""),
        ("trace info a.txt", "| true; exit ${PIPESTATUS[0]}", 141, ""),
        ("trace info none", "2>/dev/full", 2, ""),
        ("trace info none", "2>&-", 2, ""),
        ("trace info none", "2>&1 | true; exit ${PIPESTATUS[0]}", 2, ""),
    ],
)
def test_the_status_is_right_and_nothing_is_traced_back(
    tmp_path: Path, words: str, redirection: str, status: int, told: str
) -> None:
    done = run(tmp_path, words, redirection)
    assert (done.returncode, done.stdout, done.stderr) == (status, "", told)
