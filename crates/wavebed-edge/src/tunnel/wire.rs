//! Formats of what the ends send each other, in network byte order.
//!
//! | kind | fields |
//! |---|---|
//! | 1, packet | sequence number (4 bytes), time of sending (4, microseconds), one IP packet, or nothing |
//! | 2, report | see [`Report`]: 49 bytes |
//! | 3, keep-alive | padding of any length: shows the listening end the address of the connecting one, or tests a size |
//!
//! Numbers and times of 4 bytes wrap; [`unwrapped`] finds the whole value near a known one.

/// First byte of a packet.
const PACKET: u8 = 1;
/// First byte of a report.
const REPORT: u8 = 2;
/// First byte of a keep-alive; alone it is one.
pub const KEEP_ALIVE: u8 = 3;

/// Bytes before the IP packet.
pub const PACKET_HEADER_BYTES: usize = 9;
/// Bytes of a report.
pub const REPORT_BYTES: usize = 49;

/// What precedes an IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketHeader {
    /// Counts packets of one sender, wraps.
    pub sequence: u32,
    /// When it was sent, microseconds of the sender's clock, wraps.
    pub sent_us: u32,
}

impl PacketHeader {
    /// Its bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; PACKET_HEADER_BYTES] {
        let mut bytes = [PACKET; PACKET_HEADER_BYTES];
        bytes[1..5].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[5..9].copy_from_slice(&self.sent_us.to_be_bytes());
        bytes
    }
}

/// A receiver's report. Counters run since the start of the connection, so that a lost report costs no more than time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Counts reports, wraps; an older one than the last is of no use.
    pub number: u32,
    /// When it was made, microseconds of the receiver's clock, wraps.
    pub at_us: u32,
    /// Highest sequence number received.
    pub highest: u32,
    /// Time from the arrival of that packet to this report, microseconds.
    pub held_us: u32,
    /// Packets received.
    pub packets: u64,
    /// Bytes received, with the overhead of the tunnel.
    pub bytes: u64,
    /// One-way delays since the last report, microseconds: receiver's clock less sender's, so with an unknown offset that
    /// both ends keep; wraps.
    pub delay_min_us: u32,
    /// Their mean.
    pub delay_mean_us: u32,
    /// The delay of the last packet.
    pub delay_last_us: u32,
    /// Longest time without an arrival since the last one that was reported before, microseconds.
    pub gap_us: u32,
}

impl Report {
    /// Its bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; REPORT_BYTES] {
        let mut bytes = [REPORT; REPORT_BYTES];
        let mut at = 1;
        let mut put = |field: &[u8]| {
            bytes[at..at + field.len()].copy_from_slice(field);
            at += field.len();
        };
        put(&self.number.to_be_bytes());
        put(&self.at_us.to_be_bytes());
        put(&self.highest.to_be_bytes());
        put(&self.held_us.to_be_bytes());
        put(&self.packets.to_be_bytes());
        put(&self.bytes.to_be_bytes());
        put(&self.delay_min_us.to_be_bytes());
        put(&self.delay_mean_us.to_be_bytes());
        put(&self.delay_last_us.to_be_bytes());
        put(&self.gap_us.to_be_bytes());
        bytes
    }

    fn parse(mut fields: Fields<'_>) -> Option<Self> {
        Some(Self {
            number: fields.u32()?,
            at_us: fields.u32()?,
            highest: fields.u32()?,
            held_us: fields.u32()?,
            packets: fields.u64()?,
            bytes: fields.u64()?,
            delay_min_us: fields.u32()?,
            delay_mean_us: fields.u32()?,
            delay_last_us: fields.u32()?,
            gap_us: fields.u32()?,
        })
    }
}

/// A received message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// An IP packet; empty while the sender finds the link blocked.
    Packet(PacketHeader, &'a [u8]),
    /// A report.
    Report(Report),
    /// Nothing but padding.
    KeepAlive,
}

/// A message that no end of this version sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// No bytes, or another kind.
    #[error("kind {0:?} is neither 1 (packet), 2 (report) nor 3 (keep-alive)")]
    Kind(Option<u8>),
    /// Not the length of its kind.
    #[error("{0} bytes are not the length of this kind of message")]
    Length(usize),
}

impl<'a> Message<'a> {
    /// Reads a message.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let length = Malformed::Length(bytes.len());
        let (kind, rest) = bytes.split_first().ok_or(Malformed::Kind(None))?;
        let mut fields = Fields(rest);
        match *kind {
            PACKET => {
                let sequence = fields.u32().ok_or(length)?;
                let sent_us = fields.u32().ok_or(length)?;
                let header = PacketHeader { sequence, sent_us };
                Ok(Self::Packet(header, fields.0))
            }
            REPORT if bytes.len() == REPORT_BYTES => {
                Report::parse(fields).map(Self::Report).ok_or(length)
            }
            KEEP_ALIVE => Ok(Self::KeepAlive),
            REPORT => Err(length),
            other => Err(Malformed::Kind(Some(other))),
        }
    }
}

/// Fields still to be read.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*field)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }
}

/// The value whose low 32 bits are `low` and which is nearest to `near`; not below zero.
#[must_use]
pub fn unwrapped(near: u64, low: u32) -> u64 {
    #[expect(clippy::cast_possible_truncation, reason = "the low bits are taken")]
    let ahead = low.wrapping_sub(near as u32).cast_signed();
    near.checked_add_signed(ahead.into())
        .unwrap_or_else(|| u64::from(low))
}

/// The low 32 bits.
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "the low bits are taken")]
pub const fn wrapped(value: u64) -> u32 {
    value as u32
}
