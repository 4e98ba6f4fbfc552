//! Attachments of programs to their hooks.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use super::call::{bpf, owned};
use super::program::Program;
use crate::error::{Context, Result};

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
        // SAFETY: the attributes are those of BPF_LINK_CREATE and hold no pointers.
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
        // SAFETY: the attributes are those of BPF_LINK_UPDATE and hold no pointers.
        unsafe { bpf(LINK_UPDATE, &mut attributes) }
            .map(drop)
            .during("replace what was attached:", self.object.clone())
    }
}
