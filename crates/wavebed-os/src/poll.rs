//! Waiting for descriptors with a deadline in nanoseconds.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

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

/// Many descriptors as one: it can be read while one of them can.
#[derive(Debug)]
pub struct Group {
    epoll: OwnedFd,
}

/// Descriptors of a [`Group`] that one call tells.
const AT_ONCE: u16 = 64;

impl Group {
    /// A group of these descriptors, which must stay open as long as it.
    ///
    /// # Errors
    /// The error of `epoll_create1(2)` or `epoll_ctl(2)`.
    pub fn new(fds: &[BorrowedFd<'_>]) -> io::Result<Self> {
        // SAFETY: no memory is passed.
        let made = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if made < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call has just made it, and nothing else owns it.
        let epoll = unsafe { OwnedFd::from_raw_fd(made) };
        for (place, fd) in (0u64..).zip(fds) {
            let mut event = libc::epoll_event {
                events: libc::EPOLLIN as u32,
                u64: place,
            };
            // SAFETY: the event is valid for the call.
            let answer = unsafe {
                libc::epoll_ctl(
                    epoll.as_raw_fd(),
                    libc::EPOLL_CTL_ADD,
                    fd.as_raw_fd(),
                    &raw mut event,
                )
            };
            if answer < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(Self { epoll })
    }

    /// Tells the places of those that can be read now: of many, some; the others at the next call.
    ///
    /// # Errors
    /// The error of `epoll_wait(2)`, apart from `EINTR`.
    pub fn readable(&self, mut tell: impl FnMut(usize)) -> io::Result<()> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; AT_ONCE as usize];
        // SAFETY: the list is valid for the call, and as long as told.
        let answer = unsafe {
            libc::epoll_wait(
                self.epoll.as_raw_fd(),
                events.as_mut_ptr(),
                AT_ONCE.into(),
                0,
            )
        };
        if answer < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted {
                Ok(())
            } else {
                Err(error)
            };
        }
        let found = events.iter().take(usize::try_from(answer).unwrap_or(0));
        for event in found {
            tell(usize::try_from(event.u64).unwrap_or(usize::MAX));
        }
        Ok(())
    }
}

impl AsFd for Group {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

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
    use super::*;
    use std::io::Write;

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
    fn a_group_tells_which_of_many_can_be_read() {
        let pipes: Vec<_> = (0..100).map(|_| io::pipe().expect("pipe")).collect();
        let fds: Vec<_> = pipes.iter().map(|(reader, _)| reader.as_fd()).collect();
        let group = Group::new(&fds).expect("a group");
        let mut readable = [true];
        wait(&[group.as_fd()], &mut readable, Some(0)).expect("wait");
        assert_eq!(readable, [false]);
        for place in [3, 70] {
            (&pipes[place].1).write_all(b"x").expect("write");
        }
        wait(&[group.as_fd()], &mut readable, None).expect("wait");
        assert_eq!(readable, [true]);
        let mut found = Vec::new();
        group.readable(|place| found.push(place)).expect("readable");
        found.sort_unstable();
        assert_eq!(found, [3, 70]);
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
