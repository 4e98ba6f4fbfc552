//! One direction of a hop: stages in a row, and their counters.

use crate::counters::{Event, LinkCounters, PacketLog, Reason};
use crate::run::{Backlog, Run};
use crate::stage::{Change, Conditions, Outlet, Stage};

/// A link: packets pass its stages in order.
pub struct Link {
    stages: Vec<Box<dyn Stage>>,
    /// `between[i]` holds what stage `i - 1` forwarded to stage `i`; the last one, delivered runs.
    between: Vec<Vec<Run>>,
    counters: LinkCounters,
    lost: Vec<Run>,
    /// The drop reason of each run in `lost`.
    reasons: Vec<Reason>,
    copied: Vec<Run>,
    /// Which stage is the port of a cell.
    port: Option<usize>,
}

impl Link {
    /// A link of these stages, in the order that packets pass them.
    #[must_use]
    pub fn new(stages: Vec<Box<dyn Stage>>, with_series: bool) -> Self {
        let between = std::iter::repeat_with(Vec::new)
            .take(stages.len() + 1)
            .collect();
        Self {
            port: stages.iter().position(|stage| stage.is_port()),
            stages,
            between,
            counters: LinkCounters::new(with_series),
            lost: Vec::new(),
            reasons: Vec::new(),
            copied: Vec::new(),
        }
    }

    /// Keeps a packet log from now on: [`Link::packet_log`].
    pub fn log_packets(&mut self) {
        let log = self.counters.packets.get_or_insert_default();
        for (number, stage) in self.stages.iter_mut().enumerate() {
            if stage.log_blocks() {
                log.watch(number);
            }
        }
        // What leaves the last one that takes time is delivered at that time.
        let slow = |&number: &usize| self.stages[number].takes_time();
        let timed: Vec<usize> = (0..self.stages.len()).filter(slow).collect();
        for &number in timed.iter().rev().skip(1) {
            log.watch_passing(number);
        }
    }

    /// The packet log, to take events from; `None` if there is none.
    pub fn packet_log(&mut self) -> Option<&mut PacketLog> {
        let log = self.counters.packets.as_deref_mut()?;
        for stage in &mut self.stages {
            log.sent(stage.take_blocks());
        }
        Some(log)
    }

    /// Takes a run that enters at `run.at_ns`, no earlier than any before it.
    pub fn accept(&mut self, run: Run) {
        self.counters.offered(&run);
        if let Some(log) = &mut self.counters.packets {
            log.push(run, Event::Entered);
        }
        let Some(stage) = self.stages.first_mut() else {
            self.between[0].push(run);
            return;
        };
        let mut out = Outlet::new(
            &mut self.between[1],
            &mut self.lost,
            &mut self.copied,
            &mut self.counters,
        )
        .with_reasons(&mut self.reasons);
        stage.poll(run.at_ns, &mut out);
        stage.accept(run, &mut out);
    }

    /// Counts a run as offered and dropped, because its owner could not store it.
    pub fn refuse(&mut self, run: &Run, reason: Reason) {
        self.counters.offered(run);
        self.counters.dropped(run, reason);
    }

    /// Whether one of its stages is the port of a cell.
    #[must_use]
    pub const fn has_port(&self) -> bool {
        self.port.is_some()
    }

    /// Advances the stages before the port of a cell to `now_ns`, and gives the port what reaches it up to then. The cell
    /// advances next, then the link by [`Link::poll`]. Does nothing to a link without a port.
    pub fn poll_to_port(&mut self, now_ns: u64) {
        let Some(port) = self.port.filter(|&port| port > 0) else {
            return;
        };
        self.advance(0..port, now_ns);
        let (before, after) = self.between.split_at_mut(port + 1);
        log_left(&mut self.counters, &before[port], port - 1);
        let mut out = Outlet::new(
            &mut after[0],
            &mut self.lost,
            &mut self.copied,
            &mut self.counters,
        )
        .with_reasons(&mut self.reasons)
        .of_stage(port);
        for run in before[port].drain(..) {
            self.stages[port].accept(run, &mut out);
        }
    }

    /// Advances all stages to `now_ns` and appends delivered runs to `delivered`, each stamped with its due time. A cell
    /// must have been advanced to then.
    pub fn poll(&mut self, now_ns: u64, delivered: &mut Vec<Run>) {
        self.advance(self.port.unwrap_or(0)..self.stages.len(), now_ns);
        let last = &mut self.between[self.stages.len()];
        if let Some(stage) = self.stages.len().checked_sub(1) {
            log_left(&mut self.counters, last, stage);
        }
        for run in last.iter() {
            self.counters.delivered(run);
            if let Some(log) = &mut self.counters.packets {
                log.push(*run, Event::Delivered);
            }
        }
        delivered.append(last);
    }

    /// Advances these stages to `now_ns`: what each forwards waits before the next one.
    fn advance(&mut self, stages: std::ops::Range<usize>, now_ns: u64) {
        for index in stages {
            let (before, after) = self.between.split_at_mut(index + 1);
            if index > 0 {
                log_left(&mut self.counters, &before[index], index - 1);
            }
            let mut out = Outlet::new(
                &mut after[0],
                &mut self.lost,
                &mut self.copied,
                &mut self.counters,
            )
            .with_reasons(&mut self.reasons)
            .of_stage(index);
            let stage = &mut self.stages[index];
            for run in before[index].drain(..) {
                stage.poll(run.at_ns, &mut out);
                stage.accept(run, &mut out);
            }
            stage.poll(now_ns, &mut out);
        }
    }

    /// Keeps the runs whose delivery is settled from now on, for [`Link::take_settled`]. Returns whether the link can.
    pub fn keep_settled(&mut self) -> bool {
        self.stages
            .last_mut()
            .is_some_and(|stage| stage.keep_settled())
    }

    /// Takes the runs whose delivery was settled since the last call, in order, each stamped with its time. Those due have
    /// been delivered as well.
    pub fn take_settled(&mut self, settled: &mut Vec<Run>) {
        if let Some(stage) = self.stages.last_mut() {
            stage.take_settled(settled);
        }
    }

    /// Nothing that is settled from now on is delivered sooner than this, nanoseconds.
    #[must_use]
    pub fn foresight_ns(&self) -> u64 {
        self.stages.last().map_or(0, |stage| stage.least_stay_ns())
    }

    /// The run that is delivered after `place` others, with the time of its delivery; `None` if that may still change.
    #[must_use]
    pub fn settled_at(&self, place: usize) -> Option<&Run> {
        let is_between = self.between.iter().any(|runs| !runs.is_empty());
        self.stages
            .last()
            .filter(|_| !is_between)?
            .settled_at(place)
    }

    /// The time before which the link delivers nothing beside the runs of [`Link::settled_at`], so that no poll is needed.
    /// `later_ns` is when the next run reaches the link.
    #[must_use]
    pub fn quiet_until_ns(&self, later_ns: Option<u64>) -> Option<u64> {
        let mut next_ns = later_ns;
        let last = self.stages.len().saturating_sub(1);
        for (index, stage) in self.stages.iter().enumerate() {
            let waiting = self.between[index].first().map(|run| run.at_ns);
            next_ns = (next_ns.into_iter().chain(waiting).min())
                .map(|next_ns| next_ns.saturating_add(stage.least_stay_ns()));
            if index < last || self.settled_at(0).is_none() {
                next_ns = next_ns.into_iter().chain(stage.next_event_ns()).min();
            }
        }
        let delivered = self.between.last().and_then(|runs| runs.first());
        next_ns
            .into_iter()
            .chain(delivered.map(|run| run.at_ns))
            .min()
    }

    /// When to poll next, if nothing else arrives. Exact once everything was polled.
    #[must_use]
    pub fn next_event_ns(&self) -> Option<u64> {
        let waiting = self
            .between
            .iter()
            .filter_map(|runs| runs.first().map(|run| run.at_ns))
            .min();
        self.stages
            .iter()
            .filter_map(|stage| stage.next_event_ns())
            .chain(waiting)
            .min()
    }

    /// Takes the list of runs that were dropped since the last call: the owner may release their segments.
    pub fn take_lost(&mut self) -> std::vec::Drain<'_, Run> {
        self.reasons.clear();
        self.lost.drain(..)
    }

    /// As [`Link::take_lost`], with drop reasons.
    pub fn take_lost_with_reasons(&mut self) -> impl Iterator<Item = (Run, Reason)> {
        self.lost.drain(..).zip(self.reasons.drain(..))
    }

    /// Whether runs were dropped since they were last taken.
    pub(crate) const fn has_lost(&self) -> bool {
        !self.lost.is_empty()
    }

    /// Takes the list of copies made since the last call: the owner must retain their segments once more.
    pub fn take_copied(&mut self) -> std::vec::Drain<'_, Run> {
        self.copied.drain(..)
    }

    /// All segments in the link.
    #[must_use]
    pub fn backlog(&self) -> Backlog {
        let mut total = Backlog::default();
        for stage in &self.stages {
            total += stage.backlog();
        }
        for run in self.between.iter().flatten() {
            total += Backlog {
                segments: u64::from(run.count),
                bytes: run.bytes(),
            };
        }
        total
    }

    /// Applies a live change to every stage that it concerns. False if there is none.
    pub fn apply(&mut self, now_ns: u64, change: &Change) -> bool {
        let mut taken = false;
        for stage in &mut self.stages {
            taken |= stage.apply(now_ns, change);
        }
        taken
    }

    /// The live changes that a stage takes, in the order of [`Link::CHANGES`].
    #[must_use]
    pub fn takes(&self) -> Vec<&'static str> {
        let taken = |key: &&str| self.stages.iter().any(|stage| stage.takes().contains(key));
        Self::CHANGES.into_iter().filter(taken).collect()
    }

    /// The keys of all live changes.
    pub const CHANGES: [&'static str; 5] = ["rate", "delay", "loss", "pattern", "handover"];

    /// The conditions at `now_ns`; the link must have been polled to that time.
    #[must_use]
    pub fn conditions(&self, now_ns: u64) -> Conditions {
        let stages = self.stages.iter();
        stages.fold(Conditions::default(), |before, stage| {
            before.then(stage.conditions(now_ns))
        })
    }

    /// The counters.
    #[must_use]
    pub const fn counters(&self) -> &LinkCounters {
        &self.counters
    }

    /// The counters, to take finished rows from.
    pub const fn counters_mut(&mut self) -> &mut LinkCounters {
        &mut self.counters
    }
}

/// Records that `runs` left `stage`.
fn log_left(counters: &mut LinkCounters, runs: &[Run], stage: usize) {
    if let Some(log) = &mut counters.packets {
        for run in runs {
            log.left(run, stage);
        }
    }
}
