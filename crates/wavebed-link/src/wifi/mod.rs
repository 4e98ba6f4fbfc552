//! The MAC of 802.11ad: aggregates of frames, a block acknowledgement for each, retries, delivery in order.
//!
//! See `docs/models/wifi-802.11ad.md`.

mod air;
mod window;

use std::collections::VecDeque;

use crate::chance::Chance;
use crate::counters::Reason;
use crate::queue::Queue;
use crate::random_stream::RandomStream;
use crate::rate::Profile;
use crate::run::Run;
use crate::stage::{Backlog, Change, Outlet, Stage};

use air::{Air, Airtime};
use window::Window;

pub use air::Bler;

/// Settings of a [`Wifi`] stage, beside its queue, rate and errors.
#[derive(Clone, Copy, Debug)]
pub struct WifiSettings {
    /// Bytes of an aggregate at most, [`WifiSettings::overhead_bytes`] included. At least one frame of
    /// the MTU.
    pub aggregate_bytes: u32,
    /// Frames of an aggregate at most, and the window of the block acknowledgement. At least 1.
    pub aggregate_frames: usize,
    /// Airtime of an aggregate beside its bytes: preamble, interframe spaces, block acknowledgement.
    pub overhead_ns: u64,
    /// Retransmissions of a frame before it is given up.
    pub retries: u32,
    /// Bytes of a frame beyond the IP bytes of its packet.
    pub overhead_bytes: u32,
    /// The largest packet, IP bytes.
    pub mtu_bytes: u32,
}

impl WifiSettings {
    /// The bytes of a full aggregate: as many frames of the largest packet as it can hold.
    #[must_use]
    pub fn full_bytes(&self) -> u64 {
        let frame_bytes = u64::from(self.mtu_bytes) + u64::from(self.overhead_bytes);
        let by_bytes = u64::from(self.aggregate_bytes) / frame_bytes;
        by_bytes.clamp(1, self.aggregate_frames as u64) * frame_bytes
    }

    /// The rate at which the overhead takes all the time of full aggregates, bits per second, rounded down; `u64::MAX`
    /// without overhead. It bounds the throughput.
    #[must_use]
    pub fn most_bps(&self) -> u64 {
        let bits = u128::from(self.full_bytes()) * 8_000_000_000;
        let rate = bits.checked_div(u128::from(self.overhead_ns));
        rate.map_or(u64::MAX, |rate| u64::try_from(rate).unwrap_or(u64::MAX))
    }
}

const NEVER: u64 = u64::MAX;

/// The state of the station.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// It has nothing to send.
    Idle,
    /// It has had data since `since_ns`, and starts an aggregate when the rate is above zero.
    Access { since_ns: u64, start_ns: u64 },
    /// An aggregate is on the air.
    OnAir(Aggregate),
}

#[derive(Clone, Copy, Debug)]
struct Aggregate {
    start_ns: u64,
    end_ns: u64,
    airtime: Airtime,
    chance: Chance,
    /// Whether an outage interrupted it that a live change has ended.
    cut: bool,
}

/// A station that sends its queue in aggregates.
pub struct Wifi {
    settings: WifiSettings,
    queue: Box<dyn Queue>,
    window: Window,
    air: Air,
    phase: Phase,
    /// Pending live changes.
    changes: VecDeque<(u64, Change)>,
    end_ns: u64,
    ended: bool,
    /// The rate at arrivals, for queues with a limit in time.
    arrival_rate: Option<Profile>,
    reached_ns: u64,
    /// Which frames of an aggregate failed; kept to save the allocation.
    failed: Vec<bool>,
}

impl Wifi {
    /// A station with nothing to send at time 0, at this rate. Its `queue` returns wire segments.
    #[must_use]
    pub fn new(
        settings: WifiSettings,
        queue: Box<dyn Queue>,
        rate: Profile,
        bler: Bler,
        random: RandomStream,
    ) -> Self {
        let mut wifi = Self {
            settings,
            queue,
            window: Window::default(),
            air: Air::new(rate, bler, random),
            phase: Phase::Idle,
            changes: VecDeque::new(),
            end_ns: NEVER,
            ended: false,
            arrival_rate: None,
            reached_ns: 0,
            failed: Vec::new(),
        };
        wifi.watch();
        wifi
    }

    /// Finds the next event of the rate.
    fn watch(&mut self) {
        self.ended = false;
        self.end_ns = self.air.end_ns().unwrap_or(NEVER);
        self.arrival_rate = self.queue.wants_rate().then(|| self.air.profile());
    }

    /// The next live change or end of the pattern.
    fn special_ns(&self) -> u64 {
        let change_ns = self.changes.front().map_or(NEVER, |change| change.0);
        change_ns.min(if self.ended { NEVER } else { self.end_ns })
    }

    /// Processes all events up to `now_ns`, in order.
    fn advance(&mut self, now_ns: u64, out: &mut Outlet<'_>) {
        loop {
            let at_ns = self.special_ns();
            self.run(at_ns.min(now_ns), out);
            if at_ns > now_ns {
                break;
            }
            if self.changes.front().is_some_and(|change| change.0 <= at_ns) {
                if let Some((_, change)) = self.changes.pop_front() {
                    self.change(at_ns, &change);
                }
            } else {
                self.stop(at_ns, out);
            }
        }
        self.reached_ns = self.reached_ns.max(now_ns);
    }

    /// Sends up to `until_ns`; no other event occurs before it.
    fn run(&mut self, until_ns: u64, out: &mut Outlet<'_>) {
        loop {
            match self.phase {
                Phase::Access { start_ns, .. } if start_ns <= until_ns && start_ns < NEVER => {
                    self.start(start_ns, out);
                }
                Phase::OnAir(aggregate) if aggregate.end_ns <= until_ns => {
                    self.finish(aggregate, out);
                }
                _ => return,
            }
        }
    }

    /// Waits for a rate above zero, from `since_ns` on.
    fn contend(&mut self, since_ns: u64) {
        let start_ns = self.air.next_service(since_ns).unwrap_or(NEVER);
        self.phase = Phase::Access { since_ns, start_ns };
    }

    fn start(&mut self, start_ns: u64, out: &mut Outlet<'_>) {
        self.window
            .fill(&self.settings, &mut *self.queue, start_ns, out);
        out.queue_level(start_ns, self.queue.backlog());
        let Some(bytes) = self.window.ends(&self.settings).last() else {
            // The queue dropped all its segments.
            self.phase = Phase::Idle;
            return;
        };
        let (airtime, chance) = self.air.start(&self.settings, start_ns);
        self.phase = Phase::OnAir(Aggregate {
            start_ns,
            end_ns: start_ns.saturating_add(airtime.of(bytes)),
            airtime,
            chance,
            cut: false,
        });
    }

    fn finish(&mut self, aggregate: Aggregate, out: &mut Outlet<'_>) {
        let outage_ns = self.air.next_outage(aggregate.start_ns);
        let cut = aggregate.cut || outage_ns.is_some_and(|at_ns| at_ns < aggregate.end_ns);
        self.failed.clear();
        for bytes in self.window.ends(&self.settings) {
            let sent_ns = || {
                let airtime_ns = aggregate.airtime.of(bytes);
                aggregate.start_ns.saturating_add(airtime_ns)
            };
            let failed = cut || self.air.fails(aggregate.chance, sent_ns);
            self.failed.push(failed);
        }
        self.window
            .acknowledge(aggregate.end_ns, self.settings.retries, &self.failed, out);
        if self.window.is_empty() && self.queue.head_bytes().is_none() {
            self.phase = Phase::Idle;
        } else {
            self.contend(aggregate.end_ns);
        }
    }

    /// The pattern has ended: drops all segments in the stage.
    fn stop(&mut self, at_ns: u64, out: &mut Outlet<'_>) {
        self.ended = true;
        self.phase = Phase::Idle;
        self.window.clear(at_ns, Reason::Ended, out);
        self.queue.clear(at_ns, Reason::Ended, out);
        out.queue_level(at_ns, self.queue.backlog());
    }

    /// Applies a live change. An aggregate on the air keeps its airtime and its error probability.
    fn change(&mut self, at_ns: u64, change: &Change) {
        if let Phase::OnAir(aggregate) = &mut self.phase {
            let outage_ns = self.air.next_outage(aggregate.start_ns);
            aggregate.cut |= outage_ns.is_some_and(|outage_ns| outage_ns < at_ns);
        }
        self.air.change(at_ns, change);
        if let Phase::Access { since_ns, .. } = self.phase {
            self.contend(since_ns.max(at_ns));
        }
        self.watch();
    }
}

impl Stage for Wifi {
    fn accept(&mut self, run: Run, out: &mut Outlet<'_>) {
        let at_ns = run.at_ns;
        self.advance(at_ns, out);
        if self.ended {
            return out.drop(run, Reason::Ended);
        }
        if let Some(rate) = &mut self.arrival_rate {
            self.queue.service_rate(rate.rate_at(at_ns));
        }
        self.queue.enqueue(run, out);
        out.queue_level(at_ns, self.queue.backlog());
        if matches!(self.phase, Phase::Idle) && self.queue.head_bytes().is_some() {
            // An aggregate takes segments that arrived before its start, so that simultaneous arrivals are sent
            // together.
            self.contend(at_ns + 1);
        }
    }

    fn poll(&mut self, now_ns: u64, out: &mut Outlet<'_>) {
        self.advance(now_ns, out);
    }

    fn next_event_ns(&self) -> Option<u64> {
        let change_ns = self.changes.front().map_or(NEVER, |change| change.0);
        let next_ns = match self.phase {
            Phase::Idle => change_ns,
            Phase::Access { start_ns, .. } => self.special_ns().min(start_ns),
            Phase::OnAir(aggregate) => self.special_ns().min(aggregate.end_ns),
        };
        Some(next_ns).filter(|&next_ns| next_ns < NEVER)
    }

    fn backlog(&self) -> Backlog {
        let mut backlog = self.queue.backlog();
        backlog += self.window.backlog();
        backlog
    }

    fn apply(&mut self, now_ns: u64, change: &Change) -> bool {
        let taken = match change {
            Change::RateBps(_) => true,
            Change::Pattern(pattern) => pattern.rate_bps().is_some(),
            _ => false,
        };
        if taken {
            let last_ns = self.changes.back().map_or(0, |change| change.0);
            let at_ns = now_ns.max(self.reached_ns).max(last_ns);
            self.changes.push_back((at_ns, change.clone()));
        }
        taken
    }
}
