//! Carrying bytes from one socket to another.

use std::fmt::Debug;
use std::io;
use std::os::fd::BorrowedFd;

/// What a fill took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filled {
    /// Bytes taken; zero at the end of the stream.
    pub bytes: usize,
    /// Whether the socket had no more.
    pub is_drained: bool,
}

/// Holds bytes between two non-blocking sockets.
pub trait Carry: Debug + Send {
    /// Takes up to `most` bytes from `from`; zero at the end of the stream. `WouldBlock` says that the socket is empty, or,
    /// while bytes are held, that there may be no room.
    ///
    /// # Errors
    /// The error of the socket.
    fn fill(&mut self, from: BorrowedFd<'_>, most: usize) -> io::Result<Filled>;

    /// The same past urgent data, at which splice(2) stops for good.
    ///
    /// # Errors
    /// As [`Carry::fill`].
    fn fill_past_urgent(&mut self, from: BorrowedFd<'_>, most: usize) -> io::Result<Filled> {
        self.fill(from, most)
    }

    /// Gives bytes to `to`, as many as it takes.
    ///
    /// # Errors
    /// The error of the socket; `WouldBlock` when it takes none.
    fn drain(&mut self, to: BorrowedFd<'_>) -> io::Result<usize>;

    /// Bytes held.
    fn held(&self) -> usize;

    /// Bytes it can hold.
    fn room(&self) -> usize;

    /// Makes room for `bytes` if the system allows it.
    fn grow(&mut self, bytes: usize);

    /// Whether it is worth keeping for another connection.
    fn is_reusable(&self) -> bool;
}
