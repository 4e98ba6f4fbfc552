"""Tests here compute: one that starts a process, connects, sleeps or takes a second fails (`tests/needs.py`)."""

from __future__ import annotations

# Imported once, so that the first test of each worker does not pay for it.
import matplotlib.pyplot as plt  # noqa: F401
import pandas as pd  # noqa: F401
import pyarrow.parquet  # noqa: F401
import scipy.stats  # noqa: F401
