//! One station: its queue, its window and its aggregates.

use std::collections::VecDeque;

use super::air::{Air, Airtime, Bler};
use super::window::Window;
use super::{NEVER, WifiSettings};
use crate::chance::Chance;
use crate::counters::Reason;
use crate::queue::Queue;
use crate::random_stream::RandomStream;
use crate::rate::Profile;
use crate::run::Run;
use crate::stage::{Backlog, Change, Effect, Outlet};

/// The state of the station.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// It has nothing to send.
    Idle,
    /// It has had data since `since_ns`, and may start an aggregate from `ready_ns` on: the rate is then above zero. With
    /// the air free it starts at `start_ns`.
    Access {
        since_ns: u64,
        ready_ns: u64,
        start_ns: u64,
    },
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

/// The next event of a station, in the order of those at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// The end of an aggregate.
    Finish,
    /// The start of one.
    Start,
    /// A live change, or the end of the pattern.
    Special,
}

/// A station that sends its queue in aggregates.
pub(super) struct Station {
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
    /// What it did while another link was polled, and has not told its own.
    pub(super) effects: VecDeque<Effect>,
    /// Which frames of an aggregate failed; kept to save the allocation.
    failed: Vec<bool>,
}

impl Station {
    /// A station with nothing to send at time 0, at this rate. Its `queue` returns wire segments.
    pub(super) fn new(
        settings: WifiSettings,
        queue: Box<dyn Queue>,
        rate: Profile,
        bler: Bler,
        random: RandomStream,
    ) -> Self {
        let mut station = Self {
            settings,
            queue,
            window: Window::default(),
            air: Air::new(rate, bler, random),
            phase: Phase::Idle,
            changes: VecDeque::new(),
            end_ns: NEVER,
            ended: false,
            arrival_rate: None,
            effects: VecDeque::new(),
            failed: Vec::new(),
        };
        station.watch();
        station
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

    /// The next event and its time, while the air is busy until `free_ns`.
    pub(super) fn next(&mut self, free_ns: u64) -> Option<(u64, Event)> {
        let own = match &mut self.phase {
            Phase::Idle => (NEVER, Event::Start),
            Phase::Access { start_ns, .. } => {
                if *start_ns < free_ns {
                    *start_ns = self.air.next_service(free_ns).unwrap_or(NEVER);
                }
                (*start_ns, Event::Start)
            }
            Phase::OnAir(aggregate) => (aggregate.end_ns, Event::Finish),
        };
        let special = (self.special_ns(), Event::Special);
        Some(own.min(special)).filter(|&(at_ns, _)| at_ns < NEVER)
    }

    /// Since when it could have sent, were the air free.
    pub(super) const fn ready_ns(&self) -> u64 {
        match self.phase {
            Phase::Access { ready_ns, .. } => ready_ns,
            _ => NEVER,
        }
    }

    /// The next time that its link should poll, while the air is busy until `free_ns`.
    pub(super) fn due_ns(&mut self, free_ns: u64) -> Option<u64> {
        let effect_ns = self.effects.front().map(Effect::at_ns);
        let change_ns = self.changes.front().map(|change| change.0);
        let event_ns = match self.phase {
            Phase::Idle => change_ns,
            _ => self.next(free_ns).map(|(at_ns, _)| at_ns),
        };
        effect_ns.into_iter().chain(event_ns).min()
    }

    /// Tells its link what it did up to `now_ns`.
    pub(super) fn tell(&mut self, now_ns: u64, out: &mut Outlet<'_>) {
        while self
            .effects
            .front()
            .is_some_and(|effect| effect.at_ns() <= now_ns)
        {
            if let Some(effect) = self.effects.pop_front() {
                out.repeat(effect);
            }
        }
    }

    /// The next live change, or the end of the pattern, at `at_ns`.
    pub(super) fn special(&mut self, at_ns: u64, out: &mut Outlet<'_>) {
        if self.changes.front().is_some_and(|change| change.0 <= at_ns) {
            if let Some((_, change)) = self.changes.pop_front() {
                self.change(at_ns, &change);
            }
        } else {
            self.stop(at_ns, out);
        }
    }

    /// Waits for a rate above zero, from `since_ns` on.
    fn contend(&mut self, since_ns: u64) {
        let start_ns = self.air.next_service(since_ns).unwrap_or(NEVER);
        self.phase = Phase::Access {
            since_ns,
            ready_ns: start_ns,
            start_ns,
        };
    }

    /// Starts an aggregate. Returns its end; `None` if the queue has dropped all its segments.
    pub(super) fn start(&mut self, start_ns: u64, out: &mut Outlet<'_>) -> Option<u64> {
        self.window
            .fill(&self.settings, &mut *self.queue, start_ns, out);
        out.queue_level(start_ns, self.queue.backlog());
        let Some(bytes) = self.window.ends(&self.settings).last() else {
            self.phase = Phase::Idle;
            return None;
        };
        let (airtime, chance) = self.air.start(&self.settings, start_ns);
        let end_ns = start_ns.saturating_add(airtime.of(bytes));
        self.phase = Phase::OnAir(Aggregate {
            start_ns,
            end_ns,
            airtime,
            chance,
            cut: false,
        });
        Some(end_ns)
    }

    /// The end of the aggregate on the air.
    pub(super) fn finish(&mut self, out: &mut Outlet<'_>) {
        let Phase::OnAir(aggregate) = self.phase else {
            return;
        };
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

    /// Takes a run; its link was told all before.
    pub(super) fn accept(&mut self, run: Run, out: &mut Outlet<'_>) {
        let at_ns = run.at_ns;
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

    /// Segments in the queue and in the window, and those that its link believes there.
    pub(super) fn backlog(&self) -> Backlog {
        let mut backlog = self.queue.backlog();
        backlog += self.window.backlog();
        for effect in &self.effects {
            if let Effect::Forward(run) | Effect::Drop(run, _) = effect {
                backlog.count(run);
            }
        }
        backlog
    }

    /// The rate at `at_ns`, for a display.
    pub(super) fn rate_of(&self, at_ns: u64) -> u64 {
        self.air.profile().rate_of(at_ns)
    }

    /// Takes a live change at `at_ns`. Returns false if it does not concern the stage.
    pub(super) fn apply(&mut self, at_ns: u64, change: &Change) -> bool {
        let taken = match change {
            Change::RateBps(_) => true,
            Change::Pattern(pattern) => pattern.rate_bps().is_some(),
            Change::Play(play) => play.pattern.rate_bps().is_some(),
            _ => false,
        };
        if taken {
            let last_ns = self.changes.back().map_or(0, |change| change.0);
            self.changes.push_back((at_ns.max(last_ns), change.clone()));
        }
        taken
    }
}
