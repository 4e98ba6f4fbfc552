//! The split bearer of EN-DC: one PDCP entity with a leg on the carrier and a leg on the fallback carrier.
//! `docs/models/radio.md` describes it.

use std::sync::Arc;

use super::block::{Numbers, Order};
use super::connection::Connection;
use super::settings::Direction;
use super::{Radio, deliver};
use crate::counters::Reason;
use crate::pattern::{Playback, State};
use crate::queue::Queue;
use crate::run::{Backlog, BlockRecord, NEVER, Run};
use crate::stage::{Change, Conditions, Outlet, Stage};

/// Settings of a [`SplitBearer`], beside the settings of its legs.
#[derive(Clone, Copy, Debug)]
pub struct SplitConfig {
    /// Its direction.
    pub direction: Direction,
    /// Bytes that the lower layers add to each segment.
    pub overhead_bytes: u32,
    /// How long a segment may wait before it is given to a leg (discardTimer of PDCP); `None`: without limit.
    pub discard_ns: Option<u64>,
    /// In-order delivery, as in [`super::RadioConfig`].
    pub reordering: Option<Option<u64>>,
    /// A leg takes data while what waits in it is less than its rate carries in this time.
    pub target_ns: u64,
    /// Waiting bytes from which on both legs carry new data (ul-DataSplitThreshold); `None`: infinity, one leg only.
    pub threshold_bytes: Option<u64>,
}

/// One direction of a split bearer.
///
/// The bearer owns the buffer, the numbers and the order of segments. The legs own slots, HARQ and RLC; they neither
/// discard nor reorder.
pub struct SplitBearer {
    config: SplitConfig,
    queue: Box<dyn Queue>,
    connection: Option<Arc<Connection>>,
    order: Option<Order>,
    legs: [Leg; 2],
    numbers: Numbers,
    /// Segments that left the buffer and have neither been delivered nor dropped.
    outside: Backlog,
    /// When the carrier is next lost to the fallback carrier.
    lost_ns: u64,
    /// When a leg that takes nothing may take data again, while segments wait.
    look_ns: u64,
    end_ns: u64,
    ended: bool,
    log: Option<Vec<BlockRecord>>,
}

struct Leg {
    radio: Radio,
    /// Until then its radio link is not re-established.
    failed_until_ns: u64,
}

const PRIMARY: usize = 0;
const FALLBACK: usize = 1;

/// The next event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    End,
    Lost,
    Legs,
    Reordering,
    Discard,
    Look,
}

impl SplitBearer {
    /// A bearer that is idle at time 0. The legs have the connection too, a queue without limit, and neither a discard
    /// timer nor reordering; `primary` is silent in the state `fallback`.
    #[must_use]
    pub fn new(
        config: SplitConfig,
        queue: Box<dyn Queue>,
        connection: Option<Arc<Connection>>,
        primary: Radio,
        fallback: Radio,
    ) -> Self {
        let legs = [primary, fallback].map(|radio| Leg {
            radio,
            failed_until_ns: 0,
        });
        let mut bearer = Self {
            config,
            queue,
            connection,
            order: config.reordering.map(Order::new),
            legs,
            numbers: Numbers::default(),
            outside: Backlog::default(),
            lost_ns: NEVER,
            look_ns: NEVER,
            end_ns: NEVER,
            ended: false,
            log: None,
        };
        bearer.watch(0);
        bearer
    }

    /// Finds the next events of the pattern from `from_ns` on.
    fn watch(&mut self, from_ns: u64) {
        self.find_loss(from_ns);
        self.end_ns = self.legs[PRIMARY].radio.end_ns;
        self.ended = false;
    }

    fn find_loss(&mut self, from_ns: u64) {
        let air = &mut self.legs[PRIMARY].radio.air;
        self.lost_ns = air.next_into(State::Fallback, from_ns).unwrap_or(NEVER);
    }

    /// Keeps a record of every transmission from now on.
    pub fn log_blocks(&mut self) {
        self.log.get_or_insert_default();
        self.legs.iter_mut().for_each(|leg| leg.radio.log_blocks());
    }

    /// Takes the records, in order of their slots.
    pub fn take_blocks(&mut self) -> Vec<BlockRecord> {
        let mut blocks = self.log.as_mut().map(std::mem::take).unwrap_or_default();
        blocks.sort_by_key(|block| (block.slot.start_ns, block.slot.fallback));
        blocks
    }

    fn empty(&self) -> bool {
        self.outside.segments == 0 && self.queue.head_bytes().is_none()
    }

    fn next(&self) -> Option<(u64, Event)> {
        // While empty, the end and failures are handled when data arrives.
        let (end_ns, lost_ns) = if self.empty() {
            (NEVER, NEVER)
        } else {
            (self.end_ns, self.lost_ns)
        };
        let legs = self.legs.iter();
        let legs_ns = legs.filter_map(|leg| leg.radio.next_event_ns()).min();
        let reordering_ns = self.order.as_ref().and_then(Order::deadline_ns);
        let head_ns = self.config.discard_ns.and(self.queue.head_at_ns());
        let discard = head_ns.zip(self.config.discard_ns);
        [
            (!self.ended).then_some((end_ns, Event::End)),
            Some((lost_ns, Event::Lost)),
            legs_ns.map(|at_ns| (at_ns, Event::Legs)),
            reordering_ns.map(|at_ns| (at_ns, Event::Reordering)),
            discard.map(|(head_ns, time_ns)| (head_ns.saturating_add(time_ns), Event::Discard)),
            Some((self.look_ns, Event::Look)),
        ]
        .into_iter()
        .flatten()
        .min()
        .filter(|&(at_ns, _)| at_ns < NEVER)
    }

    fn advance(&mut self, now_ns: u64, out: &mut Outlet<'_>) {
        while let Some((at_ns, event)) = self.next()
            && at_ns <= now_ns
        {
            match event {
                Event::End => self.finish(at_ns, out),
                Event::Lost => {
                    self.find_loss(at_ns + 1);
                    self.recover(at_ns, out);
                }
                Event::Legs => self.run_legs(at_ns, out),
                Event::Reordering => {
                    if let Some(order) = &mut self.order {
                        deliver(&mut self.outside, out, |out| order.expire(at_ns, out));
                    }
                }
                Event::Discard => self.discard(at_ns, out),
                Event::Look => {}
            }
            self.feed(at_ns, out);
        }
    }

    /// Drops segments that have waited too long.
    fn discard(&mut self, at_ns: u64, out: &mut Outlet<'_>) {
        let Some(discard_ns) = self.config.discard_ns else {
            return;
        };
        while let Some(run) = self.queue.expire(at_ns.saturating_sub(discard_ns)) {
            out.drop(Run { at_ns, ..run }, Reason::Discard);
        }
    }

    /// Handles the events of the legs at `at_ns`.
    fn run_legs(&mut self, at_ns: u64, out: &mut Outlet<'_>) {
        for place in [PRIMARY, FALLBACK] {
            let failures = out.link_failures();
            self.with_leg(place, out, |leg, out| leg.poll(at_ns, out));
            if out.link_failures() > failures {
                let leg = &mut self.legs[place];
                leg.failed_until_ns = at_ns.saturating_add(leg.radio.reestablish_ns());
                if place == PRIMARY {
                    self.recover(at_ns, out);
                }
            }
        }
    }

    /// PDCP data recovery: what the leg of the carrier has not delivered is sent again by the other, before new data. A
    /// status report says what the receiver has given up.
    fn recover(&mut self, at_ns: u64, out: &mut Outlet<'_>) {
        let runs = self.with_leg(PRIMARY, out, |leg, out| leg.take_undelivered(at_ns, out));
        let past = |run: &Run| {
            let order = self.order.as_ref();
            order.is_some_and(|order| order.is_past(self.numbers.count(run)))
        };
        let (late, mut runs): (Vec<Run>, Vec<Run>) = runs.into_iter().partition(past);
        runs.sort_by_key(|run| self.numbers.count(run));
        self.legs[FALLBACK].radio.send_first(at_ns, runs);
        for run in late {
            let outside = &mut self.outside;
            self.numbers.leave(Run { at_ns, ..run }, |_, run| {
                deliver(outside, out, |out| out.drop(run, Reason::Late));
            });
        }
    }

    /// Runs `act` with a leg, and takes what leaves it.
    fn with_leg<T>(
        &mut self,
        place: usize,
        out: &mut Outlet<'_>,
        act: impl FnOnce(&mut Radio, &mut Outlet<'_>) -> T,
    ) -> T {
        let (mut forward, mut lost, mut reasons) = (Vec::new(), Vec::new(), Vec::new());
        let radio = &mut self.legs[place].radio;
        let result = act(radio, &mut out.part(&mut forward, &mut lost, &mut reasons));
        self.note_blocks(place);
        let (order, outside) = (&mut self.order, &mut self.outside);
        for run in forward {
            self.numbers.leave(run, |count, run| {
                deliver(outside, out, |out| match order.as_mut() {
                    Some(order) => order.receive(count, run, out),
                    None => out.forward(run),
                });
            });
        }
        for (run, reason) in lost.into_iter().zip(reasons) {
            self.numbers.leave(run, |count, run| {
                deliver(outside, out, |out| {
                    out.dropped_by_part(run, reason);
                    if let Some(order) = order.as_mut() {
                        order.give_up(run.at_ns, count, u64::from(run.count), out);
                    }
                });
            });
        }
        result
    }

    /// Takes the records of a leg, with segments as the bearer knows them; none of these has left a leg yet.
    fn note_blocks(&mut self, place: usize) {
        let Some(log) = &mut self.log else {
            return;
        };
        for block in self.legs[place].radio.take_blocks() {
            let contents = block.contents.iter();
            let contents = contents.flat_map(|run| self.numbers.known(*run)).collect();
            log.push(BlockRecord {
                number: 2 * block.number + u64::from(place == FALLBACK),
                contents,
                ..block
            });
        }
    }

    /// Gives waiting segments to the legs that have room at `at_ns`.
    fn feed(&mut self, at_ns: u64, out: &mut Outlet<'_>) {
        self.look_ns = NEVER;
        if self.queue.head_bytes().is_some() {
            let paths = self.paths(at_ns);
            let mut rooms = [PRIMARY, FALLBACK].map(|place| self.room(place, at_ns));
            while let Some(&place) = paths.iter().find(|&&place| rooms[place] > 0)
                && let Some(run) = self.queue.dequeue(at_ns, out)
            {
                self.outside.count(&run);
                let overhead_bytes = u64::from(run.count) * u64::from(self.config.overhead_bytes);
                rooms[place] = rooms[place].saturating_sub(run.bytes() + overhead_bytes);
                let run = self.numbers.enter(run);
                self.with_leg(place, out, |leg, out| leg.receive(at_ns, run, out));
            }
        }
        if self.queue.head_bytes().is_some() {
            let looks = [PRIMARY, FALLBACK].map(|place| self.opens_ns(place, at_ns));
            self.look_ns = looks.into_iter().min().unwrap_or(NEVER);
        }
        let mut waiting = self.queue.backlog();
        for leg in &self.legs {
            waiting += leg.radio.queue.backlog();
        }
        out.queue_level(at_ns, waiting);
    }

    /// The legs that may carry new data at `at_ns`, first the one to use first (TS 38.323, clause 5.2.1).
    fn paths(&mut self, at_ns: u64) -> &'static [usize] {
        let leg = &mut self.legs[PRIMARY];
        let gone = leg.radio.air.at(at_ns).state == State::Fallback;
        let legs = self.legs.iter();
        let in_legs: u64 = legs.map(|leg| leg.radio.waiting_bytes(at_ns)).sum();
        let volume_bytes = self.queue.backlog().bytes + in_legs;
        let threshold_bytes = self.config.threshold_bytes;
        let both = threshold_bytes.is_some_and(|threshold_bytes| volume_bytes >= threshold_bytes);
        match (gone || at_ns < self.legs[PRIMARY].failed_until_ns, both) {
            (false, false) => &[PRIMARY],
            (false, true) => &[PRIMARY, FALLBACK],
            (true, false) => &[FALLBACK],
            (true, true) => &[FALLBACK, PRIMARY],
        }
    }

    /// Bytes that a leg takes at `at_ns`.
    fn room(&mut self, place: usize, at_ns: u64) -> u64 {
        let leg = &mut self.legs[place];
        if at_ns < leg.failed_until_ns {
            return 0;
        }
        leg.radio.room(at_ns, self.config.target_ns)
    }

    /// When a leg that has no rate at `at_ns` may have one.
    fn opens_ns(&mut self, place: usize, at_ns: u64) -> u64 {
        let leg = &mut self.legs[place];
        let now = leg.radio.air.at(at_ns);
        if at_ns < leg.failed_until_ns {
            leg.failed_until_ns
        } else if now.rate_bps == 0 {
            now.until_ns
        } else {
            NEVER
        }
    }

    /// The rate at which the buffer is emptied at `at_ns`.
    fn rate_bps(&mut self, at_ns: u64) -> u64 {
        let paths = self.paths(at_ns);
        let rates = (paths.iter()).map(|&place| self.legs[place].radio.air.at(at_ns).rate_bps);
        rates.sum()
    }

    /// The pattern has ended: stops the link.
    fn finish(&mut self, at_ns: u64, out: &mut Outlet<'_>) {
        self.ended = true;
        self.run_legs(at_ns, out);
        self.queue.clear(at_ns, Reason::Ended, out);
        if let Some(order) = &mut self.order {
            deliver(&mut self.outside, out, |out| {
                for run in order.take_all() {
                    out.drop(Run { at_ns, ..run }, Reason::Ended);
                }
            });
        }
    }
}

impl Stage for SplitBearer {
    fn accept(&mut self, run: Run, out: &mut Outlet<'_>) {
        let at_ns = run.at_ns;
        self.advance(at_ns, out);
        if self.end_ns <= at_ns {
            self.ended = true;
            return out.drop(run, Reason::Ended);
        }
        if self.empty() && self.lost_ns <= at_ns {
            self.find_loss(at_ns + 1);
        }
        if self.queue.wants_rate() {
            let rate_bps = self.rate_bps(at_ns);
            self.queue.service_rate(rate_bps);
        }
        if let Some(connection) = &self.connection {
            let ready_ns = connection.wake(at_ns, self.config.direction);
            if ready_ns > at_ns {
                let legs = self.legs.iter_mut();
                legs.for_each(|leg| leg.radio.sleep(at_ns, ready_ns));
            }
        }
        self.queue.enqueue(run, out);
        self.feed(at_ns, out);
    }

    fn poll(&mut self, now_ns: u64, out: &mut Outlet<'_>) {
        self.advance(now_ns, out);
    }

    fn next_event_ns(&self) -> Option<u64> {
        self.next().map(|(at_ns, _)| at_ns)
    }

    fn backlog(&self) -> Backlog {
        let mut backlog = self.queue.backlog();
        backlog += self.outside;
        backlog
    }

    /// A rate applies to the carrier; the fallback carrier keeps its rate of that moment.
    fn apply(&mut self, now_ns: u64, change: &Change) -> bool {
        let (primary, fallback) = match change {
            Change::RateBps(_) => {
                let now = self.legs[FALLBACK].radio.air.at(now_ns);
                (change.clone(), Change::RateBps(now.rate_bps))
            }
            Change::Pattern(pattern) => {
                let Some(fallback) = pattern.fallback_leg() else {
                    return false;
                };
                let primary = Change::Pattern(Arc::new(pattern.primary_leg()));
                (primary, Change::Pattern(Arc::new(fallback)))
            }
            Change::Play(playback) => {
                let Some(fallback) = playback.pattern.fallback_leg() else {
                    return false;
                };
                let leg = |pattern| {
                    Change::Play(Playback {
                        pattern: Arc::new(pattern),
                        ..playback.clone()
                    })
                };
                (leg(playback.pattern.primary_leg()), leg(fallback))
            }
            Change::DelayNs(_) | Change::Loss(_) | Change::Handover { .. } => return false,
        };
        self.legs[PRIMARY].radio.apply(now_ns, &primary);
        self.legs[FALLBACK].radio.apply(now_ns, &fallback);
        self.watch(now_ns);
        self.look_ns = now_ns;
        true
    }

    fn takes(&self) -> &'static [&'static str] {
        &["rate", "pattern"]
    }

    /// The conditions of the carrier.
    fn conditions(&self, now_ns: u64) -> Conditions {
        self.legs[PRIMARY].radio.conditions(now_ns)
    }

    fn log_blocks(&mut self) -> bool {
        Self::log_blocks(self);
        true
    }

    fn counts_air(&self) -> bool {
        true
    }

    fn take_blocks(&mut self) -> Vec<BlockRecord> {
        Self::take_blocks(self)
    }
}
