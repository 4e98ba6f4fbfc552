//! The terminal: its foreground process group and its settings.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::process::{Pid, getpgrp};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr, tcsetpgrp};

/// Whether `fd` is the caller's terminal and the caller is in its foreground.
#[must_use]
pub fn is_ours(fd: BorrowedFd<'_>) -> bool {
    tcgetpgrp(fd).is_ok_and(|group| group == getpgrp())
}

/// Gives the foreground of the terminal to process group `group`. `SIGTTOU` must be blocked or ignored.
///
/// # Errors
/// `fd` is not the caller's terminal, or there is no such group in the session.
pub fn give(fd: BorrowedFd<'_>, group: i32) -> io::Result<()> {
    let group = Pid::from_raw(group).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(tcsetpgrp(fd, group)?)
}

/// Takes the foreground of the terminal back for the caller's process group.
///
/// # Errors
/// `fd` is not the caller's terminal.
pub fn take(fd: BorrowedFd<'_>) -> io::Result<()> {
    Ok(tcsetpgrp(fd, getpgrp())?)
}

/// Stops the caller's process group, as Ctrl-Z does, until it is continued.
pub fn stop_ourselves() {
    // SAFETY: signals by number, to our own group and ourselves. The first is for the others of the group only:
    // if the caller took it too, it would be stopped twice and continued once.
    unsafe {
        libc::signal(libc::SIGTSTP, libc::SIG_IGN);
        libc::kill(0, libc::SIGTSTP);
        libc::raise(libc::SIGSTOP);
        libc::signal(libc::SIGTSTP, libc::SIG_DFL);
    }
}

/// The settings of a terminal at one moment.
#[derive(Clone)]
pub struct Settings(Termios);

impl Settings {
    /// Those of `fd` now.
    ///
    /// # Errors
    /// `fd` is not a terminal.
    pub fn of(fd: BorrowedFd<'_>) -> io::Result<Self> {
        Ok(Self(tcgetattr(fd)?))
    }

    /// Restores the settings of `fd`.
    ///
    /// # Errors
    /// `fd` is not a terminal.
    pub fn restore(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        Ok(tcsetattr(fd, OptionalActions::Drain, &self.0)?)
    }
}
