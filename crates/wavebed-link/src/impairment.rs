//! Duplication: some segments arrive twice.

use std::collections::VecDeque;

use crate::counters::Reason;
use crate::random_stream::{Chance, RandomStream, stretches};
use crate::run::{Backlog, Run, RunFlags};
use crate::stage::{Outlet, Stage};

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

/// Flips one bit of each wire segment with a probability.
#[derive(Debug)]
pub struct Corrupt {
    chance: Chance,
    /// Random stream of the decision.
    random: RandomStream,
    /// Random stream of the bit's position.
    place: RandomStream,
    /// Index of the next wire segment.
    index: u64,
}

impl Corrupt {
    /// Corruption with `probability` for each wire segment.
    ///
    /// # Panics
    /// If `probability` is not within 0 to 1.
    #[must_use]
    pub fn new(probability: f64, random: RandomStream) -> Self {
        Self {
            chance: Chance::new(probability),
            random,
            place: random.process(1),
            index: 0,
        }
    }

    /// The random word of `index`: its upper half, never zero, since zero means "not corrupted".
    fn flip(place: RandomStream, index: u64) -> u32 {
        let word = (place.word(index) >> 32) as u32;
        word.max(1)
    }
}

impl Stage for Corrupt {
    fn accept(&mut self, run: Run, out: &mut Outlet<'_>) {
        // A run has one flip only: a segment that an earlier stage corrupted is not changed.
        let passes = run.flags.has(RunFlags::CONTROL) || run.flip != 0;
        if passes {
            if !run.flags.has(RunFlags::CONTROL) {
                self.index += u64::from(run.count);
            }
            out.forward(run);
            return;
        }
        let Self {
            chance,
            random,
            place,
            index,
        } = self;
        let outcome = || {
            let flip = if chance.hits(*random, *index) {
                Self::flip(*place, *index)
            } else {
                0
            };
            *index += 1;
            flip
        };
        stretches(run, outcome, |mut stretch, flip| {
            if flip == 0 {
                out.forward(stretch);
                return;
            }
            // Two neighbours may have drawn the same word; each corrupted segment is a run of its own.
            loop {
                let rest = stretch.count > 1;
                let one = Run {
                    flip,
                    ..if rest {
                        stretch.split_front(1)
                    } else {
                        stretch
                    }
                };
                out.corrupted(&one);
                if one.is_unreadable() {
                    out.drop(one, Reason::CorruptedHeader);
                } else {
                    out.forward(one);
                }
                if !rest {
                    break;
                }
            }
        });
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
