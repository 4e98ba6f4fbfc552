//! Lower rates, and pauses that drain queues.

use super::{
    DeliveryLaw, EVIDENCE_NS, MOST_JITTER_NS, MS, Observation, PROBE_GAP_NS, RECENT, SHORT_NS,
    SLACK_NS, Sample,
};
use crate::tunnel::law::Law;
use crate::tunnel::units::{bytes_in, rate_of, scaled, time_of};

/// A queue above this is too long.
const LONG_NS: u64 = 10 * MS;
/// A delay that rises to this in one report may be a fall of the link's rate.
const FALL_NS: u64 = 4 * MS;
/// Of the delivered rate, after a cut.
const CUT_PER_MILLE: u64 = 900;
/// A queue that drains this long before the end of its pause means that the cut was a false alarm.
const FALSE_ALARM_NS: u64 = 10 * MS;
/// A pause ends at the latest after this.
const LONGEST_PAUSE_NS: u64 = 500 * MS;
/// Cuts in a row that left the queue as it was; at the next the path counts as longer.
const CUTS_OF_LONGER_PATH: u32 = 2;

impl DeliveryLaw {
    /// How long the link needs at `rate_bps` for what is on the way beyond a round trip of it.
    pub(super) fn excess_ns(&self, seen: &Observation, rate_bps: u64) -> u64 {
        let needed = bytes_in(rate_bps, self.rtt_ns());
        time_of(seen.in_flight_bytes.saturating_sub(needed), rate_bps).min(LONGEST_PAUSE_NS)
    }

    pub(super) fn cut(&mut self, seen: &Observation, rate_bps: u64, pause_ns: u64) {
        self.was_starting = std::mem::take(&mut self.starting);
        self.before_cut = Some(self.rate_bps.max(self.before_cut.unwrap_or(0)));
        self.probe = None;
        self.carried = 0;
        self.set_rate(rate_bps);
        self.resume_ns = seen.now_ns + pause_ns;
        self.hold_ns = self.resume_ns + self.rtt_ns() + EVIDENCE_NS;
        self.next_probe_ns = self.hold_ns;
        // Reports of before say nothing of the link as it is now.
        self.recent.drain(..self.recent.len().saturating_sub(1));
    }

    /// Sends nothing until a queue that stands has drained.
    pub(super) fn pause(&mut self, seen: &Observation) {
        let mut pause_ns = self.excess_ns(seen, self.rate_bps).min(SLACK_NS);
        if self.noise.is_loud() {
            let newest = self.recent.iter().rev().take(2);
            let queue_ns = newest.map(|sample| sample.queue_ns).min().unwrap_or(0);
            pause_ns = pause_ns.min(queue_ns.saturating_sub(self.target_ns()));
        }
        self.resume_ns = seen.now_ns + pause_ns;
        self.hold_ns = self.resume_ns + self.rtt_ns() + EVIDENCE_NS;
        self.next_pause_ns = self.hold_ns + PROBE_GAP_NS;
        self.drained_ns = MOST_JITTER_NS;
        self.starting = false;
        self.recent.clear();
    }

    /// Drains a queue that is neither long nor empty, which would add its delay to all flows and hide the base.
    pub(super) fn settle(&mut self, seen: &Observation) {
        let short_ns = self.short_ns();
        let stands = |sample: &Sample| sample.queue_ns > short_ns;
        if self.probe.is_some()
            || self.recent.len() < RECENT
            || seen.now_ns < self.hold_ns.max(self.next_pause_ns)
            || !self.recent.iter().all(stands)
        {
            return;
        }
        if self.was_loaded(seen.now_ns)
            && let Some(delivered) = self.delivered(|_| true)
        {
            self.set_rate(delivered.min(self.rate_bps));
        }
        self.pause(seen);
    }

    /// The link's rate has fallen far: seen in one report, before the queue is long.
    pub(super) fn has_fallen(&self, sample: &Sample) -> Option<u64> {
        let before = self.recent.iter().rev().nth(1)?;
        if sample.stalled && !before.stalled {
            return None;
        }
        let jitter_ns = self.noise.jitter_ns();
        let rises = sample.last_ns >= FALL_NS + jitter_ns
            && sample.last_ns > before.last_ns + SHORT_NS + jitter_ns;
        let delivered = rate_of(sample.bytes, sample.interval_ns);
        (rises && delivered < self.rate_bps / 2).then_some(delivered)
    }

    /// Cuts the rate if the queue says so. Returns whether it did.
    pub(super) fn slow_down(&mut self, seen: &Observation, sample: &Sample) -> bool {
        if sample.queue_ns <= LONG_NS + self.target_ns() + self.noise.jitter_ns() / 2 {
            self.cuts = 0;
        }
        let holds = seen.now_ns < self.hold_ns;
        if holds && self.before_cut.is_some() {
            return false;
        }
        let was_loaded = self.was_loaded(seen.now_ns);
        if was_loaded && let Some(delivered) = self.has_fallen(sample) {
            let rate_bps = scaled(delivered, CUT_PER_MILLE).max(self.limits.floor_bps);
            self.alarm_ns = sample.last_ns.min(sample.gap_ns);
            self.cut(seen, rate_bps, self.excess_ns(seen, rate_bps));
            return true;
        }
        if holds {
            return false;
        }
        let long_ns = LONG_NS + self.target_ns() + self.noise.jitter_ns() / 2;
        let long = |sample: &Sample| sample.queue_ns > long_ns;
        if self.recent.iter().filter(|sample| long(sample)).count() < 2 {
            return false;
        }
        let Some(delivered) = self.delivered(long) else {
            return false;
        };
        if self.path_is_longer(seen, sample) {
            return true;
        }
        let mut rate_bps = scaled(delivered, CUT_PER_MILLE).min(self.rate_bps);
        if !was_loaded {
            // Little was delivered because little was sent.
            rate_bps = rate_bps.max(scaled(self.rate_bps, CUT_PER_MILLE));
        }
        let rate_bps = rate_bps.max(self.limits.floor_bps);
        let pause_ns = self.excess_ns(seen, rate_bps).min(sample.last_ns);
        self.alarm_ns = 0;
        self.cut(seen, rate_bps, pause_ns);
        true
    }

    /// After cuts and pauses that left the queue as it was, the delay is the path's own.
    pub(super) fn path_is_longer(&mut self, seen: &Observation, sample: &Sample) -> bool {
        let same = sample.queue_ns.abs_diff(self.cut_queue_ns) <= SHORT_NS;
        self.cut_queue_ns = sample.queue_ns;
        if !same {
            self.cuts = 0;
        }
        if self.cuts == 0 {
            self.uncut_bps = self.rate_bps;
        }
        self.cuts += 1;
        if self.cuts <= CUTS_OF_LONGER_PATH {
            return false;
        }
        self.cuts = 0;
        self.base.restart(seen.delay_min_ns, seen.now_ns);
        if let Some(rtt_ns) = seen.rtt_ns {
            self.rtt.restart(rtt_ns, seen.now_ns);
        }
        self.set_rate(self.uncut_bps);
        self.before_cut = None;
        self.recent.clear();
        true
    }

    /// While the queue of a cut drains, the link delivers all it can: a better estimate than the first report's.
    pub(super) fn drain(&mut self, seen: &Observation, sample: &Sample) {
        let Some(before_bps) = self.before_cut else {
            return;
        };
        if sample.queue_ns < self.short_ns() {
            self.before_cut = None;
            let margin_ns = if self.noise.is_loud() {
                0
            } else {
                FALSE_ALARM_NS
            };
            if seen.now_ns < self.resume_ns.saturating_sub(margin_ns) {
                // The queue of a slower link would have lasted: it was a moment without service.
                self.set_rate(before_bps);
                self.noise.alarm(self.alarm_ns);
                self.starting = self.was_starting;
                self.hold_ns = seen.now_ns;
                self.next_probe_ns = seen.now_ns;
            }
            self.resume_ns = self.resume_ns.min(seen.now_ns);
            return;
        }
        if self.recent.len() == RECENT
            && let Some(delivered) = self.delivered(|_| true)
        {
            let rate_bps = scaled(delivered, CUT_PER_MILLE).min(before_bps);
            if rate_bps > self.rate_bps {
                self.set_rate(rate_bps);
                let resume_ns = seen.now_ns + self.excess_ns(seen, rate_bps);
                self.resume_ns = self.resume_ns.min(resume_ns);
            }
        }
    }
}
