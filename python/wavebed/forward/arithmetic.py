"""Sizes and rates of Ethernet frames; each name says which bytes it counts.

A *frame* is counted with its frame check sequence (FCS), as RFC 2544 counts: an 18-byte UDP payload over IPv4 is a
frame of 64 bytes, and a capture shows 60. On the wire each frame takes 20 bytes more (IEEE 802.3: preamble 7, start
delimiter 1, gap 12); the rate with those is the rate at *L1*, and at line rate it is the speed of the link.
"""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING

from wavebed.errors import UserError
from wavebed.forward.plain import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = [
    "FCS_BYTES",
    "L1_BYTES",
    "RFC2544_SIZES_BYTES",
    "STAMP_BYTES",
    "Headers",
    "Rates",
    "StudyConversion",
    "check_sizes",
    "line_rate_pps",
    "study_conversion",
]

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


class Headers(Value, frozen=True):
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


class Rates(Value, frozen=True):
    """One rate in all its units.

    Parameters
    ----------
    pps : float
        Frames per second.
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


class StudyConversion(Value, frozen=True):
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
    corrected : Rates
        The same rate in all units.
    line_rate_mpps : float
        The line rate of the link.
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
