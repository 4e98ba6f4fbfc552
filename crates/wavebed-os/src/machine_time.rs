//! Time lost by the machine: stolen processor time, suspension, and steps of the time of day.

use std::fs;
use std::io;

use crate::clock;

/// The machine's clocks and counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineTime {
    /// Processor time since boot, all processors, ticks.
    total_ticks: u64,
    /// The part of it that a hypervisor gave to others, ticks.
    stolen_ticks: u64,
    /// Boot time minus monotonic time: total suspension since boot.
    suspended_ns: u64,
    /// Time of day minus monotonic time.
    realtime_offset_ns: u64,
}

/// Lost time between two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Lost {
    /// Fraction of the time of all processors that a hypervisor gave to others; `None` if no tick has passed.
    pub stolen_fraction: Option<f64>,
    /// How long the machine was suspended, nanoseconds.
    pub suspended_ns: u64,
    /// By how much the time of day was set, nanoseconds; small values come from clock steering.
    pub clock_step_ns: u64,
}

impl MachineTime {
    /// Reads the clocks and counters.
    ///
    /// # Errors
    /// `/proc/stat` cannot be read.
    pub fn now() -> io::Result<Self> {
        let (total_ticks, stolen_ticks) = ticks(&fs::read_to_string("/proc/stat")?)
            .ok_or_else(|| io::Error::other("/proc/stat: no line of all processors"))?;
        Ok(Self {
            total_ticks,
            stolen_ticks,
            suspended_ns: clock::suspended_ns(),
            realtime_offset_ns: clock::realtime_offset_ns(),
        })
    }

    /// Lost time between `earlier` and this moment.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "ticks of a run")]
    pub fn since(&self, earlier: &Self) -> Lost {
        let total = self.total_ticks.saturating_sub(earlier.total_ticks);
        let stolen = self.stolen_ticks.saturating_sub(earlier.stolen_ticks);
        Lost {
            stolen_fraction: (total > 0).then(|| stolen as f64 / total as f64),
            suspended_ns: self.suspended_ns.saturating_sub(earlier.suspended_ns),
            clock_step_ns: self.realtime_offset_ns.abs_diff(earlier.realtime_offset_ns),
        }
    }
}

/// All ticks and stolen ticks of the first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal
/// (guest time is part of user time).
fn ticks(stat: &str) -> Option<(u64, u64)> {
    let values = stat.lines().next()?.strip_prefix("cpu ")?;
    let values: Vec<u64> = values
        .split_whitespace()
        .take(8)
        .map_while(|value| value.parse().ok())
        .collect();
    (values.len() >= 4).then(|| (values.iter().sum(), values.get(7).copied().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::{MachineTime, ticks};

    #[test]
    fn steal_time_is_the_eighth_value() {
        let stat = "cpu  10 1 20 60 2 3 4 50 7 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
        assert_eq!(ticks(stat), Some((150, 50)));
        assert_eq!(ticks("intr 5"), None);
    }

    #[test]
    fn suspension_and_stolen_time_are_detected() {
        let before = MachineTime {
            total_ticks: 1_000,
            stolen_ticks: 10,
            suspended_ns: 5,
            realtime_offset_ns: 1_000,
        };
        let after = MachineTime {
            total_ticks: 1_200,
            stolen_ticks: 60,
            suspended_ns: 3_000_000_005,
            realtime_offset_ns: 900,
        };
        let lost = after.since(&before);
        assert_eq!(lost.stolen_fraction, Some(0.25));
        assert_eq!(lost.suspended_ns, 3_000_000_000);
        assert_eq!(lost.clock_step_ns, 100);
    }

    #[test]
    fn this_machine_has_the_clocks() {
        let now = MachineTime::now().expect("/proc/stat");
        assert_eq!(now.since(&now).stolen_fraction, None);
    }
}
