"""Run a scenario of a validation page as an experiment, and take figures from its results."""

from __future__ import annotations

import statistics
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from wavebed.campaign.read import read_campaign
from wavebed.campaign.run import resume_campaign, run_campaign
from wavebed.errors import UserError, WavebedError
from wavebed.result.model import COUNTED
from wavebed.result.names import RUN_FILE, SCENARIO_FILE
from wavebed.run.progress import Live
from wavebed.store.load import load_run
from wavebed.store.records import read_run

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    import pandas as pd

    from wavebed.store.load import Run

ROOT = Path(__file__).parents[2]
PATTERNS = ROOT / "scenarios/patterns"


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add the option for the folder of the results."""
    parser.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="keep each run in DIR/NAME, and read complete runs from there"
    )


@contextmanager
def output_folder(given: Path | None) -> Iterator[Path]:
    """Yield the folder of the results, `given` or a temporary one; end the program on an error with one line."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory())) if given is None else given
        try:
            folder.mkdir(parents=True, exist_ok=True)
            yield folder
        except WavebedError as error:
            raise SystemExit(f"{Path(sys.argv[0]).name}: {error}") from None


def echoes(run: Run, trial: str) -> pd.DataFrame:
    """Return the answered echoes of the workload ``latency``, by time: ``time_s``, and ``value`` in ms."""
    samples = run.table("samples", trial=trial)
    return samples[(samples["workload"] == "latency") & (samples["series"] == "rtt")].dropna().sort_values("time_s")


def results_of(folder: Path, name: str, text: str, trials: int) -> Run:
    """Run a scenario as a campaign into ``folder/name``, or the rest of one; report trials that do not count.

    Parameters
    ----------
    text : str
        The scenario; ``PATTERNS/`` is the folder of the shipped patterns, other files are beside it in `folder`.
    trials : int
        Blocks, with the seeds 1 to `trials`.

    Raises
    ------
    UserError
        If ``folder/name`` has another campaign, or one whose inputs, programs or machine have changed.
    """
    run_dir, file = folder / name, folder / f"{name}.campaign.toml"
    (folder / f"{name}.toml").write_text(text.replace("PATTERNS/", f"{PATTERNS}/"), encoding="utf-8")
    file.write_text(f'scenario = "{name}.toml"\n[campaign]\nblocks = {trials}\nseed = 1\n', encoding="utf-8")
    campaign, live = read_campaign(file), Live(name)
    if not (run_dir / RUN_FILE).exists():
        run_campaign(campaign, run_dir, sys.argv, live)
    elif read_run(run_dir).ended is None:
        resume_campaign(campaign, run_dir, sys.argv, live)
    elif (run_dir / SCENARIO_FILE).read_text(encoding="utf-8") != campaign.plan.text:
        raise UserError(f"{run_dir}: has a campaign of another scenario: name another folder")
    run = load_run(run_dir)
    if run.record.blocks != trials:
        raise UserError(f"{run_dir}: has {run.record.blocks} blocks, not {trials}: name another folder")
    for line in run.record.trials:
        if line.verdict not in COUNTED:
            print(f"{name}: {line.folder} is {line.verdict}: {line.reasons[0]}", file=sys.stderr)
    return run


def values(run: Run, workload: str, name: str, treatment: str | None = None) -> list[float]:
    """Return the values of a metric in the counted trials, by seed."""
    metrics = run.metrics
    wanted = (metrics["workload"] == workload) & (metrics["name"] == name) & metrics["verdict"].isin(COUNTED)
    if treatment is not None:
        wanted &= metrics["treatment"] == treatment
    return [float(value) for value in metrics[wanted].sort_values("block")["value"].dropna()]


def spread(found: list[float], form: str = ".0f") -> str:
    """Return the median, with the least and the greatest in brackets."""
    if not found:
        return "–"
    return f"{statistics.median(found):{form}} [{min(found):{form}}–{max(found):{form}}]"


def table(rows: list[list[str]]) -> str:
    """Return rows as a Markdown table; the first is its head."""
    return "\n".join(f"| {' | '.join(row)} |" for row in [rows[0], ["---"] * len(rows[0]), *rows[1:]])
