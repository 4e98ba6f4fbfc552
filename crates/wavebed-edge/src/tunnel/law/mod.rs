//! Rate laws: how fast an end sends, from its receiver's reports.

mod autorate;
mod delivery;
mod minimum;

pub use autorate::AutorateLaw;
pub use delivery::{DeliveryLaw, DeliveryState};

/// Limits of a rate, bits per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimits {
    /// The least rate.
    pub floor_bps: u64,
    /// The rate before the first reports.
    pub start_bps: u64,
    /// The greatest rate.
    pub most_bps: u64,
}

impl RateLimits {
    fn clamp(&self, rate_bps: u64) -> u64 {
        rate_bps.min(self.most_bps).max(self.floor_bps)
    }
}

/// What one report says, beside what was sent meanwhile. Delays have an offset that is the same in all of them.
#[derive(Clone, Copy, Debug)]
pub struct Observation {
    /// When the report came.
    pub now_ns: u64,
    /// The time that it is about, of the receiver's clock.
    pub interval_ns: u64,
    /// Bytes received in it.
    pub delivered_bytes: u64,
    /// The longest time without a packet.
    pub longest_gap_ns: u64,
    /// Packets lost in it.
    pub lost_packets: u64,
    /// The least one-way delay.
    pub delay_min_ns: u64,
    /// The mean.
    pub delay_mean_ns: u64,
    /// The last.
    pub delay_last_ns: u64,
    /// The round-trip time of the newest packet, if it is known.
    pub rtt_ns: Option<u64>,
    /// Bytes sent since the last report.
    pub sent_bytes: u64,
    /// Bytes that the rate allowed since then.
    pub sendable_bytes: u64,
    /// Bytes on the way.
    pub in_flight_bytes: u64,
}

/// How fast to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The rate, above zero.
    pub rate_bps: u64,
    /// Most bytes on the way.
    pub window_bytes: u64,
    /// Nothing is sent before.
    pub resume_ns: u64,
}

/// A law.
pub trait Law: Send {
    /// Takes a report.
    fn observe(&mut self, seen: &Observation);

    /// Reports are missing since `now_ns`.
    fn blocked(&mut self, now_ns: u64);

    /// The path has changed.
    fn path_changed(&mut self);

    /// How fast to send now.
    fn pace(&self) -> Pace;

    /// The least round-trip time known, zero at first.
    fn rtt_ns(&self) -> u64;
}
