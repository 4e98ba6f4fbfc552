"""Run the demonstration from beginning to end: phases, table, page, folder."""

from __future__ import annotations

import datetime as dt
import json
import platform
import shutil
import subprocess
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wavebed import __version__
from wavebed._core import find_core
from wavebed.demo.figures import figures, table, verdicts
from wavebed.demo.phases import BULK_S, IDLE_S, run_bulk, run_download
from wavebed.demo.progress import Progress
from wavebed.demo.series import read_capacity
from wavebed.demo.tools import available_congestion_controls, find_tools, version
from wavebed.errors import MachineError, UserError, WavebedError
from wavebed.path.api import Path as EmulatedPath
from wavebed.path.model import PatternFile

if TYPE_CHECKING:
    from wavebed.demo.figures import Figures, Verdict
    from wavebed.demo.phases import Phase
    from wavebed.demo.series import Capacity

__all__ = ["Outcome", "run_demo"]

SCENARIO = "kau-e5g-1.toml"
CONTROLS = ("cubic", "bbr")
_EXPECTED_DOWNLOAD_S = 5.0
_OVERHEAD_S = 1.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """Everything the page and the table are made from.

    Parameters
    ----------
    phases : list of Phase
        Raw results.
    rows : list of Figures
        The table.
    verdicts : list of Verdict
        What speaks for and against the run's validity.
    capacity : Capacity
        The radio's pattern.
    about : dict
        Machine, versions, seed and command line, for people.
    scenario : str
        The text of the scenario.
    laboratory : str
        The path as resolved, JSON.
    """

    phases: list[Phase]
    rows: list[Figures]
    verdicts: list[Verdict]
    capacity: Capacity
    about: dict[str, str]
    scenario: str
    laboratory: str


def find_scenario(name: str) -> Path:
    """Return a shipped scenario, which lies in the package.

    Raises
    ------
    MachineError
        If it is missing.
    """
    file = Path(__file__).resolve().parent.parent / "scenarios" / name
    if not file.is_file():
        raise MachineError(f"{file}: a shipped scenario is missing: reinstall wavebed")
    return file


def run_demo(target: Path | None, seed: int) -> tuple[Path, Outcome]:
    """Run everything and return the folder of results and what it holds.

    Parameters
    ----------
    target : pathlib.Path or None
        The folder; ``runs/demo-TIME`` without one. It appears only when everything is in it.
    seed : int
        What all luck is keyed by.

    Raises
    ------
    WavebedError
        If a tool is missing or fails, or the folder cannot be made. What was there by then is kept beside the
        folder, under a name that ends in ``.failed``.
    """
    from wavebed.report.page import write_page

    now = dt.datetime.now(dt.UTC)
    folder = target or Path("runs") / f"demo-{now.astimezone():%Y%m%d-%H%M%S}"
    tools = find_tools()
    _check_controls()
    scenario = find_scenario(SCENARIO)
    partial = _claim(folder)
    try:
        outcome = _run_phases(scenario, partial, tools, seed, _about(tools, seed, now))
        write_page(outcome, partial / "report.html")
        (partial / "table.txt").write_text(table(outcome.rows) + "\n", encoding="utf-8")
        (partial / "run.json").write_text(json.dumps(record(outcome), indent=2) + "\n", encoding="utf-8")
        shutil.copy(scenario, partial / "scenario.toml")
        partial.rename(folder)
    except (WavebedError, OSError, TimeoutError, subprocess.SubprocessError) as error:
        failed = folder.with_name(folder.name + ".failed")
        shutil.rmtree(failed, ignore_errors=True)
        partial.rename(failed)
        raise WavebedError(f"the demonstration failed: {error}; what there was is in {failed}") from error
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return folder, outcome


def _check_controls() -> None:
    missing = [name for name in CONTROLS if name not in available_congestion_controls()]
    if missing:
        names = " and ".join(f"tcp_{name}" for name in missing)
        raise MachineError(f"{', '.join(missing)}: not in this kernel yet: run `modprobe {names}` as root")


def _claim(folder: Path) -> Path:
    if folder.exists():
        raise UserError(f"-o: {str(folder)!r} is there already: name a new folder")
    partial = folder.with_name(folder.name + ".partial")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
    except OSError as error:
        reason = (error.strerror or "cannot be made").lower()
        raise UserError(f"-o: {str(folder)!r}: {reason}: name a folder that can be made") from None
    return partial


def _run_phases(scenario: Path, folder: Path, tools: dict[str, str], seed: int, about: dict[str, str]) -> Outcome:
    phases = []
    bulk_s = BULK_S + _OVERHEAD_S
    with Progress() as progress, tempfile.TemporaryDirectory(prefix="wavebed-demo-") as site:
        left_s = _EXPECTED_DOWNLOAD_S + IDLE_S + len(CONTROLS) * bulk_s
        progress.step("1 of 3: download of 200 MB by curl from nginx, then ping alone", left_s)
        phases.append(run_download(scenario, _sub(folder, "download"), tools, seed, Path(site)))
        for number, control in enumerate(CONTROLS, 2):
            left_s = (len(CONTROLS) + 2 - number) * bulk_s
            progress.step(f"{number} of 3: one {control} flow by iperf3 for {BULK_S} s, with ping beside it", left_s)
            phases.append(run_bulk(control, scenario, _sub(folder, control), tools, seed))
        progress.step("writing the report", 0)
    path = EmulatedPath.load(scenario, seed=str(seed))
    rate = path.model.segments[-1].down.rate
    assert isinstance(rate, PatternFile), "the radio of this scenario follows a pattern"
    capacity = read_capacity(rate.file)
    return Outcome(
        phases=phases,
        rows=[figures(phase, capacity) for phase in phases],
        verdicts=verdicts(phases),
        capacity=capacity,
        about=about,
        scenario=scenario.read_text(encoding="utf-8"),
        laboratory=json.dumps(path.laboratory(), indent=2),
    )


def _sub(folder: Path, name: str) -> Path:
    path = folder / name
    path.mkdir()
    return path


def _about(tools: dict[str, str], seed: int, now: dt.datetime) -> dict[str, str]:
    system = platform.uname()
    return {
        "date": f"{now:%Y-%m-%d %H:%M:%S} UTC",
        "seed": str(seed),
        "machine": f"{_processor()}, {system.machine}",
        "kernel": f"{system.system} {system.release}",
        "wavebed": f"{__version__}, core {version([find_core(), '--version']).split()[-1]}",
        "python": platform.python_version(),
        "curl": " ".join(version([tools["curl"], "--version"]).split()[:2]),
        "nginx": version([tools["nginx"], "-v"]).rpartition(" ")[2],
        "iperf3": " ".join(version([tools["iperf3"], "--version"]).split()[:2]),
        "ping": version([tools["ping"], "-V"]),
    }


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{len(models)} processors, {models[0]}" if models else "unknown processor"


def record(outcome: Outcome) -> dict[str, object]:
    """Return what ``run.json`` holds: figures with their units, verdicts, machine, and the engine's books."""
    return {
        "about": outcome.about,
        "valid": all(verdict.holds for verdict in outcome.verdicts),
        "verdicts": [asdict(verdict) for verdict in outcome.verdicts],
        "flows": [asdict(row) for row in outcome.rows],
        "summaries": {phase.name: phase.summary for phase in outcome.phases},
        "laboratory": json.loads(outcome.laboratory),
    }
