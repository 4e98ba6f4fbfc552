//! Segmentation: new headers for wire segments of a packet, without copying the payload.

use std::ops::Range;

use crate::checksum;
use crate::checksum::{VnetHeader, read_u16, read_u32, short, write_u16, write_u32};
use crate::ip::{Ipv4, Ipv6, protocol};
use crate::shape::{MAX_HEADER_LEN, Network, Shape, Transport};
use crate::transport::{Tcp, Udp};

/// Where [`piece`] writes new headers. Make it once and use it again.
#[derive(Clone, Debug)]
pub struct HeaderBuf {
    bytes: [u8; MAX_HEADER_LEN],
}

impl HeaderBuf {
    /// An empty buffer.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            bytes: [0; MAX_HEADER_LEN],
        }
    }

    /// Copies `header` in and returns the copy.
    pub(crate) fn fill(&mut self, header: &[u8]) -> &mut [u8] {
        let copy = &mut self.bytes[..header.len()];
        copy.copy_from_slice(header);
        copy
    }
}

impl Default for HeaderBuf {
    fn default() -> Self {
        Self::new()
    }
}

/// Some wire segments of a packet, ready for one `writev` of virtio-net header, header, payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// The virtio-net header.
    pub vnet: VnetHeader,
    /// The headers, in the buffer or, unchanged, in the packet.
    pub header: &'a [u8],
    /// The range of the payload in the packet.
    pub payload: Range<usize>,
}

impl Piece<'_> {
    /// IP bytes of the piece (not of its wire segments).
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.header.len() + (self.payload.end - self.payload.start)
    }
}

/// Takes segments `first..first + count` of `packet`, whose `shape` came from [`crate::inspect`] with the
/// same arguments. With `ecn_ce` they carry CE (RFC 3168).
///
/// The piece is itself a packet that the kernel takes: a super-packet, or one segment. Sequence number, IP ID,
/// lengths, IPv4 checksum and partial checksum are right for it; FIN and PSH are kept by the last segment only,
/// CWR by the first only. The whole packet without a new mark is returned unchanged.
///
/// # Panics
/// If the range is empty or outside the packet (a bug of the caller).
#[must_use]
pub fn piece<'a>(
    vnet: &VnetHeader,
    packet: &'a [u8],
    shape: &Shape,
    first: u16,
    count: u16,
    ecn_ce: bool,
    out: &'a mut HeaderBuf,
) -> Piece<'a> {
    let end = usize::from(first) + usize::from(count);
    let segments = usize::from(shape.segments);
    assert!(
        count > 0 && end <= segments,
        "segments {first}+{count} of a packet of {segments}"
    );
    let mark = ecn_ce && shape.ecn != 3 && shape.network != Network::Unknown;
    let header_len = usize::from(shape.header_len);
    if count == shape.segments && !mark {
        return Piece {
            vnet: *vnet,
            header: &packet[..header_len],
            payload: header_len..packet.len(),
        };
    }
    if segments == 1 {
        // One segment of any kind: nothing but the mark changes, wherever its headers end.
        let header = out.fill(&packet[..header_len]);
        set_ce(header, shape.network);
        return Piece {
            vnet: *vnet,
            header,
            payload: header_len..packet.len(),
        };
    }
    let size = usize::from(shape.payload_per_segment);
    let last = end == segments;
    let stop = if last {
        packet.len()
    } else {
        header_len + end * size
    };
    let payload = header_len + usize::from(first) * size..stop;
    let header = out.fill(&packet[..header_len]);
    let parts = Parts {
        first,
        last,
        start: payload.start - header_len,
        old_len: packet.len(),
        new_len: header_len + payload.len(),
    };
    if mark {
        set_ce(header, shape.network);
    }
    let has_cwr = parts.rewrite_transport(vnet, shape, header);
    parts.rewrite_network(shape, header);
    Piece {
        vnet: vnet_for(vnet, shape, count > 1, has_cwr),
        header,
        payload,
    }
}

/// The virtio-net header of a super-packet of this shape, or of one segment of it.
pub(crate) fn vnet_for(
    vnet: &VnetHeader,
    shape: &Shape,
    is_super: bool,
    has_cwr: bool,
) -> VnetHeader {
    let field = if shape.transport == Transport::Tcp {
        Tcp::CHECKSUM_AT
    } else {
        Udp::CHECKSUM_AT
    };
    let ecn = if has_cwr { VnetHeader::GSO_ECN } else { 0 };
    VnetHeader {
        flags: VnetHeader::NEEDS_CSUM,
        gso_type: if is_super {
            vnet.gso_kind() | ecn
        } else {
            VnetHeader::GSO_NONE
        },
        hdr_len: shape.header_len,
        gso_size: if is_super { vnet.gso_size } else { 0 },
        csum_start: shape.l4_offset,
        csum_offset: short(field),
    }
}

/// Sets both ECN bits; keeps the IPv4 checksum right if it was.
fn set_ce(header: &mut [u8], network: Network) {
    if network == Network::V4 {
        let old = read_u16(header, 0);
        header[1] |= 3;
        let sum = checksum::update(read_u16(header, 10), old, read_u16(header, 0));
        write_u16(header, 10, sum);
    } else {
        header[1] |= 0x30;
    }
}

/// Where a piece lies in its super-packet.
struct Parts {
    first: u16,
    last: bool,
    /// Payload bytes before it.
    start: usize,
    /// IP bytes of the super-packet.
    old_len: usize,
    /// IP bytes of the piece.
    new_len: usize,
}

impl Parts {
    /// Sequence number, flags or UDP length, and the partial checksum. Returns whether CWR is still set.
    fn rewrite_transport(&self, vnet: &VnetHeader, shape: &Shape, header: &mut [u8]) -> bool {
        let l4 = usize::from(shape.l4_offset);
        let (old_len, new_len) = (short(self.old_len - l4), short(self.new_len - l4));
        let tcp = shape.transport == Transport::Tcp;
        let field = l4
            + if tcp {
                Tcp::CHECKSUM_AT
            } else {
                Udp::CHECKSUM_AT
            };
        let partial = if vnet.needs_csum() {
            checksum::replace(read_u16(header, field), old_len, new_len)
        } else {
            pseudo_header_sum(header, shape, new_len)
        };
        write_u16(header, field, partial);
        if !tcp {
            write_u16(header, l4 + 4, new_len);
            return false;
        }
        let sequence = read_u32(header, l4 + 4).wrapping_add(short(self.start).into());
        write_u32(header, l4 + 4, sequence);
        let mut cleared = 0;
        if !self.last {
            cleared |= Tcp::FIN | Tcp::PSH;
        }
        if self.first > 0 {
            cleared |= Tcp::CWR;
        }
        header[l4 + 13] &= !cleared;
        header[l4 + 13] & Tcp::CWR != 0
    }

    /// Length, IP ID, IPv4 checksum.
    fn rewrite_network(&self, shape: &Shape, header: &mut [u8]) {
        if shape.network == Network::V4 {
            let identification = read_u16(header, 4).wrapping_add(self.first);
            write_u16(header, 4, identification);
            set_v4_length(header, short(self.new_len));
        } else {
            write_u16(header, 4, short(self.new_len - Ipv6::LEN));
        }
    }
}

/// Sets the total length of an IPv4 header and computes its checksum.
pub(crate) fn set_v4_length(header: &mut [u8], length: u16) {
    write_u16(header, 2, length);
    write_u16(header, 10, 0);
    let end = Ipv4::parse(header).map_or(Ipv4::MIN_LEN, |ip| ip.header_len());
    let sum = checksum::checksum(&header[..end]);
    write_u16(header, 10, sum);
}

/// The sum that stands in the checksum field of a segment whose checksum is to be completed.
pub(crate) fn pseudo_header_sum(header: &[u8], shape: &Shape, l4_len: u16) -> u16 {
    let addresses = match shape.network {
        Network::V4 => checksum::sum(&header[12..20]),
        _ => checksum::add(
            checksum::sum(&header[8..24]),
            Ipv6::parse(header).map_or(0, |ip| checksum::sum(ip.final_destination())),
        ),
    };
    let number = if shape.transport == Transport::Tcp {
        protocol::TCP
    } else {
        protocol::UDP
    };
    checksum::add(checksum::add(addresses, number.into()), l4_len)
}

/// Replaces the content of `out` by one wire segment in full, every checksum complete: for captures, and for
/// corruption, which must not be healed by a checksum made later.
///
/// A packet that came with a complete checksum keeps it, an IPv4 UDP datagram without a checksum stays so.
///
/// # Panics
/// If there is no segment `index` (a bug of the caller).
pub fn complete_segment(
    vnet: &VnetHeader,
    packet: &[u8],
    shape: &Shape,
    index: u16,
    ecn_ce: bool,
    out: &mut Vec<u8>,
) {
    let mut buffer = HeaderBuf::new();
    let piece = piece(vnet, packet, shape, index, 1, ecn_ce, &mut buffer);
    out.clear();
    out.extend_from_slice(piece.header);
    out.extend_from_slice(&packet[piece.payload.clone()]);
    if piece.vnet.needs_csum() {
        let start = usize::from(piece.vnet.csum_start);
        let mut sum = checksum::checksum(&out[start..]);
        if sum == 0 && shape.transport == Transport::Udp {
            // Zero would mean that there is no checksum (RFC 768).
            sum = 0xffff;
        }
        write_u16(out, start + usize::from(piece.vnet.csum_offset), sum);
    }
}

/// Flips a bit of a complete segment, counted from the first bit on the wire. The segment must then leave with an empty
/// virtio-net header.
pub fn flip_bit(segment: &mut [u8], bit: u32) {
    if let Some(byte) = segment.get_mut((bit / 8) as usize) {
        *byte ^= 0x80 >> (bit % 8);
    }
}
