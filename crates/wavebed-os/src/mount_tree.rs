//! Copies of mounts attached elsewhere, and mount attributes (Linux 5.12).

use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::mem;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::CWD;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};

use crate::error::check;

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
    // SAFETY: the string and the attributes are valid for the call, which is told their size.
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
