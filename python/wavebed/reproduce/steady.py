"""What models of TCP know of a trial: round trip, loss, rate and flows between the hosts of its bulk transfer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wavebed.reproduce.tcp_models import HEADERS
from wavebed.spec.link import Bottleneck, Constant, ConstantDelay, Delay, Independent, Loss

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wavebed.spec.network import Leg, Stage
    from wavebed.spec.trial import TrialSpec, WorkloadSpec

__all__ = ["Steady", "steady_of"]


@dataclass(frozen=True, slots=True)
class Steady:
    """A path that does not change, and the flows on it.

    Parameters
    ----------
    rtt : float
        Round trip of an empty path, seconds.
    loss : float
        Probability that a packet towards the receiver is lost, from 0 to 1; losses are independent.
    link_mbps : float or None
        Least rate towards the receiver, Mbit/s of IP packets; None: no limit.
    flows : int
        How many.
    mss : int
        Bytes of payload of a segment.
    """

    rtt: float
    loss: float
    link_mbps: float | None
    flows: int
    mss: int


def steady_of(spec: TrialSpec) -> Steady | None:
    """Return what models know of the first TCP transfer of a trial; None if its path changes or has other stages."""
    bulk = next((each for each in spec.workloads if each.kind == "bulk" and each.options["protocol"] == "tcp"), None)
    if bulk is None or bulk.options["direction"] not in ("down", "up"):
        return None
    legs = _legs(spec.network.legs, bulk)
    down, up = ([*_stages(legs, towards)] for towards in ("down", "up"))
    if not legs or not all(_known(stage) for stage in (*down, *up)):
        return None
    data = down if bulk.options["direction"] == "down" else up
    rates = [
        each.rate.rate_bps / 1e6 for each in data if isinstance(each, Bottleneck) and isinstance(each.rate, Constant)
    ]
    kept = [
        1 - each.model.probability for each in data if isinstance(each, Loss) and isinstance(each.model, Independent)
    ]
    streams = bulk.options["streams"]
    assert isinstance(streams, int)
    rtt = sum(
        each.delay.delay_ns
        for each in (*down, *up)
        if isinstance(each, Delay) and isinstance(each.delay, ConstantDelay)
    )
    return Steady(rtt / 1e9, 1 - math.prod(kept), min(rates, default=None), streams, spec.network.mtu - HEADERS)


def _legs(legs: Sequence[Leg], bulk: WorkloadSpec) -> list[Leg]:
    """Return the legs of a chain of hosts from the server of a workload to its client; empty if there is no chain."""
    after = {leg.start: leg for leg in legs}
    found: list[Leg] = []
    here = bulk.server
    while here != bulk.client:
        leg = after.get(here)
        if leg is None or leg in found:
            return []
        found.append(leg)
        here = leg.end
    return found


def _stages(legs: Sequence[Leg], towards: str) -> Iterator[Stage]:
    for leg in legs:
        for hop in leg.hops:
            yield from hop.down if towards == "down" else hop.up


def _known(stage: Stage) -> bool:
    """Return whether the models know of a stage: a constant rate or delay, or independent losses of packets."""
    if isinstance(stage, Bottleneck):
        return isinstance(stage.rate, Constant)
    if isinstance(stage, Delay):
        return isinstance(stage.delay, ConstantDelay) and stage.limit_packets is None
    return isinstance(stage, Loss) and isinstance(stage.model, Independent) and stage.unit == "packet"
