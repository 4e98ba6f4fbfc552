//! Views of TCP (RFC 9293), UDP (RFC 768) and ICMP (RFC 792, RFC 4443) headers.

use crate::bytes::{read_u16, read_u32};

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

#[cfg(test)]
mod tests {
    use super::{Icmp, Tcp, Udp};

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
}
