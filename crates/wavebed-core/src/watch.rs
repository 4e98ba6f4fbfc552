//! The times at which a connection that watches gets its samples, and how many it lost.

use std::ops::RangeInclusive;

/// Milliseconds between two samples. A shorter time would show the engine's own turns.
pub const EVERY_MS: RangeInclusive<u64> = 10..=10_000;

/// The samples of one connection. They are due at multiples of a period, whatever delays come between.
#[derive(Debug, PartialEq, Eq)]
pub struct Watch {
    every_ns: u64,
    due_ns: u64,
    lost: u64,
}

impl Watch {
    /// Samples from `now_ns` on.
    pub const fn new(every_ms: u64, now_ns: u64) -> Self {
        Self {
            every_ns: every_ms * 1_000_000,
            due_ns: now_ns,
            lost: 0,
        }
    }

    /// When the next one is due.
    pub const fn due_ns(&self) -> u64 {
        self.due_ns
    }

    /// Takes the sample that is due at `now_ns`, and skips those that are overdue by a period or more. Returns whether
    /// one was due.
    pub const fn take(&mut self, now_ns: u64) -> bool {
        if now_ns < self.due_ns {
            return false;
        }
        let missed = (now_ns - self.due_ns) / self.every_ns;
        self.lost += missed;
        self.due_ns += (missed + 1) * self.every_ns;
        true
    }

    /// Counts a sample that could not be taken or sent.
    pub const fn lose(&mut self) {
        self.lost += 1;
    }

    /// Samples lost so far.
    pub const fn lost(&self) -> u64 {
        self.lost
    }
}

#[cfg(test)]
mod tests {
    use super::Watch;

    const MS: u64 = 1_000_000;

    #[test]
    fn samples_keep_their_times_and_missed_ones_are_counted() {
        let mut watch = Watch::new(10, 100 * MS);
        assert!(watch.take(100 * MS));
        assert!(!watch.take(109 * MS));
        assert!(watch.take(113 * MS), "late");
        assert_eq!(
            (watch.due_ns(), watch.lost()),
            (120 * MS, 0),
            "no delay adds up"
        );
        assert!(watch.take(145 * MS));
        assert_eq!((watch.due_ns(), watch.lost()), (150 * MS, 2));
        watch.lose();
        assert_eq!(watch.lost(), 3);
    }
}
