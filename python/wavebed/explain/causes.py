"""The causes of delays and losses: their codes, which programs may rely on, and their meaning."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

__all__ = ["CAUSES", "LATE", "LOSS_CAUSES", "MEANINGS", "PLACE", "Cause"]

Cause: TypeAlias = Literal[
    "propagation",
    "transmission",
    "queue",
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
    "slot": "first in the queue: for a slot of its direction, a HARQ process, other users, an opportunity",
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
