//! Queue disciplines of a bottleneck: admission, drops, and the order of service.

mod codel;
mod codel_control;
mod dequeue_rate;
mod drophead;
mod droptail;
mod dualpi2;
mod fq_codel;
mod infinite;
mod limit;

pub use codel::{Codel, CodelSettings};
pub use codel_control::{CodelControl, Waiting};
pub use drophead::DropHead;
pub use droptail::DropTail;
pub use dualpi2::{Delay, DualPi2, DualPi2Settings};
pub use fq_codel::{FqCodel, FqCodelSettings};
pub use infinite::Infinite;
pub(crate) use limit::Fifo;
pub use limit::{Held, Limit, Room};

use crate::counters::Reason;
use crate::run::Run;
use crate::stage::{Backlog, Outlet};

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
