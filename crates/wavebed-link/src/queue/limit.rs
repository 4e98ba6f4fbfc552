//! Queue limits.

use std::collections::VecDeque;

use crate::run::{Backlog, Run};
use crate::stage::{MAX_TIME_NS, Unit};

/// The limit of a queue. The segment in service does not count.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema, garde::Validate,
)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// IP bytes of wire segments.
    Bytes(#[garde(range(min = 1))] u64),
    /// Wire segments, or super-packets where they are the unit.
    Packets(#[garde(range(min = 1))] u64),
    /// Bytes that the service rate carries in this many nanoseconds: the waiting bytes may not exceed `rate · time`,
    /// with the rate at arrival (the last one above zero during an outage).
    TimeNs(#[garde(range(min = 1, max = MAX_TIME_NS))] u64),
}

impl Limit {
    /// The smallest limit of this kind that lets a packet of `bytes` pass at `rate_bps`, if this limit is smaller.
    /// Without a rate above zero a limit in time is not judged: it keeps the rate before.
    #[must_use]
    pub fn too_small_for(self, bytes: u32, rate_bps: Option<u64>) -> Option<Self> {
        let least = match (self, rate_bps) {
            (Self::Bytes(_), _) => Self::Bytes(bytes.into()),
            (Self::TimeNs(_), Some(rate_bps)) if rate_bps > 0 => {
                Self::TimeNs(nanobits(bytes).div_ceil(rate_bps))
            }
            _ => return None,
        };
        match (self, least) {
            (Self::Bytes(own), Self::Bytes(least)) | (Self::TimeNs(own), Self::TimeNs(least)) => {
                own < least
            }
            _ => false,
        }
        .then_some(least)
    }

    /// The lowest rate at which this limit lets a packet of `bytes` pass, bits per second; 0 unless it is in time.
    #[must_use]
    pub fn least_rate_bps(self, bytes: u32) -> u64 {
        match self {
            Self::TimeNs(time_ns) => nanobits(bytes).div_ceil(time_ns.max(1)),
            Self::Bytes(_) | Self::Packets(_) => 0,
        }
    }
}

impl std::fmt::Display for Limit {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(formatter, "{bytes} bytes"),
            Self::Packets(packets) => write!(formatter, "{packets} packets"),
            Self::TimeNs(time_ns) => write!(formatter, "{time_ns} ns"),
        }
    }
}

/// Rate times time that carries `bytes`: bits per second times nanoseconds.
fn nanobits(bytes: u32) -> u64 {
    u64::from(bytes) * 8_000_000_000
}

/// A [`Limit`] at the current service rate, with its unit.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    limit: Limit,
    unit: Unit,
    max_bytes: u64,
    max_packets: u64,
}

impl Room {
    /// The room of `limit`. A limit in time admits everything until the first [`Room::service_rate`].
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

    /// The unit.
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

    /// Whether `run` fits as a whole beside `held`.
    #[must_use]
    pub const fn fits(&self, run: &Run, held: Held) -> bool {
        let more = match self.unit {
            Unit::Packet => run.count as u64,
            Unit::Superpacket => 1,
        };
        held.packets + more <= self.max_packets
            && held.bytes.saturating_add(run.bytes()) <= self.max_bytes
    }

    /// Whether `held` exceeds the limit: an admitted arrival must push out others.
    #[must_use]
    pub const fn exceeded(&self, held: Held) -> bool {
        held.packets > self.max_packets || held.bytes > self.max_bytes
    }

    /// Splits `run`, whose packets arrive one after another beside `held`: passes the fitting part to `keep` and the
    /// rest to `refuse`, in order. A shorter last segment may fit where the ones before it did not.
    pub fn admit(
        &self,
        mut run: Run,
        held: Held,
        mut keep: impl FnMut(Run),
        mut refuse: impl FnMut(Run),
    ) {
        if self.fits(&run, held) {
            return keep(run);
        }
        if self.unit == Unit::Superpacket || run.count == 1 {
            return refuse(run);
        }
        let fitting = self.fitting(run.count - 1, run.segment_bytes, held);
        let held = Held {
            packets: held.packets + u64::from(fitting),
            bytes: held.bytes + u64::from(fitting) * u64::from(run.segment_bytes),
        };
        if fitting > 0 {
            keep(run.split_front(fitting));
        }
        if run.count > 1 {
            let last = Run {
                first: run.end() - 1,
                count: 1,
                ..run
            };
            if self.fits(&last, held) {
                refuse(run.split_front(run.count - 1));
                return keep(last);
            }
        }
        refuse(run);
    }

    /// How many segments, at most `count` of `segment_bytes` each, fit beside `held`.
    fn fitting(&self, count: u16, segment_bytes: u16, held: Held) -> u16 {
        let by_packets = self.max_packets.saturating_sub(held.packets);
        let bytes_left = self.max_bytes.saturating_sub(held.bytes);
        let by_bytes = bytes_left
            .checked_div(u64::from(segment_bytes))
            .unwrap_or(u64::MAX);
        u16::try_from(by_packets.min(by_bytes)).map_or(count, |fitting| fitting.min(count))
    }
}

/// The load against a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Packets, in the unit of the limit.
    pub packets: u64,
    /// IP bytes.
    pub bytes: u64,
}

/// Runs in the order of their arrival, returned by the unit.
#[derive(Debug)]
pub(crate) struct Fifo {
    unit: Unit,
    runs: VecDeque<Run>,
    segments: u64,
    bytes: u64,
}

impl Fifo {
    pub(crate) const fn new(unit: Unit) -> Self {
        Self {
            unit,
            runs: VecDeque::new(),
            segments: 0,
            bytes: 0,
        }
    }

    pub(crate) fn held(&self) -> Held {
        let packets = match self.unit {
            Unit::Packet => self.segments,
            Unit::Superpacket => self.runs.len() as u64,
        };
        Held {
            packets,
            bytes: self.bytes,
        }
    }

    pub(crate) const fn backlog(&self) -> Backlog {
        Backlog {
            segments: self.segments,
            bytes: self.bytes,
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, run: Run) {
        self.segments += u64::from(run.count);
        self.bytes += run.bytes();
        self.runs.push_back(run);
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Run> {
        let head = self.runs.front_mut()?;
        let run = if self.unit == Unit::Packet && head.count > 1 {
            head.split_front(1)
        } else {
            self.runs.pop_front()?
        };
        self.segments -= u64::from(run.count);
        self.bytes -= run.bytes();
        Some(run)
    }

    pub(crate) fn head_at_ns(&self) -> Option<u64> {
        self.runs.front().map(|head| head.at_ns)
    }

    pub(crate) fn pop_arrived_by(&mut self, arrived_ns: u64) -> Option<Run> {
        let arrived = self.head_at_ns()? <= arrived_ns;
        arrived.then(|| self.pop()).flatten()
    }

    #[inline]
    pub(crate) fn head_bytes(&self) -> Option<u32> {
        let head = self.runs.front()?;
        Some(match self.unit {
            Unit::Packet => head.head_bytes(),
            Unit::Superpacket => u32::try_from(head.bytes()).unwrap_or(u32::MAX),
        })
    }
}
