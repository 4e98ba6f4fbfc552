//! Test frames: what a specification asks for, and the table of headers that every sender copies from.
//!
//! Lengths here are without the frame check sequence, as a program sees them; `sizes_bytes` of a specification
//! count its 4 bytes, as RFC 2544 does.

mod check;
mod checksum;
mod flow;
mod header;
mod mac;
mod read;

use std::net::IpAddr;

use serde::Deserialize;

use self::check::check;
pub use self::checksum::{finish_checksum, sum_words};
pub use self::flow::address_after;
use self::flow::{Combination, combinations, permuted};
use self::header::header;
use self::mac::mac;
pub use self::mac::{mac_from_text, mac_text};
pub use self::read::{Seen, read};

/// Bytes of the frame check sequence, which no program sees.
pub const FCS_BYTES: usize = 4;

/// Bytes of a stamp: number (8), time (8), trial (2), each big-endian. It fills the 18 bytes of payload of the smallest
/// Ethernet frame with IPv4 and UDP.
pub const STAMP_BYTES: usize = 18;

/// The longest header: Ethernet 14, VLAN 4, `PPPoE` 8, IPv6 40, UDP 8, and room to a multiple of 8.
pub const HEADER_ROOM: usize = 80;

/// The table has no more rows than this.
pub const MAX_ROWS: usize = 16_384;

/// Frame numbers are below this: nine days at gigabit line rate. A greater one was not written by a sender.
pub const NUMBERS: u64 = 1 << 40;

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
    #[serde(deserialize_with = "mac")]
    pub source_mac: [u8; 6],
    /// The next hop.
    #[serde(deserialize_with = "mac")]
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

/// The frames of a trial, ready to be written: frame `n` is built from row `n % rows().len()`.
#[derive(Clone, Debug)]
pub struct Frames {
    table: Vec<Header>,
    flows: usize,
    v6: bool,
}

impl Frames {
    /// Builds the table: its rows are the least common multiple of the flows and the sizes, so that row `r` belongs to
    /// flow `r % flows` and has size `r % sizes`.
    ///
    /// Flow `f` takes the combination of addresses and ports that a fixed pseudo-random permutation of all
    /// combinations gives it (RFC 4814, section 4: not in sequence, and the same in every run).
    ///
    /// # Errors
    /// One line that says what of the specification breaks which rule.
    pub fn new(spec: &FrameSpec) -> Result<Self, SpecError> {
        let v6 = check(spec)?;
        let flows = usize::from(spec.flows);
        let sizes = &spec.sizes_bytes;
        let rows = flows / greatest_common_divisor(flows, sizes.len()) * sizes.len();
        if rows > MAX_ROWS {
            return Err(SpecError(format!(
                "flows: {flows} flows and {} sizes only repeat after {rows} frames; the table holds {MAX_ROWS}: \
                 fewer flows, or a multiple of the number of sizes",
                sizes.len()
            )));
        }
        let combinations = combinations(spec);
        let table = (0..rows)
            .map(|row| {
                let place = permuted((row % flows) as u64, combinations);
                header(
                    spec,
                    &Combination::at(spec, place),
                    sizes[row % sizes.len()],
                )
            })
            .collect();
        Ok(Self { table, flows, v6 })
    }

    /// The table. Never empty.
    #[must_use]
    pub fn rows(&self) -> &[Header] {
        &self.table
    }

    /// How many flows there are. Frame `n` belongs to flow `n % flows()`.
    #[must_use]
    pub const fn flows(&self) -> usize {
        self.flows
    }

    /// The row that frame `n` is built from.
    #[must_use]
    pub fn row(&self, n: u64) -> &Header {
        let rows = self.table.len() as u64;
        #[expect(clippy::cast_possible_truncation, reason = "within the table")]
        &self.table[(n % rows) as usize]
    }

    /// Bytes of frame `n` without FCS.
    #[must_use]
    pub fn length(&self, n: u64) -> usize {
        self.row(n).length
    }

    /// Bytes of the longest frame without FCS.
    ///
    /// # Panics
    /// Never: the table has rows.
    #[must_use]
    pub fn longest(&self) -> usize {
        let lengths = self.table.iter().map(|row| row.length);
        lengths.max().expect("the table has rows")
    }

    /// Bytes before the stamp: the same in all frames.
    #[must_use]
    pub fn header_length(&self) -> usize {
        self.table[0].header_length
    }

    /// Whether the frames are IPv6.
    #[must_use]
    pub const fn is_v6(&self) -> bool {
        self.v6
    }

    /// Writes frame `n` and returns its length.
    ///
    /// # Panics
    /// If `into` is shorter than the frame.
    pub fn write(&self, n: u64, trial: u16, time_ns: u64, into: &mut [u8]) -> usize {
        let length = self.write_head(n, trial, time_ns, into);
        into[self.header_length() + STAMP_BYTES..length].fill(0);
        length
    }

    /// Writes header and stamp of frame `n` and returns the length of the whole frame. What follows the stamp must be
    /// zero already.
    ///
    /// # Panics
    /// If `into` is shorter than header and stamp.
    pub fn write_head(&self, n: u64, trial: u16, time_ns: u64, into: &mut [u8]) -> usize {
        let row = self.row(n);
        let start = row.header_length;
        into[..start].copy_from_slice(&row.bytes[..start]);
        let stamp = Stamp {
            number: n,
            time_ns,
            trial,
        }
        .to_bytes();
        into[start..start + STAMP_BYTES].copy_from_slice(&stamp);
        if let Some(base) = row.checksum {
            let checksum = finish_checksum(base + sum_words(&stamp));
            into[start - 2..start].copy_from_slice(&checksum.to_be_bytes());
        }
        row.length
    }
}

impl Header {
    /// Bytes of UDP payload: the stamp and the zeros after it.
    #[must_use]
    pub const fn payload_length(&self) -> usize {
        self.length - self.header_length
    }
}

impl Stamp {
    /// As it stands in a frame.
    #[must_use]
    pub fn to_bytes(self) -> [u8; STAMP_BYTES] {
        let mut bytes = [0; STAMP_BYTES];
        bytes[..8].copy_from_slice(&self.number.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.time_ns.to_be_bytes());
        bytes[16..].copy_from_slice(&self.trial.to_be_bytes());
        bytes
    }
}

fn greatest_common_divisor(mut a: usize, mut b: usize) -> usize {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}
