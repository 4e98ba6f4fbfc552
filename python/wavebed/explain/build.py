"""The explanation of a trial: from its packet log, or coarser from its series."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc

from wavebed.explain.model import CAUSES, MEANINGS, Explanation, HostLateness
from wavebed.explain.records import dark_times, directions, network_of
from wavebed.explain.split import coarse_fates, follow, link_counts, split_link
from wavebed.explain.summary import of_direction, stalls_of
from wavebed.spec.network import devices, modelled_users

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from wavebed.explain.model import OfDirection
    from wavebed.explain.records import LoggedDirection
    from wavebed.explain.split import Fates
    from wavebed.export.trial import ExportedTrial, TimeWindow
    from wavebed.spec.types import Network


STEP_NS = 100_000_000
"""Length of the steps of the course, unless another one is asked for."""
WORST = 5
"""Worst moments of each direction, unless more are asked for."""
_NO_LOG = (
    "single packets: grants, slots, HARQ, RLC, reordering and the delay of the path are not told apart from the series;"
    " run it with --set path.packet-log=true"
)


def explain_trial(
    trial: ExportedTrial, window: TimeWindow, *, step_ns: int = STEP_NS, most: int = WORST
) -> Explanation:
    """Explain the delays and losses of the packets that were sent in a part of a trial.

    Parameters
    ----------
    step_ns : int
        Length of the steps of the course.
    most : int
        Number of worst moments of each direction.

    Raises
    ------
    UserError
        If the trial has no emulated links, or a table is damaged.
    """
    network = network_of(trial.record, trial.path)
    known = directions(network)
    span = (window.start_ns, window.end_ns)
    links = trial.table("links")
    counts = {name: link_counts(_of(links, name), span) for each in known for name in _names(each)}
    fates = _from_log(trial, known, span) if trial.has_packet_log else _from_series(trial, known, links, span)
    found = []
    for name, (of_links, rows) in fates.items():
        found.append(
            of_direction(
                name,
                of_links,
                rows,
                _counts([counts[link] for link in of_links], whole=trial.has_packet_log),
                span=span,
                step_ns=step_ns,
                most=most,
                whole=trial.has_packet_log,
                devices=_sharing(network, name),
            )
        )
    stalls = stalls_of(trial, window, {name: rows for name, (_, rows) in fates.items()})
    occurring = {share.cause for each in found for share in each.causes}
    return Explanation(
        trial=str(trial.path),
        verdict=trial.record.verdict,
        source="packets" if trial.has_packet_log else "series",
        start_s=window.start_ns / 1e9,
        end_s=window.end_ns / 1e9,
        step_ms=step_ns / 1e6,
        directions=found,
        hosts=_hosts(trial.table("departures"), span),
        stalls=stalls,
        meanings={cause: MEANINGS[cause] for cause in CAUSES if cause in occurring},
        missing=_missing(trial, found),
    )


def _sharing(network: Network, direction: str) -> list[str]:
    """Return who has slots of a direction, by their index: the devices of the cell, then its modelled users."""
    users = [user.name for user in modelled_users(network.cell) if direction.endswith(f".{user.side}")]
    return [*devices(network), *users]


def _from_log(
    trial: ExportedTrial, known: Sequence[LoggedDirection], span: tuple[int, int]
) -> dict[str, tuple[list[str], Fates]]:
    packets, blocks, capacity = trial.table("packets"), trial.table("blocks"), trial.table("capacity")
    found = {}
    for direction in known:
        names = _names(direction)
        own = None if direction.own is None else pc.unique(_of(packets, direction.own)["packet"])
        splits = []
        for layout in direction.links:
            of_link = _of(packets, layout.name)
            if own is not None and layout.name != direction.own:
                of_link = of_link.filter(pc.is_in(of_link["packet"], own))
            dark = dark_times(capacity, layout.name)
            splits.append(split_link(layout, of_link, _of(blocks, layout.name), dark))
        fates = follow(names, splits)
        found[direction.name] = names, fates.of((fates.at_ns >= span[0]) & (fates.at_ns < span[1]))
    return found


def _from_series(
    trial: ExportedTrial, known: Sequence[LoggedDirection], links: pa.Table, span: tuple[int, int]
) -> dict[str, tuple[list[str], Fates]]:
    capacity = trial.table("capacity")
    names = dict.fromkeys(name for direction in known for name in _names(direction))
    return {name: ([name], coarse_fates(name, _of(links, name), dark_times(capacity, name), span)) for name in names}


def _names(direction: LoggedDirection) -> list[str]:
    return [layout.name for layout in direction.links]


def _counts(of_links: Sequence[Mapping[str, int]], *, whole: bool) -> dict[str, int]:
    names = ["blocks_sent", "blocks_failed", "link_failures"]
    names += [] if whole else ["segments", "delivered_segments"]
    return {name: sum(each[name] for each in of_links) for name in names}


def _hosts(departures: pa.Table, span: tuple[int, int]) -> list[HostLateness]:
    """Return the latest departure of each direction."""
    at = pc.multiply(departures["time_ms"], 1_000_000)
    inside = departures.filter(pc.and_(pc.greater_equal(at, span[0]), pc.less(at, span[1])))
    found = []
    for name in dict.fromkeys(inside["direction"].to_pylist()):
        rows = inside.filter(pc.equal(inside["direction"], name))
        worst = int(rows["late_max_ns"].to_numpy().argmax())
        found.append(HostLateness(name, rows["late_max_ns"][worst].as_py() / 1e6, rows["time_ms"][worst].as_py() / 1e3))
    return found


def _missing(trial: ExportedTrial, found: Sequence[OfDirection]) -> list[str]:
    """Return what the trial did not record."""
    if not trial.has_packet_log:
        return [_NO_LOG]
    lines = []
    columns = trial.table("packets").column_names
    if "written_ns" not in columns:
        lines.append(
            "times of an earlier version of the packet log: grant, connection and host are in slot and in no cause"
        )
    unexplained = sum(share.mean_ms != 0 for each in found for share in each.causes if share.cause == "unexplained")
    if unexplained:
        lines.append("some events of the packet log (`missing` in trial.json): see the cause unexplained")
    return lines


def _of(table: pa.Table, link: str) -> pa.Table:
    return table.filter(pc.equal(table["link"], link))
