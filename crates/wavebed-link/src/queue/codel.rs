//! The `CoDel` queue of RFC 8289.

use super::codel_control::{CodelControl, Waiting};
use super::{Fifo, Limit, Queue, Room};
use crate::counters::Reason;
use crate::run::{Ecn, Run};
use crate::stage::{Backlog, Outlet};
use crate::unit::Unit;

/// Parameters of `CoDel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodelSettings {
    /// Acceptable standing delay, nanoseconds (TARGET).
    pub target_ns: u64,
    /// How long the delay must stay above the target, nanoseconds (INTERVAL).
    pub interval_ns: u64,
    /// Whether to mark ECN-capable segments instead of dropping them.
    pub ecn: bool,
    /// With `ecn`: a segment with ECT(1) is marked after this sojourn time, nanoseconds, and is left out of the control
    /// law; `None`: it is treated as ECT(0).
    pub ce_threshold_ns: Option<u64>,
    /// A queue of at most this many bytes is never too long. It is raised to the largest segment seen.
    pub mtu_bytes: u32,
}

impl Default for CodelSettings {
    /// The values of RFC 8289, section 4, for the open Internet, with Ethernet's MTU.
    fn default() -> Self {
        Self {
            target_ns: 5_000_000,
            interval_ns: 100_000_000,
            ecn: false,
            ce_threshold_ns: None,
            mtu_bytes: 1500,
        }
    }
}

impl CodelSettings {
    /// Raises the MTU to the segments of `run`.
    pub(super) fn see(&mut self, run: &Run) {
        self.mtu_bytes = self.mtu_bytes.max(run.head_bytes());
    }
}

/// The runs of one queue, and the outlet for those that are dropped or marked.
pub(super) struct Runs<'a, 'b> {
    pub(super) fifo: &'a mut Fifo,
    pub(super) out: &'a mut Outlet<'b>,
}

impl Waiting for Runs<'_, '_> {
    type Packet = Run;

    fn pop(&mut self) -> Option<Run> {
        self.fifo.pop()
    }

    fn bytes(&self) -> u64 {
        self.fifo.held().bytes
    }

    fn arrived_ns(run: &Run) -> u64 {
        run.at_ns
    }

    fn is_ect1(run: &Run) -> bool {
        run.ecn == Ecn::Ect1
    }

    fn mark(&mut self, run: &mut Run, now_ns: u64) -> bool {
        self.out.mark(run, now_ns)
    }

    fn drop(&mut self, run: Run, now_ns: u64) {
        self.out.drop(
            Run {
                at_ns: now_ns,
                ..run
            },
            Reason::Aqm,
        );
    }
}

/// One queue under `CoDel`, with a hard limit that drops arrivals.
#[derive(Debug)]
pub struct Codel {
    settings: CodelSettings,
    room: Room,
    fifo: Fifo,
    control: CodelControl,
}

impl Codel {
    /// An empty queue.
    #[must_use]
    pub fn new(settings: CodelSettings, limit: Limit, unit: Unit) -> Self {
        let room = Room::new(limit, unit);
        Self {
            settings,
            room,
            fifo: Fifo::new(unit),
            control: CodelControl::default(),
        }
    }
}

impl Queue for Codel {
    fn enqueue(&mut self, run: Run, out: &mut Outlet<'_>) {
        self.settings.see(&run);
        let held = self.fifo.held();
        let fifo = &mut self.fifo;
        self.room.admit(
            run,
            held,
            |run| fifo.push(run),
            |run| out.drop(run, Reason::Overflow),
        );
    }

    fn dequeue(&mut self, now_ns: u64, out: &mut Outlet<'_>) -> Option<Run> {
        let mut runs = Runs {
            fifo: &mut self.fifo,
            out,
        };
        self.control.dequeue(&mut runs, now_ns, &self.settings)
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
