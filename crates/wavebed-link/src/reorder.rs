//! Reordering: some segments are delayed, so that later ones overtake them.

use std::collections::VecDeque;

use crate::chance::{Chance, stretches};
use crate::random_stream::RandomStream;
use crate::run::{Run, RunFlags};
use crate::stage::{Backlog, Outlet, Stage};

/// Delays each wire segment by a fixed time with a probability; the others pass at once.
#[derive(Debug)]
pub struct Reorder {
    chance: Chance,
    delay_ns: u64,
    random: RandomStream,
    /// Index of the next wire segment.
    index: u64,
    /// Delayed runs, stamped with the time at which they leave. The common delay keeps them in order.
    held: VecDeque<Run>,
    backlog: Backlog,
}

impl Reorder {
    /// Delays wire segments by `delay_ns` with `probability`.
    ///
    /// # Panics
    /// If `probability` is not within 0 to 1.
    #[must_use]
    pub fn new(probability: f64, delay_ns: u64, random: RandomStream) -> Self {
        Self {
            chance: Chance::new(probability),
            delay_ns,
            random,
            index: 0,
            held: VecDeque::new(),
            backlog: Backlog::default(),
        }
    }
}

impl Stage for Reorder {
    fn accept(&mut self, run: Run, out: &mut Outlet<'_>) {
        if run.flags.has(RunFlags::CONTROL) {
            out.forward(run);
            return;
        }
        let Self {
            chance,
            delay_ns,
            random,
            index,
            held,
            backlog,
        } = self;
        let outcome = || {
            let hit = chance.hits(*random, *index);
            *index += 1;
            hit
        };
        stretches(run, outcome, |stretch, hit| {
            if hit {
                *backlog += Backlog {
                    segments: u64::from(stretch.count),
                    bytes: stretch.bytes(),
                };
                held.push_back(Run {
                    at_ns: stretch.at_ns.saturating_add(*delay_ns),
                    ..stretch
                });
            } else {
                out.forward(stretch);
            }
        });
    }

    fn poll(&mut self, now_ns: u64, out: &mut Outlet<'_>) {
        while self.held.front().is_some_and(|run| run.at_ns <= now_ns) {
            let Some(run) = self.held.pop_front() else {
                break;
            };
            self.backlog.segments -= u64::from(run.count);
            self.backlog.bytes -= run.bytes();
            out.forward(run);
        }
    }

    fn next_event_ns(&self) -> Option<u64> {
        self.held.front().map(|run| run.at_ns)
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }
}
