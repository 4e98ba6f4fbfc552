//! bpf(2): maps, programs and their attachments.
//!
//! A program is loaded from instructions of the caller. Every object exists as long as its descriptor: on any end of
//! the process, programs are detached and maps are freed.

use std::ffi::CString;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::AtomicU64;

use memmap2::{MmapOptions, MmapRaw};
use rustix::process::{Resource, Rlimit, setrlimit};

use crate::error::{Context, Result};

// enum bpf_cmd.
const MAP_CREATE: libc::c_long = 0;
const MAP_LOOKUP: libc::c_long = 1;
const MAP_UPDATE: libc::c_long = 2;
const PROGRAM_LOAD: libc::c_long = 5;
const PROGRAM_TEST_RUN: libc::c_long = 10;
const RAW_TRACEPOINT_OPEN: libc::c_long = 17;
const LINK_CREATE: libc::c_long = 28;
const LINK_UPDATE: libc::c_long = 29;

// enum bpf_map_type.
const ARRAY: u32 = 2;
const DEVICE_MAP: u32 = 14;

/// `BPF_F_MMAPABLE`
const MMAPABLE: u32 = 1 << 10;
/// `BPF_F_XDP_HAS_FRAGS`: the program is ready for frames of more than one piece.
const HAS_FRAGMENTS: u32 = 1 << 5;
/// `BPF_F_TEST_XDP_LIVE_FRAMES`
const LIVE_FRAMES: u32 = 1 << 1;
/// `BPF_XDP` of enum `bpf_attach_type`.
const ATTACH_XDP: u32 = 37;
/// `XDP_FLAGS_SKB_MODE` and `XDP_FLAGS_DRV_MODE`.
const GENERIC_MODE: u32 = 1 << 1;
const NATIVE_MODE: u32 = 1 << 2;

/// Bytes of a name, with the zero at its end.
const NAME_BYTES: usize = 16;
/// Size of the verifier's log; one error needs much less.
const LOG_BYTES: usize = 1 << 18;
/// Bytes of the end of the verifier's log that go into an error.
const LOG_TAIL_BYTES: usize = 600;

/// One instruction of 64 bits (struct `bpf_insn`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Instruction {
    /// Operation code.
    pub code: u8,
    /// Destination register in the low four bits, source register in the high four.
    pub registers: u8,
    /// Offset of a jump or of a memory access.
    pub offset: i16,
    /// Immediate value.
    pub immediate: i32,
}

/// The type of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramKind {
    /// XDP: receives frames at an interface, also those of several fragments.
    Xdp,
    /// XDP, run from `BPF_PROG_TEST_RUN`. The kernel refuses live frames to programs for several fragments.
    XdpLive,
    /// Runs at a trace point of the kernel.
    RawTracepoint,
}

/// The hook of an XDP program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpMode {
    /// In the driver.
    Native,
    /// In the generic hook of every interface, after the kernel made a packet of the frame.
    Generic,
}

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
        // SAFETY: the attributes are those of BPF_MAP_CREATE and hold no pointers.
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

/// A program that the kernel has accepted. It keeps the maps that it uses alive.
#[derive(Debug)]
pub struct Program {
    fd: OwnedFd,
    name: &'static str,
}

impl Program {
    /// Loads a program.
    ///
    /// # Errors
    /// The kernel's refusal, with the end of the verifier's log.
    pub fn load(
        name: &'static str,
        kind: ProgramKind,
        instructions: &[Instruction],
    ) -> Result<Self> {
        let mut attributes = LoadAttributes::new(name, kind, instructions)?;
        // SAFETY: the instructions and the licence are valid for the call.
        if let Ok(fd) = unsafe { bpf(PROGRAM_LOAD, &mut attributes) } {
            return Ok(Self {
                fd: owned(fd),
                name,
            });
        }
        // Again, for the verifier's log.
        let mut log = vec![0_u8; LOG_BYTES];
        attributes.log_level = 1;
        attributes.log_bytes = size(log.len(), name)?;
        attributes.log = log.as_mut_ptr() as u64;
        // SAFETY: as above, and the log is valid for the call and as long as it says.
        match unsafe { bpf(PROGRAM_LOAD, &mut attributes) } {
            Ok(fd) => Ok(Self {
                fd: owned(fd),
                name,
            }),
            Err(error) => {
                let words = last_words(&log);
                let source = if words.is_empty() {
                    error
                } else {
                    io::Error::new(error.kind(), format!("{error}: {words}"))
                };
                Err(source).during("load the BPF program", name)
            }
        }
    }

    /// Sends frames by an XDP program: runs it `repeat` times on a frame that begins with `data`, in rounds of `batch`
    /// frames (at most 256); the program directs each frame. Frames are reused, so that data that the program does not
    /// write may come from an earlier receiver.
    ///
    /// # Errors
    /// The kernel's answer; `Interrupted` if a signal came, with part of the frames sent.
    pub fn run_live(&self, data: &[u8], repeat: u32, batch: u32) -> io::Result<()> {
        let mut attributes = RunAttributes::new(self, data)?;
        attributes.repeat = repeat;
        attributes.flags = LIVE_FRAMES;
        attributes.batch = batch;
        // SAFETY: the data is valid for the call; nothing is written but the attributes.
        unsafe { bpf(PROGRAM_TEST_RUN, &mut attributes) }.map(drop)
    }

    /// Runs an XDP program once on a frame that is then discarded, and returns its verdict.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn run_once(&self, data: &[u8]) -> io::Result<u32> {
        let mut attributes = RunAttributes::new(self, data)?;
        // SAFETY: the data is valid for the call; nothing is written but the attributes.
        unsafe { bpf(PROGRAM_TEST_RUN, &mut attributes) }?;
        Ok(attributes.answer)
    }
}

impl AsFd for Program {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[repr(C)]
#[derive(Default)]
struct RunAttributes {
    program: i32,
    answer: u32,
    data_in_bytes: u32,
    data_out_bytes: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    context_in_bytes: u32,
    context_out_bytes: u32,
    context_in: u64,
    context_out: u64,
    flags: u32,
    cpu: u32,
    batch: u32,
    padding: u32,
}

impl RunAttributes {
    fn new(program: &Program, data: &[u8]) -> io::Result<Self> {
        Ok(Self {
            program: program.fd.as_raw_fd(),
            data_in_bytes: u32::try_from(data.len())
                .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?,
            data_in: data.as_ptr() as u64,
            ..Self::default()
        })
    }
}

#[repr(C)]
struct LoadAttributes {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; NAME_BYTES],
    interface: u32,
    expected_attach_type: u32,
}

/// The licence of this project. The kernel reserves some functions for programs under the GPL; these programs use none
/// of them.
const LICENSE: &std::ffi::CStr = c"Apache-2.0";

impl LoadAttributes {
    fn new(name: &'static str, kind: ProgramKind, instructions: &[Instruction]) -> Result<Self> {
        // enum bpf_prog_type.
        let (number, flags, attach) = match kind {
            ProgramKind::Xdp => (6, HAS_FRAGMENTS, ATTACH_XDP),
            ProgramKind::XdpLive => (6, 0, ATTACH_XDP),
            ProgramKind::RawTracepoint => (17, 0, 0),
        };
        Ok(Self {
            kind: number,
            count: size(instructions.len(), name)?,
            instructions: instructions.as_ptr() as u64,
            license: LICENSE.as_ptr() as u64,
            log_level: 0,
            log_bytes: 0,
            log: 0,
            kernel_version: 0,
            flags,
            name: short_name(name),
            interface: 0,
            expected_attach_type: attach,
        })
    }
}

/// A program that is attached; it is detached when this is dropped.
#[derive(Debug)]
pub struct Link {
    fd: OwnedFd,
    object: String,
}

impl Link {
    /// Attaches an XDP program to interface `index` of the calling thread's network namespace.
    ///
    /// # Errors
    /// The kernel's refusal: another program is attached (`EBUSY`), the driver has no such hook (`EOPNOTSUPP`).
    pub fn attach_xdp(program: &Program, index: u32, mode: XdpMode) -> Result<Self> {
        #[repr(C)]
        struct Attributes {
            program: i32,
            interface: u32,
            attach_type: u32,
            flags: u32,
        }
        let mut attributes = Attributes {
            program: program.fd.as_raw_fd(),
            interface: index,
            attach_type: ATTACH_XDP,
            flags: match mode {
                XdpMode::Native => NATIVE_MODE,
                XdpMode::Generic => GENERIC_MODE,
            },
        };
        let object = format!("the BPF program {} to interface {index}", program.name);
        // SAFETY: the attributes are those of BPF_LINK_CREATE and hold no pointers.
        let fd = unsafe { bpf(LINK_CREATE, &mut attributes) }.during("attach", object.clone())?;
        Ok(Self {
            fd: owned(fd),
            object,
        })
    }

    /// Attaches a program to the kernel's trace point `name`.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn attach_tracepoint(program: &Program, name: &str) -> Result<Self> {
        #[repr(C)]
        struct Attributes {
            name: u64,
            program: i32,
            padding: u32,
        }
        let object = format!("the BPF program {} to trace point {name}", program.name);
        let text = CString::new(name)
            .map_err(io::Error::from)
            .during("attach", object.clone())?;
        let mut attributes = Attributes {
            name: text.as_ptr() as u64,
            program: program.fd.as_raw_fd(),
            padding: 0,
        };
        // SAFETY: the name is a valid string for the call.
        let fd = unsafe { bpf(RAW_TRACEPOINT_OPEN, &mut attributes) }
            .during("attach", object.clone())?;
        Ok(Self {
            fd: owned(fd),
            object,
        })
    }

    /// Replaces the attached program atomically: every frame is handled by the old or by the new one.
    ///
    /// # Errors
    /// The kernel's refusal; the interface was removed (`ENOLINK`).
    pub fn replace(&self, program: &Program) -> Result<()> {
        #[repr(C)]
        struct Attributes {
            link: i32,
            program: i32,
            flags: u32,
            old: u32,
        }
        let mut attributes = Attributes {
            link: self.fd.as_raw_fd(),
            program: program.fd.as_raw_fd(),
            flags: 0,
            old: 0,
        };
        // SAFETY: the attributes are those of BPF_LINK_UPDATE and hold no pointers.
        unsafe { bpf(LINK_UPDATE, &mut attributes) }
            .map(drop)
            .during("replace what was attached:", self.object.clone())
    }
}

/// The number of the calling thread in its PID namespace.
#[must_use]
pub fn current_thread() -> i32 {
    rustix::thread::gettid().as_raw_pid()
}

/// Upper bound of the processor numbers of this machine.
///
/// # Errors
/// `/sys` is not there.
pub fn possible_processors() -> Result<usize> {
    let path = "/sys/devices/system/cpu/possible";
    let text = std::fs::read_to_string(path).during("read", path)?;
    last_processor(&text)
        .map(|last| last + 1)
        .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
        .during("understand", path)
}

/// The greatest number in a list such as `0-3,8`.
fn last_processor(list: &str) -> Option<usize> {
    list.trim().rsplit([',', '-']).next()?.parse().ok()
}

/// # Safety
/// `attributes` must be those of `command`, and its pointers valid for the command.
unsafe fn bpf<T>(command: libc::c_long, attributes: &mut T) -> io::Result<i32> {
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
fn owned(fd: i32) -> OwnedFd {
    // SAFETY: only called with new descriptors of BPF_MAP_CREATE, BPF_PROG_LOAD and the attach commands.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

fn lift_memory_lock() {
    let no_limit = Rlimit {
        current: None,
        maximum: None,
    };
    // An error shows in the next call.
    let _ = setrlimit(Resource::Memlock, no_limit);
}

fn size(value: usize, name: &str) -> Result<u32> {
    u32::try_from(value)
        .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
        .during("take the size of", name)
}

/// A name in the form of the kernel: 15 letters, digits, underscores and dots.
fn short_name(name: &str) -> [u8; NAME_BYTES] {
    let mut bytes = [0; NAME_BYTES];
    for (to, from) in bytes[..NAME_BYTES - 1].iter_mut().zip(name.bytes()) {
        *to = from;
    }
    bytes
}

/// The end of the verifier's log, in one line.
fn last_words(log: &[u8]) -> String {
    let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
    let start = end.saturating_sub(LOG_TAIL_BYTES);
    let text = String::from_utf8_lossy(&log[start..end]);
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    lines.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verifier_s_words_become_one_line() {
        let mut log = b"0: (95) exit\nR0 !read_ok\n\n".to_vec();
        log.resize(64, 0);
        assert_eq!(last_words(&log), "0: (95) exit; R0 !read_ok");
        assert_eq!(last_words(&[]), "");
    }

    #[test]
    fn a_name_is_cut_to_what_the_kernel_keeps() {
        assert_eq!(&short_name("count")[..6], b"count\0");
        assert_eq!(short_name("a_name_that_is_too_long")[15], 0);
    }

    #[test]
    fn the_last_processor_of_a_list_counts() {
        assert_eq!(last_processor("0-3,8\n"), Some(8));
        assert_eq!(last_processor("0-127"), Some(127));
        assert_eq!(last_processor("0"), Some(0));
        assert_eq!(last_processor(""), None);
    }
}
