"""Losses that are listed or drawn in advance, as patterns that the link engine plays."""

from __future__ import annotations

import os
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from msgspec import Struct
from msgspec.structs import replace

from wavebed.config.units import Limit, format_limit, format_rate
from wavebed.errors import UserError
from wavebed.path.model import DistributedDelay, LimitedLoss, LostPackets, LostTimes, PatternFile, ScenePattern
from wavebed.radio.presets import WifiSettings, radio_stage, ue_limit_stage, wifi_stage
from wavebed.spec import types as spec
from wavebed.spec.network import WrittenQueue, least_limit, limit_in_words
from wavebed.spec.part import plain
from wavebed.spec.types import Hop, Host, Leg, Network, Stage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path as FilePath

    from wavebed.config.data import Json
    from wavebed.path.model import (
        BackgroundModel,
        CellModel,
        Delay,
        DeviceModel,
        DrawnStart,
        Link,
        Loss,
        MadeLoss,
        OpenLoop,
        PathHop,
        PathModel,
        Rate,
    )
    from wavebed.path.traces import Traces
    from wavebed.pattern.model import Pattern
    from wavebed.radio.presets import AirRate
    from wavebed.scene.model import SceneModel


DRAWN_PACKETS = 1 << 17
"""Of losses that are drawn in advance; after them they are repeated."""


def loss_pattern(loss: MadeLoss, of: str, seed: int) -> tuple[Pattern, Literal["repeat", "hold"]]:
    """Return the pattern of these losses, and what follows its end.

    Parameters
    ----------
    loss : LostPackets, LostTimes or LimitedLoss
        The losses.
    of : str
        ``down`` or ``up``, after the name of a device of a cell: each has a random stream of its own.
    seed : int
        Of all random processes.
    """
    if isinstance(loss, LostPackets):
        return _listed(loss), "hold"
    if isinstance(loss, LimitedLoss):
        return _drawn(loss, Random(f"losses {of} {seed}")), "repeat"  # noqa: S311 no secret
    return _timed(loss), "hold"


def _listed(loss: LostPackets) -> Pattern:
    import numpy as np  # wavebed shell starts without

    from wavebed.pattern.model import packets

    lost = np.array(loss.numbers, dtype=np.int64) - 1
    index = np.unique(np.concatenate(([0], lost, lost + 1)))
    values = np.isin(index, lost).astype(np.float64)
    return packets(index, int(index[-1]) + 1, loss=values).merged()


def _timed(loss: LostTimes) -> Pattern:
    import numpy as np

    from wavebed.pattern.model import steps

    edges = {0: 0.0}
    for begin_ns, end_ns in loss.spans_ns:
        edges |= {begin_ns: 1.0, end_ns: 0.0}
    index = np.array(sorted(edges), dtype=np.int64)
    return steps(index, int(index[-1]) + 1, loss=np.array([edges[int(time)] for time in index]))


def _drawn(loss: LimitedLoss, random: Random) -> Pattern:
    import numpy as np

    from wavebed.pattern.model import packets

    lost = np.zeros(DRAWN_PACKETS)
    in_a_row = 0
    for number in range(DRAWN_PACKETS):
        in_a_row = in_a_row + 1 if in_a_row < loss.most_in_a_row and random.random() < loss.probability else 0
        lost[number] = in_a_row > 0
    return packets(np.arange(DRAWN_PACKETS, dtype=np.int64), DRAWN_PACKETS, loss=lost).merged()


Direction: TypeAlias = Literal["down", "up"]

VERSION = 1
SAMPLE_FLOWS_NS = 10_000_000
SAMPLE_CPU_NS = 100_000_000
LEAST_LIMIT_PACKETS = {"droptail": 1000, "drophead": 1000, "codel": 1000, "fq_codel": 10_240, "dualpi2": 10_000}
"""The smallest default limits, as in Linux (netem and pfifo, codel, fq_codel, dualpi2)."""


class LabPlan(Struct, frozen=True):
    """The options of a laboratory beside its path.

    Parameters
    ----------
    name : str
        Its name, for ``wavebed ctl``.
    seed : int
        Of all random processes.
    command : sequence of str or None
        The command on `command_host`; ``None`` for a laboratory that is driven through its socket.
    background : sequence of (str, sequence of str)
        Host and command of each program that runs beside it.
    log_dir, pcap_dir, summary_file : pathlib.Path or None
        Where the series, the captures and the summary go.
    wait : bool
        Whether time begins only on request.
    sample : bool
        Whether connections and processors are sampled into `log_dir`.
    confine : mapping or None
        How confined programs are confined, by `wavebed.lab.confine.confinement_rules`; ``None``: none can be.
    confined : bool
        Whether `command` and `background` are confined.
    drain_s : float
        Longest time after the end of `command` in which the last data may arrive and be read.
    grace_s : float or None
        Time from SIGTERM to SIGKILL for the programs at the end; ``None``: the default of ``wavebed-core``, 0.2 s.
    maps : sequence of JSON data
        The maps of its scenes, by `wavebed.path.model.scene_maps`, for displays.
    timeline : mapping or None
        The timeline of the path, by `wavebed.path.timeline.timed_path`.
    """

    name: str
    seed: int
    command: Sequence[str] | None = None
    background: Sequence[tuple[str, Sequence[str]]] = ()
    log_dir: FilePath | None = None
    pcap_dir: FilePath | None = None
    summary_file: FilePath | None = None
    wait: bool = False
    sample: bool = False
    confine: Mapping[str, Json] | None = None
    confined: bool = False
    drain_s: float = 0.0
    grace_s: float | None = None
    maps: Sequence[Json] = ()
    timeline: Mapping[str, Json] | None = None
    command_host: str = "client"


def resolve_network(path: PathModel, traces: Traces, *, outside_sockets: bool = False) -> Network:
    """Return the network of `path`, every value explicit; patterns have the names under which the engine opens them.

    Parameters
    ----------
    outside_sockets : bool
        Whether programs reach named sockets of programs outside, where the path does not say.

    Raises
    ------
    UserError
        If a pattern cannot be read, or values do not fit each other.
    """
    parts = [path.hops] if path.edge_after is None else [path.hops[: path.edge_after], path.hops[path.edge_after :]]
    rtt_ns = _round_trip_ns(path.hops)
    # With a cell the last leg leads to its first device; all devices share its hops.
    names = [host.name for host in path.hosts[: len(parts) + 1]]
    legs = [
        Leg(start, end, tuple(_hop(hop, path, rtt_ns, traces) for hop in part))
        for (start, end), part in zip(pairwise(names), parts, strict=True)
    ]
    if path.second_radio is not None:
        before = path.hops[: path.edge_after or 0]
        hop = _hop(path.second_radio, path, _round_trip_ns([*before, path.second_radio]), traces)
        legs.append(Leg(names[-2], names[-1], (hop,)))
    return Network(
        mtu=path.mtu,
        nat=path.nat,
        outside_sockets=outside_sockets if path.outside_sockets is None else path.outside_sockets,
        coalesce=path.coalesce,
        packet_memory_bytes=path.packet_memory_bytes,
        packet_log=path.packet_log,
        names=path.names,
        rebind_at_ns=path.rebind_at_ns,
        hosts=tuple(Host(host.name, host.congestion_control, dict(host.sysctls)) for host in path.hosts),
        legs=tuple(legs),
        cell=None if path.cell is None else _cell(path.cell, path, traces),
    )


def _cell(cell: CellModel, path: PathModel, traces: Traces) -> spec.RadioCell:
    return spec.RadioCell(
        name=cell.name,
        down=cell.down,
        up=cell.up,
        devices=tuple(_device(cell, device, path, traces) for device in cell.devices),
        down_background=tuple(_background(user, path.seed, traces) for user in cell.down_background),
        up_background=tuple(_background(user, path.seed, traces) for user in cell.up_background),
    )


def _device(cell: CellModel, device: DeviceModel, path: PathModel, traces: Traces) -> spec.CellDevice:
    hop = cell.hop(device)
    resolved = _hop(hop, path, _round_trip_ns([*path.hops, hop]), traces, device.name)
    up = tuple(_with_power(stage, cell.power, device) for stage in resolved.up)
    return spec.CellDevice(device.name, resolved.down, up, device.down_service, device.up_service)


def _with_power(stage: Stage, power: OpenLoop | None, device: DeviceModel) -> Stage:
    """Return a stage of the uplink of a device with its power control, if it is a radio in a scene."""
    if power is None or not isinstance(stage, spec.RadioStage):
        return stage
    from wavebed.channel.power import uplink_power  # most cells have none
    from wavebed.path.cell import has_power

    if not has_power(device.up):
        return stage
    rate = cast("ScenePattern", device.up.rate)
    scene = cast("SceneModel", rate.scene)
    ue = scene.device(rate.device) if rate.device is not None and scene.devices else scene.ue
    return replace(stage, power=uplink_power(scene, ue, power.p0_dbm, power.alpha))


def _background(user: BackgroundModel, seed: int, traces: Traces) -> spec.BackgroundUser:
    return spec.BackgroundUser(user.name, _rate(user.rate, False, seed, traces), user.traffic, user.service)


def laboratory_file(network: Network, plan: LabPlan) -> dict[str, Json]:
    """Return the laboratory file of ``wavebed-core lab``: a network whose hosts stand in a row, and its programs."""
    return {
        "version": VERSION,
        "name": plan.name,
        "seed": plan.seed,
        "network": plain(network),
        "wait": plan.wait,
        "sample": {"flows_ns": SAMPLE_FLOWS_NS, "cpu_ns": SAMPLE_CPU_NS} if plan.sample else None,
        "background": [_process(host, argv, plan) for host, argv in plan.background],
        "command": None if plan.command is None else _process(plan.command_host, plan.command, plan),
        "confine": None if plan.confine is None else dict(plan.confine),
        "log_dir": _absolute(plan.log_dir),
        "pcap_dir": _absolute(plan.pcap_dir),
        "summary_file": _absolute(plan.summary_file),
        **({"drain_ns": round(plan.drain_s * 1e9)} if plan.drain_s else {}),
        **({} if plan.grace_s is None else {"grace_ns": round(plan.grace_s * 1e9)}),
        **({"maps": list(plan.maps)} if plan.maps else {}),
        **({} if plan.timeline is None else {"timeline": dict(plan.timeline)}),
    }


def default_limit(kind: str, peak_bps: int, rtt_ns: int, mtu: int) -> Limit:
    """Return the limit of a queue that was given none: Linux's, or the bandwidth-delay product if it is more.

    Parameters
    ----------
    kind : str
        The kind of queue.
    peak_bps : int
        The link's highest rate.
    rtt_ns : int
        The round trip of the whole path without queues.
    mtu : int
        Bytes of the largest packet.
    """
    product_bytes = peak_bps * rtt_ns // 8_000_000_000
    return Limit(packets=max(LEAST_LIMIT_PACKETS[kind], -(-product_bytes // mtu)))


def _process(host: str, argv: Sequence[str], plan: LabPlan) -> dict[str, Json]:
    return {"host": host, "argv": list(argv), "confined": plan.confined}


def _absolute(path: FilePath | None) -> str | None:
    return None if path is None else str(path.absolute())


def _round_trip_ns(hops: Sequence[PathHop]) -> int:
    total = 0
    for hop in hops:
        for link in (hop.down, hop.up):
            if isinstance(link.delay, spec.ConstantDelay):
                total += link.delay.delay_ns
            elif isinstance(link.delay, DistributedDelay):
                total += link.delay.mean_ns
    return total


def _hop(hop: PathHop, path: PathModel, rtt_ns: int, traces: Traces, device: str = "") -> Hop:
    def stages(link: Link, direction: Direction) -> tuple[Stage, ...]:
        found = _stages(link, direction, path, rtt_ns, traces, device)
        return _checked(link, f"{hop.name}.{direction}", found, path, traces)

    kind: Literal["radio", "wired"] = "radio" if hop.kind == "radio" else "wired"
    return Hop(name=hop.name, kind=kind, down=stages(hop.down, "down"), up=stages(hop.up, "up"))


def _checked(link: Link, name: str, found: tuple[Stage, ...], path: PathModel, traces: Traces) -> tuple[Stage, ...]:
    """Return the stages of a link, with a note if its pattern falls below the rate that a limit in time needs.

    Raises
    ------
    UserError
        If the highest rate of the pattern is below it.
    """
    if not isinstance(link.rate, PatternFile | ScenePattern):
        return found
    for stage in found:
        limit = getattr(getattr(stage, "queue", None), "limit", None)
        if limit is None or limit.time_ns is None:
            continue
        lowest_bps, highest_bps = _rates_bps(traces.pattern(link.rate, path.seed))
        least = least_limit(limit, path.mtu, highest_bps)
        if least is not None:
            rate = f"the highest rate of the pattern, {format_rate(highest_bps)}"
            raise UserError(f"path: {name}: queue: {limit_in_words(limit, least, path.mtu, rate)}")
        if least_limit(limit, path.mtu, lowest_bps) is not None:
            needed_bps = -(-path.mtu * 8 * 10**9 // limit.time_ns)
            traces.notes.append(
                f"{name}: queue: a limit of {format_limit(limit)} lets no packet of {path.mtu} bytes pass while the"
                f" pattern's rate is below {format_rate(needed_bps)}: write a limit in packets, such as 100p, to let"
                " them pass"
            )
    return found


def _rates_bps(pattern: Pattern) -> tuple[int, int]:
    """Return the lowest rate above zero and the highest one; of opportunities, which have none, the mean."""
    if pattern.rate_bps is None:
        mean_bps = 0 if pattern.size_bytes is None else int(pattern.size_bytes.sum()) * 8 * 10**9 // pattern.period
        return mean_bps, mean_bps
    sent = pattern.rate_bps[pattern.rate_bps > 0]
    return (int(sent.min()), int(sent.max())) if len(sent) else (0, 0)


def _stages(
    link: Link, direction: Direction, path: PathModel, rtt_ns: int, traces: Traces, device: str
) -> tuple[Stage, ...]:
    found: list[Stage] = []
    if link.rate is not None:
        found.append(_server(link, link.rate, direction, path, rtt_ns, traces))
    limit = None if link.ue_limit is None else ue_limit_stage(link.ue_limit, direction)
    if limit is not None:
        found.insert(0 if direction == "up" else len(found), limit)
    if link.delay is not None:
        reorder = isinstance(link.delay, DistributedDelay) and link.delay.reorder
        found.append(spec.DelayStage(_delay(link.delay, path.seed, traces), reorder, link.delay_limit))
    if link.loss is not None:
        loss = spec.LossStage(
            _loss(link.loss, f"{device} {direction}".lstrip(), path.seed, traces),
            "superpacket" if link.loss_unit == "superpacket" else "packet",
        )
        found.insert(0 if link.loss_at == "entry" else len(found), loss)
    if link.duplicate is not None:
        found.append(spec.DuplicateStage(link.duplicate))
    if link.reorder is not None:
        found.append(link.reorder)
    if link.corrupt is not None:
        found.append(spec.CorruptStage(link.corrupt))
    return tuple(found)


def _server(link: Link, rate: Rate, direction: Direction, path: PathModel, rtt_ns: int, traces: Traces) -> Stage:
    """Return the stage that serves the link at its rate: a radio or a bottleneck."""
    served = _rate(rate, link.sampled, path.seed, traces)
    if link.radio is not None:
        air = cast("AirRate", served)  # `wavebed.path.layers.check_link` has refused the others
        if isinstance(link.radio, WifiSettings):
            return wifi_stage(link.radio, air)
        return radio_stage(link.radio, direction, air)
    queue = link.queue or WrittenQueue("droptail")
    if queue.has("limit") and queue.limit is None:
        peak_bps = (
            rate.rate_bps
            if isinstance(rate, spec.ConstantRate | spec.TokenBucketRate)
            else traces.peak_bps(rate, path.seed)
        )
        queue = replace(queue, limit=default_limit(queue.kind, peak_bps, rtt_ns, path.mtu))
    return spec.BottleneckStage(
        rate=served,
        queue=queue.build(),
        overhead_bytes=link.overhead_bytes,
        unit="superpacket" if link.queue_unit == "superpacket" else "packet",
        outage="drop" if link.outage == "drop" else "hold",
    )


def _rate(rate: Rate, sampled: bool, seed: int, traces: Traces) -> spec.Rate:
    match rate:
        case spec.ConstantRate():
            return spec.SampledRate(rate.rate_bps) if sampled else rate
        case spec.TokenBucketRate():
            return rate
        case PatternFile():
            file = traces.engine_path(rate)
            begin_ns = _begin_ns(rate.start, seed)
            if "bytes" in traces.columns(rate):
                return spec.OpportunitiesRate(file, rate.end, begin_ns)
        case ScenePattern():
            file = traces.realised_path(rate, seed)
            begin_ns = _begin_ns(rate.start, seed)
    if sampled:
        return spec.SampledRate(file=file, end=rate.end, start_ns=begin_ns)
    return spec.PatternRate(file, rate.end, begin_ns)


def _begin_ns(start: int | DrawnStart, seed: int) -> int:
    return start if isinstance(start, int) else start.drawn_ns(seed)


def _delay(delay: Delay, seed: int, traces: Traces) -> spec.Delay:
    match delay:
        case DistributedDelay():
            return spec.DistributionDelay(delay.shape, delay.mean_ns, delay.spread_ns, delay.correlation)
        case PatternFile():
            return spec.PatternDelay(traces.engine_path(delay), delay.end, _begin_ns(delay.start, seed))
        case ScenePattern():
            return spec.PatternDelay(traces.realised_path(delay, seed), delay.end, _begin_ns(delay.start, seed))
        case _:
            return delay


def _loss(loss: Loss, of: str, seed: int, traces: Traces) -> spec.Loss:
    if isinstance(loss, LostPackets | LostTimes | LimitedLoss):
        made, end = loss_pattern(loss, of, seed)
        loss = traces.add(made, f"losses-{of.replace(' ', '-')}-{seed}-{hash(loss):x}", end)
    if isinstance(loss, PatternFile):
        return spec.PatternLoss(traces.engine_path(loss), loss.end, _begin_ns(loss.start, seed))
    if isinstance(loss, ScenePattern):
        return spec.PatternLoss(traces.realised_path(loss, seed), loss.end, _begin_ns(loss.start, seed))
    return loss


def random_name() -> str:
    """Return a name for a laboratory that was given none."""
    letters = "abcdefghijkmnpqrstuvwxyz23456789"
    return "".join(letters[byte % len(letters)] for byte in os.urandom(5))
