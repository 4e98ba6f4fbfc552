//! Random streams keyed by stage and index: a decision does not depend on earlier draws.

use crate::run::Run;

/// The generator of one stage: a counter-based `SplitMix64` (Steele, Lea, Flood: "Fast splittable pseudorandom
/// number generators", OOPSLA 2014), whose value at an index needs no state.
#[derive(Clone, Copy, Debug)]
pub struct RandomStream {
    key: u64,
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl RandomStream {
    /// The generator of `stage` in a trial with `seed`.
    #[must_use]
    pub const fn new(seed: u64, stage: u64) -> Self {
        Self {
            key: mix(mix(seed.wrapping_add(GOLDEN)) ^ mix(stage.wrapping_mul(GOLDEN))),
        }
    }

    /// The generator of one `process` within the stage (a HARQ process, the second draw of a model).
    #[must_use]
    pub const fn process(self, process: u64) -> Self {
        Self {
            key: mix(self.key ^ mix(process.wrapping_add(1).wrapping_mul(GOLDEN))),
        }
    }

    /// 64 uniform random bits for `index`.
    #[must_use]
    pub const fn word(self, index: u64) -> u64 {
        mix(self.key.wrapping_add(index.wrapping_mul(GOLDEN)))
    }

    /// A uniform number in [0, 1) for `index`, with 53 random bits.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit an f64 exactly")]
    pub const fn unit(self, index: u64) -> f64 {
        (self.word(index) >> 11) as f64 / (1u64 << 53) as f64
    }
}

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
    use super::{Chance, RandomStream, stretches};
    use crate::run::{Ecn, Run, RunFlags};

    #[test]
    fn random_depends_on_key_and_index_only() {
        let random = RandomStream::new(7, 3);
        let forwards: Vec<u64> = (0..100).map(|i| random.word(i)).collect();
        let backwards: Vec<u64> = (0..100).rev().map(|i| random.word(i)).collect();
        assert!(forwards.iter().eq(backwards.iter().rev()));
        assert_ne!(RandomStream::new(7, 4).word(0), random.word(0));
        assert_ne!(RandomStream::new(8, 3).word(0), random.word(0));
        assert_ne!(random.process(1).word(0), random.process(2).word(0));
    }

    #[test]
    fn unit_is_uniform() {
        let random = RandomStream::new(1, 1);
        let mut bins = [0u32; 16];
        for i in 0..160_000 {
            let bin = (0..16u8)
                .rev()
                .find(|&bin| random.unit(i) * 16.0 >= f64::from(bin));
            bins[usize::from(bin.expect("not negative"))] += 1;
        }
        // Binomial(160000, 1/16): sd 96.8; five of them.
        assert!(bins.iter().all(|&n| n.abs_diff(10_000) < 485), "{bins:?}");
    }

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
