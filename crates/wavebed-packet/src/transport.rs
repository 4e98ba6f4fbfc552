//! Views of TCP (RFC 9293), UDP (RFC 768) and ICMP (RFC 792, RFC 4443) headers.

use crate::checksum::{VnetHeader, read_u16, read_u32};
use crate::ip::{Ipv4, Ipv6, packet_length, protocol};

/// A TCP header that is complete, options included.
#[derive(Clone, Copy, Debug)]
pub struct Tcp<'a>(&'a [u8]);

impl<'a> Tcp<'a> {
    /// Bytes of a header without options.
    pub const MIN_LEN: usize = 20;
    /// Where the checksum field is, bytes from the start of the header.
    pub const CHECKSUM_AT: usize = 16;
    /// Flag: the sender is done.
    pub const FIN: u8 = 0x01;
    /// Flag: synchronise.
    pub const SYN: u8 = 0x02;
    /// Flag: reset.
    pub const RST: u8 = 0x04;
    /// Flag: push.
    pub const PSH: u8 = 0x08;
    /// Flag: the acknowledgement counts.
    pub const ACK: u8 = 0x10;
    /// Flag: the urgent pointer counts.
    pub const URG: u8 = 0x20;
    /// Flag: ECN echo.
    pub const ECE: u8 = 0x40;
    /// Flag: congestion window reduced.
    pub const CWR: u8 = 0x80;

    /// A view, or nothing if `bytes` do not begin with a complete TCP header.
    #[must_use]
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        if bytes.len() < Self::MIN_LEN {
            return None;
        }
        let len = usize::from(bytes[12] >> 4) * 4;
        (len >= Self::MIN_LEN && len <= bytes.len()).then(|| Self(&bytes[..len]))
    }

    /// Bytes of the header with its options.
    #[must_use]
    pub const fn header_len(&self) -> usize {
        self.0.len()
    }

    /// Source port.
    #[must_use]
    pub fn source_port(&self) -> u16 {
        read_u16(self.0, 0)
    }

    /// Destination port.
    #[must_use]
    pub fn destination_port(&self) -> u16 {
        read_u16(self.0, 2)
    }

    /// Sequence number of the first byte.
    #[must_use]
    pub fn sequence(&self) -> u32 {
        read_u32(self.0, 4)
    }

    /// Acknowledgement number.
    #[must_use]
    pub fn acknowledgement(&self) -> u32 {
        read_u32(self.0, 8)
    }

    /// The eight flags.
    #[must_use]
    pub const fn flags(&self) -> u8 {
        self.0[13]
    }

    /// Receive window, not scaled.
    #[must_use]
    pub fn window(&self) -> u16 {
        read_u16(self.0, 14)
    }

    /// The checksum field.
    #[must_use]
    pub fn checksum(&self) -> u16 {
        read_u16(self.0, Self::CHECKSUM_AT)
    }

    /// The options, padding included.
    #[must_use]
    pub fn options(&self) -> &'a [u8] {
        &self.0[Self::MIN_LEN..]
    }
}

/// A UDP header.
#[derive(Clone, Copy, Debug)]
pub struct Udp<'a>(&'a [u8]);

impl<'a> Udp<'a> {
    /// Bytes of the header.
    pub const LEN: usize = 8;
    /// Where the checksum field is, bytes from the start of the header.
    pub const CHECKSUM_AT: usize = 6;

    /// A view, or nothing if `bytes` are too short.
    #[must_use]
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        bytes.get(..Self::LEN).map(Self)
    }

    /// Source port.
    #[must_use]
    pub fn source_port(&self) -> u16 {
        read_u16(self.0, 0)
    }

    /// Destination port.
    #[must_use]
    pub fn destination_port(&self) -> u16 {
        read_u16(self.0, 2)
    }

    /// Bytes of header and payload, as the header says.
    #[must_use]
    pub fn length(&self) -> u16 {
        read_u16(self.0, 4)
    }

    /// The checksum field; zero over IPv4 means that there is none.
    #[must_use]
    pub fn checksum(&self) -> u16 {
        read_u16(self.0, Self::CHECKSUM_AT)
    }
}

/// The head of an ICMP message, either version.
#[derive(Clone, Copy, Debug)]
pub struct Icmp<'a>(&'a [u8]);

impl<'a> Icmp<'a> {
    /// Bytes of the head.
    pub const LEN: usize = 8;

    /// A view, or nothing if `bytes` are too short.
    #[must_use]
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        bytes.get(..Self::LEN).map(Self)
    }

    /// Message type.
    #[must_use]
    pub const fn kind(&self) -> u8 {
        self.0[0]
    }

    /// Message code.
    #[must_use]
    pub const fn code(&self) -> u8 {
        self.0[1]
    }

    /// The checksum field.
    #[must_use]
    pub fn checksum(&self) -> u16 {
        read_u16(self.0, 2)
    }

    /// Identifier of an echo request or reply.
    #[must_use]
    pub fn identifier(&self) -> u16 {
        read_u16(self.0, 4)
    }

    /// Sequence number of an echo request or reply.
    #[must_use]
    pub fn sequence(&self) -> u16 {
        read_u16(self.0, 6)
    }

    /// Whether an `ICMPv6` message belongs to the link: MLD (RFC 2710, RFC 3810) or neighbour discovery (RFC 4861).
    #[must_use]
    pub const fn is_link_control(&self) -> bool {
        is_link_control(self.kind())
    }
}

/// Whether an `ICMPv6` type is one of MLD (130 to 132, 143) or neighbour discovery (133 to 137).
pub(crate) const fn is_link_control(kind: u8) -> bool {
    matches!(kind, 130..=137 | 143)
}

// The checksum of SCTP (RFC 9260, appendix A): a CRC-32C, which no sum of sixteen bits can complete.
//
// A host may leave it to its network card. The virtio-net header then asks for a checksum, but cannot say that it is a
// CRC: whoever passes the packet on would have the wrong one written.

/// Where the checksum is, bytes from the start of the SCTP header.
const CHECKSUM_AT: usize = 8;
/// Bytes of the SCTP header.
const HEADER_LEN: usize = 12;
/// The polynomial of CRC-32C, lowest bit first.
const POLYNOMIAL: u32 = 0x82f6_3b78;
const TABLE: [u32; 256] = table();

/// Completes the checksum of an SCTP packet whose virtio-net header asks for one, and clears the request. `bytes` begin
/// with that header, and `front` bytes stand between it and the IP header. Any other packet stays as it is.
pub fn complete(bytes: &mut [u8], front: u8) {
    let Some((vnet, _)) = VnetHeader::split(bytes) else {
        return;
    };
    if !vnet.needs_csum() || vnet.is_gso() || usize::from(vnet.csum_offset) != CHECKSUM_AT {
        return;
    }
    let start = VnetHeader::LEN + usize::from(front);
    let Some(packet) = bytes.get_mut(start..) else {
        return;
    };
    let Some(offset) = header_offset(packet) else {
        return;
    };
    let end = packet_length(packet);
    if usize::from(vnet.csum_start) != usize::from(front) + offset || end < offset + HEADER_LEN {
        return;
    }
    let sctp = &mut packet[offset..end];
    let field = CHECKSUM_AT..CHECKSUM_AT + 4;
    sctp[field.clone()].fill(0);
    let sum = crc32c(sctp).to_le_bytes();
    sctp[field].copy_from_slice(&sum);
    let complete = VnetHeader {
        flags: vnet.flags & !VnetHeader::NEEDS_CSUM,
        csum_start: 0,
        csum_offset: 0,
        ..vnet
    };
    bytes[..VnetHeader::LEN].copy_from_slice(&complete.to_bytes());
}

/// Where the SCTP header of an IP packet begins, if it has one.
fn header_offset(packet: &[u8]) -> Option<usize> {
    if let Some(ip) = Ipv4::parse(packet) {
        let is_sctp = ip.protocol() == protocol::SCTP && !ip.is_fragment();
        return is_sctp.then_some(ip.header_len());
    }
    let upper = Ipv6::parse(packet)?.upper_layer();
    (upper.protocol == protocol::SCTP).then_some(upper.offset)
}

fn crc32c(bytes: &[u8]) -> u32 {
    let step = |sum: u32, byte: &u8| TABLE[usize::from(sum.to_le_bytes()[0] ^ byte)] ^ (sum >> 8);
    !bytes.iter().fold(u32::MAX, step)
}

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut number = 0_u32;
    while number < 256 {
        let mut sum = number;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 1 == 1 {
                (sum >> 1) ^ POLYNOMIAL
            } else {
                sum >> 1
            };
            bit += 1;
        }
        table[number as usize] = sum;
        number += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::{Icmp, Tcp, Udp, complete, crc32c};
    use crate::checksum::VnetHeader;

    #[test]
    fn a_tcp_header_reads_as_its_fields() {
        let mut bytes = vec![
            0x1f, 0x90, 0xc0, 0x01, 1, 2, 3, 4, 5, 6, 7, 8, 0x60, 0x18, 0x10, 0x20, 0xab, 0xcd, 0,
            0,
        ];
        assert!(Tcp::parse(&bytes).is_none(), "the options are cut short");
        bytes.extend([1, 1, 1, 0, 99]);
        let view = Tcp::parse(&bytes).unwrap();
        assert_eq!(
            (view.source_port(), view.destination_port()),
            (8080, 0xc001)
        );
        assert_eq!(
            (view.sequence(), view.acknowledgement()),
            (0x0102_0304, 0x0506_0708)
        );
        assert_eq!(
            (view.flags(), view.window(), view.checksum()),
            (Tcp::ACK | Tcp::PSH, 0x1020, 0xabcd)
        );
        assert_eq!((view.header_len(), view.options()), (24, &[1, 1, 1, 0][..]));
        bytes[12] = 0x40;
        assert!(Tcp::parse(&bytes).is_none(), "the data offset is too small");
    }

    #[test]
    fn udp_and_icmp_headers_read_as_their_fields() {
        let bytes = [0, 53, 0xc0, 0x02, 0, 12, 0xbe, 0xef, 9];
        let view = Udp::parse(&bytes).unwrap();
        assert_eq!((view.source_port(), view.destination_port()), (53, 0xc002));
        assert_eq!((view.length(), view.checksum()), (12, 0xbeef));
        let view = Icmp::parse(&bytes).unwrap();
        assert_eq!((view.kind(), view.code(), view.checksum()), (0, 53, 0xc002));
        assert_eq!((view.identifier(), view.sequence()), (12, 0xbeef));
        assert!(Udp::parse(&bytes[..7]).is_none() && Icmp::parse(&bytes[..7]).is_none());
        assert!(
            Icmp::parse(&[135, 0, 0, 0, 0, 0, 0, 0])
                .unwrap()
                .is_link_control()
        );
        assert!(
            !Icmp::parse(&[128, 0, 0, 0, 0, 0, 0, 0])
                .unwrap()
                .is_link_control()
        );
    }

    #[test]
    fn the_crc_is_that_of_the_standard() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    fn frame(number: u8, vnet: VnetHeader) -> Vec<u8> {
        let mut bytes = vnet.to_bytes().to_vec();
        bytes.extend([2; 12]);
        bytes.extend([8, 0]);
        bytes.extend([0x45, 0, 0, 36, 0, 0, 0, 0, 64, number, 0, 0]);
        bytes.extend([192, 0, 2, 1, 192, 0, 2, 2]);
        bytes.extend([0, 1, 0, 2, 0, 0, 0, 3, 0xaa, 0xbb, 0xcc, 0xdd]);
        bytes.extend([10, 0, 0, 4]);
        bytes.extend([0x55; 10]);
        bytes
    }

    const ASKED: VnetHeader = VnetHeader {
        flags: VnetHeader::NEEDS_CSUM,
        gso_type: VnetHeader::GSO_NONE,
        hdr_len: 0,
        gso_size: 0,
        csum_start: 34,
        csum_offset: 8,
    };

    #[test]
    fn a_checksum_left_to_the_card_is_completed() {
        let mut bytes = frame(132, ASKED);
        complete(&mut bytes, 14);
        assert_eq!(bytes[..10], [0; 10], "nothing is left to do");
        let sctp = &bytes[10 + 34..10 + 50];
        let mut without = sctp.to_vec();
        without[8..12].fill(0);
        assert_eq!(sctp[8..12], crc32c(&without).to_le_bytes());
        assert_eq!(bytes[60..], [0x55; 10], "the padding");
    }

    #[test]
    fn no_other_packet_is_changed() {
        let elsewhere = VnetHeader {
            csum_start: 30,
            ..ASKED
        };
        let complete_already = VnetHeader::default();
        for bytes in [
            frame(17, ASKED),
            frame(132, elsewhere),
            frame(132, complete_already),
        ] {
            let mut after = bytes.clone();
            complete(&mut after, 14);
            assert_eq!(after, bytes);
        }
        complete(&mut [], 14);
        complete(&mut ASKED.to_bytes(), 14);
    }
}
