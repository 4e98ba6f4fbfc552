//! Views of IPv4 (RFC 791) and IPv6 (RFC 8200) headers. A view checks once that the header is all there.

use crate::checksum::{read_u16, read_u32};

/// Protocol and next-header numbers of the IANA registry that the crate knows.
pub mod protocol {
    /// IPv6 hop-by-hop options.
    pub const HOP_BY_HOP: u8 = 0;
    /// ICMP for IPv4.
    pub const ICMP: u8 = 1;
    /// IGMP.
    pub const IGMP: u8 = 2;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// IPv6 routing header.
    pub const ROUTING: u8 = 43;
    /// IPv6 fragment header.
    pub const FRAGMENT: u8 = 44;
    /// ICMP for IPv6.
    pub const ICMPV6: u8 = 58;
    /// IPv6 destination options.
    pub const DESTINATION_OPTIONS: u8 = 60;
    /// SCTP.
    pub const SCTP: u8 = 132;
}

/// The version field in the first byte of `packet`; zero if the packet is empty.
#[must_use]
pub fn version(packet: &[u8]) -> u8 {
    packet.first().map_or(0, |byte| byte >> 4)
}

/// An IPv4 header that is complete, options included.
#[derive(Clone, Copy, Debug)]
pub struct Ipv4<'a>(&'a [u8]);

impl<'a> Ipv4<'a> {
    /// Bytes of a header without options.
    pub const MIN_LEN: usize = 20;

    /// A view, or nothing if `packet` does not begin with a complete IPv4 header. Lengths and checksum are not
    /// judged.
    #[must_use]
    pub fn parse(packet: &'a [u8]) -> Option<Self> {
        if version(packet) != 4 || packet.len() < Self::MIN_LEN {
            return None;
        }
        let len = usize::from(packet[0] & 15) * 4;
        (len >= Self::MIN_LEN && len <= packet.len()).then(|| Self(&packet[..len]))
    }

    /// Bytes of the header with its options.
    #[must_use]
    pub const fn header_len(&self) -> usize {
        self.0.len()
    }

    /// DSCP and ECN.
    #[must_use]
    pub const fn traffic_class(&self) -> u8 {
        self.0[1]
    }

    /// The ECN field, two bits.
    #[must_use]
    pub const fn ecn(&self) -> u8 {
        self.traffic_class() & 3
    }

    /// Bytes of header and payload, as the header says.
    #[must_use]
    pub fn total_length(&self) -> u16 {
        read_u16(self.0, 2)
    }

    /// Identification.
    #[must_use]
    pub fn identification(&self) -> u16 {
        read_u16(self.0, 4)
    }

    /// Whether this is a fragment: not the whole datagram.
    #[must_use]
    pub fn is_fragment(&self) -> bool {
        read_u16(self.0, 6) & 0x3fff != 0
    }

    /// Whether no router may fragment it (DF).
    #[must_use]
    pub fn dont_fragment(&self) -> bool {
        read_u16(self.0, 6) & 0x4000 != 0
    }

    /// Whether fragments of the datagram follow this one (MF).
    #[must_use]
    pub fn more_fragments(&self) -> bool {
        read_u16(self.0, 6) & 0x2000 != 0
    }

    /// Where the payload of this fragment begins in the datagram's, in units of 8 bytes.
    #[must_use]
    pub fn fragment_offset(&self) -> u16 {
        read_u16(self.0, 6) & 0x1fff
    }

    /// Time to live.
    #[must_use]
    pub const fn ttl(&self) -> u8 {
        self.0[8]
    }

    /// Protocol number.
    #[must_use]
    pub const fn protocol(&self) -> u8 {
        self.0[9]
    }

    /// Source address.
    #[must_use]
    pub fn source(&self) -> std::net::Ipv4Addr {
        read_u32(self.0, 12).into()
    }

    /// Destination address.
    #[must_use]
    pub fn destination(&self) -> std::net::Ipv4Addr {
        read_u32(self.0, 16).into()
    }

    /// Source, then destination.
    pub(crate) fn addresses(&self) -> &'a [u8] {
        &self.0[12..20]
    }
}

/// A fixed IPv6 header, and the bytes after it.
#[derive(Clone, Copy, Debug)]
pub struct Ipv6<'a>(&'a [u8]);

/// Where the extension headers of an IPv6 packet end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpperLayer {
    /// The first next-header number that is not an extension header which can be skipped.
    pub protocol: u8,
    /// Where that header begins, bytes from the start of the packet.
    pub offset: usize,
    /// Where a routing header with segments left begins, if there is one.
    pub routing: Option<usize>,
}

impl<'a> Ipv6<'a> {
    /// Bytes of the fixed header.
    pub const LEN: usize = 40;

    /// A view, or nothing if `packet` does not begin with a complete IPv6 header. Lengths are not judged.
    #[must_use]
    pub fn parse(packet: &'a [u8]) -> Option<Self> {
        (version(packet) == 6 && packet.len() >= Self::LEN).then_some(Self(packet))
    }

    /// DSCP and ECN.
    #[must_use]
    pub const fn traffic_class(&self) -> u8 {
        self.0[0] << 4 | self.0[1] >> 4
    }

    /// The ECN field, two bits.
    #[must_use]
    pub const fn ecn(&self) -> u8 {
        self.traffic_class() & 3
    }

    /// Flow label.
    #[must_use]
    pub fn flow_label(&self) -> u32 {
        read_u32(self.0, 0) & 0xf_ffff
    }

    /// Bytes after the fixed header, as the header says.
    #[must_use]
    pub fn payload_length(&self) -> u16 {
        read_u16(self.0, 4)
    }

    /// The number of the header that follows.
    #[must_use]
    pub const fn next_header(&self) -> u8 {
        self.0[6]
    }

    /// Hop limit.
    #[must_use]
    pub const fn hop_limit(&self) -> u8 {
        self.0[7]
    }

    /// Source address.
    #[must_use]
    pub fn source(&self) -> std::net::Ipv6Addr {
        address(self.0, 8)
    }

    /// Destination address.
    #[must_use]
    pub fn destination(&self) -> std::net::Ipv6Addr {
        address(self.0, 24)
    }

    /// Source, then destination.
    pub(crate) fn addresses(&self) -> &'a [u8] {
        &self.0[8..40]
    }

    /// Skips hop-by-hop options, destination options and routing headers. Stops at anything else, so at a
    /// fragment header too, and at an extension header that is cut short.
    #[must_use]
    pub fn upper_layer(&self) -> UpperLayer {
        use protocol::{DESTINATION_OPTIONS, HOP_BY_HOP, ROUTING};
        let mut here = UpperLayer {
            protocol: self.next_header(),
            offset: Self::LEN,
            routing: None,
        };
        while let HOP_BY_HOP | DESTINATION_OPTIONS | ROUTING = here.protocol {
            let Some(start) = self.0.get(here.offset..here.offset + 8) else {
                break;
            };
            let end = here.offset + (usize::from(start[1]) + 1) * 8;
            if end > self.0.len() {
                break;
            }
            if here.protocol == ROUTING && start[3] != 0 {
                here.routing = Some(here.offset);
            }
            here.protocol = start[0];
            here.offset = end;
        }
        here
    }

    /// The address that the pseudo-header of a checksum takes as destination (RFC 8200, section 8.1): the final
    /// one, where a routing header names it (types 0 and 2: the last address; RFC 8754: the first of the list).
    pub(crate) fn final_destination(&self) -> &'a [u8] {
        let Some(at) = self.upper_layer().routing else {
            return &self.0[24..40];
        };
        let (len, kind) = (usize::from(self.0[at + 1]) * 8, self.0[at + 2]);
        match kind {
            0 | 2 if len >= 16 => &self.0[at + 8 + len - 16..at + 8 + len],
            4 if len >= 16 => &self.0[at + 8..at + 24],
            _ => &self.0[24..40],
        }
    }
}

fn address(bytes: &[u8], at: usize) -> std::net::Ipv6Addr {
    let address: [u8; 16] = bytes[at..at + 16]
        .try_into()
        .expect("sixteen bytes were taken");
    address.into()
}

/// Bytes of the IP packet at the start of `bytes`: a short frame is padded after it.
#[must_use]
pub fn packet_length(bytes: &[u8]) -> usize {
    let (length, least) = match version(bytes) {
        4 => (
            Ipv4::parse(bytes).map(|ip| usize::from(ip.total_length())),
            Ipv4::MIN_LEN,
        ),
        // A length of zero belongs to a jumbogram (RFC 2675).
        6 => (
            Ipv6::parse(bytes).map(|ip| Ipv6::LEN + usize::from(ip.payload_length())),
            Ipv6::LEN + 1,
        ),
        _ => (None, 0),
    };
    match length {
        Some(length) if (least..bytes.len()).contains(&length) => length,
        _ => bytes.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Ipv4, Ipv6, protocol};

    #[test]
    fn an_ipv4_header_reads_as_its_fields() {
        let mut bytes = [0u8; 28];
        bytes[..20].copy_from_slice(&[
            0x45, 0xb9, 0x05, 0xdc, 0x12, 0x34, 0x40, 0, 63, 17, 0, 0, 198, 18, 0, 1, 198, 19, 0, 2,
        ]);
        let view = Ipv4::parse(&bytes).unwrap();
        assert_eq!(
            (
                view.header_len(),
                view.total_length(),
                view.identification()
            ),
            (20, 1500, 0x1234)
        );
        assert_eq!(
            (
                view.traffic_class(),
                view.ecn(),
                view.ttl(),
                view.protocol()
            ),
            (0xb9, 1, 63, 17)
        );
        assert_eq!(view.source().to_string(), "198.18.0.1");
        assert_eq!(view.destination().to_string(), "198.19.0.2");
        assert!(!view.is_fragment() && view.dont_fragment() && !view.more_fragments());
        bytes[6] = 0x20;
        bytes[7] = 3;
        let view = Ipv4::parse(&bytes).unwrap();
        assert!(view.is_fragment() && !view.dont_fragment() && view.more_fragments());
        assert_eq!(view.fragment_offset(), 3);
        bytes[0] = 0x4f;
        assert!(Ipv4::parse(&bytes).is_none(), "options are cut short");
        bytes[0] = 0x44;
        assert!(
            Ipv4::parse(&bytes).is_none(),
            "the header length is too small"
        );
    }

    #[test]
    fn an_ipv6_header_reads_as_its_fields_and_extensions_are_skipped() {
        let mut bytes = vec![0x6a, 0xb1, 0x23, 0x45, 0, 44, protocol::HOP_BY_HOP, 7];
        bytes.extend([0xfd; 16]);
        bytes.extend([0xfe; 16]);
        bytes.extend([protocol::ROUTING, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend([protocol::UDP, 2, 0, 1, 0, 0, 0, 0]);
        bytes.extend([0xaa; 16]);
        bytes.extend([0; 8]);
        let view = Ipv6::parse(&bytes).unwrap();
        assert_eq!(
            (view.traffic_class(), view.ecn(), view.flow_label()),
            (0xab, 3, 0x12345)
        );
        assert_eq!(
            (view.payload_length(), view.next_header(), view.hop_limit()),
            (44, 0, 7)
        );
        let upper = view.upper_layer();
        assert_eq!(
            (upper.protocol, upper.offset, upper.routing),
            (protocol::UDP, 72, Some(48))
        );
        assert_eq!(view.final_destination(), [0xaa; 16]);
        assert_eq!(view.destination().octets(), [0xfe; 16]);
        bytes.truncate(60);
        let upper = Ipv6::parse(&bytes).unwrap().upper_layer();
        assert_eq!((upper.protocol, upper.offset), (protocol::ROUTING, 48));
    }
}
