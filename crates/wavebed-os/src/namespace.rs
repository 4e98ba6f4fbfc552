//! Namespaces, and processes made inside new ones.

use std::fs::{self, File};
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;

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
    /// Those of a laboratory but for the network, which stays that of the machine.
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
        libc::syscall(
            libc::SYS_clone3,
            &raw mut args,
            mem::size_of::<libc::clone_args>(),
        )
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
