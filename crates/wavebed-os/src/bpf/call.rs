//! The system call bpf(2) and the forms of its arguments.

use std::io;
use std::mem;
use std::os::fd::{FromRawFd, OwnedFd};

use rustix::process::{Resource, Rlimit, setrlimit};

use crate::error::{Context, Result};

/// Bytes of a name, with the zero at its end.
pub(super) const NAME_BYTES: usize = 16;

/// # Safety
/// `attributes` must be those of `command`, and its pointers valid for the command.
pub(super) unsafe fn bpf<T>(command: libc::c_long, attributes: &mut T) -> io::Result<i32> {
    // SAFETY: the caller's promise; the kernel reads no more than the size says and takes the rest as zero.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_mut(attributes),
            mem::size_of::<T>(),
        )
    };
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    i32::try_from(answer).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))
}

/// A descriptor that bpf(2) has just given.
pub(super) fn owned(fd: i32) -> OwnedFd {
    // SAFETY: only called with new descriptors of BPF_MAP_CREATE, BPF_PROG_LOAD and the attach commands.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

pub(super) fn lift_memory_lock() {
    let no_limit = Rlimit {
        current: None,
        maximum: None,
    };
    // An error shows in the next call.
    let _ = setrlimit(Resource::Memlock, no_limit);
}

pub(super) fn size(value: usize, name: &str) -> Result<u32> {
    u32::try_from(value)
        .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
        .during("take the size of", name)
}

/// A name in the form of the kernel: 15 letters, digits, underscores and dots.
pub(super) fn short_name(name: &str) -> [u8; NAME_BYTES] {
    let mut bytes = [0; NAME_BYTES];
    for (to, from) in bytes[..NAME_BYTES - 1].iter_mut().zip(name.bytes()) {
        *to = from;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_cut_to_what_the_kernel_keeps() {
        assert_eq!(&short_name("count")[..6], b"count\0");
        assert_eq!(short_name("a_name_that_is_too_long")[15], 0);
    }
}
