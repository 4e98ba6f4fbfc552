//! The choice of the next slot and of its block.

use super::block::{Block, BlockRecord, Errors, Phase};
use super::contents::{Chunk, Part};
use super::decode::Decoder;
use super::settings::{Acknowledged, Rlc, Slots};
use super::slots::{Found, Needs, Slot};
use super::{NEVER, Radio};
use crate::run::Run;
use crate::stage::{Backlog, Outlet};

/// The random streams of feedback, beside those of decoding.
const FEEDBACK: u64 = 1 << 40;

/// The next slot that will be used.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// When its block is built.
    pub at_ns: u64,
    /// The slot; `None`: none was found, search again.
    slot: Option<Slot>,
    /// The block that is sent again in it; `None`: a new one.
    again: Option<usize>,
}

impl Plan {
    fn start_ns(&self) -> u64 {
        self.slot.map_or(self.at_ns, |slot| slot.start_ns)
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

    /// Chooses the next slot at `now_ns`.
    pub(super) fn make_plan(&mut self, now_ns: u64) {
        let again = self.plan_again(now_ns);
        let new = self.plan_new(now_ns);
        self.plan = match (again, new) {
            (Some(again), Some(new)) if new.start_ns() < again.start_ns() => Some(new),
            (None, new) => new,
            (again, _) => again,
        };
        if let Some(plan) = &mut self.plan {
            plan.at_ns = plan.at_ns.max(now_ns);
        }
    }

    fn plan_again(&mut self, now_ns: u64) -> Option<Plan> {
        let waiting = self.blocks.iter().enumerate().filter_map(|(place, block)| {
            let Phase::Again { from_ns } = block.phase else {
                return None;
            };
            Some((from_ns, block.first.start_ns, place))
        });
        let (from_ns, _, place) = waiting.min()?;
        let from_ns = from_ns.max(self.free_ns).max(now_ns);
        let needs = Needs::Symbols(self.blocks[place].symbols);
        let found = self.config.carriers.find(&mut self.air, from_ns, needs);
        self.plan_of(found, Some(place))
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
        let mut from_ns = self.free_ns.max(self.process_free_ns(slots)?).max(now_ns);
        let mut there_ns = now_ns;
        if self.pending.is_empty() {
            // Data that arrives at the instant when a block is built is too late for it.
            there_ns = there_ns.max(self.asleep_ns + 1);
            from_ns = from_ns.max(there_ns.saturating_add(slots.prepare_ns));
        }
        if let Some(scheduler) = &mut self.scheduler {
            from_ns = scheduler.earliest_ns(there_ns, from_ns, slots);
        }
        let found = self
            .config
            .carriers
            .find(&mut self.air, from_ns, Needs::Rate);
        self.plan_of(found, None)
    }

    /// When a HARQ process of `slots` is free; `None` while unknown.
    fn process_free_ns(&self, slots: &Slots) -> Option<u64> {
        let processes = slots.harq.map_or(NEVER, |harq| u64::from(harq.processes));
        if (self.blocks.len() as u64) < processes {
            return Some(0);
        }
        let free = self.blocks.iter().filter_map(|block| match block.phase {
            Phase::Done { from_ns } => Some(from_ns),
            _ => None,
        });
        free.min()
    }

    /// Uses the slot that was planned.
    pub(super) fn use_slot(&mut self, out: &mut Outlet<'_>) {
        let Some(Plan { at_ns, slot, again }) = self.plan.take() else {
            return;
        };
        let Some(slot) = slot else {
            return;
        };
        let slots = self.config.carriers.slots(slot);
        self.free_ns = slot.start_ns + slots.slot_ns;
        let place = match again {
            Some(place) => {
                self.occupy(slot);
                Some(place)
            }
            None if self.others_take(slot) => None,
            None => self.make_block(at_ns, slot, out),
        };
        if let Some(place) = place {
            self.transmit(place, slot, out);
            if let Some(connection) = &self.connection {
                connection.active(slot.start_ns);
            }
        }
    }

    /// Whether another user gets `slot`.
    fn others_take(&mut self, slot: Slot) -> bool {
        let period_ns = self.config.carriers.slots(slot).period_ns();
        let rate_bps = self.air.at(slot.start_ns).rate_bps;
        let others = self.others.as_mut();
        others.is_some_and(|others| others.take(slot.start_ns, period_ns, rate_bps))
    }

    /// A retransmission takes `slot`.
    fn occupy(&mut self, slot: Slot) {
        let period_ns = self.config.carriers.slots(slot).period_ns();
        if let Some(others) = &mut self.others {
            others.occupy(slot.start_ns, period_ns);
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
        let on_air = self.blocks.iter().flat_map(|block| &block.chunks);
        let chunks = on_air.chain(&self.resend).chain(&self.pending);
        let oldest = chunks.map(|chunk| chunk.count).min();
        window.saturating_sub(self.next_count - oldest.unwrap_or(self.next_count))
    }

    /// Builds a block for `slot` from waiting data; `None` if the queue gave none.
    fn make_block(&mut self, at_ns: u64, slot: Slot, out: &mut Outlet<'_>) -> Option<usize> {
        self.blocks.retain(
            |block| !matches!(block.phase, Phase::Done { from_ns } if from_ns <= slot.start_ns),
        );
        let now = self.air.at(slot.start_ns);
        let slots = self.config.carriers.slots(slot);
        let mut room = slots.capacity_bytes(slot.index, now.rate_bps);
        if let Some(scheduler) = &mut self.scheduler {
            room = room.min(scheduler.granted(slot, slots));
        }
        let process = self.free_process(slot, slots);
        let mut block = Block {
            process,
            first: slot,
            attempts: 0,
            errors: Errors::Rate(now.bler),
            bytes: 0,
            symbols: 1,
            chunks: Vec::new(),
            received: false,
            noticed_ns: None,
            phase: Phase::Again { from_ns: 0 },
        };
        self.fill(&mut block, room, at_ns, out);
        if block.chunks.is_empty() {
            return None;
        }
        let slots = self.config.carriers.slots(slot);
        block.symbols = slots.symbols_of(block.bytes, slot.index, now.rate_bps);
        if let Some(sinr) = now.sinr {
            let full_bytes = slots.full_bytes(now.rate_bps);
            let decoder = Decoder::new(slots.code, sinr.need_db, block.bytes, full_bytes);
            block.errors = Errors::Sinr(decoder);
        }
        let backlog = self.waiting_bytes(at_ns);
        if let Some(scheduler) = &mut self.scheduler {
            let slots = self.config.carriers.slots(slot);
            scheduler.sent(slot, slots, block.bytes, backlog);
        }
        out.queue_level(at_ns, self.queue.backlog());
        self.blocks.push(block);
        Some(self.blocks.len() - 1)
    }

    /// The process in turn, or else the first free one.
    fn free_process(&self, slot: Slot, slots: &Slots) -> u32 {
        let processes = slots.harq.map_or(1, |harq| harq.processes);
        let turn = u32::try_from(slot.index % u64::from(processes)).unwrap_or(0);
        let busy = |process: u32| self.blocks.iter().any(|block| block.process == process);
        if busy(turn) {
            (0..processes)
                .find(|&process| !busy(process))
                .unwrap_or(turn)
        } else {
            turn
        }
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
                out.sojourn(at_ns, &run);
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
            unnoticed_ns: None,
            retries: 0,
            part: Part::Whole(run),
        });
        self.next_count += segments;
    }

    /// Sends the block in `slot`. Its random numbers depend on seed, slot and process only.
    fn transmit(&mut self, place: usize, slot: Slot, out: &mut Outlet<'_>) {
        let now = self.air.at(slot.start_ns);
        let slots = self.config.carriers.slots(slot);
        let block = &mut self.blocks[place];
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
        let key = u64::from(block.process) << 1 | u64::from(slot.fallback);
        let failed = self.random.process(key).unit(slot.index) < p;
        let misheard = harq.is_some_and(|harq| {
            let loss = if failed {
                harq.nack_loss
            } else {
                harq.ack_loss
            };
            loss > 0.0 && self.random.process(FEEDBACK | key).unit(slot.index) < loss
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
        if let Some(log) = &mut self.log {
            log.push(BlockRecord {
                slot,
                process: block.process,
                attempt: block.attempts,
                bytes: block.bytes,
                failed,
            });
        }
    }
}
