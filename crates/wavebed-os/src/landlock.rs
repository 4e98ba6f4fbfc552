//! Landlock (landlock(7)): a program that has opened all it needs gives up the rest of the machine.

use std::io;
use std::mem;

use crate::error::check;

/// Asks for the version instead of making a set of rules.
const CREATE_RULESET_VERSION: libc::c_uint = 1;
/// All rights over files up to each version: 1 has 13, then come links between folders, truncation, and device controls.
const FILE_RIGHTS: [(u32, u64); 4] = [(1, (1 << 13) - 1), (2, 1 << 13), (3, 1 << 14), (5, 1 << 15)];
/// Since this version: to bind and to connect TCP sockets.
const NET_SINCE: u32 = 4;
const NET_RIGHTS: u64 = 0b11;
/// Since this version: abstract Unix sockets of others, and signals to others.
const SCOPE_SINCE: u32 = 6;
const SCOPES: u64 = 0b11;

/// `struct landlock_ruleset_attr`.
#[repr(C)]
#[derive(Debug, Default)]
struct Ruleset {
    files: u64,
    net: u64,
    scoped: u64,
}

impl Ruleset {
    /// All that a kernel of this version can refuse, and the bytes of the structure that it knows.
    fn all(version: u32) -> (Self, usize) {
        let files = FILE_RIGHTS.iter().filter(|(since, _)| *since <= version);
        let mut rules = Self {
            files: files.fold(0, |all, (_, rights)| all | rights),
            ..Self::default()
        };
        let mut fields = 1;
        if version >= NET_SINCE {
            rules.net = NET_RIGHTS;
            fields = 2;
        }
        if version >= SCOPE_SINCE {
            rules.scoped = SCOPES;
            fields = 3;
        }
        (rules, fields * mem::size_of::<u64>())
    }
}

/// The version of the kernel's Landlock; `None` where it has none (before 5.13, or switched off).
#[must_use]
pub fn version() -> Option<u32> {
    // SAFETY: with this flag the call takes no structure and makes nothing.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<Ruleset>(),
            0usize,
            CREATE_RULESET_VERSION,
        )
    };
    u32::try_from(version).ok().filter(|version| *version > 0)
}

/// From now on the calling thread and its children can open no file, and, where the kernel knows these rules, neither
/// bind nor connect TCP, nor signal other processes. Open descriptors stay as they are. Needs `no_new_privs`.
///
/// Returns false where the kernel has no Landlock.
///
/// # Errors
/// `EPERM`: `no_new_privs` is not set.
pub fn refuse_all() -> io::Result<bool> {
    let Some(version) = version() else {
        return Ok(false);
    };
    let (rules, bytes) = Ruleset::all(version);
    // SAFETY: `rules` outlives the call, and `bytes` is not above its size.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            &raw const rules,
            bytes,
            0 as libc::c_uint,
        )
    };
    let fd = check(i32::try_from(fd).unwrap_or(-1))?;
    // SAFETY: the kernel has just made this descriptor for us.
    let rules = unsafe { <std::os::fd::OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(fd) };
    let fd = std::os::fd::AsRawFd::as_raw_fd(&rules);
    // SAFETY: the call takes two numbers.
    let answer = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, fd, 0 as libc::c_uint) };
    check(i32::try_from(answer).unwrap_or(-1)).map(|_| true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::net::TcpListener;

    #[test]
    fn a_thread_that_gave_up_everything_opens_nothing_and_keeps_what_is_open() {
        let work = || {
            let mut before = File::open("/proc/version").expect("there");
            crate::capabilities::never_gain().expect("set");
            if !refuse_all().expect("no_new_privs is set") {
                // The kernel says that it has no Landlock: then nothing may have changed.
                assert!(File::open("/proc/version").is_ok());
                return;
            }
            let refused = File::open("/proc/version").expect_err("refused");
            assert_eq!(refused.raw_os_error(), Some(libc::EACCES));
            assert!(File::create("/tmp/wavebed-landlock-test").is_err());
            let mut text = String::new();
            io::Read::read_to_string(&mut before, &mut text).expect("open before");
            assert!(text.starts_with("Linux"));
            assert!(std::net::UdpSocket::bind("127.0.0.1:0").is_ok());
        };
        std::thread::spawn(work).join().expect("the thread");
        assert!(TcpListener::bind("127.0.0.1:0").is_ok(), "others are free");
    }

    #[test]
    fn a_kernel_gets_no_rules_that_it_does_not_know() {
        let (rules, bytes) = Ruleset::all(1);
        assert_eq!((rules.files, rules.net, bytes), (0x1fff, 0, 8));
        let (rules, bytes) = Ruleset::all(4);
        assert_eq!((rules.files, rules.net, bytes), (0x7fff, 3, 16));
        let (rules, bytes) = Ruleset::all(7);
        assert_eq!((rules.files, rules.scoped, bytes), (0xffff, 3, 24));
    }
}
