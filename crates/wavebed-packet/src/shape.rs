//! The shape of a packet on a wire: the number and size of its segments.

use crate::checksum::{VnetHeader, read_u16, read_u32, short};
use crate::ip::{Ipv4, Ipv6, protocol};
use crate::transport::{Tcp, Udp, is_link_control};

/// Longest headers (IP, extensions, TCP or UDP) of a super-packet, bytes. IPv4 and TCP with all options need
/// 120; the rest is room for IPv6 extension headers.
pub const MAX_HEADER_LEN: usize = 512;

/// The network layer of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// Neither version of IP, or not even a complete header.
    Unknown,
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// The transport layer of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP with a complete header.
    Tcp,
    /// UDP with a complete header.
    Udp,
    /// Any other protocol, a fragment, or a header that is cut short.
    Other,
}

/// The result of [`inspect`]. The IP header begins at offset 0; segments are wire segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Wire segments, at least 1.
    pub segments: u16,
    /// Bytes of headers that every segment repeats: IP, extensions, TCP or UDP. Of a packet that is one segment
    /// anyway: as much as is known to be headers. At most [`MAX_HEADER_LEN`].
    pub header_len: u16,
    /// Payload bytes of every segment but the last.
    pub payload_per_segment: u16,
    /// IP bytes of every segment but the last.
    pub segment_bytes: u16,
    /// IP bytes of the last segment.
    pub last_bytes: u16,
    /// ECN field of the IP header (RFC 3168): 0 not-ECT, 1 ECT(1), 2 ECT(0), 3 CE. Zero without IP.
    pub ecn: u8,
    /// Control traffic of the link, which never uses up an index of a pattern: neighbour discovery, MLD, IGMP,
    /// and everything to a link-local multicast group (224.0.0.0/24, `ff02::/16`).
    pub control: bool,
    /// Hash of addresses, protocol and ports. Fragments of one datagram share one, without ports.
    pub flow: u32,
    /// The network layer.
    pub network: Network,
    /// The transport layer.
    pub transport: Transport,
    /// Where the transport header begins, bytes; meaningful with TCP and UDP only.
    pub l4_offset: u16,
}

/// An inconsistency between a packet and its virtio-net header. Such a packet is dropped and counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Longer than IP allows without jumbograms (RFC 2675), which are not supported.
    #[error("the packet is {0} bytes long, more than the 65535 of IP")]
    TooLong(usize),
    /// A segmentation type that was not negotiated with the kernel.
    #[error("segmentation type {0:#04x} is none of TCPv4, TCPv6, UDP")]
    GsoType(u8),
    /// A super-packet with segments of zero bytes.
    #[error("segment size 0 in a super-packet")]
    GsoSize,
    /// The IP and transport headers do not belong to the announced kind.
    #[error("the headers do not belong to segmentation type {0:#04x}")]
    Headers(u8),
    /// The length in an IP or UDP header is not the length of the super-packet.
    #[error("a header of the super-packet has the length {header}, the packet {found} bytes")]
    Length {
        /// The length in the header, as IP or UDP bytes.
        header: usize,
        /// The actual length.
        found: usize,
    },
    /// Headers longer than [`MAX_HEADER_LEN`].
    #[error("the headers of the super-packet are {0} bytes long, more than {MAX_HEADER_LEN}")]
    LongHeaders(usize),
    /// The partial checksum is outside the packet, or not in the field of the protocol.
    #[error("the checksum at {start} + {offset} is not a field of the packet")]
    Checksum {
        /// Start of the checksummed part, bytes.
        start: u16,
        /// Offset of the field from there, bytes.
        offset: u16,
    },
}

/// Returns the shape of `packet` (from the IP header on) on a wire.
///
/// A packet that is not a super-packet is one segment.
///
/// # Errors
/// [`Malformed`] if a super-packet's headers are inconsistent, if a partial checksum lies outside the packet, or
/// if the packet is longer than 65,535 bytes.
pub fn inspect(vnet: &VnetHeader, packet: &[u8]) -> Result<Shape, Malformed> {
    let total = packet.len();
    if total > usize::from(u16::MAX) {
        return Err(Malformed::TooLong(total));
    }
    let mut shape = match packet.first().map_or(0, |byte| byte >> 4) {
        4 => look_v4(packet),
        6 => look_v6(packet),
        _ => None,
    }
    .unwrap_or(Shape::BLANK);
    if vnet.needs_csum() {
        let field = usize::from(vnet.csum_start) + usize::from(vnet.csum_offset);
        if field + 2 > total {
            return Err(Malformed::Checksum {
                start: vnet.csum_start,
                offset: vnet.csum_offset,
            });
        }
    }
    if vnet.is_gso() {
        check_super(vnet, packet, &shape)?;
        let header_len = usize::from(shape.header_len);
        let (size, payload) = (usize::from(vnet.gso_size), total - header_len);
        if payload > size {
            let segments = payload.div_ceil(size);
            shape.segments = short(segments);
            shape.payload_per_segment = vnet.gso_size;
            shape.segment_bytes = short(header_len + size);
            shape.last_bytes = short(total - (segments - 1) * size);
            return Ok(shape);
        }
    }
    shape.header_len = shape.header_len.min(short(MAX_HEADER_LEN));
    shape.payload_per_segment = short(total) - shape.header_len;
    shape.segment_bytes = short(total);
    shape.last_bytes = short(total);
    Ok(shape)
}

impl Shape {
    const BLANK: Self = Self {
        segments: 1,
        header_len: 0,
        payload_per_segment: 0,
        segment_bytes: 0,
        last_bytes: 0,
        ecn: 0,
        control: false,
        flow: 0,
        network: Network::Unknown,
        transport: Transport::Other,
        l4_offset: 0,
    };

    /// IP bytes of segment `index`.
    #[must_use]
    pub const fn bytes_of(&self, index: u16) -> u16 {
        if index + 1 < self.segments {
            self.segment_bytes
        } else {
            self.last_bytes
        }
    }

    /// IP bytes of all segments together.
    #[must_use]
    pub const fn wire_bytes(&self) -> u64 {
        (self.segments as u64 - 1) * self.segment_bytes as u64 + self.last_bytes as u64
    }

    /// Reads the transport header; returns the ports, or zero if there are none.
    fn look_transport(&mut self, head: &[u8], number: u8, offset: usize) -> u32 {
        let header_len = match number {
            protocol::TCP => Tcp::parse(&head[offset..]).map(|tcp| tcp.header_len()),
            protocol::UDP => Udp::parse(&head[offset..]).map(|_| Udp::LEN),
            _ => None,
        };
        self.header_len = short(offset);
        self.l4_offset = short(offset);
        let Some(header_len) = header_len else {
            return 0;
        };
        self.transport = if number == protocol::TCP {
            Transport::Tcp
        } else {
            Transport::Udp
        };
        self.header_len = short(offset + header_len);
        read_u32(head, offset)
    }
}

fn look_v4(head: &[u8]) -> Option<Shape> {
    let ip = Ipv4::parse(head)?;
    let mut shape = Shape {
        network: Network::V4,
        ecn: ip.ecn(),
        ..Shape::BLANK
    };
    let ports = if ip.is_fragment() {
        shape.header_len = short(ip.header_len());
        0
    } else {
        shape.look_transport(head, ip.protocol(), ip.header_len())
    };
    shape.control = ip.protocol() == protocol::IGMP || head[16..19] == [224, 0, 0];
    shape.flow = hash(ip.addresses(), ip.protocol(), ports);
    Some(shape)
}

fn look_v6(head: &[u8]) -> Option<Shape> {
    let ip = Ipv6::parse(head)?;
    let upper = ip.upper_layer();
    let mut shape = Shape {
        network: Network::V6,
        ecn: ip.ecn(),
        ..Shape::BLANK
    };
    let ports = shape.look_transport(head, upper.protocol, upper.offset);
    let message = head.get(upper.offset).copied().unwrap_or(0);
    shape.control = (upper.protocol == protocol::ICMPV6 && is_link_control(message))
        || (head[24] == 0xff && head[25] & 0x0f == 2);
    shape.flow = hash(ip.addresses(), upper.protocol, ports);
    Some(shape)
}

/// Checks the headers of a super-packet.
fn check_super(vnet: &VnetHeader, packet: &[u8], shape: &Shape) -> Result<(), Malformed> {
    let total = packet.len();
    let kind = vnet.gso_kind();
    let fits = match kind {
        VnetHeader::GSO_TCPV4 => shape.network == Network::V4 && shape.transport == Transport::Tcp,
        VnetHeader::GSO_TCPV6 => shape.network == Network::V6 && shape.transport == Transport::Tcp,
        // The kernel refuses UDP super-packets with complete checksums, and so do we.
        VnetHeader::GSO_UDP_L4 => shape.transport == Transport::Udp && vnet.needs_csum(),
        _ => return Err(Malformed::GsoType(vnet.gso_type)),
    };
    if vnet.gso_size == 0 {
        return Err(Malformed::GsoSize);
    }
    if !fits {
        return Err(Malformed::Headers(vnet.gso_type));
    }
    let header_len = usize::from(shape.header_len);
    if header_len > MAX_HEADER_LEN {
        return Err(Malformed::LongHeaders(header_len));
    }
    let header = match shape.network {
        Network::V4 => usize::from(read_u16(packet, 2)),
        _ => Ipv6::LEN + usize::from(read_u16(packet, 4)),
    };
    if header != total {
        return Err(Malformed::Length {
            header,
            found: total,
        });
    }
    let (l4, tcp) = (
        usize::from(shape.l4_offset),
        shape.transport == Transport::Tcp,
    );
    if !tcp && usize::from(read_u16(packet, l4 + 4)) != total - l4 {
        return Err(Malformed::Length {
            header: read_u16(packet, l4 + 4).into(),
            found: total - l4,
        });
    }
    let field = if tcp {
        Tcp::CHECKSUM_AT
    } else {
        Udp::CHECKSUM_AT
    };
    if vnet.needs_csum()
        && (vnet.csum_start, usize::from(vnet.csum_offset)) != (shape.l4_offset, field)
    {
        return Err(Malformed::Checksum {
            start: vnet.csum_start,
            offset: vnet.csum_offset,
        });
    }
    Ok(())
}

// Odd constants with balanced bits: the fractional parts of the golden ratio and of the square roots of 2 and 3.
const KEYS: [u64; 3] = [
    0x9e37_79b9_7f4a_7c15,
    0x6a09_e667_f3bc_c909,
    0xbb67_ae85_84ca_a73b,
];

/// Multiplies to 128 bits and folds the halves: every input bit reaches every output bit.
#[expect(clippy::cast_possible_truncation, reason = "both halves are taken")]
const fn stir(a: u64, b: u64) -> u64 {
    let product = (a as u128) * (b as u128);
    (product as u64) ^ ((product >> 64) as u64)
}

/// Hash of addresses (source, then destination), protocol and ports (both, as they stand in the header).
#[expect(
    clippy::cast_possible_truncation,
    reason = "the high half is folded in"
)]
pub(crate) fn hash(addresses: &[u8], protocol: u8, ports: u32) -> u32 {
    let mut state = stir(
        KEYS[0] ^ (u64::from(ports) << 8 | u64::from(protocol)),
        KEYS[1],
    );
    let (words, _) = addresses.as_chunks::<8>();
    for word in words {
        state = stir(state ^ u64::from_le_bytes(*word) ^ KEYS[2], KEYS[0]);
    }
    let state = stir(state ^ KEYS[1], KEYS[2]);
    (state ^ (state >> 32)) as u32
}

#[cfg(test)]
mod tests {
    use super::hash;

    #[test]
    fn neighbouring_ports_and_addresses_spread_over_the_queues() {
        // Binomial(64000, 1/64): mean 1000, sd 31.4; five of them.
        for shift in [0, 10, 26] {
            let mut by_port = [0u32; 64];
            let mut by_address = [0u32; 64];
            for i in 0..64_000u32 {
                by_port[(hash(&[10, 0, 0, 1, 10, 0, 0, 2], 6, i << 16 | 0x1bb) >> shift)
                    as usize
                    % 64] += 1;
                let mut addresses = [0x20; 32];
                addresses[12..16].copy_from_slice(&i.to_be_bytes());
                by_address[(hash(&addresses, 17, 0) >> shift) as usize % 64] += 1;
            }
            assert!(
                by_port.iter().all(|&n| n.abs_diff(1000) < 157),
                "{by_port:?}"
            );
            assert!(
                by_address.iter().all(|&n| n.abs_diff(1000) < 157),
                "{by_address:?}"
            );
        }
    }

    #[test]
    fn every_input_counts() {
        let base = hash(&[1, 2, 3, 4, 5, 6, 7, 8], 6, 0x0001_0002);
        assert_ne!(base, hash(&[5, 6, 7, 8, 1, 2, 3, 4], 6, 0x0001_0002));
        assert_ne!(base, hash(&[1, 2, 3, 4, 5, 6, 7, 8], 17, 0x0001_0002));
        assert_ne!(base, hash(&[1, 2, 3, 4, 5, 6, 7, 8], 6, 0x0002_0001));
    }
}
