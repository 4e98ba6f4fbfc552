//! Namespaces, processes made inside new ones, and the mounts that they see.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::{fs, io, mem};

use rustix::fs::CWD;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount_bind,
    mount_bind_recursive, mount_change, move_mount, open_tree, unmount,
};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

use crate::error::{Context, Error, Result, check};

/// A network namespace held by a descriptor.
#[derive(Debug)]
pub struct NetworkNamespace {
    file: File,
}

impl NetworkNamespace {
    /// The one of the calling thread.
    ///
    /// # Errors
    /// `/proc` is not there.
    pub fn current() -> Result<Self> {
        let path = "/proc/thread-self/ns/net";
        Ok(Self {
            file: File::open(path).during("open", path)?,
        })
    }

    /// Creates a network namespace and moves the calling thread into it.
    ///
    /// # Errors
    /// The process lacks the permission.
    pub fn new() -> Result<Self> {
        unshare(UnshareFlags::NEWNET).during("make", "a network namespace")?;
        Self::current()
    }

    /// Moves the calling thread into it.
    ///
    /// # Errors
    /// The process lacks the permission.
    pub fn enter(&self) -> Result<()> {
        enter_network(self.as_fd())
    }
}

/// The number of the calling thread's network namespace that BPF programs see (`SO_NETNS_COOKIE`, Linux 5.14). No other
/// namespace has the same until the machine starts anew.
///
/// # Errors
/// The kernel is older.
pub fn network_cookie() -> Result<u64> {
    const NETNS_COOKIE: libc::c_int = 71;
    let socket = UnixDatagram::unbound().during("make", "a socket")?;
    let mut cookie: u64 = 0;
    let mut bytes: libc::socklen_t = 8;
    // SAFETY: the value and its size are valid for the call, which keeps no pointer.
    let answer = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut bytes,
        )
    };
    check(answer).during("read the cookie of", "the network namespace")?;
    Ok(cookie)
}

impl AsFd for NetworkNamespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Moves the calling thread into the network namespace of `fd`.
pub(crate) fn enter_network(fd: BorrowedFd<'_>) -> Result<()> {
    move_into_link_name_space(fd, Some(LinkNameSpaceType::Network))
        .during("enter", "a network namespace")
}

/// Moves the calling thread or process into new namespaces of these types.
pub(crate) fn unshare(what: UnshareFlags) -> io::Result<()> {
    debug_assert!(
        !what.contains(UnshareFlags::FILES),
        "descriptors are shared"
    );
    // SAFETY: the table of descriptors stays shared.
    Ok(unsafe { rustix::thread::unshare_unsafe(what) }?)
}

/// The new namespaces of a child process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// None: an ordinary child.
    None,
    /// PID, mount, network, UTS and IPC.
    Laboratory,
    /// The same within a new user namespace, in which the caller's user is root.
    UserLaboratory,
    /// A laboratory's namespaces, but with the machine's network.
    Programs,
    /// The same within a new user namespace, in which the caller's user is root.
    UserPrograms,
}

/// The result of fork.
#[derive(Debug)]
pub enum Forked {
    /// To the parent: the child.
    Parent(Child),
    /// To the child.
    Child,
}

/// A child process.
#[derive(Debug)]
pub struct Child {
    /// Its number in the parent's PID namespace.
    pub pid: i32,
    /// Becomes readable when the process has ended.
    pub pidfd: OwnedFd,
}

/// How the parent learns of the child's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// By `SIGCHLD`, as usual.
    Signal,
    /// By its descriptor only: a wait for any child neither sees it nor counts it.
    DescriptorOnly,
}

/// Forks. The process must have one thread.
///
/// # Errors
/// The process has more threads, or may not make these namespaces.
pub fn fork(isolation: Isolation, notice: Notice) -> Result<Forked> {
    let threads = fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    if threads != 1 {
        return Err(Error {
            operation: "fork",
            object: format!("a process of {threads} threads"),
            source: io::Error::from_raw_os_error(libc::EDEADLK),
        });
    }
    let programs = libc::CLONE_NEWPID | libc::CLONE_NEWNS | libc::CLONE_NEWUTS | libc::CLONE_NEWIPC;
    let flags = match isolation {
        Isolation::None => 0,
        Isolation::Laboratory => programs | libc::CLONE_NEWNET,
        Isolation::UserLaboratory => programs | libc::CLONE_NEWNET | libc::CLONE_NEWUSER,
        Isolation::Programs => programs,
        Isolation::UserPrograms => programs | libc::CLONE_NEWUSER,
    };
    let mut pidfd: libc::c_int = -1;
    // SAFETY: all zeros is a valid clone_args: the child shares nothing and keeps the stack. `pidfd` outlives the
    // call. The process has one thread, so that no lock is held by a thread that is missing in the child.
    let pid = unsafe {
        let mut args: libc::clone_args = mem::zeroed();
        args.flags = u64::from((flags | libc::CLONE_PIDFD).cast_unsigned());
        args.pidfd = (&raw mut pidfd) as u64;
        args.exit_signal = match notice {
            Notice::Signal => libc::SIGCHLD as u64,
            Notice::DescriptorOnly => 0,
        };
        let pid = libc::syscall(
            libc::SYS_clone3,
            &raw mut args,
            mem::size_of::<libc::clone_args>(),
        );
        // Docker's filter of system calls hides clone3, whose flags it cannot read.
        if pid < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ENOSYS) {
            let flags = args.flags | args.exit_signal;
            libc::syscall(libc::SYS_clone, flags, 0, &raw mut pidfd, 0, 0)
        } else {
            pid
        }
    };
    match i32::try_from(pid).unwrap_or(-1) {
        0 => Ok(Forked::Child),
        pid if pid > 0 => Ok(Forked::Parent(Child {
            pid,
            // SAFETY: the kernel has just made this descriptor for us.
            pidfd: unsafe { OwnedFd::from_raw_fd(pidfd) },
        })),
        _ => Err(Error::last("make", "a process in its own namespaces")),
    }
}

/// Maps user `uid` and group `gid` of the outer user namespace to root in the caller's new one.
///
/// # Errors
/// The system refuses it.
pub fn map_root(uid: u32, gid: u32) -> Result<()> {
    map_user(0, uid, gid)
}

/// Maps user `uid` and group `gid` of the outer user namespace to user and group `inside` in the caller's new one.
///
/// # Errors
/// The system refuses it.
pub fn map_user(inside: u32, uid: u32, gid: u32) -> Result<()> {
    let write = |path: &str, text: String| fs::write(path, text).during("write", path);
    write("/proc/self/setgroups", "deny".to_owned())?;
    write("/proc/self/gid_map", format!("{inside} {gid} 1"))?;
    write("/proc/self/uid_map", format!("{inside} {uid} 1"))
}

/// Sets the host name of the caller's UTS namespace.
///
/// # Errors
/// The process lacks the permission.
pub fn set_hostname(name: &str) -> Result<()> {
    rustix::system::sethostname(name.as_bytes()).during("set the host name to", name)
}

/// Moves the calling process into a new mount and UTS namespace.
///
/// # Errors
/// The process lacks the permission.
pub fn unshare_mounts_and_name() -> Result<()> {
    unshare(UnshareFlags::NEWNS | UnshareFlags::NEWUTS).during("make", "a mount namespace")
}

/// The caller's effective user.
#[must_use]
pub fn effective_user() -> (u32, u32) {
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    (user.as_raw(), group.as_raw())
}

/// Neither privileges by the owner of a program's file, nor device nodes.
const PLAIN: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV);

fn mount(kind: &str, target: &str, flags: MountFlags, options: &CStr) -> io::Result<()> {
    Ok(rustix::mount::mount(kind, target, kind, flags, options)?)
}

/// Stops the propagation of mounts and unmounts between the calling process and the machine.
///
/// # Errors
/// The process lacks the permission.
pub fn make_private() -> Result<()> {
    mount_change(
        "/",
        MountPropagationFlags::REC | MountPropagationFlags::PRIVATE,
    )
    .during("make private", "the mounts")
}

/// Mounts a `/proc` of the caller's PID namespace.
///
/// # Errors
/// The process may not: some containers hide parts of `/proc`, and then an unprivileged process may not.
pub fn fresh_proc() -> Result<()> {
    mount("proc", "/proc", PLAIN | MountFlags::NOEXEC, c"").during("mount", "/proc")
}

/// Mounts a `/sys` of the caller's network namespace, with the control groups of the machine in it: container engines
/// need them.
///
/// # Errors
/// The process lacks the permission.
pub fn fresh_sys() -> Result<()> {
    const GROUPS: &str = "/sys/fs/cgroup";
    let all = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    let groups = open_tree(CWD, GROUPS, all);
    let flags = PLAIN | MountFlags::NOEXEC | MountFlags::RDONLY;
    mount("sysfs", "/sys", flags, c"").during("mount", "/sys")?;
    // A machine without control groups has none to carry over.
    if let Ok(groups) = groups {
        let empty = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        let _ = move_mount(groups, "", CWD, GROUPS, empty);
    }
    Ok(())
}

/// Mounts a `/sys` of the caller's network namespace in which interfaces can be set.
///
/// # Errors
/// The process may not, as in some containers.
pub fn fresh_sys_for_writing() -> Result<()> {
    mount("sysfs", "/sys", PLAIN | MountFlags::NOEXEC, c"").during("mount", "/sys")
}

/// Puts an empty memory file system over the folder `path`, in the caller's mount namespace.
///
/// # Errors
/// There is no such folder, or the process lacks the permission.
pub fn memory_over(path: &str) -> Result<()> {
    mount("tmpfs", path, PLAIN, c"size=16m,mode=755").during("mount memory over", path)
}

/// Puts an empty memory file system of at most half of the memory over the folder `path`, for the files of programs.
///
/// # Errors
/// There is no such folder, or the process lacks the permission.
pub fn workspace_over(path: &str) -> Result<()> {
    mount("tmpfs", path, PLAIN, c"size=50%,mode=755").during("mount memory over", path)
}

/// Makes `path`, a mount point, the root of the caller's mount namespace; the old root is unmounted.
///
/// # Errors
/// It is no mount point, or the process lacks the permission.
pub fn make_root(path: &str) -> Result<()> {
    let change = || -> io::Result<()> {
        std::env::set_current_dir(path)?;
        // The old root is stacked under the new one, as pivot_root(2) describes.
        rustix::process::pivot_root(c".", c".")?;
        unmount(".", UnmountFlags::DETACH)?;
        std::env::set_current_dir("/")
    };
    change().during("make the root of", path)
}

/// Makes `target` read as `source` with everything mounted in it, in the caller's mount namespace. Both must exist.
///
/// # Errors
/// The error of mount(2).
pub fn bind_all(source: &Path, target: &Path) -> io::Result<()> {
    Ok(mount_bind_recursive(source, target)?)
}

/// Puts an empty folder for temporary files over the folder `path`, in memory, in the caller's mount namespace.
///
/// # Errors
/// There is no such folder, or the process lacks the permission.
pub fn temporary(path: &str) -> io::Result<()> {
    // The kernel's own limit is half of the memory, and a laboratory has several such programs.
    mount("tmpfs", path, PLAIN, c"size=25%,mode=1777")
}

/// Makes `path`, which must exist, read as `content` in the caller's mount namespace.
///
/// The content is in a memory file system that is mounted over `/proc`, which always exists, for a moment.
///
/// # Errors
/// The file does not exist or the process lacks the permission.
pub fn replace_file(path: &str, content: &str) -> Result<()> {
    mount("tmpfs", "/proc", PLAIN, c"size=1m,mode=755").during("mount", "a memory file system")?;
    let everybody = fs::Permissions::from_mode(0o644);
    let answer = fs::write("/proc/file", content)
        .and_then(|()| fs::set_permissions("/proc/file", everybody))
        .and_then(|()| bind("/proc/file", path));
    unmount("/proc", UnmountFlags::DETACH).during("unmount", "a memory file system")?;
    answer.during("replace", path)
}

/// Makes `target` read as `source` in the caller's mount namespace. Both must exist.
///
/// # Errors
/// The error of mount(2).
pub fn bind(source: &str, target: &str) -> io::Result<()> {
    Ok(mount_bind(source, target)?)
}

const RECURSIVE: libc::c_uint = libc::AT_RECURSIVE.cast_unsigned();
const EMPTY_PATH: libc::c_uint = libc::AT_EMPTY_PATH.cast_unsigned();

/// Restrictions of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusals(u64);

impl Refusals {
    /// Writing.
    pub const WRITING: Self = Self(1);
    /// Gaining privileges by the owner of a program's file.
    pub const SETUID: Self = Self(2);
    /// Using device nodes.
    pub const DEVICES: Self = Self(4);

    /// The union of both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

#[repr(C)]
struct Attributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// A copy of a file, or of a folder with all mounts in it, not attached yet.
#[derive(Debug)]
pub struct Tree {
    file: File,
}

impl Tree {
    /// Copies the mount tree at `path`. The content is shared, not copied.
    ///
    /// # Errors
    /// There is nothing, the process lacks the permission, or the kernel is older than Linux 5.2.
    pub fn copy(path: &Path) -> io::Result<Self> {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_RECURSIVE;
        let file = File::from(open_tree(CWD, path, flags)?);
        Ok(Self { file })
    }

    /// Applies these restrictions to the whole copy.
    ///
    /// # Errors
    /// The kernel is older than Linux 5.12.
    pub fn refuse(&self, refusals: Refusals) -> io::Result<()> {
        set_attributes(
            self.file.as_raw_fd(),
            c"",
            RECURSIVE | EMPTY_PATH,
            refusals.0,
            0,
        )
    }

    /// Attaches it at `path` in the caller's mount namespace; creates the mount point if it is missing.
    ///
    /// # Errors
    /// `path` cannot be made.
    pub fn attach(&self, path: &Path) -> io::Result<()> {
        let own = self.file.metadata()?;
        if fs::metadata(path).is_err() {
            make_place(path, own.is_dir())?;
        }
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        Ok(move_mount(&self.file, c"", CWD, path, flags)?)
    }

    /// Whether `path` leads to the content of this copy.
    #[must_use]
    pub fn is_at(&self, path: &Path) -> bool {
        let same = |own: fs::Metadata, other: fs::Metadata| {
            (own.dev(), own.ino()) == (other.dev(), other.ino())
        };
        match (self.file.metadata(), fs::metadata(path)) {
            (Ok(own), Ok(other)) => same(own, other),
            _ => false,
        }
    }
}

/// Applies these restrictions to every mount from `path` on.
///
/// # Errors
/// Nothing is mounted at `path`, or the kernel is older than Linux 5.12.
pub fn refuse_from(path: &Path, refusals: Refusals) -> io::Result<()> {
    set_attributes(libc::AT_FDCWD, &text(path)?, RECURSIVE, refusals.0, 0)
}

/// Lifts these restrictions of the mount at `path`.
///
/// # Errors
/// Nothing is mounted at `path`, or the restriction is locked by a more privileged process.
pub fn allow_at(path: &Path, refusals: Refusals) -> io::Result<()> {
    set_attributes(libc::AT_FDCWD, &text(path)?, 0, 0, refusals.0)
}

fn set_attributes(
    folder: i32,
    path: &std::ffi::CStr,
    flags: libc::c_uint,
    set: u64,
    clear: u64,
) -> io::Result<()> {
    let attributes = Attributes {
        set,
        clear,
        propagation: 0,
        user_namespace: 0,
    };
    // SAFETY: the string and the attributes are valid for the call, which gets their size.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            folder,
            path.as_ptr(),
            flags,
            &raw const attributes,
            mem::size_of::<Attributes>(),
        )
    };
    check(i32::try_from(answer).unwrap_or(-1)).map(drop)
}

/// Creates an empty folder or file, and the folders above it, searchable by all users for any umask.
fn make_place(path: &Path, is_folder: bool) -> io::Result<()> {
    if let Some(above) = path.parent().filter(|above| fs::metadata(above).is_err()) {
        make_place(above, true)?;
    }
    if !is_folder {
        return File::create_new(path).map(drop);
    }
    fs::create_dir(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

fn text(path: &Path) -> io::Result<CString> {
    use std::os::unix::ffi::OsStrExt;
    CString::new(path.as_os_str().as_bytes()).map_err(io::Error::from)
}
