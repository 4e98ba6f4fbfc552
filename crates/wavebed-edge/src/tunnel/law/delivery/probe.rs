//! Higher rates.

use super::{DeliveryLaw, MS, Observation, PROBE_GAP_NS, Sample};
use crate::tunnel::units::{rate_of, scaled};

const PROBE_PER_MILLE: u64 = 1250;
/// After two probes that the link carried: at 1.25 a tenfold rise takes eleven steps, with this seven.
const FAST_PROBE_PER_MILLE: u64 = 1500;
/// While no limit of the link is known, as slow start doubles: a flow that meets the tunnel's limit first takes seconds
/// to grow again.
const START_PER_MILLE: u64 = 2000;
/// A probe of which this is delivered was carried; the rest is what counting whole packets in 20 ms may miss.
const CARRIED_PER_MILLE: u64 = 900;
/// Of what a probe that the link did not carry delivered: at all of it, its queue would stay.
const KEPT_PER_MILLE: u64 = 985;
/// A failed probe lowers the rate by no more: for a fall there are other rules.
const LEAST_PER_MILLE: u64 = 900;
/// Of reports after those that the probe's first packets are in.
const PROBE_NS: u64 = 20 * MS;
/// The same at the start, where only a queue ends it.
const START_NS: u64 = 10 * MS;
/// The same on a loud path, until what is delivered suffices: packets that were held back come later.
const LONGEST_PROBE_NS: u64 = 60 * MS;
/// From a failed probe to the next on a loud path, whose rate changes within tens of milliseconds: with 250 ms 4 % of
/// bbr-5g's radio stay unused, with 30 ms 1 %.
const LOUD_GAP_NS: u64 = 30 * MS;

/// A try at a higher rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    pub(super) per_mille: u64,
    /// When the first reports of it can have come.
    first_ns: u64,
    best_bps: u64,
    /// What was delivered in it, and in which time.
    bytes: u64,
    time_ns: u64,
}

impl DeliveryLaw {
    /// Tries a higher rate, and keeps what of it was delivered.
    pub(super) fn speed_up(&mut self, seen: &Observation, sample: &Sample, loaded: bool) {
        let now_ns = seen.now_ns;
        let Some(mut probe) = self.probe else {
            self.start_probe(now_ns, sample, loaded);
            return;
        };
        if now_ns < probe.first_ns {
            return;
        }
        self.measure(&mut probe, sample);
        self.probe = Some(probe);
        let is_empty = self.is_empty(sample);
        if self.starting && loaded && is_empty && now_ns >= probe.first_ns + START_NS {
            self.set_rate(scaled(self.rate_bps, probe.per_mille));
            self.next_probe_ns = now_ns;
            self.start_probe(now_ns, sample, loaded);
            return;
        }
        if now_ns < probe.first_ns + PROBE_NS {
            return;
        }
        let tried_bps = scaled(self.rate_bps, probe.per_mille);
        let is_carried = probe.best_bps >= scaled(tried_bps, CARRIED_PER_MILLE);
        let is_open = self.noise.is_loud() && loaded && is_empty && !is_carried;
        if is_open && now_ns < probe.first_ns + LONGEST_PROBE_NS {
            return;
        }
        self.probe = None;
        if is_empty && is_carried {
            self.carried += 1;
            self.set_rate(tried_bps);
            self.next_probe_ns = now_ns;
        } else {
            self.fail(&probe, seen, is_empty, loaded);
        }
    }

    fn start_probe(&mut self, now_ns: u64, sample: &Sample, loaded: bool) {
        let may = now_ns >= self.next_probe_ns.max(self.hold_ns).max(self.resume_ns);
        self.probe =
            (may && loaded && self.is_empty(sample) && self.rate_bps < self.limits.most_bps).then(
                || Probe {
                    per_mille: match self.carried {
                        _ if self.starting => START_PER_MILLE,
                        0 | 1 => PROBE_PER_MILLE,
                        _ => FAST_PROBE_PER_MILLE,
                    },
                    first_ns: now_ns + self.last_rtt_ns,
                    best_bps: 0,
                    bytes: 0,
                    time_ns: 0,
                },
            );
    }

    fn measure(&self, probe: &mut Probe, sample: &Sample) {
        // A moment without service tells nothing of the rate.
        let newest = self.recent.iter().rev().take(2);
        let served = newest.filter(|sample| !sample.stalled);
        let (bytes, time_ns) = served.fold((0, 0), |(bytes, time_ns), sample| {
            (bytes + sample.bytes, time_ns + sample.interval_ns)
        });
        if time_ns > 0 {
            probe.best_bps = probe.best_bps.max(rate_of(bytes, time_ns));
        }
        if !sample.stalled {
            probe.bytes += sample.bytes;
            probe.time_ns += sample.interval_ns;
        }
        if self.noise.is_loud() {
            probe.best_bps = rate_of(probe.bytes, probe.time_ns);
        }
    }

    /// Whether no queue stands beyond the target; on a loud path one of the last two reports says so.
    fn is_empty(&self, sample: &Sample) -> bool {
        if !self.noise.is_loud() {
            return sample.queue_ns < self.short_ns();
        }
        let newest = self.recent.iter().rev().take(2);
        let least_ns = newest.map(|sample| sample.queue_ns).min();
        least_ns.unwrap_or(sample.queue_ns) < self.short_ns() + self.noise.jitter_ns() / 4
    }

    fn fail(&mut self, probe: &Probe, seen: &Observation, is_empty: bool, loaded: bool) {
        self.carried = 0;
        self.starting &= is_empty;
        let kept_bps = scaled(probe.best_bps, KEPT_PER_MILLE);
        let least_bps = if is_empty {
            self.rate_bps
        } else {
            scaled(self.rate_bps, LEAST_PER_MILLE)
        };
        let tried_bps = scaled(self.rate_bps, probe.per_mille);
        self.set_rate(kept_bps.clamp(least_bps, tried_bps));
        let gap_ns = match loaded && !self.starting {
            true if self.noise.is_loud() => LOUD_GAP_NS,
            true => PROBE_GAP_NS,
            false => 0,
        };
        self.next_probe_ns = seen.now_ns + gap_ns;
        if !is_empty {
            self.pause(seen);
        }
    }
}
