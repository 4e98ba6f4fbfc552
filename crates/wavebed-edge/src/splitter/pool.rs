//! The buffers of all connections: lent to a direction while it holds bytes, and shared between those that do.

use super::carry::Carry;
use super::carry_buffer::{Buffer, USUAL_BYTES};
use super::carry_pipe::Pipe;
use super::settings::{Copy, Settings};

/// Empty buffers that are kept.
const KEPT: usize = 32;
/// What each direction may hold even when the memory is used up: connections whose client does not read cost a newcomer
/// speed, never service.
const LEAST_BYTES: usize = 8 << 10;
/// A direction holds at most this part of the free memory: the dynamic thresholds of Choudhury and Hahne (IEEE/ACM
/// Transactions on Networking 6(2), 1998), with which n busy directions hold n/(n+8) of the memory together.
const SHARE: usize = 8;

/// Bytes that a direction may hold, while all hold `held` bytes of `memory`; its buffer has at most `most`.
#[must_use]
pub fn share_bytes(memory: usize, held: usize, most: usize) -> usize {
    (memory.saturating_sub(held) / SHARE)
        .max(LEAST_BYTES)
        .min(most)
}

/// The buffers.
#[derive(Debug)]
pub struct Pool {
    copy: Copy,
    most: usize,
    memory: usize,
    held: usize,
    free: Vec<Box<dyn Carry>>,
}

impl Pool {
    /// An empty one.
    pub fn new(settings: &Settings) -> Self {
        Self {
            copy: settings.copy,
            most: settings.buffer.length(),
            memory: settings.memory.length(),
            held: 0,
            free: Vec::new(),
        }
    }

    /// Bytes held by all buffers.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Bytes that a direction may hold.
    pub fn share(&self) -> usize {
        share_bytes(self.memory, self.held, self.most)
    }

    /// Accounts for bytes that a buffer took and gave.
    pub fn account(&mut self, taken: usize, given: usize) {
        self.held = self.held + taken - given;
    }

    /// An empty buffer. Where no pipe is to be had, memory takes its place.
    pub fn take(&mut self) -> Box<dyn Carry> {
        if let Some(carry) = self.free.pop() {
            return carry;
        }
        if self.copy == Copy::Splice
            && let Ok(pipe) = Pipe::new()
        {
            return Box::new(pipe);
        }
        Box::new(Buffer::new(self.share().min(USUAL_BYTES)))
    }

    /// Returns a buffer. One that holds bytes of an aborted connection is destroyed.
    pub fn give_back(&mut self, carry: Box<dyn Carry>) {
        self.held -= carry.held();
        if self.free.len() < KEPT && carry.is_reusable() {
            self.free.push(carry);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// However many directions fill up one after another, they exceed the memory by their least shares only.
        #[test]
        fn shares_stay_within_the_memory(
            memory in 1_usize << 20..1 << 30,
            most in 16_usize << 10..4 << 20,
            directions in 1_usize..4000,
        ) {
            let mut held = 0;
            let mut beyond = 0;
            for _ in 0..directions {
                let share = share_bytes(memory, held, most);
                prop_assert!(share <= most);
                prop_assert!(share >= LEAST_BYTES.min(most));
                if held + share > memory {
                    prop_assert_eq!(share, LEAST_BYTES.min(most));
                    beyond += share;
                }
                held += share;
            }
            prop_assert!(held <= memory + beyond);
        }
    }

    #[test]
    fn a_lone_direction_gets_its_whole_buffer() {
        assert_eq!(share_bytes(128 << 20, 0, 1 << 20), 1 << 20);
        assert_eq!(share_bytes(128 << 20, 128 << 20, 1 << 20), LEAST_BYTES);
    }
}
