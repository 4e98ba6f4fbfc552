//! The trait of all impairments.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::Backlog;
use crate::counters::{Event, LinkCounters, Reason};
use crate::pattern::{Clock, End, Kind, Pattern, Playback, State};
use crate::run::{BlockRecord, Ecn, Run};

/// Handling of the buffer in a handover, and when the radio link fails.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    serde::Deserialize,
    serde::Serialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Handover {
    /// It is forwarded to the new base station.
    #[default]
    Forward,
    /// It is lost.
    Lose,
}

/// The highest rate, bits per second.
pub(crate) const MAX_RATE_BPS: u64 = 1_000_000_000_000;
/// The longest time, nanoseconds: 31 years.
pub(crate) const MAX_TIME_NS: u64 = 1_000_000_000_000_000_000;
/// The most bytes that a lower layer adds to a packet.
pub(crate) const MAX_OVERHEAD_BYTES: u32 = 1000;
/// The longest distance of two slots that belong together.
pub(crate) const MAX_SLOTS: u64 = 1_000_000;

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

    /// The live changes that the stage takes, by their keys: `rate`, `delay`, `loss`, `pattern`, `handover`.
    fn takes(&self) -> &'static [&'static str] {
        &[]
    }

    /// The conditions at `now_ns`, for a display: nothing changes by the question.
    fn conditions(&self, now_ns: u64) -> Conditions {
        let _ = now_ns;
        Conditions::default()
    }

    /// Keeps a record of every transmission of a block from now on. Returns whether the stage has blocks.
    fn log_blocks(&mut self) -> bool {
        false
    }

    /// Whether runs may leave the stage later than they reach it.
    fn takes_time(&self) -> bool {
        true
    }

    /// Keeps the runs whose departure is settled from now on, for `take_settled`. Returns whether the stage can: it settles
    /// each departure as the run arrives, in order, and changes none later.
    fn keep_settled(&mut self) -> bool {
        false
    }

    /// Takes those runs, each stamped with the time at which it will leave.
    fn take_settled(&mut self, settled: &mut Vec<Run>) {
        let _ = settled;
    }

    /// The run that leaves after `place` others, with its time; `None` if a run that arrives later may change that.
    fn settled_at(&self, place: usize) -> Option<&Run> {
        let _ = place;
        None
    }

    /// Whether it is the port of a cell: what leaves it is settled by [`crate::radio::Cell::advance`].
    fn is_port(&self) -> bool {
        false
    }

    /// No run that arrives from now on leaves sooner than this after its arrival, nanoseconds.
    fn least_stay_ns(&self) -> u64 {
        0
    }

    /// Whether it counts the air time of blocks.
    fn counts_air(&self) -> bool {
        false
    }

    /// Takes these records.
    fn take_blocks(&mut self) -> Vec<BlockRecord> {
        Vec::new()
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
    Pattern(Arc<Pattern>),
    /// A pattern over time that is played by a clock of its own.
    Play(Playback),
    /// A handover that begins now.
    Handover {
        /// How long nothing is sent, nanoseconds.
        for_ns: u64,
        /// Handling of the buffer; `None`: as the stage is configured.
        handling: Option<Handover>,
    },
}

impl Change {
    /// The pattern that the stage plays from `at_ns` on, which ends as `end` unless the change says how.
    pub(crate) fn playback(&self, at_ns: u64, end: End) -> Option<Playback> {
        match self {
            Self::Pattern(pattern) => Some(Playback {
                pattern: Arc::clone(pattern),
                end,
                clock: Clock::new(0, at_ns),
            }),
            Self::Play(playback) if playback.pattern.kind() == Kind::Steps => {
                Some(playback.clone())
            }
            _ => None,
        }
    }
}

/// The output of a stage: runs go to the next stage, or are dropped with a reason, and are counted.
pub struct Outlet<'a> {
    sink: Sink<'a>,
    gone: Backlog,
    stage: usize,
    /// Whether it belongs to a part of the stage.
    is_part: bool,
}

enum Sink<'a> {
    Link {
        forward: &'a mut Vec<Run>,
        lost: &'a mut Vec<Run>,
        copied: &'a mut Vec<Run>,
        counters: &'a mut LinkCounters,
        /// The drop reason of each run in `lost`.
        reasons: Option<&'a mut Vec<Reason>>,
    },
    Record(&'a mut VecDeque<Effect>),
}

/// What a stage did, to be done later by [`Outlet::repeat`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum Effect {
    Forward(Run),
    Drop(Run, Reason),
    Duplicate(Run),
    /// With the field that it had.
    Mark(Run, u64),
    Corrupt(Run),
    Block(u64, bool),
    /// Begin and length of the slot, and the time in it.
    Air(u64, u64, u64),
    LinkFailure(u64),
    QueueLevel(u64, Backlog),
    Sojourn(u64, Run),
}

impl Effect {
    /// When.
    pub(crate) const fn at_ns(&self) -> u64 {
        match self {
            Self::Forward(run) | Self::Drop(run, _) | Self::Duplicate(run) | Self::Corrupt(run) => {
                run.at_ns
            }
            Self::Mark(_, at_ns)
            | Self::Block(at_ns, _)
            | Self::Air(at_ns, ..)
            | Self::LinkFailure(at_ns)
            | Self::QueueLevel(at_ns, _)
            | Self::Sojourn(at_ns, _) => *at_ns,
        }
    }
}

impl<'a> Outlet<'a> {
    /// An outlet that appends to these lists and counts in `counters`.
    pub fn new(
        forward: &'a mut Vec<Run>,
        lost: &'a mut Vec<Run>,
        copied: &'a mut Vec<Run>,
        counters: &'a mut LinkCounters,
    ) -> Self {
        Self::of(Sink::Link {
            forward,
            lost,
            copied,
            counters,
            reasons: None,
        })
    }

    /// Appends the drop reason of each lost run to `reasons`.
    pub(crate) fn with_reasons(mut self, list: &'a mut Vec<Reason>) -> Self {
        if let Sink::Link { reasons, .. } = &mut self.sink {
            *reasons = Some(list);
        }
        self
    }

    /// An outlet that records what is to be done later.
    pub(crate) fn record(effects: &'a mut VecDeque<Effect>) -> Self {
        Self::of(Sink::Record(effects))
    }

    fn of(sink: Sink<'a>) -> Self {
        Self {
            sink,
            gone: Backlog::default(),
            stage: 0,
            is_part: false,
        }
    }

    /// An outlet for a part of this stage: what leaves the part is counted and appended to these lists, with the drop
    /// reason of each lost run. Its queue and the packet log are left to the stage.
    ///
    /// # Panics
    /// If this outlet records: only a stage without parts does that.
    pub(crate) fn part<'b>(
        &'b mut self,
        forward: &'b mut Vec<Run>,
        lost: &'b mut Vec<Run>,
        reasons: &'b mut Vec<Reason>,
    ) -> Outlet<'b> {
        let Sink::Link {
            copied, counters, ..
        } = &mut self.sink
        else {
            unreachable!("a stage with parts does not record");
        };
        let sink = Sink::Link {
            forward,
            lost,
            copied,
            counters,
            reasons: Some(reasons),
        };
        Outlet {
            stage: self.stage,
            is_part: true,
            ..Outlet::of(sink)
        }
    }

    /// Releases `run`, which a part of this stage dropped for `reason`.
    pub(crate) fn dropped_by_part(&mut self, run: Run, reason: Reason) {
        self.gone.count(&run);
        if let Sink::Link {
            lost,
            counters,
            reasons,
            ..
        } = &mut self.sink
        {
            log(counters, run, Event::Dropped(reason));
            lost.push(run);
            if let Some(reasons) = reasons {
                reasons.push(reason);
            }
        }
    }

    /// Failures of the radio link so far.
    pub(crate) const fn link_failures(&self) -> u64 {
        match &self.sink {
            Sink::Link { counters, .. } => counters.total().link_failures,
            Sink::Record(_) => 0,
        }
    }

    /// The outlet of the stage with this number in its link.
    pub(crate) const fn of_stage(mut self, stage: usize) -> Self {
        self.stage = stage;
        self
    }

    /// Does what was recorded.
    pub(crate) fn repeat(&mut self, effect: Effect) {
        match effect {
            Effect::Forward(run) => self.forward(run),
            Effect::Drop(run, reason) => self.drop(run, reason),
            Effect::Duplicate(run) => self.duplicated(&run),
            Effect::Mark(mut run, at_ns) => {
                self.mark(&mut run, at_ns);
            }
            Effect::Corrupt(run) => self.corrupted(&run),
            Effect::Block(at_ns, failed) => self.block(at_ns, failed),
            Effect::Air(start_ns, slot_ns, air_ns) => self.air(start_ns, slot_ns, air_ns),
            Effect::LinkFailure(at_ns) => self.link_failed(at_ns),
            Effect::QueueLevel(at_ns, backlog) => self.queue_level(at_ns, backlog),
            Effect::Sojourn(at_ns, run) => self.sojourn(at_ns, &run),
        }
    }

    /// Passes `run` to the next stage at `run.at_ns`.
    pub fn forward(&mut self, run: Run) {
        self.gone.count(&run);
        match &mut self.sink {
            Sink::Link { forward, .. } => forward.push(run),
            Sink::Record(effects) => keep(effects, Effect::Forward(run)),
        }
    }

    /// Drops `run` at `run.at_ns` for `reason`.
    pub fn drop(&mut self, run: Run, reason: Reason) {
        self.gone.count(&run);
        match &mut self.sink {
            Sink::Link {
                lost,
                counters,
                reasons,
                ..
            } => {
                counters.dropped(&run, reason);
                if let Some(reasons) = reasons {
                    reasons.push(reason);
                }
                if !self.is_part && counters.packets.is_some() {
                    log(counters, run, Event::Dropped(reason));
                }
                lost.push(run);
            }
            Sink::Record(effects) => keep(effects, Effect::Drop(run, reason)),
        }
    }

    /// Everything that was forwarded or dropped through this outlet.
    #[must_use]
    pub const fn gone(&self) -> Backlog {
        self.gone
    }

    /// Records that `run` is a copy made by the stage; the stage also forwards it.
    pub fn duplicated(&mut self, run: &Run) {
        match &mut self.sink {
            Sink::Link {
                copied, counters, ..
            } => {
                counters.duplicated(run);
                log(counters, *run, Event::Entered);
                copied.push(*run);
            }
            Sink::Record(effects) => keep(effects, Effect::Duplicate(*run)),
        }
    }

    /// Marks `run` CE at `at_ns` if it is ECN-capable; returns whether it is. A mark that it carried is not counted.
    pub fn mark(&mut self, run: &mut Run, at_ns: u64) -> bool {
        let before = std::mem::replace(&mut run.ecn, Ecn::Ce);
        match before {
            Ecn::NotEct => run.ecn = Ecn::NotEct,
            Ecn::Ce => {}
            Ecn::Ect0 | Ecn::Ect1 => match &mut self.sink {
                Sink::Link { counters, .. } => counters.marked(&Run { at_ns, ..*run }, before),
                Sink::Record(effects) => {
                    let unmarked = Run {
                        ecn: before,
                        ..*run
                    };
                    keep(effects, Effect::Mark(unmarked, at_ns));
                }
            },
        }
        before != Ecn::NotEct
    }

    /// Records that `run` was corrupted.
    pub fn corrupted(&mut self, run: &Run) {
        match &mut self.sink {
            Sink::Link { counters, .. } => counters.corrupted(run),
            Sink::Record(effects) => keep(effects, Effect::Corrupt(*run)),
        }
    }

    /// Records that a radio block was sent in the slot that begins at `at_ns`, and whether it failed.
    pub fn block(&mut self, at_ns: u64, failed: bool) {
        match &mut self.sink {
            Sink::Link { counters, .. } => counters.block(at_ns, failed),
            Sink::Record(effects) => keep(effects, Effect::Block(at_ns, failed)),
        }
    }

    /// Records that a radio block takes `air_ns` of the slot of `slot_ns` that begins at `start_ns`.
    pub fn air(&mut self, start_ns: u64, slot_ns: u64, air_ns: u64) {
        match &mut self.sink {
            Sink::Link { counters, .. } => counters.air(start_ns, slot_ns, air_ns),
            Sink::Record(effects) => keep(effects, Effect::Air(start_ns, slot_ns, air_ns)),
        }
    }

    /// Records that the radio link failed at `at_ns`.
    pub fn link_failed(&mut self, at_ns: u64) {
        match &mut self.sink {
            Sink::Link { counters, .. } => counters.link_failed(at_ns),
            Sink::Record(effects) => keep(effects, Effect::LinkFailure(at_ns)),
        }
    }

    /// Records the stage's queue since `at_ns`.
    pub fn queue_level(&mut self, at_ns: u64, backlog: Backlog) {
        if self.is_part {
            return;
        }
        match &mut self.sink {
            Sink::Link { counters, .. } => counters.queue_level(at_ns, self.stage, backlog),
            Sink::Record(effects) => keep(effects, Effect::QueueLevel(at_ns, backlog)),
        }
    }

    /// Records that `run`, which arrived at `run.at_ns`, left the queue at `at_ns`.
    pub fn sojourn(&mut self, at_ns: u64, run: &Run) {
        self.waited(at_ns, run);
        if let Sink::Link { counters, .. } = &mut self.sink
            && let Some(packets) = &mut counters.packets
        {
            packets.dequeued(at_ns, run, self.stage);
        }
    }

    /// As [`Outlet::sojourn`], of a stage whose blocks are in the packet log.
    pub(crate) fn waited(&mut self, at_ns: u64, run: &Run) {
        match &mut self.sink {
            Sink::Link { counters, .. } => counters.sojourn(at_ns, run),
            Sink::Record(effects) => keep(effects, Effect::Sojourn(at_ns, *run)),
        }
    }
}

#[cold]
fn log(counters: &mut LinkCounters, run: Run, event: Event) {
    if let Some(packets) = &mut counters.packets {
        packets.push(run, event);
    }
}

#[cold]
fn keep(effects: &mut VecDeque<Effect>, effect: Effect) {
    effects.push_back(effect);
}

/// The unit of loss and of queue limits.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    serde::Deserialize,
    serde::Serialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Single wire segments.
    #[default]
    Packet,
    /// All segments of a super-packet together, as netem counts on a host with segmentation offload.
    Superpacket,
}

/// The conditions of a stage or a link at one time; `None` where it has none, or where they are not known without
/// traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Conditions {
    /// Rate, bits per second.
    pub rate_bps: Option<u64>,
    /// Delay beside queueing, nanoseconds; the mean of a distribution.
    pub delay_ns: Option<u64>,
    /// Probability that a segment is lost.
    pub loss: Option<f64>,
    /// State of the radio.
    pub state: Option<State>,
    /// Effective SINR of the data, dB.
    pub sinr_db: Option<f64>,
}

impl Conditions {
    /// The conditions of two stages in a row: the lower rate, the sum of delays, the loss of both, and the first radio.
    #[must_use]
    pub fn then(self, next: Self) -> Self {
        Self {
            rate_bps: both(self.rate_bps, next.rate_bps, u64::min),
            delay_ns: both(self.delay_ns, next.delay_ns, u64::saturating_add),
            loss: both(self.loss, next.loss, |one, other| {
                1.0 - (1.0 - one) * (1.0 - other)
            }),
            state: self.state.or(next.state),
            sinr_db: self.sinr_db.or(next.sinr_db),
        }
    }
}

fn both<T>(one: Option<T>, other: Option<T>, join: impl FnOnce(T, T) -> T) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(join(one, other)),
        (one, other) => one.or(other),
    }
}
