//! The `CoDel` queue of RFC 8289.

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
    /// The threshold for `run`, if it is left out of the control law.
    fn l4s_threshold_ns(&self, run: &Run) -> Option<u64> {
        let apart = self.ecn && run.ecn == Ecn::Ect1;
        self.ce_threshold_ns.filter(|_| apart)
    }

    /// Raises the MTU to the segments of `run`.
    pub(super) fn see(&mut self, run: &Run) {
        self.mtu_bytes = self.mtu_bytes.max(run.head_bytes());
    }
}

/// The state of one `CoDel` queue, named as in RFC 8289, section 5.
#[derive(Debug, Default)]
pub(super) struct Control {
    /// While the delay is above the target: when it will have been so for an interval.
    first_above_ns: Option<u64>,
    drop_next_ns: u64,
    count: u32,
    last_count: u32,
    dropping: bool,
}

impl Control {
    /// The time of the next drop after `from_ns`. The square root is IEEE-exact, so that every machine agrees.
    #[expect(
        clippy::cast_precision_loss,
        reason = "an interval above 2^53 ns, 104 days, may lose a nanosecond"
    )]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "below the interval, not negative"
    )]
    fn control_law(&self, from_ns: u64, interval_ns: u64) -> u64 {
        from_ns + (interval_ns as f64 / f64::from(self.count).sqrt()) as u64
    }

    /// Takes the head of `fifo`, and returns whether it may be dropped.
    fn take(
        &mut self,
        fifo: &mut Fifo,
        now_ns: u64,
        settings: &CodelSettings,
    ) -> Option<(Run, bool)> {
        let Some(run) = fifo.pop() else {
            self.first_above_ns = None;
            return None;
        };
        let sojourn_ns = now_ns.saturating_sub(run.at_ns);
        if sojourn_ns < settings.target_ns || fifo.held().bytes <= u64::from(settings.mtu_bytes) {
            self.first_above_ns = None;
            return Some((run, false));
        }
        let first_above_ns = *self
            .first_above_ns
            .get_or_insert(now_ns + settings.interval_ns);
        Some((run, now_ns >= first_above_ns))
    }

    /// Takes the next segment of `fifo` for service; drops or marks by the control law, or marks by the threshold.
    pub(super) fn dequeue(
        &mut self,
        fifo: &mut Fifo,
        now_ns: u64,
        settings: &CodelSettings,
        out: &mut Outlet<'_>,
    ) -> Option<Run> {
        let mut run = self.choose(fifo, now_ns, settings, out)?;
        if let Some(threshold_ns) = settings.l4s_threshold_ns(&run)
            && now_ns.saturating_sub(run.at_ns) > threshold_ns
        {
            out.mark(&mut run, now_ns);
        }
        Some(run)
    }

    /// Takes the next segment that the control law lets through.
    fn choose(
        &mut self,
        fifo: &mut Fifo,
        now_ns: u64,
        settings: &CodelSettings,
        out: &mut Outlet<'_>,
    ) -> Option<Run> {
        let Some((mut run, mut may_drop)) = self.take(fifo, now_ns, settings) else {
            self.dropping = false;
            return None;
        };
        let apart = |run: &Run| settings.l4s_threshold_ns(run).is_some();
        if !self.dropping {
            if !may_drop || apart(&run) {
                return Some(run);
            }
            let next = if settings.ecn && out.mark(&mut run, now_ns) {
                Some(run)
            } else {
                drop(run, now_ns, out);
                self.take(fifo, now_ns, settings).map(|(run, _)| run)
            };
            self.start_dropping(now_ns, settings.interval_ns);
            return next;
        }
        self.dropping = may_drop;
        while self.dropping && now_ns >= self.drop_next_ns && !apart(&run) {
            self.count = self.count.saturating_add(1);
            if settings.ecn && out.mark(&mut run, now_ns) {
                self.drop_next_ns = self.control_law(self.drop_next_ns, settings.interval_ns);
                break;
            }
            drop(run, now_ns, out);
            let Some(taken) = self.take(fifo, now_ns, settings) else {
                self.dropping = false;
                return None;
            };
            (run, may_drop) = taken;
            self.dropping = may_drop;
            if may_drop {
                self.drop_next_ns = self.control_law(self.drop_next_ns, settings.interval_ns);
            }
        }
        Some(run)
    }

    /// Enters the drop state, near the drop rate of the previous one if that ended recently.
    fn start_dropping(&mut self, now_ns: u64, interval_ns: u64) {
        self.dropping = true;
        let since_last = self.count - self.last_count;
        let recent = now_ns < self.drop_next_ns.saturating_add(16 * interval_ns);
        self.count = if since_last > 1 && recent {
            since_last
        } else {
            1
        };
        self.drop_next_ns = self.control_law(now_ns, interval_ns);
        self.last_count = self.count;
    }
}

/// Drops `run` by the control law.
fn drop(run: Run, at_ns: u64, out: &mut Outlet<'_>) {
    out.drop(Run { at_ns, ..run }, Reason::Aqm);
}

/// One queue under `CoDel`, with a hard limit that drops arrivals.
#[derive(Debug)]
pub struct Codel {
    settings: CodelSettings,
    room: Room,
    fifo: Fifo,
    control: Control,
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
            control: Control::default(),
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
        self.control
            .dequeue(&mut self.fifo, now_ns, &self.settings, out)
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
