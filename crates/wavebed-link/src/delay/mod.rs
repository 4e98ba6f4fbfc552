//! Delay: the time that a wire segment spends in the link, independent of other traffic.

mod distribution;
mod normal;

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

pub use distribution::{Distribution, Shape};

use crate::chance::stretches;
use crate::conditions::Conditions;
use crate::counters::Reason;
use crate::pattern::{Clock, Cursor, End, Kind, Pattern, Playback};
use crate::random_stream::RandomStream;
use crate::run::{Run, RunFlags};
use crate::stage::{Backlog, Change, Outlet, Stage};
use distribution::Sampler;

/// Delays each wire segment.
///
/// Without `reorder`, a segment leaves when its delay is over and all earlier segments have left. With `reorder`, it
/// leaves when its delay is over.
#[derive(Debug)]
pub struct Delay {
    source: Source,
    waiting: Waiting,
    backlog: Backlog,
    most_segments: u64,
    /// Copies of the runs that arrived since they were last taken, if they are kept.
    settled: Option<Vec<Run>>,
}

/// Source of the delays.
#[derive(Debug)]
enum Source {
    Constant(u64),
    Distribution(Sampler),
    /// `delay_s` over time.
    OverTime(Cursor),
    /// `delay_s` by the index of the wire segment; the index of the next one.
    ByIndex(Cursor, u64),
}

impl Source {
    /// The delays of `pattern` from its position `start` on; `None` without a delay column.
    fn pattern(pattern: Arc<Pattern>, end: End, start: u64, now_ns: u64) -> Option<Self> {
        match pattern.kind() {
            Kind::Packets if pattern.delay_ns().is_some() => {
                Some(Self::ByIndex(Cursor::new(pattern, end, start, 0), 0))
            }
            _ => Self::play(Playback {
                pattern,
                end,
                clock: Clock::new(start, now_ns),
            }),
        }
    }

    /// The delays over time of a pattern that is played by its clock.
    fn play(playback: Playback) -> Option<Self> {
        playback.pattern.delay_ns()?;
        Some(Self::OverTime(Cursor::of(playback)))
    }

    /// The common delay of all segments of `run`, if it is known without a draw for each.
    fn common(&mut self, run: &Run) -> Common {
        let control = run.flags.has(RunFlags::CONTROL);
        match self {
            Self::Constant(delay_ns) => Common::Delay(*delay_ns),
            Self::OverTime(cursor) => Common::new(delay_at(cursor, run.at_ns)),
            Self::Distribution(sampler) if control => Common::Delay(sampler.mean_ns()),
            Self::Distribution(_) => Common::No,
            Self::ByIndex(cursor, index) => {
                let common = Common::new(delay_at(cursor, *index));
                if control {
                    return common;
                }
                if cursor.until() - *index < u64::from(run.count) {
                    return Common::No;
                }
                *index += u64::from(run.count);
                common
            }
        }
    }

    /// The delay at `now_ns` as far as it is known without a segment: the mean of a distribution.
    fn known(&self, now_ns: u64) -> Option<u64> {
        match self {
            Self::Constant(delay_ns) => Some(*delay_ns),
            Self::Distribution(sampler) => Some(sampler.mean_ns()),
            Self::OverTime(cursor) => {
                let row = cursor.row_at(now_ns)?;
                cursor.pattern().delay_ns().map(|delays| delays[row])
            }
            Self::ByIndex(..) => None,
        }
    }

    /// The delay of the next segment; `None` after the end of a pattern.
    fn next(&mut self, at_ns: u64) -> Option<u64> {
        match self {
            Self::Constant(delay_ns) => Some(*delay_ns),
            Self::OverTime(cursor) => delay_at(cursor, at_ns),
            Self::Distribution(sampler) => Some(sampler.next_ns()),
            Self::ByIndex(cursor, index) => {
                let delay_ns = delay_at(cursor, *index);
                *index += 1;
                delay_ns
            }
        }
    }
}

/// The common delay of a run.
enum Common {
    /// This one, nanoseconds.
    Delay(u64),
    /// The pattern has ended.
    Ended,
    /// Unknown before a draw for each segment.
    No,
}

impl Common {
    fn new(delay_ns: Option<u64>) -> Self {
        delay_ns.map_or(Self::Ended, Self::Delay)
    }
}

/// The delay at `position`; `None` after the end of the pattern.
fn delay_at(cursor: &mut Cursor, position: u64) -> Option<u64> {
    let row = cursor.seek(position)?;
    cursor.pattern().delay_ns().map(|delays| delays[row])
}

/// Segments in flight; runs are stamped with the time at which they leave.
#[derive(Debug)]
enum Waiting {
    InOrder {
        runs: VecDeque<Run>,
        last_due_ns: u64,
    },
    ByTime {
        runs: BinaryHeap<Held>,
        arrivals: u64,
    },
}

impl Delay {
    fn new(source: Source, reorder: bool) -> Self {
        let waiting = if reorder {
            Waiting::ByTime {
                runs: BinaryHeap::new(),
                arrivals: 0,
            }
        } else {
            Waiting::InOrder {
                runs: VecDeque::new(),
                last_due_ns: 0,
            }
        };
        Self {
            source,
            waiting,
            backlog: Backlog::default(),
            most_segments: u64::MAX,
            settled: None,
        }
    }

    /// With at most this many segments in flight: one that arrives beyond them is dropped.
    #[must_use]
    pub fn limited(self, most_segments: u64) -> Self {
        Self {
            most_segments,
            ..self
        }
    }

    /// The part of `run` that there is room for; the rest is dropped.
    fn admitted(&self, mut run: Run, out: &mut Outlet<'_>) -> Option<Run> {
        let room = self.most_segments.saturating_sub(self.backlog.segments);
        match u16::try_from(room) {
            Ok(0) => {
                out.drop(run, Reason::Overflow);
                None
            }
            Ok(room) if room < run.count => {
                let front = run.split_front(room);
                out.drop(run, Reason::Overflow);
                Some(front)
            }
            _ => Some(run),
        }
    }

    /// A constant delay.
    #[must_use]
    pub fn constant(delay_ns: u64, reorder: bool) -> Self {
        Self::new(Source::Constant(delay_ns), reorder)
    }

    /// A delay for each wire segment, drawn by its index.
    ///
    /// # Panics
    /// If the correlation is not within 0 to 1.
    #[must_use]
    pub fn distribution(distribution: Distribution, reorder: bool, random: RandomStream) -> Self {
        Self::new(
            Source::Distribution(Sampler::new(distribution, random)),
            reorder,
        )
    }

    /// The `delay_s` of a pattern: that of the time of arrival (`steps`) or of the index of the wire segment
    /// (`packets`). The position of the pattern at time 0, or at index 0, is `start`.
    ///
    /// # Panics
    /// If the pattern has no `delay_s` column.
    #[must_use]
    pub fn pattern(pattern: Arc<Pattern>, end: End, start: u64, reorder: bool) -> Self {
        let source =
            Source::pattern(pattern, end, start, 0).expect("the pattern has a delay_s column");
        Self::new(source, reorder)
    }

    fn hold(&mut self, run: Run, due_ns: u64) {
        self.backlog += Backlog {
            segments: u64::from(run.count),
            bytes: run.bytes(),
        };
        self.waiting.insert(run, due_ns, self.settled.as_mut());
    }

    /// Each segment of `run` gets its own delay. Without `reorder`, segments that wait for the same earlier one leave
    /// together.
    fn hold_each(&mut self, run: Run, out: &mut Outlet<'_>) {
        let Self {
            source,
            waiting,
            backlog,
            settled,
            ..
        } = self;
        let mut floor_ns = match waiting {
            Waiting::InOrder { last_due_ns, .. } => Some(*last_due_ns),
            Waiting::ByTime { .. } => None,
        };
        let due = || {
            let due_ns = run.at_ns.saturating_add(source.next(run.at_ns)?);
            floor_ns = floor_ns.map(|floor| floor.max(due_ns));
            Some(floor_ns.unwrap_or(due_ns))
        };
        stretches(run, due, |stretch, due_ns| match due_ns {
            Some(due_ns) => {
                *backlog += Backlog {
                    segments: u64::from(stretch.count),
                    bytes: stretch.bytes(),
                };
                waiting.insert(stretch, due_ns, settled.as_mut());
            }
            None => out.drop(stretch, Reason::Ended),
        });
    }
}

impl Waiting {
    fn insert(&mut self, run: Run, due_ns: u64, settled: Option<&mut Vec<Run>>) {
        match self {
            Self::InOrder { runs, last_due_ns } => {
                *last_due_ns = due_ns.max(*last_due_ns);
                let run = Run {
                    at_ns: *last_due_ns,
                    ..run
                };
                runs.push_back(run);
                if let Some(settled) = settled {
                    settled.push(run);
                }
            }
            Self::ByTime { runs, arrivals } => {
                runs.push(Held {
                    run: Run {
                        at_ns: due_ns,
                        ..run
                    },
                    arrival: *arrivals,
                });
                *arrivals += 1;
            }
        }
    }

    fn next_due_ns(&self) -> Option<u64> {
        match self {
            Self::InOrder { runs, .. } => runs.front().map(|run| run.at_ns),
            Self::ByTime { runs, .. } => runs.peek().map(|held| held.run.at_ns),
        }
    }

    fn take_due(&mut self, now_ns: u64) -> Option<Run> {
        if self.next_due_ns()? > now_ns {
            return None;
        }
        match self {
            Self::InOrder { runs, .. } => runs.pop_front(),
            Self::ByTime { runs, .. } => runs.pop().map(|held| held.run),
        }
    }
}

impl Stage for Delay {
    fn accept(&mut self, run: Run, out: &mut Outlet<'_>) {
        let Some(run) = self.admitted(run, out) else {
            return;
        };
        match self.source.common(&run) {
            Common::Delay(delay_ns) => self.hold(run, run.at_ns.saturating_add(delay_ns)),
            Common::Ended => out.drop(run, Reason::Ended),
            Common::No => self.hold_each(run, out),
        }
    }

    fn poll(&mut self, now_ns: u64, out: &mut Outlet<'_>) {
        while let Some(run) = self.waiting.take_due(now_ns) {
            self.backlog.segments -= u64::from(run.count);
            self.backlog.bytes -= run.bytes();
            out.forward(run);
        }
    }

    fn next_event_ns(&self) -> Option<u64> {
        self.waiting.next_due_ns()
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }

    fn keep_settled(&mut self) -> bool {
        let can = matches!(self.waiting, Waiting::InOrder { .. });
        if can {
            self.settled.get_or_insert_default();
        }
        can
    }

    fn take_settled(&mut self, settled: &mut Vec<Run>) {
        if let Some(kept) = &mut self.settled {
            settled.append(kept);
        }
    }

    fn least_stay_ns(&self) -> u64 {
        match self.source {
            Source::Constant(delay_ns) => delay_ns,
            _ => 0,
        }
    }

    fn apply(&mut self, now_ns: u64, change: &Change) -> bool {
        // Segments in flight keep their delay.
        let source = match change {
            Change::DelayNs(delay_ns) => Some(Source::Constant(*delay_ns)),
            Change::Pattern(pattern) => Source::pattern(pattern.clone(), End::Repeat, 0, now_ns),
            Change::Play(_) => change.playback(now_ns, End::Repeat).and_then(Source::play),
            Change::RateBps(_) | Change::Loss(_) | Change::Handover { .. } => None,
        };
        let taken = source.is_some();
        if let Some(source) = source {
            self.source = source;
        }
        taken
    }

    fn takes(&self) -> &'static [&'static str] {
        &["delay", "pattern"]
    }

    fn conditions(&self, now_ns: u64) -> Conditions {
        Conditions {
            delay_ns: self.source.known(now_ns),
            ..Conditions::default()
        }
    }
}

/// A heap entry; the top leaves next: the earliest, and of equals the first arrival.
#[derive(Debug)]
struct Held {
    run: Run,
    arrival: u64,
}

impl Held {
    const fn rank(&self) -> (u64, u64) {
        (self.run.at_ns, self.arrival)
    }
}

impl Ord for Held {
    fn cmp(&self, other: &Self) -> Ordering {
        other.rank().cmp(&self.rank())
    }
}

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Held {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}

impl Eq for Held {}
