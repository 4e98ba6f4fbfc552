//! Bounds of single values, which several stages share.

/// The highest rate, bits per second.
pub const MAX_RATE_BPS: u64 = 1_000_000_000_000;
/// The longest time, nanoseconds: 31 years.
pub const MAX_TIME_NS: u64 = 1_000_000_000_000_000_000;
/// The most bytes that a lower layer adds to a packet.
pub const MAX_OVERHEAD_BYTES: u32 = 1000;
/// The longest distance of two slots that belong together.
pub const MAX_SLOTS: u64 = 1_000_000;
