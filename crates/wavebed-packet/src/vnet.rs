//! The header that a TUN device with `IFF_VNET_HDR` puts in front of each packet.

/// `struct virtio_net_hdr` (virtio 1.2, section 5.1.6), ten bytes, native byte order as TUN gives it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VnetHeader {
    /// [`Self::NEEDS_CSUM`], [`Self::DATA_VALID`].
    pub flags: u8,
    /// One of the `GSO_` kinds, and perhaps [`Self::GSO_ECN`].
    pub gso_type: u8,
    /// Bytes of all headers; a hint, which this crate does not use.
    pub hdr_len: u16,
    /// Payload bytes of each wire segment, for a super-packet.
    pub gso_size: u16,
    /// Where the checksummed part begins, bytes from the start of the packet.
    pub csum_start: u16,
    /// Where the checksum field is, bytes from `csum_start`.
    pub csum_offset: u16,
}

impl VnetHeader {
    /// Size of the header in bytes.
    pub const LEN: usize = 10;
    /// Flag: the checksum field holds the sum of the pseudo-header; the sender on a wire completes it.
    pub const NEEDS_CSUM: u8 = 1;
    /// Flag: the checksum was verified.
    pub const DATA_VALID: u8 = 2;
    /// Not a super-packet.
    pub const GSO_NONE: u8 = 0;
    /// TCP over IPv4.
    pub const GSO_TCPV4: u8 = 1;
    /// TCP over IPv6.
    pub const GSO_TCPV6: u8 = 4;
    /// UDP datagrams, each with its own UDP header, IPv4 or IPv6.
    pub const GSO_UDP_L4: u8 = 5;
    /// Bit beside a TCP kind: the first segment carries CWR (RFC 3168), the others do not.
    pub const GSO_ECN: u8 = 0x80;

    /// Reads the header.
    #[must_use]
    pub const fn parse(bytes: &[u8; Self::LEN]) -> Self {
        Self {
            flags: bytes[0],
            gso_type: bytes[1],
            hdr_len: u16::from_ne_bytes([bytes[2], bytes[3]]),
            gso_size: u16::from_ne_bytes([bytes[4], bytes[5]]),
            csum_start: u16::from_ne_bytes([bytes[6], bytes[7]]),
            csum_offset: u16::from_ne_bytes([bytes[8], bytes[9]]),
        }
    }

    /// The header and the rest of `frame`, or nothing if `frame` is too short.
    #[must_use]
    pub fn split(frame: &[u8]) -> Option<(Self, &[u8])> {
        frame
            .split_first_chunk()
            .map(|(header, packet)| (Self::parse(header), packet))
    }

    /// The bytes of the header.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; Self::LEN] {
        let (header, size) = (self.hdr_len.to_ne_bytes(), self.gso_size.to_ne_bytes());
        let (start, offset) = (
            self.csum_start.to_ne_bytes(),
            self.csum_offset.to_ne_bytes(),
        );
        [
            self.flags,
            self.gso_type,
            header[0],
            header[1],
            size[0],
            size[1],
            start[0],
            start[1],
            offset[0],
            offset[1],
        ]
    }

    /// The header of the packet that begins `front` bytes later; nothing if its checksum begins before that.
    #[must_use]
    pub fn after(self, front: u8) -> Option<Self> {
        let front = u16::from(front);
        let csum_start = if self.needs_csum() {
            self.csum_start.checked_sub(front)?
        } else {
            self.csum_start
        };
        Some(Self {
            hdr_len: self.hdr_len.saturating_sub(front),
            csum_start,
            ..self
        })
    }

    /// The header of the packet with `front` bytes put before it.
    #[must_use]
    pub fn before(self, front: u8) -> Self {
        let front = u16::from(front);
        let shifted = |at: u16, has: bool| if has { at.saturating_add(front) } else { at };
        Self {
            hdr_len: shifted(self.hdr_len, self.hdr_len > 0),
            csum_start: shifted(self.csum_start, self.needs_csum()),
            ..self
        }
    }

    /// The kind of super-packet, without the ECN bit.
    #[must_use]
    pub const fn gso_kind(&self) -> u8 {
        self.gso_type & !Self::GSO_ECN
    }

    /// Whether the packet may be more than one wire segment.
    #[must_use]
    pub const fn is_gso(&self) -> bool {
        self.gso_kind() != Self::GSO_NONE
    }

    /// Whether the checksum field holds a partial sum only.
    #[must_use]
    pub const fn needs_csum(&self) -> bool {
        self.flags & Self::NEEDS_CSUM != 0
    }
}

#[cfg(test)]
mod tests {
    use super::VnetHeader;

    #[test]
    fn the_header_survives_a_round_trip() {
        let header = VnetHeader {
            flags: VnetHeader::NEEDS_CSUM,
            gso_type: VnetHeader::GSO_TCPV4 | VnetHeader::GSO_ECN,
            hdr_len: 0x1234,
            gso_size: 1448,
            csum_start: 20,
            csum_offset: 16,
        };
        assert_eq!(VnetHeader::parse(&header.to_bytes()), header);
        assert_eq!(header.gso_kind(), VnetHeader::GSO_TCPV4);
        assert_eq!(header.to_bytes()[4..6], 1448u16.to_ne_bytes());
    }

    #[test]
    fn offsets_count_from_where_the_packet_begins() {
        let header = VnetHeader {
            flags: VnetHeader::NEEDS_CSUM,
            gso_type: VnetHeader::GSO_TCPV4,
            hdr_len: 54,
            gso_size: 1448,
            csum_start: 34,
            csum_offset: 16,
        };
        let packet = header.after(14).unwrap();
        assert_eq!((packet.hdr_len, packet.csum_start), (40, 20));
        assert_eq!(packet.before(14), header);
        assert_eq!(header.after(35), None, "the checksum is in the front");
        let complete = VnetHeader::default();
        assert_eq!(complete.after(14), Some(complete));
        assert_eq!(complete.before(14), complete);
    }

    #[test]
    fn a_frame_shorter_than_the_header_is_refused() {
        assert!(VnetHeader::split(&[0; 9]).is_none());
        assert_eq!(VnetHeader::split(&[0; 11]).unwrap().1, [0]);
    }
}
