//! The `CoDel` queue of RFC 8289.

use std::collections::VecDeque;

use super::{Fifo, Held, Limit, Queue, Room};
use crate::counters::Reason;
use crate::random_stream::RandomStream;
use crate::run::{Backlog, Ecn, Run};
use crate::stage::{Outlet, Unit};

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

impl CodelSettings {
    /// The threshold for `packet`, if it is left out of the control law.
    fn l4s_threshold_ns<W: Waiting>(&self, packet: &W::Packet) -> Option<u64> {
        let apart = self.ecn && W::is_ect1(packet);
        self.ce_threshold_ns.filter(|_| apart)
    }
}

/// Packets that wait in order of arrival, as [`CodelControl`] sees them.
pub trait Waiting {
    /// A packet.
    type Packet;

    /// Takes the head.
    fn pop(&mut self) -> Option<Self::Packet>;

    /// Bytes that wait.
    fn bytes(&self) -> u64;

    /// When `packet` arrived, nanoseconds.
    fn arrived_ns(packet: &Self::Packet) -> u64;

    /// Whether `packet` has ECT(1), the identifier of L4S (RFC 9331).
    fn is_ect1(packet: &Self::Packet) -> bool;

    /// Marks `packet` with CE. False if it is not ECN-capable.
    fn mark(&mut self, packet: &mut Self::Packet, now_ns: u64) -> bool;

    /// Drops `packet` by the control law.
    fn drop(&mut self, packet: Self::Packet, now_ns: u64);
}

/// The state of one `CoDel` queue, named as in RFC 8289, section 5.
#[derive(Debug, Default)]
pub struct CodelControl {
    /// While the delay is above the target: when it will have been so for an interval.
    first_above_ns: Option<u64>,
    drop_next_ns: u64,
    count: u32,
    last_count: u32,
    dropping: bool,
}

impl CodelControl {
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

    /// Takes the head of `waiting`, and returns whether it may be dropped.
    fn take<W: Waiting>(
        &mut self,
        waiting: &mut W,
        now_ns: u64,
        settings: &CodelSettings,
    ) -> Option<(W::Packet, bool)> {
        let Some(packet) = waiting.pop() else {
            self.first_above_ns = None;
            return None;
        };
        let sojourn_ns = now_ns.saturating_sub(W::arrived_ns(&packet));
        if sojourn_ns < settings.target_ns || waiting.bytes() <= u64::from(settings.mtu_bytes) {
            self.first_above_ns = None;
            return Some((packet, false));
        }
        let first_above_ns = *self
            .first_above_ns
            .get_or_insert(now_ns + settings.interval_ns);
        Some((packet, now_ns >= first_above_ns))
    }

    /// Takes the next packet of `waiting` for service; drops or marks by the control law, or marks by the threshold.
    pub fn dequeue<W: Waiting>(
        &mut self,
        waiting: &mut W,
        now_ns: u64,
        settings: &CodelSettings,
    ) -> Option<W::Packet> {
        let mut packet = self.choose(waiting, now_ns, settings)?;
        if let Some(threshold_ns) = settings.l4s_threshold_ns::<W>(&packet)
            && now_ns.saturating_sub(W::arrived_ns(&packet)) > threshold_ns
        {
            waiting.mark(&mut packet, now_ns);
        }
        Some(packet)
    }

    /// Takes the next packet that the control law lets through.
    fn choose<W: Waiting>(
        &mut self,
        waiting: &mut W,
        now_ns: u64,
        settings: &CodelSettings,
    ) -> Option<W::Packet> {
        let Some((mut packet, mut may_drop)) = self.take(waiting, now_ns, settings) else {
            self.dropping = false;
            return None;
        };
        let apart = |packet: &W::Packet| settings.l4s_threshold_ns::<W>(packet).is_some();
        if !self.dropping {
            if !may_drop || apart(&packet) {
                return Some(packet);
            }
            let next = if settings.ecn && waiting.mark(&mut packet, now_ns) {
                Some(packet)
            } else {
                waiting.drop(packet, now_ns);
                self.take(waiting, now_ns, settings)
                    .map(|(packet, _)| packet)
            };
            self.start_dropping(now_ns, settings.interval_ns);
            return next;
        }
        self.dropping = may_drop;
        while self.dropping && now_ns >= self.drop_next_ns && !apart(&packet) {
            self.count = self.count.saturating_add(1);
            if settings.ecn && waiting.mark(&mut packet, now_ns) {
                self.drop_next_ns = self.control_law(self.drop_next_ns, settings.interval_ns);
                break;
            }
            waiting.drop(packet, now_ns);
            let Some(taken) = self.take(waiting, now_ns, settings) else {
                self.dropping = false;
                return None;
            };
            (packet, may_drop) = taken;
            self.dropping = may_drop;
            if may_drop {
                self.drop_next_ns = self.control_law(self.drop_next_ns, settings.interval_ns);
            }
        }
        Some(packet)
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

/// The mean rate over windows of time in which the queue was not empty.
#[derive(Debug)]
pub(super) struct DequeueRate {
    /// Length of a window, nanoseconds; 0: no rate is wanted.
    window_ns: u64,
    /// Since when the queue waits for the next packet to leave.
    since_ns: u64,
    /// Of the current window.
    busy_ns: u64,
    bytes: u64,
    /// Of the last whole window.
    last: Option<(u64, u64)>,
}

impl DequeueRate {
    pub(super) const fn new(window_ns: u64) -> Self {
        Self {
            window_ns,
            since_ns: 0,
            busy_ns: 0,
            bytes: 0,
            last: None,
        }
    }

    /// The queue was empty until `at_ns`.
    pub(super) const fn starts(&mut self, at_ns: u64) {
        self.since_ns = at_ns;
    }

    /// `bytes` left the queue at `at_ns`. A longer wait than a window counts as one window.
    pub(super) fn left(&mut self, at_ns: u64, bytes: u64) {
        if self.window_ns == 0 {
            return;
        }
        let waited_ns = at_ns.saturating_sub(self.since_ns);
        self.since_ns = at_ns;
        // A window ends between bursts: what leaves at one time leaves for one wait.
        if waited_ns > 0 && self.busy_ns >= self.window_ns {
            self.last = Some((self.bytes, self.busy_ns));
            (self.bytes, self.busy_ns) = (0, 0);
        }
        self.busy_ns += waited_ns.min(self.window_ns);
        self.bytes += bytes;
    }

    /// How long `bytes` take to leave; `None` before the end of the first window.
    pub(super) fn time_ns(&self, bytes: u64) -> Option<u64> {
        let (left, busy_ns) = self.last?;
        let time_ns = u128::from(bytes) * u128::from(busy_ns) / u128::from(left.max(1));
        Some(u64::try_from(time_ns).unwrap_or(u64::MAX))
    }
}

/// Most segments that one overflow drops (RFC 8290, section 4.1).
const DROP_BATCH: u32 = 64;

/// Parameters of FQ-CoDel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FqCodelSettings {
    /// `CoDel` parameters of each queue.
    pub codel: CodelSettings,
    /// Number of queues that flows are hashed to.
    pub flows: u32,
    /// Quantum: bytes that a queue may send per round.
    pub quantum_bytes: u32,
}

impl Default for FqCodelSettings {
    /// The values of RFC 8290, section 5.2.
    fn default() -> Self {
        let codel = CodelSettings {
            ecn: true,
            ..CodelSettings::default()
        };
        Self {
            codel,
            flows: 1024,
            quantum_bytes: 1514,
        }
    }
}

#[derive(Debug)]
struct Flow {
    fifo: Fifo,
    control: CodelControl,
    /// Deficit: bytes that the flow may still send in this round.
    deficit: i64,
    /// Whether it is in the list of new flows or of old flows.
    listed: bool,
}

impl Flow {
    fn new(unit: Unit) -> Self {
        Self {
            fifo: Fifo::new(unit),
            control: CodelControl::default(),
            deficit: 0,
            listed: false,
        }
    }
}

/// Queues under `CoDel`, served by deficit round robin.
#[derive(Debug)]
pub struct FqCodel {
    settings: FqCodelSettings,
    room: Room,
    random: RandomStream,
    flows: Vec<Flow>,
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    held: Held,
    segments: u64,
}

impl FqCodel {
    /// An empty queue. `random` perturbs the hash of the flows.
    ///
    /// # Panics
    /// If there are no flows, or the quantum is zero.
    #[must_use]
    pub fn new(settings: FqCodelSettings, limit: Limit, unit: Unit, random: RandomStream) -> Self {
        assert!(
            settings.flows > 0 && settings.quantum_bytes > 0,
            "FQ-CoDel needs flows and a quantum"
        );
        Self {
            settings,
            room: Room::new(limit, unit),
            random,
            flows: std::iter::repeat_with(|| Flow::new(unit))
                .take(settings.flows as usize)
                .collect(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            held: Held::default(),
            segments: 0,
        }
    }

    /// The queue that flow hash `flow` goes to.
    #[must_use]
    pub fn flow_queue(&self, flow: u32) -> u32 {
        let word = self.random.word(u64::from(flow)) >> 32;
        ((word * u64::from(self.settings.flows)) >> 32) as u32
    }

    fn push(&mut self, index: u32, run: Run) {
        self.change(index, |flow| flow.fifo.push(run));
        let flow = &mut self.flows[index as usize];
        if !flow.listed {
            flow.listed = true;
            flow.deficit = i64::from(self.settings.quantum_bytes);
            self.new.push_back(index);
        }
    }

    /// Applies a change to the queue of flow `index`, and updates the totals.
    fn change<T>(&mut self, index: u32, change: impl FnOnce(&mut Flow) -> T) -> T {
        let flow = &mut self.flows[index as usize];
        let (held, segments) = (flow.fifo.held(), flow.fifo.backlog().segments);
        let result = change(flow);
        let after = flow.fifo.held();
        self.held.packets = self.held.packets + after.packets - held.packets;
        self.held.bytes = self.held.bytes + after.bytes - held.bytes;
        self.segments = self.segments + flow.fifo.backlog().segments - segments;
        result
    }

    /// Drops from the head of the queue with most bytes: half of them, but at most a batch.
    fn drop_batch(&mut self, now_ns: u64, out: &mut Outlet<'_>) {
        let mut fattest = 0;
        let mut most_bytes = 0;
        for (index, flow) in (0..).zip(&self.flows) {
            let bytes = flow.fifo.held().bytes;
            if bytes > most_bytes {
                (fattest, most_bytes) = (index, bytes);
            }
        }
        let mut dropped_bytes = 0;
        for _ in 0..DROP_BATCH {
            let Some(run) = self.change(fattest, |flow| flow.fifo.pop()) else {
                break;
            };
            dropped_bytes += run.bytes();
            out.drop(
                Run {
                    at_ns: now_ns,
                    ..run
                },
                Reason::Overflow,
            );
            if dropped_bytes >= most_bytes / 2 {
                break;
            }
        }
    }

    /// Flows in the order of the lists.
    fn in_turn(&self) -> impl Iterator<Item = &Flow> {
        self.new
            .iter()
            .chain(&self.old)
            .map(|&index| &self.flows[index as usize])
    }
}

impl Queue for FqCodel {
    fn enqueue(&mut self, mut run: Run, out: &mut Outlet<'_>) {
        self.settings.codel.see(&run);
        let index = self.flow_queue(run.flow);
        if self.room.fits(&run, self.held) {
            return self.push(index, run);
        }
        loop {
            let rest = self.room.unit() == Unit::Packet && run.count > 1;
            let one = if rest { run.split_front(1) } else { run };
            self.push(index, one);
            while self.room.exceeded(self.held) {
                self.drop_batch(one.at_ns, out);
            }
            if !rest {
                return;
            }
        }
    }

    fn dequeue(&mut self, now_ns: u64, out: &mut Outlet<'_>) -> Option<Run> {
        let codel = self.settings.codel;
        loop {
            let from_new = !self.new.is_empty();
            let list = if from_new {
                &mut self.new
            } else {
                &mut self.old
            };
            let index = *list.front()?;
            let flow = &mut self.flows[index as usize];
            if flow.deficit <= 0 {
                flow.deficit += i64::from(self.settings.quantum_bytes);
                list.pop_front();
                self.old.push_back(index);
                continue;
            }
            let run = self.change(index, |flow| {
                let mut runs = Runs {
                    fifo: &mut flow.fifo,
                    out,
                };
                let run = flow.control.dequeue(&mut runs, now_ns, &codel)?;
                flow.deficit -= i64::try_from(run.bytes()).unwrap_or(i64::MAX);
                Some(run)
            });
            if run.is_some() {
                return run;
            }
            if from_new {
                // A new flow passes the old list once, so that it cannot starve old flows.
                self.new.pop_front();
                self.old.push_back(index);
            } else {
                self.old.pop_front();
                self.flows[index as usize].listed = false;
            }
        }
    }

    fn head_bytes(&self) -> Option<u32> {
        // A queue without deficit waits for this many rounds; rounds keep the order of the lists.
        let quantum = i64::from(self.settings.quantum_bytes);
        let rounds = |flow: &&Flow| {
            if flow.deficit > 0 {
                0
            } else {
                1 - flow.deficit / quantum
            }
        };
        let waiting = self.in_turn().filter(|flow| flow.fifo.held().packets > 0);
        waiting.min_by_key(rounds)?.fifo.head_bytes()
    }

    fn backlog(&self) -> Backlog {
        Backlog {
            segments: self.segments,
            bytes: self.held.bytes,
        }
    }

    fn wants_rate(&self) -> bool {
        self.room.wants_rate()
    }

    fn service_rate(&mut self, rate_bps: u64) {
        self.room.service_rate(rate_bps);
    }
}
