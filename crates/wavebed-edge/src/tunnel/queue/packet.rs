//! Packets in the queues, with what their headers say.

use std::net::IpAddr;

use wavebed_packet::ip::{Ipv4, Ipv6};
use wavebed_packet::{HeaderBuf, VnetHeader, inspect, piece};

/// ECN field of a packet that is not ECN-capable (RFC 3168).
const NOT_ECT: u8 = 0;
/// ECT(1), the identifier of L4S (RFC 9331).
const ECT_1: u8 = 1;

/// The address of a packet that belongs to the host which shares the link: behind the far end for what is sent to it,
/// at the near end for what comes from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HostAddress {
    /// The source.
    Source,
    /// The destination.
    #[default]
    Destination,
}

/// One IP packet with complete checksums: one wire segment.
#[derive(Clone, Debug)]
pub struct Packet {
    /// From the IP header on.
    pub bytes: Vec<u8>,
    /// When it arrived, nanoseconds.
    pub arrived_ns: u64,
    /// Hash of addresses, protocol and ports; fragments have no ports.
    pub(super) flow: u32,
    /// The host, as a number that has the same bits for the same address.
    pub(super) host: u64,
    ecn: u8,
}

impl Packet {
    /// Reads the headers of `bytes`. Anything but IP belongs to one flow of one host.
    #[must_use]
    pub fn new(bytes: Vec<u8>, arrived_ns: u64, host: HostAddress) -> Self {
        let shape = inspect(&VnetHeader::default(), &bytes).ok();
        Self {
            arrived_ns,
            flow: shape.map_or(0, |shape| shape.flow),
            host: host_number(&bytes, host),
            ecn: shape.map_or(NOT_ECT, |shape| shape.ecn),
            bytes,
        }
    }

    /// IP bytes.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Whether it has no bytes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) const fn is_ect1(&self) -> bool {
        self.ecn == ECT_1
    }

    /// Marks it with CE. False if it is not ECN-capable.
    pub(super) fn mark(&mut self) -> bool {
        let vnet = VnetHeader::default();
        if self.ecn == NOT_ECT {
            return false;
        }
        if let Ok(shape) = inspect(&vnet, &self.bytes) {
            let mut buffer = HeaderBuf::new();
            let header = piece(&vnet, &self.bytes, &shape, 0, 1, true, &mut buffer)
                .header
                .to_vec();
            self.bytes[..header.len()].copy_from_slice(&header);
            self.ecn = 3;
        }
        true
    }
}

/// Zero for what is not IP.
fn host_number(bytes: &[u8], host: HostAddress) -> u64 {
    let is_source = host == HostAddress::Source;
    let address: Option<IpAddr> = if let Some(ip) = Ipv4::parse(bytes) {
        Some(
            if is_source {
                ip.source()
            } else {
                ip.destination()
            }
            .into(),
        )
    } else {
        Ipv6::parse(bytes).map(|ip| {
            if is_source {
                ip.source()
            } else {
                ip.destination()
            }
            .into()
        })
    };
    match address {
        Some(IpAddr::V4(address)) => u64::from(address.to_bits()) + 1,
        // A host of IPv6 may have many addresses: its network of 64 bits counts, as an operator assigns it.
        Some(IpAddr::V6(address)) => {
            u64::try_from(address.to_bits() >> 64).unwrap_or_default() ^ (1 << 63)
        }
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wavebed_packet::checksum::checksum;

    fn v4(ecn: u8) -> Vec<u8> {
        let mut bytes = vec![
            0x45, ecn, 0, 30, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, 7, 0, 9, 0,
            10, 0, 0, 1, 2,
        ];
        let sum = checksum(&bytes[..20]);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    #[test]
    fn a_mark_sets_ce_and_keeps_the_checksum_right() {
        let mut packet = Packet::new(v4(0xb8 | 2), 0, HostAddress::Source);
        assert!(packet.mark());
        assert_eq!(packet.bytes[1], 0xbb, "the DSCP stays");
        assert_eq!(checksum(&packet.bytes[..20]), 0);
        assert_eq!(packet.bytes[20..], v4(0)[20..]);
    }

    #[test]
    fn a_packet_that_is_not_ecn_capable_is_not_marked() {
        let mut packet = Packet::new(v4(0), 0, HostAddress::Source);
        assert!(!packet.mark());
        assert_eq!(packet.bytes, v4(0));
    }

    #[test]
    fn the_host_is_the_address_of_the_chosen_side() {
        let from = |bytes, host| Packet::new(bytes, 0, host).host;
        let mut other = v4(0);
        other[19] = 3;
        assert_eq!(
            from(v4(0), HostAddress::Source),
            from(other.clone(), HostAddress::Source)
        );
        assert_ne!(
            from(v4(0), HostAddress::Destination),
            from(other, HostAddress::Destination)
        );
        assert_eq!(from(vec![1, 2, 3], HostAddress::Source), 0);
    }
}
