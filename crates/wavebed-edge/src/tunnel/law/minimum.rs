//! The least value of the last ten seconds.

/// Parts of the window: a value leaves it after 10 to 11 s.
const PARTS: usize = 10;
const PART_NS: u64 = 1_000_000_000;

/// A minimum over a sliding window.
#[derive(Clone, Debug, Default)]
pub(super) struct Minimum {
    /// The least of each second, the newest last.
    parts: Vec<u64>,
    since_ns: u64,
}

impl Minimum {
    /// Takes a value.
    pub(super) fn see(&mut self, value: u64, now_ns: u64) {
        match self.parts.last_mut() {
            Some(least) if now_ns < self.since_ns + PART_NS => *least = value.min(*least),
            _ => {
                if self.parts.len() > PARTS {
                    self.parts.remove(0);
                }
                self.parts.push(value);
                self.since_ns = now_ns;
            }
        }
    }

    /// The least.
    pub(super) fn get(&self) -> Option<u64> {
        self.parts.iter().min().copied()
    }

    /// Forgets all but `value`.
    pub(super) fn restart(&mut self, value: u64, now_ns: u64) {
        self.parts.clear();
        self.see(value, now_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_counts_for_ten_seconds() {
        let mut minimum = Minimum::default();
        minimum.see(5, 0);
        for second in 1..=10 {
            minimum.see(9, second * PART_NS);
            assert_eq!(minimum.get(), Some(5), "{second} s");
        }
        minimum.see(9, 11 * PART_NS);
        assert_eq!(minimum.get(), Some(9));
    }
}
