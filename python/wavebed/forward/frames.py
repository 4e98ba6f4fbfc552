"""Test frames: their sizes, rates, mixes, and the addresses with which they cross the device.

A *frame* is counted with its frame check sequence (FCS), as RFC 2544 counts: an 18-byte UDP payload over IPv4 is a
frame of 64 bytes, and a capture shows 60. On the wire each frame takes 20 bytes more (IEEE 802.3: preamble 7, start
delimiter 1, gap 12); the rate with those is the rate at *L1*, and at line rate it is the speed of the link.
"""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING

from wavebed.errors import UserError
from wavebed.forward.model import FrameSpec, PlainValue, ValueRange

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

L1_BYTES = 20
"""Preamble 7, start delimiter 1, inter-frame gap 12."""
FCS_BYTES = 4
STAMP_BYTES = 18
"""Number, time and trial that every test frame carries."""
ETHERNET_BYTES = 14
VLAN_BYTES = 4
PPPOE_BYTES = 8
"""PPPoE 6 and PPP 2."""
IPV4_BYTES, IPV6_BYTES, UDP_BYTES = 20, 40, 8
SMALLEST_FRAME_BYTES = 64
LARGEST_PAYLOAD_BYTES = 1500
"""The largest payload of an Ethernet frame that is not a jumbo frame, after header and tag."""

RFC2544_SIZES_BYTES = (64, 128, 256, 512, 1024, 1280, 1518)
"""RFC 2544, section 9.1."""


class Headers(PlainValue, frozen=True):
    """The headers of a test frame.

    Parameters
    ----------
    ipv6, vlan, pppoe : bool
        IPv6 in place of IPv4; an 802.1Q tag; a PPPoE session.
    """

    ipv6: bool = False
    vlan: bool = False
    pppoe: bool = False

    @property
    def overhead_bytes(self) -> int:
        """Bytes of a frame that are not UDP payload, FCS included: 46 over IPv4."""
        ip = IPV6_BYTES if self.ipv6 else IPV4_BYTES
        return ETHERNET_BYTES + self.vlan * VLAN_BYTES + self.pppoe * PPPOE_BYTES + ip + UDP_BYTES + FCS_BYTES

    @property
    def smallest_stamped_bytes(self) -> int:
        """The smallest test frame, with its stamp: 64 over IPv4, 68 with a tag, 72 with PPPoE, 84 over IPv6."""
        return max(SMALLEST_FRAME_BYTES, self.overhead_bytes + STAMP_BYTES)

    @property
    def largest_bytes(self) -> int:
        """The largest frame on a link with an MTU of 1500: 1518, or 1522 with a tag."""
        return ETHERNET_BYTES + self.vlan * VLAN_BYTES + LARGEST_PAYLOAD_BYTES + FCS_BYTES

    def frame_bytes(self, payload_bytes: int) -> int:
        """Return the size of the frame around a UDP payload; Ethernet pads small ones to 64."""
        return max(SMALLEST_FRAME_BYTES, self.overhead_bytes + payload_bytes)


class Rates(PlainValue, frozen=True):
    """One rate in all its units.

    Parameters
    ----------
    l1_mbps : float
        Mbit/s on the wire: frame, preamble and gap. The speed of the link at line rate.
    frame_mbps : float
        Mbit/s of frames with FCS.
    payload_mbps : float
        Mbit/s of UDP payload, as iperf3 prints.
    """

    pps: float
    l1_mbps: float
    frame_mbps: float
    payload_mbps: float

    @classmethod
    def of_pps(cls, pps: float, sizes_bytes: Sequence[int], headers: Headers) -> Rates:
        """Return the rates of frames of these sizes, in equal parts, by their number per second."""
        frame = fmean(sizes_bytes)
        per_byte = pps * 8 / 1e6
        return cls(
            pps, per_byte * (frame + L1_BYTES), per_byte * frame, per_byte * max(frame - headers.overhead_bytes, 0)
        )


def line_rate_pps(link_mbps: float, sizes_bytes: Sequence[int]) -> float:
    """Return the frames per second that a link carries at most: link / (8 · (frame + 20)); for a mix, its mean."""
    return link_mbps * 1e6 / (8 * (fmean(sizes_bytes) + L1_BYTES))


def check_sizes(sizes_bytes: Iterable[int], headers: Headers, mtu: int = LARGEST_PAYLOAD_BYTES) -> None:
    """Refuse sizes that no such frame can have.

    Raises
    ------
    UserError
        If a size is too small for its headers and the stamp, or larger than `mtu` allows.
    """
    smallest = headers.smallest_stamped_bytes
    largest = headers.largest_bytes - LARGEST_PAYLOAD_BYTES + mtu
    for size in sizes_bytes:
        if size < smallest:
            raise UserError(f"size {size}: headers and the {STAMP_BYTES} B stamp need at least {smallest} B")
        if size > largest:
            raise UserError(f"size {size}: an MTU of {mtu} carries at most {largest} B")


class StudyConversion(PlainValue, frozen=True):
    """A payload rate converted by the study's formula and by the right one.

    Parameters
    ----------
    payload_mbps : float
        As iperf3 prints it.
    payload_bytes, frame_bytes : int
        18 and 64 in the study.
    study_mpps : float
        The printed formula: Mbit/s ÷ 8 ÷ (frame + 8 + 12). Right only for Mbit/s at L1.
    corrected_mpps : float
        Mbit/s ÷ 8 ÷ payload.
    factor : float
        How many times too low the first is: 4.67 at 64 bytes.
    possible : bool
        Whether the corrected rate is not above it, but for the rounding of printed figures (0.1 %).
    """

    payload_mbps: float
    payload_bytes: int
    frame_bytes: int
    study_mpps: float
    corrected_mpps: float
    factor: float
    corrected: Rates
    line_rate_mpps: float
    possible: bool


def study_conversion(payload_mbps: float, payload_bytes: int = 18, link_mbps: float = 1000.0) -> StudyConversion:
    """Set the study's conversion of an iperf3 figure beside the right one (UDP over IPv4, as in the study)."""
    headers = Headers()
    frame = headers.frame_bytes(payload_bytes)
    bits = payload_mbps / 8
    study, corrected = bits / (frame + L1_BYTES), bits / payload_bytes
    line = line_rate_pps(link_mbps, [frame])
    return StudyConversion(
        payload_mbps=payload_mbps,
        payload_bytes=payload_bytes,
        frame_bytes=frame,
        study_mpps=study,
        corrected_mpps=corrected,
        factor=corrected / study if study else (frame + L1_BYTES) / payload_bytes,
        corrected=Rates.of_pps(corrected * 1e6, [frame], headers),
        line_rate_mpps=line / 1e6,
        possible=corrected * 1e6 <= line * 1.001,
    )


LETTERS = {64: "a", 128: "b", 256: "c", 512: "d", 1024: "e", 1280: "f", 1518: "g", 2112: "h", 9000: "i", 16000: "j"}
"""RFC 6985, section 3; other sizes get a capital letter, which is explained (section 5)."""


def spread(counts: Iterable[tuple[int, int]]) -> tuple[int, ...]:
    """Return a row of frame sizes with these counts, each size spread evenly over the row.

    A row that sends all its large frames at once would be a burst of its own. The k-th of n frames of a size
    belongs at (k + 1/2) / n of the row; frames are sorted by that place, the rarer size first where two agree.

    Parameters
    ----------
    counts : iterable of (int, int)
        Size in bytes, and how many of them.
    """
    places = [((k + 0.5) / count, count, size) for size, count in counts for k in range(count)]
    return tuple(size for _, _, size in sorted(places))


SIMPLE_IMIX = spread([(64, 7), (594, 4), (1518, 1)])
"""The simple mix, 7:4:1."""


def genome(sizes_bytes: Sequence[int]) -> str:
    """Return a row of sizes as RFC 6985 writes it: ``IMIX - aAaAaagAaaAa (A=594)``.

    Raises
    ------
    UserError
        If more than 26 sizes have no letter.
    """
    own: dict[int, str] = {}
    for size in sizes_bytes:
        if size not in LETTERS and size not in own:
            if len(own) == 26:
                raise UserError("a mix has at most 26 sizes of its own")
            own[size] = chr(ord("A") + len(own))
    letters = "".join(LETTERS.get(size) or own[size] for size in sizes_bytes)
    explained = ", ".join(f"{letter}={size}" for size, letter in own.items())
    return f"IMIX - {letters} ({explained})" if explained else f"IMIX - {letters}"


FIRST_UDP_PORT = 49152
"""RFC 4814 section 4.2 wants ports of many values; these are nobody's (RFC 6335: the dynamic ones)."""
FLOWS = 256
"""Enough that a device with 64 queues gets some in each, few enough for the smallest connection table."""


class Tags(PlainValue, frozen=True):
    """The tags between the Ethernet header and the IP header."""

    vlan: int | None = None
    pppoe_session: int | None = None

    @property
    def bytes(self) -> int:
        """The bytes that they add to a frame."""
        return VLAN_BYTES * (self.vlan is not None) + PPPOE_BYTES * (self.pppoe_session is not None)


class Layout(PlainValue, frozen=True):
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

    sources: ValueRange
    destinations: ValueRange
    next_hop: str | None = None
    back_hop: str | None = None
    source_ports: ValueRange = ValueRange(FIRST_UDP_PORT, 64)
    destination_ports: ValueRange = ValueRange(FIRST_UDP_PORT, 64)
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
