//! The settings of a radio link, in the terms of the standards. Times are nanoseconds, or slots where named so.

use garde::Validate;
use schemars::JsonSchema;
use serde::Deserialize;

use super::decode::Code;
use crate::bounds::{MAX_SLOTS, MAX_TIME_NS};

/// `nrofHARQ-ProcessesForPDSCH-v1700` (TS 38.331).
const MAX_PROCESSES: u32 = 32;

/// The direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Towards the client.
    Down,
    /// Towards the server.
    Up,
}

/// The slots of one carrier (TS 38.211, clause 4.3; TS 36.211, clause 4).
#[derive(Clone, Debug, PartialEq)]
pub struct Slots {
    /// Length of a slot.
    pub slot_ns: u64,
    /// Symbols of this direction in each slot of the duplex frame; at least one slot has some. One entry, all 14,
    /// is FDD.
    pub own_symbols: Vec<u32>,
    /// Symbols of the other direction, likewise.
    pub other_symbols: Vec<u32>,
    /// How long before its slot data must be available.
    pub prepare_ns: u64,
    /// How long after its slot a block is decoded.
    pub decode_ns: u64,
    /// The channel code.
    pub code: Code,
    /// Hybrid ARQ; `None`: each block is sent once.
    pub harq: Option<Harq>,
}

/// Hybrid ARQ of one carrier; times in slots of that carrier.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema, Validate)]
#[serde(deny_unknown_fields)]
pub struct Harq {
    /// Blocks in flight.
    #[garde(range(min = 1, max = MAX_PROCESSES))]
    pub processes: u32,
    /// Slots from a block to its feedback.
    #[garde(range(max = MAX_SLOTS))]
    pub feedback_slots: u64,
    /// Slots from the feedback to the next transmission.
    #[garde(range(min = 1, max = MAX_SLOTS))]
    pub schedule_slots: u64,
    /// Transmissions of a block, the first included.
    #[garde(range(min = 1, max = 64))]
    pub limit: u32,
    /// Gain of doubled energy, where the trace has no SINR.
    #[garde(range(min = 0.0, max = 100.0))]
    pub combining_gain_db: f64,
    /// Logit slope of the error rate per decibel, where the trace has no SINR.
    #[garde(range(min = 0.0, max = 100.0))]
    pub slope_per_db: f64,
    /// Lost acknowledgements: a received block is sent again.
    #[serde(default)]
    #[garde(range(min = 0.0, max = 1.0))]
    pub ack_loss: f64,
    /// Negative acknowledgements taken for positive ones: the block is left to RLC.
    #[serde(default)]
    #[garde(range(min = 0.0, max = 1.0))]
    pub nack_loss: f64,
}

/// What four decimals round to 1: an error rate of 1 says that the first transmission fails, not by how much.
const NEARLY_CERTAIN: f64 = 0.99995;

impl Harq {
    /// The probability that transmission number `attempt` (from 1) fails, if the first fails with `bler`.
    ///
    /// The soft bits of all transmissions add up: the second has twice the energy of the first, the fourth four
    /// times. The error curve of the code is modelled as logistic. No retransmission fails for certain.
    #[must_use]
    pub fn error_probability(&self, bler: f64, attempt: u32) -> f64 {
        if attempt <= 1 || bler <= 0.0 {
            return bler;
        }
        let bler = bler.min(NEARLY_CERTAIN);
        let gain_db = self.combining_gain_db * f64::from(attempt).log2();
        let log_odds = (bler / (1.0 - bler)).ln() - self.slope_per_db * gain_db;
        1.0 / (1.0 + (-log_odds).exp())
    }
}

/// Handling of a block that HARQ gave up on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rlc {
    /// Acknowledged mode (TS 38.322, clause 5.2.3): its data is sent again.
    Acknowledged(Acknowledged),
    /// Unacknowledged mode: its data is lost.
    Unacknowledged,
}

/// The timers of RLC acknowledged mode.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Acknowledged {
    /// How long the receiver waits before it reports a gap (t-Reassembly; t-Reordering in LTE).
    pub reassembly_ns: u64,
    /// How long the sender waits for a status report before it sends again (t-PollRetransmit).
    pub poll_ns: u64,
    /// From the trigger of the status report to its reception.
    pub status_ns: u64,
    /// Retransmissions before the radio link fails (maxRetxThreshold).
    pub retransmissions: u8,
    /// From that failure until the radio link is re-established.
    pub reestablish_ns: u64,
    /// Probability that a status report is lost; the sender polls again after its timer.
    pub status_loss: f64,
    /// Segments from the oldest that is not acknowledged to the newest (`AM_Window_Size`); `None`: any number.
    pub window: Option<u64>,
}

/// How the uplink is granted.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema, Validate)]
#[serde(deny_unknown_fields)]
pub struct Grants {
    /// Period of the opportunities to ask for a grant.
    #[garde(range(min = 1, max = MAX_SLOTS))]
    pub request_slots: u64,
    /// From the request to the grant.
    #[garde(range(max = MAX_SLOTS))]
    pub schedule_slots: u64,
    /// From the grant to the transmission.
    #[garde(range(min = 1, max = MAX_SLOTS))]
    pub prepare_slots: u64,
    /// Size of the grant that answers a request.
    #[garde(range(min = 1, max = MAX_SLOTS))]
    pub first_bytes: u64,
    /// A configured grant.
    #[garde(dive)]
    pub configured: Option<Configured>,
    /// Lost requests and reports.
    #[garde(dive)]
    pub losses: Option<GrantLosses>,
}

/// Loss of requests and reports, and what the UE does then (TS 38.321, clauses 5.4.4 and 5.4.5).
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema, Validate)]
#[serde(deny_unknown_fields)]
pub struct GrantLosses {
    /// Lost scheduling requests.
    #[garde(range(min = 0.0, max = 1.0))]
    pub request: f64,
    /// Lost buffer status reports.
    #[garde(range(min = 0.0, max = 1.0))]
    pub report: f64,
    /// sr-ProhibitTimer.
    #[garde(range(max = MAX_TIME_NS))]
    pub prohibit_ns: u64,
    /// sr-TransMax: requests before random access (TS 38.331).
    #[garde(range(min = 1, max = 64))]
    pub most_requests: u32,
    /// Time of random access.
    #[garde(range(max = MAX_TIME_NS))]
    pub access_ns: u64,
    /// retxBSR-Timer: from a lost report to the next request.
    #[garde(range(min = 1, max = MAX_TIME_NS))]
    pub retry_ns: u64,
}

/// A configured grant, which needs no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema, Validate)]
#[serde(deny_unknown_fields)]
pub struct Configured {
    /// Its period in slots.
    #[garde(range(min = 1, max = MAX_SLOTS))]
    pub slots: u64,
    /// Bytes of each.
    #[garde(range(min = 1, max = MAX_SLOTS))]
    pub bytes: u64,
}

/// Handling of the buffer in a handover, and when the radio link fails.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    serde::Deserialize,
    serde::Serialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Handover {
    /// It is forwarded to the new base station.
    #[default]
    Forward,
    /// It is lost.
    Lose,
}
