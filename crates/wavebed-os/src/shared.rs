//! Memory that a socket shares with the kernel: rings of `AF_PACKET` and `AF_XDP`.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

/// A shared mapping, unmapped when dropped.
///
/// Who may touch which bytes is agreed by words in the mapping itself, so that every access but that to a word
/// is unsafe.
#[derive(Debug)]
pub(crate) struct Shared {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping is owned by this value alone; the kernel does not care which thread reads it.
unsafe impl Send for Shared {}

impl Shared {
    /// Maps `length` bytes of `socket` at `offset`.
    pub(crate) fn map(
        socket: BorrowedFd<'_>,
        offset: libc::off_t,
        length: usize,
    ) -> io::Result<Self> {
        // SAFETY: a new mapping touches no memory that exists; the descriptor is open.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                socket.as_raw_fd(),
                offset,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(address.cast()).expect("mmap(2) never maps address 0 unasked");
        Ok(Self { start, length })
    }

    /// The word at byte `at`.
    ///
    /// # Panics
    /// It does not lie within the mapping, or not on a multiple of four.
    pub(crate) fn word(&self, at: usize) -> &AtomicU32 {
        assert!(
            at.is_multiple_of(4) && at + 4 <= self.length,
            "a word of the mapping"
        );
        // SAFETY: within the mapping and aligned (the mapping begins at a page); both sides touch it as a whole.
        unsafe { AtomicU32::from_ptr(self.start.as_ptr().add(at).cast()) }
    }

    /// The `length` bytes from `at` on.
    ///
    /// # Safety
    /// The kernel does not write to them while the answer lives.
    ///
    /// # Panics
    /// They do not lie within the mapping.
    pub(crate) unsafe fn bytes(&self, at: usize, length: usize) -> &[u8] {
        assert!(
            at <= self.length && length <= self.length - at,
            "bytes of the mapping"
        );
        // SAFETY: within the mapping, initialised by the kernel, and quiet, as the caller promises.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(at), length) }
    }

    /// The same, to be written.
    ///
    /// # Safety
    /// The kernel neither reads nor writes them while the answer lives.
    ///
    /// # Panics
    /// They do not lie within the mapping.
    pub(crate) unsafe fn bytes_mut(&mut self, at: usize, length: usize) -> &mut [u8] {
        assert!(
            at <= self.length && length <= self.length - at,
            "bytes of the mapping"
        );
        // SAFETY: as above, and `self` is borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().add(at), length) }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nobody borrows it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}
