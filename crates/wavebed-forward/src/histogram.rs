//! A log-linear histogram (as HDR Histogram): what a BPF program, a receiver in user space and a report all share.
//!
//! Values below 128 have a bucket each; above, every power of two is cut into 64 buckets, so that a value is known
//! within 1/64 (1.6 %). The unit is the nanosecond; values of 2^36 and more (68.7 s) share the last bucket.

use std::collections::BTreeMap;

/// Buckets of half a power of two: 64.
pub const HALF: usize = 64;
/// The first power of two that does not fit.
pub const TOP_BIT: u32 = 36;
/// How many buckets there are.
pub const BUCKETS: usize = (TOP_BIT as usize - 6) * HALF + HALF;

/// The bucket of a value.
///
/// Below 128 it is the value; else, with `e` the place of the highest bit (7 to 35), it is
/// `(e - 6) * 64 + (value >> (e - 6))`.
///
/// # Panics
/// Never: what is left of the value fits.
#[must_use]
pub fn bucket(value: u64) -> usize {
    if value < 2 * HALF as u64 {
        return usize::try_from(value).expect("below 128");
    }
    let exponent = value.ilog2();
    if exponent >= TOP_BIT {
        return BUCKETS - 1;
    }
    let shift = exponent - 6;
    shift as usize * HALF + usize::try_from(value >> shift).expect("below 128")
}

/// The values of a bucket: from the first, below the second. The last bucket also holds everything above it.
///
/// # Panics
/// If there is no such bucket.
#[must_use]
pub fn bounds(bucket: usize) -> (u64, u64) {
    assert!(bucket < BUCKETS, "there are {BUCKETS} buckets");
    if bucket < 2 * HALF {
        return (bucket as u64, bucket as u64 + 1);
    }
    let shift = bucket / HALF - 1;
    let start = (bucket - shift * HALF) as u64;
    (start << shift, (start + 1) << shift)
}

/// Counts of values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    counts: Box<[u64]>,
    least: u64,
    greatest: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            counts: vec![0; BUCKETS].into_boxed_slice(),
            least: u64::MAX,
            greatest: 0,
        }
    }
}

impl Histogram {
    /// Counts one value.
    pub fn add(&mut self, value: u64) {
        self.counts[bucket(value)] += 1;
        self.least = self.least.min(value);
        self.greatest = self.greatest.max(value);
    }

    /// The buckets that are not empty.
    ///
    /// # Panics
    /// Never: bucket numbers are short.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<u32, u64> {
        let all = self.counts.iter().enumerate();
        all.filter(|(_, count)| **count > 0)
            .map(|(bucket, count)| (u32::try_from(bucket).expect("short"), *count))
            .collect()
    }

    /// The least and the greatest value, if there was one.
    #[must_use]
    pub fn range(&self) -> Option<(u64, u64)> {
        (self.least <= self.greatest).then_some((self.least, self.greatest))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_power_of_two_begins_a_bucket() {
        for exponent in 0..TOP_BIT {
            let value = 1_u64 << exponent;
            assert_eq!(bounds(bucket(value)).0, value);
            assert_eq!(bounds(bucket(value - 1)).1, value);
        }
    }

    #[test]
    fn buckets_follow_each_other_without_a_gap() {
        for number in 1..BUCKETS {
            assert_eq!(bounds(number - 1).1, bounds(number).0);
            assert_eq!(bucket(bounds(number).0), number);
        }
        assert_eq!(bounds(BUCKETS - 1).1, 1 << TOP_BIT);
    }

    #[test]
    fn values_too_great_are_in_the_last_bucket() {
        for value in [1 << TOP_BIT, u64::MAX] {
            assert_eq!(bucket(value), BUCKETS - 1);
        }
    }

    #[test]
    fn nothing_counted_has_no_range() {
        assert_eq!(Histogram::default().range(), None);
        assert!(Histogram::default().counts().is_empty());
    }

    proptest! {
        #[test]
        fn a_value_is_within_its_bucket_and_known_to_a_64th(value in 0..1_u64 << TOP_BIT) {
            let (from, below) = bounds(bucket(value));
            prop_assert!((from..below).contains(&value));
            prop_assert!((below - from - 1) * 64 <= value);
        }

        #[test]
        fn what_is_counted_is_in_the_counts(values in prop::collection::vec(0..1_u64 << 40, 1..100)) {
            let mut histogram = Histogram::default();
            for value in &values {
                histogram.add(*value);
            }
            prop_assert_eq!(histogram.counts().values().sum::<u64>(), values.len() as u64);
            let (least, greatest) = histogram.range().unwrap();
            prop_assert_eq!(Some(&least), values.iter().min());
            prop_assert_eq!(Some(&greatest), values.iter().max());
        }
    }
}
