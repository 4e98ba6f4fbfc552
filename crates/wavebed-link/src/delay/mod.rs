//! Delay: the time that a wire segment spends on its way, whatever else travels.

mod distribution;
mod normal;

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

pub use distribution::{Distribution, Shape};

use crate::fate::stretches;
use crate::luck::Luck;
use crate::run::{Run, RunFlags};
use crate::stage::{Backlog, Change, Outlet, Stage};
use distribution::Sampler;

/// Delays each wire segment.
///
/// In order, a segment leaves when its delay is over and everything before it has left. With `reorder`, it leaves
/// when its delay is over.
#[derive(Debug)]
pub struct Delay {
    source: Source,
    waiting: Waiting,
    backlog: Backlog,
}

/// Where delays come from.
#[derive(Debug)]
enum Source {
    Constant(u64),
    Distribution(Sampler),
}

/// What is on its way; runs are stamped with the time at which they leave.
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
        }
    }

    /// The same delay for everything.
    #[must_use]
    pub fn constant(delay_ns: u64, reorder: bool) -> Self {
        Self::new(Source::Constant(delay_ns), reorder)
    }

    /// A delay for each wire segment, drawn by its index.
    ///
    /// # Panics
    /// If the correlation is not within 0 to 1.
    #[must_use]
    pub fn distribution(distribution: Distribution, reorder: bool, luck: Luck) -> Self {
        Self::new(
            Source::Distribution(Sampler::new(distribution, luck)),
            reorder,
        )
    }

    fn hold(&mut self, run: Run, delay_ns: u64) {
        self.backlog += Backlog {
            segments: u64::from(run.count),
            bytes: run.bytes(),
        };
        self.waiting.insert(run, run.at_ns.saturating_add(delay_ns));
    }
}

impl Waiting {
    fn insert(&mut self, run: Run, due_ns: u64) {
        match self {
            Self::InOrder { runs, last_due_ns } => {
                *last_due_ns = due_ns.max(*last_due_ns);
                runs.push_back(Run {
                    at_ns: *last_due_ns,
                    ..run
                });
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
    fn accept(&mut self, run: Run, _out: &mut Outlet<'_>) {
        let control = run.flags.has(RunFlags::CONTROL);
        match &mut self.source {
            Source::Constant(delay_ns) => {
                let delay_ns = *delay_ns;
                self.hold(run, delay_ns);
            }
            Source::Distribution(sampler) => {
                if control {
                    let delay_ns = sampler.mean_ns();
                    return self.hold(run, delay_ns);
                }
                let (waiting, backlog) = (&mut self.waiting, &mut self.backlog);
                *backlog += Backlog {
                    segments: u64::from(run.count),
                    bytes: run.bytes(),
                };
                // In order, segments that wait for the same one before them leave together.
                let mut floor_ns = match waiting {
                    Waiting::InOrder { last_due_ns, .. } => Some(*last_due_ns),
                    Waiting::ByTime { .. } => None,
                };
                let fate = || {
                    let due_ns = run.at_ns.saturating_add(sampler.next_ns());
                    floor_ns = floor_ns.map(|floor| floor.max(due_ns));
                    floor_ns.unwrap_or(due_ns)
                };
                stretches(run, fate, |stretch, due_ns| waiting.insert(stretch, due_ns));
            }
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

    fn apply(&mut self, _now_ns: u64, change: &Change) -> bool {
        // What is on its way keeps the delay that it set out with.
        match change {
            Change::DelayNs(delay_ns) => self.source = Source::Constant(*delay_ns),
            _ => return false,
        }
        true
    }
}

/// A run in a heap whose top is the next to leave: the earliest, and of equals the one that came first.
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
