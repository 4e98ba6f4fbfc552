//! The trait of all impairments.

use std::sync::Arc;

use crate::counters::{LinkCounters, Reason};
use crate::run::{Ecn, Run};

/// One impairment of a link. Each stage forwards to the next.
///
/// The contract that makes results independent of the caller's wake-up jitter:
/// - `accept` is called with runs of non-decreasing `at_ns`, each preceded by `poll(run.at_ns)`;
/// - `poll(now)` forwards everything due at or before `now`, each run stamped with its due time, in order of due
///   times;
/// - decisions use those stamps, never the time of the call.
///
/// Only a reordering stage may forward out of arrival order; stamps never go back.
pub trait Stage: Send {
    /// Takes a run that reaches the stage at `run.at_ns`.
    fn accept(&mut self, run: Run, out: &mut Outlet<'_>);

    /// Forwards runs due up to and including `now_ns`.
    fn poll(&mut self, now_ns: u64, out: &mut Outlet<'_>);

    /// Time of the next event, if nothing else arrives.
    fn next_event_ns(&self) -> Option<u64>;

    /// Segments in the stage.
    fn backlog(&self) -> Backlog;

    /// Applies a live change from `now_ns` on. Returns false if the change does not concern this stage.
    fn apply(&mut self, now_ns: u64, change: &Change) -> bool {
        let _ = (now_ns, change);
        false
    }
}

/// Segments in a stage or a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Wire segments.
    pub segments: u64,
    /// Their IP bytes.
    pub bytes: u64,
}

impl Backlog {
    /// Adds `run`.
    #[inline]
    pub const fn count(&mut self, run: &Run) {
        self.segments += run.count as u64;
        self.bytes += run.bytes();
    }
}

impl std::ops::AddAssign for Backlog {
    fn add_assign(&mut self, other: Self) {
        self.segments += other.segments;
        self.bytes += other.bytes;
    }
}

/// A live change of a running link.
#[derive(Clone, Debug)]
pub enum Change {
    /// Constant rate from now on, bits per second.
    RateBps(u64),
    /// Constant one-way delay from now on, nanoseconds.
    DelayNs(u64),
    /// Probability of independent loss from now on.
    Loss(f64),
    /// A pattern that starts now.
    Pattern(Arc<crate::pattern::Pattern>),
}

/// The output of a stage: runs go to the next stage, or are dropped with a reason, and are counted.
pub struct Outlet<'a> {
    forward: &'a mut Vec<Run>,
    lost: &'a mut Vec<Run>,
    copied: &'a mut Vec<Run>,
    counters: &'a mut LinkCounters,
    gone: Backlog,
    stage: usize,
    /// Whether it belongs to a part of the stage.
    is_part: bool,
}

impl<'a> Outlet<'a> {
    /// An outlet that appends to these lists and counts in `counters`.
    pub fn new(
        forward: &'a mut Vec<Run>,
        lost: &'a mut Vec<Run>,
        copied: &'a mut Vec<Run>,
        counters: &'a mut LinkCounters,
    ) -> Self {
        Self {
            forward,
            lost,
            copied,
            counters,
            gone: Backlog::default(),
            stage: 0,
            is_part: false,
        }
    }

    /// An outlet for a part of this stage: what leaves the part is counted and appended to these lists, and its queue is
    /// left to the stage.
    pub(crate) fn part<'b>(
        &'b mut self,
        forward: &'b mut Vec<Run>,
        lost: &'b mut Vec<Run>,
    ) -> Outlet<'b> {
        Outlet {
            forward,
            lost,
            copied: self.copied,
            counters: self.counters,
            gone: Backlog::default(),
            stage: self.stage,
            is_part: true,
        }
    }

    /// Releases `run`, which a part of this stage dropped.
    pub(crate) fn dropped_by_part(&mut self, run: Run) {
        self.gone.count(&run);
        self.lost.push(run);
    }

    /// Failures of the radio link so far.
    pub(crate) const fn link_failures(&self) -> u64 {
        self.counters.total().link_failures
    }

    /// The outlet of the stage with this number in its link.
    pub(crate) const fn of_stage(mut self, stage: usize) -> Self {
        self.stage = stage;
        self
    }

    /// Passes `run` to the next stage at `run.at_ns`.
    pub fn forward(&mut self, run: Run) {
        self.gone.count(&run);
        self.forward.push(run);
    }

    /// Drops `run` at `run.at_ns` for `reason`.
    pub fn drop(&mut self, run: Run, reason: Reason) {
        self.gone.count(&run);
        self.counters.dropped(&run, reason);
        self.lost.push(run);
    }

    /// Everything that was forwarded or dropped through this outlet.
    #[must_use]
    pub const fn gone(&self) -> Backlog {
        self.gone
    }

    /// Records that `run` is a copy made by the stage; the stage also forwards it.
    pub fn duplicated(&mut self, run: &Run) {
        self.counters.duplicated(run);
        self.copied.push(*run);
    }

    /// Marks `run` CE at `at_ns` if it is ECN-capable; returns whether it is. A mark that it carried is not counted.
    pub fn mark(&mut self, run: &mut Run, at_ns: u64) -> bool {
        let before = std::mem::replace(&mut run.ecn, Ecn::Ce);
        match before {
            Ecn::NotEct => run.ecn = Ecn::NotEct,
            Ecn::Ce => {}
            Ecn::Ect0 | Ecn::Ect1 => self.counters.marked(&Run { at_ns, ..*run }, before),
        }
        before != Ecn::NotEct
    }

    /// Records that `run` was corrupted.
    pub fn corrupted(&mut self, run: &Run) {
        self.counters.corrupted(run);
    }

    /// Records that a radio block was sent in the slot that begins at `at_ns`, and whether it failed.
    pub fn block(&mut self, at_ns: u64, failed: bool) {
        self.counters.block(at_ns, failed);
    }

    /// Records that the radio link failed at `at_ns`.
    pub fn link_failed(&mut self, at_ns: u64) {
        self.counters.link_failed(at_ns);
    }

    /// Records the stage's queue since `at_ns`.
    pub fn queue_level(&mut self, at_ns: u64, backlog: Backlog) {
        if !self.is_part {
            self.counters.queue_level(at_ns, self.stage, backlog);
        }
    }

    /// Records that `run`, which arrived at `run.at_ns`, left the queue at `at_ns`.
    pub fn sojourn(&mut self, at_ns: u64, run: &Run) {
        self.counters.sojourn(at_ns, run);
    }
}
