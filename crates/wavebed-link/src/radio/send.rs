//! The choice of the next slot and of its block.

use super::Radio;
use super::air::{Now, Sinr};
use super::block::{Block, Chunk, Decoder, Errors, Part, Phase, Resource, Share};
use super::power::Power;
use super::settings::{Acknowledged, Aggregation, Entity, Rlc, Turns};
use super::slots::{Claim, Found, Needs, Plan, Scheduler};
use crate::pattern::State;
use crate::run::{Backlog, BlockRecord, Run, Slot};
use crate::stage::Outlet;

/// The random streams of feedback, beside the streams of decoding.
const FEEDBACK: u64 = 1 << 40;

/// The plan that begins first; of two that begin together, `one`.
fn earlier(one: Option<Plan>, other: Option<Plan>) -> Option<Plan> {
    match (one, other) {
        (Some(one), Some(other)) if other.start_ns() < one.start_ns() => Some(other),
        (None, other) => other,
        (one, _) => one,
    }
}

/// The rate of `carrier`: all carriers have equal parts, but a fall-back has one carrier.
pub(super) fn rate_of(aggregation: Option<Aggregation>, now: Now, carrier: u32) -> u64 {
    match aggregation {
        Some(aggregation) if now.state != State::Fallback => {
            aggregation.part(now.rate_bps, carrier)
        }
        _ => now.rate_bps,
    }
}

impl Radio {
    /// Whether new data or RLC retransmissions wait at `at_ns`.
    pub(super) fn has_data(&self, at_ns: u64) -> bool {
        let again = self.resend.front();
        !self.pending.is_empty()
            || self.queue.head_bytes().is_some()
            || again.is_some_and(|chunk| chunk.ready_ns <= at_ns)
    }

    /// Bytes on air of all data that waits at `at_ns`.
    pub(super) fn waiting_bytes(&self, at_ns: u64) -> u64 {
        let again = self.resend.iter();
        let chunks = again
            .take_while(|chunk| chunk.ready_ns <= at_ns)
            .chain(&self.pending);
        let queue = self.queue.backlog();
        chunks.map(|chunk| chunk.bytes).sum::<u64>()
            + queue.bytes
            + queue.segments * u64::from(self.config.overhead_bytes)
    }

    /// Chooses the next slot at `now_ns`: the first one; of several that begin together, the first carrier's.
    pub(super) fn make_plan(&mut self, now_ns: u64) {
        let again = self.plan_again(0, now_ns);
        let new = self.plan_new(now_ns);
        self.plan = earlier(again, new);
        if self.secondary.is_some() {
            self.plan = earlier(self.plan, self.plan_secondary(now_ns));
        }
        if let Some(plan) = &mut self.plan {
            plan.at_ns = plan.at_ns.max(now_ns);
        }
    }

    fn plan_again(&mut self, carrier: u32, now_ns: u64) -> Option<Plan> {
        let entity = &self.entities[carrier as usize];
        let (from_ns, place) = entity.again()?;
        let from_ns = from_ns.max(entity.free_ns).max(now_ns);
        let needs = Needs::Symbols(entity.blocks[place].symbols);
        let found = self.config.carriers.find(&mut self.air, from_ns, needs);
        self.plan_of(found.on(carrier), Some(place))
    }

    /// The first slot of a secondary carrier.
    fn plan_secondary(&mut self, now_ns: u64) -> Option<Plan> {
        let active = self.secondary.as_ref()?.active();
        if active.end <= now_ns.max(active.start) {
            return None;
        }
        let from_ns = active.start.max(now_ns);
        let new = self.plan_new_secondary(from_ns, now_ns);
        let carriers = 1..self.config.aggregation?.carriers;
        let again = carriers.filter_map(|carrier| self.plan_again(carrier, from_ns));
        let plan = again.chain(new).min_by_key(Plan::order)?;
        active.contains(&plan.start_ns()).then_some(plan)
    }

    /// The first slot of a secondary carrier for new data, from `from_ns` on.
    fn plan_new_secondary(&mut self, from_ns: u64, now_ns: u64) -> Option<Plan> {
        if !self.has_data(now_ns) {
            return None;
        }
        let slots = &self.config.carriers.primary;
        let there_ns = if self.pending.is_empty() {
            now_ns.max(self.asleep_ns + 1)
        } else {
            now_ns
        };
        let from_ns = from_ns.max(there_ns.saturating_add(slots.prepare_ns));
        let free_ns = |entity: &Entity| Some(entity.free_ns.max(entity.process_free_ns(slots)?));
        let all = (1..).zip(&self.entities[1..]);
        let all = all.filter_map(|(carrier, entity)| Some((free_ns(entity)?, carrier)));
        let first_ns = all.clone().map(|(free_ns, _)| free_ns).min()?;
        let found = self
            .config
            .carriers
            .find(&mut self.air, first_ns.max(from_ns), Needs::Rate);
        let Found::Slot(slot) = found else {
            return None;
        };
        let carrier = all
            .filter(|&(free_ns, _)| free_ns <= slot.start_ns)
            .map(|(_, carrier)| carrier)
            .min()?;
        self.plan_of(found.on(carrier), None)
    }

    fn plan_of(&self, found: Found, again: Option<usize>) -> Option<Plan> {
        let (at_ns, slot) = match found {
            Found::Slot(slot) => {
                let prepare_ns = self.config.carriers.slots(slot).prepare_ns;
                (slot.start_ns.saturating_sub(prepare_ns), Some(slot))
            }
            Found::LookAgain(at_ns) => (at_ns, None),
            Found::Never => return None,
        };
        Some(Plan { at_ns, slot, again })
    }

    fn plan_new(&mut self, now_ns: u64) -> Option<Plan> {
        if !self.has_data(now_ns) {
            // RLC retransmissions are not known before.
            let at_ns = self.resend.front()?.ready_ns;
            return self.plan_of(Found::LookAgain(at_ns), None);
        }
        let (slots, _) = self.config.carriers.of(self.air.at(now_ns).state);
        let primary = &self.entities[0];
        let mut from_ns = primary
            .free_ns
            .max(primary.process_free_ns(slots)?)
            .max(now_ns);
        let mut there_ns = now_ns;
        if self.pending.is_empty() {
            // Data that arrives at the instant when a block is built is too late for it.
            there_ns = there_ns.max(self.asleep_ns + 1);
            from_ns = from_ns.max(there_ns.saturating_add(slots.prepare_ns));
        }
        if let Some(scheduler) = &mut self.scheduler {
            let granted_ns = scheduler.earliest_ns(there_ns, from_ns, slots);
            if granted_ns > from_ns {
                self.granted_ns = granted_ns;
            }
            from_ns = granted_ns;
        }
        let found = self
            .config
            .carriers
            .find(&mut self.air, from_ns, Needs::Rate);
        self.plan_of(found, None)
    }

    /// The slot that it planned.
    pub(super) fn planned(&self) -> Option<Slot> {
        self.plan?.slot
    }

    /// Slots of this direction before `slot`.
    pub(super) fn slots_before(&self, slot: Slot) -> u64 {
        self.config.carriers.slots(slot).own_before(slot.index)
    }

    /// What it asks of `slot`, which it planned.
    pub(super) fn claim(&mut self, slot: Slot) -> Claim {
        let now = self.air.at(slot.start_ns);
        let blocks = &self.entities[slot.carrier as usize].blocks;
        let again = self.plan.and_then(|plan| plan.again);
        Claim {
            slot,
            station: now.cell,
            again_since_ns: again.map(|place| blocks[place].first.start_ns),
            rate_bps: rate_of(self.config.aggregation, now, slot.carrier),
        }
    }

    /// Parts of `slot`, which it planned and which has `units` of them, that it can use, and the bytes of the whole slot.
    pub(super) fn need(&mut self, slot: Slot, units: u32) -> (u32, u64) {
        let Some(Plan { at_ns, again, .. }) = self.plan else {
            return (1, 1);
        };
        let now = self.air.at(slot.start_ns);
        let rate_bps = rate_of(self.config.aggregation, now, slot.carrier);
        let slots = self.config.carriers.slots(slot);
        let index = slots.index_in_pattern(slot, &self.clock);
        let capacity = slots.capacity_bytes(index, rate_bps).max(1);
        let need = if let Some(place) = again {
            let block = &self.entities[slot.carrier as usize].blocks[place];
            block.resource.units(slots.own(index))
        } else {
            let mut bytes = self.waiting_bytes(at_ns);
            if let Some(scheduler) = &mut self.scheduler {
                let slots = self.config.carriers.slots(slot);
                bytes = bytes.min(scheduler.granted(slot, slots));
            }
            let whole = Share {
                given: units,
                all: units,
            };
            if let Some((power, sinr)) = self.power(slot, now) {
                power.share(whole, bytes, capacity, rate_bps, sinr).given
            } else {
                let need = bytes.saturating_mul(units.into()).div_ceil(capacity);
                u32::try_from(need).unwrap_or(u32::MAX)
            }
        };
        (need.clamp(1, units), capacity)
    }

    /// Its power control, and the SINR of the whole slot: what decides about a part of it.
    fn power(&self, slot: Slot, now: Now) -> Option<(Power, Sinr)> {
        let power = self.config.power.filter(|_| !slot.fallback)?;
        now.sinr.map(|sinr| (power, sinr))
    }

    /// Others have the slot that it planned: plans the next one.
    pub(super) fn pass_slot(&mut self, now_ns: u64, most_given: Option<u32>) {
        let Some(Plan {
            slot: Some(slot),
            again,
            ..
        }) = self.plan.take()
        else {
            return;
        };
        if again.is_none() {
            let device = self.log.as_ref().and(most_given);
            self.turns.missed(slot.start_ns, device);
        }
        let slots = self.config.carriers.slots(slot);
        let entity = &mut self.entities[slot.carrier as usize];
        entity.free_ns = slot.start_ns + slots.slot_ns;
        let waits = again.is_none() && self.secondary.is_none() && entity.again().is_none();
        if waits && self.scheduler.as_ref().is_none_or(Scheduler::has_credit) {
            // Nothing else has changed: as `make_plan` finds, only sooner.
            let index = slots.next_own(slot.index + 1);
            let start_ns = index * slots.slot_ns;
            if start_ns < self.air.at(slot.start_ns).until_ns {
                self.plan = Some(Plan {
                    at_ns: start_ns.saturating_sub(slots.prepare_ns).max(now_ns),
                    slot: Some(Slot {
                        index,
                        start_ns,
                        ..slot
                    }),
                    again: None,
                });
                return;
            }
        }
        self.make_plan(now_ns);
    }

    /// Uses this share of the slot that was planned. Returns the bytes of new data that were sent.
    pub(super) fn use_slot(&mut self, share: Share, out: &mut Outlet<'_>) -> u64 {
        let Some(Plan { at_ns, slot, again }) = self.plan.take() else {
            return 0;
        };
        let Some(slot) = slot else {
            return 0;
        };
        let slots = self.config.carriers.slots(slot);
        let entity = &mut self.entities[slot.carrier as usize];
        entity.free_ns = slot.start_ns + slots.slot_ns;
        let place = if let Some(place) = again {
            entity.occupy(slot, slots);
            Some(place)
        } else {
            let now = self.air.at(slot.start_ns);
            let rate_bps = rate_of(self.config.aggregation, now, slot.carrier);
            if entity.others_take(slot, slots, rate_bps) {
                self.turns.missed(slot.start_ns, None);
                None
            } else {
                self.make_block(at_ns, slot, share, out)
            }
        };
        let Some(place) = place else {
            return 0;
        };
        self.transmit(place, slot, share, at_ns, out);
        if again.is_none() {
            self.turns = Turns::default();
        }
        self.aggregate(at_ns, slot, again.is_none());
        if let Some(connection) = &self.connection {
            connection.active(slot.start_ns);
        }
        let block = &self.entities[slot.carrier as usize].blocks[place];
        if again.is_none() { block.bytes } else { 0 }
    }

    /// A block was built at `at_ns` for `slot`. If data is left, a new one on the primary carrier activates the others.
    fn aggregate(&mut self, at_ns: u64, slot: Slot, new: bool) {
        let primary = new && slot.carrier == 0 && self.secondary.is_some();
        let waits = primary && self.waiting_bytes(at_ns) > 0;
        let Some(secondary) = &mut self.secondary else {
            return;
        };
        if slot.carrier > 0 {
            secondary.sent(slot.start_ns);
        } else if waits && self.air.at(slot.start_ns).state != State::Fallback {
            secondary.command(at_ns, slot.start_ns, &mut self.air);
        }
    }

    /// Bits per second at `at_ns` of the carriers that are active.
    pub(super) fn service_bps(&mut self, at_ns: u64) -> u64 {
        let now = self.air.at(at_ns);
        if self.has_secondary(at_ns) {
            now.rate_bps
        } else {
            rate_of(self.config.aggregation, now, 0)
        }
    }

    /// Segments that the window of RLC lets through.
    fn window_left(&self) -> u64 {
        let Rlc::Acknowledged(Acknowledged {
            window: Some(window),
            ..
        }) = self.config.rlc
        else {
            return u64::MAX;
        };
        let blocks = self.entities.iter().flat_map(|entity| &entity.blocks);
        let on_air = blocks.flat_map(|block| &block.chunks);
        let chunks = on_air.chain(&self.resend).chain(&self.pending);
        let oldest = chunks.map(|chunk| chunk.count).min();
        window.saturating_sub(self.next_count - oldest.unwrap_or(self.next_count))
    }

    /// Builds a block for `slot` from waiting data; `None` if the queue gave none.
    fn make_block(
        &mut self,
        at_ns: u64,
        slot: Slot,
        share: Share,
        out: &mut Outlet<'_>,
    ) -> Option<usize> {
        let now = self.air.at(slot.start_ns);
        let power = self.power(slot, now);
        let entity = &mut self.entities[slot.carrier as usize];
        entity.blocks.retain(
            |block| !matches!(block.phase, Phase::Done { from_ns } if from_ns <= slot.start_ns),
        );
        let rate_bps = rate_of(self.config.aggregation, now, slot.carrier);
        let slots = self.config.carriers.slots(slot);
        let index = slots.index_in_pattern(slot, &self.clock);
        let capacity = slots.capacity_bytes(index, rate_bps);
        let mut room = match &power {
            None => share.of(capacity),
            Some((power, sinr)) => power.bytes(share, capacity, rate_bps, *sinr),
        };
        if let Some(scheduler) = &mut self.scheduler {
            room = room.min(scheduler.granted(slot, slots));
        }
        let process = entity.free_process(index, slots);
        let mut block = Block {
            number: self.blocks_built,
            process,
            first: slot,
            attempts: 0,
            errors: Errors::Rate(now.bler),
            bytes: 0,
            symbols: 1,
            resource: Resource::default(),
            share,
            chunks: Vec::new(),
            received: false,
            noticed_ns: None,
            phase: Phase::Again { from_ns: 0 },
        };
        self.fill(&mut block, room, at_ns, out);
        if block.chunks.is_empty() {
            return None;
        }
        self.blocks_built += 1;
        let slots = self.config.carriers.slots(slot);
        block.symbols = slots.symbols_of(block.bytes, index, rate_bps);
        let mut units = share.units_of(block.bytes, capacity);
        let mut sinr = now.sinr;
        if let Some((power, whole)) = power {
            let most = power.bytes(share, capacity, rate_bps, whole);
            let Share { given, .. } = power.share(share, most, capacity, rate_bps, whole);
            units = Share { given, all: given }.units_of(block.bytes, most);
            sinr = Some(power.sinr(share, rate_bps, whole));
        }
        block.resource = Resource::of(units, slots.own(index));
        if let Some(sinr) = sinr {
            let full_bytes = slots.full_bytes(rate_bps);
            let decoder = Decoder::new(slots.code, sinr.need_db, block.bytes, full_bytes);
            block.errors = Errors::Sinr(decoder);
        }
        let backlog = self.waiting_bytes(at_ns);
        if let Some(scheduler) = &mut self.scheduler {
            let slots = self.config.carriers.slots(slot);
            scheduler.sent(slot, slots, block.bytes, backlog);
        }
        out.queue_level(at_ns, self.queue.backlog());
        let blocks = &mut self.entities[slot.carrier as usize].blocks;
        blocks.push(block);
        Some(blocks.len() - 1)
    }

    /// Fills up to `room` bytes of `block` with the data at `at_ns`.
    fn fill(&mut self, block: &mut Block, mut room: u64, at_ns: u64, out: &mut Outlet<'_>) {
        let overhead = self.config.overhead_bytes;
        let mut window_left = self.window_left();
        while room > 0 {
            let again = self
                .resend
                .front()
                .is_some_and(|chunk| chunk.ready_ns <= at_ns);
            if !again && self.pending.is_empty() {
                if window_left == 0 {
                    break;
                }
                let Some(run) = self.queue.dequeue(at_ns, out) else {
                    break;
                };
                window_left = window_left.saturating_sub(run.count.into());
                out.waited(at_ns, &run);
                self.take_off(run);
            }
            let source = if again {
                &mut self.resend
            } else {
                &mut self.pending
            };
            let Some(chunk) = self.cuts.take(source, room, overhead) else {
                break;
            };
            room -= chunk.bytes;
            block.bytes += chunk.bytes;
            if !block
                .chunks
                .last_mut()
                .is_some_and(|last| last.extend(&chunk))
            {
                block.chunks.push(chunk);
            }
        }
    }

    /// Numbers `run`, which left the queue, and puts it first in the send order.
    pub(super) fn take_off(&mut self, run: Run) {
        let segments = u64::from(run.count);
        self.on_air += Backlog {
            segments,
            bytes: run.bytes(),
        };
        self.pending.push_back(Chunk {
            count: self.next_count,
            bytes: run.bytes() + segments * u64::from(self.config.overhead_bytes),
            ready_ns: 0,
            unnoticed: None,
            retries: 0,
            part: Part::Whole(run),
        });
        self.next_count += segments;
    }

    /// Sends the block in `slot`. Its random numbers depend on seed, carrier, process and slot only: the slot of the
    /// pattern's time where a pattern is played by a clock of its own.
    fn transmit(
        &mut self,
        place: usize,
        slot: Slot,
        share: Share,
        built_ns: u64,
        out: &mut Outlet<'_>,
    ) {
        let mut now = self.air.at(slot.start_ns);
        if let Some((power, sinr)) = self.power(slot, now) {
            let block = &self.entities[slot.carrier as usize].blocks[place];
            now.sinr = Some(power.sinr(block.share, now.rate_bps, sinr));
        }
        let slots = self.config.carriers.slots(slot);
        let block = &mut self.entities[slot.carrier as usize].blocks[place];
        block.attempts += 1;
        let harq = slots.harq.as_ref();
        let p = match (&mut block.errors, now.sinr) {
            _ if now.rate_bps == 0 => 1.0,
            (Errors::Sinr(decoder), Some(sinr)) => decoder.receive(block.attempts, sinr.sinr_db),
            // The channel was changed, and has no SINR any more.
            (Errors::Sinr(_), None) => now.bler,
            (Errors::Rate(bler), _) => {
                harq.map_or(*bler, |harq| harq.error_probability(*bler, block.attempts))
            }
        };
        let key = u64::from(slot.carrier) << 32
            | u64::from(block.process) << 1
            | u64::from(slot.fallback);
        // By the time in the pattern, so that a position has the same errors whenever it is played.
        let index = slots.index_in_pattern(slot, &self.clock);
        let failed = self.random.process(key).unit(index) < p;
        let misheard = harq.is_some_and(|harq| {
            let loss = if failed {
                harq.nack_loss
            } else {
                harq.ack_loss
            };
            loss > 0.0 && self.random.process(FEEDBACK | key).unit(index) < loss
        });
        let at_ns = slot.start_ns + slots.slot_ns + slots.decode_ns;
        let then = harq.map_or(slot.index + 1, |harq| {
            slots.retransmission(slot.index, harq)
        });
        block.phase = Phase::Decoding {
            at_ns,
            failed,
            misheard,
            then_ns: then * slots.slot_ns,
        };
        out.block(slot.start_ns, failed);
        let used = Share {
            given: block.resource.units(slots.own(index)).min(share.given),
            ..share
        };
        out.air(slot.start_ns, slots.slot_ns, used.of(slots.slot_ns));
        if self.log.is_some() {
            self.record(place, slot, built_ns, now);
        }
    }

    /// Keeps the record of a transmission that has begun.
    #[cold]
    fn record(&mut self, place: usize, slot: Slot, built_ns: u64, now: Now) {
        let block = &self.entities[slot.carrier as usize].blocks[place];
        let Phase::Decoding {
            at_ns,
            failed,
            misheard,
            ..
        } = block.phase
        else {
            return;
        };
        let segments = |chunk: &Chunk| match chunk.part {
            Part::Whole(run) => Some(run),
            Part::Piece => self.cuts.segment(chunk.count),
        };
        let first = block.attempts == 1;
        let chunks = first.then(|| block.chunks.iter().filter_map(segments));
        let record = BlockRecord {
            number: block.number,
            slot,
            process: block.process,
            attempt: block.attempts,
            bytes: block.bytes,
            failed,
            misheard,
            built_ns,
            decoded_ns: at_ns,
            awake_ns: self.asleep_ns,
            granted_ns: self.granted_ns.min(slot.start_ns),
            turn_ns: if first { self.turns.first_ns } else { 0 },
            turn_last_ns: if first { self.turns.last_ns } else { 0 },
            turn_of: self.turns.device().filter(|_| first),
            rate_bps: now.rate_bps,
            sinr_db: now.sinr.map(|sinr| (sinr.sinr_db, sinr.need_db)),
            contents: chunks.into_iter().flatten().collect(),
        };
        if let Some(log) = &mut self.log {
            log.push(record);
        }
    }
}
