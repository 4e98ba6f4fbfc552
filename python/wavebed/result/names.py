"""Names of the files in a folder of results; reading them needs no other library."""

from __future__ import annotations

__all__ = [
    "DEVICES_FOLDER",
    "JOURNAL_FILE",
    "PARTIAL",
    "RUN_FILE",
    "SCENARIO_FILE",
    "SCENE_FILE",
    "SPEC_FILE",
    "TABLES",
    "TRIALS_FOLDER",
    "TRIAL_FILE",
]

DEVICES_FOLDER = "devices"
"""Of a reproduction: a folder of results for each device."""
JOURNAL_FILE = "journal.jsonl"
RUN_FILE = "run.json"
SCENARIO_FILE = "scenario.toml"
SCENE_FILE = "scene.svg"
SPEC_FILE = "spec.json"
TRIAL_FILE = "trial.json"
TRIALS_FOLDER = "trials"
PARTIAL = ".partial"
"""How the name of the folder of a trial ends while the trial grows; it begins with a dot."""
TABLES = ("links", "departures", "capacity", "flows", "cpu", "samples", "events")
"""The tables of a trial: ``series/NAME.parquet``."""
