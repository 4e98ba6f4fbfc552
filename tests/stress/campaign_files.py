"""A campaign for experiments, and the comparison of one that was disturbed with one that was not."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from tests.stress.sandbox import wavebed_command

from wavebed.store.journal import TrialStored, read_journal

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["CELLS", "METRIC", "RUN", "WHOLE", "argv", "damage", "half_written", "stored", "write_files"]

CELLS = 4
METRIC = ("ping", "loss")
"""It depends on the seed and the path alone: ping waits for the last replies for two round trips, 160 ms and more."""
RUN, WHOLE = Path("run"), Path("whole")
_SCENARIO = """
[path]
rate = "20mbit"
delay = "40ms"
loss = "20%"
[[workload]]
kind = "command"
name = "ping"
run = ["ping", "-q", "-i", "0.005", "-c", "40", "-W", "0.2", "{server}"]
parser = "ping"
limit = "10s"
"""
_CAMPAIGN = """
scenario = "s.toml"
[campaign]
blocks = {blocks}
seed = 11
attempts = 10
[[factor]]
name = "loss"
key = "path.loss"
values = ["10%", "30%"]
[[factor]]
name = "delay"
key = "path.delay"
values = ["40ms", "43ms"]
[[primary]]
workload = "ping"
metric = "loss"
margin = "10 %"
"""
_COUNTED = ("valid", "suspect")


def write_files(blocks: int) -> None:
    """Write the campaign into the current folder, and let it have a machine's lock of its own."""
    Path("s.toml").write_text(_SCENARIO)
    Path("c.toml").write_text(_CAMPAIGN.format(blocks=blocks))
    os.environ["WAVEBED_LOCK"] = str(Path("lock").absolute())


def argv(folder: Path) -> list[str]:
    """Return the command that begins a campaign, or goes on with one that has begun."""
    if (folder / "run.json").exists():
        return wavebed_command("campaign", "run", "--resume", str(folder))
    return wavebed_command("campaign", "run", "c.toml", "--real-time", "-o", str(folder))


def stored(folder: Path) -> list[TrialStored]:
    """Return the attempts that the journal lists, in order."""
    return [event for event in read_journal(folder) if isinstance(event, TrialStored)] if folder.is_dir() else []


def half_written(folder: Path) -> list[str]:
    """Return the files of a campaign that is not running that are neither whole nor removed."""
    found = [f"{path} is left" for path in folder.rglob(".*")]
    for path in folder.rglob("*.json"):
        try:
            json.loads(path.read_text())
        except ValueError:
            found.append(f"{path} is half-written")
    return found


def damage(disturbed: Path, whole: Path) -> list[str]:
    """Return in what a campaign that was disturbed differs from one that was not, and what is left in its folder."""
    runs = [json.loads((folder / "run.json").read_text()) for folder in (disturbed, whole)]
    planned = [line["folder"] for line in runs[1]["trials"] if line["attempt"] == 1]
    found = half_written(disturbed)
    found += [f"{disturbed / 'metrics'} is left"] * (disturbed / "metrics").exists()
    names = [event.trial for event in stored(disturbed)]
    listed = [line["folder"] for line in runs[0]["trials"]]
    folders = sorted(path.name for path in (disturbed / "trials").iterdir())
    if len(names) != len(set(names)):
        found.append("the journal lists a trial twice")
    if not sorted(names) == sorted(listed) == folders:
        found.append("journal, run.json and folders list different trials")
    if [name for name in names if name in planned] != planned:
        found.append("the order differs")
    tables = [_counted(run["trials"]) for run in runs]
    if tables[0] != tables[1]:
        found.append(f"counted trials differ: {sorted(set(tables[0]) ^ set(tables[1]))}")
    values = [_values(folder) for folder in (disturbed, whole)]
    if values[0] != values[1] or len(values[1]) != len(planned):
        found.append(f"the metric differs: {sorted(set(values[0]) ^ set(values[1]))}")
    return found


def _counted(trials: Sequence[dict[str, Any]]) -> list[tuple[int, str, int]]:
    return sorted((each["block"], each["treatment"], each["seed"]) for each in trials if each["verdict"] in _COUNTED)


def _values(folder: Path) -> list[tuple[int, str, int, float]]:
    rows = pq.read_table(folder / "metrics.parquet").to_pylist()
    wanted = [row for row in rows if row["counted"] and (row["workload"], row["metric"]) == METRIC]
    return sorted((row["block"], row["cell"], row["seed"], row["value"]) for row in wanted)
