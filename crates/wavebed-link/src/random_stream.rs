//! Random streams keyed by stage and index: a decision does not depend on earlier draws.

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

#[cfg(test)]
mod tests {
    use super::RandomStream;

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
}
