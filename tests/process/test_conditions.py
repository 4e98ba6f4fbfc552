"""Named conditions: what each name puts on a hop, and what the command says of it."""

from __future__ import annotations

import subprocess
import sys

from wavebed.conditions import names


def test_the_list_has_every_name_and_needs_no_numpy() -> None:
    code = (
        "import sys, time; from wavebed.cli import main; main(['scenes']);"
        " print(time.process_time(), 'numpy' in sys.modules, file=sys.stderr)"
    )
    for _ in range(2):  # the first one may compile the package
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    cpu_s, numpy = done.stderr.split()
    assert numpy == "False"
    assert float(cpu_s) < 1
    lines = done.stdout.splitlines()
    for name in names("condition"):
        row = next(line for line in lines if line.startswith(f"{name} "))
        assert "bit/s" in row
        assert " ms" in row
    assert all(name in done.stdout for name in names())
