//! The bottleneck of a link: a queue and the server that empties it.

use std::collections::VecDeque;

use crate::counters::Reason;
use crate::pattern::{End, Kind};
use crate::queue::Queue;
use crate::rate::{Opportunities, Profile, Server, at_rate};
use crate::run::{Backlog, NEVER, Run};
use crate::stage::{Change, Conditions, Outlet, Stage, Unit};

/// Handling of packets while the rate is zero.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    serde::Deserialize,
    serde::Serialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Outage {
    /// They wait.
    #[default]
    Hold,
    /// Queued packets are dropped when the rate falls to zero, and later ones on arrival until it rises.
    Drop,
}

/// Settings of a [`Bottleneck`], beside its queue and server.
#[derive(Clone, Copy, Debug, Default)]
pub struct BottleneckConfig {
    /// Bytes that each wire segment takes on the link beyond its IP bytes. At most 1000.
    pub overhead_bytes: u32,
    /// The unit of service; the queue must have the same unit.
    pub unit: Unit,
    /// Behaviour while the rate is zero.
    pub outage: Outage,
}

/// A queue and a server. A packet leaves the queue when its service begins, and the bottleneck when its service ends.
pub struct Bottleneck<Q: Queue> {
    queue: Q,
    server: Box<dyn Server>,
    config: BottleneckConfig,
    in_service: Option<Run>,
    /// When the service of `in_service` ends.
    finish_ns: u64,
    /// Since when the server has been free while packets wait.
    free_ns: u64,
    /// When the last packet left; `NEVER` before that.
    left_ns: u64,
    /// When the next service begins; recomputed when `known` is false.
    ready_ns: u64,
    ready_known: bool,
    /// Pending live changes.
    changes: VecDeque<(u64, Change)>,
    /// The next event besides services: end of the pattern, start or end of an outage, live change.
    end_ns: u64,
    ended: bool,
    outages: Option<Outages>,
    special_ns: u64,
    /// The rate at arrivals, for queues with a limit in time.
    arrival_rate: Option<Profile>,
    reached_ns: u64,
}

/// The next outages, if they drop packets.
struct Outages {
    rate: Profile,
    dark: bool,
    edge_ns: u64,
}

impl Outages {
    fn new(mut rate: Profile, from_ns: u64) -> Self {
        let edge_ns = rate.next_outage(from_ns).unwrap_or(NEVER);
        Self {
            rate,
            dark: false,
            edge_ns,
        }
    }

    /// Advances to the next start or end of an outage. Returns whether an outage begins.
    fn pass(&mut self) -> bool {
        let edge_ns = self.edge_ns;
        self.dark = !self.dark;
        let next = if self.dark {
            self.rate.next_service(edge_ns)
        } else {
            self.rate.next_outage(edge_ns)
        };
        self.edge_ns = next.unwrap_or(NEVER);
        self.dark
    }
}

impl<Q: Queue> Bottleneck<Q> {
    /// A bottleneck that is empty and free at time 0.
    #[must_use]
    pub fn new(config: BottleneckConfig, queue: Q, server: Box<dyn Server>) -> Self {
        let mut bottleneck = Self {
            queue,
            server,
            config,
            in_service: None,
            finish_ns: NEVER,
            free_ns: 0,
            left_ns: NEVER,
            ready_ns: NEVER,
            ready_known: true,
            changes: VecDeque::new(),
            end_ns: NEVER,
            ended: false,
            outages: None,
            special_ns: NEVER,
            arrival_rate: None,
            reached_ns: 0,
        };
        bottleneck.watch(0);
        bottleneck
    }

    /// Finds the next event of the server's rate from `from_ns` on.
    fn watch(&mut self, from_ns: u64) {
        self.ended = false;
        self.end_ns = self.server.end_ns().unwrap_or(NEVER);
        let drops = self.config.outage == Outage::Drop;
        self.outages = drops.then(|| Outages::new(self.server.profile(), from_ns));
        self.arrival_rate = self.queue.wants_rate().then(|| self.server.profile());
        self.find_special();
    }

    fn find_special(&mut self) {
        let change_ns = self.changes.front().map_or(NEVER, |change| change.0);
        let end_ns = if self.ended { NEVER } else { self.end_ns };
        let edge_ns = self
            .outages
            .as_ref()
            .map_or(NEVER, |outages| outages.edge_ns);
        self.special_ns = change_ns.min(end_ns).min(edge_ns);
    }

    /// How long no packet has been here at `at_ns`; `u64::MAX` if there was none yet.
    const fn idle_ns(&self, at_ns: u64) -> u64 {
        if self.left_ns == NEVER {
            u64::MAX
        } else {
            at_ns.saturating_sub(self.left_ns)
        }
    }

    fn empty(&self) -> bool {
        self.in_service.is_none() && self.queue.head_bytes().is_none()
    }

    /// Processes all events up to `now_ns`, in order.
    #[inline]
    fn advance(&mut self, now_ns: u64, out: &mut Outlet<'_>) {
        while self.special_ns <= now_ns {
            let at_ns = self.special_ns;
            self.run(at_ns, out);
            self.special(at_ns, out);
        }
        self.run(now_ns, out);
        self.reached_ns = self.reached_ns.max(now_ns);
    }

    /// Serves up to `until_ns`; no other event occurs before it.
    #[inline]
    fn run(&mut self, until_ns: u64, out: &mut Outlet<'_>) {
        loop {
            if let Some(run) = self.in_service {
                if self.finish_ns > until_ns {
                    return;
                }
                out.forward(Run {
                    at_ns: self.finish_ns,
                    ..run
                });
                self.in_service = None;
                self.free_ns = self.finish_ns;
                self.left_ns = self.finish_ns;
                self.ready_known = false;
            }
            if !self.ready_known {
                self.ready_known = true;
                self.ready_ns = NEVER;
                if let Some(head) = self.queue.head_bytes() {
                    let bytes = u64::from(head) + u64::from(self.config.overhead_bytes);
                    self.ready_ns = self.server.ready(self.free_ns, bytes).unwrap_or(NEVER);
                }
            }
            if self.ready_ns > until_ns || self.ready_ns == NEVER {
                return;
            }
            self.begin(self.ready_ns, out);
        }
    }

    /// Takes the next packet into service.
    #[inline]
    fn begin(&mut self, start_ns: u64, out: &mut Outlet<'_>) {
        self.ready_ns = NEVER;
        let Some(run) = self.queue.dequeue(start_ns, out) else {
            self.left_ns = start_ns;
            out.queue_level(start_ns, self.queue.backlog());
            return;
        };
        let bytes = run.bytes() + u64::from(run.count) * u64::from(self.config.overhead_bytes);
        self.finish_ns = self.server.serve(start_ns, bytes).unwrap_or(NEVER);
        self.in_service = Some(run);
        out.sojourn(start_ns, &run);
        out.queue_level(start_ns, self.queue.backlog());
    }

    /// Handles one of these events at `at_ns`.
    #[cold]
    fn special(&mut self, at_ns: u64, out: &mut Outlet<'_>) {
        if self.changes.front().is_some_and(|change| change.0 <= at_ns) {
            if let Some((_, change)) = self.changes.pop_front() {
                self.change(at_ns, &change);
            }
        } else if !self.ended && self.end_ns <= at_ns {
            self.ended = true;
            self.purge(at_ns, Reason::Ended, out);
        } else if let Some(outages) = &mut self.outages
            && outages.edge_ns <= at_ns
            && outages.pass()
        {
            self.purge(at_ns, Reason::Outage, out);
        }
        self.find_special();
    }

    /// Drops all packets in the bottleneck.
    fn purge(&mut self, at_ns: u64, reason: Reason, out: &mut Outlet<'_>) {
        if !self.empty() {
            self.left_ns = at_ns;
        }
        if let Some(run) = self.in_service.take() {
            self.server.break_off(at_ns);
            out.drop(Run { at_ns, ..run }, reason);
        }
        self.queue.clear(at_ns, reason, out);
        out.queue_level(at_ns, self.queue.backlog());
        self.free_ns = at_ns;
        self.ready_known = false;
    }

    /// Applies a live change, which also revises the current service.
    fn change(&mut self, at_ns: u64, change: &Change) {
        let left = self.in_service.map(|_| self.server.break_off(at_ns));
        let end = match self.server.end_ns() {
            Some(_) => End::Stop,
            None => self.server.profile().end(),
        };
        let playback = change.playback(at_ns, end);
        let profile = match (change, playback) {
            (Change::RateBps(rate_bps), _) => Some(Profile::constant(*rate_bps)),
            (_, Some(playback)) if playback.pattern.kind() == Kind::Steps => {
                Profile::play(playback)
            }
            _ => None,
        };
        if let Some(profile) = profile {
            if !self.server.set_profile(at_ns, profile.clone()) {
                self.server = at_rate(profile);
            }
        } else if let Change::Pattern(pattern) = change {
            let end = if end == End::Stop { end } else { End::Repeat };
            if let Some(server) = Opportunities::new(pattern.clone(), end, 0, at_ns) {
                self.server = Box::new(server);
            }
        }
        if let Some(left) = left {
            self.finish_ns = self.server.resume(at_ns, left).unwrap_or(NEVER);
        } else {
            self.free_ns = self.free_ns.max(at_ns);
            self.ready_known = false;
        }
        self.watch(at_ns);
    }

    /// Admits the segments of a super-packet one by one while the server is free, as if they had arrived singly: a
    /// segment that goes directly into service takes no queue space, and with drop-head each may push out the head.
    /// Returns the rest.
    fn accept_while_free(&mut self, mut run: Run, out: &mut Outlet<'_>) -> Run {
        while self.config.unit == Unit::Packet
            && run.count > 1
            && self.in_service.is_none()
            && (self.queue.head_bytes().is_none() || self.server.minds_size())
        {
            self.enter(run.split_front(1), out);
        }
        run
    }

    fn enter(&mut self, run: Run, out: &mut Outlet<'_>) {
        let at_ns = run.at_ns;
        if self.in_service.is_none() {
            if self.queue.head_bytes().is_none() {
                self.server.idle(at_ns, self.idle_ns(at_ns));
            }
            self.free_ns = self.free_ns.max(at_ns);
            self.ready_known = false;
        }
        self.queue.enqueue(run, out);
        out.queue_level(at_ns, self.queue.backlog());
        self.run(at_ns, out);
    }
}

impl<Q: Queue> Stage for Bottleneck<Q> {
    fn accept(&mut self, run: Run, out: &mut Outlet<'_>) {
        self.advance(run.at_ns, out);
        if self.ended {
            return out.drop(run, Reason::Ended);
        }
        if self.outages.as_ref().is_some_and(|outages| outages.dark) {
            return out.drop(run, Reason::Outage);
        }
        if let Some(rate) = &mut self.arrival_rate {
            self.queue.service_rate(rate.rate_at(run.at_ns));
        }
        let rest = if run.count > 1 {
            self.accept_while_free(run, out)
        } else {
            run
        };
        self.enter(rest, out);
    }

    fn poll(&mut self, now_ns: u64, out: &mut Outlet<'_>) {
        self.advance(now_ns, out);
    }

    fn next_event_ns(&self) -> Option<u64> {
        let mut next_ns = self.changes.front().map_or(NEVER, |change| change.0);
        if !self.empty() {
            next_ns = next_ns.min(self.special_ns);
            next_ns = next_ns.min(if self.in_service.is_some() {
                self.finish_ns
            } else {
                self.ready_ns
            });
        }
        Some(next_ns).filter(|&next_ns| next_ns < NEVER)
    }

    fn backlog(&self) -> Backlog {
        let mut backlog = self.queue.backlog();
        if let Some(run) = &self.in_service {
            backlog += Backlog {
                segments: u64::from(run.count),
                bytes: run.bytes(),
            };
        }
        backlog
    }

    fn apply(&mut self, now_ns: u64, change: &Change) -> bool {
        let taken = match change {
            _ if !self.server.takes_rate() => false,
            Change::RateBps(_) => true,
            Change::Pattern(pattern) => pattern.rate_bps().is_some() || pattern.bytes().is_some(),
            Change::Play(play) => play.pattern.rate_bps().is_some(),
            _ => false,
        };
        if taken {
            let last_ns = self.changes.back().map_or(0, |change| change.0);
            let at_ns = now_ns.max(self.reached_ns).max(last_ns);
            self.changes.push_back((at_ns, change.clone()));
            self.find_special();
        }
        taken
    }

    fn takes(&self) -> &'static [&'static str] {
        if self.server.takes_rate() {
            &["rate", "pattern"]
        } else {
            &[]
        }
    }

    fn conditions(&self, now_ns: u64) -> Conditions {
        Conditions {
            rate_bps: self.server.rate_of(now_ns),
            ..Conditions::default()
        }
    }
}
