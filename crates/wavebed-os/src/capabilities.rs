//! Capabilities of the calling thread (capabilities(7)), and the promise never to gain any.

use std::io;
use std::mem;

use crate::error::check;

/// `_LINUX_CAPABILITY_VERSION_3`.
const VERSION: u32 = 0x2008_0522;
/// More numbers than the kernel knows; it refuses the first one that it does not.
const NUMBERS: u32 = 64;

/// A set of capabilities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Set(u64);

impl Set {
    /// No capability.
    pub const NONE: Self = Self(0);
    /// Passing over the permissions of files.
    pub const DAC_OVERRIDE: Self = Self(1 << 1);
    /// Reading and searching whatever the permissions of files are.
    pub const DAC_READ_SEARCH: Self = Self(1 << 2);
    /// Signals to processes of other users.
    pub const KILL: Self = Self(1 << 5);
    /// Changing the group.
    pub const SETGID: Self = Self(1 << 6);
    /// Changing the user.
    pub const SETUID: Self = Self(1 << 7);
    /// Dropping capabilities from the bounding set.
    pub const SETPCAP: Self = Self(1 << 8);
    /// Settings of the network, such as a restricted congestion control.
    pub const NET_ADMIN: Self = Self(1 << 12);
    /// Entering mount namespaces.
    pub const SYS_CHROOT: Self = Self(1 << 18);
    /// Mounts and namespaces.
    pub const SYS_ADMIN: Self = Self(1 << 21);
    /// Priorities and real-time scheduling.
    pub const SYS_NICE: Self = Self(1 << 23);
    /// Mapping root of a user namespace into a new one.
    pub const SETFCAP: Self = Self(1 << 31);

    /// What is in one of the two.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

/// The lower and the upper 32 capabilities.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Half {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// The capabilities that the calling thread may make effective.
///
/// # Errors
/// Never, on Linux.
pub fn permitted() -> io::Result<Set> {
    let mut halves = [Half::default(); 2];
    call(libc::SYS_capget, &mut halves)?;
    Ok(Set(
        u64::from(halves[1].permitted) << 32 | u64::from(halves[0].permitted)
    ))
}

/// Keeps those capabilities of `set` that the calling thread has, effective, and lets go of all others. A program that root
/// starts still gets those of the bounding set.
///
/// # Errors
/// Never, on Linux.
pub fn keep(set: Set) -> io::Result<()> {
    let kept = Set(permitted()?.0 & set.0);
    assign(kept, Set::NONE)
}

fn assign(permitted: Set, inheritable: Set) -> io::Result<()> {
    let half = |shift: u32| {
        let low = |set: Set| u32::try_from((set.0 >> shift) & 0xffff_ffff).expect("32 bits");
        Half {
            effective: low(permitted),
            permitted: low(permitted),
            inheritable: low(inheritable),
        }
    };
    call(libc::SYS_capset, &mut [half(0), half(32)])
}

fn call(number: libc::c_long, halves: &mut [Half; 2]) -> io::Result<()> {
    let mut header = Header {
        version: VERSION,
        pid: 0,
    };
    // SAFETY: version 3 reads or writes two halves; both pointers are valid for the call.
    let answer = unsafe { libc::syscall(number, &raw mut header, halves.as_mut_ptr()) };
    check(i32::try_from(answer).unwrap_or(-1)).map(drop)
}

/// Empties the bounding set: no program that is started from now on gains a capability by being root's or by its file.
///
/// # Errors
/// The thread lacks [`Set::SETPCAP`].
pub fn empty_bounding_set() -> io::Result<()> {
    for number in 0..NUMBERS {
        match prctl(libc::PR_CAPBSET_DROP, number.into(), 0) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => break,
            answer => answer?,
        }
    }
    Ok(())
}

/// Promises that no program started from now on gains privileges (`PR_SET_NO_NEW_PRIVS`).
///
/// # Errors
/// Never, on Linux.
pub fn never_gain() -> io::Result<()> {
    prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0)
}

/// Whether [`never_gain`] was promised, here or by an ancestor.
#[must_use]
pub fn never_gains() -> bool {
    // SAFETY: this prctl takes numbers.
    unsafe { libc::prctl(libc::PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 }
}

/// Lets go of every capability for good: the calling process can neither have nor hand on any.
///
/// # Errors
/// Never, on Linux.
pub fn renounce(kept: Set) -> io::Result<()> {
    // Refused to a process that has no capability to begin with, which then has nothing to drop.
    let _ = empty_bounding_set();
    keep(kept)?;
    never_gain()
}

/// Makes the calling process user and group `id`, without other groups, and without capabilities but `kept`, which programs
/// that it starts keep too (ambient). `id` is `None` for a process that stays the user that it is.
///
/// # Errors
/// The process is not root in its user namespace, or `id` is not in it.
pub fn become_user(id: Option<u32>, kept: Set) -> io::Result<()> {
    // The bounding set limits what can be made inheritable: it goes second.
    assign(permitted()?, kept)?;
    empty_bounding_set()?;
    if let Some(id) = id {
        prctl(libc::PR_SET_KEEPCAPS, 1, 0)?;
        // SAFETY: these calls take numbers, and a list of no groups.
        unsafe {
            // Not allowed, and not needed, in the user namespace of a laboratory without root: it has one group.
            libc::setgroups(0, std::ptr::null());
            check(libc::setresgid(id, id, id))?;
            check(libc::setresuid(id, id, id))?;
        }
    }
    assign(kept, kept)?;
    for number in (0..NUMBERS).filter(|number| kept.0 >> number & 1 == 1) {
        prctl(
            libc::PR_CAP_AMBIENT,
            libc::PR_CAP_AMBIENT_RAISE as libc::c_ulong,
            number.into(),
        )?;
    }
    never_gain()
}

fn prctl(option: libc::c_int, first: libc::c_ulong, second: libc::c_ulong) -> io::Result<()> {
    // SAFETY: the options used here take numbers.
    check(unsafe { libc::prctl(option, first, second, 0, 0) }).map(drop)
}

const _: () = assert!(mem::size_of::<[Half; 2]>() == 24, "as the kernel has it");
