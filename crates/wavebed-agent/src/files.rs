//! The files of the programs: what the other side puts here, and what it fetches.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, lchown};
use std::path::{Path, PathBuf};
use std::{fs, io};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};

use crate::confined::is_plain;
use crate::protocol::Problem;

/// Files deeper than this, or more than this many, are no results of a workload.
const MOST_DEPTH: usize = 32;
const MOST_FILES: usize = 100_000;

/// The files in the folders in memory.
#[derive(Debug, Default)]
pub struct Files {
    memory: Vec<PathBuf>,
    /// Inode, size and change of content of each file as it was put here or last fetched.
    known: BTreeMap<PathBuf, (u64, u64, i128)>,
}

impl Files {
    /// With these folders in memory.
    #[must_use]
    pub fn new(memory: Vec<PathBuf>) -> Self {
        Self {
            memory,
            known: BTreeMap::new(),
        }
    }

    /// Makes a folder and those above it, which every user can search.
    ///
    /// # Errors
    /// It is outside the folders in memory, or cannot be made.
    pub fn make_folder(&self, path: &Path) -> Result<(), Problem> {
        self.check(path)?;
        make_folders(path).map_err(|error| Problem::of(path.display(), error))
    }

    /// Makes a file of zeros of a size.
    ///
    /// # Errors
    /// It is outside the folders in memory, or cannot be made.
    pub fn make_file(
        &mut self,
        path: &Path,
        bytes: u64,
        executable: bool,
        private: bool,
    ) -> Result<(), Problem> {
        self.check(path)?;
        let make = || -> io::Result<()> {
            if let Some(above) = path.parent() {
                make_folders(above)?;
            }
            let file = open(path, OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC)?;
            let mode = if private { 0o600 } else { 0o644 } | if executable { 0o111 } else { 0 };
            file.set_permissions(fs::Permissions::from_mode(mode))?;
            file.set_len(bytes)
        };
        make().map_err(|error| Problem::of(path.display(), error))?;
        self.remember(path);
        Ok(())
    }

    /// Writes bytes into a file that was made here.
    ///
    /// # Errors
    /// It is outside the folders in memory, was not made, or memory is full.
    pub fn write(&mut self, path: &Path, offset: u64, bytes: &[u8]) -> Result<(), Problem> {
        self.check(path)?;
        open(path, OFlags::WRONLY)
            .and_then(|file| file.write_all_at(bytes, offset))
            .map_err(|error| Problem::of(path.display(), error))?;
        self.remember(path);
        Ok(())
    }

    /// The regular files in a folder that were made or changed here since they were put or last fetched.
    ///
    /// # Errors
    /// It is outside the folders in memory, or holds too much.
    pub fn changed(&mut self, folder: &Path) -> Result<Vec<PathBuf>, Problem> {
        self.check(folder)?;
        let mut found = Vec::new();
        list(folder, 0, &mut found)?;
        found.retain(|path| state(path) != self.known.get(path).copied());
        for path in &found {
            self.remember(path);
        }
        Ok(found)
    }

    /// Makes a user the owner of a folder and its content.
    ///
    /// # Errors
    /// It is outside the folders in memory, or the process is not root.
    pub fn hand_over(&self, folder: &Path, user: u32) -> Result<(), Problem> {
        self.check(folder)?;
        let mut found = vec![folder.to_owned()];
        list_all(folder, 0, &mut found)?;
        for path in found {
            lchown(&path, Some(user), Some(user))
                .map_err(|error| Problem::of(path.display(), error))?;
        }
        Ok(())
    }

    fn check(&self, path: &Path) -> Result<(), Problem> {
        if is_plain(path) && self.memory.iter().any(|folder| path.starts_with(folder)) {
            return Ok(());
        }
        Err(Problem::of(
            path.display(),
            "is outside the folders of this trial",
        ))
    }

    fn remember(&mut self, path: &Path) {
        if let Some(state) = state(path) {
            self.known.insert(path.to_owned(), state);
        }
    }
}

/// Reads a file in pieces of at most `piece` bytes, and gives each with its place; holes are left out.
///
/// # Errors
/// It cannot be read, or `each` fails.
pub fn read_pieces(
    path: &Path,
    piece: usize,
    mut each: impl FnMut(u64, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut file = open(path, OFlags::RDONLY)?;
    let mut buffer = vec![0; piece];
    let mut offset = 0;
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        let bytes = &buffer[..count];
        if bytes.iter().any(|byte| *byte != 0) {
            each(offset, bytes)?;
        }
        offset += count as u64;
    }
}

/// Opens a regular file. A link on the way, which a program may have made, is not followed.
fn open(path: &Path, flags: OFlags) -> io::Result<File> {
    let mode = if flags.contains(OFlags::CREATE) {
        Mode::RUSR | Mode::WUSR
    } else {
        Mode::empty()
    };
    let flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = File::from(openat2(CWD, path, flags, mode, ResolveFlags::NO_SYMLINKS)?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("is no regular file"));
    }
    Ok(file)
}

fn make_folders(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(_) => return Err(io::Error::other("is no folder")),
        Err(_) => {}
    }
    if let Some(above) = path.parent() {
        make_folders(above)?;
    }
    fs::create_dir(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

fn state(path: &Path) -> Option<(u64, u64, i128)> {
    let found = fs::symlink_metadata(path).ok()?;
    let changed = i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec());
    Some((found.ino(), found.size(), changed))
}

fn list(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<(), Problem> {
    let mut all = Vec::new();
    list_all(folder, depth, &mut all)?;
    found.extend(
        all.into_iter()
            .filter(|path| fs::symlink_metadata(path).is_ok_and(|it| it.is_file())),
    );
    Ok(())
}

fn list_all(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<(), Problem> {
    if depth > MOST_DEPTH || found.len() > MOST_FILES {
        return Err(Problem::of(folder.display(), "holds too many folders"));
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        found.push(path.clone());
        if is_folder {
            list_all(&path, depth + 1, found)?;
        }
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A new folder of a test.
    pub(crate) fn folder(name: &str) -> PathBuf {
        let folder =
            std::env::temp_dir().join(format!("wavebed-agent-{}-{name}", std::process::id()));
        // Left by a test that was killed, in a process of the same number.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        folder
    }

    #[test]
    fn only_files_that_were_made_or_changed_here_are_fetched() {
        let root = folder("fetched");
        let mut files = Files::new(vec![root.clone()]);
        let put = root.join("below/put");
        files.make_file(&put, 3, false, false).unwrap();
        files.write(&put, 0, b"abc").unwrap();
        let other = root.join("kept");
        files.make_file(&other, 0, false, false).unwrap();
        fs::write(root.join("made"), "x").unwrap();
        fs::write(&put, "longer").unwrap();
        let mut found = files.changed(&root).unwrap();
        found.sort();
        assert_eq!(found, [put, root.join("made")]);
        assert!(files.changed(&root).unwrap().is_empty());
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn nothing_outside_the_folders_of_the_trial_is_written() {
        let root = folder("outside");
        let mut files = Files::new(vec![root.join("inside")]);
        for path in [
            "/etc/passwd".into(),
            root.join("x"),
            root.join("inside/../x"),
        ] {
            let refused = files.make_file(&path, 1, false, false).unwrap_err();
            assert!(refused.0.contains("outside"), "{refused}");
        }
        let other = root.join("x");
        fs::write(&other, "kept").unwrap();
        let refused = files.write(&other, 0, b"lost").unwrap_err();
        assert!(refused.0.contains("outside"), "{refused}");
        assert_eq!(fs::read(&other).unwrap(), b"kept");
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_link_in_the_place_of_a_file_is_not_followed() {
        let root = folder("link");
        let mut files = Files::new(vec![root.join("inside")]);
        files.make_folder(&root.join("inside")).unwrap();
        std::os::unix::fs::symlink(root.join("target"), root.join("inside/link")).unwrap();
        assert!(
            files
                .make_file(&root.join("inside/link"), 1, false, false)
                .is_err()
        );
        assert!(!root.join("target").exists());
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn holes_are_not_read_out() {
        let root = folder("holes");
        let path = root.join("sparse");
        let file = File::create(&path).unwrap();
        file.set_len(1 << 20).unwrap();
        file.write_all_at(b"end", (1 << 20) - 3).unwrap();
        let mut pieces = Vec::new();
        read_pieces(&path, 1 << 16, |offset, bytes| {
            pieces.push((offset, bytes.len()));
            Ok(())
        })
        .unwrap();
        assert_eq!(pieces, [((1 << 20) - (1 << 16), 1 << 16)]);
        fs::remove_dir_all(root).unwrap();
    }
}
