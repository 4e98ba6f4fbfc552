//! Answers to packets that are larger than the path carries: ICMP "fragmentation needed" (RFC 1191) and `ICMPv6` "packet
//! too big" (RFC 4443, RFC 8201).

use std::net::{Ipv4Addr, Ipv6Addr};

use wavebed_packet::checksum::{add, checksum, sum};
use wavebed_packet::ip::{Ipv4, Ipv6, protocol, version};

/// Type, code, checksum, and the MTU.
const ICMP_BYTES: usize = 8;
/// Most bytes of an answer of IPv4 (RFC 1812, section 4.3.2.3).
const MOST_V4_BYTES: usize = 576;
/// One of IPv6 is no longer than the least MTU (RFC 4443, section 3.2).
const MOST_V6_BYTES: usize = 1280;
/// Precedence 6, internetwork control (RFC 1812, section 4.3.2.5).
const CONTROL: u8 = 0xc0;
const HOPS: u8 = 64;
/// First type of `ICMPv6` that is no error.
const FIRST_INFORMATION: u8 = 128;
const REDIRECT_V6: u8 = 137;
/// Bytes of a fragment header of IPv6.
const FRAGMENT_BYTES: usize = 8;

/// The answer to `packet`, which says that the path carries packets of `mtu` bytes. None for what gets no ICMP error:
/// ICMP errors, fragments but the first, and addresses that are not of one host (RFC 1122, section 3.2.2; RFC 4443,
/// section 2.4).
///
/// It comes from the packet's destination: Linux refuses packets from its own addresses, and its filter of reverse
/// paths lets pass what comes from where the packet was sent to.
pub fn answer(packet: &[u8], mtu: usize) -> Option<Vec<u8>> {
    match version(packet) {
        4 => answer_v4(packet, u16::try_from(mtu).ok()?),
        6 => answer_v6(packet, u32::try_from(mtu).ok()?),
        _ => None,
    }
}

fn answer_v4(packet: &[u8], mtu: u16) -> Option<Vec<u8>> {
    let ip = Ipv4::parse(packet)?;
    let addresses = [ip.source(), ip.destination()];
    if ip.fragment_offset() != 0 || !addresses.into_iter().all(is_host_v4) {
        return None;
    }
    if ip.protocol() == protocol::ICMP && !is_query_v4(*packet.get(ip.header_len())?) {
        return None;
    }
    let quoted = &packet[..packet.len().min(MOST_V4_BYTES - Ipv4::MIN_LEN - ICMP_BYTES)];
    let length = u16::try_from(Ipv4::MIN_LEN + ICMP_BYTES + quoted.len()).ok()?;
    let mut answer = Vec::with_capacity(length.into());
    answer.extend([0x45, CONTROL]);
    answer.extend(length.to_be_bytes());
    answer.extend([0, 0, 0, 0, HOPS, protocol::ICMP, 0, 0]);
    answer.extend(ip.destination().octets());
    answer.extend(ip.source().octets());
    let header = checksum(&answer);
    answer[10..12].copy_from_slice(&header.to_be_bytes());
    // Destination unreachable, fragmentation needed; the MTU is in the last two bytes of the head.
    answer.extend([3, 4, 0, 0, 0, 0]);
    answer.extend(mtu.to_be_bytes());
    answer.extend(quoted);
    let message = checksum(&answer[Ipv4::MIN_LEN..]);
    answer[Ipv4::MIN_LEN + 2..][..2].copy_from_slice(&message.to_be_bytes());
    Some(answer)
}

fn answer_v6(packet: &[u8], mtu: u32) -> Option<Vec<u8>> {
    let ip = Ipv6::parse(packet)?;
    let addresses = [ip.source(), ip.destination()];
    if !addresses.into_iter().all(is_host_v6) {
        return None;
    }
    let upper = ip.upper_layer();
    let (mut kind, mut at) = (upper.protocol, upper.offset);
    if kind == protocol::FRAGMENT {
        let fragment = packet.get(at..at + FRAGMENT_BYTES)?;
        if u16::from_be_bytes([fragment[2], fragment[3]]) >> 3 != 0 {
            return None;
        }
        (kind, at) = (fragment[0], at + FRAGMENT_BYTES);
    }
    if kind == protocol::ICMPV6 {
        let message = *packet.get(at)?;
        if message < FIRST_INFORMATION || message == REDIRECT_V6 {
            return None;
        }
    }
    let quoted = &packet[..packet.len().min(MOST_V6_BYTES - Ipv6::LEN - ICMP_BYTES)];
    let length = u16::try_from(ICMP_BYTES + quoted.len()).ok()?;
    let mut answer = Vec::with_capacity(Ipv6::LEN + usize::from(length));
    answer.extend([0x60, 0, 0, 0]);
    answer.extend(length.to_be_bytes());
    answer.extend([protocol::ICMPV6, HOPS]);
    answer.extend(ip.destination().octets());
    answer.extend(ip.source().octets());
    // Packet too big; the checksum covers a pseudo-header (RFC 8200, section 8.1).
    answer.extend([2, 0, 0, 0]);
    answer.extend(mtu.to_be_bytes());
    answer.extend(quoted);
    let pseudo = add(sum(&answer[8..Ipv6::LEN]), protocol::ICMPV6.into());
    let message = !add(add(pseudo, length), sum(&answer[Ipv6::LEN..]));
    answer[Ipv6::LEN + 2..][..2].copy_from_slice(&message.to_be_bytes());
    Some(answer)
}

/// Echo, router discovery, timestamps, information, masks; others are errors, or unknown.
const fn is_query_v4(kind: u8) -> bool {
    matches!(kind, 0 | 8..=10 | 13..=18)
}

/// An address of one host; 240.0.0.0/4, with the broadcast, is none.
const fn is_host_v4(address: Ipv4Addr) -> bool {
    let first = address.octets()[0];
    first != 0 && first != 127 && first < 224
}

const fn is_host_v6(address: Ipv6Addr) -> bool {
    !address.is_unspecified() && !address.is_loopback() && !address.is_multicast()
}

#[cfg(test)]
mod tests;
