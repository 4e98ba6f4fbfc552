//! Queue disciplines of a bottleneck: admission, drops, and the order of service.

mod codel;
mod dualpi2;
mod limit;

pub use codel::{Codel, CodelControl, CodelSettings, FqCodel, FqCodelSettings, Waiting};
pub use dualpi2::{DelayEstimate, DualPi2, DualPi2Settings};
pub(crate) use limit::Fifo;
pub use limit::{Held, Limit, Room};

use crate::counters::Reason;
use crate::run::{Backlog, Run};
use crate::stage::{Outlet, Unit};

/// A queue discipline. It holds runs and returns one segment (or one super-packet) at a time.
pub trait Queue: Send {
    /// Takes a run that arrives at `run.at_ns`; may drop it, a part of it, or others that it pushes out.
    fn enqueue(&mut self, run: Run, out: &mut Outlet<'_>);

    /// Takes the next segment for service at `now_ns`; may drop others (`CoDel`). The returned run keeps its time of
    /// arrival in `at_ns`, so that `now_ns - at_ns` is its sojourn time.
    fn dequeue(&mut self, now_ns: u64, out: &mut Outlet<'_>) -> Option<Run>;

    /// IP bytes of the segment that would be served next, or `None` when empty.
    fn head_bytes(&self) -> Option<u32>;

    /// Waiting segments.
    fn backlog(&self) -> Backlog;

    /// Takes the segment that would be served next if it arrived at or before `arrived_ns`, past any control law.
    /// `None` for queues that are not in order of arrival (FQ-CoDel).
    fn expire(&mut self, arrived_ns: u64) -> Option<Run> {
        let _ = arrived_ns;
        None
    }

    /// When the segment that would be served next arrived; `None` when empty, and for queues that are not in order of
    /// arrival.
    fn head_at_ns(&self) -> Option<u64> {
        None
    }

    /// Drops all waiting segments at `at_ns`.
    fn clear(&mut self, at_ns: u64, reason: Reason, out: &mut Outlet<'_>) {
        while let Some(run) = self.dequeue(at_ns, out) {
            out.drop(Run { at_ns, ..run }, reason);
        }
    }

    /// Whether the limit is in time and uses [`Queue::service_rate`].
    fn wants_rate(&self) -> bool {
        false
    }

    /// The rate of the server from now on, bits per second, for limits in time.
    fn service_rate(&mut self, rate_bps: u64) {
        let _ = rate_bps;
    }
}

impl<Q: Queue + ?Sized> Queue for Box<Q> {
    fn enqueue(&mut self, run: Run, out: &mut Outlet<'_>) {
        (**self).enqueue(run, out);
    }

    fn dequeue(&mut self, now_ns: u64, out: &mut Outlet<'_>) -> Option<Run> {
        (**self).dequeue(now_ns, out)
    }

    fn head_bytes(&self) -> Option<u32> {
        (**self).head_bytes()
    }

    fn backlog(&self) -> Backlog {
        (**self).backlog()
    }

    fn expire(&mut self, arrived_ns: u64) -> Option<Run> {
        (**self).expire(arrived_ns)
    }

    fn head_at_ns(&self) -> Option<u64> {
        (**self).head_at_ns()
    }

    fn clear(&mut self, at_ns: u64, reason: Reason, out: &mut Outlet<'_>) {
        (**self).clear(at_ns, reason, out);
    }

    fn wants_rate(&self) -> bool {
        (**self).wants_rate()
    }

    fn service_rate(&mut self, rate_bps: u64) {
        (**self).service_rate(rate_bps);
    }
}

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
