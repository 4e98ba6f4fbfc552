//! The law of cake-autorate, to compare: its constants as published with version 3.2, not its code.
//!
//! Source: <https://github.com/lynxthecat/cake-autorate>, `defaults.sh`: one-way delays at 20 Hz against a baseline, rates
//! that change by factors.

use std::collections::VecDeque;

use super::{Law, Observation, Pace, RateLimits};
use crate::tunnel::units::scaled;

const MS: u64 = 1_000_000;
/// Time between samples of the delay: 6 reflectors each 0.3 s.
const SAMPLE_NS: u64 = 50 * MS;
/// A delay above the baseline by more than this is "delayed".
const DELAYED_NS: u64 = 30 * MS;
/// Samples that are looked at, and how many delayed ones make bufferbloat.
const WINDOW: usize = 6;
const BLOATED: usize = 3;
/// Of the rate after bufferbloat: 0.99 at a mean of 30 ms, 0.75 at 60 ms.
const LEAST_CUT_PER_MILLE: u64 = 990;
const MOST_CUT_PER_MILLE: u64 = 750;
const MOST_CUT_NS: u64 = 60 * MS;
/// After a cut.
const REFRACTORY_NS: u64 = 300 * MS;
const LOAD_PER_MILLE: u64 = 750;
/// Under load each 200 ms: 1.04 up to a mean of 10 ms, 1.00 at 30 ms.
const RISE_NS: u64 = 200 * MS;
const MOST_RISE_PER_MILLE: u64 = 1040;
const MOST_RISE_BELOW_NS: u64 = 10 * MS;
/// Without load each second: 1 % towards the start rate.
const RETURN_NS: u64 = 1000 * MS;

/// cake-autorate's law. Its base rate is the start rate.
#[derive(Debug)]
pub struct AutorateLaw {
    limits: RateLimits,
    rate_bps: u64,
    baseline_ns: Option<u64>,
    samples: VecDeque<u64>,
    sampled_ns: u64,
    cut_ns: Option<u64>,
    rose_ns: u64,
    returned_ns: u64,
    sent_bytes: u64,
    sendable_bytes: u64,
    rtt_ns: u64,
}

impl AutorateLaw {
    /// A law that begins at the start rate.
    #[must_use]
    pub fn new(limits: RateLimits) -> Self {
        Self {
            limits,
            rate_bps: limits.clamp(limits.start_bps),
            baseline_ns: None,
            samples: VecDeque::with_capacity(WINDOW),
            sampled_ns: 0,
            cut_ns: None,
            rose_ns: 0,
            returned_ns: 0,
            sent_bytes: 0,
            sendable_bytes: 0,
            rtt_ns: 0,
        }
    }

    /// A sample; the baseline follows it by 0.001 up and by 0.9 down.
    fn sample(&mut self, delay_ns: u64) {
        let baseline_ns = self.baseline_ns.get_or_insert(delay_ns);
        if delay_ns > *baseline_ns {
            *baseline_ns += (delay_ns - *baseline_ns) / 1000;
        } else {
            *baseline_ns -= scaled(*baseline_ns - delay_ns, 900);
        }
        if self.samples.len() == WINDOW {
            self.samples.pop_front();
        }
        self.samples
            .push_back(delay_ns.saturating_sub(*baseline_ns));
    }

    fn mean_ns(&self) -> u64 {
        self.samples.iter().sum::<u64>() / (self.samples.len() as u64).max(1)
    }

    /// Whether a cut is less than the refractory period ago.
    fn is_refractory(&self, now_ns: u64) -> bool {
        self.cut_ns
            .is_some_and(|cut_ns| now_ns < cut_ns + REFRACTORY_NS)
    }

    fn decide(&mut self, now_ns: u64) {
        let delayed = self.samples.iter().filter(|delay| **delay > DELAYED_NS);
        let loaded = self.sent_bytes >= scaled(self.sendable_bytes, LOAD_PER_MILLE);
        let mean_ns = self.mean_ns();
        if delayed.count() >= BLOATED {
            if !self.is_refractory(now_ns) {
                let above_ns = mean_ns.clamp(DELAYED_NS, MOST_CUT_NS) - DELAYED_NS;
                let span = LEAST_CUT_PER_MILLE - MOST_CUT_PER_MILLE;
                let cut = LEAST_CUT_PER_MILLE - span * above_ns / (MOST_CUT_NS - DELAYED_NS);
                self.rate_bps = self.limits.clamp(scaled(self.rate_bps, cut));
                self.cut_ns = Some(now_ns);
            }
        } else if loaded {
            if now_ns >= self.rose_ns + RISE_NS && !self.is_refractory(now_ns) {
                let below_ns = DELAYED_NS - mean_ns.clamp(MOST_RISE_BELOW_NS, DELAYED_NS);
                let span = MOST_RISE_PER_MILLE - 1000;
                let rise = 1000 + span * below_ns / (DELAYED_NS - MOST_RISE_BELOW_NS);
                self.rate_bps = self.limits.clamp(scaled(self.rate_bps, rise));
                self.rose_ns = now_ns;
            }
        } else if now_ns >= self.returned_ns + RETURN_NS {
            let base_bps = self.limits.start_bps;
            self.rate_bps = if self.rate_bps > base_bps {
                scaled(self.rate_bps, 990).max(base_bps)
            } else {
                scaled(self.rate_bps, 1010).min(base_bps)
            };
            self.rate_bps = self.limits.clamp(self.rate_bps);
            self.returned_ns = now_ns;
        }
        if now_ns >= self.rose_ns + RISE_NS {
            (self.sent_bytes, self.sendable_bytes) = (0, 0);
        }
    }
}

impl Law for AutorateLaw {
    fn observe(&mut self, seen: &Observation) {
        self.rtt_ns = seen.rtt_ns.unwrap_or(self.rtt_ns);
        self.sent_bytes += seen.sent_bytes;
        self.sendable_bytes += seen.sendable_bytes;
        if seen.now_ns >= self.sampled_ns + SAMPLE_NS {
            self.sampled_ns = seen.now_ns;
            self.sample(seen.delay_mean_ns);
            self.decide(seen.now_ns);
        }
    }

    fn blocked(&mut self, _now_ns: u64) {
        // A stall: it changes nothing until responses come again.
    }

    fn path_changed(&mut self) {
        self.baseline_ns = None;
        self.samples.clear();
    }

    fn pace(&self) -> Pace {
        Pace {
            rate_bps: self.rate_bps,
            window_bytes: u64::MAX,
            resume_ns: 0,
        }
    }

    fn rtt_ns(&self) -> u64 {
        self.rtt_ns
    }
}
