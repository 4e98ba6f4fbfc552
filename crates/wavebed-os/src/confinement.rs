//! Where a program can do little harm: its own view of the file system, a user of its own, no capabilities.

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

/// Everybody may write here: each confined program has these for itself, in memory.
pub const TEMPORARY: &str = "/tmp";
const ALSO_TEMPORARY: [&str; 2] = ["/var/tmp", "/dev/shm"];

/// Nothing gains privileges by its owner; device nodes stay in `/dev`.
const FOREIGN: Refusals = Refusals::SETUID.and(Refusals::DEVICES);

/// As whom a confined program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    /// As this user and group, which nobody else is.
    Other(u32),
    /// In a user namespace of its own in which the caller is this user: outside it stays who it is.
    Renamed(u32),
}

/// What a confined program may see and do.
#[derive(Clone, Debug)]
pub struct Confinement {
    /// As whom it runs.
    pub user: User,
    /// Folders that it finds empty, but for what is in `read` and `write`.
    pub hidden: Vec<PathBuf>,
    /// Files and folders that it can read although they are in a hidden or temporary folder. What does not exist is left out.
    pub read: Vec<PathBuf>,
    /// Folders that it can write to. Everything else, but its temporary folder, is read-only.
    pub write: Vec<PathBuf>,
    /// Capabilities that it keeps in the namespaces of the laboratory.
    pub capabilities: Set,
    /// Whether it leads a session of its own, without a terminal: into the caller's it could type (TIOCSTI) what the user's
    /// shell would run.
    pub own_session: bool,
}

impl Confinement {
    /// Gives the calling process, which has a mount namespace of its own, the program's view of the file system.
    ///
    /// # Errors
    /// A folder to write to does not exist, or the process may not mount.
    pub fn hide(&self) -> io::Result<()> {
        let hidden = self.covers();
        let mut trees = self.trees(&hidden)?;
        trees.sort_by(|(one, ..), (other, ..)| one.cmp(other));
        for folder in &hidden {
            cover(folder)?;
        }
        mount::temporary(TEMPORARY)?;
        for folder in ALSO_TEMPORARY {
            // Not every machine has both.
            let _ = mount::bind(TEMPORARY, folder);
        }
        for (path, tree, is_read_only) in &trees {
            if !is_read_only || !tree.is_at(path) {
                tree.attach(path)?;
            }
        }
        mount_tree::refuse_from(Path::new("/"), Refusals::WRITING.and(Refusals::SETUID))?;
        // Of its network namespace the user of a laboratory without root could otherwise change all settings.
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

    /// Makes the calling process the program's user, without capabilities but the program's own, for ever.
    ///
    /// # Errors
    /// The process is not root in its user namespace.
    pub fn become_user(&self) -> io::Result<()> {
        match self.user {
            User::Other(id) => capabilities::become_user(Some(id), self.capabilities),
            User::Renamed(id) => {
                // In a user namespace of its own it would have no capabilities over the laboratory's.
                if self.capabilities == Set::empty() {
                    rename(id)?;
                }
                capabilities::become_user(None, self.capabilities)
            }
        }
    }

    /// The folders to be covered, outer ones first: those that are to be hidden, and those above what the program needs in
    /// which not everybody can look for it.
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

    /// Copies of what the covers would hide and the program needs, and whether it may only read it.
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

/// Makes the calling process a confined `user` without capabilities, and then the namespaces of a browser's sandbox.
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
    // The second needs the rights that the first should have brought.
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

/// Puts the calling process, root of its user namespace, into a new one in which it is user and group `id`. Does nothing
/// where there may be no more user namespaces.
fn rename(id: u32) -> io::Result<()> {
    if namespace::unshare(UnshareFlags::NEWUSER).is_err() {
        return Ok(());
    }
    namespace::map_user(id, 0, 0).map_err(|error| error.source)
}
