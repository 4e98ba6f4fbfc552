//! Handover and radio link failure: nothing is sent for a while, and what was on air is sent again or lost.

use std::collections::VecDeque;

use super::block::Block;
use super::contents::Chunk;
use super::settings::{Handover, Rlc};
use super::{NEVER, Radio};
use crate::counters::Reason;
use crate::stage::Outlet;

impl Radio {
    /// Starts a handover: blocks on air are lost to the new base station. RLC in acknowledged mode sends them again
    /// from there, if the buffer is forwarded.
    pub(super) fn hand_over(&mut self, at_ns: u64, out: &mut Outlet<'_>) {
        self.handover_ns = self.air.next_handover(at_ns + 1).unwrap_or(NEVER);
        let chunks = self.take_blocks_on_air();
        let handling = self.ordered.take().unwrap_or(self.config.handover);
        let forwards = handling == Handover::Forward;
        let keeps = forwards && self.config.rlc != Rlc::Unacknowledged;
        let mut again: VecDeque<Chunk> = VecDeque::new();
        for chunk in chunks {
            if keeps {
                again.push_back(Chunk {
                    ready_ns: at_ns,
                    unnoticed: None,
                    ..chunk
                });
            } else {
                self.lose(chunk, at_ns, Reason::Handover, out);
            }
        }
        again.extend(self.resend.drain(..).map(|chunk| Chunk {
            ready_ns: chunk.ready_ns.min(at_ns),
            ..chunk
        }));
        self.resend = again;
        if !forwards {
            self.clear(at_ns, Reason::Handover, out);
        }
        if let Some(scheduler) = &mut self.scheduler {
            scheduler.reset();
        }
    }

    /// The radio link fails: RLC has sent the data of `block` as often as it may. At `restored_ns` the link is
    /// re-established, and PDCP sends everything again that was not delivered, in order, unless the buffer is lost.
    pub(super) fn fail(
        &mut self,
        block: Block,
        at_ns: u64,
        restored_ns: u64,
        out: &mut Outlet<'_>,
    ) {
        out.link_failed(at_ns);
        let mut chunks = block.chunks;
        chunks.extend(self.take_blocks_on_air());
        chunks.extend(self.resend.drain(..).chain(self.pending.drain(..)));
        chunks.sort_by_key(|chunk| chunk.count);
        self.resend = chunks
            .into_iter()
            .map(|chunk| Chunk {
                ready_ns: restored_ns,
                unnoticed: None,
                retries: 0,
                ..chunk
            })
            .collect();
        if self.config.handover == Handover::Lose {
            self.clear(at_ns, Reason::Block, out);
        }
        self.asleep_ns = self.asleep_ns.max(restored_ns);
        if let Some(scheduler) = &mut self.scheduler {
            scheduler.reset();
        }
    }

    /// Deactivates the secondary carriers: their buffers of HARQ are flushed, and RLC has to find what was in them.
    pub(super) fn deactivate(&mut self, at_ns: u64, out: &mut Outlet<'_>) {
        if let Some(secondary) = &mut self.secondary {
            secondary.deactivate();
        }
        while let Some(block) = self.take_waiting_secondary() {
            if !block.received {
                self.give_up(block, at_ns, out);
            }
        }
    }

    /// Removes a block that waits for a retransmission on a secondary carrier.
    fn take_waiting_secondary(&mut self) -> Option<Block> {
        let mut secondary = self.entities.iter_mut().skip(1);
        secondary.find_map(|entity| {
            let (_, place) = entity.again()?;
            Some(entity.blocks.swap_remove(place))
        })
    }

    /// Removes all blocks, deactivates the secondary carriers, and returns the contents in the order of their first
    /// transmission.
    fn take_blocks_on_air(&mut self) -> impl Iterator<Item = Chunk> + use<> {
        if let Some(secondary) = &mut self.secondary {
            secondary.deactivate();
        }
        let mut blocks = std::mem::take(&mut self.entities[0].blocks);
        blocks.extend(
            self.entities[1..]
                .iter_mut()
                .flat_map(|entity| entity.blocks.drain(..)),
        );
        blocks.sort_by_key(|block| block.first.order());
        blocks.into_iter().flat_map(|block| block.chunks)
    }

    /// Drops all data that is unsent or to be sent again.
    pub(super) fn clear(&mut self, at_ns: u64, reason: Reason, out: &mut Outlet<'_>) {
        let waiting: Vec<Chunk> = self
            .resend
            .drain(..)
            .chain(self.pending.drain(..))
            .collect();
        for chunk in waiting {
            self.lose(chunk, at_ns, reason, out);
        }
        self.queue.clear(at_ns, reason, out);
        out.queue_level(at_ns, self.queue.backlog());
    }
}
