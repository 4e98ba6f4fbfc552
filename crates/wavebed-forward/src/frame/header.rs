//! The header of a frame, byte by byte.

use std::net::{IpAddr, Ipv4Addr};

use super::checksum::{fold, sum_words};
use super::flow::Combination;
use super::{FCS_BYTES, FrameSpec, HEADER_ROOM, Header};

const ETHERNET_BYTES: usize = 14;
pub(super) const VLAN_BYTES: usize = 4;
pub(super) const PPPOE_BYTES: usize = 8;
pub(super) const IPV4_BYTES: usize = 20;
pub(super) const IPV6_BYTES: usize = 40;
pub(super) const UDP_BYTES: usize = 8;
pub(super) const ETHERTYPE_IPV4: u16 = 0x0800;
pub(super) const ETHERTYPE_IPV6: u16 = 0x86dd;
pub(super) const ETHERTYPE_VLAN: u16 = 0x8100;
pub(super) const ETHERTYPE_PPPOE: u16 = 0x8864;
/// Version 1, type 1, code 0: session data (RFC 2516).
pub(super) const PPPOE_VERSION_AND_CODE: u16 = 0x1100;
pub(super) const PPP_IPV4: u16 = 0x0021;
pub(super) const PPP_IPV6: u16 = 0x0057;
pub(super) const UDP: u8 = 17;
/// TTL and hop limit.
const HOPS: u8 = 64;

/// Bytes before the stamp.
pub(super) const fn header_length(spec: &FrameSpec, v6: bool) -> usize {
    let tag = if spec.vlan.is_some() { VLAN_BYTES } else { 0 };
    let session = if spec.pppoe_session.is_some() {
        PPPOE_BYTES
    } else {
        0
    };
    let ip = if v6 { IPV6_BYTES } else { IPV4_BYTES };
    ETHERNET_BYTES + tag + session + ip + UDP_BYTES
}

/// The row of the table for a flow and a size with FCS.
pub(super) fn header(spec: &FrameSpec, flow: &Combination, size: u16) -> Header {
    let v6 = flow.source.is_ipv6();
    let header_length = header_length(spec, v6);
    let length = usize::from(size) - FCS_BYTES;
    let udp_length = short(length - header_length + UDP_BYTES);
    let mut bytes = Vec::with_capacity(HEADER_ROOM);
    bytes.extend(spec.destination_mac);
    bytes.extend(spec.source_mac);
    if let Some(vlan) = spec.vlan {
        bytes.extend(words([ETHERTYPE_VLAN, vlan]));
    }
    let ip_kind = if v6 { ETHERTYPE_IPV6 } else { ETHERTYPE_IPV4 };
    if let Some(session) = spec.pppoe_session {
        let ppp_kind = if v6 { PPP_IPV6 } else { PPP_IPV4 };
        let ppp_length = short(length - bytes.len() - 2 - 6);
        bytes.extend(words([
            ETHERTYPE_PPPOE,
            PPPOE_VERSION_AND_CODE,
            session,
            ppp_length,
            ppp_kind,
        ]));
    } else {
        bytes.extend(words([ip_kind]));
    }
    let pseudo = match (flow.source, flow.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            bytes.extend(ipv4(source, destination, short(length - bytes.len())));
            None
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            bytes.extend(words([0x6000, 0, udp_length]));
            bytes.extend([UDP, HOPS]);
            bytes.extend(source.octets());
            bytes.extend(destination.octets());
            let addresses = sum_words(&source.octets()) + sum_words(&destination.octets());
            Some(addresses + u32::from(udp_length) + u32::from(UDP))
        }
        _ => unreachable!("one family, as checked"),
    };
    let udp = bytes.len();
    bytes.extend(words([
        flow.source_port,
        flow.destination_port,
        udp_length,
        0,
    ]));
    let checksum = pseudo.map(|sum| sum + sum_words(&bytes[udp..]));
    bytes.resize(HEADER_ROOM, 0);
    Header {
        bytes: bytes.try_into().expect("headers fit their room"),
        header_length,
        length,
        checksum,
    }
}

fn ipv4(source: Ipv4Addr, destination: Ipv4Addr, total_length: u16) -> [u8; IPV4_BYTES] {
    let mut bytes = [0; IPV4_BYTES];
    bytes[0] = 0x45;
    bytes[2..4].copy_from_slice(&total_length.to_be_bytes());
    bytes[6] = 0x40; // do not fragment
    bytes[8] = HOPS;
    bytes[9] = UDP;
    bytes[12..16].copy_from_slice(&source.octets());
    bytes[16..].copy_from_slice(&destination.octets());
    let checksum = !fold(sum_words(&bytes));
    bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
    bytes
}

fn words<const N: usize>(words: [u16; N]) -> impl Iterator<Item = u8> {
    words.into_iter().flat_map(u16::to_be_bytes)
}

fn short(value: usize) -> u16 {
    u16::try_from(value).expect("frames are short")
}
