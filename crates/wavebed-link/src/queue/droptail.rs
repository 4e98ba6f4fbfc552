//! Drop-tail: an arrival at a full queue is dropped.

use super::{Fifo, Limit, Queue, Room};
use crate::counters::Reason;
use crate::run::Run;
use crate::stage::{Backlog, Outlet};
use crate::unit::Unit;

/// First in, first out; a segment that does not fit on arrival is dropped.
#[derive(Debug)]
pub struct DropTail {
    fifo: Fifo,
    room: Room,
}

impl DropTail {
    /// A queue with this limit in this unit.
    #[must_use]
    pub const fn new(limit: Limit, unit: Unit) -> Self {
        Self {
            fifo: Fifo::new(unit),
            room: Room::new(limit, unit),
        }
    }
}

impl Queue for DropTail {
    fn enqueue(&mut self, run: Run, out: &mut Outlet<'_>) {
        let held = self.fifo.held();
        let fifo = &mut self.fifo;
        self.room.admit(
            run,
            held,
            |run| fifo.push(run),
            |run| out.drop(run, Reason::Overflow),
        );
    }

    fn dequeue(&mut self, _now_ns: u64, _out: &mut Outlet<'_>) -> Option<Run> {
        self.fifo.pop()
    }

    fn head_bytes(&self) -> Option<u32> {
        self.fifo.head_bytes()
    }

    fn backlog(&self) -> Backlog {
        self.fifo.backlog()
    }

    fn expire(&mut self, arrived_ns: u64) -> Option<Run> {
        self.fifo.pop_arrived_by(arrived_ns)
    }

    fn head_at_ns(&self) -> Option<u64> {
        self.fifo.head_at_ns()
    }

    fn wants_rate(&self) -> bool {
        self.room.wants_rate()
    }

    fn service_rate(&mut self, rate_bps: u64) {
        self.room.service_rate(rate_bps);
    }
}
