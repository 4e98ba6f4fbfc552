//! The counters of a link: every segment is delivered, or dropped with a reason, in total and per millisecond.

use std::collections::{BTreeMap, VecDeque};

use crate::run::{Backlog, BlockRecord, Ecn, Run};

/// Drop reason of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Reason {
    /// No room in the queue (tail or head, RFC 7567 terms).
    Overflow = 0,
    /// Dropped by `CoDel` or FQ-CoDel (RFC 8289).
    Aqm = 1,
    /// A loss model or pattern.
    Loss = 2,
    /// Rate zero with outage `drop`.
    Outage = 3,
    /// The pattern ended with `stop`.
    Ended = 4,
    /// In a block that HARQ and RLC gave up on, or in the buffer when the radio link failed.
    Block = 5,
    /// It waited longer than the discard timer allows.
    Discard = 6,
    /// It arrived after the receiver had stopped waiting for it.
    Late = 7,
    /// The buffer was lost in a handover.
    Handover = 8,
    /// A flipped bit left neither version of IP (see [`Run::is_unreadable`]).
    CorruptedHeader = 9,
    /// A program sent no IP packet, or a super-packet with inconsistent headers.
    Malformed = 10,
    /// The packets in flight had reached their memory limit.
    PacketMemory = 11,
}

impl Reason {
    /// Every reason, in the order of their numbers.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Overflow,
        Self::Aqm,
        Self::Loss,
        Self::Outage,
        Self::Ended,
        Self::Block,
        Self::Discard,
        Self::Late,
        Self::Handover,
        Self::CorruptedHeader,
        Self::Malformed,
        Self::PacketMemory,
    ];

    /// Number of reasons.
    pub const COUNT: usize = 12;

    /// The name in logs and summaries.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Overflow => "overflow",
            Self::Aqm => "aqm",
            Self::Loss => "loss",
            Self::Outage => "outage",
            Self::Ended => "ended",
            Self::Block => "block",
            Self::Discard => "discard",
            Self::Late => "late",
            Self::Handover => "handover",
            Self::CorruptedHeader => "corrupted_header",
            Self::Malformed => "malformed",
            Self::PacketMemory => "packet_memory",
        }
    }
}

/// A counter of segments and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counter {
    /// Wire segments.
    pub segments: u64,
    /// Their IP bytes.
    pub bytes: u64,
}

impl Counter {
    /// Counts `run`.
    pub fn count(&mut self, run: &Run) {
        self.segments += u64::from(run.count);
        self.bytes += run.bytes();
    }
}

/// Totals of a link, or of one millisecond of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Segments that entered.
    pub offered: Counter,
    /// Copies made by duplication.
    pub duplicated: Counter,
    /// Segments that left at the far end.
    pub delivered: Counter,
    /// Segments dropped, by [`Reason`] number.
    pub dropped: [Counter; Reason::COUNT],
    /// Segments marked CE.
    pub marked: Counter,
    /// CE-marked segments that were ECT(1).
    pub l4s_marked: Counter,
    /// Dropped segments with ECT(1) or CE, for any reason.
    pub l4s_dropped: Counter,
    /// Segments corrupted, whether dropped or not.
    pub corrupted: Counter,
    /// Transmissions of radio blocks, repetitions included.
    pub blocks_sent: u64,
    /// Failed transmissions.
    pub blocks_failed: u64,
    /// Air time of radio blocks: of each its part of a slot of its carrier, nanoseconds.
    pub air_ns: u64,
    /// Failures of the radio link.
    pub link_failures: u64,
}

/// One millisecond of a link.
#[derive(Clone, Copy, Debug, Default)]
pub struct MillisecondRow {
    /// Milliseconds since the origin.
    pub at_ms: u64,
    /// Its counts.
    pub counts: Counts,
    /// Queue at the end of the millisecond, bytes.
    pub queue_bytes: u64,
    /// Largest queue during the millisecond, bytes.
    pub queue_peak_bytes: u64,
    /// Sojourn times of the segments that left the queue.
    pub sojourn: Sojourn,
    /// Sojourn times of segments with ECT(1) or CE that left the queue.
    pub l4s_sojourn: Sojourn,
}

/// Times in a queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sojourn {
    /// Their sum, nanoseconds.
    pub sum_ns: u64,
    /// How many.
    pub count: u64,
    /// The longest, nanoseconds.
    pub max_ns: u64,
}

impl Sojourn {
    fn add(&mut self, time_ns: u64) {
        self.sum_ns += time_ns;
        self.count += 1;
        self.max_ns = self.max_ns.max(time_ns);
    }

    /// Mean and longest, nanoseconds; `None` without segments.
    #[must_use]
    pub fn mean_and_max_ns(&self) -> Option<(u64, u64)> {
        let mean_ns = self.sum_ns.checked_div(self.count)?;
        Some((mean_ns, self.max_ns))
    }
}

/// Times of segments, summed: the mean over an interval is the difference of sums divided by the difference of segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeSum {
    /// Their sum, nanoseconds, modulo 2^64.
    pub sum_ns: u64,
    /// How many segments.
    pub segments: u64,
}

impl TimeSum {
    /// Adds the time of that many segments.
    pub const fn add(&mut self, time_ns: u64, segments: u64) {
        self.sum_ns = self.sum_ns.wrapping_add(time_ns.wrapping_mul(segments));
        self.segments += segments;
    }

    /// Adds the times of another sum.
    pub const fn merge(&mut self, other: Self) {
        self.sum_ns = self.sum_ns.wrapping_add(other.sum_ns);
        self.segments += other.segments;
    }
}

/// Totals and optionally the series and the packet log of one link.
#[derive(Debug, Default)]
pub struct LinkCounters {
    total: Counts,
    waited: TimeSum,
    series: Option<Series>,
    /// The packet log, if there is one.
    pub packets: Option<Box<PacketLog>>,
}

#[derive(Debug, Default)]
struct Series {
    rows: VecDeque<MillisecondRow>,
    /// `at_ms` of the first row.
    first_ms: u64,
    queue_bytes: u64,
    /// Queue of each stage, bytes.
    levels: Vec<u64>,
    /// Blocks by millisecond: they are recorded before their slot begins, when that millisecond has no row yet.
    blocks: BTreeMap<u64, Blocks>,
}

/// The radio blocks of a millisecond.
#[derive(Clone, Copy, Debug, Default)]
struct Blocks {
    sent: u64,
    failed: u64,
    air_ns: u64,
}

impl Series {
    fn row(&mut self, at_ns: u64) -> &mut MillisecondRow {
        let ms = (at_ns / 1_000_000).max(self.first_ms);
        while self.first_ms + self.rows.len() as u64 <= ms {
            let next_ms = self.first_ms + self.rows.len() as u64;
            let queue_bytes = self
                .rows
                .back()
                .map_or(self.queue_bytes, |row| row.queue_bytes);
            self.rows.push_back(MillisecondRow {
                at_ms: next_ms,
                queue_bytes,
                queue_peak_bytes: queue_bytes,
                ..Default::default()
            });
        }
        let index = usize::try_from(ms - self.first_ms).expect("the row was just made");
        &mut self.rows[index]
    }
}

impl LinkCounters {
    /// Counters with totals only, or with a row for each millisecond too.
    #[must_use]
    pub fn new(with_series: bool) -> Self {
        Self {
            total: Counts::default(),
            waited: TimeSum::default(),
            series: with_series.then(Series::default),
            packets: None,
        }
    }

    /// The totals so far.
    #[must_use]
    pub const fn total(&self) -> &Counts {
        &self.total
    }

    /// The times in the queue of all segments that left it.
    #[must_use]
    pub const fn waited(&self) -> TimeSum {
        self.waited
    }

    fn note(&mut self, run: &Run, pick: impl Fn(&mut Counts) -> &mut Counter) {
        pick(&mut self.total).count(run);
        if let Some(series) = &mut self.series {
            pick(&mut series.row(run.at_ns).counts).count(run);
        }
    }

    /// `run` entered the link.
    pub fn offered(&mut self, run: &Run) {
        self.note(run, |counts| &mut counts.offered);
    }

    /// `run` left at the far end.
    pub fn delivered(&mut self, run: &Run) {
        self.note(run, |counts| &mut counts.delivered);
    }

    /// `run` is a copy.
    pub fn duplicated(&mut self, run: &Run) {
        self.note(run, |counts| &mut counts.duplicated);
    }

    /// `run` was dropped.
    pub fn dropped(&mut self, run: &Run, reason: Reason) {
        self.note(run, |counts| &mut counts.dropped[reason as usize]);
        if run.ecn.is_l4s() {
            self.note(run, |counts| &mut counts.l4s_dropped);
        }
    }

    /// `run` now carries CE in place of `before`.
    pub fn marked(&mut self, run: &Run, before: Ecn) {
        self.note(run, |counts| &mut counts.marked);
        if before == Ecn::Ect1 {
            self.note(run, |counts| &mut counts.l4s_marked);
        }
    }

    /// `run` now has a flipped bit.
    pub fn corrupted(&mut self, run: &Run) {
        self.note(run, |counts| &mut counts.corrupted);
    }

    /// A radio block was sent in the slot that begins at `at_ns`.
    pub fn block(&mut self, at_ns: u64, failed: bool) {
        self.total.blocks_sent += 1;
        self.total.blocks_failed += u64::from(failed);
        if let Some(series) = &mut self.series {
            let ms = (at_ns / 1_000_000).max(series.first_ms);
            let blocks = series.blocks.entry(ms).or_default();
            blocks.sent += 1;
            blocks.failed += u64::from(failed);
        }
    }

    /// A block takes `air_ns` of the slot of `slot_ns` that begins at `start_ns`. A slot in several milliseconds has an
    /// even part of it in each.
    pub fn air(&mut self, start_ns: u64, slot_ns: u64, air_ns: u64) {
        self.total.air_ns += air_ns;
        let Some(series) = &mut self.series else {
            return;
        };
        let end_ns = start_ns + slot_ns;
        let up_to = |at_ns: u64| {
            let part = u128::from(air_ns) * u128::from(at_ns - start_ns) / u128::from(slot_ns);
            u64::try_from(part).unwrap_or(air_ns)
        };
        let mut before_ns = 0;
        for ms in start_ns / 1_000_000..end_ns.div_ceil(1_000_000) {
            let until_ns = up_to(end_ns.min((ms + 1) * 1_000_000));
            let blocks = series.blocks.entry(ms.max(series.first_ms)).or_default();
            blocks.air_ns += until_ns - before_ns;
            before_ns = until_ns;
        }
    }

    /// The radio link failed at `at_ns`.
    pub fn link_failed(&mut self, at_ns: u64) {
        self.total.link_failures += 1;
        if let Some(series) = &mut self.series {
            series.row(at_ns).counts.link_failures += 1;
        }
    }

    /// The queue of this stage holds `backlog` since `at_ns`. A link's queue is the sum over its stages.
    pub fn queue_level(&mut self, at_ns: u64, stage: usize, backlog: Backlog) {
        if let Some(series) = &mut self.series {
            if series.levels.len() <= stage {
                series.levels.resize(stage + 1, 0);
            }
            series.levels[stage] = backlog.bytes;
            let bytes = series.levels.iter().sum();
            let row = series.row(at_ns);
            row.queue_bytes = bytes;
            row.queue_peak_bytes = row.queue_peak_bytes.max(bytes);
        }
    }

    /// `run`, which arrived at `run.at_ns`, left the queue at `at_ns`.
    pub fn sojourn(&mut self, at_ns: u64, run: &Run) {
        let time_ns = at_ns.saturating_sub(run.at_ns);
        self.waited.add(time_ns, u64::from(run.count));
        if let Some(series) = &mut self.series {
            let row = series.row(at_ns);
            row.sojourn.add(time_ns);
            if run.ecn.is_l4s() {
                row.l4s_sojourn.add(time_ns);
            }
        }
    }

    /// Takes the rows of every millisecond that ended at or before `now_ns`; the link must have been polled to
    /// `now_ns`, so that these rows are complete. Empty without a series.
    ///
    /// # Panics
    /// If there are more rows than addresses, which no memory holds.
    pub fn finished_rows(&mut self, now_ns: u64) -> Vec<MillisecondRow> {
        let Some(series) = &mut self.series else {
            return Vec::new();
        };
        let current = now_ns / 1_000_000;
        if current <= series.first_ms {
            return Vec::new();
        }
        series.row((current - 1) * 1_000_000);
        let finished = usize::try_from(current - series.first_ms).expect("rows fit memory");
        let mut rows: Vec<MillisecondRow> = series.rows.drain(..finished).collect();
        let later = series.blocks.split_off(&current);
        let blocks = std::mem::replace(&mut series.blocks, later);
        for row in &mut rows {
            let blocks = blocks.get(&row.at_ms).copied().unwrap_or_default();
            row.counts.blocks_sent += blocks.sent;
            row.counts.blocks_failed += blocks.failed;
            row.counts.air_ns += blocks.air_ns;
        }
        series.queue_bytes = rows
            .last()
            .map_or(series.queue_bytes, |row| row.queue_bytes);
        series.first_ms = current;
        rows
    }
}

impl Counts {
    /// Segments dropped for any reason.
    #[must_use]
    pub fn dropped_total(&self) -> Counter {
        self.dropped
            .iter()
            .fold(Counter::default(), |sum, counter| Counter {
                segments: sum.segments + counter.segments,
                bytes: sum.bytes + counter.bytes,
            })
    }

    /// Segments that are not accounted for: `offered + duplicated - delivered - dropped`. A difference to the link's
    /// backlog is a bug.
    #[must_use]
    pub fn unaccounted_segments(&self) -> i128 {
        i128::from(self.offered.segments) + i128::from(self.duplicated.segments)
            - i128::from(self.delivered.segments)
            - i128::from(self.dropped_total().segments)
    }
}

/// An event of the segments of a run; `run.at_ns` is its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The segments.
    pub run: Run,
    /// What happened to them.
    pub event: Event,
}

/// What happened to segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// They entered the link, or were made as copies in it.
    Entered,
    /// They left the queue of the stage that sends blocks, for a block (the first time counts), or the first queue of a
    /// link without blocks.
    Dequeued,
    /// They left that stage: its server has sent them, or its receiver has them in order.
    Left,
    /// They left the stage with this index in the link: another one that takes time, but not the last one.
    Passed(usize),
    /// The block with this number was built with them, or with a piece of one, for a slot that begins at this time.
    Sent(u64),
    /// They left the link.
    Delivered,
    /// They were dropped.
    Dropped(Reason),
}

/// The events of a link since they were last taken, in the order in which the link processed them.
#[derive(Debug, Default)]
pub struct PacketLog {
    entries: Vec<Entry>,
    blocks: Vec<BlockRecord>,
    /// The stage whose queue is logged.
    stage: Option<usize>,
    /// The stages that record [`Event::Passed`] if their queue is not logged, one bit each.
    passed: u64,
}

impl PacketLog {
    /// Records `event`.
    pub fn push(&mut self, run: Run, event: Event) {
        self.entries.push(Entry { run, event });
    }

    /// `run` left the queue of `stage` at `at_ns`.
    pub fn dequeued(&mut self, at_ns: u64, run: &Run, stage: usize) {
        if *self.stage.get_or_insert(stage) == stage {
            self.push(Run { at_ns, ..*run }, Event::Dequeued);
        }
    }

    /// The queue of `stage` is logged.
    pub const fn watch(&mut self, stage: usize) {
        self.stage = Some(stage);
    }

    /// The time at which runs pass this stage is logged too.
    pub const fn watch_passing(&mut self, stage: usize) {
        if stage < u64::BITS as usize {
            self.passed |= 1 << stage;
        }
    }

    /// `run` left `stage`.
    pub fn left(&mut self, run: &Run, stage: usize) {
        if self.stage == Some(stage) {
            self.push(*run, Event::Left);
        } else if stage < u64::BITS as usize && self.passed >> stage & 1 == 1 {
            self.push(*run, Event::Passed(stage));
        }
    }

    /// Records these transmissions.
    pub fn sent(&mut self, blocks: Vec<BlockRecord>) {
        for block in blocks {
            for &run in &block.contents {
                let (built, sent) = (block.built_ns, block.slot.start_ns);
                self.push(
                    Run {
                        at_ns: built,
                        ..run
                    },
                    Event::Dequeued,
                );
                self.push(Run { at_ns: sent, ..run }, Event::Sent(block.number));
            }
            self.blocks.push(block);
        }
    }

    /// Takes the events.
    pub fn take_entries(&mut self) -> std::vec::Drain<'_, Entry> {
        self.entries.drain(..)
    }

    /// Takes the transmissions of blocks.
    pub fn take_blocks(&mut self) -> std::vec::Drain<'_, BlockRecord> {
        self.blocks.drain(..)
    }
}
