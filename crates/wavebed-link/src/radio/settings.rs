//! The settings of a radio link, in the terms of the standards. Times are nanoseconds, or slots where named so.

use super::decode::Code;

/// The direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
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

/// Hybrid ARQ (TS 38.321, clause 5.3.2; TS 36.321, clause 5.3.2).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Harq {
    /// Number of processes: blocks in flight at once.
    pub processes: u32,
    /// From the slot of a block to the slot that may carry its acknowledgement (K1; N1 of TS 38.214, clause 5.3).
    pub feedback_slots: u64,
    /// From that slot to the slot of the retransmission, at the earliest.
    pub schedule_slots: u64,
    /// Transmissions of a block at most.
    pub limit: u32,
    /// Gain of a doubled number of transmissions, dB, where there is no SINR.
    pub combining_gain_db: f64,
    /// Slope of the error curve, where there is no SINR: natural logarithm of the odds of an error per decibel.
    pub slope_per_db: f64,
    /// Probability that the acknowledgement of a received block is taken for none: the block is sent again.
    pub ack_loss: f64,
    /// Probability that the sender takes a negative acknowledgement for a positive one: the block is left to RLC.
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

/// Uplink grants (TS 38.321, clauses 5.4.1, 5.4.4 and 5.4.5), in slots of the carrier.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Grants {
    /// Period of the scheduling request.
    pub request_slots: u64,
    /// From a request or report to the downlink slot that may carry the grant.
    pub schedule_slots: u64,
    /// From the grant to the slot that it grants (K2; N2 of TS 38.214, clause 6.4).
    pub prepare_slots: u64,
    /// Size of the grant that answers a scheduling request, bytes.
    pub first_bytes: u64,
    /// A configured grant; `None` for none.
    pub configured: Option<Configured>,
    /// Loss of requests and reports; `None`: none is lost.
    pub losses: Option<GrantLosses>,
}

/// Loss of scheduling requests and buffer status reports, and what the UE does then (TS 38.321, clauses 5.4.4, 5.4.5).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GrantLosses {
    /// Probability that a scheduling request is lost.
    pub request: f64,
    /// Probability that a report is lost.
    pub report: f64,
    /// Time between two requests at least (sr-ProhibitTimer).
    pub prohibit_ns: u64,
    /// Requests before random access (sr-TransMax).
    pub most_requests: u32,
    /// Time of random access.
    pub access_ns: u64,
    /// From a report until the next request if no grant comes (retxBSR-Timer).
    pub retry_ns: u64,
}

/// A configured grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Configured {
    /// Its period, slots.
    pub slots: u64,
    /// Its size, bytes.
    pub bytes: u64,
}

/// Handling of the buffer in a handover, and when the radio link fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Handover {
    /// It is forwarded to the new base station.
    #[default]
    Forward,
    /// It is lost.
    Lose,
}
