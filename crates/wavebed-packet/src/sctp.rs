//! The checksum of SCTP (RFC 9260, appendix A): a CRC-32C, which no sum of sixteen bits can complete.
//!
//! A host may leave it to its network card. The virtio-net header then asks for a checksum, but cannot say that it is a
//! CRC: whoever passes the packet on would have the wrong one written.

use crate::ethernet::packet_length;
use crate::ip::{Ipv4, Ipv6, protocol};
use crate::vnet::VnetHeader;

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
    use super::{complete, crc32c};
    use crate::vnet::VnetHeader;

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
