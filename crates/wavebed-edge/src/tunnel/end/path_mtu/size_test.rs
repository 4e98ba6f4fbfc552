//! Messages of full size on a path that is new or was silent, so that QUIC soon notices if the path loses them.
//!
//! QUIC takes the path for a black hole, and goes down to its least size, when four groups of large packets were lost and
//! smaller ones after them were not. Packets of hosts alone may need seconds for that.

/// One more than QUIC needs, beyond the four.
const MESSAGES: u32 = 5;
/// A queue overflow or a short blockage takes one group only.
const EVERY_NS: u64 = 20_000_000;
/// From one test to the next after silence: where sparse packets are lost now and then, tests cost at most 3.5 kB/s.
const APART_NS: u64 = 2_000_000_000;

/// When the next one is due.
#[derive(Debug, Default)]
pub struct SizeTest {
    left: u32,
    at_ns: u64,
    started_ns: u64,
}

impl SizeTest {
    /// The path is new.
    pub fn start(&mut self, now_ns: u64) {
        self.left = MESSAGES;
        self.at_ns = now_ns;
        self.started_ns = now_ns;
    }

    /// The other end is heard again: after a blockage, or after large packets that were lost while small ones passed.
    pub fn start_after_silence(&mut self, now_ns: u64) {
        if now_ns >= self.started_ns + APART_NS {
            self.start(now_ns);
        }
    }

    /// When the next message is due.
    pub fn due_ns(&self) -> Option<u64> {
        (self.left > 0).then_some(self.at_ns)
    }

    /// Whether one is due now, which is then sent.
    pub fn take(&mut self, now_ns: u64) -> bool {
        let due = self.due_ns().is_some_and(|at_ns| at_ns <= now_ns);
        if due {
            self.left -= 1;
            self.at_ns = now_ns + EVERY_NS;
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_path_gets_five_messages_20_ms_apart_and_one_that_was_silent_each_two_seconds() {
        let mut test = SizeTest::default();
        assert!(!test.take(1_000));
        test.start(1_000);
        let mut at = Vec::new();
        while let Some(due_ns) = test.due_ns() {
            assert!(!test.take(due_ns - 1));
            assert!(test.take(due_ns));
            at.push((due_ns - 1_000) / 1_000_000);
        }
        assert_eq!(at, [0, 20, 40, 60, 80]);
        test.start_after_silence(2_000_000_999);
        assert_eq!(test.due_ns(), None);
        test.start_after_silence(2_000_001_000);
        assert_eq!(test.due_ns(), Some(2_000_001_000));
    }
}
