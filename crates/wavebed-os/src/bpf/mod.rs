//! bpf(2): maps, programs and their attachments.
//!
//! A program is loaded from instructions of the caller. Every object exists as long as its descriptor: on any end of
//! the process, programs are detached and maps are freed.

pub mod assembler;
mod map;
mod program;

use std::io;

pub use map::{Map, SharedMemory};
pub use program::{Link, Program, ProgramKind, XdpMode};

use crate::error::{Context, Result};

/// One instruction of 64 bits (struct `bpf_insn`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Instruction {
    /// Operation code.
    pub code: u8,
    /// Destination register in the low four bits, source register in the high four.
    pub registers: u8,
    /// Offset of a jump or of a memory access.
    pub offset: i16,
    /// Immediate value.
    pub immediate: i32,
}

/// The number of the calling thread in its PID namespace.
#[must_use]
pub fn current_thread() -> i32 {
    rustix::thread::gettid().as_raw_pid()
}

/// Upper bound of the processor numbers of this machine.
///
/// # Errors
/// `/sys` is not there.
pub fn possible_processors() -> Result<usize> {
    let path = "/sys/devices/system/cpu/possible";
    let text = std::fs::read_to_string(path).during("read", path)?;
    last_processor(&text)
        .map(|last| last + 1)
        .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
        .during("understand", path)
}

/// The greatest number in a list such as `0-3,8`.
fn last_processor(list: &str) -> Option<usize> {
    list.trim().rsplit([',', '-']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_processor_of_a_list_counts() {
        assert_eq!(last_processor("0-3,8\n"), Some(8));
        assert_eq!(last_processor("0-127"), Some(127));
        assert_eq!(last_processor("0"), Some(0));
        assert_eq!(last_processor(""), None);
    }
}
