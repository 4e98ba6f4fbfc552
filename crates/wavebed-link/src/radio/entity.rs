//! The HARQ entity of one carrier, which has its slots (TS 38.321, clause 5.3.2.1).

use super::NEVER;
use super::block::{Block, Phase};
use super::load::Others;
use super::settings::Slots;
use super::slots::Slot;

/// The blocks of one carrier, and other users of its slots.
#[derive(Debug, Default)]
pub struct Entity {
    /// Its blocks.
    pub blocks: Vec<Block>,
    /// The end of the last slot that was used.
    pub free_ns: u64,
    /// Other users.
    pub others: Option<Others>,
}

impl Entity {
    /// The next end of decoding.
    pub fn decoded_ns(&self) -> Option<u64> {
        let decoding = self.blocks.iter().filter_map(|block| match block.phase {
            Phase::Decoding { at_ns, .. } => Some(at_ns),
            _ => None,
        });
        decoding.min()
    }

    /// The place of the first block whose decoding ends at `now_ns`.
    pub fn decoded(&self, now_ns: u64) -> Option<usize> {
        let ends =
            |block: &Block| matches!(block.phase, Phase::Decoding { at_ns, .. } if at_ns == now_ns);
        self.blocks.iter().position(ends)
    }

    /// The block that may be sent again first: from when on, and its place.
    pub fn again(&self) -> Option<(u64, usize)> {
        let waiting = self.blocks.iter().enumerate().filter_map(|(place, block)| {
            let Phase::Again { from_ns } = block.phase else {
                return None;
            };
            Some((from_ns, block.first.start_ns, place))
        });
        waiting.min().map(|(from_ns, _, place)| (from_ns, place))
    }

    /// When a HARQ process of `slots` is free; `None` while unknown.
    pub fn process_free_ns(&self, slots: &Slots) -> Option<u64> {
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

    /// The process in turn in the slot that has this index in the pattern's time, or else the first free one.
    pub fn free_process(&self, index: u64, slots: &Slots) -> u32 {
        let processes = slots.harq.map_or(1, |harq| harq.processes);
        let turn = u32::try_from(index % u64::from(processes)).unwrap_or(0);
        let busy = |process: u32| self.blocks.iter().any(|block| block.process == process);
        if busy(turn) {
            (0..processes)
                .find(|&process| !busy(process))
                .unwrap_or(turn)
        } else {
            turn
        }
    }

    /// Whether another user gets `slot`, in which this one would send at `rate_bps`.
    pub fn others_take(&mut self, slot: Slot, slots: &Slots, rate_bps: u64) -> bool {
        let others = self.others.as_mut();
        others.is_some_and(|others| others.take(slot.start_ns, slots.period_ns(), rate_bps))
    }

    /// A retransmission takes `slot`.
    pub fn occupy(&mut self, slot: Slot, slots: &Slots) {
        if let Some(others) = &mut self.others {
            others.occupy(slot.start_ns, slots.period_ns());
        }
    }
}
