"""The data of the report from a folder of results: records, drawn columns of tables, and which trials are drawn."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from wavebed.errors import UserError
from wavebed.page.points import ThinnedPoints
from wavebed.result.model import COUNTED
from wavebed.result.names import AIR
from wavebed.workload.model import Event

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from wavebed.page.points import Floats
    from wavebed.result.model import TrialLine, TrialRecord, WorkloadRecord
    from wavebed.store.load import Run

MOST_VIEWS = 6

_HEADLINES = {
    "download": ("download time", "time", "goodput"),
    "bulk": ("goodput",),
    "latency": ("loaded latency increase p95", "rtt loaded p95", "rtt idle p50"),
    "voice": ("mos", "r factor"),
    "call": ("frozen", "freezes", "frame rate"),
    "video": ("stalled time", "mean bitrate"),
    "web": ("speed index", "on load"),
}
"""The main metric of a workload, by kind: beginnings of names, the first measured one counts."""


class CapacityCourse(NamedTuple):
    """Capacity of a link (bit/s, NaN without limit), and its radio's states as (start, end, name)."""

    rate_bps: ThinnedPoints
    states: list[tuple[float, float, str]]


class DeviceRows(NamedTuple):
    """The logged milliseconds of a device's link in a cell.

    Parameters
    ----------
    air_ns : float array or None
        Air time; ``None`` if it was not counted.
    wait_ms : float array
        Mean time in the queue; NaN where nothing left it.
    """

    time_s: Floats
    delivered_bytes: Floats
    delivered_segments: Floats
    air_ns: Floats | None
    wait_ms: Floats


class Flow(NamedTuple):
    """A TCP connection at the end that sent more."""

    name: str
    local: str
    remote: str
    acked_bytes: ThinnedPoints
    srtt_ms: ThinnedPoints
    cwnd_segments: ThinnedPoints

    @property
    def sent_bytes(self) -> float:
        """Acknowledged bytes."""
        return float(self.acked_bytes.value[-1]) if len(self.acked_bytes) else 0.0


@dataclass(frozen=True)
class ReportedTrial:
    """One trial: its record and its tables."""

    run: Run
    line: TrialLine
    record: TrialRecord

    @property
    def counts(self) -> bool:
        """Whether it is part of the statistics."""
        return self.line.verdict in COUNTED

    @property
    def folder(self) -> Path:
        """Its folder."""
        return self.run.path(self.line.folder)

    def workload(self, name: str) -> WorkloadRecord | None:
        """Return the workload of this name, if the trial had it."""
        return next((workload for workload in self.record.workloads if workload.name == name), None)

    @cached_property
    def end_s(self) -> float:
        """End of the last workload or, without spans, of the links' log."""
        ends = [workload.span.end_s for workload in self.record.workloads if workload.span is not None]
        times = self._columns("links", "time_ms")["time_ms"]
        return max([*ends, float(times[-1]) / 1e3 if len(times) and not ends else 0.0, 0.1])

    @cached_property
    def courses(self) -> dict[str, CapacityCourse]:
        """The course of each link that has a rate or states."""
        data = self._columns("capacity", "time_s", "link", "rate_bps", "state")
        found = {}
        for link in dict.fromkeys(data["link"].tolist()):
            mine = data["link"] == link
            time_s = data["time_s"][mine].astype(np.float64)
            points = ThinnedPoints(time_s, _floats(data["rate_bps"][mine]))
            found[str(link)] = CapacityCourse(points, _spans(time_s, data["state"][mine].tolist(), self.end_s))
        return found

    def carried(self, link: str) -> tuple[Floats, Floats]:
        """Return time (s) and delivered bytes of a link."""
        time_ms, mine = self._of_link(link)
        return time_ms / 1e3, _floats(self._links["delivered_bytes"][mine])

    def queue(self, link: str) -> tuple[ThinnedPoints, ThinnedPoints]:
        """Return the largest and the last queue, bytes, of each logged millisecond."""
        time_ms, mine = self._of_link(link)
        time_s = time_ms / 1e3
        peak = _floats(self._links["queue_peak_bytes"][mine])
        return ThinnedPoints(time_s, peak), ThinnedPoints(time_s, _floats(self._links["queue_bytes"][mine]))

    def of_device(self, link: str) -> DeviceRows:
        """Return what a device of a cell was given over one of its links."""
        time_ms, mine = self._of_link(link)
        data = self._cell
        air = data.get(AIR)
        return DeviceRows(
            time_ms / 1e3,
            _floats(data["delivered_bytes"][mine]),
            _floats(data["delivered_segments"][mine]),
            None if air is None else np.nan_to_num(_floats(air[mine])),
            _floats(data["sojourn_mean_ns"][mine]) / 1e6,
        )

    @cached_property
    def flows(self) -> list[Flow]:
        """The TCP connections at the end that sends, largest first."""
        columns = ("time_ns", "host", "cookie", "local", "remote", "cwnd_segments", "rtt_us", "bytes_acked")
        data = self._columns("flows", *columns)
        if not len(data["time_ns"]):
            return []
        order = np.lexsort((data["time_ns"], data["cookie"]))
        data = {name: column[order] for name, column in data.items()}
        starts = np.flatnonzero(np.diff(data["cookie"].astype(np.uint64), prepend=0) != 0)
        if data["cookie"][0] == 0:
            starts = np.append(0, starts)
        ends = np.append(starts[1:], len(order))
        found = [_flow({name: column[a:b] for name, column in data.items()}) for a, b in zip(starts, ends, strict=True)]
        return sorted((flow for flow in found if flow.sent_bytes > 0), key=lambda flow: -flow.sent_bytes)

    @cached_property
    def received(self) -> dict[tuple[str, str], ThinnedPoints]:
        """By local and remote address of each connection: the bytes that the kernel there had received, over time."""
        data = self._columns("flows", "time_ns", "local", "remote", "bytes_received")
        found: dict[tuple[str, str], list[int]] = {}
        for place, pair in enumerate(zip(data["local"].tolist(), data["remote"].tolist(), strict=True)):
            found.setdefault(pair, []).append(place)
        out = {}
        for pair, rows in found.items():
            rows.sort(key=lambda row: int(data["time_ns"][row]))
            out[pair] = ThinnedPoints(_floats(data["time_ns"][rows]) / 1e9, _floats(data["bytes_received"][rows]))
        return out

    def samples(self, workload: str) -> dict[tuple[str, str], ThinnedPoints]:
        """Return the series of a workload, by name and unit."""
        data = self._samples
        mine = np.flatnonzero(data["workload"] == workload)
        found = {}
        for name in dict.fromkeys(data["series"][mine].tolist()):
            rows = mine[data["series"][mine] == name]
            rows = rows[np.argsort(data["time_s"][rows], kind="stable")]
            points = ThinnedPoints(_floats(data["time_s"][rows]), _floats(data["value"][rows]))
            found[str(name), str(data["unit"][rows[0]] or "")] = points
        return found

    def events(self, workload: str) -> list[Event]:
        """Return the events of a workload in order of time."""
        return self._events.get(workload, [])

    @cached_property
    def _events(self) -> dict[str, list[Event]]:
        found: dict[str, list[Event]] = {}
        for row in self.run.arrow("events", trial=self.line.folder).sort_by("time_s").to_pylist():
            text = str(row["text"] or "")
            event = Event(str(row["name"]), float(row["time_s"]), _maybe(row["end_s"]), text, _maybe(row["value"]))
            found.setdefault(str(row["workload"]), []).append(event)
        return found

    @cached_property
    def is_whole(self) -> bool:
        """Whether all its tables can be read."""
        try:
            _ = (self.end_s, self.courses, self.flows, self.samples(""), self.events(""), self.queue(""))
        except UserError:
            return False
        return True

    def forget(self) -> None:
        """Read its tables again when they are asked for: a run may have thousands of trials."""
        for name in ("flows", "received", "_cell", "_users", "_events", "_links", "_rows", "_samples"):
            vars(self).pop(name, None)

    @cached_property
    def _links(self) -> dict[str, NDArray[np.generic]]:
        return self._columns("links", "time_ms", "link", "delivered_bytes", "queue_bytes", "queue_peak_bytes")

    @cached_property
    def _cell(self) -> dict[str, NDArray[np.generic]]:
        columns = ("delivered_bytes", "delivered_segments", "sojourn_mean_ns")
        try:
            return self._columns("links", *columns, AIR)
        except UserError:  # a result of an earlier version has no air time
            return self._columns("links", *columns)

    def of_user(self, cell: str, user: str) -> tuple[Floats, Floats, Floats]:
        """Return the logged milliseconds of a modelled user: time (s), bytes, nanoseconds of air time.

        Parameters
        ----------
        cell : str
            A direction of the cell: ``radio.down``.
        """
        columns = self._users
        mine = np.flatnonzero((columns["cell"] == cell) & (columns["user"] == user))
        time_s = _floats(columns["time_ms"][mine]) / 1000
        return time_s, _floats(columns["served_bytes"][mine]), _floats(columns["air_ns"][mine])

    @cached_property
    def _users(self) -> dict[str, NDArray[np.generic]]:
        try:
            return self._columns("users", "time_ms", "cell", "user", "served_bytes", "air_ns")
        except UserError:  # a result of an earlier version has no modelled users
            return {name: np.empty(0) for name in ("time_ms", "cell", "user", "served_bytes", "air_ns")}

    @cached_property
    def _samples(self) -> dict[str, NDArray[np.generic]]:
        return self._columns("samples", "time_s", "workload", "series", "unit", "value")

    def _of_link(self, link: str) -> tuple[Floats, NDArray[np.intp]]:
        mine = self._rows.get(link, np.empty(0, np.intp))
        return _floats(self._links["time_ms"][mine]), mine

    @cached_property
    def _rows(self) -> dict[str, NDArray[np.intp]]:
        """The rows of each link."""
        links = self._links["link"]
        return {str(link): np.flatnonzero(links == link) for link in dict.fromkeys(links.tolist())}

    def _columns(self, table: str, *columns: str) -> dict[str, NDArray[np.generic]]:
        read = self.run.arrow(table, trial=self.line.folder, columns=columns)
        return {name: read.column(name).to_numpy() for name in columns}


@dataclass(frozen=True)
class Results:
    """A run with its readable trials.

    Parameters
    ----------
    trials : list of ReportedTrial
        In order.
    unreadable : list of (TrialLine, str)
        The others, each with the error.
    chosen : tuple of str
        The treatments that are shown; empty: all.
    """

    run: Run
    trials: list[ReportedTrial]
    unreadable: list[tuple[TrialLine, str]]
    chosen: tuple[str, ...] = ()

    @cached_property
    def treatments(self) -> list[str]:
        """Names of the treatments in the order of the scenario."""
        if self.chosen:
            return list(self.chosen)
        named = [str(treatment["name"]) for treatment in self.run.record.treatments]
        return list(dict.fromkeys([*named, *(line.treatment for line in self.run.record.trials)]))

    def style(self, treatment: str) -> str:
        """Return the class of a treatment in the style sheet."""
        return f"t{self.treatments.index(treatment) % 6}"

    @cached_property
    def workloads(self) -> list[tuple[str, str]]:
        """Name and kind of every workload."""
        listed = [(str(each["name"]), str(each["kind"])) for each in self.run.record.workloads if "name" in each]
        found = [(each.name, each.kind) for trial in self.trials for each in trial.record.workloads]
        return list(dict.fromkeys([*listed, *found]))

    @property
    def counted(self) -> list[ReportedTrial]:
        """The trials that are part of the statistics."""
        return [trial for trial in self.trials if trial.counts]


def read_results(folder: Path) -> Results:
    """Read a folder of results; tables on their first use.

    Raises
    ------
    UserError
        If it has no run.
    """
    from wavebed.store.load import load_run

    run = load_run(folder)
    trials, unreadable = [], []
    for line in run.record.trials:
        try:
            trials.append(ReportedTrial(run, line, run.trial(line.folder)))
        except UserError as error:
            unreadable.append((line, str(error)))
    return Results(run, trials, unreadable)


def whole(trials: Sequence[ReportedTrial], *, keep: bool = False) -> list[ReportedTrial]:
    """Return the trials with readable tables; `keep` them in memory if all will be drawn."""
    found = []
    for trial in trials:
        if trial.is_whole:
            found.append(trial)
        if not keep:
            trial.forget()
    return found


def _flow(data: dict[str, NDArray[np.generic]]) -> Flow:
    time_s = _floats(data["time_ns"]) / 1e9
    local, remote = str(data["local"][0]), str(data["remote"][0])
    return Flow(
        f"{local} to {remote}",
        local,
        remote,
        ThinnedPoints(time_s, _floats(data["bytes_acked"])),
        ThinnedPoints(time_s, _floats(data["rtt_us"]) / 1e3),
        ThinnedPoints(time_s, _floats(data["cwnd_segments"])),
    )


def _spans(time_s: Floats, states: Sequence[str | None], end_s: float) -> list[tuple[float, float, str]]:
    spans: list[tuple[float, float, str]] = []
    for start_s, state, stop_s in zip(time_s.tolist(), states, [*time_s.tolist()[1:], end_s], strict=True):
        if state is None:
            continue
        if spans and spans[-1][2] == state and spans[-1][1] == start_s:
            spans[-1] = (spans[-1][0], stop_s, state)
        else:
            spans.append((start_s, stop_s, state))
    return spans


def _floats(values: NDArray[np.generic]) -> Floats:
    if values.dtype == object:
        return np.array([np.nan if value is None else value for value in values.tolist()], np.float64)
    return values.astype(np.float64)


def _maybe(value: float | None) -> float | None:
    return None if value is None or np.isnan(value) else float(value)


@dataclass(frozen=True, slots=True)
class View:
    """Trials with the same channel, drawn together.

    Parameters
    ----------
    label : str
        ``seed 3``, and the rank of its result.
    """

    label: str
    trials: list[ReportedTrial]


def headlines(results: Results) -> Iterator[tuple[str, str]]:
    """Yield workload and name of the main metric of each measured workload."""
    for workload, kind in results.workloads:
        valued: dict[str, None] = {}
        for trial in results.counted:
            record = trial.workload(workload)
            if record is not None:
                valued |= {metric.name: None for metric in record.outcome.metrics if metric.value is not None}
        name = headline(kind, list(valued))
        if name is not None:
            yield workload, name


def headline(kind: str, names: Sequence[str]) -> str | None:
    """Return the main metric of a kind of workload among those that were measured; ``None`` without any."""
    wanted = [name for begins in _HEADLINES.get(kind, ()) for name in names if name.lower().startswith(begins)]
    return next(iter([*wanted, *names]), None)


def views(results: Results, most: int = MOST_VIEWS) -> tuple[list[View], int]:
    """Return at most `most` views, and the number of all views.

    If there are more seeds than views, seeds are taken at equally spaced ranks of the first main metric of the first
    treatment, with the lowest, the middle and the highest.
    """
    blocks: dict[int, list[ReportedTrial]] = {}
    keep = len(results.trials) <= most * len(results.treatments)
    order = results.treatments
    for trial in sorted(whole(results.trials, keep=keep), key=lambda trial: order.index(trial.line.treatment)):
        blocks.setdefault(trial.line.block, []).append(trial)
    groups = [group for _, trials in sorted(blocks.items()) for group in same_channel(trials)]
    if len(groups) <= most:
        return [View(_label(group), group) for group in groups], len(groups)
    head = next(headlines(results), None)
    ranked = sorted(groups, key=lambda group: _rank(group, head))
    places = np.unique(np.linspace(0, len(ranked) - 1, most).round().astype(int))
    chosen = {id(ranked[place]): place for place in places.tolist()}
    what = f"{head[0]}: {head[1]}" if head is not None else ""
    return [
        View(_label(group) + _standing(chosen[id(group)], len(ranked), what), group)
        for group in groups
        if id(group) in chosen
    ], len(groups)


def _label(trials: list[ReportedTrial]) -> str:
    seed = f"seed {trials[0].line.seed}"
    names = ", ".join(dict.fromkeys(trial.line.treatment for trial in trials))
    return f"{seed} ({names})" if names else seed


def _standing(place: int, count: int, what: str) -> str:
    return f", rank {place + 1} of {count} by {what}" if what else ""


def _rank(trials: list[ReportedTrial], head: tuple[str, str] | None) -> tuple[bool, float]:
    """Return the sort key: the metric; views without one, or without a counted trial, are last."""
    for trial in trials:
        record = trial.workload(head[0]) if head is not None and trial.counts else None
        for metric in record.outcome.metrics if record is not None else ():
            if head is not None and metric.name == head[1] and metric.value is not None:
                return (False, metric.value)
    return (True, float(trials[0].line.seed))


def same_channel(trials: list[ReportedTrial]) -> list[list[ReportedTrial]]:
    """Group trials with equal capacity of every link; a treatment may change the path."""
    groups: list[list[ReportedTrial]] = []
    for trial in trials:
        for group in groups:
            if _equal(group[0].courses, trial.courses, min(group[0].end_s, trial.end_s)):
                group.append(trial)
                break
        else:
            groups.append([trial])
    return groups


def _equal(one: dict[str, CapacityCourse], other: dict[str, CapacityCourse], end_s: float) -> bool:
    if one.keys() != other.keys():
        return False
    for link, course in one.items():
        mine, theirs = (each.rate_bps.between(0, end_s - 1e-6) for each in (course, other[link]))
        if len(mine) != len(theirs) or not np.array_equal(mine.value, theirs.value, equal_nan=True):
            return False
    return True
