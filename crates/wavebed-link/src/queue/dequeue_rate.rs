//! The rate at which a queue is emptied, and the time that it will take.

/// The mean rate over windows of time in which the queue was not empty.
#[derive(Debug)]
pub(super) struct DequeueRate {
    /// Length of a window, nanoseconds; 0: no rate is wanted.
    window_ns: u64,
    /// Since when the queue waits for the next packet to leave.
    since_ns: u64,
    /// Of the current window.
    busy_ns: u64,
    bytes: u64,
    /// Of the last whole window.
    last: Option<(u64, u64)>,
}

impl DequeueRate {
    pub(super) const fn new(window_ns: u64) -> Self {
        Self {
            window_ns,
            since_ns: 0,
            busy_ns: 0,
            bytes: 0,
            last: None,
        }
    }

    /// The queue was empty until `at_ns`.
    pub(super) const fn starts(&mut self, at_ns: u64) {
        self.since_ns = at_ns;
    }

    /// `bytes` left the queue at `at_ns`. A longer wait than a window counts as one window.
    pub(super) fn left(&mut self, at_ns: u64, bytes: u64) {
        if self.window_ns == 0 {
            return;
        }
        let waited_ns = at_ns.saturating_sub(self.since_ns);
        self.since_ns = at_ns;
        // A window ends between bursts: what leaves at one time leaves for one wait.
        if waited_ns > 0 && self.busy_ns >= self.window_ns {
            self.last = Some((self.bytes, self.busy_ns));
            (self.bytes, self.busy_ns) = (0, 0);
        }
        self.busy_ns += waited_ns.min(self.window_ns);
        self.bytes += bytes;
    }

    /// How long `bytes` take to leave; `None` before the end of the first window.
    pub(super) fn time_ns(&self, bytes: u64) -> Option<u64> {
        let (left, busy_ns) = self.last?;
        let time_ns = u128::from(bytes) * u128::from(busy_ns) / u128::from(left.max(1));
        Some(u64::try_from(time_ns).unwrap_or(u64::MAX))
    }
}
