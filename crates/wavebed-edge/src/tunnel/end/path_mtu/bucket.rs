//! How many ICMP answers there may be (RFC 4443, section 2.4): as many as Linux sends by default.

/// `icmp_msgs_burst` of Linux.
const BURST: u64 = 50;
/// `icmp_msgs_per_sec` is 1000.
const EACH_NS: u64 = 1_000_000;

/// A token bucket.
#[derive(Debug, Default)]
pub struct Bucket {
    /// When it would be empty of what was taken.
    until_ns: u64,
}

impl Bucket {
    /// Whether one more may go.
    pub fn take(&mut self, now_ns: u64) -> bool {
        let until_ns = self.until_ns.max(now_ns) + EACH_NS;
        let may = until_ns <= now_ns + BURST * EACH_NS;
        if may {
            self.until_ns = until_ns;
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fifty_answers_go_at_once_and_then_one_each_millisecond() {
        let mut bucket = Bucket::default();
        let start_ns = 7_000_000_000;
        let taken = |bucket: &mut Bucket, at_ns| (0..200).filter(|_| bucket.take(at_ns)).count();
        assert_eq!(taken(&mut bucket, start_ns), 50);
        assert_eq!(taken(&mut bucket, start_ns + 999_999), 0);
        assert_eq!(taken(&mut bucket, start_ns + 1_000_000), 1);
        assert_eq!(taken(&mut bucket, start_ns + 11_000_000), 10);
        assert_eq!(taken(&mut bucket, start_ns + 2_000_000_000), 50);
    }
}
