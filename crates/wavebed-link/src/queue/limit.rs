//! How much a queue may hold.

use crate::run::Run;
use crate::stage::Backlog;
use crate::unit::Unit;

/// The limit of a queue. What is in service does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub enum Limit {
    /// IP bytes of wire segments.
    #[serde(rename = "bytes")]
    Bytes(u64),
    /// Wire segments, or super-packets where they are the unit.
    #[serde(rename = "packets")]
    Packets(u64),
    /// What the service rate carries in this many nanoseconds: the bytes that wait may not exceed
    /// `rate · time`, with the rate of the moment of arrival (the last one above zero during an outage).
    #[serde(rename = "time_ns")]
    TimeNs(u64),
}

/// A [`Limit`] at the present service rate, with the unit that it counts.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    limit: Limit,
    unit: Unit,
    max_bytes: u64,
    max_packets: u64,
}

impl Room {
    /// The room that `limit` gives. A limit in time admits everything until the first
    /// [`Room::service_rate`].
    #[must_use]
    pub const fn new(limit: Limit, unit: Unit) -> Self {
        let (max_bytes, max_packets) = match limit {
            Limit::Bytes(bytes) => (bytes, u64::MAX),
            Limit::Packets(packets) => (u64::MAX, packets),
            Limit::TimeNs(_) => (u64::MAX, u64::MAX),
        };
        Self {
            limit,
            unit,
            max_bytes,
            max_packets,
        }
    }

    /// What is counted.
    #[must_use]
    pub const fn unit(&self) -> Unit {
        self.unit
    }

    /// Whether the limit follows the service rate.
    #[must_use]
    pub const fn wants_rate(&self) -> bool {
        matches!(self.limit, Limit::TimeNs(_))
    }

    /// The service rate from now on, bits per second. Zero keeps the rate before.
    pub fn service_rate(&mut self, rate_bps: u64) {
        if let Limit::TimeNs(time_ns) = self.limit
            && rate_bps > 0
        {
            let bytes = u128::from(time_ns) * u128::from(rate_bps) / 8_000_000_000;
            self.max_bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        }
    }

    /// Whether `run` fits as a whole beside `packets` packets and `bytes` bytes.
    #[must_use]
    pub const fn fits(&self, run: &Run, packets: u64, bytes: u64) -> bool {
        let more = match self.unit {
            Unit::Packet => run.count as u64,
            Unit::Superpacket => 1,
        };
        packets + more <= self.max_packets && bytes.saturating_add(run.bytes()) <= self.max_bytes
    }

    /// Whether the queue holds more than it may: an arrival that was let in must push something out.
    #[must_use]
    pub const fn exceeded(&self, packets: u64, bytes: u64) -> bool {
        packets > self.max_packets || bytes > self.max_bytes
    }

    /// How many segments of `run`, all of `segment_bytes`, fit from the front beside `held`.
    #[must_use]
    pub fn fitting(&self, count: u16, segment_bytes: u16, held: Backlog) -> u16 {
        let by_packets = self.max_packets.saturating_sub(held.segments);
        let bytes_left = self.max_bytes.saturating_sub(held.bytes);
        let by_bytes = bytes_left
            .checked_div(u64::from(segment_bytes))
            .unwrap_or(u64::MAX);
        u16::try_from(by_packets.min(by_bytes)).map_or(count, |fitting| fitting.min(count))
    }
}
