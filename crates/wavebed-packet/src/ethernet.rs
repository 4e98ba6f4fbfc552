//! Ethernet frames (IEEE 802.3, VLAN tags of IEEE 802.1Q): where the IP packet of a frame is, and which frames concern
//! the local network only.

use crate::checksum::read_u16;
use crate::ip::{Ipv4, Ipv6, protocol};
use crate::transport::{Udp, is_link_control};

/// Bytes of an Ethernet header without tags.
pub const HEADER_LEN: usize = 14;
/// Bytes of a VLAN tag.
pub const TAG_LEN: usize = 4;
/// Tags of a frame whose IP packet is looked for.
const MOST_TAGS: usize = 2;

/// Tag of a customer's VLAN, and of a provider's: 802.1Q, 802.1ad, and the type in use before that.
const TAGS: [u16; 3] = [0x8100, 0x88a8, 0x9100];
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
/// Ports of DHCP for IPv4 (RFC 2131) and for IPv6 (RFC 8415), servers and clients.
const DHCP: [[u16; 2]; 2] = [[67, 68], [546, 547]];

/// The content of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// An IP packet.
    Packet {
        /// Bytes before its header: the Ethernet header and the tags.
        front: u8,
    },
    /// No IP packet, or one that concerns the local network only: neighbour discovery, MLD, IGMP and DHCP.
    Local,
    /// Less than an Ethernet header.
    Runt,
}

/// The content of `frame`, which begins with its destination address and has no frame check sequence.
#[must_use]
pub fn content(frame: &[u8]) -> Content {
    let mut front = HEADER_LEN;
    if frame.len() < front {
        return Content::Runt;
    }
    let mut kind = read_u16(frame, front - 2);
    for _ in 0..MOST_TAGS {
        if !TAGS.contains(&kind) || frame.len() < front + TAG_LEN {
            break;
        }
        front += TAG_LEN;
        kind = read_u16(frame, front - 2);
    }
    let packet = &frame[front..];
    let is_packet = match kind {
        IPV4 => Ipv4::parse(packet).is_some(),
        IPV6 => Ipv6::parse(packet).is_some(),
        _ => false,
    };
    match u8::try_from(front) {
        Ok(front) if is_packet && !is_local(packet) => Content::Packet { front },
        _ => Content::Local,
    }
}

/// Whether an IP packet concerns the local network only.
fn is_local(packet: &[u8]) -> bool {
    let (number, offset) = match (Ipv4::parse(packet), Ipv6::parse(packet)) {
        (Some(ip), _) if ip.is_fragment() => return false,
        (Some(ip), _) => (ip.protocol(), ip.header_len()),
        (_, Some(ip)) => (ip.upper_layer().protocol, ip.upper_layer().offset),
        _ => return false,
    };
    let upper = packet.get(offset..).unwrap_or_default();
    match number {
        protocol::IGMP => true,
        protocol::ICMPV6 => upper.first().is_some_and(|kind| is_link_control(*kind)),
        protocol::UDP => Udp::parse(upper).is_some_and(|udp| {
            let ports = [udp.source_port(), udp.destination_port()];
            DHCP.iter()
                .any(|both| ports.iter().all(|port| both.contains(port)))
        }),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{Content, content};
    use crate::ip::packet_length;

    fn frame(kind: &[u8], packet: &[u8]) -> Vec<u8> {
        [&[2; 6], &[4; 6], kind, packet].concat()
    }

    fn v4(number: u8, upper: &[u8]) -> Vec<u8> {
        let length = u8::try_from(20 + upper.len()).unwrap();
        let mut packet = vec![
            0x45, 0, 0, length, 0, 0, 0, 0, 64, number, 0, 0, 192, 0, 2, 1,
        ];
        packet.extend([255, 255, 255, 255]);
        packet.extend(upper);
        packet
    }

    fn v6(number: u8, upper: &[u8]) -> Vec<u8> {
        let length = u8::try_from(upper.len()).unwrap();
        let mut packet = vec![0x60, 0, 0, 0, 0, length, number, 255];
        packet.extend([0xfe; 32]);
        packet.extend(upper);
        packet
    }

    #[test]
    fn a_packet_is_found_behind_up_to_two_tags() {
        let packet = v4(17, &[0, 53, 0, 53, 0, 8, 0, 0]);
        let inside = |kind: &[u8]| content(&frame(kind, &packet));
        assert_eq!(inside(&[8, 0]), Content::Packet { front: 14 });
        let tagged = [0x81, 0, 0, 7, 8, 0];
        assert_eq!(inside(&tagged), Content::Packet { front: 18 });
        let twice = [0x88, 0xa8, 0, 7, 0x81, 0, 0, 9, 8, 0];
        assert_eq!(inside(&twice), Content::Packet { front: 22 });
        let thrice = [&[0x81, 0, 0, 1][..], &twice].concat();
        assert_eq!(inside(&thrice), Content::Local);
        let other = content(&frame(&[0x86, 0xdd], &v6(132, &[0; 12])));
        assert_eq!(other, Content::Packet { front: 14 });
    }

    #[test]
    fn what_is_no_packet_is_local() {
        let arp = [0, 1, 8, 0, 6, 4, 0, 1];
        let kinds: [&[u8]; 5] = [
            &[8, 6],
            &[0x88, 0xcc],
            &[0x88, 0xf7],
            &[0, 38],
            &[0x81, 0, 0, 1, 8, 6],
        ];
        for kind in kinds {
            assert_eq!(content(&frame(kind, &arp)), Content::Local);
        }
        assert_eq!(content(&frame(&[8, 0], &arp)), Content::Local, "version 0");
        assert_eq!(content(&frame(&[8, 0], &[0x45, 0])), Content::Local);
        assert_eq!(content(&[2; 13]), Content::Runt);
        assert_eq!(content(&frame(&[0x81, 0], &[0, 1])), Content::Local);
    }

    #[test]
    fn control_of_the_local_network_is_told_from_data() {
        let is_local = |packet: &[u8]| {
            let kind: [u8; 2] = if packet[0] >> 4 == 4 {
                [8, 0]
            } else {
                [0x86, 0xdd]
            };
            content(&frame(&kind, packet)) == Content::Local
        };
        assert!(is_local(&v4(2, &[0x22; 8])), "IGMP");
        assert!(is_local(&v4(17, &[0, 68, 0, 67, 0, 8, 0, 0])), "DHCP");
        assert!(!is_local(&v4(17, &[0, 68, 0, 53, 0, 8, 0, 0])));
        for kind in [131, 133, 134, 135, 136, 143] {
            assert!(is_local(&v6(58, &[kind, 0, 0, 0])), "ICMPv6 {kind}");
        }
        assert!(!is_local(&v6(58, &[128, 0, 0, 0])), "an echo request");
        let dhcp = [2, 34, 2, 35, 0, 8, 0, 0];
        assert!(is_local(&v6(17, &dhcp)), "DHCPv6");
        let behind_options = [&[17, 0, 0, 0, 0, 0, 0, 0][..], &dhcp].concat();
        assert!(is_local(&v6(0, &behind_options)));
        let mut fragment = v4(17, &[0, 68, 0, 67, 0, 8, 0, 0]);
        fragment[7] = 1;
        assert!(!is_local(&fragment), "no ports in it");
    }

    #[test]
    fn padding_is_no_part_of_the_packet() {
        let padded = [v4(17, &[0; 8]), vec![0; 18]].concat();
        assert_eq!(packet_length(&padded), 28);
        assert_eq!(packet_length(&padded[..28]), 28);
        assert_eq!(packet_length(&padded[..24]), 24, "cut short");
        let padded = [v6(17, &[0; 8]), vec![0; 6]].concat();
        assert_eq!(packet_length(&padded), 48);
        let mut unknown = v4(17, &[0; 8]);
        unknown[3] = 0;
        assert_eq!(packet_length(&unknown), 28, "no length in the header");
    }
}
