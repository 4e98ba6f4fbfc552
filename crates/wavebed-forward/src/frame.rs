//! Test frames: what a specification asks for, and the table of headers that every sender copies from.
//!
//! Lengths here are without the frame check sequence, as a program sees them; `sizes_bytes` of a specification
//! count its 4 bytes, as RFC 2544 does.

use std::net::IpAddr;

use serde::Deserialize;

/// Bytes of the frame check sequence, which no program sees.
pub const FCS_BYTES: usize = 4;

/// Bytes of a stamp: number (8), time (8), trial (2), each big-endian. It fills the 18 bytes of payload of the smallest
/// Ethernet frame with IPv4 and UDP.
pub const STAMP_BYTES: usize = 18;

/// The longest header: Ethernet 14, VLAN 4, `PPPoE` 8, IPv6 40, UDP 8, and room to a multiple of 8.
pub const HEADER_ROOM: usize = 80;

/// A row of things that flows differ in: `first`, `first + 1`, … `count` of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Range<T> {
    /// The first.
    pub first: T,
    /// How many, at least 1.
    pub count: u16,
}

/// The test frames of a trial.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrameSpec {
    /// Sizes with FCS, repeated in this order: one for RFC 2544, twelve for a 7:4:1 mix.
    pub sizes_bytes: Vec<u16>,
    /// The sending port.
    pub source_mac: [u8; 6],
    /// The next hop.
    pub destination_mac: [u8; 6],
    /// VLAN identifier of an 802.1Q tag.
    pub vlan: Option<u16>,
    /// Session of a `PPPoE` header.
    pub pppoe_session: Option<u16>,
    /// Source addresses; both rows are of one family.
    pub sources: Range<IpAddr>,
    /// Destination addresses.
    pub destinations: Range<IpAddr>,
    /// UDP source ports.
    pub source_ports: Range<u16>,
    /// UDP destination ports.
    pub destination_ports: Range<u16>,
    /// Flows: distinct combinations of the above (RFC 4814).
    pub flows: u16,
}

/// One row of the table: a frame's header with all that does not change from frame to frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The header; what follows is the stamp, then zeros up to `length`.
    pub bytes: [u8; HEADER_ROOM],
    /// Bytes of the header: where the stamp begins.
    pub header_length: usize,
    /// Bytes of the frame without FCS.
    pub length: usize,
    /// With IPv6: the ones' complement sum (not folded, not inverted) of the pseudo header and the UDP header, to which the
    /// sum of the stamp is added; its place is `header_length - 2`. With IPv4 `None`: the checksum is 0 (RFC 768).
    pub checksum: Option<u32>,
}

/// What a frame says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Its number, from 0.
    pub number: u64,
    /// When it left, on the monotonic clock, nanoseconds.
    pub time_ns: u64,
    /// Its trial.
    pub trial: u16,
}

/// A specification that breaks a rule, in one line.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}")]
pub struct SpecError(pub String);

/// The frames of a trial, ready to be written: frame `n` is built from row `n % table.len()`.
#[derive(Clone, Debug)]
pub struct Frames {
    table: Vec<Header>,
}
