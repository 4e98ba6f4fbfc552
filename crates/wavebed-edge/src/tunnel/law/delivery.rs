//! The law of this project: the rate follows what the link delivers; delay tells when it is too much.
//!
//! # States
//!
//! | state | the law |
//! |---|---|
//! | [`Following`](DeliveryState::Following) | sends at the rate that the link delivered |
//! | [`Probing`](DeliveryState::Probing) | sends faster for a round trip and two reports |
//! | [`Draining`](DeliveryState::Draining) | has cut the rate, and the queue of that cut is not empty yet |
//! | [`Blocked`](DeliveryState::Blocked) | receives no reports and learns nothing |
//!
//! Two times lie across the states: nothing is sent before `resume_ns` (a pause), and the rate is neither cut nor probed
//! before `hold_ns`. The *start* lasts until a queue shows the limit of the link. On a loud path a probe may begin while
//! the last of a cut's queue drains; the state is `Draining` then.
//!
//! # Transitions
//!
//! Each is tested in `tests/all/tunnel/delivery_states.rs`, in this order. A queue is *long* above 10 ms, *short* below 3 ms
//! (more on loud paths), and *stands* between. A report without a cut may end `Draining` and begin `Probing` at once.
//!
//! | from | event | to | effect |
//! |---|---|---|---|
//! | any | reports are missing | `Blocked` | |
//! | `Blocked` | a report | the state before; a probe ends | the rate of before; holds for a round trip and 10 ms |
//! | any | the path changed | `Following` | all but the rate is forgotten; the start is over |
//! | any | a loss | the same | nothing |
//! | any, not held after a cut | the delay rose by 4 ms, and less than half the rate was delivered | `Draining` | 0.9 of what was delivered; a pause for all bytes on the way |
//! | any, not held | a long queue in two of three reports | `Draining` | 0.9 of what was delivered; a pause of the queue at most |
//! | any, not held | the third cut in a row for one queue | `Following` | the path is longer: a new base, the rate before these cuts |
//! | `Draining` | three reports, and more was delivered than was assumed | `Draining` | 0.9 of what was delivered |
//! | `Draining` | a short queue, 10 ms or more before the end of the pause | `Following` | a false alarm: the rate before the cut |
//! | `Draining` | a short queue | `Following` | the pause ends |
//! | `Following`, not held | a queue stands in three reports | `Following` | a pause; none for 250 ms after it |
//! | `Following`, not held | load, and a short queue | `Probing` | 1.25 times the rate; 1.5 after two successes, 2 in the start |
//! | `Probing`, in the start | load, and a short queue 10 ms after the round trip | `Probing` | the tried rate is kept and doubled |
//! | `Probing` | a short queue 20 ms after the round trip, and nine tenths delivered | `Following` | the tried rate is kept |
//! | `Probing` | a short queue then, and less delivered | `Following` | 0.985 of what was delivered; no probe for 250 ms |
//! | `Probing` | a queue then | `Following` | the same, and a pause; the start is over |
//! | `Probing` on a loud path | load, a short queue then, and less delivered | `Probing` | until 60 ms after the round trip |

mod cut;

use std::collections::VecDeque;

use super::minimum::Minimum;
use super::{Law, Observation, Pace, RateLimits};
use crate::tunnel::units::{bytes_in, rate_of, scaled};

const MS: u64 = 1_000_000;
/// A queue below this is empty: jitter of slots and grants.
const SHORT_NS: u64 = 3 * MS;
/// A load above this, of what may be sent, is one that more rate would serve.
const LOAD_PER_MILLE: u64 = 750;
/// From a probe that the link did not carry to the next: its queue of a quarter of 20 ms is then 2 % of the time.
const PROBE_GAP_NS: u64 = 250 * MS;
/// Bytes on the way beyond the rate times the round trip: reports of 10 ms, late ones, a queue.
const SLACK_NS: u64 = 50 * MS;
/// Of a delay that stays when the queue is drained, at most this is taken for jitter.
const MOST_JITTER_NS: u64 = 5 * MS;
/// A shorter gap than this may be that between two packets of a slow link; retransmissions of a radio take as long or
/// longer.
const STALL_NS: u64 = 8 * MS;
/// Beyond a round trip, until a report is about the time after a change only: at round trips below a report's time, cuts
/// would follow each other for one queue.
const EVIDENCE_NS: u64 = 10 * MS;
/// Reports over which load is averaged: acknowledgements of a radio come in bursts.
const LOADS: usize = 5;
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
    /// Longest time without a packet.
    gap_ns: u64,
    /// Whether nothing came for more than half of the time, and long.
    stalled: bool,
}

/// What the law does; the table of transitions is in the source, above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryState {
    /// Sends at the rate that the link delivered.
    Following,
    /// Sends faster, to see whether the link carries it.
    Probing,
    /// Has cut the rate; the queue of that cut is not empty yet.
    Draining,
    /// Receives no reports.
    Blocked,
}

/// The rate follows delivered bytes; only a queue lowers it, never a loss.
///
/// - Until the link's limit is met: twice the rate each round trip and 10 ms.
/// - A queue above 10 ms in two of three reports: 0.9 of what was delivered, after a pause in which the queue drains; then
///   one round trip without another cut.
/// - A delay that rises by 4 ms while less than half the rate is delivered: the same at once, and the pause is as long as
///   the bytes on the way take at the new rate.
/// - Load of 75 % or more, and a queue below 3 ms: 1.25 times the rate for a round trip and two reports; what was
///   delivered is kept.
/// - Where delays jump without a queue, or the rate varies by more than 10 %, these thresholds rise by that jitter, and a
///   queue of 5 ms may stand: a link whose rate rises meanwhile finds work.
/// - No reports: nothing is learned, and when they come again the rate is the same as before.
#[derive(Debug)]
pub struct DeliveryLaw {
    limits: RateLimits,
    target_ns: u64,
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
    /// Cuts that left the queue as it was, the queue at the last, and the rate before the first.
    cuts: u32,
    cut_queue_ns: u64,
    uncut_bps: u64,
    /// The least queue since the last pause: what stays of a drained queue is jitter.
    drained_ns: u64,
    /// No pause for a standing queue before.
    next_pause_ns: u64,
    noise: Noise,
    /// No limit of the link has been met yet.
    starting: bool,
    /// The same before the last cut.
    was_starting: bool,
    /// Bytes sent, and those that the rate allowed, of the last reports.
    loads: VecDeque<(u64, u64)>,
    /// The delay that the last cut was made for.
    alarm_ns: u64,
}

impl DeliveryLaw {
    /// The queue that may stand in the link where its rate varies. On bbr-5g's radio, 0 leaves 2 to 5 % of the link unused,
    /// this 1 to 2 % for 0 to 3 ms more of delay; 10 ms gain little.
    pub const TARGET_QUEUE_NS: u64 = 5 * MS;

    /// The same with another target of the queue.
    #[must_use]
    pub fn with_target_queue(mut self, target_ns: u64) -> Self {
        self.target_ns = target_ns;
        self
    }

    /// A law that begins at the start rate.
    #[must_use]
    pub fn new(limits: RateLimits) -> Self {
        Self {
            limits,
            target_ns: Self::TARGET_QUEUE_NS,
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
            cut_queue_ns: 0,
            uncut_bps: 0,
            drained_ns: 0,
            next_pause_ns: 0,
            noise: Noise::default(),
            starting: true,
            was_starting: true,
            loads: VecDeque::with_capacity(LOADS),
            alarm_ns: 0,
        }
    }

    /// Its state.
    #[must_use]
    pub const fn state(&self) -> DeliveryState {
        if self.is_blocked {
            DeliveryState::Blocked
        } else if self.before_cut.is_some() {
            DeliveryState::Draining
        } else if self.probe.is_some() {
            DeliveryState::Probing
        } else {
            DeliveryState::Following
        }
    }

    /// Whether no limit of the link has been met yet.
    #[must_use]
    pub const fn is_starting(&self) -> bool {
        self.starting
    }

    fn set_rate(&mut self, rate_bps: u64) {
        self.rate_bps = self.limits.clamp(rate_bps);
    }

    /// The rate of the reports that `which` chooses of the recent ones; `None` if it chooses none. A moment without
    /// service, as while a radio repeats a block, does not tell of the link's rate, unless all are such: a slow link.
    fn delivered(&self, which: impl Fn(&Sample) -> bool) -> Option<u64> {
        let rate = |with_stalls| {
            let chosen = self.recent.iter().filter(|sample| which(sample));
            let counted = chosen.filter(|sample| with_stalls || !sample.stalled);
            let (bytes, time_ns) = counted.fold((0, 0), |(bytes, time_ns), sample| {
                (bytes + sample.bytes, time_ns + sample.interval_ns)
            });
            (time_ns > 0).then(|| rate_of(bytes, time_ns))
        };
        rate(false).or_else(|| rate(true))
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
            gap_ns: seen.longest_gap_ns,
            stalled: seen.longest_gap_ns > STALL_NS.max(seen.interval_ns / 2),
        };
        if self.loads.len() == LOADS {
            self.loads.pop_front();
        }
        self.loads.push_back((seen.sent_bytes, seen.sendable_bytes));
        let sums =
            (self.loads.iter()).fold((0, 0), |sums, each| (sums.0 + each.0, sums.1 + each.1));
        let is_load = |sent, sendable| sent >= scaled(sendable, LOAD_PER_MILLE);
        let loaded = is_load(seen.sent_bytes, seen.sendable_bytes)
            || (self.noise.is_loud() && is_load(sums.0, sums.1));
        if loaded {
            self.loaded_ns = Some(seen.now_ns);
        }
        self.drained_ns = self.drained_ns.min(sample.queue_ns);
        (sample, loaded)
    }

    /// The queue that stands where the link's rate varies; elsewhere none needs to.
    fn target_ns(&self) -> u64 {
        if self.noise.is_loud() {
            self.target_ns
        } else {
            0
        }
    }

    /// A queue below this is as good as empty.
    fn short_ns(&self) -> u64 {
        SHORT_NS + self.drained_ns.min(MOST_JITTER_NS) + self.target_ns()
    }
}

impl Law for DeliveryLaw {
    fn observe(&mut self, seen: &Observation) {
        let (sample, loaded) = self.learn(seen);
        if std::mem::take(&mut self.is_blocked) {
            self.recent.clear();
            self.probe = None;
            self.resume_ns = seen.now_ns + self.excess_ns(seen, self.rate_bps).min(SLACK_NS);
            self.hold_ns = self.resume_ns + self.rtt_ns() + EVIDENCE_NS;
            self.next_probe_ns = self.hold_ns;
            return;
        }
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        if let Some(before) = self.recent.back()
            && seen.now_ns >= self.hold_ns + sample.interval_ns
        {
            self.noise.see(before, &sample);
        }
        self.recent.push_back(sample);
        if !self.slow_down(seen, &sample) {
            self.drain(seen, &sample);
            self.settle(seen);
            self.speed_up(seen, &sample, loaded);
        }
    }

    fn blocked(&mut self, _now_ns: u64) {
        self.is_blocked = true;
    }

    fn path_changed(&mut self) {
        *self = Self {
            rate_bps: self.rate_bps,
            target_ns: self.target_ns,
            starting: false,
            ..Self::new(self.limits)
        };
    }

    fn pace(&self) -> Pace {
        let rate_bps = match &self.probe {
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
/// A mean deviation beyond this part of the rate means that the link's rate varies.
const VARIES_PER_MILLE: u64 = 100;
/// Of the rate of a report, what counting whole packets may miss: one of them, bytes.
const PACKET_BYTES: u64 = 1500;

/// Noise of a path.
#[derive(Clone, Copy, Debug)]
struct Noise {
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
    fn see(&mut self, before: &Sample, sample: &Sample) {
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
    fn alarm(&mut self, delay_ns: u64) {
        self.jitter_ns = self.jitter_ns.max(delay_ns.min(MOST_NS));
    }

    /// Delays up to this come from no queue, beyond the delays of slots and grants.
    const fn jitter_ns(self) -> u64 {
        if self.jitter_ns > SHORT_NS {
            self.jitter_ns
        } else {
            0
        }
    }

    /// Whether one report tells little of queue or rate.
    fn is_loud(self) -> bool {
        self.jitter_ns() > 0 || self.deviation_bps > scaled(self.mean_bps, VARIES_PER_MILLE)
    }
}

const PROBE_PER_MILLE: u64 = 1250;
/// After two probes that the link carried: at 1.25 a tenfold rise takes eleven steps, with this seven.
const FAST_PROBE_PER_MILLE: u64 = 1500;
/// While no limit of the link is known, as slow start doubles: a flow that meets the tunnel's limit first takes seconds
/// to grow again.
const START_PER_MILLE: u64 = 2000;
/// Delivered fraction at which a probe was carried; the rest is what counting whole packets in 20 ms may miss.
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
struct Probe {
    per_mille: u64,
    /// When the first reports of it can have come.
    first_ns: u64,
    best_bps: u64,
    /// What was delivered in it, and in which time.
    bytes: u64,
    time_ns: u64,
}

impl DeliveryLaw {
    /// Tries a higher rate, and keeps what of it was delivered.
    fn speed_up(&mut self, seen: &Observation, sample: &Sample, loaded: bool) {
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
