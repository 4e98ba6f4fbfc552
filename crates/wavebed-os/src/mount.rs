//! Mounts within the process's own mount namespace. No real file system is written.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::fs::CWD;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount_bind,
    mount_bind_recursive, mount_change, move_mount, open_tree, unmount,
};

use crate::error::{Context, Result};

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
