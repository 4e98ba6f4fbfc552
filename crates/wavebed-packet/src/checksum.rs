//! The internet checksum (RFC 1071) and its incremental update (RFC 1624).

/// Adds the lanes of a wide sum down to 16 bits. Zero only if `sum` is zero.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the last fold leaves at most 16 bits"
)]
const fn fold(sum: u64) -> u16 {
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + ((sum >> 16) & 0xffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    sum as u16
}

const fn halves(word: u64) -> u64 {
    (word & 0xffff_ffff) + (word >> 32)
}

/// Eight lanes side by side, which the compiler turns into vector instructions.
fn sum_blocks(blocks: &[[u8; 64]]) -> u64 {
    let mut lanes = [0u64; 8];
    for block in blocks {
        let (words, _) = block.as_chunks::<8>();
        for (lane, word) in lanes.iter_mut().zip(words) {
            *lane += halves(u64::from_ne_bytes(*word));
        }
    }
    lanes.iter().sum()
}

/// The ones' complement sum of `data` as big-endian 16-bit words, not inverted. An odd last byte counts as the
/// high half of a word.
///
/// Adds in native byte order and swaps at the end, which RFC 1071 section 2 shows to be the same.
#[must_use]
pub fn sum(data: &[u8]) -> u16 {
    let (blocks, rest) = data.as_chunks::<64>();
    let mut total = if blocks.is_empty() {
        0
    } else {
        sum_blocks(blocks)
    };
    let (words, rest) = rest.as_chunks::<8>();
    for word in words {
        total += halves(u64::from_ne_bytes(*word));
    }
    let (words, rest) = rest.as_chunks::<4>();
    for word in words {
        total += u64::from(u32::from_ne_bytes(*word));
    }
    let (words, rest) = rest.as_chunks::<2>();
    for word in words {
        total += u64::from(u16::from_ne_bytes(*word));
    }
    if let [last] = rest {
        total += u64::from(u16::from_ne_bytes([*last, 0]));
    }
    u16::from_be(fold(total))
}

/// Ones' complement addition.
#[must_use]
pub const fn add(a: u16, b: u16) -> u16 {
    let (sum, carry) = a.overflowing_add(b);
    sum + carry as u16
}

/// The checksum of `data`: the value for the field if the field was zero in `data`, and zero if the field was
/// right.
#[must_use]
pub fn checksum(data: &[u8]) -> u16 {
    !sum(data)
}

/// The checksum after a 16-bit word that it covers went from `old` to `new` (RFC 1624, equation 3).
#[must_use]
pub const fn update(checksum: u16, old: u16, new: u16) -> u16 {
    !add(add(!checksum, !old), new)
}

/// The sum after a 16-bit word in it went from `old` to `new`. For the partial sums that wait for the kernel in
/// a checksum field.
#[must_use]
pub const fn replace(sum: u16, old: u16, new: u16) -> u16 {
    add(add(sum, !old), new)
}

pub(crate) fn read_u16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn read_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

pub(crate) fn write_u16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

pub(crate) fn write_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

/// A length that is known to fit: packets are at most 65,535 bytes long, which `inspect` checks.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the debug assertion states the invariant"
)]
pub(crate) fn short(length: usize) -> u16 {
    debug_assert!(u16::try_from(length).is_ok(), "{length} bytes");
    length as u16
}

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
    use super::{VnetHeader, add, checksum, replace, sum, update};

    /// Word by word, as RFC 1071 section 1 describes it.
    fn plain(data: &[u8]) -> u16 {
        let mut total = 0u32;
        for pair in data.chunks(2) {
            total += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            total = (total & 0xffff) + (total >> 16);
        }
        u16::try_from(total).unwrap()
    }

    #[test]
    fn the_sum_of_the_rfc_example_is_right() {
        assert_eq!(
            sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]),
            0xddf2
        );
    }

    #[test]
    fn the_sum_equals_the_plain_one_at_every_length() {
        let data: Vec<u8> = (0..700u32)
            .map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes()[2])
            .collect();
        for from in 0..8 {
            for to in from..data.len() {
                assert_eq!(sum(&data[from..to]), plain(&data[from..to]), "{from}..{to}");
            }
        }
        let largest = vec![0xff; 65_535];
        assert_eq!(sum(&largest), plain(&largest));
        assert_eq!(sum(&[0; 99]), 0);
    }

    #[test]
    fn an_update_equals_a_fresh_checksum_for_every_word() {
        let mut data = [
            0x45, 0, 5, 0xdc, 0, 0, 0x40, 0, 64, 6, 10, 0, 0, 1, 10, 0, 0, 2,
        ];
        for old in (0..=u16::MAX).step_by(251) {
            for new in (0..=u16::MAX).step_by(257) {
                data[4..6].copy_from_slice(&old.to_be_bytes());
                let (before, partial) = (checksum(&data), sum(&data));
                data[4..6].copy_from_slice(&new.to_be_bytes());
                assert_eq!(update(before, old, new), checksum(&data));
                assert_eq!(replace(partial, old, new), sum(&data));
            }
        }
    }

    #[test]
    fn the_rfc_1624_case_does_not_give_minus_zero() {
        // Section 4: HC = 0xdd2f, m = 0x5555, m' = 0x3285 gives 0x0000, not 0xffff.
        assert_eq!(update(0xdd2f, 0x5555, 0x3285), 0x0000);
        assert_eq!(add(0xffff, 1), 1);
    }

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
