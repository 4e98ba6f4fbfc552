"""The path through the device: addresses, tags and flows of the test frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.errors import UserError
from wavebed.forward.arithmetic import ETHERNET_BYTES, FCS_BYTES, PPPOE_BYTES, SMALLEST_FRAME_BYTES, VLAN_BYTES
from wavebed.forward.model import FrameSpec, Span
from wavebed.forward.plain import Value

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["FLOWS", "Layout", "Tags"]


FIRST_UDP_PORT = 49152
"""RFC 4814 section 4.2 wants ports of many values; these are nobody's (RFC 6335: the dynamic ones)."""
FLOWS = 256
"""Enough that a device with 64 queues gets some in each, few enough for the smallest connection table."""


class Tags(Value, frozen=True):
    """The tags between the Ethernet header and the IP header."""

    vlan: int | None = None
    pppoe_session: int | None = None

    @property
    def bytes(self) -> int:
        """The bytes that they add to a frame."""
        return VLAN_BYTES * (self.vlan is not None) + PPPOE_BYTES * (self.pppoe_session is not None)


class Layout(Value, frozen=True):
    """One direction through the device.

    Parameters
    ----------
    sources, destinations : Span
        Addresses of the hosts that the ports stand for: at the sending and at the receiving port.
    next_hop : str or None
        The device's address at the sending port. ``None``: it forwards Ethernet frames as a bridge does, so that the
        first destination itself is asked for; the answer crosses the device, which learns both addresses from it.
    back_hop : str or None
        The device's address at the receiving port, if it has one there.
    tags, rx_tags : Tags
        In front of the IP header at either port; ``None`` as `rx_tags`: the same at both.
    flows : int
        Distinct combinations of addresses and ports (RFC 4814).
    """

    sources: Span
    destinations: Span
    next_hop: str | None = None
    back_hop: str | None = None
    source_ports: Span = Span(FIRST_UDP_PORT, 64)
    destination_ports: Span = Span(FIRST_UDP_PORT, 64)
    flows: int = FLOWS
    tags: Tags = Tags()
    rx_tags: Tags | None = None

    @property
    def arriving(self) -> Tags:
        """The tags at the receiving port."""
        return self.tags if self.rx_tags is None else self.rx_tags

    def arriving_sizes(self, sizes_bytes: Sequence[int]) -> tuple[int, ...]:
        """Return the sizes of the frames at the receiving port.

        Raises
        ------
        UserError
            If a frame would be shorter than 64 bytes there: padding would change its size.
        """
        sizes = tuple(size - self.tags.bytes + self.arriving.bytes for size in sizes_bytes)
        if min(sizes) < SMALLEST_FRAME_BYTES <= min(sizes_bytes):
            raise UserError(
                f"a frame of {min(sizes_bytes)} bytes would leave the device with {min(sizes)}: the smallest that keeps"
                f" its size is {SMALLEST_FRAME_BYTES + self.tags.bytes - self.arriving.bytes}"
            )
        return sizes

    def frames(self, sizes_bytes: Sequence[int], source_mac: str, destination_mac: str) -> FrameSpec:
        """Return the frames to send."""
        return self._spec(tuple(sizes_bytes), self.tags, source_mac, destination_mac)

    def arriving_frames(self, sizes_bytes: Sequence[int], source_mac: str, destination_mac: str) -> FrameSpec:
        """Return the frames to expect."""
        return self._spec(self.arriving_sizes(sizes_bytes), self.arriving, source_mac, destination_mac)

    def _spec(self, sizes: tuple[int, ...], tags: Tags, source_mac: str, destination_mac: str) -> FrameSpec:
        return FrameSpec(
            sizes_bytes=sizes,
            source_mac=source_mac,
            destination_mac=destination_mac,
            sources=self.sources,
            destinations=self.destinations,
            source_ports=self.source_ports,
            destination_ports=self.destination_ports,
            flows=self.flows,
            vlan=tags.vlan,
            pppoe_session=tags.pppoe_session,
        )

    def payload_of_link(self, size_bytes: int, tags: Tags) -> int:
        """Return the MTU that a frame of this size needs: all bytes behind the Ethernet header and VLAN tag."""
        vlan = VLAN_BYTES if tags.vlan is not None else 0
        return size_bytes - FCS_BYTES - ETHERNET_BYTES - vlan
