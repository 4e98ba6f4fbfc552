//! When frames are due.

use crate::sender::Job;

/// The longest interval: 2^32 ns, 4.3 s.
const LEAST_PPS: f64 = 0.25;
/// Nobody sends faster, and the interval still has 32 bits.
const MOST_PPS: f64 = 1e9;

/// Nanoseconds between two frames in units of 2^-32, from a rate; `None` if the rate is not within 0.25 to 10^9 frames per
/// second.
///
/// It is rounded to 2^-33 ns, so that even frame 10^9 is due within a nanosecond of its exact time.
#[must_use]
pub fn interval_q32(rate_pps: f64) -> Option<u64> {
    if !(LEAST_PPS..=MOST_PPS).contains(&rate_pps) {
        return None;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "positive, and below 2^64 at the least rate"
    )]
    Some((1e9 * 2_f64.powi(32) / rate_pps).round() as u64)
}

impl Job {
    /// When frame `n` is due, monotonic, nanoseconds.
    #[must_use]
    pub fn due_ns(&self, n: u64) -> u64 {
        let after = (u128::from(n) * u128::from(self.interval_q32)) >> 32;
        self.start_ns
            .saturating_add(u64::try_from(after).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn job(interval_q32: u64) -> Job {
        Job {
            trial: 0,
            frames: 0,
            interval_q32,
            batch: 1,
            start_ns: 5,
            deadline_ns: u64::MAX,
        }
    }

    #[test]
    fn gigabit_line_rate_does_not_drift_over_a_billion_frames() {
        // 84 bytes of 8 ns: 672 ns, exactly.
        let job = job(interval_q32(1e9 / 672.0).unwrap());
        assert_eq!(job.due_ns(0), 5);
        assert_eq!(job.due_ns(1_000_000_000), 672_000_000_005);
    }

    #[test]
    fn without_a_pace_all_is_due_at_once() {
        assert_eq!(job(0).due_ns(u64::MAX), 5);
    }

    #[test]
    fn rates_that_make_no_sense_have_no_interval() {
        for rate in [0.0, -1.0, 0.2, 2e9, f64::NAN, f64::INFINITY] {
            assert_eq!(interval_q32(rate), None);
        }
    }

    proptest! {
        #[test]
        fn a_frame_is_due_at_its_exact_time(rate in 1_u32..20_000_000, n in 0..1_000_000_000_u64) {
            let exact = 5 + u128::from(n) * 1_000_000_000 / u128::from(rate);
            let due = u128::from(job(interval_q32(rate.into()).unwrap()).due_ns(n));
            prop_assert!(due.abs_diff(exact) <= 1 + exact / (1 << 50), "{due} {exact}");
        }

        #[test]
        fn due_times_never_step_back(interval: u64, n in 0..u64::MAX) {
            let job = job(interval);
            prop_assert!(job.due_ns(n) <= job.due_ns(n + 1));
        }
    }
}
