"""5QI profiles: the packet delay budgets and packet error rates of TS 23.501 as the delay and the loss of a hop.

They are budgets, not measured networks: the standard says how late and how seldom a packet may arrive, and a network
that keeps within them is better than that. A constant delay and random losses, as of netem, is how a contribution to
3GPP TR 26.934 proposes to emulate them (S4-260113, noted).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["PROFILES", "SOURCE", "STATEMENT", "Profile"]

SOURCE = "3GPP TS 23.501, Table 5.7.4-1"
STATEMENT = "A budget, not a measured network: every packet takes the whole packet delay budget, one way."


class Profile(Struct, frozen=True):
    """A standardised 5QI.

    Parameters
    ----------
    number : int
        The 5QI.
    resource : str
        ``GBR``, ``non-GBR`` or ``delay-critical GBR``.
    delay_ms : int
        Packet delay budget, from the UE to the N6 interface of the core.
    error : str
        Packet error rate, as a percentage.
    service : str
        An example of a service.
    """

    number: int
    resource: str
    delay_ms: int
    error: str
    service: str

    def hop(self) -> Mapping[str, object]:
        """Return the keys of a hop."""
        return {"delay": f"{self.delay_ms}ms", "loss": self.error}


def _profiles() -> dict[str, Profile]:
    gbr, non_gbr, critical = "GBR", "non-GBR", "delay-critical GBR"
    uplink = "live uplink streaming"
    rows = (
        (1, gbr, 100, "1%", "conversational voice"),
        (2, gbr, 150, "0.1%", "conversational video"),
        (3, gbr, 50, "0.1%", "real-time gaming, monitoring of processes"),
        (4, gbr, 300, "0.0001%", "buffered video"),
        (65, gbr, 75, "1%", "mission-critical push to talk"),
        (66, gbr, 100, "1%", "push to talk"),
        (67, gbr, 100, "0.1%", "mission-critical video"),
        (71, gbr, 150, "0.0001%", uplink),
        (72, gbr, 300, "0.01%", uplink),
        (73, gbr, 300, "0.000001%", uplink),
        (74, gbr, 500, "0.000001%", uplink),
        (76, gbr, 500, "0.01%", uplink),
        (5, non_gbr, 100, "0.0001%", "signalling of calls (IMS)"),
        (6, non_gbr, 300, "0.0001%", "buffered video, web, e-mail and files over TCP"),
        (7, non_gbr, 100, "0.1%", "voice, live video, interactive gaming"),
        (8, non_gbr, 300, "0.0001%", "as 5qi-6, of lower priority"),
        (9, non_gbr, 300, "0.0001%", "as 5qi-6, of the lowest priority: the default bearer"),
        (69, non_gbr, 60, "0.0001%", "mission-critical signalling"),
        (70, non_gbr, 200, "0.0001%", "mission-critical data"),
        (79, non_gbr, 50, "1%", "messages of vehicles"),
        (80, non_gbr, 10, "0.0001%", "low-latency broadband, augmented reality"),
        (82, critical, 10, "0.01%", "discrete automation, bursts of 255 bytes"),
        (83, critical, 10, "0.01%", "discrete automation, bursts of 1354 bytes"),
        (84, critical, 30, "0.001%", "intelligent transport systems"),
        (85, critical, 5, "0.001%", "electricity distribution, high voltage"),
        (86, critical, 5, "0.01%", "messages of vehicles, driving together"),
        (87, critical, 5, "0.1%", "interactive services: tracking of motions, bursts of 500 bytes"),
        (88, critical, 10, "0.1%", "interactive services: tracking of motions, bursts of 1125 bytes"),
        (89, critical, 15, "0.01%", "interactive services: pictures that are rendered in the cloud"),
    )
    return {f"5qi-{row[0]}": Profile(*row) for row in sorted(rows)}


PROFILES = _profiles()
"""By name, as ``5qi-9``."""
