//! The terminal: whose turn it is, and its settings.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::error::check;

/// Whether `fd` is the caller's terminal and the caller is in its foreground.
#[must_use]
pub fn is_ours(fd: BorrowedFd<'_>) -> bool {
    // SAFETY: these calls take numbers.
    unsafe {
        let group = libc::tcgetpgrp(fd.as_raw_fd());
        group != -1 && group == libc::getpgrp()
    }
}

/// Gives the foreground of the terminal to process group `group`. `SIGTTOU` must be blocked or ignored.
///
/// # Errors
/// `fd` is not the caller's terminal, or there is no such group in the session.
pub fn give(fd: BorrowedFd<'_>, group: i32) -> io::Result<()> {
    // SAFETY: tcsetpgrp takes numbers.
    check(unsafe { libc::tcsetpgrp(fd.as_raw_fd(), group) }).map(drop)
}

/// Takes the foreground of the terminal back for the caller's process group.
///
/// # Errors
/// `fd` is not the caller's terminal.
pub fn take(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: getpgrp has no arguments and cannot fail.
    give(fd, unsafe { libc::getpgrp() })
}

/// Stops the caller's process group, as Ctrl-Z would, until somebody lets it go on.
pub fn stop_ourselves() {
    // SAFETY: signals by number, to our own group and ourselves. The first is for the others of the group only:
    // taking it ourselves too would stop us twice, with one wish to go on between.
    unsafe {
        libc::signal(libc::SIGTSTP, libc::SIG_IGN);
        libc::kill(0, libc::SIGTSTP);
        libc::raise(libc::SIGSTOP);
        libc::signal(libc::SIGTSTP, libc::SIG_DFL);
    }
}

/// The settings of a terminal at one moment.
#[derive(Clone, Copy)]
pub struct Settings(libc::termios);

impl Settings {
    /// Those of `fd` now.
    ///
    /// # Errors
    /// `fd` is not a terminal.
    pub fn of(fd: BorrowedFd<'_>) -> io::Result<Self> {
        // SAFETY: all zeros is a valid termios, and it is valid for the call.
        unsafe {
            let mut settings: libc::termios = mem::zeroed();
            check(libc::tcgetattr(fd.as_raw_fd(), &raw mut settings))?;
            Ok(Self(settings))
        }
    }

    /// Makes `fd` what it was.
    ///
    /// # Errors
    /// `fd` is not a terminal.
    pub fn restore(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        // SAFETY: the settings are valid for the call.
        check(unsafe { libc::tcsetattr(fd.as_raw_fd(), libc::TCSADRAIN, &raw const self.0) })
            .map(drop)
    }
}
