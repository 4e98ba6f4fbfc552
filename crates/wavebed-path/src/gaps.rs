//! Gaps: periods in which an event loop polled no device although it had not asked to sleep that long. The loop was
//! busy, or was prevented from running: another program, a stopped process, a stolen or suspended processor.

use serde::Serialize;

/// A loop sleeps at most this long, so that a gap of `n` ms is seen as one of at least `n - 1` ms whenever it begins.
pub const LONGEST_SLEEP_NS: u64 = 1_000_000;

/// Gaps up to this length are not counted: a turn of a busy loop takes some 100 µs.
pub const COUNTED_NS: u64 = 1_000_000;

/// Number of gaps kept with their time.
const KEPT: usize = 16;

/// One gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Gap {
    /// When it began, nanoseconds since time zero.
    pub at_ns: u64,
    /// Its length, nanoseconds.
    pub length_ns: u64,
}

/// The gaps of a loop.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Gaps {
    /// Gaps above [`COUNTED_NS`].
    pub count: u64,
    /// Their total length, nanoseconds.
    pub total_ns: u64,
    /// The longest of them, in the order of time.
    pub longest: Vec<Gap>,
    #[serde(skip)]
    looked_ns: u64,
}

impl Gaps {
    /// No gaps of a loop that begins at `now_ns`.
    #[must_use]
    pub fn since(now_ns: u64) -> Self {
        Self {
            looked_ns: now_ns,
            ..Self::default()
        }
    }

    /// The loop, which went to sleep at `slept_ns` and asked to be woken at `until_ns`, polls its devices again at
    /// `now_ns`. The time between its last poll and `slept_ns` is part of the gap.
    pub fn look(&mut self, slept_ns: u64, until_ns: u64, now_ns: u64) {
        let turn_ns = slept_ns.saturating_sub(self.looked_ns);
        let overslept_ns = now_ns.saturating_sub(until_ns.max(slept_ns));
        let length_ns = turn_ns + overslept_ns;
        if length_ns > COUNTED_NS {
            self.count += 1;
            self.total_ns += length_ns;
            self.keep(Gap {
                at_ns: now_ns - length_ns,
                length_ns,
            });
        }
        self.looked_ns = now_ns;
    }

    fn keep(&mut self, gap: Gap) {
        self.longest.push(gap);
        if self.longest.len() > KEPT {
            let shortest =
                (0..self.longest.len()).min_by_key(|&index| self.longest[index].length_ns);
            self.longest.remove(shortest.unwrap_or_default());
        }
    }

    /// The longest gap, if any was counted.
    #[must_use]
    pub fn worst(&self) -> Option<Gap> {
        self.longest.iter().copied().max_by_key(|gap| gap.length_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::{Gap, Gaps, KEPT};

    const MS: u64 = 1_000_000;

    #[test]
    fn a_loop_that_wakes_on_time_has_no_gap() {
        let mut gaps = Gaps::default();
        for tick in 0..1_000 {
            // Awake for 0.2 ms, asleep for 0.8 ms, woken 0.05 ms late.
            gaps.look(
                tick * MS + 200_000,
                (tick + 1) * MS - 50_000,
                (tick + 1) * MS,
            );
        }
        assert_eq!((gaps.count, gaps.worst()), (0, None));
    }

    #[test]
    fn a_process_stopped_during_its_sleep_has_a_gap() {
        let mut gaps = Gaps::default();
        gaps.look(100, MS, 6 * MS);
        assert_eq!(
            gaps.worst(),
            Some(Gap {
                at_ns: MS - 100,
                length_ns: 5 * MS + 100
            })
        );
    }

    #[test]
    fn a_long_turn_is_a_gap() {
        let mut gaps = Gaps::default();
        gaps.look(2 * MS, 2 * MS, 2 * MS);
        assert_eq!((gaps.count, gaps.total_ns), (1, 2 * MS));
    }

    #[test]
    fn a_packet_that_ends_the_sleep_early_makes_no_gap() {
        let mut gaps = Gaps::default();
        gaps.look(0, 900_000, 10_000);
        assert_eq!(gaps.count, 0);
    }

    #[test]
    fn the_longest_are_kept_in_the_order_of_time() {
        let mut gaps = Gaps::default();
        let mut now = 0;
        for length in (2..40).chain((2..40).rev()) {
            gaps.look(now, now, now + length * MS);
            now += length * MS;
        }
        assert_eq!((gaps.count, gaps.longest.len()), (76, KEPT));
        assert!(gaps.longest.iter().all(|gap| gap.length_ns >= 32 * MS));
        assert!(gaps.longest.is_sorted_by_key(|gap| gap.at_ns));
    }
}
