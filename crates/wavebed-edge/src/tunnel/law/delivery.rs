//! The law of this project: the rate follows what the link delivers; delay tells when it is too much.

use std::collections::VecDeque;

use super::minimum::Minimum;
use super::{Law, Observation, Pace, RateLimits};
use crate::tunnel::units::{bytes_in, rate_of, scaled, time_of};

const MS: u64 = 1_000_000;
/// A queue above this is too long.
const LONG_NS: u64 = 10 * MS;
/// A queue below this is empty: jitter of slots and grants.
const SHORT_NS: u64 = 3 * MS;
/// A delay that rises to this in one report may be a fall of the link's rate.
const FALL_NS: u64 = 5 * MS;
/// Of the delivered rate, after a cut.
const CUT_PER_MILLE: u64 = 900;
/// A load above this, of what may be sent, is one that more rate would serve.
const LOAD_PER_MILLE: u64 = 750;
const PROBE_PER_MILLE: u64 = 1250;
/// After two probes that the link carried: at 1.25 a tenfold rise takes eleven steps, with this seven.
const FAST_PROBE_PER_MILLE: u64 = 1500;
/// A probe of which this is delivered was carried; the rest is what counting whole packets in 20 ms may miss.
const CARRIED_PER_MILLE: u64 = 900;
/// From a probe that the link did not carry to the next: its queue of a quarter of 20 ms is then 2 % of the time.
const PROBE_GAP_NS: u64 = 250 * MS;
/// Of reports after those that the probe's first packets are in.
const PROBE_NS: u64 = 20 * MS;
/// Bytes on the way beyond the rate times the round trip: reports of 10 ms, late ones, a queue.
const SLACK_NS: u64 = 50 * MS;
/// A pause ends at the latest after this.
const LONGEST_PAUSE_NS: u64 = 500 * MS;
/// Cuts in a row that shortened no queue: the path has become longer.
const CUTS_OF_LONGER_PATH: u32 = 3;
/// Reports that are kept.
const RECENT: usize = 3;

/// One report.
#[derive(Clone, Copy, Debug)]
struct Sample {
    interval_ns: u64,
    bytes: u64,
    /// Least delay above the base.
    queue_ns: u64,
    /// The last.
    last_ns: u64,
}

/// A try at a higher rate.
#[derive(Clone, Copy, Debug)]
struct Probe {
    per_mille: u64,
    /// When the first reports of it can have come.
    first_ns: u64,
    best_bps: u64,
}

/// The rate follows delivered bytes; only a queue lowers it, never a loss.
///
/// - A queue above 10 ms in two of three reports: 0.9 of what was delivered, after a pause in which the queue drains; then
///   one round trip without another cut.
/// - A delay that rises by 5 ms while less than half the rate is delivered: the same at once, and the pause is as long as
///   the bytes on the way take at the new rate.
/// - Load of 75 % or more, and a queue below 3 ms: 1.25 times the rate for a round trip and two reports; what was
///   delivered is kept.
/// - No reports: the floor, and when they come again the rate of before.
#[derive(Debug)]
pub struct DeliveryLaw {
    limits: RateLimits,
    rate_bps: u64,
    base: Minimum,
    rtt: Minimum,
    last_rtt_ns: u64,
    recent: VecDeque<Sample>,
    resume_ns: u64,
    /// No cut before.
    hold_ns: u64,
    /// The rate before the last cut, while the queue that caused it drains.
    before_cut: Option<u64>,
    probe: Option<Probe>,
    next_probe_ns: u64,
    carried: u32,
    loaded_ns: Option<u64>,
    is_blocked: bool,
    /// Cuts since the queue was below 10 ms, and the rate before them.
    cuts: u32,
    uncut_bps: u64,
}

impl DeliveryLaw {
    /// A law that begins at the start rate.
    #[must_use]
    pub fn new(limits: RateLimits) -> Self {
        Self {
            limits,
            rate_bps: limits.clamp(limits.start_bps),
            base: Minimum::default(),
            rtt: Minimum::default(),
            last_rtt_ns: 0,
            recent: VecDeque::with_capacity(RECENT),
            resume_ns: 0,
            hold_ns: 0,
            before_cut: None,
            probe: None,
            next_probe_ns: 0,
            carried: 0,
            loaded_ns: None,
            is_blocked: false,
            cuts: 0,
            uncut_bps: 0,
        }
    }

    fn set_rate(&mut self, rate_bps: u64) {
        self.rate_bps = self.limits.clamp(rate_bps);
    }

    /// The rate of the reports that `which` chooses of the recent ones; `None` if it chooses none.
    fn delivered(&self, which: impl Fn(&Sample) -> bool) -> Option<u64> {
        let chosen = self.recent.iter().filter(|sample| which(sample));
        let (bytes, time_ns) = chosen.fold((0, 0), |(bytes, time_ns), sample| {
            (bytes + sample.bytes, time_ns + sample.interval_ns)
        });
        (time_ns > 0).then(|| rate_of(bytes, time_ns))
    }

    /// Whether there was load within the round trip that the reports are about.
    fn was_loaded(&self, now_ns: u64) -> bool {
        let while_ns = self.last_rtt_ns + SLACK_NS;
        self.loaded_ns
            .is_some_and(|loaded_ns| now_ns - loaded_ns <= while_ns)
    }

    /// Learns base, round trip and load from a report; returns its sample and whether there is load now.
    fn learn(&mut self, seen: &Observation) -> (Sample, bool) {
        self.base.see(seen.delay_min_ns, seen.now_ns);
        if let Some(rtt_ns) = seen.rtt_ns {
            self.rtt.see(rtt_ns, seen.now_ns);
            self.last_rtt_ns = rtt_ns;
        }
        let base_ns = self.base.get().unwrap_or(seen.delay_min_ns);
        let sample = Sample {
            interval_ns: seen.interval_ns,
            bytes: seen.delivered_bytes,
            queue_ns: seen.delay_min_ns - base_ns,
            last_ns: seen.delay_last_ns.saturating_sub(base_ns),
        };
        let loaded = seen.sent_bytes >= scaled(seen.sendable_bytes, LOAD_PER_MILLE);
        if loaded {
            self.loaded_ns = Some(seen.now_ns);
        }
        (sample, loaded)
    }

    /// How long the link needs at `rate_bps` for what is on the way beyond a round trip of it.
    fn excess_ns(&self, seen: &Observation, rate_bps: u64) -> u64 {
        let needed = bytes_in(rate_bps, self.rtt_ns());
        time_of(seen.in_flight_bytes.saturating_sub(needed), rate_bps).min(LONGEST_PAUSE_NS)
    }

    fn cut(&mut self, seen: &Observation, rate_bps: u64, pause_ns: u64) {
        self.before_cut = Some(self.rate_bps.max(self.before_cut.unwrap_or(0)));
        self.probe = None;
        self.carried = 0;
        self.set_rate(rate_bps);
        self.resume_ns = seen.now_ns + pause_ns;
        self.hold_ns = self.resume_ns + self.rtt_ns();
        self.next_probe_ns = self.hold_ns;
    }

    /// The link's rate has fallen far: seen in one report, before the queue is long.
    fn has_fallen(&self, sample: &Sample) -> Option<u64> {
        let before_ns = self.recent.iter().rev().nth(1)?.last_ns;
        let rises = sample.last_ns >= FALL_NS && sample.last_ns > before_ns + SHORT_NS;
        let delivered = rate_of(sample.bytes, sample.interval_ns);
        (rises && delivered < self.rate_bps / 2).then_some(delivered)
    }

    /// Cuts the rate if the queue says so. Returns whether it did.
    fn slow_down(&mut self, seen: &Observation, sample: &Sample) -> bool {
        if sample.queue_ns <= LONG_NS {
            self.cuts = 0;
        }
        if seen.now_ns < self.hold_ns {
            return false;
        }
        let was_loaded = self.was_loaded(seen.now_ns);
        if was_loaded && let Some(delivered) = self.has_fallen(sample) {
            let rate_bps = scaled(delivered, CUT_PER_MILLE).max(self.limits.floor_bps);
            self.cut(seen, rate_bps, self.excess_ns(seen, rate_bps));
            return true;
        }
        let long = |sample: &Sample| sample.queue_ns > LONG_NS;
        if self.recent.iter().filter(|sample| long(sample)).count() < 2 {
            return false;
        }
        let Some(delivered) = self.delivered(long) else {
            return false;
        };
        if self.path_is_longer(seen, delivered) {
            return true;
        }
        let mut rate_bps = scaled(delivered, CUT_PER_MILLE).min(self.rate_bps);
        if !was_loaded {
            // Little was delivered because little was sent.
            rate_bps = rate_bps.max(scaled(self.rate_bps, CUT_PER_MILLE));
        }
        let rate_bps = rate_bps.max(self.limits.floor_bps);
        let pause_ns = self.excess_ns(seen, rate_bps).min(sample.last_ns);
        self.cut(seen, rate_bps, pause_ns);
        true
    }

    /// After cuts that shortened no queue although all that was sent arrived, the delay is the path's own.
    fn path_is_longer(&mut self, seen: &Observation, delivered: u64) -> bool {
        if self.cuts == 0 {
            self.uncut_bps = self.rate_bps;
        }
        self.cuts += 1;
        let arrives = delivered.abs_diff(self.rate_bps) <= self.rate_bps / 20;
        if self.cuts <= CUTS_OF_LONGER_PATH || !arrives {
            return false;
        }
        self.cuts = 0;
        self.base.restart(seen.delay_min_ns, seen.now_ns);
        self.set_rate(self.uncut_bps);
        self.recent.clear();
        true
    }

    /// While the queue of a cut drains, the link delivers all it can: a better estimate than the first report's.
    fn drain(&mut self, seen: &Observation, sample: &Sample) {
        let Some(before_bps) = self.before_cut else {
            return;
        };
        if sample.queue_ns < SHORT_NS {
            self.before_cut = None;
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

    /// Tries a higher rate, and keeps what of it was delivered.
    fn speed_up(&mut self, seen: &Observation, sample: &Sample, loaded: bool) {
        let now_ns = seen.now_ns;
        let Some(mut probe) = self.probe else {
            let may = now_ns >= self.next_probe_ns.max(self.hold_ns).max(self.resume_ns);
            if may && loaded && sample.queue_ns < SHORT_NS && self.rate_bps < self.limits.most_bps {
                self.probe = Some(Probe {
                    per_mille: if self.carried < 2 {
                        PROBE_PER_MILLE
                    } else {
                        FAST_PROBE_PER_MILLE
                    },
                    first_ns: now_ns + self.last_rtt_ns,
                    best_bps: 0,
                });
            }
            return;
        };
        if now_ns < probe.first_ns {
            return;
        }
        let newest = self.recent.len().saturating_sub(2);
        let (bytes, time_ns) = self
            .recent
            .iter()
            .skip(newest)
            .fold((0, 0), |(bytes, time_ns), sample| {
                (bytes + sample.bytes, time_ns + sample.interval_ns)
            });
        probe.best_bps = probe.best_bps.max(rate_of(bytes, time_ns));
        self.probe = Some(probe);
        if now_ns >= probe.first_ns + PROBE_NS {
            self.probe = None;
            self.judge(&probe, now_ns, sample, loaded);
        }
    }

    fn judge(&mut self, probe: &Probe, now_ns: u64, sample: &Sample, loaded: bool) {
        let tried_bps = scaled(self.rate_bps, probe.per_mille);
        let is_empty = sample.queue_ns < SHORT_NS;
        if is_empty && probe.best_bps >= scaled(tried_bps, CARRIED_PER_MILLE) {
            self.carried += 1;
            self.set_rate(tried_bps);
            self.next_probe_ns = now_ns;
            return;
        }
        self.carried = 0;
        self.set_rate(probe.best_bps.clamp(self.rate_bps, tried_bps));
        self.next_probe_ns = now_ns + if loaded { PROBE_GAP_NS } else { 0 };
        if !is_empty {
            self.resume_ns = now_ns + sample.queue_ns;
        }
    }
}

impl Law for DeliveryLaw {
    fn observe(&mut self, seen: &Observation) {
        let (sample, loaded) = self.learn(seen);
        if std::mem::take(&mut self.is_blocked) {
            self.recent.clear();
            self.probe = None;
            self.resume_ns = seen.now_ns + self.excess_ns(seen, self.rate_bps).min(SLACK_NS);
            self.hold_ns = self.resume_ns + self.rtt_ns();
            self.next_probe_ns = self.hold_ns;
            return;
        }
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(sample);
        if !self.slow_down(seen, &sample) {
            self.drain(seen, &sample);
            self.speed_up(seen, &sample, loaded);
        }
    }

    fn blocked(&mut self, _now_ns: u64) {
        self.is_blocked = true;
    }

    fn path_changed(&mut self) {
        *self = Self {
            rate_bps: self.rate_bps,
            ..Self::new(self.limits)
        };
    }

    fn pace(&self) -> Pace {
        let rate_bps = match &self.probe {
            _ if self.is_blocked => self.limits.floor_bps,
            Some(probe) => self.limits.clamp(scaled(self.rate_bps, probe.per_mille)),
            None => self.rate_bps,
        };
        Pace {
            rate_bps,
            window_bytes: bytes_in(rate_bps, self.rtt_ns() + SLACK_NS).max(8 * 1500),
            resume_ns: self.resume_ns,
        }
    }

    fn rtt_ns(&self) -> u64 {
        self.rtt.get().unwrap_or(0)
    }
}
