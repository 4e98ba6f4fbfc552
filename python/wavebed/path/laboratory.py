"""Resolve a path into the laboratory file, which ``wavebed-core`` reads: every value explicit, every unit in its key.

Stages of a link stand in this order: bottleneck or radio, device, delay, loss, duplication, reordering, corruption; in
an uplink the device stands before the radio. So what the radio loses has waited and used its time on air, as on a real
radio; ``loss-at = "entry"`` puts the loss first.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from wavebed.path.model import (
    ConstantDelay,
    ConstantRate,
    DistributedDelay,
    FourStateLoss,
    GilbertElliottLoss,
    IndependentLoss,
    PatternFile,
    Queue,
    ScenePattern,
    TokenBucket,
)
from wavebed.radio.model import WifiSettings
from wavebed.radio.stage import device_stage, queue_json, radio_stage, wifi_stage
from wavebed.units import Limit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path as FilePath
    from typing import Literal

    from wavebed.path.model import Delay, Link, Loss, PathModel, Rate, Segment
    from wavebed.path.traces import Traces

__all__ = ["Json", "LabPlan", "default_limit", "laboratory_file", "random_name"]

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"

VERSION = 1
SAMPLE_FLOWS_NS = 10_000_000
SAMPLE_CPU_NS = 100_000_000
LEAST_LIMIT_PACKETS = {"droptail": 1000, "drophead": 1000, "codel": 1000, "fq_codel": 10_240}
"""The smallest default limits: those of Linux (netem and pfifo, codel, fq_codel)."""


@dataclass(frozen=True, slots=True)
class LabPlan:
    """What a laboratory does beside its path.

    Parameters
    ----------
    name : str
        Its name, for ``wavebed ctl``.
    command : sequence of str or None
        What runs on the client; ``None`` for a laboratory that is driven through its socket.
    background : sequence of (str, sequence of str)
        Host and command of what runs beside.
    log_dir, pcap_dir, summary_file : pathlib.Path or None
        Where the series, the captures and the summary go.
    wait : bool
        Whether time begins only when it is told to.
    sample : bool
        Whether connections and processors are sampled into `log_dir`.
    confine : mapping or None
        How confined programs are confined, by `wavebed.path.confine.confinement_rules`; ``None``: none can be.
    confined : bool
        Whether `command` and `background` are confined.
    """

    name: str
    command: Sequence[str] | None = None
    background: Sequence[tuple[str, Sequence[str]]] = field(default_factory=tuple)
    log_dir: FilePath | None = None
    pcap_dir: FilePath | None = None
    summary_file: FilePath | None = None
    wait: bool = False
    sample: bool = False
    confine: Mapping[str, Json] | None = None
    confined: bool = False


def laboratory_file(path: PathModel, plan: LabPlan, traces: Traces) -> dict[str, Json]:
    """Return the laboratory file of `path`.

    Raises
    ------
    UserError
        If a pattern cannot be read.
    """
    cut = len(path.segments) if path.edge_after is None else path.edge_after
    hops = [hop for hop in (path.segments[:cut], path.segments[cut:]) if hop]
    rtt_ns = _round_trip_ns(path)
    join: dict[str, Json] = {"kind": path.join.kind}
    if path.join.time_ns is not None:
        join["time_ns"] = path.join.time_ns
    return {
        "version": VERSION,
        "name": plan.name,
        "seed": path.seed,
        "mtu": path.mtu,
        "nat": path.nat,
        "wait": plan.wait,
        "sample": {"flows_ns": SAMPLE_FLOWS_NS, "cpu_ns": SAMPLE_CPU_NS} if plan.sample else None,
        "join": join,
        "packet_memory_bytes": path.packet_memory_bytes,
        "hosts": [
            {"name": host.name, "congestion_control": host.congestion_control, "sysctls": dict(host.sysctls)}
            for host in path.hosts
        ],
        "hops": [{"segments": [_segment(segment, path, rtt_ns, traces) for segment in hop]} for hop in hops],
        "background": [_process(host, argv, plan) for host, argv in plan.background],
        "command": None if plan.command is None else _process("client", plan.command, plan),
        "confine": None if plan.confine is None else dict(plan.confine),
        "log_dir": _absolute(plan.log_dir),
        "pcap_dir": _absolute(plan.pcap_dir),
        "summary_file": _absolute(plan.summary_file),
    }


def default_limit(kind: str, peak_bps: int, rtt_ns: int, mtu: int) -> Limit:
    """Return the limit of a queue that was given none: that of Linux, or the bandwidth-delay product if it is more.

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


def _round_trip_ns(path: PathModel) -> int:
    total = 0
    for segment in path.segments:
        for link in (segment.down, segment.up):
            if isinstance(link.delay, ConstantDelay):
                total += link.delay.delay_ns
            elif isinstance(link.delay, DistributedDelay):
                total += link.delay.mean_ns
    return total


def _segment(segment: Segment, path: PathModel, rtt_ns: int, traces: Traces) -> dict[str, Json]:
    return {
        "name": segment.name,
        "kind": segment.kind,
        "down": _stages(segment.down, "down", path, rtt_ns, traces),
        "up": _stages(segment.up, "up", path, rtt_ns, traces),
    }


def _stages(link: Link, direction: Literal["down", "up"], path: PathModel, rtt_ns: int, traces: Traces) -> list[Json]:
    stages: list[Json] = []
    if link.rate is not None:
        stages.append(_server(link, link.rate, direction, path, rtt_ns, traces))
    device = None if link.device is None else device_stage(link.device, direction)
    if device is not None:
        stages.insert(0 if direction == "up" else len(stages), device)
    if link.delay is not None:
        reorder = isinstance(link.delay, DistributedDelay) and link.delay.reorder
        stages.append({"stage": "delay", "delay": _delay(link.delay, traces), "reorder": reorder})
    if link.loss is not None:
        loss: Json = {"stage": "loss", "model": _loss(link.loss, traces), "unit": link.loss_unit}
        stages.insert(0 if link.loss_at == "entry" else len(stages), loss)
    if link.duplicate is not None:
        stages.append({"stage": "duplicate", "probability": link.duplicate})
    if link.reorder is not None:
        held = link.reorder
        stages.append({"stage": "reorder", "probability": held.probability, "delay_ns": held.delay_ns})
    if link.corrupt is not None:
        stages.append({"stage": "corrupt", "probability": link.corrupt})
    return stages


def _server(
    link: Link, rate: Rate, direction: Literal["down", "up"], path: PathModel, rtt_ns: int, traces: Traces
) -> dict[str, Json]:
    """Return what serves the link at its rate: its radio, or a bottleneck."""
    served = _rate(rate, link.sampled, path.seed, traces)
    if link.radio is not None:
        if isinstance(link.radio, WifiSettings):
            return wifi_stage(link.radio, served)
        return radio_stage(link.radio, direction, served)
    queue = link.queue or Queue("droptail")
    if queue.kind != "infinite" and queue.limit is None:
        peak_bps = rate.rate_bps if isinstance(rate, ConstantRate | TokenBucket) else traces.peak_bps(rate, path.seed)
        queue = replace(queue, limit=default_limit(queue.kind, peak_bps, rtt_ns, path.mtu))
    return {
        "stage": "bottleneck",
        "rate": served,
        "queue": queue_json(queue),
        "overhead_bytes": link.overhead_bytes,
        "unit": link.queue_unit,
        "outage": link.outage,
    }


def _pattern(pattern: PatternFile, traces: Traces) -> dict[str, Json]:
    return {"file": traces.engine_path(pattern), "end": pattern.end, "start_ns": pattern.start_ns}


def _rate(rate: Rate, sampled: bool, seed: int, traces: Traces) -> dict[str, Json]:
    match rate:
        case ConstantRate():
            return {"kind": "sampled" if sampled else "constant", "rate_bps": rate.rate_bps}
        case TokenBucket():
            return {"kind": "token_bucket", "rate_bps": rate.rate_bps, "burst_bytes": rate.burst_bytes}
        case PatternFile():
            kind = "opportunities" if "bytes" in traces.columns(rate) else "pattern"
            return {"kind": "sampled" if sampled else kind, **_pattern(rate, traces)}
        case ScenePattern():
            return {
                "kind": "sampled" if sampled else "pattern",
                "file": traces.realised_path(rate, seed),
                "end": rate.end,
                "start_ns": rate.start_ns,
            }


def _delay(delay: Delay, traces: Traces) -> dict[str, Json]:
    match delay:
        case ConstantDelay():
            return {"kind": "constant", "delay_ns": delay.delay_ns}
        case DistributedDelay():
            return {
                "kind": "distribution",
                "shape": delay.shape,
                "mean_ns": delay.mean_ns,
                "spread_ns": delay.spread_ns,
                "correlation": delay.correlation,
            }
        case PatternFile():
            return {"kind": "pattern", **_pattern(delay, traces)}


def _loss(loss: Loss, traces: Traces) -> dict[str, Json]:
    match loss:
        case IndependentLoss():
            return {"kind": "independent", "probability": loss.probability}
        case GilbertElliottLoss():
            return {
                "kind": "gilbert_elliott",
                "p": loss.p,
                "r": loss.r,
                "good_loss": loss.good_loss,
                "bad_loss": loss.bad_loss,
            }
        case FourStateLoss():
            return {
                "kind": "four_state",
                "p13": loss.p13,
                "p31": loss.p31,
                "p23": loss.p23,
                "p32": loss.p32,
                "p14": loss.p14,
            }
        case PatternFile():
            return {"kind": "pattern", **_pattern(loss, traces)}


def random_name() -> str:
    """Return a name for a laboratory that was given none."""
    letters = "abcdefghijkmnpqrstuvwxyz23456789"
    return "".join(letters[byte % len(letters)] for byte in os.urandom(5))
