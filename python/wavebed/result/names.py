"""Names of the files in a folder of results."""

from __future__ import annotations

__all__ = [
    "DEVICES_FOLDER",
    "INCOMPLETE",
    "JOURNAL_FILE",
    "LOG_TABLES",
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
"""In a reproduction: a folder of results for each device."""
JOURNAL_FILE = "journal.jsonl"
RUN_FILE = "run.json"
SCENARIO_FILE = "scenario.toml"
SCENE_FILE = "scene.svg"
SPEC_FILE = "spec.json"
TRIAL_FILE = "trial.json"
TRIALS_FOLDER = "trials"
PARTIAL = ".partial"
"""End of the folder name of an unfinished trial, which begins with a dot."""
INCOMPLETE = "the results are not complete"
"""End of the message of an error in a file of results."""
TABLES = ("links", "departures", "capacity", "flows", "cpu", "samples", "events")
"""The tables of a trial: ``series/NAME.parquet``."""
LOG_TABLES = ("packets", "blocks")
"""Those that it has besides with ``packet-log``."""
