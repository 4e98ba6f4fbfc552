"""A campaign on a disk that is full again and again: one line each time; given space, it goes on and loses nothing."""

from __future__ import annotations

import os
import random
import subprocess
from contextlib import suppress
from typing import Any

from tests.stress.campaign_files import CELLS, WHOLE, argv, damage, half_written, stored, write_files
from tests.stress.figure import Figure, of_all
from tests.stress.sandbox import WORK, inside, mount

__all__ = ["measure"]

TRIALS = 24
FULL = 40
"""How often the disk is full at most."""
SIZE_BYTES = 8 << 20
DISK = WORK / "disk"
FILLER = DISK / "filler"
STEP_BYTES = 160_000
"""More space each time, at most; a trial takes about 80 kB."""
RUN_S = 120
SAID = "no space left"


def measure(trials: int = TRIALS, full: int = FULL, seed: int = 1) -> list[Figure]:
    """Run a campaign on a disk that gets a little space each time that it is full."""
    timeout_s = 120 + 15 * full + 5 * trials
    told = inside("tests.stress.campaign_disks:disturb", trials=trials, full=full, seed=seed, timeout_s=timeout_s)
    cases = [(f"{case}: {problem}", not problem) for case, problem in told["cases"]]
    differs: list[str] = told["damage"]
    said = "as undisturbed" if not differs else "; ".join(differs)
    return [
        of_all("a full disk below a campaign: one line, nothing half-written", cases, what="times"),
        Figure(
            "a campaign on a disk that was full: order, seeds, metric, none lost or twice",
            "as undisturbed",
            f"{said}: {told['attempts']} attempts at {trials} trials",
            "missed" if differs else "met",
        ),
    ]


def disturb(trials: int, full: int, seed: int) -> dict[str, Any]:
    """Run a campaign undisturbed, and another on a full disk; in a sandbox."""
    chance = random.Random(seed)
    write_files(trials // CELLS)
    subprocess.run(argv(WHOLE), capture_output=True, timeout=RUN_S, check=True)
    DISK.mkdir()
    mount("-t", "tmpfs", "-o", f"size={SIZE_BYTES}", "tmpfs", str(DISK))
    folder = DISK / "run"
    cases: list[tuple[str, str]] = []
    full_bytes, spare_bytes = _fill(), 0
    for number in range(full + 1):
        spare_bytes += chance.randint(0, STEP_BYTES)
        os.truncate(FILLER, max(full_bytes - spare_bytes, 0) if number < full else 0)
        done = subprocess.run(argv(folder), capture_output=True, text=True, timeout=RUN_S, check=False)
        if done.returncode == 0 and (folder / "metrics.parquet").exists() and "no report" not in done.stderr:
            break
        case = f"{len(stored(folder))} trials stored, {spare_bytes} bytes more"
        cases.append((case, ", ".join([*_judged(done), *half_written(folder)])))
    differs = damage(folder, WHOLE) if (folder / "metrics.parquet").exists() else ["it has not ended"]
    return {"cases": cases, "damage": differs, "attempts": len(stored(folder))}


def _fill() -> int:
    """Fill the disk, and return the size of the file that does."""
    with FILLER.open("wb", buffering=0) as filler, suppress(OSError):
        while filler.write(bytes(4096)):
            pass
    return FILLER.stat().st_size


def _judged(done: subprocess.CompletedProcess[str]) -> list[str]:
    found = []
    lines = [line for line in done.stderr.splitlines() if SAID in line.lower()]
    errors = [line for line in done.stderr.splitlines() if line.startswith("wavebed: ")]
    if len(lines) != 1 or len(errors) > 1:
        found.append(f"said {done.stderr[-300:]!r}")
    if done.returncode not in (1, 2) and not (done.returncode == 0 and "no report" in done.stderr):
        found.append(f"status {done.returncode}")
    if "Traceback" in done.stderr or "panicked" in done.stderr:
        found.append("a traceback")
    return found
