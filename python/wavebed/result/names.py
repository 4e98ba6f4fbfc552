"""Names of the files in a folder of results; reading them needs no other library."""

from __future__ import annotations

__all__ = ["RUN_FILE", "SCENARIO_FILE", "TABLES", "TRIALS_FOLDER", "TRIAL_FILE"]

RUN_FILE = "run.json"
SCENARIO_FILE = "scenario.toml"
TRIAL_FILE = "trial.json"
TRIALS_FOLDER = "trials"
TABLES = ("links", "departures", "capacity", "flows", "cpu", "samples", "events")
"""The tables of a trial: ``series/NAME.parquet``."""
