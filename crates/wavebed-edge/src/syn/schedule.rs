//! When the kernel sends the SYNs of a connection that nobody answers.
//!
//! Linux 6.18, `tcp_retransmit_timer` and `tcp_write_timeout`: the timeout is the initial one for the first
//! `tcp_syn_linear_timeouts` + 1 timers and doubles from then on; the kernel gives up at the end of the timer after
//! `tcp_syn_linear_timeouts` + `tcp_syn_retries` retries; or, with few retries, at the end of the first timer after
//! 2^(`tcp_syn_retries` + 1) - 1 initial timeouts, which is sooner.

use std::time::Duration;

/// The kernel's initial timeout without a program (RFC 6298, 2.1), seconds.
pub const KERNEL_TIMEOUT_S: f64 = 1.0;
/// The longest timeout (`TCP_RTO_MAX`), seconds.
const LONGEST_S: f64 = 120.0;
/// Greatest value of the kernel's settings (`MAX_TCP_SYNCNT`).
pub const MOST_RETRIES: u32 = 127;

/// Timeouts of an unanswered SYN.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Schedule {
    /// The first timeout, seconds.
    pub first_s: f64,
    /// `tcp_syn_linear_timeouts`.
    pub linear: u32,
    /// `tcp_syn_retries`.
    pub retries: u32,
    /// Up to this retry the timeout is at most [`KERNEL_TIMEOUT_S`].
    pub limited: u32,
}

impl Schedule {
    /// The kernel's own.
    #[must_use]
    pub const fn of_kernel(linear: u32, retries: u32) -> Self {
        Self {
            first_s: KERNEL_TIMEOUT_S,
            linear,
            retries,
            limited: 0,
        }
    }

    /// SYNs each `interval_s` until `dense_s` have passed. With `limit` they are then, at any time, at least as close
    /// to each other as the SYNs of the `kernel`; and the last timer ends no sooner than the kernel's.
    #[must_use]
    pub fn dense(interval_s: f64, dense_s: f64, kernel: &Self, limit: bool) -> Self {
        let mut schedule = Self {
            first_s: interval_s,
            linear: whole((dense_s / interval_s - 1e-9).ceil()).clamp(1, MOST_RETRIES),
            retries: MOST_RETRIES,
            limited: 0,
        };
        if limit {
            schedule.limited = MOST_RETRIES;
            // The kernel's linear time, in which it sends each second.
            let linear_s = kernel.first_s * f64::from(kernel.linear + 1);
            let times = schedule.retries_s();
            let before = times.iter().take_while(|time| **time < linear_s - 1e-9);
            schedule.limited = u32::try_from(before.count()).unwrap_or(MOST_RETRIES);
        }
        schedule.retries = 1;
        while schedule.patience_s() < kernel.patience_s() && schedule.retries < MOST_RETRIES {
            schedule.retries += 1;
        }
        schedule
    }

    /// The times of all retries after the first SYN, seconds.
    #[must_use]
    pub fn retries_s(&self) -> Vec<f64> {
        let mut timers = self.timers();
        timers.pop();
        timers
            .iter()
            .scan(0.0, |at, timer| {
                *at += timer;
                Some(*at)
            })
            .collect()
    }

    /// How long the kernel tries, seconds.
    #[must_use]
    pub fn patience_s(&self) -> f64 {
        self.timers().iter().sum()
    }

    fn timers(&self) -> Vec<f64> {
        let mut timer_s = self.first_s;
        (0..=self.linear + self.retries)
            .map(|number| {
                if number > self.linear {
                    timer_s = (timer_s * 2.0).min(if number <= self.limited {
                        KERNEL_TIMEOUT_S
                    } else {
                        LONGEST_S
                    });
                }
                timer_s
            })
            .collect()
    }
}

/// How often a SYN-ACK is sent again so that the kernel waits for `patience_s` at least, doubling from `first_s`.
#[must_use]
pub fn answer_retries(first_s: f64, patience_s: f64) -> u32 {
    let mut retries = 1;
    let waits_s = |retries: u32| first_s * (f64::from(retries + 1).exp2() - 1.0);
    while waits_s(retries) < patience_s && retries < MOST_RETRIES {
        retries += 1;
    }
    retries
}

/// How long the kernel waits for the answer to a SYN-ACK that it repeats `retries` times, seconds.
#[must_use]
pub fn answer_patience_s(retries: u32) -> f64 {
    KERNEL_TIMEOUT_S * (f64::from(retries + 1).exp2() - 1.0)
}

/// The timeout in ticks of the kernel's timers, one less than `time` has: a timer begins with the next tick.
#[must_use]
pub fn ticks(time: Duration, per_s: u32) -> u32 {
    let ticks = time.as_micros() * u128::from(per_s);
    u32::try_from(ticks.div_ceil(1_000_000)).map_or(u32::MAX, |ticks| ticks.max(2) - 1)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a conversion from floating point keeps to the bounds of the type"
)]
const fn whole(number: f64) -> u32 {
    number as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNEL: Schedule = Schedule::of_kernel(4, 6);

    #[test]
    fn the_kernel_s_own_schedule_is_the_documented_one() {
        // Documentation/networking/ip-sysctl.rst: linear 4 and retries 6 are 1, 1, 1, 1, 1, 2, 4, … and 131 s.
        let times = [1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 11.0, 19.0, 35.0, 67.0];
        assert_eq!(KERNEL.retries_s(), times);
        assert!((KERNEL.patience_s() - 131.0).abs() < 1e-9);
    }

    #[test]
    fn the_first_second_is_dense_and_the_patience_is_kept() {
        for limit in [false, true] {
            let schedule = Schedule::dense(0.1, 1.0, &KERNEL, limit);
            assert_eq!(schedule.linear, 10);
            let times = schedule.retries_s();
            for (number, time) in (1..=11).zip(&times) {
                assert!((time - 0.1 * f64::from(number)).abs() < 1e-9, "{times:?}");
            }
            assert!((times[11] - 1.3).abs() < 1e-9, "then it doubles: {times:?}");
            assert!(schedule.patience_s() >= 131.0);
            let fewer = Schedule {
                retries: schedule.retries - 1,
                ..schedule
            };
            assert!(fewer.patience_s() < 131.0, "and no more than needed");
        }
    }

    #[test]
    fn with_a_limit_no_outage_costs_more_than_the_kernel_s_schedule() {
        let schedule = Schedule::dense(0.1, 1.0, &KERNEL, true);
        assert_eq!((schedule.limited, schedule.retries), (16, 12));
        // The first retry after the end of an outage, per schedule.
        let (ours, theirs) = (schedule.retries_s(), KERNEL.retries_s());
        let after = |times: &[f64], end: f64| times.iter().copied().find(|time| *time >= end);
        for tenth in 1..670 {
            let end = f64::from(tenth) / 10.0 - 0.05;
            let (ours, theirs) = (after(&ours, end), after(&theirs, end));
            let (ours, theirs) = (ours.expect("a retry"), theirs.expect("a retry"));
            // Half a second is the remainder of the dense time.
            assert!(ours <= theirs + 0.5 + 1e-9, "{end} s: {ours} and {theirs}");
        }
    }

    #[test]
    fn the_kernel_s_bounds_hold() {
        let schedule = Schedule::dense(0.001, 10.0, &KERNEL, false);
        assert_eq!(schedule.linear, MOST_RETRIES);
        let patient = Schedule::of_kernel(127, 127);
        assert!(Schedule::dense(1.0, 0.5, &patient, true).retries <= MOST_RETRIES);
    }

    #[test]
    fn answers_keep_their_patience() {
        assert!((answer_patience_s(5) - 63.0).abs() < 1e-9);
        assert_eq!(answer_retries(0.1, 63.0), 9);
        assert_eq!(answer_retries(KERNEL_TIMEOUT_S, 63.0), 5);
    }

    #[test]
    fn a_timeout_is_a_whole_number_of_ticks() {
        assert_eq!(ticks(Duration::from_millis(100), 250), 24);
        assert_eq!(ticks(Duration::from_millis(101), 250), 25);
        assert_eq!(ticks(Duration::from_millis(100), 1000), 99);
        assert_eq!(ticks(Duration::from_millis(20), 100), 1);
    }
}
