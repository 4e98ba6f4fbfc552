"""Names of the files in a folder of results."""

from __future__ import annotations

from pathlib import Path

ASIDE_FOLDER = "aside"
"""Trials of blocks that were begun again after a change of inputs."""
BUNDLES_FOLDER = "bundles"
"""Bundles of trials in virtual time that failed: all that a repetition elsewhere needs, a file each."""
CAMPAIGN_FILE = "campaign.toml"
CHANGES_FILE = "changes.jsonl"
"""Of a trial in virtual time: the changes that were made while it ran, if there were any."""
CHECK_FILE = "check.json"
"""The decisions of a check."""
COMPUTING_FILE = "computing.json"
"""Of a trial in virtual time: the host's processor time of its programs, which differs from run to run."""
DEVICES_FOLDER = "devices"
"""In a reproduction: a folder of results for each device."""
FIGURES_FOLDER = "figures"
"""Of the report of a campaign."""
INPUTS_FILE = "inputs.json"
"""Of a trial in virtual time: the kernel, the processor, and the files that its programs opened, by their hashes."""
JOURNAL_FILE = "journal.jsonl"
METRICS_FILE = "metrics.parquet"
METRICS_FOLDER = "metrics"
"""The metrics of each block that has ended, before the end of the run."""
REPORT_FILE = "report.html"
RUN_FILE = "run.json"
SCENARIO_FILE = "scenario.toml"
SCENE_FILE = "scene.svg"
SPEC_FILE = "spec.json"
TABLES_FOLDER = "tables"
"""Of the report of a campaign."""
TRIAL_FILE = "trial.json"
TRIALS_FOLDER = "trials"
STORED = f"{TRIALS_FOLDER}/[!.]*/{TRIAL_FILE}"
"""Records of stored trials; an unfinished trial has one too, shortly before its folder gets its name."""
PARTIAL = ".partial"
"""End of the folder name of an unfinished trial, which begins with a dot."""
INCOMPLETE = "the results are not complete"
"""End of the message of an error in a file of results."""
TABLES = ("links", "departures", "capacity", "flows", "cpu", "samples", "events")
"""The tables of a trial: ``series/NAME.parquet``."""
AIR = "air_ns"
"""The column of air time, which a table of links has if one of them has a radio."""
LOG_TABLES = ("packets", "blocks")
"""Those that it has besides with ``packet-log``."""

CELL_TABLES = ("cells", "users", "files")
"""Those that it has besides with a cell: the time of its slots, what modelled users got, and their ended files."""


def new_folder(name: str) -> Path:
    """Return ``runs/NAME-TIME``."""
    from datetime import UTC, datetime  # wavebed shell starts without

    return Path("runs") / f"{name}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
