//! Confined programs: a user of their own, no capabilities, a read-only file system without the homes.

use std::io::ErrorKind;
use std::ops::Range;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};
use std::{fs, io};

use wavebed_os::confinement::{Confinement, Set, User};
use wavebed_os::namespace;
use wavebed_os::namespace::Tree;

use crate::protocol::{Capability, Needs, Problem};

/// Part of the numbers that no account has: systemd gives them (61184 to 65519) to services for as long as they run.
const USERS: Range<u32> = 63_719..65_520;
const HOMES: [&str; 3] = ["/home", "/root", "/run/user"];

/// How programs are confined on this machine.
#[derive(Debug)]
pub struct Rules {
    user: u32,
    is_root: bool,
    read: Vec<PathBuf>,
}

impl Rules {
    /// For this machine.
    ///
    /// # Parameters
    /// `is_root`: whether the agent was started by root, so that other users exist. `read`: paths in homes that stay
    /// readable.
    #[must_use]
    pub fn new(is_root: bool, read: Vec<PathBuf>) -> Self {
        let accounts = ["/etc/passwd", "/etc/group"]
            .map(|path| fs::read_to_string(path).unwrap_or_default())
            .concat();
        Self {
            user: free_number(&accounts),
            is_root,
            read,
        }
    }

    /// The user that owns the folders of confined programs; `None`: the agent's user.
    #[must_use]
    pub fn other_user(&self) -> Option<u32> {
        self.is_root.then_some(self.user)
    }

    /// The confinement of a program.
    #[must_use]
    pub fn confinement(&self, needs: &Needs) -> Confinement {
        let mut capabilities = Set::empty();
        for capability in &needs.capabilities {
            match capability {
                Capability::NetAdmin => capabilities = capabilities.union(Set::NET_ADMIN),
            }
        }
        Confinement {
            user: if self.is_root {
                User::Other(self.user)
            } else {
                User::Renamed(self.user)
            },
            hidden: HOMES.map(PathBuf::from).to_vec(),
            read: self.read.iter().chain(&needs.read).cloned().collect(),
            write: needs.write.clone(),
            capabilities,
            own_session: false,
        }
    }
}

fn free_number(accounts: &str) -> u32 {
    let taken: Vec<u32> = accounts
        .lines()
        .filter_map(|line| line.split(':').nth(2)?.parse().ok())
        .collect();
    USERS
        .clone()
        .find(|number| !taken.contains(number))
        .unwrap_or(USERS.start)
}

// The programs see the machine's file system, with some folders in memory.
//
// The other side names its own folders (results, content of workloads). Here they are in memory, at the same paths, and
// whatever the machine has there is neither seen nor changed.

/// A folder that every machine has, over which the new root is built; programs have a temporary folder of their own.
const BUILT_AT: &str = "/tmp";

/// Builds the file system in the calling process, which has its own mount namespace. Files and folders of `keep` stay
/// as on the machine, in folders in memory too.
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
    namespace::workspace_over(BUILT_AT)?;
    let shown = Path::new(BUILT_AT);
    let show = || -> io::Result<()> {
        expose(Path::new("/"), shown, &memory)?;
        for (path, tree) in &kept {
            tree.attach(&shown.join(path.strip_prefix("/").unwrap_or(path)))?;
        }
        Ok(())
    };
    show().map_err(|error| Problem::of("the file system of the programs", error))?;
    namespace::make_root(BUILT_AT)?;
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
            namespace::bind_all(&path, &target)?;
        } else {
            fs::File::create_new(&target)?;
            namespace::bind_all(&path, &target)?;
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
    fn the_user_of_programs_is_no_account() {
        assert_eq!(free_number("root:x:0:0:root:/root:/bin/sh\n"), USERS.start);
        let taken = format!(
            "a:x:{}:1::/:/bin/sh\nb:x:{}:\n",
            USERS.start,
            USERS.start + 1
        );
        assert_eq!(free_number(&taken), USERS.start + 2);
    }

    #[test]
    fn a_program_has_no_capability_that_it_does_not_name() {
        let rules = Rules::new(true, Vec::new());
        let plain = rules.confinement(&Needs::default());
        assert_eq!(plain.capabilities, Set::empty());
        let needs = Needs {
            capabilities: vec![Capability::NetAdmin],
            ..Needs::default()
        };
        assert_eq!(rules.confinement(&needs).capabilities, Set::NET_ADMIN);
    }

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
