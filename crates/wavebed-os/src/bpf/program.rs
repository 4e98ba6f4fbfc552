//! Programs: loading, and running without a hook.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use super::Instruction;
use super::map::{NAME_BYTES, bpf, owned, short_name, size};
use crate::error::{Context, Result};

// enum bpf_cmd.
const PROGRAM_LOAD: libc::c_long = 5;
const PROGRAM_TEST_RUN: libc::c_long = 10;

/// `BPF_F_XDP_HAS_FRAGS`: the program is ready for frames of more than one piece.
const HAS_FRAGMENTS: u32 = 1 << 5;
/// `BPF_F_TEST_XDP_LIVE_FRAMES`
const LIVE_FRAMES: u32 = 1 << 1;

/// Size of the verifier's log; one error needs much less.
const LOG_BYTES: usize = 1 << 18;
/// Bytes of the end of the verifier's log that go into an error.
const LOG_TAIL_BYTES: usize = 600;

/// The type of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramKind {
    /// XDP: receives frames at an interface, also frames of several fragments.
    Xdp,
    /// XDP, run from `BPF_PROG_TEST_RUN`. The kernel refuses live frames to programs for several fragments.
    XdpLive,
    /// Runs at a trace point of the kernel.
    RawTracepoint,
    /// Runs at events of TCP sockets, such as the start of a connection.
    SocketOperations,
}

/// A program that the kernel has accepted. It keeps the maps that it uses alive.
#[derive(Debug)]
pub struct Program {
    pub(super) fd: OwnedFd,
    pub(super) name: &'static str,
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
            ProgramKind::SocketOperations => (13, 0, ATTACH_SOCKET_OPERATIONS),
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

// enum bpf_cmd.
const RAW_TRACEPOINT_OPEN: libc::c_long = 17;
const LINK_CREATE: libc::c_long = 28;
const LINK_UPDATE: libc::c_long = 29;

/// `BPF_XDP` of enum `bpf_attach_type`.
pub(super) const ATTACH_XDP: u32 = 37;
/// `BPF_CGROUP_SOCK_OPS` of the same.
pub(super) const ATTACH_SOCKET_OPERATIONS: u32 = 3;
/// `XDP_FLAGS_SKB_MODE` and `XDP_FLAGS_DRV_MODE`.
const GENERIC_MODE: u32 = 1 << 1;
const NATIVE_MODE: u32 = 1 << 2;

/// The hook of an XDP program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpMode {
    /// In the driver.
    Native,
    /// In the generic hook of every interface, after the kernel made a packet of the frame.
    Generic,
}

/// A program that is attached; it is detached when this is dropped.
#[derive(Debug)]
pub struct Link {
    fd: OwnedFd,
    object: String,
}

/// The attributes of `BPF_LINK_CREATE`.
#[repr(C)]
struct Attributes {
    program: i32,
    target: u32,
    attach_type: u32,
    flags: u32,
}

impl Link {
    /// Attaches an XDP program to interface `index` of the calling thread's network namespace.
    ///
    /// # Errors
    /// The kernel's refusal: another program is attached (`EBUSY`), the driver has no such hook (`EOPNOTSUPP`).
    pub fn attach_xdp(program: &Program, index: u32, mode: XdpMode) -> Result<Self> {
        let mut attributes = Attributes {
            program: program.fd.as_raw_fd(),
            target: index,
            attach_type: ATTACH_XDP,
            flags: match mode {
                XdpMode::Native => NATIVE_MODE,
                XdpMode::Generic => GENERIC_MODE,
            },
        };
        let object = format!("the BPF program {} to interface {index}", program.name);
        Self::create(&mut attributes, object)
    }

    /// Attaches a program for socket operations to a control group (version 2): it runs for the sockets of all processes
    /// in it and below it, beside other programs.
    ///
    /// # Errors
    /// The kernel's refusal: `group` is no control group of version 2 (`EBADF`).
    pub fn attach_socket_operations(program: &Program, group: BorrowedFd<'_>) -> Result<Self> {
        let mut attributes = Attributes {
            program: program.fd.as_raw_fd(),
            target: group.as_raw_fd().cast_unsigned(),
            attach_type: ATTACH_SOCKET_OPERATIONS,
            flags: 0,
        };
        let object = format!("the BPF program {} to a control group", program.name);
        Self::create(&mut attributes, object)
    }

    fn create(attributes: &mut Attributes, object: String) -> Result<Self> {
        // SAFETY: BPF_LINK_CREATE has these attributes; they hold no pointers.
        let fd = unsafe { bpf(LINK_CREATE, attributes) }.during("attach", object.clone())?;
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
        // SAFETY: BPF_LINK_UPDATE has these attributes; they hold no pointers.
        unsafe { bpf(LINK_UPDATE, &mut attributes) }
            .map(drop)
            .during("replace what was attached:", self.object.clone())
    }
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
}
