"""Where the hosts of a trial are: namespaces of the machine that runs it, or real hosts."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from wavebed.spec.part import Part

__all__ = ["GUEST_BYTES", "IN_NAMESPACES", "HostsLab", "LabSpec", "NamespacesLab", "Processor", "Time", "is_virtual"]

Address: TypeAlias = Annotated[str, Meta(pattern=r"^(local|ssh://[^\s]+)$")]
"""``local``, or an address of ssh."""
Processor: TypeAlias = Literal["exact", "infinite", "host"]
"""A model of the processor in virtual time."""
GUEST_BYTES = (1 << 30, 4000 << 20)
"""Least and most memory of a guest. With less, TCP has smaller buffers than on other machines; more was not tried."""
GuestBytes: TypeAlias = Annotated[int, Meta(ge=GUEST_BYTES[0], le=GUEST_BYTES[1])]
Slower: TypeAlias = Annotated[float, Meta(ge=0.01, le=1000)]
Time: TypeAlias = Literal["auto", "real", "virtual"]
"""The time of trials as it is asked for; ``auto`` chooses before a trial is resolved."""


class NamespacesLab(Part, frozen=True, tag_field="kind", tag="namespaces"):
    """Network namespaces of one machine, with the path between them.

    Parameters
    ----------
    time : str
        ``real``: the machine's; ``virtual``: that of a guest.
    processor : str
        Of a guest. ``exact``: computing takes no time, and each entry into the kernel a fixed one; ``infinite``:
        neither takes time; ``host``: computing takes that of the host.
    slower : float
        How many times slower than the host the processor ``host`` is.
    memory_bytes : int or None
        Most memory of a guest; ``None``: the most that there can be.
    """

    time: Literal["real", "virtual"] = "real"
    processor: Processor = "exact"
    slower: Slower = 1.0
    memory_bytes: GuestBytes | None = None


class HostsLab(Part, frozen=True, tag_field="kind", tag="hosts"):
    """Real hosts, with whatever lies between them.

    Parameters
    ----------
    server, client : str
        Where they are.
    server_address : str or None
        The server's address over the network under test; ``None``: that by which ssh reaches it.
    expected_rate_bps : int or None
        Rate of the access, for the estimate of the data volume.
    data_limit_bytes : int or None
        Most bytes that the client may send and receive in a trial.
    server_congestion_control, client_congestion_control : str or None
        Of the connections of the trial, by a route, where the workload sets none; ``None``: that of the host.
    modem : str
        What tells the state of the client's modem; ``auto``: what finds one.
    """

    server: Address
    client: Address
    server_address: str | None = None
    expected_rate_bps: Annotated[int, Meta(ge=1)] | None = None
    data_limit_bytes: Annotated[int, Meta(ge=1)] | None = None
    server_congestion_control: str | None = None
    client_congestion_control: str | None = None
    modem: Literal["auto", "none", "mmcli", "qmicli", "adb"] = "auto"


LabSpec: TypeAlias = NamespacesLab | HostsLab

IN_NAMESPACES = NamespacesLab()


def is_virtual(lab: LabSpec) -> bool:
    """Return whether a trial runs in virtual time."""
    return isinstance(lab, NamespacesLab) and lab.time == "virtual"
