"""``wavebed.load``: frames of what a run wrote."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from tests.unit.test_result_load import run_dir  # noqa: F401

if TYPE_CHECKING:
    from pathlib import Path


def test_opening_a_run_imports_neither_pandas_nor_arrow(run_dir: Path) -> None:
    code = (
        "import sys, wavebed\n"
        "assert not {'numpy', 'pandas', 'pyarrow'} & set(sys.modules)\n"
        "wavebed.load(sys.argv[1])\n"
        "print(sorted({'numpy', 'pandas', 'pyarrow'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, run_dir], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"
