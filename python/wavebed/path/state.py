"""The state of a running laboratory as types: the answer to ``show``, which ``wavebed ctl`` and the API print.

Counters only grow. Differences of two answers give rates; the mean time in a queue is a difference of times by one of
segments. A condition of ``null`` means that the link has none, or that it is not known without traffic; a counter of
``null``, that nobody counts it: between real hosts only interfaces count.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

__all__ = ["DirectionState", "Flows", "HopState", "HostState", "LabState", "LinkState", "StretchState"]
__all__ += ["TimelineState"]


class LinkState(Struct, frozen=True, forbid_unknown_fields=True):
    """One link: counters since time zero, its queue and its conditions now."""

    name: Annotated[str, Meta(description="`HOP.down` (towards the client) or `HOP.up`")]
    takes: Annotated[
        tuple[str, ...], Meta(description="the changes that it takes: `rate`, `delay`, `loss`, `pattern`, `handover`")
    ]
    offered_segments: Annotated[int | None, Meta(description="wire segments that entered")]
    offered_bytes: Annotated[int | None, Meta(description="their IP bytes")]
    duplicated_segments: Annotated[int | None, Meta(description="copies made by duplication")]
    delivered_segments: Annotated[int | None, Meta(description="segments that left at the far end")]
    delivered_bytes: Annotated[int | None, Meta(description="their IP bytes")]
    dropped_segments: Annotated[dict[str, int], Meta(description="segments dropped, by reason")]
    marked_segments: Annotated[int | None, Meta(description="segments marked CE")]
    l4s_marked_segments: Annotated[int | None, Meta(description="those of them that were ECT(1)")]
    l4s_dropped_segments: Annotated[int | None, Meta(description="dropped segments with ECT(1) or CE")]
    corrupted_segments: Annotated[int | None, Meta(description="segments with a flipped bit")]
    blocks_sent: Annotated[int | None, Meta(description="transmissions of radio blocks, repetitions included")]
    blocks_failed: Annotated[int | None, Meta(description="failed transmissions")]
    link_failures: Annotated[int | None, Meta(description="failures of the radio link")]
    queued_segments: Annotated[int | None, Meta(description="segments in the link now")]
    queued_bytes: Annotated[int | None, Meta(description="their IP bytes")]
    waited_ns: Annotated[int | None, Meta(description="sum of the times in the queue, modulo 2^64")]
    waited_segments: Annotated[int | None, Meta(description="segments in this sum")]
    rate_bps: Annotated[int | None, Meta(description="rate of the link now, bits per second")]
    delay_ns: Annotated[int | None, Meta(description="delay beside queueing now; the mean of a distribution")]
    loss: Annotated[float | None, Meta(description="probability of loss now, 0 to 1")]
    state: Annotated[
        str | None, Meta(description="state of the radio: `los`, `nlos`, `blocked`, `outage`, `handover`, `fallback`")
    ]
    sinr_db: Annotated[float | None, Meta(description="effective SINR of the data, dB")]


class DirectionState(Struct, frozen=True, forbid_unknown_fields=True):
    """One direction between two neighbouring hosts: the emulated one-way delay."""

    name: Annotated[str, Meta(description="`HOST-HOST.down` or `.up`")]
    transit_ns: Annotated[int, Meta(description="sum of the times from device to device, modulo 2^64")]
    transit_segments: Annotated[int, Meta(description="segments in this sum")]


class HostState(Struct, frozen=True, forbid_unknown_fields=True):
    """One host."""

    name: str
    ipv4: str | None
    ipv6: str | None
    interface: Annotated[str | None, Meta(description="of a real host: its interface towards the other")] = None
    clock_ahead_ms: Annotated[
        float | None, Meta(description="of a real host: its clock minus this machine's; null if one of them was set")
    ] = None
    clock_error_ms: Annotated[float | None, Meta(description="which it is never off by more than")] = None


class HopState(Struct, frozen=True, forbid_unknown_fields=True):
    """One hop, with a link in each direction."""

    name: str
    kind: Annotated[str, Meta(description="`wired` or `radio`")]


class Flows(Struct, frozen=True, forbid_unknown_fields=True):
    """The server's established TCP connections at the last sample."""

    count: int
    max_rtt_us: Annotated[int | None, Meta(description="the longest smoothed round trip (TCP_INFO), microseconds")]


class StretchState(Struct, frozen=True, forbid_unknown_fields=True):
    """A stretch of a timeline."""

    name: str
    start_ns: Annotated[int, Meta(description="when it begins in the timeline")]


class TimelineState(Struct, frozen=True, forbid_unknown_fields=True):
    """A timeline, and where it is."""

    position_ns: Annotated[int, Meta(description="time within it; its duration once it has ended")]
    duration_ns: Annotated[int, Meta(description="of one pass")]
    stretch: Annotated[str, Meta(description="the stretch there")]
    playing: Annotated[bool, Meta(description="false in a pause")]
    ended: Annotated[bool, Meta(description="whether it is over; its last values hold")]
    speed: Annotated[float, Meta(description="1: as written")]
    loop: Annotated[bool, Meta(description="whether it begins again at its end")]
    stretches: Annotated[tuple[StretchState, ...], Meta(description="all of them, in order")]


class LabState(Struct, frozen=True, forbid_unknown_fields=True):
    """A running laboratory."""

    name: str
    links: Annotated[tuple[LinkState, ...], Meta(description="none before time zero")]
    hosts: tuple[HostState, ...]
    hops: tuple[HopState, ...]
    now_ns: Annotated[int | None, Meta(description="time since time zero; null before")] = None
    zero_ns: Annotated[int | None, Meta(description="time zero on CLOCK_MONOTONIC; null before")] = None
    directions: tuple[DirectionState, ...] = ()
    flows: Annotated[Flows | None, Meta(description="null where connections are not sampled")] = None
    confined_user: Annotated[int | None, Meta(description="user number of confined programs")] = None
    in_flight_bytes: Annotated[int, Meta(description="bytes of packets in flight")] = 0
    pool_bytes: Annotated[int, Meta(description="memory of the packet pool")] = 0
    state: Annotated[
        str | None, Meta(description="of a bridge: `shaping`, or `unshaped` after a failure of its engine")
    ] = None
    ports: Annotated[dict[str, str] | None, Meta(description="of a bridge: the interfaces `a` and `b`")] = None
    frames: Annotated[
        tuple[dict[str, str | int | dict[str, int]], ...],
        Meta(
            description="of a bridge: the frames of each direction, from which port to which, and what became of them"
        ),
    ] = ()
    timeline: Annotated[TimelineState | None, Meta(description="the timeline that links follow; null without")] = None
