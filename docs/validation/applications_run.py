"""Run scenarios that are written as text, and take figures from their results."""

from __future__ import annotations

import io
import statistics
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import wavebed
from wavebed.result.model import COUNTED
from wavebed.run.progress import Live
from wavebed.run.runner import run_plan
from wavebed.run.scenario import read_plan

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

ROOT = Path(__file__).parents[2]
PATTERNS = ROOT / "scenarios/patterns"


def run(
    name: str, text: str, trials: int, changes: Mapping[str, object] | None = None
) -> tuple[pd.DataFrame, list[str]]:
    """Run a scenario; return its metrics (the trials that count), and a line for each trial that does not.

    Parameters
    ----------
    name : str
        What is said while it runs.
    text : str
        The scenario; patterns are named by ``PATTERNS/``.
    trials : int
        Trials of each treatment.
    changes : mapping, optional
        As ``--set``.
    """
    print(f"{name} …", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "scenario.toml"
        file.write_text(text.replace("PATTERNS/", f"{PATTERNS}/"))
        plan = read_plan(file, overrides=dict(changes or {}), trials=trials)
        outcome = run_plan(plan, Path(folder) / "run", ["docs/validation/applications.py"], Live(name, io.StringIO()))
        metrics = wavebed.load(Path(folder) / "run").metrics
    lost = [
        f"{name}: {line.folder}: {line.reasons[0]}" for line in outcome.record.trials if line.verdict not in COUNTED
    ]
    return metrics[metrics["verdict"].isin(COUNTED)], lost


def values(metrics: pd.DataFrame, workload: str, name: str, treatment: str | None = None) -> list[float]:
    """Return the values of a metric, in the order of the trials."""
    wanted = (metrics["workload"] == workload) & (metrics["name"] == name)
    if treatment is not None:
        wanted &= metrics["treatment"] == treatment
    return [float(value) for value in metrics[wanted].sort_values("block")["value"].dropna()]


def spread(found: list[float], form: str = ".0f") -> str:
    """Return the median, and the least and the greatest in brackets."""
    if not found:
        return "–"
    return f"{statistics.median(found):{form}} [{min(found):{form}}–{max(found):{form}}]"


def table(rows: list[list[str]]) -> str:
    """Return rows as a table; the first is its head."""
    return "\n".join(f"| {' | '.join(row)} |" for row in [rows[0], ["---"] * len(rows[0]), *rows[1:]])
