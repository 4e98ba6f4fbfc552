//! Queue disciplines of a bottleneck: what waits, what is dropped, what is served next.

mod limit;

pub use limit::{Limit, Room};

use crate::run::Run;
use crate::stage::{Backlog, Outlet};

/// A queue discipline. It holds runs and gives back one segment (or one super-packet) at a time.
pub trait Queue: Send {
    /// Takes a run that arrives at `run.at_ns`; may drop it, part of it, or what it pushes out.
    fn enqueue(&mut self, run: Run, out: &mut Outlet<'_>);

    /// Takes the next segment for service at `now_ns`; may drop others on the way (`CoDel`). The run that is
    /// returned keeps its time of arrival in `at_ns`, so that `now_ns - at_ns` is its sojourn time.
    fn dequeue(&mut self, now_ns: u64, out: &mut Outlet<'_>) -> Option<Run>;

    /// IP bytes of the segment that would be served next, or `None` when empty.
    fn head_bytes(&self) -> Option<u32>;

    /// What waits.
    fn backlog(&self) -> Backlog;

    /// Whether [`Queue::service_rate`] matters: the limit is in time.
    fn wants_rate(&self) -> bool {
        false
    }

    /// The rate of the server from now on, bits per second, for limits in time.
    fn service_rate(&mut self, rate_bps: u64) {
        let _ = rate_bps;
    }
}
