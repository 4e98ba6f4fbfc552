"""What a pilot campaign says of the next one: durations, sizes and the spread of differences."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import mean
from typing import TYPE_CHECKING

from wavebed.errors import UserError
from wavebed.result.names import TRIALS_FOLDER
from wavebed.store.journal import TrialStored, read_journal
from wavebed.store.metrics import factors_of, read_metrics
from wavebed.store.records import read_run

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import pyarrow as pa

__all__ = ["Pilot", "read_pilot"]


@dataclass(frozen=True, slots=True)
class Pilot:
    """The results of a pilot.

    Parameters
    ----------
    wall_s, disk_bytes : mapping
        Mean duration and size of a trial, by treatment.
    metrics : pyarrow.Table
        Its metrics.
    blocks : int
        Blocks that have ended.
    """

    wall_s: Mapping[str, float]
    disk_bytes: Mapping[str, float]
    metrics: pa.Table
    blocks: int


def read_pilot(folder: Path) -> Pilot:
    """Read the results of a run or campaign as a pilot.

    Raises
    ------
    UserError
        If the folder has no run, or one without a block that has ended.
    """
    record = read_run(folder)
    treatments = {line.folder: line.treatment for line in record.trials}
    walls: dict[str, list[float]] = {}
    sizes: dict[str, list[int]] = {}
    for event in read_journal(folder):
        if isinstance(event, TrialStored) and event.trial in treatments:
            walls.setdefault(treatments[event.trial], []).append(event.wall_s)
    for name, treatment in treatments.items():
        files = (folder / TRIALS_FOLDER / name).rglob("*")
        sizes.setdefault(treatment, []).append(sum(file.stat().st_size for file in files if file.is_file()))
    metrics = read_metrics(folder, factors_of(record))
    blocks = len(set(metrics.column("block").to_pylist()))
    if not blocks:
        raise UserError(f"{folder}: no block has ended: a pilot needs some")
    return Pilot(
        {name: mean(each) for name, each in walls.items()},
        {name: mean(each) for name, each in sizes.items()},
        metrics,
        blocks,
    )
