//! Carries bytes by recv(2) and send(2) through memory of the program.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::carry::{Carry, Filled};

/// Room of a buffer that is kept for other connections. Larger ones would leave the processor's cache.
pub const USUAL_BYTES: usize = 256 << 10;

/// Memory between two sockets.
#[derive(Debug)]
pub struct Buffer {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Buffer {
    /// One with room for `room` bytes.
    #[must_use]
    pub fn new(room: usize) -> Self {
        Self {
            bytes: vec![0; room].into_boxed_slice(),
            start: 0,
            end: 0,
        }
    }
}

impl Carry for Buffer {
    fn fill(&mut self, from: BorrowedFd<'_>, most: usize) -> io::Result<Filled> {
        let room = (self.bytes.len() - self.end).min(most);
        if room == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let free = &mut self.bytes[self.end..self.end + room];
        let (bytes, _) = recv(from, free, RecvFlags::DONTWAIT)?;
        self.end += bytes;
        Ok(Filled {
            bytes,
            // A short read has emptied the socket, or stands before urgent data.
            is_drained: 0 < bytes && bytes < room,
        })
    }

    fn drain(&mut self, to: BorrowedFd<'_>) -> io::Result<usize> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let bytes = send(to, &self.bytes[self.start..self.end], flags)?;
        self.start += bytes;
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        Ok(bytes)
    }

    fn held(&self) -> usize {
        self.end - self.start
    }

    fn room(&self) -> usize {
        self.bytes.len()
    }

    fn grow(&mut self, _bytes: usize) {}

    fn is_reusable(&self) -> bool {
        self.held() == 0 && self.bytes.len() == USUAL_BYTES
    }
}
