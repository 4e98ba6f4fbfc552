//! The books of a receiving port.
//!
//! How a frame is classed, in this order, by every receiver alike:
//!
//! 1. What [`crate::frame::read`] takes for no test frame is `foreign`.
//! 2. Another trial than that of the books: `other_trial`.
//! 3. Its UDP payload has not the length of the row of its number ([`crate::frame::Header::payload_length`] of
//!    [`crate::frame::Frames::row`]): `damaged`. So is a super-packet.
//! 4. A number [`WINDOW`] or more below the highest so far: `stale`.
//! 5. A number that was seen: `duplicates`; else `unique`, and `reordered` if a greater number of its flow
//!    (`number % flows`) came before.

use std::collections::BTreeMap;

use serde::Serialize;

/// How far back a duplicate is recognised: frames of one trial.
pub const WINDOW: u64 = 1 << 20;

/// What came in since the books were opened. Every frame that the port saw is in exactly one of `unique`, `duplicates`,
/// `stale`, `other_trial`, `damaged` and `foreign`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Books {
    /// Frames of this trial, each number once.
    pub unique: u64,
    /// Frames of this trial that had come before.
    pub duplicates: u64,
    /// Of `unique`: those with a smaller number than one of the same flow that came before (RFC 4737).
    pub reordered: u64,
    /// Frames of this trial [`WINDOW`] or more numbers late: new or again, nobody knows.
    pub stale: u64,
    /// Frames of another trial: most often the one before.
    pub other_trial: u64,
    /// Frames of this trial whose UDP payload has not the length of their number's.
    pub damaged: u64,
    /// Everything else: ARP, neighbour discovery, spanning tree, a device that talks.
    pub foreign: u64,
    /// Test frames (`unique`, `duplicates`, `stale`, `damaged`) by size with FCS as it crossed the port: a super-packet is one.
    pub sizes: BTreeMap<u32, u64>,
    /// When the first and the last test frame came, monotonic, nanoseconds.
    pub first_ns: Option<u64>,
    /// See `first_ns`.
    pub last_ns: Option<u64>,
    /// Counts of the delay's histogram, by bucket (see [`crate::histogram`]); empty ones are left out.
    pub latency: BTreeMap<u32, u64>,
    /// The least and the greatest delay, nanoseconds.
    pub latency_min_ns: Option<u64>,
    /// See `latency_min_ns`.
    pub latency_max_ns: Option<u64>,
    /// Frames that the receiver itself lost, when it can know: a full ring.
    pub receiver_lost: u64,
    /// The first frames, as they crossed the port.
    pub sample: Vec<Sample>,
}

/// A frame that was kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sample {
    /// When it came, monotonic, nanoseconds.
    pub time_ns: u64,
    /// Bytes without FCS as it crossed the port.
    pub length: u32,
    /// Its first bytes, in hexadecimal.
    pub hex: String,
}
