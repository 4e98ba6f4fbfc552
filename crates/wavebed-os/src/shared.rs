//! Memory that a socket shares with the kernel: rings of `AF_PACKET` and `AF_XDP`.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::AtomicU32;

use memmap2::{MmapOptions, MmapRaw};

/// A shared mapping.
///
/// Words in the mapping itself define the ownership of its bytes, so that every access except to a word is unsafe.
#[derive(Debug)]
pub(crate) struct Shared(MmapRaw);

impl Shared {
    /// Maps `length` bytes of `socket` at `offset`.
    pub(crate) fn map(socket: BorrowedFd<'_>, offset: u64, length: usize) -> io::Result<Self> {
        let mut options = MmapOptions::new();
        let map = options
            .offset(offset)
            .len(length)
            .populate()
            .map_raw(&socket)?;
        Ok(Self(map))
    }

    /// The word at byte `at`.
    ///
    /// # Panics
    /// It does not lie within the mapping, or not on a multiple of four.
    pub(crate) fn word(&self, at: usize) -> &AtomicU32 {
        assert!(
            at.is_multiple_of(4) && at + 4 <= self.0.len(),
            "a word of the mapping"
        );
        // SAFETY: within the mapping and aligned (the mapping begins at a page); both sides touch it as a whole.
        unsafe { AtomicU32::from_ptr(self.0.as_mut_ptr().add(at).cast()) }
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
            at <= self.0.len() && length <= self.0.len() - at,
            "bytes of the mapping"
        );
        // SAFETY: within the mapping, initialised by the kernel, and quiet, as the caller promises.
        unsafe { std::slice::from_raw_parts(self.0.as_mut_ptr().add(at), length) }
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
            at <= self.0.len() && length <= self.0.len() - at,
            "bytes of the mapping"
        );
        // SAFETY: as above, and `self` is borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().add(at), length) }
    }
}
