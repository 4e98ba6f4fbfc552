//! Memory that goes back to the system when it is let go.
//!
//! The C library keeps what was freed: after the first large block it raises the size from which blocks are
//! mapped, so a queue that was long once would be paid for until the end.

use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// A region of zeroed memory, mapped for itself and unmapped when dropped.
#[derive(Debug)]
pub struct Region {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the region is owned by this value alone, as the memory of a Vec is.
unsafe impl Send for Region {}
// SAFETY: shared access only reads.
unsafe impl Sync for Region {}

impl Region {
    /// Maps `length` bytes.
    ///
    /// # Errors
    /// There is no memory left, or `length` is zero.
    ///
    /// # Panics
    /// If the kernel chose the address 0, which it never does.
    pub fn new(length: usize) -> io::Result<Self> {
        // SAFETY: a new private mapping without a file touches no memory that exists.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(address.cast()).expect("mmap(2) never maps address 0 unasked");
        Ok(Self { start, length })
    }
}

impl Deref for Region {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping has this length, is initialised (zeros) and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl DerefMut for Region {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nobody borrows it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::Region;

    #[test]
    fn a_region_is_zeroed_and_keeps_what_is_written() {
        let mut region = Region::new(100_000).unwrap();
        assert_eq!(region.len(), 100_000);
        assert!(region.iter().all(|&byte| byte == 0));
        region[99_999] = 7;
        assert_eq!(region[99_999], 7);
    }

    #[test]
    fn what_there_is_no_memory_for_is_an_error() {
        assert!(Region::new(usize::MAX / 2).is_err());
        assert!(Region::new(0).is_err());
    }

    #[test]
    fn many_regions_come_and_go() {
        for _ in 0..100 {
            let regions: Vec<Region> = (0..50).map(|_| Region::new(1 << 20).unwrap()).collect();
            drop(regions);
        }
    }
}
