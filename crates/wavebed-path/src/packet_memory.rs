//! The memory limit of packets in flight, common to all directions of a laboratory.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The memory in use and its limit. It is updated only where memory is mapped or unmapped: an atomic operation costs
/// nothing beside the system call, and a packet that fits into a mapped block needs no update.
#[derive(Debug)]
pub struct PacketMemory {
    limit_bytes: usize,
    taken_bytes: AtomicUsize,
}

impl PacketMemory {
    /// This limit, with nothing taken.
    #[must_use]
    pub const fn new(limit_bytes: usize) -> Self {
        Self {
            limit_bytes,
            taken_bytes: AtomicUsize::new(0),
        }
    }

    /// Takes `bytes`, or nothing if that exceeds the limit.
    pub fn take(&self, bytes: usize) -> bool {
        let with = |taken: usize| {
            taken
                .checked_add(bytes)
                .filter(|&sum| sum <= self.limit_bytes)
        };
        self.taken_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, with)
            .is_ok()
    }

    /// Returns `bytes` that were taken.
    pub fn give_back(&self, bytes: usize) {
        self.taken_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// The limit.
    #[must_use]
    pub const fn limit_bytes(&self) -> usize {
        self.limit_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::PacketMemory;

    #[test]
    fn no_more_is_taken_than_there_is() {
        let memory = PacketMemory::new(100);
        assert!(memory.take(60));
        assert!(!memory.take(41));
        assert!(memory.take(40));
        assert!(!memory.take(1));
        assert!(!memory.take(usize::MAX));
        memory.give_back(60);
        assert!(memory.take(60));
    }
}
