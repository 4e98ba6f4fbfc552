//! Corruption: some segments arrive with a flipped bit, or are dropped where that bit makes the IP version invalid.

use crate::chance::{Chance, stretches};
use crate::counters::Reason;
use crate::random_stream::RandomStream;
use crate::run::{Run, RunFlags};
use crate::stage::{Backlog, Outlet, Stage};

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
