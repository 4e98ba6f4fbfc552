//! A queue without a limit.

use super::{Fifo, Queue};
use crate::run::Run;
use crate::stage::{Backlog, Outlet};
use crate::unit::Unit;

/// First in, first out; nothing is ever dropped.
#[derive(Debug)]
pub struct Infinite {
    fifo: Fifo,
}

impl Infinite {
    /// A queue that returns this unit.
    #[must_use]
    pub const fn new(unit: Unit) -> Self {
        Self {
            fifo: Fifo::new(unit),
        }
    }
}

impl Queue for Infinite {
    fn enqueue(&mut self, run: Run, _out: &mut Outlet<'_>) {
        self.fifo.push(run);
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
}
