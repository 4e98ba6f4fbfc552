"""The trials of a check: their values, their links, their lateness."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

import numpy as np

from wavebed.explain.records import network_of
from wavebed.result.devices import cell_of, members_of
from wavebed.result.identity import computing_is_free
from wavebed.result.model import EXACT
from wavebed.result.parquet import read_parquet
from wavebed.spec.network import devices, least_rtt_ns, own_links
from wavebed.store.records import PATH_WORKLOAD
from wavebed.workload.command import DELIVERY_TIME, WALL_TIME, Command
from wavebed.workload.model import Metric

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from wavebed.config.data import Json
    from wavebed.lab.tools import Computing
    from wavebed.result.model import Check, TrialRecord, WorkloadRecord

Key: TypeAlias = tuple[str, str]
"""Workload and name of a metric."""

_ROW_NS = 1_000_000
"""Time of a row of the table of departures."""


def most_lateness_s(trial: TrialRecord, folder: Path) -> float | None:
    """Return the most that late packets may have delayed anything in a trial, seconds; ``None`` if unknown.

    What an application waits for is a chain of packets, each sent because of the one before it. Two of a direction have
    a packet of the other direction between them, so one of each direction is in the chain in the time of a round trip,
    at most. The sum of the latest of each round trip is therefore at least the lateness of every chain.

    Parameters
    ----------
    folder : pathlib.Path
        Of the trial.

    Raises
    ------
    UserError
        If its network or its table of departures is damaged.
    """
    file = folder / "series" / "departures.parquet"
    if "network" not in trial.resolved or not file.exists():
        return None
    table = read_parquet(file, ["time_ms", "direction", "segments", "late_max_ns"])
    direction = table.column("direction").to_numpy()
    time_ms, segments, late_ns = (table.column(name).to_numpy() for name in ("time_ms", "segments", "late_max_ns"))
    found = []
    network = network_of(trial, folder)
    for leg in network.legs:
        # Devices of a cell wait for packets of their own: the one with the latest packets counts.
        of_cell = network.cell if leg is network.legs[-1] else None
        ends = () if of_cell is None else (*devices(network), of_cell.name)
        for way in ("down", "up"):
            chains = []
            for end in ends or (leg.end,):
                own = direction == f"{leg.start}-{end}.{way}"
                if own.any():
                    rtt_ns = least_rtt_ns(leg, own_links(network, end))
                    chains.append(_of_chain(time_ms[own], segments[own], late_ns[own], rtt_ns))
            found += [max(chains)] if chains else []
    return sum(found) / 1e9 if found else None


def _of_chain(time_ms: NDArray[np.int64], segments: NDArray[np.int64], late_ns: NDArray[np.int64], rtt_ns: int) -> int:
    """Return the sum of the latest packet of each round trip, ns; of all packets if there is no least round trip."""
    if rtt_ns >= _ROW_NS:
        _, begins = np.unique(time_ms // (rtt_ns // _ROW_NS), return_index=True)
        return int(np.maximum.reduceat(late_ns, begins).sum())
    most = segments if rtt_ns == 0 else np.minimum(segments, _ROW_NS // rtt_ns + 1)
    return int((most * late_ns).sum())


_RTTS = ("p50", "p95", "max")


def link_metrics(trial: TrialRecord, folder: Path) -> list[Metric]:
    """Return what the path delivered and dropped, by direction, and the RTT of TCP connections.

    Parameters
    ----------
    folder : pathlib.Path
        Of the trial.

    Raises
    ------
    UserError
        If its table of flows is damaged.
    """
    links = cast("list[Mapping[str, Json]]", trial.engine.get("links") or [])
    spans = [each.span for each in trial.workloads if each.span is not None]
    lasted_s = max((span.end_s for span in spans), default=0.0) - min((span.start_s for span in spans), default=0.0)
    cell, names = cell_of(trial)
    radio = [f"{cell}.{name}.{side}" for name in names for side in ("down", "up")]
    found = [metric for direction in ("down", "up") for metric in _of_direction(links, direction, lasted_s, radio)]
    return found + _rtts(folder / "series" / "flows.parquet", names or ("client",))


def known_link_metrics() -> list[Metric]:
    """Return the metrics of `link_metrics` without values."""
    none = [_of_direction([{"name": f".{each}", "delivered_bytes": 0}], each, 0.0) for each in ("down", "up")]
    return [*none[0], *none[1], *_rtt_metrics([])]


def _of_direction(
    links: Sequence[Mapping[str, Json]], direction: str, lasted_s: float, radio: Collection[str] = ()
) -> list[Metric]:
    """Return the metrics of one direction.

    Parameters
    ----------
    radio : collection of str
        The links of the devices of a cell, which are the last ones of the path together.
    """
    own = [link for link in links if cast("str", link["name"]).endswith(f".{direction}")]
    if not own:
        return []
    shared = [link for link in own if link["name"] not in radio]
    of_radio = [link for link in own if link["name"] in radio]
    # The far end of the downlink is the last hop, the far end of the uplink the first.
    last = (of_radio or shared[-1:]) if direction == "down" else (shared[:1] or of_radio)
    delivered = sum(cast("int", link["delivered_bytes"]) for link in last)
    dropped = sum(sum(cast("Mapping[str, int]", link.get("dropped_segments") or {}).values()) for link in own)
    rate = delivered * 8 / 1e6 / lasted_s if lasted_s > 0 else None
    return [
        Metric(f"delivered {direction}", rate, "Mbit/s", "higher", "IP bytes / time of the workloads"),
        Metric(f"dropped {direction}", float(dropped), "segments", "lower", "on all hops, whatever the reason"),
    ]


def _rtts(file: Path, clients: Collection[str]) -> list[Metric]:
    """Return percentiles of the smoothed RTT of all connections of the clients' hosts, a sample every 10 ms."""
    values: list[float] = []
    if file.exists():
        table = read_parquet(file, ["host", "rtt_us"])
        pairs = zip(table.column("host").to_pylist(), table.column("rtt_us").to_pylist(), strict=True)
        values = [rtt_us / 1e3 for host, rtt_us in pairs if host in clients and rtt_us is not None]
    return _rtt_metrics(values)


def _rtt_metrics(values: Sequence[float]) -> list[Metric]:
    found = [float(value) for value in np.percentile(values, (50, 95, 100))] if values else [None] * len(_RTTS)
    return [
        Metric(f"tcp rtt {name}", value, "ms", "lower", "smoothed RTT of TCP_INFO at the client, all connections")
        for name, value in zip(_RTTS, found, strict=True)
    ]


State: TypeAlias = Literal["measured", "failed", "inconclusive"]

_TRAFFIC = "traffic"
"""Code of the check that a packet entered a link: without one, the trial is no evidence about the application."""
OF_APPLICATION = frozenset({"partial", _TRAFFIC, EXACT})
"""Codes of the checks whose failure is the application's: it was stopped at its limit, sent nothing, or looped in
virtual time. The others are the machine's."""

_OF_ENGINE = {"gaps", "late", "late-packets"}
"""Codes of the checks that say how late the engine was; a trial that fails no other check may be judged."""
_STOOD_SHARE = 0.01
"""Largest part of a judged trial for which its engine may have stood still."""
_LATE_SHARE = 0.1
"""Most that late packets may have delayed a judged trial, as a part of its duration: a tenth of a round trip."""
_SLOWING = _OF_ENGINE | {"processors", "samplers", "stolen", "stopped"}
"""Codes of the checks that a slow machine fails: a fixed amount of work takes longer on it, never less."""
_FIXED_WORK = {"command": {WALL_TIME, DELIVERY_TIME}, "download": {"download time", "goodput"}}
"""By kind of workload the metrics that follow from the time of a fixed amount of work. Delays, losses and fairness are
none: a sender that is starved fills queues less."""

_TIMES_PACKETS = {"latency", "record", "voice"}
"""Kinds of workloads whose figures are of single packets, which wait for no program that computes."""


@dataclass(frozen=True, slots=True)
class JudgedTrial:
    """A trial as a requirement sees it.

    Parameters
    ----------
    state : str
        ``measured``, ``failed`` (a workload failed, and the machine was not at fault) or ``inconclusive``.
    reasons : sequence of str
        One line each, if it is not ``measured``.
    metrics : mapping
        By workload and name; of a failed trial only the metrics of the workloads that did not fail.
    delayed_s, lasted_s : float
        By how much a late engine delayed the application at most, if nothing else was late, and how long the workloads
        ran.
    is_late : bool
        Whether the machine was late, so that another attempt may say more.
    slowed : set of Key
        Metrics of an inconclusive trial that a machine in time would not make worse; its workloads completed.
    computed_s, walls_s : mapping
        In virtual time, in which computing takes no time: how long the programs of each workload, and for the path
        all programs, computed on the host; and how long each workload, and all of them, ran.
    over_limit : sequence of str
        The workloads that would have run longer than their limits, had computing taken its time.
    is_unguarded : bool
        Whether nobody knows how long the programs of a trial in virtual time computed.
    of_path : set of str
        The workloads whose metrics are of the path: in a cell also its devices and their groups.
    """

    folder: str
    treatment: str
    seed: int
    state: State
    reasons: Sequence[str] = ()
    metrics: Mapping[Key, Metric] = field(default_factory=dict)
    delayed_s: float = 0.0
    lasted_s: float = 0.0
    is_late: bool = False
    slowed: frozenset[Key] = frozenset()
    computed_s: Mapping[str, float] = field(default_factory=dict)
    walls_s: Mapping[str, float] = field(default_factory=dict)
    over_limit: Sequence[str] = ()
    is_unguarded: bool = False
    of_path: frozenset[str] = frozenset({PATH_WORKLOAD})

    @property
    def completed(self) -> bool:
        """Whether every workload completed, on a machine that was in time or slow."""
        return self.state == "measured" or bool(self.slowed)


def seen(
    trial: TrialRecord,
    of_links: Sequence[Metric] = (),
    most_lateness_s: float | None = None,
    computing: Computing | None = None,
) -> JudgedTrial:
    """Return what a trial says about the application.

    Parameters
    ----------
    of_links : sequence of Metric
        Further metrics of the path, by `wavebed.check.trials.link_metrics`.
    most_lateness_s : float or None
        By `wavebed.check.trials.most_lateness_s`.
    computing : Computing or None
        By `read_computing`.
    """
    metrics = {(PATH_WORKLOAD, metric.name): metric for metric in (*trial.transport, *of_links)}
    for name, found_ in (*((each.name, each.outcome.metrics) for each in trial.workloads), *trial.devices.items()):
        metrics |= {(name, metric.name): metric for metric in found_}
    reasons = machine_reasons(trial)
    failed = [_failure(each) for each in trial.workloads if each.outcome.status == "failed"]
    lasted_s = max((each.span.end_s - each.span.start_s for each in trial.workloads if each.span), default=0.0)
    delayed_s = None if failed else _delayed_s(trial, len(reasons), lasted_s, most_lateness_s)
    silent = silence(trial)
    if delayed_s is not None and not silent:
        return JudgedTrial(trial.folder, trial.treatment, trial.seed, "measured", reasons, metrics, delayed_s, lasted_s)
    state: State = "inconclusive" if reasons or (silent and not failed) else "failed" if failed else "measured"
    slowed = frozenset() if failed or silent else _slowed(trial, len(reasons))
    said = reasons or failed or silent
    is_late = bool(reasons)
    found = JudgedTrial(trial.folder, trial.treatment, trial.seed, state, said, metrics, is_late=is_late, slowed=slowed)
    return _computed(found, trial, computing, lasted_s) if computing_is_free(trial) else found


def _computed(found: JudgedTrial, trial: TrialRecord, computing: Computing | None, lasted_s: float) -> JudgedTrial:
    """Return what a trial in virtual time says, with how long its programs computed on the host."""
    if computing is None:
        return replace(found, is_unguarded=True)
    spans = {each.name: each.span for each in trial.workloads if each.span is not None}
    walls_s = {name: span.end_s - span.start_s for name, span in spans.items()}
    computed_s = {
        each.name: 0.0 if each.kind in _TIMES_PACKETS else computing.of_s(each.name) for each in trial.workloads
    }
    groups = members_of(cell_of(trial)[1])
    of_path = {PATH_WORKLOAD, *trial.devices}
    for name in trial.devices:
        group, _, own = name.partition(".")
        members = [f"{device}.{own}" for device in groups.get(group, ()) if own and f"{device}.{own}" in walls_s]
        if members:
            of_path.remove(name)
        # A device and a group are as the path: all programs share the slots of their cell.
        computed_s[name] = max((computed_s[each] for each in members), default=computing.total_s)
        walls_s[name] = min((walls_s[each] for each in members), default=lasted_s)
    limits = cast("Sequence[Mapping[str, Json]]", trial.resolved.get("workloads") or ())
    limits_s = {cast("str", each["name"]): cast("int", each["limit_ns"]) / 1e9 for each in limits}
    over = [
        f"{name} may pass its limit of {limits_s[name]:g} s: its programs computed for {computed_s[name]:.2f} s, which"
        " virtual time leaves out: decide with --processor host or --real-time"
        for name, wall_s in walls_s.items()
        if wall_s + computed_s[name] > limits_s.get(name, math.inf)
    ]
    return replace(
        found,
        computed_s=computed_s | {PATH_WORKLOAD: computing.total_s},
        walls_s=walls_s | {PATH_WORKLOAD: lasted_s},
        over_limit=over,
        of_path=frozenset(of_path),
    )


def last_attempts(trials: Sequence[JudgedTrial]) -> list[JudgedTrial]:
    """Return of each seed of a treatment the attempt that counts: the last one that says something, or the last."""
    found: dict[tuple[str, int], JudgedTrial] = {}
    for trial in trials:
        key = (trial.treatment, trial.seed)
        if key not in found or trial.state != "inconclusive" or found[key].state == "inconclusive":
            found[key] = trial
    return list(found.values())


def silence(trial: TrialRecord) -> list[str]:
    """Return why a trial in which no packet crossed the path is no evidence, in one line; empty if one did."""
    return [check.evidence for check in trial.checks if check.code == _TRAFFIC and not check.holds]


def _slowed(trial: TrialRecord, reasons: int) -> frozenset[Key]:
    """Return the metrics that a machine in time would not have made worse.

    There are none if more than the machine's slowness is wrong, or with several workloads: one that is starved leaves
    more of the path to the others.
    """
    broken = _of_machine(trial)
    if not broken or len(broken) < reasons or not {check.code for check in broken} <= _SLOWING:
        return frozenset()
    if len(trial.workloads) > 1:
        return frozenset()
    return frozenset(
        (each.name, metric.name)
        for each in trial.workloads
        for metric in each.outcome.metrics
        if metric.name in _FIXED_WORK.get(each.kind, ())
    )


def _delayed_s(trial: TrialRecord, reasons: int, lasted_s: float, most_lateness_s: float | None) -> float | None:
    """Return by how much the engine may have delayed the application; ``None`` if that is not the trial's only fault.

    Its gaps in all, if its packets were late in them only; else what the lateness of its packets may have added.
    """
    broken = _of_machine(trial)
    codes = {check.code for check in broken}
    if not broken or len(broken) < reasons or not codes <= _OF_ENGINE or any(e.severity == "invalid" for e in broken):
        return None
    if codes == {"gaps"}:
        loops = cast("Sequence[Mapping[str, Mapping[str, int]]]", trial.engine.get("loops") or ())
        stood_s = sum(loop["gaps"]["total_ns"] for loop in loops) / 1e9
        return stood_s if stood_s <= _STOOD_SHARE * lasted_s else None
    return most_lateness_s if most_lateness_s is not None and most_lateness_s <= _LATE_SHARE * lasted_s else None


def machine_reasons(trial: TrialRecord) -> list[str]:
    """Return why the machine, and not the application, may have made the results; empty if nothing says so."""
    reasons = [f"{check.name}: {check.evidence}" for check in _of_machine(trial)]
    reasons += [f"{each.name}: {doubt}" for each in trial.workloads for doubt in each.outcome.doubts]
    failures = [each for each in trial.workloads if each.outcome.status == "failed"]
    if trial.verdict == "failed":
        reasons += [line for line in trial.reasons[:1] if line not in map(_failure, failures)]
    reasons += [f"{_failure(each)} (it never began)" for each in failures if each.span is None and not _is_own(each)]
    return reasons


def _of_machine(trial: TrialRecord) -> list[Check]:
    """Return the checks that do not hold because of the machine."""
    return [check for check in trial.checks if not check.holds and check.code not in OF_APPLICATION]


def _failure(workload: WorkloadRecord) -> str:
    return f"{workload.name}: {workload.outcome.reason}"


def _is_own(workload: WorkloadRecord) -> bool:
    """Return whether its programs are the user's: a workload of wavebed that does not begin is no one's failure."""
    return workload.kind == Command.kind
