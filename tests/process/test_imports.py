"""Packages that are not imported before they are needed, and the list of conditions."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from tests.unit.test_result_load import run_dir  # noqa: F401

from wavebed.conditions import names

if TYPE_CHECKING:
    from pathlib import Path


def test_importing_the_package_does_not_import_the_models():
    code = "import sys, wavebed.channel; print('numpy' in sys.modules, wavebed.channel.realise.__module__)"
    got = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert got.stdout.split() == ["False", "wavebed.channel.modes"]


def test_the_list_has_every_name_and_needs_no_numpy() -> None:
    code = "import sys; from wavebed.cli import main; main(['scenes']); print('numpy' in sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.split() == ["False"]
    lines = done.stdout.splitlines()
    for name in names("condition"):
        row = next(line for line in lines if line.startswith(f"{name} "))
        assert "bit/s" in row
        assert " ms" in row
    assert all(name in done.stdout for name in names())


def test_opening_a_run_imports_neither_pandas_nor_arrow(run_dir: Path) -> None:
    code = (
        "import sys, wavebed\n"
        "assert not {'numpy', 'pandas', 'pyarrow'} & set(sys.modules)\n"
        "wavebed.load(sys.argv[1])\n"
        "print(sorted({'numpy', 'pandas', 'pyarrow'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, run_dir], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"
