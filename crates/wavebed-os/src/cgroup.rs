//! Control groups of version 2 (cgroups(7)).

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::{fs, io};

use rustix::fs::{AtFlags, Dir, Mode, OFlags, mkdirat, openat, unlinkat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use rustix::process::{Resource, getrlimit};

use crate::error::{Context, Result};

const PROCESSES: &str = "cgroup.procs";

/// A control group, held by its folder.
#[derive(Debug)]
pub struct Group {
    folder: OwnedFd,
}

impl Group {
    /// The root group of the calling process's control group namespace. It need not be mounted.
    ///
    /// # Errors
    /// The kernel has no control groups of version 2, or they are not mounted and the process may not mount them.
    pub fn root() -> Result<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        // Another mount may hide it.
        let mounted = mounted_at(&mounts).map(Path::new);
        if let Some(path) = mounted.filter(|path| path.join(PROCESSES).exists()) {
            return Self::open(path);
        }
        Self::unmounted().during("open", "the control groups (version 2)")
    }

    /// The group at `path` in a mounted hierarchy.
    ///
    /// # Errors
    /// There is no such folder.
    pub fn open(path: &Path) -> Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(path, flags, Mode::empty());
        Ok(Self {
            folder: folder.during("open", path.display().to_string())?,
        })
    }

    /// The root of a mount that no name leads to, and that ends with its descriptor.
    fn unmounted() -> io::Result<Self> {
        let context = fsopen("cgroup2", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_create(context.as_fd())?;
        let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
        let mount = fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
        // The mount's own descriptor is good as a starting point only.
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let folder = openat(&mount, ".", flags, Mode::empty())?;
        Ok(Self { folder })
    }

    /// The group of the calling process, found from the root group.
    ///
    /// # Errors
    /// `/proc` is not there, or the group is outside the control group namespace.
    pub fn own(&self) -> Result<Self> {
        let file = "/proc/self/cgroup";
        let text = fs::read_to_string(file).during("read", file)?;
        let path = own_path(&text).ok_or(io::ErrorKind::NotFound);
        let path = path.during("find the control group of version 2 in", file)?;
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let folder = match path.trim_start_matches('/') {
            "" => openat(&self.folder, ".", flags, Mode::empty()),
            inside => openat(&self.folder, inside, flags, Mode::empty()),
        };
        Ok(Self {
            folder: folder.during("open the control group", path)?,
        })
    }

    /// A new group below this one.
    ///
    /// # Errors
    /// The name is taken, or the process lacks the permission.
    pub fn create(&self, name: &str) -> Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let made = mkdirat(&self.folder, name, Mode::from_raw_mode(0o755))
            .and_then(|()| openat(&self.folder, name, flags, Mode::empty()));
        Ok(Self {
            folder: made.during("make the control group", name)?,
        })
    }

    /// Removes the group `name` below this one.
    ///
    /// # Errors
    /// The group does not exist, or still has processes or groups in it.
    pub fn remove(&self, name: &str) -> Result<()> {
        unlinkat(&self.folder, name, AtFlags::REMOVEDIR).during("remove the control group", name)
    }

    /// The names of the groups below this one.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn children(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.folder)? {
            let entry = entry?;
            if entry.file_type().is_dir() {
                names.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        names.retain(|name| name != "." && name != "..");
        Ok(names)
    }

    /// Moves a process into the group; number 0 is the caller.
    ///
    /// # Errors
    /// There is no such process, or the caller lacks the permission.
    pub fn add(&self, process: i32) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let mut file = File::from(openat(&self.folder, PROCESSES, flags, Mode::empty())?);
        file.write_all(process.to_string().as_bytes())
    }

    /// The processes in the group.
    ///
    /// # Errors
    /// The group was removed.
    pub fn processes(&self) -> io::Result<Vec<i32>> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let mut file = File::from(openat(&self.folder, PROCESSES, flags, Mode::empty())?);
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
    }
}

impl AsFd for Group {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }
}

/// The first place in the text of `/proc/self/mounts` with control groups of version 2.
fn mounted_at(mounts: &str) -> Option<&str> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (path, kind) = (fields.next()?, fields.next()?);
        (kind == "cgroup2").then_some(path)
    })
}

/// The path of version 2 in the text of `/proc/self/cgroup`.
fn own_path(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix("0::"))
}

/// Bytes of memory that the calling process may have: the least of the machine's memory, the limits of its control
/// groups (both versions), and its own limits of address space and data (`ulimit -v`, `ulimit -d`).
#[must_use]
pub fn memory_limit_bytes() -> u64 {
    let machine = fs::read_to_string("/proc/meminfo").ok();
    let machine = machine.and_then(|text| machine_bytes(&text));
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let groups = group_files(&groups);
    let groups = groups
        .iter()
        .filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok());
    let own = [Resource::As, Resource::Data].map(|one| getrlimit(one).current.unwrap_or(u64::MAX));
    let all = machine.into_iter().chain(groups).chain(own);
    all.min().unwrap_or(u64::MAX)
}

/// `MemTotal` of `/proc/meminfo`, bytes.
fn machine_bytes(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib: u64 = line?.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

/// The files that may hold a limit of the control groups in the text of `/proc/self/cgroup`. A limit of a group holds
/// for those in it; a container may see its own group as the root.
fn group_files(text: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in text.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
            continue;
        };
        let (root, name) = if controllers.is_empty() {
            ("/sys/fs/cgroup", "memory.max")
        } else if controllers.split(',').any(|one| one == "memory") {
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
        } else {
            continue;
        };
        let inside = Path::new(path.trim_start_matches('/'));
        files.extend(
            inside
                .ancestors()
                .map(|group| Path::new(root).join(group).join(name)),
        );
    }
    files
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn the_mount_and_the_own_group_are_found() {
        let mounts = "cgroup /sys/fs/cgroup/cpu cgroup rw 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        assert_eq!(mounted_at(mounts), Some("/sys/fs/cgroup/unified"));
        assert_eq!(mounted_at("proc /proc proc rw 0 0\n"), None);
        assert_eq!(
            own_path("4:memory:/a\n0::/user.slice/b\n"),
            Some("/user.slice/b")
        );
    }

    #[test]
    fn a_group_is_made_entered_and_removed_without_a_mount() {
        let Ok(root) = Group::unmounted() else {
            assert_ne!(crate::namespace::effective_user().0, 0, "root may");
            return;
        };
        let own = root.own().expect("this process is in one");
        let name = format!("wavebed-test-{}", std::process::id());
        let group = own.create(&name).expect("a new group");
        let program = std::process::Command::new("sleep").arg("60").spawn();
        let mut program = program.expect("sleep");
        let number = program.id().cast_signed();
        group.add(number).expect("moved");
        assert_eq!(group.processes().expect("read"), [number]);
        assert!(own.remove(&name).is_err(), "it has a process");
        own.add(number).expect("moved back");
        program.kill().expect("killed");
        program.wait().expect("ended");
        assert!(own.children().expect("read").contains(&name));
        own.remove(&name).expect("removed");
        assert!(!own.children().expect("read").contains(&name));
    }

    #[test]
    fn the_machines_memory_is_read_in_bytes() {
        let text = "MemTotal:       24684136 kB\nMemFree:        1 kB\n";
        assert_eq!(machine_bytes(text), Some(24_684_136 * 1024));
        assert_eq!(machine_bytes("Mem: 1\n"), None);
    }

    #[test]
    fn every_group_above_may_hold_a_limit() {
        let files = |text| -> Vec<PathBuf> { group_files(text) };
        assert_eq!(
            files("0::/user.slice/a.scope\n"),
            [
                "/sys/fs/cgroup/user.slice/a.scope/memory.max",
                "/sys/fs/cgroup/user.slice/memory.max",
                "/sys/fs/cgroup/memory.max"
            ]
            .map(PathBuf::from)
        );
        assert_eq!(
            files("5:cpu,cpuacct:/x\n4:hugetlb,memory:/a:b\nnonsense\n"),
            [
                "/sys/fs/cgroup/memory/a:b/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes"
            ]
            .map(PathBuf::from)
        );
    }

    #[test]
    fn this_process_may_have_some_memory_and_no_more_than_the_machine_has() {
        let machine = machine_bytes(&std::fs::read_to_string("/proc/meminfo").unwrap());
        let bytes = memory_limit_bytes();
        assert!(bytes > 1 << 20 && Some(bytes) <= machine, "{bytes}");
    }
}
