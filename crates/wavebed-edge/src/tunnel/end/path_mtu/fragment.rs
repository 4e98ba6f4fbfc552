//! Fragments of IPv4 packets that a router may fragment (RFC 791, section 3.2).

use wavebed_packet::checksum::checksum;
use wavebed_packet::ip::Ipv4;

/// Payloads of fragments but the last are multiples of this.
const UNIT_BYTES: usize = 8;
const MORE: u16 = 0x2000;

/// The fragments of `packet`, each of at most `mtu` bytes. None if nobody may fragment it (IPv6, or DF), or if it has
/// options, which are seldom and would be another case for each kind.
pub fn fragments(packet: &[u8], mtu: usize) -> Option<Vec<Vec<u8>>> {
    let ip = Ipv4::parse(packet)?;
    let total = usize::from(ip.total_length());
    if ip.dont_fragment() || ip.header_len() > Ipv4::MIN_LEN {
        return None;
    }
    let (header, payload) = packet.get(..total)?.split_at_checked(Ipv4::MIN_LEN)?;
    let step = mtu.checked_sub(Ipv4::MIN_LEN)? / UNIT_BYTES * UNIT_BYTES;
    if step == 0 {
        return None;
    }
    let count = payload.len().div_ceil(step);
    let make = |(index, part): (usize, &[u8])| {
        let units = u16::try_from(index * step / UNIT_BYTES).ok()?;
        let offset = ip.fragment_offset().checked_add(units)?;
        let more = index + 1 < count || ip.more_fragments();
        let length = u16::try_from(Ipv4::MIN_LEN + part.len()).ok()?;
        let mut fragment = [header, part].concat();
        fragment[2..4].copy_from_slice(&length.to_be_bytes());
        let flags = if more { MORE } else { 0 };
        // An offset beyond 13 bits is of a datagram that is too long.
        let field = (offset < MORE).then_some(offset | flags)?;
        fragment[6..8].copy_from_slice(&field.to_be_bytes());
        fragment[10..12].fill(0);
        let sum = checksum(&fragment[..Ipv4::MIN_LEN]);
        fragment[10..12].copy_from_slice(&sum.to_be_bytes());
        Some(fragment)
    };
    payload.chunks(step).enumerate().map(make).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn packet(field: u16, bytes: usize) -> Vec<u8> {
        let mut packet = vec![0x45, 0xb8];
        packet.extend(u16::try_from(20 + bytes).expect("short").to_be_bytes());
        packet.extend([0x12, 0x34]);
        packet.extend(field.to_be_bytes());
        packet.extend([63, 17, 0, 0, 10, 0, 0, 2, 198, 51, 100, 7]);
        packet.extend((0..bytes).map(|place| place.to_le_bytes()[0]));
        packet
    }

    /// Offset in bytes, MF, payload.
    fn read(fragment: &[u8]) -> (usize, bool, &[u8]) {
        let ip = Ipv4::parse(fragment).expect("IPv4");
        assert_eq!(checksum(&fragment[..20]), 0);
        assert_eq!(usize::from(ip.total_length()), fragment.len());
        assert_eq!((ip.identification(), ip.traffic_class()), (0x1234, 0xb8));
        let offset = usize::from(ip.fragment_offset()) * 8;
        (offset, ip.more_fragments(), &fragment[20..])
    }

    #[test]
    fn a_packet_with_df_ipv6_and_options_are_not_fragmented() {
        assert_eq!(fragments(&packet(0x4000, 1340), 1204), None);
        assert_eq!(fragments(&[0x60; 1360], 1204), None);
        let mut options = packet(0, 1340);
        options[0] = 0x46;
        assert_eq!(fragments(&options, 1204), None);
    }

    #[test]
    fn fragments_of_a_fragment_keep_its_place() {
        let original = packet(0x2000 | 0x64, 1336);
        let parts = fragments(&original, 1204).expect("fragmented");
        let parts: Vec<_> = parts.iter().map(|part| read(part)).collect();
        assert_eq!(
            (parts[0].0, parts[0].1, parts[0].2.len()),
            (800, true, 1184)
        );
        assert_eq!(
            (parts[1].0, parts[1].1, parts[1].2.len()),
            (1984, true, 152)
        );
        let last = packet(0x64, 1336);
        let parts = fragments(&last, 1204).expect("fragmented");
        assert!(read(&parts[0]).1 && !read(&parts[1]).1);
    }

    proptest! {
        #[test]
        fn fragments_are_short_enough_and_make_the_payload(bytes in 1usize..9000, mtu in 28usize..9000) {
            let original = packet(0, bytes);
            let parts = fragments(&original, mtu).expect("fragmented");
            let mut payload: Vec<u8> = Vec::new();
            for (index, part) in parts.iter().enumerate() {
                prop_assert!(part.len() <= mtu);
                let (offset, more, data) = read(part);
                prop_assert_eq!(offset, payload.len());
                prop_assert_eq!(more, index + 1 < parts.len());
                payload.extend(data);
            }
            prop_assert_eq!(&payload[..], &original[20..]);
        }

        #[test]
        fn no_bytes_of_a_host_make_fragments_that_are_too_long(
            rest in prop::collection::vec(any::<u8>(), 0..2000),
            mtu in 0usize..1500,
        ) {
            let original = [&[0x45][..], &rest].concat();
            for part in fragments(&original, mtu).unwrap_or_default() {
                prop_assert!(part.len() <= mtu);
            }
        }
    }
}
