"""The checks of a trial's validity: the engine's summary, the processor, and whether the engine was the limit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

import numpy as np
import pyarrow.compute as pc

from wavebed.pattern import read_trace
from wavebed.pattern.model import STATES
from wavebed.result.course import held
from wavebed.result.model import Check
from wavebed.spec.network import links
from wavebed.spec.types import (
    BottleneckStage,
    ConstantDelay,
    DelayStage,
    DistributionDelay,
    OpportunitiesRate,
    PacketsRate,
    PatternDelay,
    PatternRate,
    RadioStage,
    SampledRate,
    WifiStage,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from wavebed.config.data import Json
    from wavebed.pattern.model import Pattern
    from wavebed.result.model import Verdict, WorkloadRecord
    from wavebed.spec.types import Delay, Network, Rate

BUSY = 0.97
BUSY_FRACTION = 0.25
"""Suspect if all processors together were busier than `BUSY` in more than this fraction of the intervals."""
LEAST_INTERVALS = 10
"""A share of fewer intervals says nothing: a program of 0.2 s keeps a processor busy for as long as it starts."""
UDP_LOSS_FRACTION = 0.001


def _list(engine: Mapping[str, Json], key: str) -> list[dict[str, Json]]:
    return cast("list[dict[str, Json]]", engine.get(key) or [])


def _sum(rows: Sequence[Mapping[str, Json]], key: str) -> int:
    return sum(cast("int", row.get(key) or 0) for row in rows)


def _dropped(links: Sequence[Mapping[str, Json]], reason: str) -> int:
    return _sum([cast("Mapping[str, Json]", link.get("dropped_segments") or {}) for link in links], reason)


def engine_checks(engine: Mapping[str, Json], messages: str = "") -> list[Check]:
    """Return the checks of the engine's summary.

    Parameters
    ----------
    engine : mapping
        The summary of the laboratory; empty if it ended without one.
    messages : str
        Its printed output; the last line has the reason if it ended by itself.
    """
    if not engine:
        last = messages.strip().rpartition("\n")[2].removeprefix("wavebed-core: ")
        why = "the laboratory ended without a summary" + (f": {last}" if last else "")
        return [Check("the engine wrote its summary", False, "invalid", why, "no-summary")]
    links, departures, hosts = _list(engine, "links"), _list(engine, "departures"), _list(engine, "hosts")
    unaccounted = sum(abs(cast("int", link["unaccounted_segments"])) for link in links)
    offered = _sum(links, "offered_segments")
    refused, device = _sum(departures, "refused_segments"), _sum(hosts, "device_dropped_packets")
    beyond = _dropped(links, "packet_memory")
    checks = [
        Check(
            "every packet accounted for",
            unaccounted == 0,
            "invalid",
            f"{offered:,} segments offered to the links, {unaccounted} unaccounted for{_at_links(links)}",
            "unaccounted",
        ),
        Check(
            "no loss outside the links",
            refused + device == 0,
            "invalid",
            f"{device} lost at devices, {refused} refused by devices",
            "lost-outside",
        ),
        Check(
            "queues limited only by the path",
            beyond == 0,
            "suspect",
            f"{beyond:,} segments dropped at the packet memory limit",
            "packet-memory",
        ),
        _udp_check(hosts, links),
        *_time_checks(engine),
        _missing_check(cast("list[str]", engine.get("missing") or [])),
    ]
    sampler = engine.get("sampler")
    if isinstance(sampler, dict):
        rounds, missed = cast("int", sampler["rounds"]), cast("int", sampler["missed"])
        checks.append(
            Check(
                "the samplers kept up",
                missed <= 0.01 * max(rounds, 1) or rounds + missed < LEAST_INTERVALS,
                "suspect",
                f"{missed} of {rounds + missed} TCP_INFO sampling rounds missed",
                "samplers",
            )
        )
    return checks


def _at_links(links: Sequence[Mapping[str, Json]]) -> str:
    """Name the links of a cell that lost segments; nothing for a path of one device."""
    names = [cast("str", link["name"]) for link in links if link["unaccounted_segments"]]
    return f" at {', '.join(names)}" if any(name.count(".") > 1 for name in names) else ""


def _missing_check(missing: Sequence[str]) -> Check:
    said = "; ".join(missing) or "nothing is missing"
    return Check("counters and series are complete", not missing, "suspect", said, "missing")


def _udp_check(hosts: Sequence[Mapping[str, Json]], links: Sequence[Mapping[str, Json]]) -> Check:
    """Return the check of UDP sockets: of all hosts together, and of each device of a cell by itself."""
    lost = _sum(hosts, "udp_receive_buffer_errors")
    delivered = max(_sum(links, "delivered_segments"), 1)
    wrong = []
    for host in hosts:
        own = [link for link in links if cast("str", link["name"]).endswith(f".{host.get('name')}.down")]
        of_host = _sum([host], "udp_receive_buffer_errors")
        if own and of_host > UDP_LOSS_FRACTION * max(_sum(own, "delivered_segments"), 1):
            wrong.append(f"{of_host} at {host['name']}")
    return Check(
        "no loss at receiving sockets",
        lost <= UDP_LOSS_FRACTION * delivered and not wrong,
        "suspect",
        f"{lost} UDP datagrams lost because a socket's receive buffer was full{''.join(f', {each}' for each in wrong)}",
        "socket-loss",
    )


def _time_checks(engine: Mapping[str, Json]) -> list[Check]:
    """Return the engine's own checks of its timing (`on_time.rs` in wavebed-path has the bounds)."""
    return [
        Check(
            cast("str", row["name"]),
            bool(row["holds"]),
            cast('Literal["invalid", "suspect"]', row["severity"]),
            cast("str", row["evidence"]),
            cast("str", row["code"]),
        )
        for row in _list(engine, "checks")
    ]


def processor_check(busy: Sequence[float]) -> Check:
    """Check that the processors were not saturated.

    Parameters
    ----------
    busy : sequence of float
        Mean busy fraction of all processors in each interval of the samplers.
    """
    fraction = sum(each > BUSY for each in busy) / len(busy) if busy else 0.0
    judged = len(busy) >= LEAST_INTERVALS
    bound = f"bound {BUSY_FRACTION:.0%}" if judged else f"fewer than {LEAST_INTERVALS} are not judged"
    return Check(
        "processors not saturated",
        fraction <= BUSY_FRACTION or not judged,
        "suspect",
        f"all processors busy in {fraction:.0%} of {len(busy)} intervals of 0.1 s ({bound})",
        "processors",
    )


def partial_check(workloads: Sequence[WorkloadRecord]) -> Check:
    """Check that no workload is partial."""
    partial = [f"{each.name}: {each.outcome.reason}" for each in workloads if each.outcome.status == "partial"]
    return Check(
        "every workload is complete", not partial, "suspect", "; ".join(partial) or "all workloads completed", "partial"
    )


def verdict(checks: Sequence[Check], workloads: Sequence[WorkloadRecord]) -> tuple[Verdict, list[str]]:
    """Return the worst verdict found, and its reasons."""
    failed = [f"{each.name}: {each.outcome.reason}" for each in workloads if each.outcome.status == "failed"]
    broken = {
        severity: [
            f"check failed: {check.name}: {check.evidence}"
            for check in checks
            if not check.holds and check.severity == severity
        ]
        for severity in ("invalid", "suspect")
    }
    doubts = [f"{each.name}: {doubt}" for each in workloads for doubt in each.outcome.doubts]
    reasons = [*failed, *broken["invalid"], *broken["suspect"], *doubts]
    if failed:
        return "failed", reasons
    if broken["invalid"]:
        return "invalid", reasons
    return ("suspect" if reasons else "valid"), reasons


OPPORTUNITY_WINDOW_NS = 100_000_000
"""Window over which delivery opportunities are summed to a rate."""
_NO_STATE = -1


@dataclass(frozen=True, eq=False)
class Steps:
    """The steps of one link: value i holds from `time_ns[i]` until the next step.

    Parameters
    ----------
    link : str
        ``HOP.down`` or ``HOP.up``.
    time_ns : int64 array
        Since time zero, ascending, the first 0.
    rate_bps : int64 array
        Bits of IP packets per second (with a radio: of transport blocks); -1 where no rate is set.
    state : int8 array
        Place in `wavebed.pattern.model.STATES`; -1 without states.
    period_ns : int or None
        Period of the repetition; ``None`` if the steps do not repeat.
    by_radio : bool
        Whether radio retransmissions and headers use part of the rate.
    overhead_bytes : int
        Bytes of a lower layer for each packet.
    delay_ns : int
        About the longest delay from the queue to the exit of the link; 0 if a pattern sets the delay.
    packets_per_s : int or None
        The UE's limit, which has a queue of its own in the same link; ``None`` without one.
    """

    link: str
    time_ns: NDArray[np.int64]
    rate_bps: NDArray[np.int64]
    state: NDArray[np.int8]
    period_ns: int | None = None
    by_radio: bool = False
    overhead_bytes: int = 0
    delay_ns: int = 0
    packets_per_s: int | None = None

    def until(self, end_ns: int) -> Steps:
        """Return the steps up to `end_ns` with all repetitions, without equal neighbours."""
        time_ns, rate_bps, state = self.time_ns, self.rate_bps, self.state
        if self.period_ns is not None:
            times = -(-end_ns // self.period_ns) or 1
            time_ns = (np.arange(times)[:, None] * self.period_ns + time_ns[None, :]).ravel()
            rate_bps, state = np.tile(rate_bps, times), np.tile(state, times)
        keep = np.ones(len(time_ns), dtype=bool)
        keep[1:] = (np.diff(rate_bps) != 0) | (np.diff(state) != 0)
        keep &= (time_ns < end_ns) | (time_ns == 0)
        return replace(self, time_ns=time_ns[keep], rate_bps=rate_bps[keep], state=state[keep], period_ns=None)

    def rows(self) -> Iterator[tuple[float, str, int | None, str | None]]:
        """Yield time (s), link, rate (bit/s or ``None``) and state (or ``None``)."""
        for time_ns, rate_bps, state in zip(self.time_ns, self.rate_bps, self.state, strict=True):
            yield (
                int(time_ns) / 1e9,
                self.link,
                None if rate_bps < 0 else int(rate_bps),
                None if state < 0 else STATES[int(state)],
            )

    def spans(self, end_s: float) -> Iterator[tuple[float, float, str]]:
        """Yield start, end (s) and name of each state."""
        if (self.state < 0).all():
            return
        changes = np.flatnonzero(np.diff(self.state, prepend=_NO_STATE - 1))
        starts = self.time_ns[changes] / 1e9
        for start_s, stop_s, code in zip(starts, [*starts[1:], end_s], self.state[changes], strict=True):
            yield float(start_s), float(stop_s), STATES[int(code)]


def capacity_steps(network: Network) -> list[Steps]:
    """Return the steps of every link with a rate; the pattern files of the network must be open."""
    found = []
    patterns: dict[str, Pattern] = {}
    for name, stages in links(network):
        rates = [stage for stage in stages if isinstance(stage, BottleneckStage | RadioStage | WifiStage)]
        limits = [stage.rate.packets_per_s for stage in rates if isinstance(stage.rate, PacketsRate)]
        # A UE that limits packets per second is before the radio of an uplink and has neither rate nor state.
        rated = next((stage for stage in rates if not isinstance(stage.rate, PacketsRate)), rates[0] if rates else None)
        if rated is not None:
            found.append(
                replace(
                    _steps(name, rated.rate, patterns),
                    by_radio=not isinstance(rated, BottleneckStage),
                    overhead_bytes=rated.overhead_bytes,
                    delay_ns=sum(_delay_ns(stage.delay) for stage in stages if isinstance(stage, DelayStage)),
                    packets_per_s=min(limits, default=None),
                )
            )
    return found


def _delay_ns(delay: Delay) -> int:
    match delay:
        case ConstantDelay():
            return delay.delay_ns
        case DistributionDelay():
            return delay.mean_ns + 3 * delay.spread_ns
        case PatternDelay():
            return 0


def _steps(link: str, rate: Rate, patterns: dict[str, Pattern]) -> Steps:
    file = getattr(rate, "file", None)
    if file is None:
        given = getattr(rate, "rate_bps", -1)
        return Steps(link, np.zeros(1, np.int64), np.array([given], np.int64), np.array([_NO_STATE], np.int8))
    assert isinstance(rate, PatternRate | OpportunitiesRate | SampledRate), "only these have a file"
    if file not in patterns:
        patterns[file] = read_trace(Path(file), "native")
    pattern = patterns[file]
    steps = _of_opportunities(link, pattern) if pattern.kind == "opportunities" else _of_steps(link, pattern)
    return _from(steps, rate.start_ns or 0, pattern.period, rate.end or "repeat")


def _of_steps(link: str, pattern: Pattern) -> Steps:
    count = len(pattern)
    rate = np.full(count, -1, np.int64) if pattern.rate_bps is None else pattern.rate_bps
    state = np.full(count, _NO_STATE, np.int8) if pattern.state is None else pattern.state.astype(np.int8)
    return Steps(link, pattern.index, rate, state)


def _of_opportunities(link: str, pattern: Pattern) -> Steps:
    count = -(-pattern.period // OPPORTUNITY_WINDOW_NS)
    sizes = np.zeros(count, np.int64)
    assert pattern.size_bytes is not None, "an opportunity has a size"
    np.add.at(sizes, np.minimum(pattern.index // OPPORTUNITY_WINDOW_NS, count - 1), pattern.size_bytes)
    starts_ns = np.arange(count) * OPPORTUNITY_WINDOW_NS
    # The last window ends with the pattern; a pattern may be as short as a millisecond.
    rate = sizes * 8 * 1_000_000_000 // np.minimum(OPPORTUNITY_WINDOW_NS, pattern.period - starts_ns)
    return Steps(link, starts_ns, rate, np.full(count, _NO_STATE, np.int8))


def _from(steps: Steps, start_ns: int, period_ns: int, end: str) -> Steps:
    """Return the steps from `start_ns` of the pattern on, and apply the rule for its end."""
    first = int(np.searchsorted(steps.time_ns, start_ns, side="right")) - 1
    time_ns = np.maximum(steps.time_ns - start_ns, 0)
    if end == "repeat":
        order = np.r_[first : len(time_ns), 0 : first + (start_ns > steps.time_ns[first])]
        turned = (steps.time_ns[order] - start_ns) % period_ns
        turned[0] = 0
        return replace(
            steps, time_ns=turned, rate_bps=steps.rate_bps[order], state=steps.state[order], period_ns=period_ns
        )
    rate, state = steps.rate_bps[first:], steps.state[first:]
    time_ns = time_ns[first:]
    if end == "stop":
        time_ns = np.append(time_ns, period_ns - start_ns)
        rate, state = np.append(rate, 0), np.append(state, state[-1])
    return replace(steps, time_ns=time_ns, rate_bps=rate, state=state)


CODE = "backlogged"
WINDOW_MS = 200
LEAST_QUEUE_BYTES = 15_000
"""Ten packets; a shorter queue can be the end of a burst."""
SHORT = 0.95
TOLERATED = 0.01
_COLUMNS = (
    "time_ms",
    "queue_bytes",
    "delivered_bytes",
    "delivered_segments",
    "dropped_loss_segments",
    "dropped_corrupted_header_segments",
)


def backlog_check(links: pa.Table, course: Steps) -> Check:
    """Compare the delivered bytes of a link with its pattern while the queue is never empty.

    A window of 200 ms counts if the rate is constant and the queue holds at least ten packets in every millisecond of
    the window and of the link's delay before it (a packet leaves the queue one delay before its delivery). A
    millisecond without a row has the queue of the previous one, so a stopped link has a full queue. A window may lack
    one usual delivery, a packet or a super-packet. A link without such a window passes.

    Parameters
    ----------
    links : pyarrow.Table
        The table ``links`` of a trial.
    course : Steps
        The link's steps with all repetitions.
    """
    name = f"{course.link} delivers what its pattern allows while its queue is full"
    own = links.filter(pc.equal(links.column("link"), course.link))
    rows = {column: own.column(column).to_numpy() for column in _COLUMNS}
    length = int(rows["time_ms"].max()) + 1 if len(own) else 0
    windows = length // WINDOW_MS
    if windows < 2:
        return Check(name, True, "suspect", "its queue was never full for 0.4 s", CODE)
    delivered = np.zeros(windows * WINDOW_MS)
    early = rows["time_ms"] < windows * WINDOW_MS
    inside = {column: values[early] for column, values in rows.items()}
    at = inside["time_ms"]
    queue = held(inside["queue_bytes"], at, windows * WINDOW_MS)
    delivered[at] = inside["delivered_bytes"] + _lost_after_the_queue(inside)
    delivered[at] += inside["delivered_segments"] * course.overhead_bytes
    at_a_time = np.median(delivered[delivered > 0]) if delivered.any() else 0.0
    full = queue.reshape(windows, WINDOW_MS).min(axis=1) >= LEAST_QUEUE_BYTES
    back = 1 + course.delay_ns // (WINDOW_MS * 1_000_000)
    full = np.array([full[max(0, window - back) : window + 1].all() for window in range(windows)])
    full[:back] = False
    starts_ns = np.arange(windows) * WINDOW_MS * 1_000_000
    rate = course.rate_bps[np.searchsorted(course.time_ns, starts_ns, side="right") - 1]
    changes = np.unique(course.time_ns[1:] // (WINDOW_MS * 1_000_000)).astype(int)
    for change in changes[changes < windows]:
        full[change : change + 1 + back] = False
    possible = rate[full] * WINDOW_MS / 8000
    came = delivered.reshape(windows, WINDOW_MS).sum(axis=1)[full] + at_a_time
    used = came[possible > 0] / possible[possible > 0]
    if course.packets_per_s is not None:
        packets = np.zeros(windows * WINDOW_MS)
        packets[at] = inside["delivered_segments"] + inside["dropped_loss_segments"]
        handled = packets.reshape(windows, WINDOW_MS).sum(axis=1)[full][possible > 0]
        used = used + handled / (course.packets_per_s * WINDOW_MS / 1000)
    if not len(used):
        return Check(name, True, "suspect", "its queue was never full for 0.4 s at one rate", CODE)
    short = float((used < SHORT).mean())
    return Check(
        name,
        short <= TOLERATED,
        "suspect",
        f"{short:.1%} of {len(used)} windows of 0.2 s with a full queue below {SHORT:.0%} of the capacity",
        CODE,
    )


def _lost_after_the_queue(rows: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the approximate bytes lost after the bottleneck, which used its capacity."""
    mean = rows["delivered_bytes"].sum() / max(rows["delivered_segments"].sum(), 1)
    lost = rows["dropped_loss_segments"] + rows["dropped_corrupted_header_segments"]
    return np.asarray(lost * mean)
