//! What is changed for how long: the settings of the network namespace and those of the program.

use std::time::Duration;

use wavebed_os::{clock, namespace};

use super::Options;
use super::program::{Limit, Settings};
use super::schedule::{KERNEL_TIMEOUT_S, Schedule, answer_patience_s, answer_retries, ticks};
use super::sysctl::{
    ANSWER_RETRIES, Change, LINEAR, LONGEST_TIMEOUT_MS, MPTCP_RETRIES, RETRIES, raise, read,
};
use crate::problem::Problem;

/// Linear retries where settings are all there is: for half a minute an outage costs at most one second more.
const LINEAR_WITHOUT_PROGRAM: u32 = 30;
/// The least limit of the timeout that the kernel takes, milliseconds; it is the kernel's own first timeout.
const LIMIT_MS: u32 = 1000;

/// The changes, and the times of SYNs that follow from them.
#[derive(Debug)]
pub struct Plan {
    pub schedule: Schedule,
    pub changes: Vec<Change>,
    pub program: Settings,
}

impl Plan {
    /// With the program.
    pub fn new(options: &Options) -> Result<Self, Problem> {
        let failed = |error: String| Problem::failed(format!("syn: {error}"));
        let per_s = clock::ticks_per_s().map_err(|error| failed(error.to_string()))?;
        let network = namespace::network_cookie().map_err(|error| failed(error.to_string()))?;
        let kernel = kernel_schedule();
        let (interval_s, dense_s) = (options.interval.as_secs_f64(), options.dense.as_secs_f64());
        let normal_ms = read(LONGEST_TIMEOUT_MS).filter(|ms| *ms > LIMIT_MS);
        let mut schedule = Schedule::dense(interval_s, dense_s, &kernel, normal_ms.is_some());
        let mut changes = vec![
            raise(LINEAR, schedule.linear),
            // Dense retries do not count.
            read(MPTCP_RETRIES).and_then(|retries| raise(MPTCP_RETRIES, retries + schedule.linear)),
        ];
        if options.answers {
            let before = read(ANSWER_RETRIES).unwrap_or(5);
            let retries = answer_retries(interval_s, answer_patience_s(before));
            changes.push(raise(ANSWER_RETRIES, retries));
        }
        // A setting that is larger already stays.
        schedule.linear = kernel.linear.max(schedule.linear);
        if read(LINEAR).is_none() {
            schedule.linear = 0;
        }
        let program = Settings {
            network,
            ticks: ticks(options.interval, per_s),
            answers: options.answers,
            harmless_retries: of_first_second(options.interval),
            more_retries: schedule.retries.saturating_sub(kernel.retries),
            limit: normal_ms.map(|normal_ms| Limit {
                ms: LIMIT_MS,
                normal_ms,
                retry: schedule.limited,
            }),
        };
        schedule.retries = kernel.retries + program.more_retries;
        Ok(Self {
            schedule,
            changes: changes.into_iter().flatten().collect(),
            program,
        })
    }

    /// Without the program, which the kernel refused for this reason.
    pub fn without_program(self, reason: &str) -> Result<Self, Problem> {
        let Some(linear) = read(LINEAR) else {
            return Err(Problem::unable(format!(
                "syn: {reason}; and this kernel has no net.{}: Linux 6.5 has",
                LINEAR.replace('/', ".")
            )));
        };
        Ok(Self {
            schedule: Schedule {
                linear: linear.max(LINEAR_WITHOUT_PROGRAM),
                ..kernel_schedule()
            },
            changes: raise(LINEAR, LINEAR_WITHOUT_PROGRAM).into_iter().collect(),
            ..self
        })
    }
}

/// The schedule of the kernel with its present settings.
fn kernel_schedule() -> Schedule {
    Schedule::of_kernel(read(LINEAR).unwrap_or(0), read(RETRIES).unwrap_or(6))
}

/// Retries within the first second, in which the kernel itself would send one; one more, because timers may end up to a
/// tick early.
fn of_first_second(interval: Duration) -> u32 {
    let second = Duration::from_secs_f64(KERNEL_TIMEOUT_S);
    let whole = second.as_micros().div_ceil(interval.as_micros().max(1));
    u32::try_from(whole + 1).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_of_the_first_second_leave_the_window() {
        assert_eq!(of_first_second(Duration::from_millis(100)), 11);
        assert_eq!(of_first_second(Duration::from_millis(300)), 5);
        assert_eq!(of_first_second(Duration::from_secs(1)), 2);
    }
}
