"""What models of TCP know of a trial: round trip, loss, rate and flows between the hosts of its bulk transfer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wavebed.reproduce.tcp_models import HEADERS
from wavebed.spec.types import BottleneckStage, ConstantDelay, ConstantRate, DelayStage, IndependentLoss, LossStage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wavebed.spec.trial import TrialSpec, WorkloadSpec
    from wavebed.spec.types import Leg, Stage

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
    if not legs:
        return None
    streams = bulk.options["streams"]
    assert isinstance(streams, int)
    rtt_ns, kept, rates = 0, 1.0, []
    for towards, stage in _stages(legs):
        is_data = towards == bulk.options["direction"]
        match stage:
            case DelayStage(delay=ConstantDelay(delay_ns=delay_ns), limit_packets=None):
                rtt_ns += delay_ns
            case BottleneckStage(rate=ConstantRate(rate_bps=rate_bps)):
                rates += [rate_bps / 1e6] if is_data else []
            case LossStage(model=IndependentLoss(probability=probability), unit="packet"):
                kept *= 1 - probability if is_data else 1
            case _:
                return None
    return Steady(rtt_ns / 1e9, 1 - kept, min(rates, default=None), streams, spec.network.mtu - HEADERS)


def _legs(legs: Sequence[Leg], bulk: WorkloadSpec) -> list[Leg]:
    """Return the legs of a chain of hosts from the server of a workload to its client; empty if there is no chain."""
    after = {leg.start: leg for leg in reversed(legs)}  # the first of two that leave a host
    found: list[Leg] = []
    here = bulk.server
    while here != bulk.client:
        leg = after.get(here)
        if leg is None or leg in found:
            return []
        found.append(leg)
        here = leg.end
    return found


def _stages(legs: Sequence[Leg]) -> Iterator[tuple[str, Stage]]:
    """Yield each stage and its direction."""
    for leg in legs:
        for hop in leg.hops:
            yield from (("down", stage) for stage in hop.down)
            yield from (("up", stage) for stage in hop.up)
