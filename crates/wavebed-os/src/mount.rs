//! Mounts within a mount namespace of our own. Nothing is written to a real file system.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;

use crate::error::{Context, Result, check};

fn text(value: &str) -> io::Result<CString> {
    CString::new(value).map_err(io::Error::from)
}

fn mount(
    source: &str,
    target: &str,
    kind: &str,
    flags: libc::c_ulong,
    data: &str,
) -> io::Result<()> {
    let (source, place, kind, data) = (text(source)?, text(target)?, text(kind)?, text(data)?);
    // SAFETY: the strings are valid for the call.
    check(unsafe {
        libc::mount(
            source.as_ptr(),
            place.as_ptr(),
            kind.as_ptr(),
            flags,
            data.as_ptr().cast(),
        )
    })
    .map(drop)
}

fn unmount(target: &str) -> io::Result<()> {
    let place = text(target)?;
    // SAFETY: the string is valid for the call.
    check(unsafe { libc::umount2(place.as_ptr(), libc::MNT_DETACH) }).map(drop)
}

/// Cuts the calling process's mounts off from the machine's: no mount or unmount travels either way.
///
/// # Errors
/// The process may not.
pub fn make_private() -> Result<()> {
    mount("none", "/", "", libc::MS_REC | libc::MS_PRIVATE, "").during("make private", "the mounts")
}

/// Mounts a `/proc` of the caller's PID namespace.
///
/// # Errors
/// The process may not: some containers hide parts of `/proc`, and then an unprivileged process may not.
pub fn fresh_proc() -> Result<()> {
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    mount("proc", "/proc", "proc", flags, "").during("mount", "/proc")
}

/// Mounts a `/sys` of the caller's network namespace.
///
/// # Errors
/// The process may not.
pub fn fresh_sys() -> Result<()> {
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC | libc::MS_RDONLY;
    mount("sysfs", "/sys", "sysfs", flags, "").during("mount", "/sys")
}

/// Mounts a `/sys` of the caller's network namespace in which interfaces can be set.
///
/// # Errors
/// The process may not, as in some containers.
pub fn fresh_sys_for_writing() -> Result<()> {
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    mount("sysfs", "/sys", "sysfs", flags, "").during("mount", "/sys")
}

/// Puts an empty memory file system over the folder `path`, in the caller's mount namespace.
///
/// # Errors
/// There is no such folder, or the process may not.
pub fn memory_over(path: &str) -> Result<()> {
    let flags = libc::MS_NOSUID | libc::MS_NODEV;
    mount("tmpfs", path, "tmpfs", flags, "size=16m,mode=755").during("mount memory over", path)
}

/// Puts an empty folder for temporary files over the folder `path`, in memory, in the caller's mount namespace.
///
/// # Errors
/// There is no such folder, or the process may not.
pub fn temporary(path: &str) -> io::Result<()> {
    let flags = libc::MS_NOSUID | libc::MS_NODEV;
    // The kernel's own limit is half of the memory, and a laboratory has several such programs.
    mount("tmpfs", path, "tmpfs", flags, "size=25%,mode=1777")
}

/// Makes `path`, which must exist, read as `content` in the caller's mount namespace.
///
/// The content lives in a memory file system that is put over `/proc` for a moment, which exists everywhere.
///
/// # Errors
/// The file does not exist or the process may not.
pub fn replace_file(path: &str, content: &str) -> Result<()> {
    mount(
        "tmpfs",
        "/proc",
        "tmpfs",
        libc::MS_NOSUID | libc::MS_NODEV,
        "size=1m,mode=755",
    )
    .during("mount", "a memory file system")?;
    let everybody = fs::Permissions::from_mode(0o644);
    let answer = fs::write("/proc/file", content)
        .and_then(|()| fs::set_permissions("/proc/file", everybody))
        .and_then(|()| bind("/proc/file", path));
    unmount("/proc").during("unmount", "a memory file system")?;
    answer.during("replace", path)
}

/// Makes `target` read as `source` in the caller's mount namespace. Both must exist.
///
/// # Errors
/// What mount(2) answers.
pub fn bind(source: &str, target: &str) -> io::Result<()> {
    mount(source, target, "", libc::MS_BIND, "")
}
