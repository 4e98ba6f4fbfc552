//! Waiting for descriptors with a deadline in nanoseconds.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::clock;

/// Up to this many descriptors are waited for without an allocation.
const ON_STACK: usize = 32;

/// Waits until a descriptor can be read, or `timeout_ns` has passed (`None`: for ever; `Some(0)`: not at all).
///
/// Sets `readable[i]` for each `fds[i]` that has data, an error, or was hung up, clears the others, and returns
/// how many are set. A signal ends the wait early with 0.
///
/// # Errors
/// The error of ppoll(2), apart from `EINTR`.
///
/// # Panics
/// If `readable` is shorter than `fds`.
pub fn wait(
    fds: &[BorrowedFd<'_>],
    readable: &mut [bool],
    timeout_ns: Option<u64>,
) -> io::Result<usize> {
    assert!(readable.len() >= fds.len(), "one flag for each descriptor");
    if fds.len() <= ON_STACK {
        let mut entries = [ENTRY; ON_STACK];
        wait_in(&mut entries[..fds.len()], fds, readable, timeout_ns)
    } else {
        wait_in(&mut vec![ENTRY; fds.len()], fds, readable, timeout_ns)
    }
}

const ENTRY: libc::pollfd = libc::pollfd {
    fd: -1,
    events: 0,
    revents: 0,
};

/// Waits until a descriptor can be written (or has an error, which the next write returns), `timeout_ns` at most.
///
/// # Errors
/// The error of ppoll(2), apart from `EINTR`.
pub fn wait_writable(fd: BorrowedFd<'_>, timeout_ns: u64) -> io::Result<bool> {
    let end_ns = clock::monotonic_ns().saturating_add(timeout_ns);
    loop {
        let mut entry = libc::pollfd {
            fd: fd.as_raw_fd(),
            events: libc::POLLOUT,
            revents: 0,
        };
        let left_ns = end_ns.saturating_sub(clock::monotonic_ns());
        let timeout = clock::timespec(left_ns);
        // SAFETY: one entry and the timeout are valid for the call; a null mask leaves the signals alone.
        let answer =
            unsafe { libc::ppoll(&raw mut entry, 1, &raw const timeout, std::ptr::null()) };
        match answer {
            1.. => return Ok(true),
            0 if left_ns == 0 => return Ok(false),
            0 => {}
            _ => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}

fn wait_in(
    entries: &mut [libc::pollfd],
    fds: &[BorrowedFd<'_>],
    readable: &mut [bool],
    timeout_ns: Option<u64>,
) -> io::Result<usize> {
    for (entry, fd) in entries.iter_mut().zip(fds) {
        entry.fd = fd.as_raw_fd();
        entry.events = libc::POLLIN;
    }
    let timeout = timeout_ns.map(clock::timespec);
    let timeout_ptr = timeout
        .as_ref()
        .map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the entries and the timeout are valid for the call; a null mask leaves the signals alone.
    let answer = unsafe {
        libc::ppoll(
            entries.as_mut_ptr(),
            entries.len() as libc::nfds_t,
            timeout_ptr,
            std::ptr::null(),
        )
    };
    readable.fill(false);
    if answer < 0 {
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::Interrupted {
            Ok(0)
        } else {
            Err(error)
        };
    }
    let mut count = 0;
    for (flag, entry) in readable.iter_mut().zip(entries.iter()) {
        *flag = entry.revents != 0;
        count += usize::from(*flag);
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn only_what_has_data_is_readable() {
        let (quiet, _quiet_end) = io::pipe().expect("pipe");
        let (loud, mut loud_end) = io::pipe().expect("pipe");
        loud_end.write_all(b"x").expect("write");
        let mut readable = [true; 3];
        let count = wait(&[quiet.as_fd(), loud.as_fd()], &mut readable, None).expect("wait");
        assert_eq!((count, readable), (1, [false, true, false]));
    }

    #[test]
    fn a_timeout_of_nanoseconds_is_kept() {
        let (quiet, _end) = io::pipe().expect("pipe");
        let start = clock::monotonic_ns();
        let count = wait(&[quiet.as_fd()], &mut [false], Some(300_000)).expect("wait");
        assert_eq!(count, 0);
        assert!(clock::monotonic_ns() - start >= 300_000);
    }

    #[test]
    fn many_descriptors_are_waited_for() {
        let pipes: Vec<_> = (0..40).map(|_| io::pipe().expect("pipe")).collect();
        (&pipes[37].1).write_all(b"x").expect("write");
        let fds: Vec<_> = pipes.iter().map(|(reader, _)| reader.as_fd()).collect();
        let mut readable = vec![false; 40];
        assert_eq!(wait(&fds, &mut readable, None).expect("wait"), 1);
        assert!(readable[37]);
    }
}
