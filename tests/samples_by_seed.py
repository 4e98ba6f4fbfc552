"""The seed by which tests draw samples of kills and faults; pytest prints it, and `WAVEBED_TEST_SEED` sets it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

__all__ = ["SEED", "VARIABLE", "seed_of_commit"]

VARIABLE = "WAVEBED_TEST_SEED"


def seed_of_commit() -> str:
    """Return the hash of the commit, so that each change tries other samples and a red run can be repeated."""
    done = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or "0"


SEED = os.environ.setdefault(VARIABLE, seed_of_commit())
"""Workers of pytest inherit it."""
