//! The memory limit of the calling process.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, getrlimit};

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

    use super::{group_files, machine_bytes, memory_limit_bytes};

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
