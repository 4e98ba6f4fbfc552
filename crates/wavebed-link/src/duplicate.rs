//! Duplication: some segments arrive twice.

use crate::chance::{Chance, stretches};
use crate::random_stream::RandomStream;
use crate::run::{Run, RunFlags};
use crate::stage::{Backlog, Outlet, Stage};

/// Copies each wire segment with a probability; the copy follows its original at once.
#[derive(Debug)]
pub struct Duplicate {
    chance: Chance,
    random: RandomStream,
    /// Index of the next wire segment.
    index: u64,
}

impl Duplicate {
    /// Duplication with `probability` for each wire segment, independently.
    ///
    /// # Panics
    /// If `probability` is not within 0 to 1.
    #[must_use]
    pub fn new(probability: f64, random: RandomStream) -> Self {
        Self {
            chance: Chance::new(probability),
            random,
            index: 0,
        }
    }
}

fn copy(run: Run, out: &mut Outlet<'_>) {
    let copy = Run {
        flags: run.flags.with(RunFlags::COPY),
        ..run
    };
    out.duplicated(&copy);
    out.forward(copy);
}

impl Stage for Duplicate {
    fn accept(&mut self, run: Run, out: &mut Outlet<'_>) {
        if run.flags.has(RunFlags::CONTROL) {
            out.forward(run);
            return;
        }
        let Self {
            chance,
            random,
            index,
        } = self;
        let outcome = || {
            let hit = chance.hits(*random, *index);
            *index += 1;
            hit
        };
        // Segments not yet forwarded: those since the last copy.
        let mut pending: Option<Run> = None;
        stretches(run, outcome, |mut stretch, hit| {
            if !hit {
                pending = Some(stretch);
                return;
            }
            loop {
                let rest = stretch.count > 1;
                let one = if rest {
                    stretch.split_front(1)
                } else {
                    stretch
                };
                out.forward(pending.take().map_or(one, |before| merged(before, one)));
                copy(one, out);
                if !rest {
                    break;
                }
            }
        });
        if let Some(run) = pending {
            out.forward(run);
        }
    }

    fn poll(&mut self, _now_ns: u64, _out: &mut Outlet<'_>) {}

    fn next_event_ns(&self) -> Option<u64> {
        None
    }

    fn takes_time(&self) -> bool {
        false
    }

    fn backlog(&self) -> Backlog {
        Backlog::default()
    }
}

/// `before` and the segment `one` that follows it in the same packet, as one run.
const fn merged(before: Run, one: Run) -> Run {
    Run {
        count: before.count + one.count,
        last_bytes: one.last_bytes,
        ..before
    }
}
