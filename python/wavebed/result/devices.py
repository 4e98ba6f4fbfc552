"""The metrics of the devices of a cell, and of groups of devices: rates, air time, fairness, the worst device.

A group has the name of its ``[[device]]``; the group `CELL` has all devices.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, cast

import numpy as np

from wavebed.result.transport import jain, known_transport_metrics, named, transport_metrics
from wavebed.spec.network import devices, group_of, modelled_users
from wavebed.workload.model import Metric

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from wavebed.config.data import Json
    from wavebed.result.course import Tables
    from wavebed.result.model import TrialRecord
    from wavebed.spec.network import ModelledUser
    from wavebed.spec.types import Network
    from wavebed.workload.model import Schedule

CELL = "cell"
"""The group of all devices."""
_DIRECTIONS = ("down", "up")
_WORST = "worst "
_RATE = "IP bytes delivered over the radio / time of all workloads"
_AIR = "time of its parts of the slots / time of all workloads"
_SHARE = "its air time / air time of all devices and modelled users"
_FILE_TIME = "from its request to its last byte"
_JAIN = "Jain, Chiu, Hawe 1984"


def members_of(names: Sequence[str]) -> dict[str, list[str]]:
    """Return the devices of each group, by its name; `CELL` is the last.

    A device without a number is no group. ``count = 1`` makes one: a metric keeps its name whatever the count.

    Parameters
    ----------
    names : sequence of str
        All devices, in order; a name that occurs again counts once.
    """
    names = list(dict.fromkeys(names))
    if not names:
        return {}
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(group_of(name), []).append(name)
    found[CELL] = names
    return {
        group: members for group, members in found.items() if len(members) > 1 or group_of(members[0]) != members[0]
    }


def cell_of(trial: TrialRecord) -> tuple[str, list[str]]:
    """Return the name of the cell of a stored trial and its devices; none without a cell."""
    cell = _stored_cell(trial)
    of_cell = cast("Sequence[Mapping[str, str]]", cell.get("devices") or ())
    return str(cell.get("name", "")), [device["host"] for device in of_cell]


def users_of(trial: TrialRecord, side: str) -> list[str]:
    """Return the names of the modelled users of one direction of the cell of a stored trial."""
    users = _stored_cell(trial).get(f"{side}_background")
    return [user["name"] for user in cast("Sequence[Mapping[str, str]]", users or ())]


def _stored_cell(trial: TrialRecord) -> Mapping[str, Json]:
    """Return the cell of a stored trial as it was written; empty without a cell."""
    network = cast("Mapping[str, Mapping[str, Json]]", trial.resolved.get("network") or {})
    return network.get("cell") or {}


def worst_of(name: str) -> str:
    """Return what a requirement on the worst device names, ``phone.call.loss``; empty for all other metrics.

    Parameters
    ----------
    name : str
        ``phone.call.worst loss``.
    """
    group, found, metric = name.partition(f".{_WORST}")
    return f"{group}.{metric}" if found else ""


def of_groups(metrics: Mapping[str, Sequence[Metric]], names: Sequence[str]) -> dict[str, list[Metric]]:
    """Return the metrics of the groups' workloads: ``phone.call`` of ``phone-1.call``, ``phone-2.call``.

    Parameters
    ----------
    metrics : mapping
        The metrics of each workload, by its name.
    names : sequence of str
        All devices.
    """
    found: dict[str, list[Metric]] = {}
    for group, members in members_of(names).items():
        of_workload: dict[str, list[Sequence[Metric]]] = {}
        for member in members:
            for workload, of_member in metrics.items():
                if workload.startswith(f"{member}."):
                    of_workload.setdefault(workload.removeprefix(f"{member}."), []).append(of_member)
        for own, of_members in of_workload.items():
            if len(of_members) > 1 or len(members) == 1:
                found[f"{group}.{own}"] = list(_together(of_members))
    return found


def _together(of_members: Sequence[Sequence[Metric]]) -> Iterator[Metric]:
    """Yield the metrics of a group: a value is missing if one device lacks it."""
    by_name = [{metric.name: metric for metric in of_member} for of_member in of_members]
    for metric in {name: metric for names in reversed(by_name) for name, metric in names.items()}.values():
        values = [each[metric.name].value if metric.name in each else None for each in by_name]
        yield from together(metric, values)


def together(metric: Metric, values: Sequence[float | None]) -> Iterator[Metric]:
    """Yield what a metric of several devices is together: worst, mean, and of rates sum and Jain's index.

    Parameters
    ----------
    metric : Metric
        Its name, unit and better direction.
    values : sequence of float or None
        One for each device; without one of them there are no values.
    """
    known = [value for value in values if value is not None]
    known = known if len(known) == len(values) else []
    if metric.better != "neither":
        worst = max if metric.better == "lower" else min
        yield replace(
            metric,
            name=f"{_WORST}{metric.name}",
            value=worst(known, default=None),
            definition="the worst device",
        )
    mean = math.fsum(known) / len(known) if known else None
    yield replace(metric, name=f"mean {metric.name}", value=mean, definition="over the devices")
    if metric.unit.endswith("bit/s"):
        yield from _shared(metric, known)


def _shared(metric: Metric, known: list[float]) -> Iterator[Metric]:
    """Yield the sum of what devices share, and Jain's index."""
    total = math.fsum(known) if known else None
    yield replace(metric, name=f"sum of {metric.name}", value=total, definition="of the devices")
    yield Metric(f"Jain's index of {metric.name}", jain(known), "", "higher", _JAIN)


def device_metrics(tables: Tables, spans: Schedule, network: Network) -> dict[str, list[Metric]]:
    """Return the metrics of each device, and then of each group; none without a cell.

    Parameters
    ----------
    tables : mapping of str to pyarrow.Table
        From `wavebed.result.tables.write_tables`.
    spans : mapping of str to TimeSpan
        Of the workloads, by name.
    network : Network
        The network of the trial.
    """
    names = devices(network)
    if not names or network.cell is None:
        return {}
    by_link = _split(tables["links"], "link")
    begin_ms = min((each.start_s for each in spans.values()), default=0.0) * 1000
    end_ms = max((each.end_s for each in spans.values()), default=0.0) * 1000
    sums = {
        (name, side): _sums(by_link.get(f"{network.cell.name}.{name}.{side}"), begin_ms, end_ms)
        for name in names
        for side in _DIRECTIONS
    }
    users = modelled_users(network.cell)
    sums |= _sums_of_users(tables.get("users"), network.cell.name, users, begin_ms, end_ms)
    lasted_s = (end_ms - begin_ms) / 1000
    radio = {name: _radio(name, sums, lasted_s) for name in names}
    shared = [f"{hop.name}.{side}" for leg in network.legs for hop in leg.hops for side in _DIRECTIONS]
    found: dict[str, list[Metric]] = {}
    for name in names:
        own = [f"{network.cell.name}.{name}.{side}" for side in _DIRECTIONS]
        found[name] = [*radio[name], *_transport(tables, by_link, spans, name, [*shared, *own])]
    found |= _of_device_groups(radio, names)
    found.setdefault(CELL, []).extend(_of_slots(tables.get("cells"), network.cell.name, sums, begin_ms, end_ms))
    times = _file_times(tables.get("files"), network.cell.name, begin_ms, end_ms)
    return found | _of_users(users, sums, times, lasted_s)


def known_device_metrics(names: Sequence[str], users: Sequence[ModelledUser] = ()) -> dict[str, list[Metric]]:
    """Return the metrics of `device_metrics` without values.

    Parameters
    ----------
    users : sequence of ModelledUser
        The modelled users of the cell.
    """
    nothing: dict[tuple[str, str], _Sums] = {(name, side): (None, None) for name in names for side in _DIRECTIONS}
    nothing |= {(user.name, user.side): (None, None) for user in users}
    radio = {name: _radio(name, nothing, 0.0) for name in dict.fromkeys(names)}
    of_processors = {metric.name for metric in named(None, None)}
    of_path = [each for each in known_transport_metrics() if each.name not in of_processors]
    found = {name: [*own, *of_path] for name, own in radio.items()} | _of_device_groups(radio, names)
    found.setdefault(CELL, []).extend(_of_slots(None, "", nothing, 0.0, 0.0))
    return found | _of_users(users, nothing, {}, 0.0)


def _of_device_groups(radio: Mapping[str, Sequence[Metric]], names: Sequence[str]) -> dict[str, list[Metric]]:
    return _together_in(members_of(names), radio)


def _together_in(groups: Mapping[str, Sequence[str]], radio: Mapping[str, Sequence[Metric]]) -> dict[str, list[Metric]]:
    found: dict[str, list[Metric]] = {}
    for group, members in groups.items():
        for place, metric in enumerate(radio[members[0]]):
            values = [radio[member][place].value for member in members]
            if metric.unit.endswith("bit/s"):
                found.setdefault(group, []).extend(together(metric, values))
                continue
            known = [value for value in values if value is not None]
            if metric.unit == "ms":
                found.setdefault(group, []).extend(together(metric, values))
                continue
            of_air = list(_shared(metric, known if len(known) == len(values) else []))
            found.setdefault(group, []).extend(of_air if metric.name.startswith("air") else of_air[:1])
    return found


_Sums = tuple[float | None, float | None]
"""IP bytes delivered and nanoseconds of air time of a link; ``None``: not counted."""


def _sums_of_users(
    table: pa.Table | None, cell: str, users: Sequence[ModelledUser], begin_ms: float, end_ms: float
) -> dict[tuple[str, str], _Sums]:
    """Return what modelled users got while workloads ran: bytes, and nanoseconds of air time."""
    if table is None:
        return {(user.name, user.side): (None, None) for user in users}
    rows = _rows(table, begin_ms, end_ms)
    got = rows.group_by(["cell", "user"], use_threads=False).aggregate([("served_bytes", "sum"), ("air_ns", "sum")])
    found = {
        (each["cell"], each["user"]): (float(each["served_bytes_sum"]), float(each["air_ns_sum"]))
        for each in got.to_pylist()
    }
    return {(user.name, user.side): found.get((f"{cell}.{user.side}", user.name), (0.0, 0.0)) for user in users}


_Times = dict[tuple[str, str], list[float]]
"""The times of the files of each modelled user, milliseconds, by name and side."""


def _file_times(table: pa.Table | None, cell: str, begin_ms: float, end_ms: float) -> _Times:
    """Return the times of the files that ended while workloads ran."""
    found: _Times = {}
    if table is not None:
        ended_ms = table.column("ended_ns").to_numpy() / 1e6
        for each in table.filter((ended_ms >= begin_ms) & (ended_ms < end_ms)).to_pylist():
            side = each["cell"].removeprefix(f"{cell}.")
            time_ms = (each["ended_ns"] - each["requested_ns"]) / 1e6
            found.setdefault((each["user"], side), []).append(time_ms)
    return found


def _of_users(
    users: Sequence[ModelledUser], sums: Mapping[tuple[str, str], _Sums], times: _Times, lasted_s: float
) -> dict[str, list[Metric]]:
    """Return the metrics of each modelled user, and then of each group of them."""
    found: dict[str, list[Metric]] = {}
    for user in users:
        own = found.setdefault(user.name, [])
        own += _radio(user.name, sums, lasted_s, [user.side])
        if user.has_files:
            own += _of_files(times.get((user.name, user.side), []), user.side, counted=lasted_s > 0)
    if not found:
        return {}
    groups = {group: members for group, members in members_of(list(found)).items() if group != CELL}
    return found | _together_in(groups, found)


def _of_files(times_ms: Sequence[float], side: str, *, counted: bool) -> list[Metric]:
    mean = math.fsum(times_ms) / len(times_ms) if times_ms else None
    p95 = float(np.percentile(times_ms, 95)) if times_ms else None
    count = float(len(times_ms)) if counted else None
    return [
        Metric(f"files {side}", count, "", "neither", "files or segments that ended while workloads ran"),
        Metric(f"mean file time {side}", mean, "ms", "lower", _FILE_TIME),
        Metric(f"file time p95 {side}", p95, "ms", "lower", _FILE_TIME),
    ]


def _of_slots(
    table: pa.Table | None, cell: str, sums: Mapping[tuple[str, str], _Sums], begin_ms: float, end_ms: float
) -> Iterator[Metric]:
    """Yield where the slots of each direction went, besides devices and modelled users."""
    import pyarrow.compute as pc

    lasted_ms = end_ms - begin_ms
    in_load = None if table is None or lasted_ms <= 0 else _rows(table, begin_ms, end_ms)
    for side in _DIRECTIONS:
        slots = control = idle = None
        every = [air_ns for (_, of_side), (_, air_ns) in sums.items() if of_side == side]
        rows = None if in_load is None else in_load.filter(pc.equal(in_load.column("cell"), f"{cell}.{side}"))
        if rows is not None and rows.num_rows:  # a direction with a single user has no account
            slots = float(rows.column("slots_ns").to_numpy().sum()) / 1e4 / lasted_ms
            control = float(rows.column("control_ns").to_numpy().sum()) / 1e4 / lasted_ms
            if None not in every:
                idle = slots - control - math.fsum(each for each in every if each is not None) / 1e4 / lasted_ms
        yield Metric(
            f"slots {side}", slots, "%", "neither", "time of its slots on all carriers / time of all workloads"
        )
        yield Metric(f"air time of control {side}", control, "%", "neither", _AIR)
        yield Metric(f"idle air time {side}", idle, "%", "neither", "slots - all air times")


def _rows(table: pa.Table, begin_ms: float, end_ms: float) -> pa.Table:
    """Return the rows of the milliseconds in which workloads ran."""
    time_ms = table.column("time_ms").to_numpy()
    return table.filter((time_ms >= math.floor(begin_ms)) & (time_ms < end_ms))


def _radio(
    name: str, sums: Mapping[tuple[str, str], _Sums], lasted_s: float, sides: Sequence[str] = _DIRECTIONS
) -> list[Metric]:
    found = []
    for side in sides:
        delivered, air_ns = sums[name, side]
        rate = None if delivered is None or lasted_s <= 0 else delivered * 8 / 1e6 / lasted_s
        busy = None if air_ns is None or lasted_s <= 0 else air_ns / 1e7 / lasted_s
        every = [air_ns for (_, of_side), (_, air_ns) in sums.items() if of_side == side]
        whole_ns = 0.0 if None in every else math.fsum(each for each in every if each is not None)
        share = None if air_ns is None or not whole_ns else 100 * air_ns / whole_ns
        found += [
            Metric(f"rate {side}", rate, "Mbit/s", "higher", _RATE),
            Metric(f"air time {side}", busy, "%", "neither", _AIR),
            Metric(f"share of air time {side}", share, "%", "neither", _SHARE),
        ]
    return found


def _split(table: pa.Table, column: str) -> dict[str, pa.Table]:
    """Return the rows of each value of a column of text, in their order."""
    codes = table.column(column).combine_chunks().dictionary_encode()
    names, places = codes.dictionary.to_pylist(), codes.indices.to_numpy(zero_copy_only=False)
    edges = [0, *(np.flatnonzero(np.diff(places)) + 1).tolist(), len(places)] if len(places) else [0]
    parts: dict[str, list[pa.Table]] = {}
    for start, end in pairwise(edges):
        parts.setdefault(names[int(places[start])], []).append(table.slice(start, end - start))
    return {name: _joined(each) for name, each in parts.items()}


def _joined(parts: Sequence[pa.Table]) -> pa.Table:
    import pyarrow as pa

    return parts[0] if len(parts) == 1 else pa.concat_tables(parts)


def _sums(rows: pa.Table | None, begin_ms: float, end_ms: float) -> _Sums:
    """Return the sums of a link while workloads ran; a link without rows delivered nothing."""
    if rows is None:
        return 0.0, 0.0
    inside = _rows(rows, begin_ms, end_ms)
    delivered = float(inside.column("delivered_bytes").to_numpy().sum())
    if "air_ns" not in inside.column_names:
        return delivered, None
    return delivered, float(inside.column("air_ns").to_numpy().sum())


def _transport(
    tables: Tables, by_link: Mapping[str, pa.Table], spans: Schedule, name: str, links: Sequence[str]
) -> list[Metric]:
    """Return the metrics of the path of one device and its flows, while its own workloads ran."""
    import pyarrow.compute as pc

    rows = [by_link[link] for link in links if link in by_link]
    capacity = tables["capacity"]
    own = {
        "links": _joined(rows) if rows else tables["links"].slice(0, 0),
        "capacity": capacity.filter(pc.is_in(capacity.column("link"), _texts(links))),
        "flows": _flows(tables["flows"], name),
    }
    own_spans = {workload: span for workload, span in spans.items() if workload.startswith(f"{name}.")}
    return transport_metrics(own, own_spans, clients=(name,))


def _texts(values: Sequence[str]) -> pa.Array:
    import pyarrow as pa

    return pa.array(values, pa.string())


def _flows(flows: pa.Table, name: str) -> pa.Table:
    """Return the rows of a device's connections, at both ends."""
    import pyarrow.compute as pc

    is_own = pc.equal(flows.column("host"), name)
    local = flows.column("local").filter(is_own)
    addresses = {text.rpartition(":")[0] for text in local.unique().to_pylist() if text}
    remote = flows.column("remote").unique().to_pylist()
    others = [text for text in remote if text and text.rpartition(":")[0] in addresses]
    return flows.filter(pc.or_kleene(is_own, pc.is_in(flows.column("remote"), _texts(others))))
