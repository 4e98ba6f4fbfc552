//! Reads files of other origin: regular files of bounded size only, so that no file blocks or fills the memory.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// The largest file that is read.
pub const MAX_BYTES: u64 = 1 << 30;

/// The text of a regular file; files in memory that another program passed on (`/proc/self/fd/N`) are regular.
///
/// # Errors
/// One line without the file's name: it cannot be read, is not a regular file, is larger than `most_bytes` or not UTF-8.
pub fn read_text(file: &Path, most_bytes: u64) -> Result<String, String> {
    let (opened, metadata) = open_regular(file, most_bytes)?;
    read_all(opened, &metadata, most_bytes)
}

/// The text of a regular file that its owner alone may read, who is this user or root.
///
/// # Errors
/// As [`read_text`], and: another user owns the file, and knows what is in it or chose that; or others may read it.
pub fn read_private(file: &Path, most_bytes: u64) -> Result<String, String> {
    let (opened, metadata) = open_regular(file, most_bytes)?;
    let owner = metadata.uid();
    if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        return Err(format!("belongs to user {owner}: name a file of your own"));
    }
    let mode = metadata.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(format!(
            "others may read this file (mode {mode:o}): chmod 600"
        ));
    }
    read_all(opened, &metadata, most_bytes)
}

fn open_regular(file: &Path, most_bytes: u64) -> Result<(File, std::fs::Metadata), String> {
    let unreadable = |error: std::io::Error| format!("cannot be read: {error}");
    let regular = |metadata: &std::fs::Metadata| {
        if metadata.is_file() {
            Ok(())
        } else {
            Err("is not a regular file: name a file".to_owned())
        }
    };
    // The first check avoids opening a device; the second one detects a replaced file.
    regular(&std::fs::metadata(file).map_err(unreadable)?)?;
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(file)
        .map_err(unreadable)?;
    let metadata = opened.metadata().map_err(unreadable)?;
    regular(&metadata)?;
    if metadata.len() > most_bytes {
        return Err(too_large(most_bytes));
    }
    Ok((opened, metadata))
}

fn read_all(file: File, metadata: &std::fs::Metadata, most_bytes: u64) -> Result<String, String> {
    let room = metadata.len().try_into().unwrap_or(0);
    read_into(String::with_capacity(room), file, most_bytes)
}

/// The text of a file of any kind or of a pipe.
///
/// # Errors
/// One line without its name: it cannot be read, is larger than `most_bytes` or not UTF-8.
pub fn read_bounded(file: impl Read, most_bytes: u64) -> Result<String, String> {
    read_into(String::new(), file, most_bytes)
}

fn read_into(mut text: String, file: impl Read, most_bytes: u64) -> Result<String, String> {
    file.take(most_bytes + 1)
        .read_to_string(&mut text)
        .map_err(|error| format!("cannot be read: {error}"))?;
    if text.len() as u64 > most_bytes {
        return Err(too_large(most_bytes));
    }
    Ok(text)
}

fn too_large(most_bytes: u64) -> String {
    format!("is larger than {most_bytes} bytes: name a smaller file")
}

/// Opens a file of any kind, for [`read_bounded`].
///
/// # Errors
/// One line without its name: it cannot be opened.
pub fn open(file: &Path) -> Result<File, String> {
    File::open(file).map_err(|error| format!("cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_and_folders_are_refused_and_sizes_bounded() {
        for name in ["/dev/zero", "/dev/null", "/"] {
            let line = read_text(Path::new(name), 10).expect_err("is refused");
            assert!(line.contains("not a regular file"), "{line}");
        }
        let line = read_text(Path::new("/proc/self/maps"), 10).expect_err("is refused");
        assert!(line.contains("larger than 10 bytes"), "{line}");
        assert_eq!(read_bounded(&b"text"[..], 4), Ok("text".to_owned()));
    }
}
