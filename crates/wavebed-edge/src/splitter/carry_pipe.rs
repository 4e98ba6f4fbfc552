//! Carries bytes by splice(2): the kernel moves references to pages, and no byte is copied.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{RecvFlags, recv};
use rustix::pipe::{
    PipeFlags, SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with, splice,
};

use super::carry::{Carry, Filled};

/// The least room that makes splicing worth its system calls. Beyond `fs.pipe-user-pages-soft` a pipe has two pages.
const LEAST_BYTES: usize = 64 << 10;
/// A write of at most this many bytes to an empty pipe is whole (`PIPE_BUF`).
const ATOMIC_BYTES: usize = 4096;

/// A pipe between two sockets.
#[derive(Debug)]
pub struct Pipe {
    reader: OwnedFd,
    writer: OwnedFd,
    held: usize,
    room: usize,
    /// The system has refused more room.
    is_limited: bool,
}

impl Pipe {
    /// Makes one with the system's usual room.
    ///
    /// # Errors
    /// The limit of open files, or of pipes, is reached.
    pub fn new() -> io::Result<Self> {
        let (reader, writer) = pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC)?;
        let room = fcntl_getpipe_size(&writer)?;
        if room < LEAST_BYTES {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        Ok(Self {
            reader,
            writer,
            held: 0,
            room,
            is_limited: false,
        })
    }
}

impl Carry for Pipe {
    fn fill(&mut self, from: BorrowedFd<'_>, most: usize) -> io::Result<Filled> {
        let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
        let bytes = splice(from, None, &self.writer, None, most, flags)?;
        if bytes == 0 {
            // splice(2) ends also at urgent data with a FIN behind it: only recv(2) knows the end of the stream.
            return self.fill_past_urgent(from, most);
        }
        self.held += bytes;
        Ok(Filled {
            bytes,
            is_drained: false,
        })
    }

    fn fill_past_urgent(&mut self, from: BorrowedFd<'_>, most: usize) -> io::Result<Filled> {
        if self.held > 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let mut bytes = [0; ATOMIC_BYTES];
        let most = most.min(ATOMIC_BYTES);
        let (count, _) = recv(from, &mut bytes[..most], RecvFlags::DONTWAIT)?;
        let mut rest = &bytes[..count];
        while !rest.is_empty() {
            let written = rustix::io::write(self.writer.as_fd(), rest)?;
            rest = &rest[written..];
        }
        self.held += count;
        Ok(Filled {
            bytes: count,
            is_drained: false,
        })
    }

    fn drain(&mut self, to: BorrowedFd<'_>) -> io::Result<usize> {
        let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
        let bytes = splice(&self.reader, None, to, None, self.held, flags)?;
        self.held -= bytes;
        Ok(bytes)
    }

    fn held(&self) -> usize {
        self.held
    }

    fn room(&self) -> usize {
        self.room
    }

    fn grow(&mut self, bytes: usize) {
        // Refused beyond the limits of pipe(7) without CAP_SYS_RESOURCE: the pipe keeps its room.
        if self.is_limited || bytes <= self.room {
            return;
        }
        match fcntl_setpipe_size(&self.writer, bytes) {
            Ok(room) => self.room = room,
            Err(_) => self.is_limited = true,
        }
    }

    fn is_reusable(&self) -> bool {
        self.held == 0
    }
}
