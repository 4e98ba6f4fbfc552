//! The file system of the programs: that of the machine, with some folders in memory.
//!
//! The other side names its own folders (results, content of workloads). Here they are in memory, at the same paths, and
//! whatever the machine has there is neither seen nor changed.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

use wavebed_os::mount;
use wavebed_os::mount_tree::Tree;

use crate::problem::Problem;

/// A folder that every machine has, over which the new root is built; programs have a temporary folder of their own.
const BUILT_AT: &str = "/tmp";

/// Builds the file system in the calling process, which has its own mount namespace. Files and folders of `keep` stay
/// those of the machine, in folders in memory too.
///
/// # Errors
/// A folder is not absolute or is the root, or the process may not mount.
pub fn build(memory: &[PathBuf], keep: &[PathBuf]) -> Result<(), Problem> {
    let mut memory: Vec<PathBuf> = memory.to_vec();
    memory.push(BUILT_AT.into());
    for folder in &memory {
        if !is_plain(folder) || folder.parent().is_none() {
            return Err(Problem::of(
                folder.display(),
                "is no absolute path of a folder",
            ));
        }
    }
    // Before anything is mounted over the folder in which they may be.
    let kept = kept_trees(&memory, keep)?;
    mount::workspace_over(BUILT_AT)?;
    let shown = Path::new(BUILT_AT);
    let show = || -> io::Result<()> {
        expose(Path::new("/"), shown, &memory)?;
        for (path, tree) in &kept {
            tree.attach(&shown.join(path.strip_prefix("/").unwrap_or(path)))?;
        }
        Ok(())
    };
    show().map_err(|error| Problem::of("the file system of the programs", error))?;
    mount::make_root(BUILT_AT)?;
    Ok(())
}

/// Copies of those paths that folders in memory would hide, outer ones first.
fn kept_trees(memory: &[PathBuf], keep: &[PathBuf]) -> Result<Vec<(PathBuf, Tree)>, Problem> {
    let mut paths: Vec<&PathBuf> = keep
        .iter()
        .filter(|path| is_plain(path) && memory.iter().any(|folder| path.starts_with(folder)))
        .collect();
    paths.sort();
    paths.dedup();
    let mut kept = Vec::new();
    for path in paths {
        match Tree::copy(path) {
            Ok(tree) => kept.push((path.clone(), tree)),
            // What is not there, or closed to this user, no program of it uses.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::NotFound | ErrorKind::PermissionDenied
                ) => {}
            Err(error) => return Err(Problem::of(path.display(), error)),
        }
    }
    Ok(kept)
}

/// Whether a path is absolute and without `.` and `..`.
#[must_use]
pub fn is_plain(path: &Path) -> bool {
    path.is_absolute()
        && path
            .components()
            .all(|part| matches!(part, Component::RootDir | Component::Normal(_)))
}

/// Makes the entries of `real` appear in `shown`, which is empty; folders of `memory`, and those above them, are made
/// anew.
fn expose(real: &Path, shown: &Path, memory: &[PathBuf]) -> io::Result<()> {
    for entry in fs::read_dir(real).into_iter().flatten().flatten() {
        let path = entry.path();
        let target = shown.join(entry.file_name());
        if memory.iter().any(|folder| folder.starts_with(&path)) {
            continue;
        }
        let kind = entry.file_type()?;
        if kind.is_symlink() {
            symlink(fs::read_link(&path)?, &target)?;
        } else if kind.is_dir() {
            make_folder(&target)?;
            mount::bind_all(&path, &target)?;
        } else {
            fs::File::create_new(&target)?;
            mount::bind_all(&path, &target)?;
        }
    }
    for name in next_parts(real, memory) {
        let (path, target) = (real.join(&name), shown.join(&name));
        make_folder(&target)?;
        let above: Vec<PathBuf> = memory
            .iter()
            .filter(|folder| folder.starts_with(&path))
            .cloned()
            .collect();
        // A folder in memory is empty, whatever else is in it on the disk.
        if !above.contains(&path) {
            expose(&path, &target, &above)?;
        }
    }
    Ok(())
}

/// The names in `real` that lead to folders in memory, each once.
fn next_parts(real: &Path, memory: &[PathBuf]) -> Vec<PathBuf> {
    let mut names: Vec<PathBuf> = memory
        .iter()
        .filter_map(|folder| folder.strip_prefix(real).ok()?.components().next())
        .map(|part| PathBuf::from(part.as_os_str()))
        .collect();
    names.sort();
    names.dedup();
    names
}

/// Makes a folder that every user can search, for any umask.
fn make_folder(path: &Path) -> io::Result<()> {
    fs::create_dir(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_part_of_each_folder_in_memory_is_named_once() {
        let memory = ["/home/u/runs", "/home/u/.cache/w", "/tmp"].map(PathBuf::from);
        assert_eq!(
            next_parts(Path::new("/"), &memory),
            ["home", "tmp"].map(PathBuf::from)
        );
        assert_eq!(
            next_parts(Path::new("/home/u"), &memory),
            [".cache", "runs"].map(PathBuf::from)
        );
        assert!(next_parts(Path::new("/tmp"), &memory).is_empty());
    }

    #[test]
    fn a_path_with_a_way_up_is_not_plain() {
        assert!(is_plain(Path::new("/srv/runs")));
        assert!(!is_plain(Path::new("/srv/../etc")));
        assert!(!is_plain(Path::new("srv")));
    }
}
