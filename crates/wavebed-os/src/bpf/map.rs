//! Maps: memory of programs that this process reads and writes.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::AtomicU64;
use std::{io, mem};

use memmap2::{MmapOptions, MmapRaw};
use rustix::process::{Resource, Rlimit, setrlimit};

use crate::error::{Context, Result};

// enum bpf_cmd.
const MAP_CREATE: libc::c_long = 0;
const MAP_LOOKUP: libc::c_long = 1;
const MAP_UPDATE: libc::c_long = 2;

// enum bpf_map_type.
const ARRAY: u32 = 2;
const DEVICE_MAP: u32 = 14;

/// `BPF_F_MMAPABLE`
const MMAPABLE: u32 = 1 << 10;

/// A map.
#[derive(Debug)]
pub struct Map {
    fd: OwnedFd,
    name: &'static str,
    value_bytes: usize,
}

impl Map {
    /// An array of `entries` values of `value_bytes` each.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn array(name: &'static str, value_bytes: usize, entries: usize) -> Result<Self> {
        Self::create(name, ARRAY, value_bytes, entries, 0)
    }

    /// A table of interfaces that a program may redirect to; values are interface indexes.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn interfaces(name: &'static str, entries: usize) -> Result<Self> {
        Self::create(name, DEVICE_MAP, mem::size_of::<u32>(), entries, 0)
    }

    fn create(
        name: &'static str,
        kind: u32,
        value_bytes: usize,
        entries: usize,
        flags: u32,
    ) -> Result<Self> {
        #[repr(C)]
        struct Attributes {
            kind: u32,
            key_bytes: u32,
            value_bytes: u32,
            entries: u32,
            flags: u32,
            inner: u32,
            numa: u32,
            name: [u8; NAME_BYTES],
        }
        let mut attributes = Attributes {
            kind,
            key_bytes: 4,
            value_bytes: size(value_bytes, name)?,
            entries: size(entries, name)?,
            flags,
            inner: 0,
            numa: 0,
            name: short_name(name),
        };
        // SAFETY: BPF_MAP_CREATE has these attributes; they hold no pointers.
        let mut answer = unsafe { bpf(MAP_CREATE, &mut attributes) };
        if matches!(&answer, Err(error) if error.raw_os_error() == Some(libc::EPERM)) {
            // Kernels before 5.11 count maps against the limit on locked memory.
            lift_memory_lock();
            // SAFETY: as above.
            answer = unsafe { bpf(MAP_CREATE, &mut attributes) };
        }
        Ok(Self {
            fd: owned(answer.during("make the BPF map", name)?),
            name,
            value_bytes,
        })
    }

    /// Sets value `index`.
    ///
    /// # Errors
    /// The kernel's refusal.
    ///
    /// # Panics
    /// If `value` has not the size of the map's values.
    pub fn set(&self, index: u32, value: &[u8]) -> Result<()> {
        assert_eq!(value.len(), self.value_bytes, "a whole value");
        let mut attributes = Element {
            map: self.fd.as_raw_fd(),
            padding: 0,
            key: (&raw const index) as u64,
            value: value.as_ptr() as u64,
            flags: 0,
        };
        // SAFETY: key and value are valid for the call and have the map's sizes.
        unsafe { bpf(MAP_UPDATE, &mut attributes) }
            .map(drop)
            .during("write to the BPF map", self.name)
    }

    /// Reads value `index`.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn get(&self, index: u32) -> Result<Vec<u8>> {
        let mut value = vec![0_u8; self.value_bytes];
        let mut attributes = Element {
            map: self.fd.as_raw_fd(),
            padding: 0,
            key: (&raw const index) as u64,
            value: value.as_mut_ptr() as u64,
            flags: 0,
        };
        // SAFETY: key and value are valid for the call and have the map's sizes.
        unsafe { bpf(MAP_LOOKUP, &mut attributes) }.during("read from the BPF map", self.name)?;
        Ok(value)
    }
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// `struct` of the commands on one value of a map.
#[repr(C)]
struct Element {
    map: i32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// Memory that programs and this process share: an array of one value, as words.
#[derive(Debug)]
pub struct SharedMemory {
    map: Map,
    memory: MmapRaw,
}

impl SharedMemory {
    /// `words` zeros of 64 bits.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn new(name: &'static str, words: usize) -> Result<Self> {
        let bytes = words * mem::size_of::<u64>();
        let map = Map::create(name, ARRAY, bytes, 1, MMAPABLE)?;
        let memory = MmapOptions::new().len(bytes).map_raw(&map.fd);
        let memory = memory.during("map the BPF map", name)?;
        Ok(Self { map, memory })
    }

    /// The words. A program may change them at any time.
    #[must_use]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping has this length, is aligned to a page and lives as long as `self`; programs write to it
        // by whole words or by atomic operations, and this process only through the atomics.
        unsafe {
            let words = self.memory.len() / mem::size_of::<u64>();
            std::slice::from_raw_parts(self.memory.as_mut_ptr().cast(), words)
        }
    }
}

impl AsFd for SharedMemory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}

/// Bytes of a name, with the zero at its end.
pub(super) const NAME_BYTES: usize = 16;

/// # Safety
/// `attributes` must belong to `command`, and its pointers must be valid for the command.
pub(super) unsafe fn bpf<T>(command: libc::c_long, attributes: &mut T) -> io::Result<i32> {
    // SAFETY: the caller's promise; the kernel reads no more than the size says and takes the rest as zero.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_mut(attributes),
            mem::size_of::<T>(),
        )
    };
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    i32::try_from(answer).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))
}

/// A descriptor that bpf(2) has just given.
pub(super) fn owned(fd: i32) -> OwnedFd {
    // SAFETY: only called with new descriptors of BPF_MAP_CREATE, BPF_PROG_LOAD and the attach commands.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

pub(super) fn lift_memory_lock() {
    let no_limit = Rlimit {
        current: None,
        maximum: None,
    };
    // An error shows in the next call.
    let _ = setrlimit(Resource::Memlock, no_limit);
}

pub(super) fn size(value: usize, name: &str) -> Result<u32> {
    u32::try_from(value)
        .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
        .during("take the size of", name)
}

/// A name in the form of the kernel: 15 letters, digits, underscores and dots.
pub(super) fn short_name(name: &str) -> [u8; NAME_BYTES] {
    let mut bytes = [0; NAME_BYTES];
    for (to, from) in bytes[..NAME_BYTES - 1].iter_mut().zip(name.bytes()) {
        *to = from;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_cut_to_what_the_kernel_keeps() {
        assert_eq!(&short_name("count")[..6], b"count\0");
        assert_eq!(short_name("a_name_that_is_too_long")[15], 0);
    }
}
