"""The causes of delays and losses: their codes, which programs may rely on, and their meaning."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from msgspec import Struct

Cause: TypeAlias = Literal[
    "propagation",
    "transmission",
    "queue",
    "turn",
    "slot",
    "grant",
    "connection",
    "outage",
    "handover",
    "harq",
    "rlc",
    "reordering",
    "ue",
    "jitter",
    "host",
    "unexplained",
]
CAUSES: tuple[Cause, ...] = get_args(Cause)
"""All causes, in the order in which a picture stacks them."""
PLACE: dict[Cause, int] = {cause: place for place, cause in enumerate(CAUSES)}
LATE = CAUSES[1:]
"""All but the base delay."""

MEANINGS: dict[Cause, str] = {
    "propagation": "base delay: the shortest time that a packet took in the delay stages of the path",
    "transmission": "the packet itself at the rate of the link; of a radio its slots and their decoding, once",
    "queue": "behind other packets",
    "turn": "first in the queue: while its slots went to other users of the cell",
    "slot": "first in the queue: for a slot of its direction, a HARQ process, an opportunity",
    "grant": "first in the queue of an uplink: for the base station's grant",
    "connection": "for the UE: sleep (DRX), RRC resume, re-establishment after a radio link failure",
    "outage": "in queue, server or radio while the rate of the link was zero",
    "handover": "in queue, server or radio during a handover",
    "harq": "for retransmissions of its transport blocks",
    "rlc": "for data that HARQ had given up on and RLC sent again",
    "reordering": "received, behind earlier packets that were not (RLC or PDCP)",
    "ue": "in the UE: its limit of packets per second",
    "jitter": "in the delay stages, above the base delay",
    "host": "due, but not yet written to the device: lateness of this machine, coalescing",
    "unexplained": "not in the packet log",
}

LOSS_CAUSES: dict[str, Cause] = {
    "overflow": "queue",
    "aqm": "queue",
    "discard": "queue",
    "outage": "outage",
    "ended": "outage",
    "handover": "handover",
    "block": "rlc",
    "late": "reordering",
    "packet_memory": "host",
    "malformed": "host",
}
"""The cause of each drop reason but ``loss`` and ``corrupted_header``, which are impairments themselves."""


class CauseShare(Struct, frozen=True):
    """One cause, over the delivered segments.

    Parameters
    ----------
    mean_ms : float
        Mean time per segment.
    max_ms : float
        The longest of a single segment.
    late_percent : float or None
        Part of all time above the base delay; ``None`` for the base delay, and if nothing was late.
    """

    cause: Cause
    mean_ms: float
    max_ms: float
    late_percent: float | None


class Turn(Struct, frozen=True):
    """The cause `turn` by the user who was served meanwhile, over the delivered segments.

    Parameters
    ----------
    device : str or None
        Of the cell; ``None`` for a modelled user.
    segments : int
        How many waited for it.
    mean_ms : float
        Mean time per delivered segment of the direction.
    max_ms : float
        The longest of a single segment.
    """

    device: str | None
    segments: int
    mean_ms: float
    max_ms: float


class Lost(Struct, frozen=True):
    """Segments that one link dropped for one reason; `cause` is ``None`` if the reason is an impairment of its own."""

    link: str
    reason: str
    cause: Cause | None
    segments: int


class Moment(Struct, frozen=True):
    """A time in which delays were long or packets were lost, by the time at which they were sent.

    Parameters
    ----------
    late_max_ms : float or None
        The longest time above the base delay; ``None`` if nothing was delivered.
    late_ms_by_cause : dict
        The same by cause: it sums to `late_max_ms`.
    turn_of : str or None
        The device that was served during its `turn`; ``None`` for a modelled user or without a turn.
    text : str
        The same in a sentence.
    """

    start_s: float
    end_s: float
    segments: int
    lost_segments: int
    late_max_ms: float | None
    late_mean_ms: float | None
    late_ms_by_cause: dict[Cause, float]
    turn_of: str | None
    lost: list[Lost]
    text: str


class Window(Struct, frozen=True):
    """One step of time, by the time at which packets were sent; `mean_ms_by_cause` is per delivered segment."""

    start_s: float
    segments: int
    lost_segments: int
    delay_mean_ms: float | None
    delay_max_ms: float | None
    mean_ms_by_cause: dict[Cause, float]


class OfDirection(Struct, frozen=True):
    """One direction between two hosts; without a packet log, one link.

    Parameters
    ----------
    base_delay_ms : float or None
        Delay of the path alone: the `propagation`. All above it is late. ``None`` where nothing was delivered, and
        without a packet log.
    delay_mean_ms, delay_p50_ms, delay_p95_ms, delay_p99_ms, delay_max_ms : float or None
        One-way delay over the delivered segments; without a packet log only what `causes` has.
    unfinished_segments : int or None
        Still on the way at the end; ``None`` without a packet log.
    blocks_sent, blocks_failed, link_failures : int
        Of the radios of these links.
    turns : list of Turn
        The cause `turn` by the user who was served, the longest sum first.
    """

    name: str
    links: list[str]
    segments: int
    delivered_segments: int
    lost_segments: int
    unfinished_segments: int | None
    base_delay_ms: float | None
    delay_mean_ms: float | None
    delay_p50_ms: float | None
    delay_p95_ms: float | None
    delay_p99_ms: float | None
    delay_max_ms: float | None
    late_mean_ms: float | None
    blocks_sent: int
    blocks_failed: int
    link_failures: int
    causes: list[CauseShare]
    turns: list[Turn]
    lost: list[Lost]
    worst_delays: list[Moment]
    worst_losses: list[Moment]
    windows: list[Window]


class HostLateness(Struct, frozen=True):
    """The latest departure of a direction: how long it was written after its due time."""

    direction: str
    late_max_ms: float
    at_s: float


class StallCauses(Struct, frozen=True):
    """The longest delay of a direction around a stall."""

    direction: str
    late_max_ms: float | None
    lost_segments: int
    late_ms_by_cause: dict[Cause, float]


class Stall(Struct, frozen=True):
    """A time in which a workload's user waited: a stall or the start of a video, a freeze of a call, a page load."""

    workload: str
    kind: Literal["stall", "startup", "freeze", "page load"]
    start_s: float
    end_s: float
    text: str
    causes: list[StallCauses]


class Explanation(Struct, frozen=True):
    """Why packets of a trial were late or lost.

    Parameters
    ----------
    trial : str
        Its folder.
    source : str
        ``packets``: the packet log, to the nanosecond, by the time of sending; ``series``: the series per millisecond,
        which know queues, outages and losses only, by the time of leaving the queue.
    step_ms : float
        Length of `windows`.
    meanings : dict
        Of the causes that occur.
    missing : list of str
        What the trial did not record, a line each.
    """

    trial: str
    verdict: str
    source: Literal["packets", "series"]
    start_s: float
    end_s: float
    step_ms: float
    directions: list[OfDirection]
    hosts: list[HostLateness]
    stalls: list[Stall]
    meanings: dict[Cause, str]
    missing: list[str]
