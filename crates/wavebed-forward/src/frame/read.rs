//! What a received frame says of itself.

use super::header::{
    ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_PPPOE, ETHERTYPE_VLAN, IPV4_BYTES, IPV6_BYTES,
    PPP_IPV4, PPP_IPV6, PPPOE_BYTES, PPPOE_VERSION_AND_CODE, UDP, UDP_BYTES, VLAN_BYTES,
};
use super::{NUMBERS, STAMP_BYTES, Stamp};

const ETHERTYPE_SERVICE_VLAN: u16 = 0x88a8;
/// More fragments, and the fragment's offset.
const FRAGMENT: u16 = 0x3fff;

/// What a received frame is, if it may be a test frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// What it says of itself.
    pub stamp: Stamp,
    /// Where the stamp begins.
    pub header_length: usize,
    /// Bytes of payload by the UDP header: what [`Header::payload_length`] said when it left.
    pub payload_length: usize,
    /// Whether it is IPv6.
    pub v6: bool,
}

/// Reads a frame that came in: `bytes` may be cut short after the stamp.
///
/// A test frame is Ethernet, at most one VLAN tag, at most one `PPPoE` session header, IPv4 without options that is no
/// fragment, or IPv6 without extension headers, UDP with at least 18 bytes of payload, and a number below
/// [`NUMBERS`]. Addresses, ports, TTL, tag and session may have changed on the way.
/// Everything else is foreign: `None`.
#[must_use]
pub fn read(bytes: &[u8]) -> Option<Seen> {
    let mut at = 12;
    let mut kind = word(bytes, at)?;
    at += 2;
    if matches!(kind, ETHERTYPE_VLAN | ETHERTYPE_SERVICE_VLAN) {
        kind = word(bytes, at + 2)?;
        at += VLAN_BYTES;
    }
    if kind == ETHERTYPE_PPPOE {
        kind = match (word(bytes, at)?, word(bytes, at + 6)?) {
            (PPPOE_VERSION_AND_CODE, PPP_IPV4) => ETHERTYPE_IPV4,
            (PPPOE_VERSION_AND_CODE, PPP_IPV6) => ETHERTYPE_IPV6,
            _ => return None,
        };
        at += PPPOE_BYTES;
    }
    let v6 = kind == ETHERTYPE_IPV6;
    at += match kind {
        ETHERTYPE_IPV4 => {
            let plain = *bytes.get(at)? == 0x45 && *bytes.get(at + 9)? == UDP;
            let whole = word(bytes, at + 6)? & FRAGMENT == 0;
            (plain && whole).then_some(IPV4_BYTES)?
        }
        ETHERTYPE_IPV6 => {
            let plain = bytes.get(at)? >> 4 == 6 && *bytes.get(at + 6)? == UDP;
            plain.then_some(IPV6_BYTES)?
        }
        _ => return None,
    };
    let udp_length = usize::from(word(bytes, at + 4)?);
    let header_length = at + UDP_BYTES;
    let stamp = bytes.get(header_length..header_length + STAMP_BYTES)?;
    let number = u64::from_be_bytes(stamp[..8].try_into().ok()?);
    if udp_length < UDP_BYTES + STAMP_BYTES || number >= NUMBERS {
        return None;
    }
    Some(Seen {
        stamp: Stamp {
            number,
            time_ns: u64::from_be_bytes(stamp[8..16].try_into().ok()?),
            trial: u16::from_be_bytes(stamp[16..].try_into().ok()?),
        },
        header_length,
        payload_length: udp_length - UDP_BYTES,
        v6,
    })
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}
