"""Differences between folders of results beside their values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.stats.paired import exclusions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wavebed.compare.samples import Folder

_MOST_NAMED = 5


def notes_of(folders: Sequence[Folder]) -> Iterator[str]:
    """Yield a line for each difference in scenario, machine, versions, seeds, definitions and lost trials."""
    names = [folder.name for folder in folders]
    for what in dict.fromkeys(what for folder in folders for what in folder.facts):
        told = [folder.facts.get(what, "none") for folder in folders]
        if len(set(told)) > 1:
            values = (f"{name} has {value}" for name, value in zip(names, told, strict=True))
            yield f"{what} differs: {', '.join(values)}"
    for folder in folders[1:]:
        yield from _of_definitions(folders[0], folder)
        yield from _of_seeds(folders[0], folder)
        yield from _of_losses(folders[0], folder)
    for folder in folders:
        lost, planned = (sum(each[place] for each in folder.lost.values()) for place in (0, 1))
        if lost:
            yield f"{folder.name}: {lost} of {planned} trials are not counted"
        if folder.unreadable:
            yield f"{folder.name}: {folder.unreadable} counted trials cannot be read"
        if not folder.has_ended:
            yield f"{folder.name}: the run has not ended"


def _of_definitions(first: Folder, other: Folder) -> Iterator[str]:
    changed = [
        " ".join(key)
        for key, series in first.series.items()
        if key in other.series and series.metric.definition != other.series[key].metric.definition
    ]
    if changed:
        more = f" and {len(changed) - _MOST_NAMED} more" if len(changed) > _MOST_NAMED else ""
        named = ", ".join(changed[:_MOST_NAMED])
        yield f"{other.name} defines metrics otherwise than {first.name}: {named}{more}"


def _of_seeds(first: Folder, other: Folder) -> Iterator[str]:
    if first.seeds == other.seeds:
        if first.seeds and first.inputs and first.inputs == other.inputs:
            yield (
                f"{first.name} and {other.name} have the same seeds and patterns; still their trials are independent"
                " samples, because day, machine or version differ"
            )
    else:
        yield f"seeds differ: {first.name} has {seeds_text(first)}, {other.name} has {seeds_text(other)}"


def seeds_text(folder: Folder) -> str:
    """Return the seeds of a folder: ``1 to 10``, or how many there are."""
    seeds = folder.seeds
    if not seeds:
        return "none"
    if len(seeds) == 1:
        return str(min(seeds))
    if len(seeds) == max(seeds) - min(seeds) + 1:
        return f"{min(seeds)} to {max(seeds)}"
    return f"{len(seeds)} from {min(seeds)} to {max(seeds)}"


def _of_losses(first: Folder, other: Folder) -> Iterator[str]:
    for name, (lost, planned) in other.lost.items():
        base = name if name in first.lost else next(iter(first.lost)) if len(first.lost) == 1 else None
        if base is None or not (planned and first.lost[base][1]):
            continue
        if exclusions({first.name: first.lost[base], other.name: (lost, planned)}).code == "differ":
            yield (
                f"{other.name}: {name}: {lost} of {planned} trials are not counted, {first.lost[base][0]} of"
                f" {first.lost[base][1]} in {first.name}: the missing values may hide a difference"
            )
