//! Output files named by a user. A regular file is replaced atomically; a device, a FIFO or a symbolic link such as
//! `/dev/stdout` is opened and written, never replaced. Files in a log folder must be regular, and links are not
//! followed there.

use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, linkat};

use crate::poll;

/// Time limit for the reader of a FIFO to open or to read it.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// A writable pipe takes this much without blocking: `PIPE_BUF`.
const PIECE_BYTES: usize = 4_096;

/// Writes an output file: atomically if it is a regular file or missing, else directly.
///
/// Waits for the reader of a FIFO or a pipe for 10 s at most.
///
/// # Errors
/// If it cannot be written; an existing regular file is then unchanged.
pub fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if !found.is_file() => write_directly(path, content),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => replace(path, content),
    }
}

/// Creates a log file, or empties an existing regular one. Symbolic links are not followed.
///
/// # Errors
/// If it cannot be made, or something else has its name.
pub fn create_regular(path: &Path) -> io::Result<File> {
    if fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(not_regular());
    }
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)?;
    // The file may have changed since the check.
    if !file.metadata()?.is_file() {
        return Err(not_regular());
    }
    file.set_len(0)?;
    Ok(file)
}

fn not_regular() -> io::Error {
    io::Error::new(
        io::ErrorKind::AlreadyExists,
        "something that is not a regular file has this name: remove it, or name another folder",
    )
}

/// A new file, which is removed unless it is renamed.
struct Draft {
    file: File,
    /// Where it is, if it has a name.
    path: Option<PathBuf>,
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = fs::remove_file(path);
        }
    }
}

/// Writes a new file in the same folder and renames it. Until it is complete it has no name, if the file system
/// supports that, so that even SIGKILL leaves no file.
fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let folder = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let mut draft = new_file(folder)?;
    draft.file.write_all(content)?;
    if let Ok(before) = fs::symlink_metadata(path)
        && before.is_file()
    {
        let now = draft.file.metadata()?;
        if (now.uid(), now.gid()) != (before.uid(), before.gid()) {
            let _ = fchown(&draft.file, Some(before.uid()), Some(before.gid()));
        }
        let mode = fs::Permissions::from_mode(before.mode() & 0o777);
        draft.file.set_permissions(mode)?;
    }
    draft.file.sync_all()?;
    if draft.path.is_none() {
        let name = random_name(folder);
        give_name(&draft.file, &name)?;
        draft.path = Some(name);
    }
    if let Some(name) = &draft.path {
        fs::rename(name, path)?;
        draft.path = None;
    }
    Ok(())
}

fn new_file(folder: &Path) -> io::Result<Draft> {
    let unnamed = OpenOptions::new()
        .write(true)
        .mode(0o666)
        .custom_flags(libc::O_TMPFILE)
        .open(folder);
    match unnamed {
        Ok(file) => Ok(Draft { file, path: None }),
        // Errors of file systems and kernels without O_TMPFILE.
        Err(error)
            if [libc::EOPNOTSUPP, libc::EISDIR, libc::EINVAL, libc::ENOSYS]
                .contains(&error.raw_os_error().unwrap_or(0)) =>
        {
            let path = random_name(folder);
            let file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o666)
                .custom_flags(libc::O_NOFOLLOW)
                .open(&path)?;
            Ok(Draft {
                file,
                path: Some(path),
            })
        }
        Err(error) => Err(error),
    }
}

/// An unpredictable name: the keys of `RandomState` come from the kernel.
fn random_name(folder: &Path) -> PathBuf {
    let [one, other] = [(); 2].map(|()| RandomState::new().build_hasher().finish());
    folder.join(format!(".wavebed-{one:016x}{other:016x}"))
}

/// Gives a file without a name one that is free; linkat(2) cannot replace a file.
fn give_name(file: &File, name: &Path) -> io::Result<()> {
    let from = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(linkat(CWD, from, CWD, name, AtFlags::SYMLINK_FOLLOW)?)
}

fn write_directly(path: &Path, content: &[u8]) -> io::Result<()> {
    let found = fs::metadata(path);
    // Opened anew, the file of standard output or error would be written from its beginning.
    for own in [io::stdout().as_fd(), io::stderr().as_fd()] {
        let Ok(own) = own.try_clone_to_owned() else {
            continue;
        };
        let file = File::from(own);
        if let (Ok(wanted), Ok(ours)) = (&found, file.metadata())
            && (wanted.dev(), wanted.ino()) == (ours.dev(), ours.ino())
        {
            return write_pieces(&file, content);
        }
    }
    write_pieces(&open(path)?, content)
}

/// Opens for writing as a shell does, but waits for the reader of a FIFO for a bounded time.
fn open(path: &Path) -> io::Result<File> {
    let end = Instant::now() + PATIENCE;
    loop {
        let opened = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
            .open(path);
        match opened {
            Err(error)
                if error.raw_os_error() == Some(libc::ENXIO)
                    && fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo()) =>
            {
                if Instant::now() >= end {
                    return Err(unread());
                }
                std::thread::sleep(LOOK_AGAIN);
            }
            other => return other,
        }
    }
}

/// Writes; waits for a reader for at most [`PATIENCE`].
fn write_pieces(mut file: &File, content: &[u8]) -> io::Result<()> {
    for piece in content.chunks(PIECE_BYTES) {
        wait_for_room(file.as_fd())?;
        file.write_all(piece)?;
    }
    Ok(())
}

fn wait_for_room(file: BorrowedFd<'_>) -> io::Result<()> {
    let patience_ns = u64::try_from(PATIENCE.as_nanos()).unwrap_or(u64::MAX);
    if poll::wait_writable(file, patience_ns)? {
        Ok(())
    } else {
        Err(unread())
    }
}

fn unread() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "nothing has read it for 10 s")
}
