"""Malformed traces: each gives one line that names the file, the place, the rule and the remedy, and exit status 2."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("kind", "row"),
    [
        *(("steps", f"1,{value}") for value in ("nan", "inf", "1e400", "", "-1", "12x")),
        *(("opportunities", f"{row}") for row in ("1,many", "1,nan", "x,1500", "1e400,1500", "1,")),
    ],
)
@pytest.mark.parametrize("queue", [(), ("--queue", "infinite")])
def test_a_bad_row_is_named_with_and_without_a_queue(
    kind: str, row: str, queue: tuple[str, ...], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    column, first = ("rate_bps", "0,1000") if kind == "steps" else ("bytes", "0.5,1500")
    file = tmp_path / "bad.csv"
    file.write_text(f"# wavebed pattern 1\n# kind = {kind}\n# duration_s = 10\ntime_s,{column}\n{first}\n{row}\n")
    command = [sys.executable, "-m", "wavebed", "shell", "--trace", str(file), *queue, "--", "true"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert re.fullmatch(rf"wavebed(-core)?: {re.escape(str(file))}:6: [^\n]+\n", done.stderr)
