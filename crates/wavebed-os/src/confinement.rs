//! Confinement of a program: a restricted view of the file system, a separate user, no capabilities, fewer system calls.

use std::collections::BTreeSet;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fs, io, mem};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};
use rustix::thread;
use rustix::thread::UnshareFlags;

/// A set of capabilities.
pub use rustix::thread::CapabilitySet as Set;

use crate::error::check;
use crate::namespace;
use crate::namespace::{Refusals, Tree};

/// World-writable folders: each confined program gets its own ones in memory.
pub const TEMPORARY: &str = "/tmp";
const ALSO_TEMPORARY: [&str; 2] = ["/var/tmp", "/dev/shm"];

/// No set-user-ID programs, and no device nodes outside `/dev`.
const FOREIGN: Refusals = Refusals::SETUID.and(Refusals::DEVICES);

/// The user of a confined program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    /// This user and group, which no other process has.
    Other(u32),
    /// This user in a new user namespace; outside it is the caller's user.
    Renamed(u32),
}

/// The permissions of a confined program.
#[derive(Clone, Debug)]
pub struct Confinement {
    /// Its user.
    pub user: User,
    /// Folders that are empty to it, except for paths in `read` and `write`.
    pub hidden: Vec<PathBuf>,
    /// Files and folders in hidden or temporary folders that stay readable. Missing ones are skipped.
    pub read: Vec<PathBuf>,
    /// Folders that it can write to. All others, except its temporary folder, are read-only.
    pub write: Vec<PathBuf>,
    /// Capabilities that it keeps in the namespaces of the laboratory.
    pub capabilities: Set,
    /// Whether it gets a session without a terminal: on the caller's terminal it could inject input (TIOCSTI) for the
    /// user's shell.
    pub own_session: bool,
}

impl Confinement {
    /// Sets up the program's view of the file system in the calling process, which has its own mount namespace.
    ///
    /// # Errors
    /// A folder to write to does not exist, or the process lacks the permission to mount.
    pub fn hide(&self) -> io::Result<()> {
        let hidden = self.covers();
        let mut trees = self.trees(&hidden)?;
        trees.sort_by(|(one, ..), (other, ..)| one.cmp(other));
        for folder in &hidden {
            cover(folder)?;
        }
        namespace::temporary(TEMPORARY)?;
        for folder in ALSO_TEMPORARY {
            // A machine may lack one of them.
            let _ = namespace::bind(TEMPORARY, folder);
        }
        for (path, tree, is_read_only) in &trees {
            if !is_read_only || !tree.is_at(path) {
                tree.attach(path)?;
            }
        }
        namespace::refuse_from(Path::new("/"), Refusals::WRITING.and(Refusals::SETUID))?;
        // Otherwise the user of a laboratory without root could change all settings of its network namespace.
        let settings = Path::new("/proc/sys");
        Tree::copy(settings)?.attach(settings)?;
        let writable = self.write.iter().map(PathBuf::as_path);
        for path in writable.chain([Path::new(TEMPORARY)]) {
            namespace::allow_at(path, Refusals::WRITING)?;
        }
        // A browser writes the maps of its sandbox's user namespace there.
        let others = ["/proc"].into_iter().chain(ALSO_TEMPORARY);
        for path in others {
            let _ = namespace::allow_at(Path::new(path), Refusals::WRITING);
        }
        Ok(())
    }

    /// Switches the calling process to the program's user and capabilities, irrevocably.
    ///
    /// # Errors
    /// The process is not root in its user namespace.
    pub fn become_user(&self) -> io::Result<()> {
        match self.user {
            User::Other(id) => become_user(Some(id), self.capabilities),
            User::Renamed(id) => {
                // In a new user namespace it would have no capabilities over the laboratory's namespaces.
                if self.capabilities == Set::empty() {
                    rename(id)?;
                }
                become_user(None, self.capabilities)
            }
        }
    }

    /// The folders to be covered, outer ones first: those to be hidden, and those above needed paths that the program's
    /// user cannot search.
    fn covers(&self) -> Vec<PathBuf> {
        let needed = self.read.iter().chain(&self.write);
        let closed = needed
            .flat_map(|path| path.ancestors().skip(1))
            .filter(|folder| {
                fs::metadata(folder).is_ok_and(|found| found.is_dir() && found.mode() & 1 == 0)
            });
        let wanted: BTreeSet<&Path> = self
            .hidden
            .iter()
            .map(PathBuf::as_path)
            .chain(closed)
            .filter(|folder| folder.is_dir())
            .collect();
        let mut covers: Vec<PathBuf> = Vec::new();
        for folder in wanted {
            if !is_in(folder, &covers) && !is_temporary(folder) {
                covers.push(folder.to_owned());
            }
        }
        covers
    }

    /// Copies of needed paths that the covers would hide, and whether each is read-only.
    fn trees(&self, covers: &[PathBuf]) -> io::Result<Vec<(PathBuf, Tree, bool)>> {
        let mut trees = Vec::new();
        for path in &self.write {
            let tree = Tree::copy(path)?;
            tree.refuse(FOREIGN)?;
            trees.push((path.clone(), tree, false));
        }
        for path in &self.read {
            if !is_in(path, covers) && !is_temporary(path) {
                continue;
            }
            match Tree::copy(path) {
                Ok(tree) => {
                    tree.refuse(FOREIGN.and(Refusals::WRITING))?;
                    trees.push((path.clone(), tree, true));
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(trees)
    }
}

/// Turns the calling process into a confined `user` without capabilities, then creates the namespaces of a browser's
/// sandbox.
///
/// # Errors
/// The kernel refuses.
pub fn try_sandbox(user: User) -> io::Result<()> {
    let confinement = Confinement {
        user,
        hidden: Vec::new(),
        read: Vec::new(),
        write: Vec::new(),
        capabilities: Set::empty(),
        own_session: false,
    };
    confinement.become_user()?;
    // The second needs the capabilities from the first.
    namespace::unshare(UnshareFlags::NEWUSER)?;
    namespace::unshare(UnshareFlags::NEWNET)
}

fn is_in(path: &Path, folders: &[PathBuf]) -> bool {
    folders.iter().any(|folder| path.starts_with(folder))
}

fn is_temporary(path: &Path) -> bool {
    let mut folders = ALSO_TEMPORARY.iter().chain([&TEMPORARY]);
    folders.any(|folder| path.starts_with(folder))
}

fn cover(folder: &Path) -> io::Result<()> {
    let path = folder.to_str().ok_or(io::ErrorKind::InvalidInput)?;
    namespace::memory_over(path).map_err(|error| error.source)
}

/// Moves the calling process, root of its user namespace, into a new one in which it is user and group `id`. Does
/// nothing if no more user namespaces are allowed.
fn rename(id: u32) -> io::Result<()> {
    if namespace::unshare(UnshareFlags::NEWUSER).is_err() {
        return Ok(());
    }
    namespace::map_user(id, 0, 0).map_err(|error| error.source)
}

/// The capabilities that the calling thread may make effective.
///
/// # Errors
/// None on Linux.
pub fn permitted() -> io::Result<Set> {
    Ok(thread::capabilities(None)?.permitted)
}

/// Keeps the capabilities of `set` that the calling thread has, makes them effective, and drops all others. A program
/// that root starts still gets the bounding set.
///
/// # Errors
/// None on Linux.
pub fn keep(set: Set) -> io::Result<()> {
    assign(permitted()? & set, Set::empty())
}

fn assign(permitted: Set, inheritable: Set) -> io::Result<()> {
    let sets = thread::CapabilitySets {
        effective: permitted,
        permitted,
        inheritable,
    };
    Ok(thread::set_capabilities(None, sets)?)
}

/// Empties the bounding set: no program started from now on gains a capability from root or from its file.
///
/// # Errors
/// The thread lacks [`Set::SETPCAP`].
pub fn empty_bounding_set() -> io::Result<()> {
    for number in 0..Set::all().bits().count_ones() {
        match thread::remove_capability_from_bounding_set(Set::from_bits_retain(1 << number)) {
            // The first capability that the kernel does not have.
            Err(Errno::INVAL) => break,
            answer => answer?,
        }
    }
    Ok(())
}

/// Prevents programs started from now on from gaining privileges (`PR_SET_NO_NEW_PRIVS`).
///
/// # Errors
/// None on Linux.
pub fn never_gain() -> io::Result<()> {
    Ok(thread::set_no_new_privs(true)?)
}

/// Whether `no_new_privs` is set, here or by an ancestor.
#[must_use]
pub fn never_gains() -> bool {
    thread::no_new_privs().unwrap_or(false)
}

/// Drops every capability for good: the calling process can neither have nor pass on any.
///
/// # Errors
/// None on Linux.
pub fn renounce(kept: Set) -> io::Result<()> {
    // Refused to a process without capabilities, which has none to drop.
    let _ = empty_bounding_set();
    keep(kept)?;
    never_gain()
}

/// Keeps the capabilities `kept`, for the calling process and for programs that it starts (ambient), and drops all others.
///
/// # Errors
/// The process lacks one of `kept`.
pub fn keep_with_programs(kept: Set) -> io::Result<()> {
    // Refused to a process without capabilities, which has none to drop.
    let _ = empty_bounding_set();
    assign(kept, kept)?;
    for capability in kept {
        thread::configure_capability_in_ambient_set(capability, true)?;
    }
    never_gain()
}

/// Makes the calling process, of one thread, user and group `id`, without other groups, and with the capabilities
/// `kept` only, which its programs keep too (ambient). With `id` `None` the process keeps its user.
///
/// # Errors
/// The process is not root in its user namespace, or `id` is not in it.
pub fn become_user(id: Option<u32>, kept: Set) -> io::Result<()> {
    // The bounding set limits the inheritable set, so it is changed second.
    assign(permitted()?, kept)?;
    empty_bounding_set()?;
    if let Some(id) = id {
        thread::set_keep_capabilities(true)?;
        // Not allowed, and not needed, in the user namespace of a laboratory without root: it has one group.
        let _ = thread::set_thread_groups(&[]);
        let (uid, gid) = (Uid::from_raw(id), Gid::from_raw(id));
        thread::set_thread_res_gid(gid, gid, gid)?;
        thread::set_thread_res_uid(uid, uid, uid)?;
    }
    assign(kept, kept)?;
    for capability in kept {
        thread::configure_capability_in_ambient_set(capability, true)?;
    }
    never_gain()
}

/// A system call that stays allowed.
#[derive(Clone, Copy, Debug)]
pub struct Allowed {
    /// Its number, `SYS_…` of libc.
    pub number: libc::c_long,
    /// What its arguments must be; each of these holds.
    pub only: &'static [Only],
}

/// A condition on an argument of 32 bits.
#[derive(Clone, Copy, Debug)]
pub enum Only {
    /// The argument at this place, from 0, is one of these values.
    OneOf(u8, &'static [u32]),
    /// The argument at this place, from 0, has none of these bits.
    Without(u8, u32),
}

/// From now on all threads of the process make the calls of `allowed` only; to every other call the kernel answers
/// `EPERM`: a call that is missing here, of another C library perhaps, then fails alone, and does not end the program with
/// all that it carries. Sets `no_new_privs`. Calls of another architecture kill the process.
///
/// Returns false where the kernel has no such filter, or the architecture is unknown here: nothing is refused then.
///
/// # Errors
/// A thread has a filter of its own, or the list is wrong.
pub fn allow_only(allowed: &[Allowed]) -> io::Result<bool> {
    system::allow_only(allowed)
}

/// Whether the kernel takes a filter of this kind, found by trying on a thread of its own.
#[must_use]
pub fn works() -> bool {
    std::thread::spawn(|| system::try_on_this_thread().unwrap_or(false))
        .join()
        .unwrap_or(false)
}

#[cfg(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
))]
mod system {
    use std::collections::BTreeMap;
    use std::io;

    use seccompiler::{
        BackendError, BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp,
        SeccompCondition, SeccompFilter, SeccompRule, TargetArch, apply_filter,
        apply_filter_all_threads,
    };

    use super::{Allowed, Only};

    pub fn allow_only(allowed: &[Allowed]) -> io::Result<bool> {
        let refuse = SeccompAction::Errno(libc::EPERM.cast_unsigned());
        answer(apply_filter_all_threads(&program(allowed, refuse)?))
    }

    /// A filter that allows everything.
    pub fn try_on_this_thread() -> io::Result<bool> {
        let one = Allowed {
            number: libc::SYS_getpid,
            only: &[Only::Without(0, 0)],
        };
        answer(apply_filter(&program(&[one], SeccompAction::Log)?))
    }

    fn answer(applied: seccompiler::Result<()>) -> io::Result<bool> {
        match applied {
            Ok(()) => Ok(true),
            // Before Linux 3.17, or without CONFIG_SECCOMP_FILTER.
            Err(Error::Seccomp(error))
                if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EINVAL)) =>
            {
                Ok(false)
            }
            Err(error) => Err(io::Error::other(error)),
        }
    }

    fn program(allowed: &[Allowed], refuse: SeccompAction) -> io::Result<BpfProgram> {
        let rules: BTreeMap<i64, Vec<SeccompRule>> = allowed
            .iter()
            .map(|one| Ok((one.number, rules(one.only)?)))
            .collect::<Result<_, BackendError>>()
            .map_err(io::Error::other)?;
        TargetArch::try_from(std::env::consts::ARCH)
            .and_then(|arch| SeccompFilter::new(rules, refuse, SeccompAction::Allow, arch))
            .and_then(BpfProgram::try_from)
            .map_err(io::Error::other)
    }

    /// The rules of a call; one must match. There is one for each choice of values. None: the call is allowed as it is.
    fn rules(only: &[Only]) -> Result<Vec<SeccompRule>, BackendError> {
        if only.is_empty() {
            return Ok(Vec::new());
        }
        let mut choices = vec![Vec::new()];
        for one in only {
            let conditions = conditions(*one)?;
            let with_each = |choice: Vec<_>| {
                let longer = |condition: &SeccompCondition| {
                    [choice.as_slice(), std::slice::from_ref(condition)].concat()
                };
                conditions.iter().map(longer).collect::<Vec<_>>()
            };
            choices = choices.into_iter().flat_map(with_each).collect();
        }
        choices.into_iter().map(SeccompRule::new).collect()
    }

    /// The conditions on an argument; one must hold.
    fn conditions(only: Only) -> Result<Vec<SeccompCondition>, BackendError> {
        let condition = |place, operator, value: u32| {
            SeccompCondition::new(place, SeccompCmpArgLen::Dword, operator, u64::from(value))
        };
        match only {
            Only::OneOf(place, values) => values
                .iter()
                .map(|value| condition(place, SeccompCmpOp::Eq, *value))
                .collect(),
            Only::Without(place, bits) => Ok(vec![condition(
                place,
                SeccompCmpOp::MaskedEq(bits.into()),
                0,
            )?]),
        }
    }
}

#[cfg(not(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
)))]
mod system {
    use std::io;

    use crate::Allowed;

    #[expect(clippy::unnecessary_wraps, reason = "as where there is a filter")]
    pub fn allow_only(_: &[Allowed]) -> io::Result<bool> {
        Ok(false)
    }

    #[expect(clippy::unnecessary_wraps, reason = "as where there is a filter")]
    pub fn try_on_this_thread() -> io::Result<bool> {
        Ok(false)
    }
}

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
    use std::fs::File;
    use std::net::TcpListener;

    use super::*;

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
            never_gain().expect("set");
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
            super::never_gain().expect("set");
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
