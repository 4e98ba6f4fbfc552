"""The seed by which tests draw samples of kills and faults; pytest prints it, and `WAVEBED_TEST_SEED` sets it."""

from __future__ import annotations

import os
from datetime import UTC, datetime

__all__ = ["SEED", "VARIABLE"]

VARIABLE = "WAVEBED_TEST_SEED"
SEED = int(os.environ.setdefault(VARIABLE, str(datetime.now(UTC).date().toordinal())))
"""The day by default, so that each day tries other samples. Workers of pytest inherit it."""
