//! Higher rates.

use super::{DeliveryLaw, MS, Observation, PROBE_GAP_NS, Sample};
use crate::tunnel::units::{rate_of, scaled};

const PROBE_PER_MILLE: u64 = 1250;
/// After two probes that the link carried: at 1.25 a tenfold rise takes eleven steps, with this seven.
const FAST_PROBE_PER_MILLE: u64 = 1500;
/// A probe of which this is delivered was carried; the rest is what counting whole packets in 20 ms may miss.
const CARRIED_PER_MILLE: u64 = 900;
/// Of what a probe that the link did not carry delivered: at all of it, its queue would stay.
const KEPT_PER_MILLE: u64 = 985;
/// A failed probe lowers the rate by no more: for a fall there are other rules.
const LEAST_PER_MILLE: u64 = 900;
/// Of reports after those that the probe's first packets are in.
const PROBE_NS: u64 = 20 * MS;

/// A try at a higher rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    pub(super) per_mille: u64,
    /// When the first reports of it can have come.
    first_ns: u64,
    best_bps: u64,
}

impl DeliveryLaw {
    /// Tries a higher rate, and keeps what of it was delivered.
    pub(super) fn speed_up(&mut self, seen: &Observation, sample: &Sample, loaded: bool) {
        let now_ns = seen.now_ns;
        let Some(mut probe) = self.probe else {
            let may = now_ns >= self.next_probe_ns.max(self.hold_ns).max(self.resume_ns);
            if may
                && loaded
                && sample.queue_ns < self.short_ns()
                && self.rate_bps < self.limits.most_bps
            {
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
        // A moment without service tells nothing of the rate.
        let newest = self.recent.iter().rev().take(2);
        let served = newest.filter(|sample| !sample.stalled);
        let (bytes, time_ns) = served.fold((0, 0), |(bytes, time_ns), sample| {
            (bytes + sample.bytes, time_ns + sample.interval_ns)
        });
        if time_ns > 0 {
            probe.best_bps = probe.best_bps.max(rate_of(bytes, time_ns));
        }
        self.probe = Some(probe);
        if now_ns >= probe.first_ns + PROBE_NS {
            self.probe = None;
            self.judge(&probe, seen, sample, loaded);
        }
    }

    pub(super) fn judge(
        &mut self,
        probe: &Probe,
        seen: &Observation,
        sample: &Sample,
        loaded: bool,
    ) {
        let now_ns = seen.now_ns;
        let tried_bps = scaled(self.rate_bps, probe.per_mille);
        let is_empty = sample.queue_ns < self.short_ns();
        if is_empty && probe.best_bps >= scaled(tried_bps, CARRIED_PER_MILLE) {
            self.carried += 1;
            self.set_rate(tried_bps);
            self.next_probe_ns = now_ns;
            return;
        }
        self.carried = 0;
        let kept_bps = scaled(probe.best_bps, KEPT_PER_MILLE);
        let least_bps = if is_empty {
            self.rate_bps
        } else {
            scaled(self.rate_bps, LEAST_PER_MILLE)
        };
        self.set_rate(kept_bps.clamp(least_bps, tried_bps));
        self.next_probe_ns = now_ns + if loaded { PROBE_GAP_NS } else { 0 };
        if !is_empty {
            self.pause(seen);
        }
    }
}
