//! Confinement of a program: a restricted view of the file system, a separate user, no capabilities.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::thread::UnshareFlags;

use crate::capabilities::{self, Set};
use crate::mount;
use crate::mount_tree::{self, Refusals, Tree};
use crate::namespace;

/// World-writable folders: each confined program gets its own ones in memory.
pub const TEMPORARY: &str = "/tmp";
const ALSO_TEMPORARY: [&str; 2] = ["/var/tmp", "/dev/shm"];

/// No set-user-ID programs, and no device nodes outside `/dev`.
const FOREIGN: Refusals = Refusals::SETUID.and(Refusals::DEVICES);

/// The user of a confined program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    /// This user and group, which no other process has.
    Other(u32),
    /// This user in a new user namespace; outside it is the caller's user.
    Renamed(u32),
}

/// The permissions of a confined program.
#[derive(Clone, Debug)]
pub struct Confinement {
    /// Its user.
    pub user: User,
    /// Folders that are empty to it, except for paths in `read` and `write`.
    pub hidden: Vec<PathBuf>,
    /// Files and folders in hidden or temporary folders that stay readable. Missing ones are skipped.
    pub read: Vec<PathBuf>,
    /// Folders that it can write to. All others, except its temporary folder, are read-only.
    pub write: Vec<PathBuf>,
    /// Capabilities that it keeps in the namespaces of the laboratory.
    pub capabilities: Set,
    /// Whether it gets a session without a terminal: on the caller's terminal it could inject input (TIOCSTI) for the
    /// user's shell.
    pub own_session: bool,
}

impl Confinement {
    /// Sets up the program's view of the file system in the calling process, which has its own mount namespace.
    ///
    /// # Errors
    /// A folder to write to does not exist, or the process lacks the permission to mount.
    pub fn hide(&self) -> io::Result<()> {
        let hidden = self.covers();
        let mut trees = self.trees(&hidden)?;
        trees.sort_by(|(one, ..), (other, ..)| one.cmp(other));
        for folder in &hidden {
            cover(folder)?;
        }
        mount::temporary(TEMPORARY)?;
        for folder in ALSO_TEMPORARY {
            // A machine may lack one of them.
            let _ = mount::bind(TEMPORARY, folder);
        }
        for (path, tree, is_read_only) in &trees {
            if !is_read_only || !tree.is_at(path) {
                tree.attach(path)?;
            }
        }
        mount_tree::refuse_from(Path::new("/"), Refusals::WRITING.and(Refusals::SETUID))?;
        // Otherwise the user of a laboratory without root could change all settings of its network namespace.
        let settings = Path::new("/proc/sys");
        Tree::copy(settings)?.attach(settings)?;
        let writable = self.write.iter().map(PathBuf::as_path);
        for path in writable.chain([Path::new(TEMPORARY)]) {
            mount_tree::allow_at(path, Refusals::WRITING)?;
        }
        // A browser writes the maps of its sandbox's user namespace there.
        let others = ["/proc"].into_iter().chain(ALSO_TEMPORARY);
        for path in others {
            let _ = mount_tree::allow_at(Path::new(path), Refusals::WRITING);
        }
        Ok(())
    }

    /// Switches the calling process to the program's user and capabilities, irrevocably.
    ///
    /// # Errors
    /// The process is not root in its user namespace.
    pub fn become_user(&self) -> io::Result<()> {
        match self.user {
            User::Other(id) => capabilities::become_user(Some(id), self.capabilities),
            User::Renamed(id) => {
                // In a new user namespace it would have no capabilities over the laboratory's namespaces.
                if self.capabilities == Set::empty() {
                    rename(id)?;
                }
                capabilities::become_user(None, self.capabilities)
            }
        }
    }

    /// The folders to be covered, outer ones first: those to be hidden, and those above needed paths that the program's
    /// user cannot search.
    fn covers(&self) -> Vec<PathBuf> {
        let needed = self.read.iter().chain(&self.write);
        let closed = needed
            .flat_map(|path| path.ancestors().skip(1))
            .filter(|folder| {
                fs::metadata(folder).is_ok_and(|found| found.is_dir() && found.mode() & 1 == 0)
            });
        let wanted: BTreeSet<&Path> = self
            .hidden
            .iter()
            .map(PathBuf::as_path)
            .chain(closed)
            .filter(|folder| folder.is_dir())
            .collect();
        let mut covers: Vec<PathBuf> = Vec::new();
        for folder in wanted {
            if !is_in(folder, &covers) && !is_temporary(folder) {
                covers.push(folder.to_owned());
            }
        }
        covers
    }

    /// Copies of needed paths that the covers would hide, and whether each is read-only.
    fn trees(&self, covers: &[PathBuf]) -> io::Result<Vec<(PathBuf, Tree, bool)>> {
        let mut trees = Vec::new();
        for path in &self.write {
            let tree = Tree::copy(path)?;
            tree.refuse(FOREIGN)?;
            trees.push((path.clone(), tree, false));
        }
        for path in &self.read {
            if !is_in(path, covers) && !is_temporary(path) {
                continue;
            }
            match Tree::copy(path) {
                Ok(tree) => {
                    tree.refuse(FOREIGN.and(Refusals::WRITING))?;
                    trees.push((path.clone(), tree, true));
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(trees)
    }
}

/// Turns the calling process into a confined `user` without capabilities, then creates the namespaces of a browser's
/// sandbox.
///
/// # Errors
/// The kernel refuses.
pub fn try_sandbox(user: User) -> io::Result<()> {
    let confinement = Confinement {
        user,
        hidden: Vec::new(),
        read: Vec::new(),
        write: Vec::new(),
        capabilities: Set::empty(),
        own_session: false,
    };
    confinement.become_user()?;
    // The second needs the capabilities from the first.
    namespace::unshare(UnshareFlags::NEWUSER)?;
    namespace::unshare(UnshareFlags::NEWNET)
}

fn is_in(path: &Path, folders: &[PathBuf]) -> bool {
    folders.iter().any(|folder| path.starts_with(folder))
}

fn is_temporary(path: &Path) -> bool {
    let mut folders = ALSO_TEMPORARY.iter().chain([&TEMPORARY]);
    folders.any(|folder| path.starts_with(folder))
}

fn cover(folder: &Path) -> io::Result<()> {
    let path = folder.to_str().ok_or(io::ErrorKind::InvalidInput)?;
    mount::memory_over(path).map_err(|error| error.source)
}

/// Moves the calling process, root of its user namespace, into a new one in which it is user and group `id`. Does
/// nothing if no more user namespaces are allowed.
fn rename(id: u32) -> io::Result<()> {
    if namespace::unshare(UnshareFlags::NEWUSER).is_err() {
        return Ok(());
    }
    namespace::map_user(id, 0, 0).map_err(|error| error.source)
}
