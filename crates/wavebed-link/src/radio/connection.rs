//! DRX (TS 38.321, clause 5.7) and RRC release. The two directions of a hop share one connection.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use garde::Validate;
use schemars::JsonSchema;
use serde::Deserialize;

use super::Radio;
use super::block::{Block, Chunk, Part};
use super::settings::{Direction, Rlc};
use crate::Backlog;
use crate::counters::Reason;
use crate::run::{NEVER, Run};
use crate::stage::{Handover, MAX_TIME_NS, Outlet};

/// Connected-mode DRX. Nanoseconds, cycles more than 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drx {
    /// Awake for this long after the last activity (drx-InactivityTimer).
    pub inactivity_ns: u64,
    /// The short cycle, and how many of them come first; `None`: the long cycle at once.
    pub short: Option<(u64, u64)>,
    /// The long cycle.
    pub long_cycle_ns: u64,
    /// Awake at the beginning of each cycle (drx-onDurationTimer).
    pub on_ns: u64,
}

/// Release to idle or inactive, and promotion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema, Validate)]
#[serde(deny_unknown_fields)]
pub struct Rrc {
    /// Idle time before the release.
    #[garde(range(min = 1, max = MAX_TIME_NS))]
    pub inactivity_ns: u64,
    /// Time of the promotion to connected mode.
    #[garde(range(max = MAX_TIME_NS))]
    pub promotion_ns: u64,
    /// Paging cycle: longest wait of a downlink packet for its paging.
    #[garde(range(max = MAX_TIME_NS))]
    pub paging_ns: u64,
}

/// The connection of a UE.
///
/// Directions may run in different threads. Activity of one direction causes traffic in the other only through the
/// hosts, so it is recorded before that traffic arrives.
#[derive(Debug)]
pub struct Connection {
    drx: Option<Drx>,
    rrc: Option<Rrc>,
    /// The last activity.
    last_ns: AtomicU64,
    /// When the connection is available again after the last promotion.
    awake_ns: AtomicU64,
}

impl Connection {
    /// A connection that is awake at time 0.
    #[must_use]
    pub const fn new(drx: Option<Drx>, rrc: Option<Rrc>) -> Self {
        Self {
            drx,
            rrc,
            last_ns: AtomicU64::new(0),
            awake_ns: AtomicU64::new(0),
        }
    }

    /// Data for `direction` arrived at `at_ns`. Returns the time from which it may be sent.
    pub fn wake(&self, at_ns: u64, direction: Direction) -> u64 {
        let awake_ns = self.awake_ns.load(Ordering::Acquire);
        if at_ns < awake_ns {
            return awake_ns;
        }
        let idle_ns = at_ns.saturating_sub(self.last_ns.load(Ordering::Acquire));
        let promoted_ns = self.promoted_ns(at_ns, idle_ns, direction);
        if let Some(promoted_ns) = promoted_ns {
            self.awake_ns.fetch_max(promoted_ns, Ordering::AcqRel);
        }
        let ready_ns = promoted_ns.unwrap_or_else(|| match self.drx {
            Some(drx) if direction == Direction::Down => drx.listens_ns(at_ns, idle_ns),
            // A scheduling request may be sent at any time.
            _ => at_ns,
        });
        self.active(ready_ns);
        ready_ns
    }

    /// Records activity at `at_ns`.
    pub fn active(&self, at_ns: u64) {
        self.last_ns.fetch_max(at_ns, Ordering::AcqRel);
    }

    /// When a released connection is available again; `None` if it was not released.
    fn promoted_ns(&self, at_ns: u64, idle_ns: u64, direction: Direction) -> Option<u64> {
        let rrc = self.rrc.filter(|rrc| idle_ns >= rrc.inactivity_ns)?;
        let paged_ns = match direction {
            Direction::Down if rrc.paging_ns > 0 => at_ns.next_multiple_of(rrc.paging_ns),
            _ => at_ns,
        };
        Some(paged_ns.saturating_add(rrc.promotion_ns))
    }
}

impl Drx {
    /// When a UE that has been idle for `idle_ns` at `at_ns` listens next.
    fn listens_ns(&self, at_ns: u64, idle_ns: u64) -> u64 {
        if idle_ns < self.inactivity_ns {
            return at_ns;
        }
        let next = |cycle_ns: u64| {
            if at_ns % cycle_ns < self.on_ns {
                at_ns
            } else {
                at_ns.next_multiple_of(cycle_ns)
            }
        };
        // The short cycles end at some time (drx-ShortCycleTimer); a cycle that would begin after that is not a short
        // one.
        let asleep_ns = idle_ns - self.inactivity_ns;
        let short = self.short.and_then(|(short_ns, cycles)| {
            let left_ns = short_ns.saturating_mul(cycles).checked_sub(asleep_ns)?;
            Some(next(short_ns)).filter(|listens_ns| listens_ns - at_ns < left_ns)
        });
        short.unwrap_or_else(|| next(self.long_cycle_ns))
    }
}

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

    /// Deactivates the secondary carriers: their HARQ buffers are flushed, and RLC has to recover the flushed data.
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

const BITS_NS: u128 = 8_000_000_000;

impl Radio {
    /// Bytes that fit beside those that wait, if what waits may be as much as the rate of `at_ns` carries in
    /// `target_ns`.
    pub(super) fn room(&mut self, at_ns: u64, target_ns: u64) -> u64 {
        let rate_bps = self.air.at(at_ns).rate_bps;
        let bytes = (u128::from(rate_bps) * u128::from(target_ns)).div_ceil(BITS_NS);
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        bytes.saturating_sub(self.waiting_bytes(at_ns))
    }

    /// From a failure of the radio link to its re-establishment.
    pub(super) const fn reestablish_ns(&self) -> u64 {
        match self.config.rlc {
            Rlc::Acknowledged(timers) => timers.reestablish_ns,
            Rlc::Unacknowledged => 0,
        }
    }

    /// The UE sleeps until `ready_ns`.
    pub(super) fn sleep(&mut self, at_ns: u64, ready_ns: u64) {
        self.asleep_ns = self.asleep_ns.max(ready_ns);
        self.make_plan(at_ns);
    }

    /// Gives back everything that was not delivered, if the settings of handovers keep it. A segment that arrived in
    /// part is given back whole.
    pub(super) fn take_undelivered(&mut self, at_ns: u64, out: &mut Outlet<'_>) -> Vec<Run> {
        self.hand_over(at_ns, out);
        let sent: Vec<Chunk> = self
            .resend
            .drain(..)
            .chain(self.pending.drain(..))
            .collect();
        let runs = sent.into_iter().filter_map(|chunk| match chunk.part {
            Part::Whole(run) => Some(run),
            Part::Piece => self.cuts.take_out(chunk.count),
        });
        let mut runs: Vec<Run> = runs.collect();
        while let Some(run) = self.queue.dequeue(at_ns, out) {
            out.waited(at_ns, &run);
            runs.push(run);
        }
        self.on_air = Backlog::default();
        self.make_plan(at_ns);
        runs
    }

    /// Sends `runs` before all new data.
    pub(super) fn send_first(&mut self, at_ns: u64, runs: Vec<Run>) {
        if !self.has_data(at_ns) {
            self.asleep_ns = self.asleep_ns.max(at_ns);
            if let Some(scheduler) = &mut self.scheduler {
                scheduler.idle_until(at_ns);
            }
        }
        for run in runs {
            self.take_off(run);
            let Some(chunk) = self.pending.pop_back() else {
                return;
            };
            let ready_ns = at_ns;
            let place = self
                .resend
                .partition_point(|other| other.ready_ns <= ready_ns);
            self.resend.insert(place, Chunk { ready_ns, ..chunk });
        }
        self.make_plan(at_ns);
    }
}
