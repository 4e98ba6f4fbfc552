//! The files and the end of a guest of virtual time: User-Mode Linux that reads its host's root.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use rustix::mount::{MountFlags, mount};
use rustix::system::{RebootCommand, reboot};

use crate::error::{Context, Result};
use crate::mount::make_root;

/// Where the guest's files in memory are mounted before the guest has its own root. The folder exists on every system.
const MEMORY: &str = "/run";

/// A write to it refuses further mounts of hostfs.
const SEAL: &str = "/sys/module/hostfs/parameters/sealed";

/// A folder of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shared<'a> {
    /// On the host.
    pub outside: &'a str,
    /// In the guest.
    pub inside: &'a str,
    /// Whether the guest writes to it.
    pub writable: bool,
}

/// Whether this process runs in User-Mode Linux.
#[must_use]
pub fn is_guest() -> bool {
    fs::read_to_string("/proc/cpuinfo").is_ok_and(|text| text.contains("User Mode Linux"))
}

/// The host's processor time in user code that a process of a guest has used, and its children for which it has waited,
/// nanoseconds; `None` where the kernel does not count it.
#[must_use]
pub fn host_cpu_ns(pid: i32) -> Option<u64> {
    // The buffer has one size, whatever the time is, so that it moves no page fault.
    let mut text = [0; 32];
    let mut file = File::open(format!("/proc/{pid}/host_cpu_ns")).ok()?;
    let length = file.read(&mut text).ok()?;
    str::from_utf8(&text[..length]).ok()?.trim().parse().ok()
}

/// The same of all processes of this PID namespace but some; `None` where the kernel does not count it.
#[must_use]
pub fn host_cpu_ns_of_all_but(pids: &[i32]) -> Option<u64> {
    host_cpu_ns(1)?;
    let names = fs::read_dir("/proc").ok()?.flatten();
    let numbers = names.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let others = numbers.filter(|pid| !pids.contains(pid));
    Some(others.filter_map(host_cpu_ns).sum())
}

/// Gives the guest its root: files in memory, above those of the folder `given` of the host, above the host's; the kernel's own
/// file systems, and the shared folders.
///
/// # Errors
/// The kernel lacks a file system, or the caller is not the guest's first process.
pub fn enter_root(given: &str, shared: &[Shared<'_>]) -> Result<()> {
    file_system("tmpfs", MEMORY, MountFlags::empty(), "mode=755")?;
    let [upper, work, root, above] =
        ["upper", "work", "root", "given"].map(|name| format!("{MEMORY}/{name}"));
    for folder in [&upper, &work, &root, &above] {
        make_folder(folder, 0o755)?;
    }
    // A mount of its own, since a layer may not lie in another one.
    file_system("hostfs", &above, MountFlags::RDONLY, given)?;
    let layers = format!("lowerdir={above}:/,upperdir={upper},workdir={work}");
    file_system("overlay", &root, MountFlags::empty(), &layers)?;
    make_root(&root)?;
    let plain = MountFlags::NOSUID | MountFlags::NODEV;
    let no_programs = plain | MountFlags::NOEXEC;
    file_system("proc", "/proc", no_programs, "")?;
    file_system("sysfs", "/sys", no_programs, "")?;
    file_system("cgroup2", "/sys/fs/cgroup", no_programs, "")?;
    file_system("devtmpfs", "/dev", MountFlags::NOSUID, "mode=755")?;
    for (folder, mode) in [("/dev/pts", 0o755), ("/dev/shm", 0o1777)] {
        make_folder(folder, mode)?;
    }
    let terminals = "mode=620,ptmxmode=666";
    file_system(
        "devpts",
        "/dev/pts",
        MountFlags::NOSUID | MountFlags::NOEXEC,
        terminals,
    )?;
    file_system("tmpfs", "/dev/shm", plain, "mode=1777")?;
    file_system("tmpfs", "/run", plain, "mode=755")?;
    for (link, target) in [
        ("/dev/fd", "/proc/self/fd"),
        ("/dev/stdin", "/proc/self/fd/0"),
        ("/dev/stdout", "/proc/self/fd/1"),
        ("/dev/stderr", "/proc/self/fd/2"),
    ] {
        symlink(target, link).during("make", link)?;
    }
    make_folder("/run/lock", 0o1777)?;
    for folder in shared {
        make_folder(folder.inside, 0o755)?;
        let access = if folder.writable {
            MountFlags::empty()
        } else {
            MountFlags::RDONLY
        };
        file_system("hostfs", folder.inside, plain | access, folder.outside)?;
    }
    // Root in the guest mounts no other folder of the host.
    fs::write(SEAL, "1").during("write", SEAL)
}

fn file_system(kind: &str, target: &str, flags: MountFlags, options: &str) -> Result<()> {
    let options = CString::new(options)
        .map_err(io::Error::from)
        .during("mount", target)?;
    mount(kind, target, kind, flags, options.as_c_str()).during("mount", target)
}

fn make_folder(path: &str, mode: u32) -> Result<()> {
    let path = Path::new(path);
    fs::create_dir_all(path)
        .and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(mode)))
        .during("make", path.display().to_string())
}

/// Prints a line on the guest's console, where nothing else works.
pub fn tell(line: &str) {
    if !Path::new("/dev/kmsg").exists() {
        let _ = file_system("devtmpfs", "/dev", MountFlags::NOSUID, "mode=755");
    }
    let _ = fs::write("/dev/kmsg", format!("<0>wavebed: {line}\n"));
}

/// Ends the guest at once. Its files in memory are lost; those in shared folders are on the host already.
///
/// # Errors
/// The caller is not root in the guest.
pub fn power_off() -> Result<()> {
    reboot(RebootCommand::PowerOff).during("power off", "the guest")
}
