//! How much of delays and rates is none of a queue: what a report alone does not tell.

use super::{MS, SHORT_NS, Sample};
use crate::tunnel::units::{rate_of, scaled};

/// A longer delay is a queue.
const MOST_NS: u64 = 10 * MS;
/// Until it is known: HARQ in a TDD frame of 5 ms holds packets back for 4 to 6.5 ms.
const USUAL_NS: u64 = 6 * MS;
/// Of the jitter, what is forgotten with each report: half in 1.8 s.
const FORGOTTEN: u64 = 256;
/// A queue at 0.75 of the link's rate drains by this part of the time; what goes faster is none.
const DRAINED: u64 = 4;
/// Weight of a report in the mean rate and its deviation: some 0.3 s.
const WEIGHT: u64 = 32;
/// A mean deviation beyond this part of the rate is that of a link whose rate varies.
const VARIES_PER_MILLE: u64 = 100;
/// Of the rate of a report, what counting whole packets may miss: one of them, bytes.
const PACKET_BYTES: u64 = 1500;

/// Noise of a path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Noise {
    jitter_ns: u64,
    mean_bps: u64,
    deviation_bps: u64,
}

impl Default for Noise {
    fn default() -> Self {
        Self {
            jitter_ns: USUAL_NS,
            mean_bps: 0,
            deviation_bps: 0,
        }
    }
}

impl Noise {
    /// Takes two reports in a row, sent without a pause. A radio's repetition holds back what came after it: a gap, and a
    /// delay that is gone at once.
    pub(super) fn see(&mut self, before: &Sample, sample: &Sample) {
        self.jitter_ns -= self.jitter_ns / FORGOTTEN;
        let drained_ns = sample.queue_ns + sample.interval_ns / DRAINED;
        let gone_ns = before.last_ns.saturating_sub(drained_ns);
        self.alarm(gone_ns.min(before.gap_ns.max(sample.gap_ns)));
        if before.queue_ns > SHORT_NS && sample.queue_ns > SHORT_NS {
            // The link was never idle: what it delivered is its rate.
            self.served(sample);
        }
    }

    fn served(&mut self, sample: &Sample) {
        let rate_bps = rate_of(sample.bytes, sample.interval_ns);
        if self.mean_bps == 0 {
            self.mean_bps = rate_bps;
            return;
        }
        let packet_bps = rate_of(PACKET_BYTES, sample.interval_ns);
        let deviation_bps = rate_bps.abs_diff(self.mean_bps).saturating_sub(packet_bps);
        let step = |mean: u64, new: u64| mean - mean / WEIGHT + new / WEIGHT;
        self.mean_bps = step(self.mean_bps, rate_bps);
        self.deviation_bps = step(self.deviation_bps, deviation_bps);
    }

    /// A delay that was gone before a queue could have been.
    pub(super) fn alarm(&mut self, delay_ns: u64) {
        self.jitter_ns = self.jitter_ns.max(delay_ns.min(MOST_NS));
    }

    /// Delays up to this are none of a queue, beyond those of slots and grants.
    pub(super) const fn jitter_ns(self) -> u64 {
        if self.jitter_ns > SHORT_NS {
            self.jitter_ns
        } else {
            0
        }
    }

    /// Whether one report tells little of queue or rate.
    pub(super) fn is_loud(self) -> bool {
        self.jitter_ns() > 0 || self.deviation_bps > scaled(self.mean_bps, VARIES_PER_MILLE)
    }
}
