//! The radio stage: slots, duplex frames, grants, HARQ, RLC, in-order delivery, DRX, RRC release and handover of one
//! direction of an NR or LTE link. `docs/models/radio.md` describes it.

mod air;
mod background;
mod block;
mod cell;
mod connection;
mod power;
mod scheduler;
mod send;
mod settings;
mod slots;
mod split;
mod traffic;

use std::collections::VecDeque;
use std::sync::Arc;

pub use crate::run::{BlockRecord, Slot};
pub use crate::stage::Handover;
pub use air::{Air, Now, Sinr};
pub use background::{ModelledUser, UserReport, UserRow};
pub use block::{Code, Decoder};
pub use cell::{AirReport, AirRow, Cell};
pub use connection::{Connection, Drx, Rrc};
pub use power::Power;
pub use scheduler::{Policy, SchedulerConfig, ServiceConfig, SliceConfig};
pub use settings::{
    Acknowledged, Aggregation, Configured, Direction, GrantLosses, Grants, Harq, Load, Rlc, Slots,
};
pub use slots::{Carriers, Found, Needs};
pub use split::{SplitBearer, SplitConfig};
pub use traffic::{Background, EndedFile, Fared, TrafficConfig};

use crate::counters::Reason;
use crate::pattern::Clock;
use crate::queue::Queue;
use crate::random_stream::RandomStream;
use crate::run::{Backlog, NEVER, Run};
use crate::stage::{Change, Conditions, Outlet, Stage};
use block::{Block, Chunk, Cuts, Order, Part, Phase, Share};
use settings::{Entity, Others, Secondary, Turns};
use slots::{Plan, Scheduler};

/// Settings of a [`Radio`].
#[derive(Clone, Debug)]
pub struct RadioConfig {
    /// Its direction.
    pub direction: Direction,
    /// Its slots.
    pub carriers: Carriers,
    /// Bytes that the lower layers add to each segment.
    pub overhead_bytes: u32,
    /// How long a segment may wait in the buffer (discardTimer of PDCP); `None`: without limit.
    pub discard_ns: Option<u64>,
    /// Handling of blocks that HARQ gave up on.
    pub rlc: Rlc,
    /// In-order delivery: its timer; `Some(None)`: wait until RLC gives up; `None`: no in-order delivery.
    pub reordering: Option<Option<u64>>,
    /// Uplink grants; `None`: each slot may be used at once.
    pub grants: Option<Grants>,
    /// Handling of the buffer in a handover.
    pub handover: Handover,
    /// Demand of other users; `None`: each slot is this user's.
    pub load: Option<Load>,
    /// Component carriers; `None`: one.
    pub aggregation: Option<Aggregation>,
    /// Power control of an uplink; `None`: each part of a slot has the SINR of the whole.
    pub power: Option<Power>,
}

/// One direction of a radio link.
///
/// Each slot of a carrier carries at most one block: a HARQ retransmission, else an RLC retransmission, else new
/// data. The segments of a block leave together when it has been decoded.
pub struct Radio {
    config: RadioConfig,
    air: Air,
    queue: Box<dyn Queue>,
    random: RandomStream,
    connection: Option<Arc<Connection>>,
    scheduler: Option<Scheduler>,
    /// One for each carrier, the primary one first.
    entities: Vec<Entity>,
    secondary: Option<Secondary>,
    order: Option<Order>,
    cuts: Cuts,
    /// Data that RLC sends again.
    resend: VecDeque<Chunk>,
    /// The rest of a segment after its first piece was sent.
    pending: VecDeque<Chunk>,
    next_count: u64,
    /// Segments that left the buffer and have neither been delivered nor dropped.
    on_air: Backlog,
    /// Slots whose blocks were built at or before this time were too early for the waiting data.
    asleep_ns: u64,
    /// The begin of the first slot that the latest awaited grant is valid for.
    granted_ns: u64,
    turns: Turns,
    plan: Option<Plan>,
    handover_ns: u64,
    /// Handling of the buffer in a handover that was ordered.
    ordered: Option<Handover>,
    /// The time that keys the errors of slots.
    clock: Clock,
    end_ns: u64,
    ended: bool,
    blocks_built: u64,
    log: Option<Vec<BlockRecord>>,
}

/// Random streams beside the streams of blocks.
const GRANTS: u64 = 2 << 40;
const OTHERS: u64 = 3 << 40;
const STATUS: u64 = 4 << 40;
/// Status reports that are lost one after another at most.
const MOST_LOST_REPORTS: u64 = 64;

/// The next event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    End,
    Handover,
    Decode,
    Deactivate,
    Reordering,
    Discard,
    Slot,
}

impl Radio {
    /// A radio link that is idle at time 0.
    #[must_use]
    pub fn new(
        config: RadioConfig,
        mut air: Air,
        queue: Box<dyn Queue>,
        connection: Option<Arc<Connection>>,
        random: RandomStream,
    ) -> Self {
        let handover_ns = air.next_handover(0).unwrap_or(NEVER);
        let end_ns = air.end_ns().unwrap_or(NEVER);
        Self {
            scheduler: (config.grants).map(|grants| Scheduler::new(grants, random.process(GRANTS))),
            entities: entities(&config, random),
            secondary: (config.aggregation).map(|settings| Secondary::new(settings, &mut air)),
            order: config.reordering.map(Order::new),
            config,
            air,
            queue,
            random,
            connection,
            cuts: Cuts::default(),
            resend: VecDeque::new(),
            pending: VecDeque::new(),
            next_count: 0,
            on_air: Backlog::default(),
            asleep_ns: 0,
            granted_ns: 0,
            turns: Turns::default(),
            plan: None,
            handover_ns,
            ordered: None,
            clock: Clock::new(0, 0),
            end_ns,
            ended: false,
            blocks_built: 0,
            log: None,
        }
    }

    /// Whether its slots begin and are used as the slots of `other`.
    pub(crate) fn has_slots_of(&self, other: &Self) -> bool {
        let same = |one: &Slots, other: &Slots| {
            (one.slot_ns, one.prepare_ns) == (other.slot_ns, other.prepare_ns)
                && one.own_symbols == other.own_symbols
        };
        let (one, other) = (&self.config.carriers, &other.config.carriers);
        let fallbacks = one.fallback.as_ref().zip(other.fallback.as_ref());
        same(&one.primary, &other.primary) && fallbacks.is_none_or(|(one, other)| same(one, other))
    }

    /// Keeps a record of every transmission from now on.
    pub fn log_blocks(&mut self) {
        self.log.get_or_insert_default();
    }

    /// Takes the records.
    pub fn take_blocks(&mut self) -> Vec<BlockRecord> {
        self.log.as_mut().map(std::mem::take).unwrap_or_default()
    }

    fn empty(&self) -> bool {
        self.on_air.segments == 0 && self.queue.head_bytes().is_none()
    }

    fn next(&self) -> Option<(u64, Event)> {
        let decode = self.entities.iter().filter_map(Entity::decoded_ns).min();
        let deactivate = self.secondary.as_ref().filter(|_| {
            let mut secondary = self.entities[1..].iter();
            secondary.any(|entity| entity.again().is_some())
        });
        let reordering = self.order.as_ref().and_then(Order::deadline_ns);
        let head_ns = self.config.discard_ns.and(self.queue.head_at_ns());
        let discard = head_ns.zip(self.config.discard_ns);
        // While empty, handovers and the end are handled when data arrives.
        let (handover_ns, end_ns) = if self.empty() {
            (NEVER, NEVER)
        } else {
            (self.handover_ns, self.end_ns)
        };
        [
            (!self.ended).then_some((end_ns, Event::End)),
            Some((handover_ns, Event::Handover)),
            decode.map(|at_ns| (at_ns, Event::Decode)),
            deactivate.map(|secondary| (secondary.active().end, Event::Deactivate)),
            reordering.map(|at_ns| (at_ns, Event::Reordering)),
            discard.map(|(head_ns, time_ns)| (head_ns.saturating_add(time_ns), Event::Discard)),
            self.plan.map(|plan| (plan.at_ns, Event::Slot)),
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
            self.handle(at_ns, event, out);
        }
    }

    /// Handles the next event, which is due at `at_ns`; a slot is this radio's alone.
    fn handle(&mut self, at_ns: u64, event: Event, out: &mut Outlet<'_>) {
        match event {
            Event::End => self.finish(at_ns, out),
            Event::Handover => self.hand_over(at_ns, out),
            Event::Decode => self.decode(at_ns, out),
            Event::Deactivate => self.deactivate(at_ns, out),
            Event::Reordering => {
                if let Some(order) = &mut self.order {
                    deliver(&mut self.on_air, out, |out| order.expire(at_ns, out));
                }
            }
            Event::Discard => self.discard(at_ns, out),
            Event::Slot => {
                self.use_slot(Share::WHOLE, out);
            }
        }
        self.make_plan(at_ns);
    }

    /// Drops segments that have waited too long.
    fn discard(&mut self, at_ns: u64, out: &mut Outlet<'_>) {
        let Some(discard_ns) = self.config.discard_ns else {
            return;
        };
        while let Some(run) = self.queue.expire(at_ns.saturating_sub(discard_ns)) {
            out.drop(Run { at_ns, ..run }, Reason::Discard);
        }
        out.queue_level(at_ns, self.queue.backlog());
    }

    /// Handles the end of decoding of a block: the first of those that end at `at_ns`.
    fn decode(&mut self, at_ns: u64, out: &mut Outlet<'_>) {
        let mut entities = self.entities.iter().enumerate();
        let found = entities.find_map(|(carrier, entity)| Some((carrier, entity.decoded(at_ns)?)));
        let Some((carrier, place)) = found else {
            return;
        };
        let active = carrier == 0 || self.has_secondary(at_ns);
        let block = &mut self.entities[carrier].blocks[place];
        let Phase::Decoding {
            failed,
            misheard,
            then_ns,
            ..
        } = block.phase
        else {
            return;
        };
        let slots = self.config.carriers.slots(block.first);
        let limit = slots.harq.map_or(1, |harq| harq.limit);
        let more = block.attempts < limit && active;
        // A block that was received before is acknowledged again, however it arrives (TS 38.321, 5.3.2.2).
        if !failed || block.received {
            block.received = true;
            block.phase = if misheard && more {
                Phase::Again { from_ns: then_ns }
            } else {
                Phase::Done { from_ns: then_ns }
            };
            let first = block.first.order();
            let chunks = std::mem::take(&mut block.chunks);
            self.show_gaps(first, at_ns);
            for chunk in chunks {
                self.arrive(chunk, at_ns, out);
            }
            return;
        }
        if more && !misheard {
            block.phase = Phase::Again { from_ns: then_ns };
            return;
        }
        let block = self.entities[carrier].blocks.swap_remove(place);
        self.give_up(block, at_ns, out);
    }

    /// Whether the secondary carriers are active at `at_ns`.
    fn has_secondary(&self, at_ns: u64) -> bool {
        let secondary = self.secondary.as_ref();
        secondary.is_some_and(|secondary| secondary.active().contains(&at_ns))
    }

    /// At `at_ns` the receiver has a block that was `first` in the order of slots, and detects the gaps before it.
    fn show_gaps(&mut self, first: (u64, u32), at_ns: u64) {
        let blocks = self
            .entities
            .iter_mut()
            .flat_map(|entity| &mut entity.blocks);
        for other in blocks {
            if !other.chunks.is_empty() && other.first.order() < first {
                other.noticed_ns.get_or_insert(at_ns);
            }
        }
        let Rlc::Acknowledged(timers) = self.config.rlc else {
            return;
        };
        let noticed = |chunk: &Chunk| chunk.unnoticed.is_some_and(|lost| lost < first);
        if !self.resend.iter().any(noticed) {
            return;
        }
        let random = self.random;
        for chunk in self.resend.iter_mut().filter(|chunk| noticed(chunk)) {
            let reported_ns = at_ns
                .saturating_add(timers.reassembly_ns)
                .saturating_add(report_ns(&timers, random, chunk.count, chunk.retries));
            chunk.ready_ns = chunk.ready_ns.min(reported_ns);
            chunk.unnoticed = None;
        }
        self.resend
            .make_contiguous()
            .sort_by_key(|chunk| (chunk.ready_ns, chunk.count));
    }

    /// The receiver has `chunk`.
    fn arrive(&mut self, chunk: Chunk, at_ns: u64, out: &mut Outlet<'_>) {
        let run = match chunk.part {
            Part::Whole(run) => Some(run),
            Part::Piece => self.cuts.arrived(chunk.count),
        };
        let Some(run) = run.map(|run| Run { at_ns, ..run }) else {
            return;
        };
        let order = &mut self.order;
        deliver(&mut self.on_air, out, |out| match order {
            Some(order) => order.receive(chunk.count, run, out),
            None => out.forward(run),
        });
    }

    /// HARQ gives up on `block`.
    fn give_up(&mut self, block: Block, at_ns: u64, out: &mut Outlet<'_>) {
        let Rlc::Acknowledged(timers) = self.config.rlc else {
            for chunk in block.chunks {
                self.lose(chunk, at_ns, Reason::Block, out);
            }
            return;
        };
        let reported_ns = match block.noticed_ns {
            Some(noticed_ns) => noticed_ns.saturating_add(timers.reassembly_ns),
            None => block.first.start_ns.saturating_add(timers.poll_ns),
        };
        let first = block.chunks.first();
        let (count, retries) = first.map_or((0, 0), |chunk| {
            (chunk.count, chunk.retries.saturating_add(1))
        });
        let report_ns = report_ns(&timers, self.random, count, retries);
        let ready_ns = reported_ns.max(at_ns).saturating_add(report_ns);
        let at_limit = |chunk: &Chunk| chunk.retries >= timers.retransmissions;
        if block.chunks.iter().any(at_limit) {
            let restored_ns = at_ns.saturating_add(timers.reestablish_ns);
            self.fail(block, at_ns, restored_ns, out);
            return;
        }
        for chunk in block.chunks {
            let chunk = Chunk {
                ready_ns,
                unnoticed: block.noticed_ns.is_none().then_some(block.first.order()),
                retries: chunk.retries + 1,
                ..chunk
            };
            let place = self
                .resend
                .partition_point(|other| other.ready_ns <= ready_ns);
            self.resend.insert(place, chunk);
        }
    }

    /// `chunk` is lost for good.
    fn lose(&mut self, chunk: Chunk, at_ns: u64, reason: Reason, out: &mut Outlet<'_>) {
        let run = match chunk.part {
            Part::Whole(run) => Some(run),
            Part::Piece => self.cuts.lost(chunk.count),
        };
        let Some(run) = run.map(|run| Run { at_ns, ..run }) else {
            return;
        };
        let order = &mut self.order;
        deliver(&mut self.on_air, out, |out| {
            out.drop(run, reason);
            if let Some(order) = order {
                order.give_up(at_ns, chunk.count, u64::from(run.count), out);
            }
        });
    }

    /// The pattern has ended: stops the link.
    fn finish(&mut self, at_ns: u64, out: &mut Outlet<'_>) {
        self.ended = true;
        let entities = self.entities.iter_mut();
        let blocks: Vec<Block> = entities
            .flat_map(|entity| entity.blocks.drain(..))
            .collect();
        for chunk in blocks.into_iter().flat_map(|block| block.chunks) {
            self.lose(chunk, at_ns, Reason::Ended, out);
        }
        self.clear(at_ns, Reason::Ended, out);
        if let Some(order) = &mut self.order {
            deliver(&mut self.on_air, out, |out| {
                for run in order.take_all() {
                    out.drop(Run { at_ns, ..run }, Reason::Ended);
                }
            });
        }
    }
}

/// The entities of all carriers.
fn entities(config: &RadioConfig, random: RandomStream) -> Vec<Entity> {
    let carriers = config.aggregation.map_or(1, |settings| settings.carriers);
    let of = |carrier: u32| {
        let random = random.process(OTHERS | u64::from(carrier));
        let others = config.load.map(|load| Others::new(load, random));
        Entity {
            others,
            ..Entity::default()
        }
    };
    (0..carriers.max(1)).map(of).collect()
}

/// From the trigger of a status report until the sender has one: each that is lost costs it a poll.
fn report_ns(timers: &Acknowledged, random: RandomStream, count: u64, retries: u8) -> u64 {
    let random = random.process(STATUS | u64::from(retries));
    let lost = (0..MOST_LOST_REPORTS)
        .take_while(|turn| random.unit(count * MOST_LOST_REPORTS + turn) < timers.status_loss)
        .count() as u64;
    let again_ns = timers.poll_ns.max(timers.status_ns).saturating_mul(lost);
    timers.status_ns.saturating_add(again_ns)
}

/// Runs `put`, and subtracts what it forwards or drops from `on_air`.
fn deliver(on_air: &mut Backlog, out: &mut Outlet<'_>, put: impl FnOnce(&mut Outlet<'_>)) {
    let before = out.gone();
    put(out);
    let after = out.gone();
    on_air.segments -= after.segments - before.segments;
    on_air.bytes -= after.bytes - before.bytes;
}

impl Radio {
    /// Takes a run at `at_ns`; `run.at_ns` is since when it waits.
    fn receive(&mut self, at_ns: u64, run: Run, out: &mut Outlet<'_>) {
        self.advance(at_ns, out);
        self.enter(at_ns, run, out);
    }

    /// As [`Radio::receive`], once everything up to `at_ns` was handled.
    fn enter(&mut self, at_ns: u64, run: Run, out: &mut Outlet<'_>) {
        if self.end_ns <= at_ns {
            self.ended = true;
            return out.drop(run, Reason::Ended);
        }
        if self.empty() && self.handover_ns <= at_ns {
            self.handover_ns = self.air.next_handover(at_ns + 1).unwrap_or(NEVER);
            self.ordered = None;
            self.deactivate(at_ns, out);
        }
        if self.queue.wants_rate() {
            let rate_bps = self.service_bps(at_ns);
            self.queue.service_rate(rate_bps);
        }
        let ready_ns = self.connection.as_ref().map_or(at_ns, |connection| {
            connection.wake(at_ns, self.config.direction)
        });
        let idle = !self.has_data(at_ns);
        let sets_off = ready_ns > at_ns || idle;
        if sets_off {
            self.asleep_ns = self.asleep_ns.max(ready_ns);
        }
        if idle {
            self.turns = Turns::default();
            if let Some(scheduler) = &mut self.scheduler {
                scheduler.idle_until(at_ns);
            }
        }
        self.queue.enqueue(run, out);
        out.queue_level(at_ns, self.queue.backlog());
        if sets_off {
            self.make_plan(at_ns);
        }
    }
}

impl Stage for Radio {
    fn accept(&mut self, run: Run, out: &mut Outlet<'_>) {
        self.receive(run.at_ns, run, out);
    }

    fn poll(&mut self, now_ns: u64, out: &mut Outlet<'_>) {
        self.advance(now_ns, out);
    }

    fn next_event_ns(&self) -> Option<u64> {
        self.next().map(|(at_ns, _)| at_ns)
    }

    fn backlog(&self) -> Backlog {
        let mut backlog = self.queue.backlog();
        backlog += self.on_air;
        backlog
    }

    fn apply(&mut self, now_ns: u64, change: &Change) -> bool {
        let air = match change {
            Change::RateBps(rate_bps) => Some(self.air.held(now_ns, *rate_bps)),
            Change::Pattern(pattern) => Air::pattern(
                pattern.clone(),
                self.air.end(),
                0,
                now_ns,
                self.air.fixed_bler(),
            ),
            Change::Play(playback) => {
                self.clock = playback.clock.of_slots();
                Air::play(playback.clone(), self.air.fixed_bler())
            }
            Change::Handover { for_ns, handling } => {
                self.air.hand_over(now_ns, now_ns.saturating_add(*for_ns));
                self.ordered = *handling;
                self.handover_ns = now_ns;
                self.make_plan(now_ns);
                return true;
            }
            Change::DelayNs(_) | Change::Loss(_) => None,
        };
        let Some(mut air) = air else {
            return false;
        };
        air.keep_handover(&self.air);
        self.handover_ns = air.next_handover(now_ns).unwrap_or(NEVER);
        self.end_ns = air.end_ns().unwrap_or(NEVER);
        self.ended = false;
        self.air = air;
        if let Some(secondary) = &mut self.secondary {
            secondary.look_ahead(now_ns, &mut self.air);
        }
        self.make_plan(now_ns);
        true
    }

    fn takes(&self) -> &'static [&'static str] {
        &["rate", "pattern", "handover"]
    }

    fn conditions(&self, now_ns: u64) -> Conditions {
        self.air.conditions(now_ns)
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
