//! When nothing enters the links of a direction: one outage, or several one after another.

/// Outages that begin at the time of a command: nothing enters the links, and waits before them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interruption {
    /// How long each lasts, nanoseconds.
    pub down_ns: u64,
    /// From one to the next, nanoseconds.
    pub period_ns: u64,
    /// How many there are.
    pub times: u32,
}

impl Interruption {
    /// One outage of `down_ns`.
    #[must_use]
    pub const fn once(down_ns: u64) -> Self {
        Self {
            down_ns,
            period_ns: down_ns,
            times: 1,
        }
    }

    /// The outages if the command comes at `now_ns`.
    #[must_use]
    pub const fn from(self, now_ns: u64) -> Outages {
        Outages::repeated(now_ns, self.down_ns, self.period_ns, self.times)
    }
}

/// Outages in the order of their times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outages {
    /// The present one or the next.
    from_ns: u64,
    until_ns: u64,
    period_ns: u64,
    /// Those after it.
    left: u32,
}

impl Outages {
    /// One that lasts until `until_ns`.
    #[must_use]
    pub const fn until(until_ns: u64) -> Self {
        Self {
            from_ns: 0,
            until_ns,
            period_ns: 0,
            left: 0,
        }
    }

    /// As many outages of `down_ns`, each `period_ns` after the one before; the first begins at `from_ns`.
    #[must_use]
    pub const fn repeated(from_ns: u64, down_ns: u64, period_ns: u64, times: u32) -> Self {
        Self {
            from_ns,
            until_ns: from_ns.saturating_add(down_ns),
            period_ns,
            left: times.saturating_sub(1),
        }
    }

    /// Whether there is an outage at `at_ns`; those that ended before must have been passed.
    #[must_use]
    pub const fn holds(&self, at_ns: u64) -> bool {
        self.from_ns <= at_ns && at_ns < self.until_ns
    }

    /// The end of the outage that is present.
    #[must_use]
    pub const fn end_ns(&self) -> u64 {
        self.until_ns
    }

    /// Passes on to the next outage if this one ended at or before `now_ns`, and returns when.
    pub const fn pass(&mut self, now_ns: u64) -> Option<u64> {
        if self.until_ns > now_ns || self.until_ns == 0 {
            return None;
        }
        let ended_ns = self.until_ns;
        *self = if self.left == 0 {
            Self::until(0)
        } else {
            let from_ns = self.from_ns.saturating_add(self.period_ns);
            let down_ns = self.until_ns - self.from_ns;
            Self::repeated(from_ns, down_ns, self.period_ns, self.left)
        };
        Some(ended_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flap_is_down_so_often_and_so_long() {
        let mut outages = Outages::repeated(100, 30, 50, 3);
        let mut down = Vec::new();
        let mut ended = Vec::new();
        for at_ns in 90..400 {
            ended.extend(outages.pass(at_ns));
            if outages.holds(at_ns) {
                down.push(at_ns);
            }
        }
        let wanted = (100..130).chain(150..180).chain(200..230);
        assert_eq!(down, wanted.collect::<Vec<_>>());
        assert_eq!(ended, [130, 180, 230]);
    }

    #[test]
    fn outages_that_were_missed_end_at_their_times() {
        let mut outages = Outages::repeated(100, 30, 50, 3);
        let ends: Vec<u64> = std::iter::from_fn(|| outages.pass(1000)).collect();
        assert_eq!(ends, [130, 180, 230]);
        assert!(!outages.holds(1000));
        assert_eq!(Outages::default().pass(5), None);
    }
}
