//! Lateness: actual minus due time of leaving, and the wait in the input device, in a histogram with a relative
//! resolution of 1/32.

/// Sub-buckets per power of two.
const FINE: u32 = 32;

/// A log-linear histogram of nanoseconds, weighted by wire segments.
#[derive(Clone, Debug)]
pub struct Lateness {
    counts: Vec<u64>,
    total: u64,
    worst_ns: u64,
}

impl Default for Lateness {
    fn default() -> Self {
        Self {
            counts: vec![0; (64 * FINE) as usize],
            total: 0,
            worst_ns: 0,
        }
    }
}

impl Lateness {
    /// Counts `weight` segments that left `late_ns` after they were due.
    pub fn record(&mut self, late_ns: u64, weight: u64) {
        self.counts[Self::bucket(late_ns)] += weight;
        self.total += weight;
        self.worst_ns = self.worst_ns.max(late_ns);
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "bucket numbers are below 2048"
    )]
    fn bucket(value: u64) -> usize {
        if value < u64::from(FINE) {
            return value as usize;
        }
        let power = value.ilog2();
        let shift = power - FINE.trailing_zeros();
        ((shift + 1) * FINE) as usize + ((value >> shift) as usize - FINE as usize)
    }

    fn upper_edge(bucket: usize) -> u64 {
        let fine = FINE as usize;
        if bucket < fine {
            return bucket as u64;
        }
        let shift = bucket / fine - 1;
        (((fine + bucket % fine) as u64 + 1) << shift) - 1
    }

    /// The lateness that this fraction of the segments did not exceed, nanoseconds (upper edge of the bucket, at most
    /// 1/32 too high); `None` when nothing was counted.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        clippy::cast_possible_truncation,
        reason = "a rank"
    )]
    pub fn percentile(&self, fraction: f64) -> Option<u64> {
        if self.total == 0 {
            return None;
        }
        let rank = ((self.total as f64 * fraction).ceil() as u64).clamp(1, self.total);
        let mut seen = 0;
        for (bucket, &count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Some(Self::upper_edge(bucket).min(self.worst_ns));
            }
        }
        Some(self.worst_ns)
    }

    /// Segments in the buckets above that of `late_ns`: those later than it, to within 1/32.
    #[must_use]
    pub fn above(&self, late_ns: u64) -> u64 {
        self.counts[Self::bucket(late_ns) + 1..].iter().sum()
    }

    /// The worst, nanoseconds.
    #[must_use]
    pub const fn worst_ns(&self) -> u64 {
        self.worst_ns
    }

    /// Segments counted.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::Lateness;

    #[test]
    fn percentiles_are_within_a_thirty_second() {
        let mut late = Lateness::default();
        for value in 0..100_000u64 {
            late.record(value * 10, 1);
        }
        for (fraction, exact) in [(0.5, 499_990u64), (0.99, 989_990), (0.999, 998_990)] {
            let found = late.percentile(fraction).unwrap();
            assert!(
                found >= exact && found <= exact + exact / 32 + 1,
                "{fraction}: {found} against {exact}"
            );
        }
        assert_eq!(late.worst_ns(), 999_990);
    }

    #[test]
    fn every_value_falls_below_its_upper_edge() {
        for power in 0..63 {
            for value in [1u64 << power, (1u64 << power) + 1, (2u64 << power) - 1] {
                let bucket = Lateness::bucket(value);
                assert!(Lateness::upper_edge(bucket) >= value);
                assert!(bucket == 0 || Lateness::upper_edge(bucket - 1) < value);
            }
        }
    }

    #[test]
    fn later_segments_are_counted() {
        let mut late = Lateness::default();
        late.record(4_900_000, 5);
        late.record(5_400_000, 7);
        late.record(u64::MAX, 1);
        assert_eq!((late.above(5_000_000), late.above(u64::MAX)), (8, 0));
    }

    #[test]
    fn an_empty_histogram_has_no_percentile() {
        assert_eq!(Lateness::default().percentile(0.5), None);
    }
}
