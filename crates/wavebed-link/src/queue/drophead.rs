//! Drop-head: an arrival at a full queue pushes out the oldest segments.

use super::{Fifo, Held, Limit, Queue, Room};
use crate::counters::Reason;
use crate::run::Run;
use crate::stage::{Backlog, Outlet};
use crate::unit::Unit;

/// First in, first out; an arrival drops from the head until it fits. One that would not fit into the empty
/// queue is dropped itself.
#[derive(Debug)]
pub struct DropHead {
    fifo: Fifo,
    room: Room,
}

impl DropHead {
    /// A queue with this limit in this unit.
    #[must_use]
    pub const fn new(limit: Limit, unit: Unit) -> Self {
        Self {
            fifo: Fifo::new(unit),
            room: Room::new(limit, unit),
        }
    }

    fn enqueue_packet(&mut self, run: Run, out: &mut Outlet<'_>) {
        if !self.room.fits(&run, Held::default()) {
            out.drop(run, Reason::Overflow);
            return;
        }
        while !self.room.fits(&run, self.fifo.held())
            && let Some(head) = self.fifo.pop()
        {
            out.drop(
                Run {
                    at_ns: run.at_ns,
                    ..head
                },
                Reason::Overflow,
            );
        }
        self.fifo.push(run);
    }
}

impl Queue for DropHead {
    fn enqueue(&mut self, mut run: Run, out: &mut Outlet<'_>) {
        if self.room.fits(&run, self.fifo.held()) {
            self.fifo.push(run);
            return;
        }
        while self.room.unit() == Unit::Packet && run.count > 1 {
            self.enqueue_packet(run.split_front(1), out);
        }
        self.enqueue_packet(run, out);
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
