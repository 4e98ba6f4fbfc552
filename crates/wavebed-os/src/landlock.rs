//! Landlock (landlock(7)): a program that has opened all it needs gives up the rest of the machine.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags};

use crate::error::check;

/// Asks for the version instead of making a set of rules.
const CREATE_RULESET_VERSION: libc::c_uint = 1;
/// All rights over files up to each version: 1 has 13, then come links between folders, truncation, and device controls.
const FILE_RIGHTS: [(u32, u64); 4] = [(1, (1 << 13) - 1), (2, 1 << 13), (3, 1 << 14), (5, 1 << 15)];
const EXECUTE: u64 = 1;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_FOLDER: u64 = 1 << 3;
const TRUNCATE: u64 = 1 << 14;
const RULE_PATH_BENEATH: libc::c_int = 1;
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
    /// All that a kernel of this version can refuse.
    fn all(version: u32) -> Self {
        let files = FILE_RIGHTS.iter().filter(|(since, _)| *since <= version);
        Self {
            files: files.fold(0, |all, (_, rights)| all | rights),
            net: if version >= NET_SINCE { NET_RIGHTS } else { 0 },
            scoped: if version >= SCOPE_SINCE { SCOPES } else { 0 },
        }
    }

    /// The bytes of the structure that a kernel of this version knows.
    fn known_bytes(version: u32) -> usize {
        let fields = 1 + usize::from(version >= NET_SINCE) + usize::from(version >= SCOPE_SINCE);
        fields * mem::size_of::<u64>()
    }

    /// Makes a set of rules that refuses all of this.
    fn make(&self, version: u32) -> io::Result<OwnedFd> {
        // SAFETY: the structure outlives the call, and has as many fields as the kernel of this version reads.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_landlock_create_ruleset,
                std::ptr::from_ref(self),
                Self::known_bytes(version),
                0 as libc::c_uint,
            )
        };
        let fd = check(i32::try_from(fd).unwrap_or(-1))?;
        // SAFETY: the kernel has just made this descriptor for us.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

/// `struct landlock_path_beneath_attr`.
#[repr(C, packed)]
struct Beneath {
    rights: u64,
    folder: i32,
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
    let rules = Ruleset::all(version).make(version)?;
    restrict(&rules).map(|()| true)
}

/// From now on the calling thread and its children read files only below `readable` and `writable`, change them only below
/// `writable`, and write to `/dev/null`; where the kernel knows these rules, they neither use TCP nor signal other
/// processes. Needs `no_new_privs`.
///
/// Returns false where the kernel has no Landlock.
///
/// # Errors
/// A file or folder cannot be opened, or `no_new_privs` is not set.
pub fn only(readable: &[String], writable: &[String]) -> io::Result<bool> {
    let Some(version) = version() else {
        return Ok(false);
    };
    let all = Ruleset::all(version);
    let rules = all.make(version)?;
    let read = readable
        .iter()
        .map(|path| (path.as_str(), EXECUTE | READ_FILE | READ_FOLDER));
    let write = writable.iter().map(|path| (path.as_str(), all.files));
    let nothing = ("/dev/null", (READ_FILE | WRITE_FILE | TRUNCATE) & all.files);
    for (path, rights) in read.chain(write).chain([nothing]) {
        match allow(&rules, path, rights) {
            // What has gone since it was named, or cannot be reached, is read by nobody.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
                ) => {}
            Err(error) => return Err(io::Error::new(error.kind(), format!("{path}: {error}"))),
            Ok(()) => {}
        }
    }
    restrict(&rules).map(|()| true)
}

/// Allows `rights` below a folder, or those over a file.
fn allow(rules: &OwnedFd, path: &str, rights: u64) -> io::Result<()> {
    let place = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let is_folder =
        rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(&place)?.st_mode).is_dir();
    let rule = Beneath {
        rights: if is_folder {
            rights
        } else {
            rights & !READ_FOLDER
        },
        folder: place.as_raw_fd(),
    };
    // SAFETY: `rule` outlives the call, which reads it as the kind that the second number names.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_landlock_add_rule,
            rules.as_raw_fd(),
            RULE_PATH_BENEATH,
            &raw const rule,
            0 as libc::c_uint,
        )
    };
    check(i32::try_from(answer).unwrap_or(-1)).map(drop)
}

fn restrict(rules: &OwnedFd) -> io::Result<()> {
    // SAFETY: the call takes two numbers.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_landlock_restrict_self,
            rules.as_raw_fd(),
            0 as libc::c_uint,
        )
    };
    check(i32::try_from(answer).unwrap_or(-1)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capabilities;
    use std::fs::File;
    use std::net::TcpListener;

    #[test]
    fn a_thread_reads_and_writes_where_it_may_alone() {
        let folder = std::env::temp_dir().join(format!("wavebed-landlock-{}", std::process::id()));
        let names = ["read", "write", "closed"].map(|name| folder.join(name));
        for each in &names {
            std::fs::create_dir_all(each).expect("made");
            std::fs::write(each.join("file"), "text").expect("made");
        }
        let [read, write, closed] = &names;
        let file = closed.join("file-alone");
        std::fs::write(&file, "text").expect("made");
        let text = |path: &std::path::Path| path.display().to_string();
        let work = || {
            capabilities::never_gain().expect("set");
            let refuses = only(&[text(read), text(&file)], &[text(write)]).expect("set");
            std::fs::write(write.join("file"), "text").expect("allowed");
            std::fs::write("/dev/null", "text").expect("allowed");
            for allowed in [&read.join("file"), &write.join("file"), &file] {
                assert_eq!(std::fs::read(allowed).expect("allowed"), b"text");
            }
            assert_eq!(File::create(read.join("file")).is_err(), refuses);
            assert_eq!(File::open(closed.join("file")).is_err(), refuses);
            assert_eq!(std::fs::read_dir(closed).is_err(), refuses);
        };
        std::thread::scope(|scope| scope.spawn(work).join().expect("holds"));
        std::fs::remove_dir_all(&folder).expect("removed");
    }

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
        for (version, files, net, scoped, bytes) in [
            (1, 0x1fff, 0, 0, 8),
            (4, 0x7fff, 3, 0, 16),
            (7, 0xffff, 3, 3, 24),
        ] {
            let rules = Ruleset::all(version);
            assert_eq!((rules.files, rules.net, rules.scoped), (files, net, scoped));
            assert_eq!(Ruleset::known_bytes(version), bytes);
        }
    }
}
