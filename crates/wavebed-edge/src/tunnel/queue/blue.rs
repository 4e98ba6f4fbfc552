//! BLUE, for flows that do not respond to `CoDel`.
//!
//! Source: W. Feng et al., "The BLUE active queue management algorithms", IEEE/ACM Transactions on Networking 10(4), 2002, with the constants of
//! COBALT in Linux `net/sched/sch_cake.c` (GPL-2.0 or BSD-3-Clause): +1/256, -1/4096, at most once per target.

/// 1/256 of the probability 1, which is 2^32.
const STEP_UP: u32 = 1 << 24;
/// 1/4096.
const STEP_DOWN: u32 = 1 << 20;

/// The drop probability of one flow: up when its queue overflows, down when it is empty.
#[derive(Clone, Copy, Debug, Default)]
pub struct Blue {
    /// Of 2^32.
    probability: u32,
    changed_ns: Option<u64>,
}

impl Blue {
    /// The queue overflowed.
    pub fn overflow(&mut self, now_ns: u64, target_ns: u64) {
        if self.may_change(now_ns, target_ns) {
            self.probability = self.probability.saturating_add(STEP_UP);
            self.changed_ns = Some(now_ns);
        }
    }

    /// The queue was found empty.
    pub fn empty(&mut self, now_ns: u64, target_ns: u64) {
        if self.probability > 0 && self.may_change(now_ns, target_ns) {
            self.probability = self.probability.saturating_sub(STEP_DOWN);
            self.changed_ns = Some(now_ns);
        }
    }

    fn may_change(&self, now_ns: u64, target_ns: u64) -> bool {
        self.changed_ns
            .is_none_or(|changed_ns| now_ns.saturating_sub(changed_ns) > target_ns)
    }

    /// Whether the packet with this uniform random number is dropped. ECN is left out on purpose, as in COBALT.
    #[must_use]
    pub const fn drops(&self, random: u32) -> bool {
        random < self.probability
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET_NS: u64 = 5_000_000;

    #[test]
    fn the_probability_changes_by_the_steps_of_cobalt_and_at_most_once_per_target() {
        let mut blue = Blue::default();
        blue.overflow(0, TARGET_NS);
        blue.overflow(TARGET_NS, TARGET_NS);
        assert!(blue.drops(STEP_UP - 1) && !blue.drops(STEP_UP));
        blue.overflow(TARGET_NS + 1, TARGET_NS);
        assert!(blue.drops(2 * STEP_UP - 1) && !blue.drops(2 * STEP_UP));
        blue.empty(TARGET_NS + 2, TARGET_NS);
        assert!(blue.drops(2 * STEP_UP - 1), "too early");
        blue.empty(3 * TARGET_NS, TARGET_NS);
        assert!(!blue.drops(2 * STEP_UP - STEP_DOWN));
    }

    #[test]
    fn the_probability_stays_between_zero_and_one() {
        let mut blue = Blue::default();
        blue.empty(0, 0);
        assert!(!blue.drops(0));
        for now_ns in 1..300 {
            blue.overflow(now_ns, 0);
        }
        assert!(blue.drops(u32::MAX - 1));
        for now_ns in 300..5000 {
            blue.empty(now_ns, 0);
        }
        assert!(!blue.drops(0));
    }
}
