//! Random decisions of stages: a probability, and the split of runs where outcomes differ.

use crate::random_stream::RandomStream;
use crate::run::Run;

const STEPS: f64 = 9_007_199_254_740_992.0; // 2^53

/// A probability, ready to be compared with the random number of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chance {
    /// Number of hits among the 2^53 equally likely values of [`RandomStream::unit`].
    hits_of_steps: u64,
}

impl Chance {
    pub(crate) const ALWAYS: Self = Self {
        hits_of_steps: 1 << 53,
    };

    /// The chance of `probability`.
    ///
    /// # Panics
    /// If it is not within 0 to 1; the reader of the configuration checks it.
    pub(crate) fn new(probability: f64) -> Self {
        assert!(
            (0.0..=1.0).contains(&probability),
            "{probability} is not a probability"
        );
        // Scaling by a power of two is exact: an index is hit if and only if `random.unit(index) < probability`.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "at most 2^53, not negative"
        )]
        let hits_of_steps = (probability * STEPS).ceil() as u64;
        Self { hits_of_steps }
    }

    /// The probability.
    #[expect(clippy::cast_precision_loss, reason = "at most 2^53: exact")]
    pub(crate) const fn probability(self) -> f64 {
        self.hits_of_steps as f64 / STEPS
    }

    /// Whether `index` is hit.
    pub(crate) const fn hits(self, random: RandomStream, index: u64) -> bool {
        random.word(index) >> 11 < self.hits_of_steps
    }

    /// Whether the decision is certain.
    pub(crate) const fn certainty(self) -> Option<bool> {
        match self.hits_of_steps {
            0 => Some(false),
            hits if hits == Self::ALWAYS.hits_of_steps => Some(true),
            _ => None,
        }
    }
}

/// Calls `outcome` for each segment of `run` in order, and `emit` for each stretch of segments with equal outcomes.
pub(crate) fn stretches<F: PartialEq + Copy>(
    mut run: Run,
    mut outcome: impl FnMut() -> F,
    mut emit: impl FnMut(Run, F),
) {
    let mut current = outcome();
    let mut length = 1;
    for _ in 1..run.count {
        let next = outcome();
        if next == current {
            length += 1;
        } else {
            emit(run.split_front(length), current);
            current = next;
            length = 1;
        }
    }
    emit(run, current);
}

#[cfg(test)]
mod tests {
    use super::{Chance, stretches};
    use crate::random_stream::RandomStream;
    use crate::run::{Ecn, Run, RunFlags};

    #[test]
    fn a_chance_hits_exactly_where_the_unit_is_below_it() {
        let random = RandomStream::new(5, 9);
        for probability in [0.0, 1e-4, 0.1, 0.5, 0.999, 1.0] {
            let chance = Chance::new(probability);
            assert!((0..20_000).all(|i| chance.hits(random, i) == (random.unit(i) < probability)));
        }
        // A probability equal to the unit must not hit it.
        for index in 0..1000 {
            assert!(!Chance::new(random.unit(index)).hits(random, index));
        }
    }

    #[test]
    fn stretches_keep_equal_neighbours_together() {
        let run = Run {
            at_ns: 1,
            packet: 2,
            first: 10,
            count: 7,
            segment_bytes: 1500,
            last_bytes: 99,
            flow: 0,
            flip: 0,
            ecn: Ecn::NotEct,
            flags: RunFlags::default(),
        };
        let mut outcomes = [0, 0, 1, 1, 1, 0, 2].into_iter();
        let mut seen = Vec::new();
        stretches(
            run,
            || outcomes.next().unwrap(),
            |run, outcome| seen.push((run.first, run.count, run.bytes(), outcome)),
        );
        assert_eq!(
            seen,
            [
                (10, 2, 3000, 0),
                (12, 3, 4500, 1),
                (15, 1, 1500, 0),
                (16, 1, 99, 2)
            ]
        );
    }
}
