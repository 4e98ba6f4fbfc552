//! The files and the end of a guest of virtual time: User-Mode Linux that reads its host's root.

use std::ffi::CString;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::{fs, io};

use rustix::mount::{MountFlags, mount};
use rustix::system::{RebootCommand, reboot};

use crate::error::{Context, Result};
use crate::namespace::make_root;

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

/// Gives the guest its root: files in memory, above the folder `given` of the host, above the host's; the kernel's own
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

// The system calls that the kernel of a guest makes on the machine; all others are refused (seccomp(2)).
//
// The list has what User-Mode Linux needs for memory, time, signals, the guest's processes, and files. It has no call that
// mounts, makes a namespace, loads a program into the kernel, reads keys or another process, or asks for more rights. The only
// sockets are pairs that reach nobody else. Files and folders can be made, links and devices cannot.

/// Refuses the calling process, and the program that it becomes, what the kernel of a guest does not do. False: this machine
/// has no filter.
///
/// # Errors
/// The system's refusal.
pub fn allow_kernel() -> io::Result<bool> {
    #[cfg(target_arch = "x86_64")]
    return crate::confinement::allow_only(&list::all());
    #[cfg(not(target_arch = "x86_64"))]
    return Ok(false);
}

#[cfg(target_arch = "x86_64")]
mod list {
    use crate::confinement::{Allowed, Only};

    const EACH: &[libc::c_long] = &[
        // Memory. The guest's is a file.
        libc::SYS_brk,
        libc::SYS_fallocate,
        libc::SYS_madvise,
        libc::SYS_memfd_create,
        libc::SYS_mmap,
        libc::SYS_mprotect,
        libc::SYS_mremap,
        libc::SYS_munmap,
        // Time.
        libc::SYS_clock_getres,
        libc::SYS_clock_gettime,
        libc::SYS_clock_nanosleep,
        libc::SYS_gettimeofday,
        libc::SYS_nanosleep,
        libc::SYS_timer_create,
        libc::SYS_timer_delete,
        libc::SYS_timer_gettime,
        libc::SYS_timer_settime,
        // Signals and events.
        libc::SYS_epoll_create,
        libc::SYS_epoll_create1,
        libc::SYS_epoll_ctl,
        libc::SYS_epoll_pwait,
        libc::SYS_epoll_wait,
        libc::SYS_futex,
        libc::SYS_poll,
        libc::SYS_ppoll,
        libc::SYS_restart_syscall,
        libc::SYS_rt_sigaction,
        libc::SYS_rt_sigpending,
        libc::SYS_rt_sigprocmask,
        libc::SYS_rt_sigreturn,
        libc::SYS_rt_sigsuspend,
        libc::SYS_rt_sigtimedwait,
        libc::SYS_sigaltstack,
        libc::SYS_signalfd4,
        libc::SYS_tgkill,
        // Its own program, the guest's processes, and what they are told.
        libc::SYS_arch_prctl,
        libc::SYS_execve,
        libc::SYS_execveat,
        libc::SYS_exit,
        libc::SYS_exit_group,
        libc::SYS_getpid,
        libc::SYS_getppid,
        libc::SYS_gettid,
        libc::SYS_getrandom,
        libc::SYS_recvmsg,
        libc::SYS_rseq,
        libc::SYS_sched_getaffinity,
        libc::SYS_sched_yield,
        libc::SYS_seccomp,
        libc::SYS_sendmsg,
        libc::SYS_set_robust_list,
        libc::SYS_set_tid_address,
        libc::SYS_setsid,
        libc::SYS_sysinfo,
        libc::SYS_uname,
        libc::SYS_vfork,
        libc::SYS_wait4,
        // Descriptors.
        libc::SYS_close,
        libc::SYS_close_range,
        libc::SYS_dup,
        libc::SYS_dup2,
        libc::SYS_dup3,
        libc::SYS_fcntl,
        libc::SYS_lseek,
        libc::SYS_pipe,
        libc::SYS_pipe2,
        libc::SYS_pread64,
        libc::SYS_preadv,
        libc::SYS_pwrite64,
        libc::SYS_pwritev,
        libc::SYS_read,
        libc::SYS_readv,
        libc::SYS_write,
        libc::SYS_writev,
        // Files, as far as Landlock lets it.
        libc::SYS_access,
        libc::SYS_chdir,
        libc::SYS_chmod,
        libc::SYS_chown,
        libc::SYS_faccessat,
        libc::SYS_faccessat2,
        libc::SYS_fchmod,
        libc::SYS_fchmodat,
        libc::SYS_fchown,
        libc::SYS_fchownat,
        libc::SYS_fdatasync,
        libc::SYS_fstat,
        libc::SYS_fstatfs,
        libc::SYS_fsync,
        libc::SYS_ftruncate,
        libc::SYS_getcwd,
        libc::SYS_getdents64,
        libc::SYS_lchown,
        libc::SYS_lstat,
        libc::SYS_mkdir,
        libc::SYS_mkdirat,
        libc::SYS_newfstatat,
        libc::SYS_open,
        libc::SYS_openat,
        libc::SYS_readlink,
        libc::SYS_readlinkat,
        libc::SYS_rename,
        libc::SYS_renameat,
        libc::SYS_renameat2,
        libc::SYS_rmdir,
        libc::SYS_stat,
        libc::SYS_statfs,
        libc::SYS_statx,
        libc::SYS_truncate,
        libc::SYS_unlink,
        libc::SYS_unlinkat,
        libc::SYS_utimensat,
    ];

    const NAMESPACES: i32 = libc::CLONE_NEWCGROUP
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWNET
        | libc::CLONE_NEWNS
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWUSER
        | libc::CLONE_NEWUTS;

    const SOME: &[(libc::c_long, &[Only])] = &[
        (
            libc::SYS_clone,
            &[Only::Without(0, NAMESPACES.cast_unsigned())],
        ),
        // No group of processes, and not all of a user.
        (libc::SYS_kill, &[Only::Without(0, 1 << 31)]),
        // The addresses of the kernel's program are fixed; the other value asks.
        (
            libc::SYS_personality,
            &[Only::OneOf(
                0,
                &[libc::ADDR_NO_RANDOMIZE.cast_unsigned(), u32::MAX],
            )],
        ),
        // Its own limits.
        (libc::SYS_prlimit64, &[Only::OneOf(0, &[0])]),
        (
            libc::SYS_prctl,
            &[Only::OneOf(
                0,
                &[
                    libc::PR_SET_NAME.cast_unsigned(),
                    libc::PR_SET_NO_NEW_PRIVS.cast_unsigned(),
                    libc::PR_SET_PDEATHSIG.cast_unsigned(),
                    libc::PR_SET_TSC.cast_unsigned(),
                ],
            )],
        ),
        // Without a usable filter the kernel traces the guest's processes, its children, which ask for it.
        (
            libc::SYS_ptrace,
            &[Only::OneOf(
                0,
                &[
                    libc::PTRACE_TRACEME,
                    libc::PTRACE_PEEKUSER,
                    libc::PTRACE_POKEUSER,
                    libc::PTRACE_CONT,
                    libc::PTRACE_KILL,
                    libc::PTRACE_SINGLESTEP,
                    libc::PTRACE_GETREGS,
                    libc::PTRACE_SETREGS,
                    libc::PTRACE_GETFPREGS,
                    libc::PTRACE_SETFPREGS,
                    libc::PTRACE_SYSCALL,
                    libc::PTRACE_SYSEMU,
                    libc::PTRACE_SYSEMU_SINGLESTEP,
                    libc::PTRACE_SETOPTIONS,
                    libc::PTRACE_GETSIGINFO,
                    libc::PTRACE_GETREGSET,
                    libc::PTRACE_SETREGSET,
                ],
            )],
        ),
        // A pair of streams: one of datagrams could send to others.
        (
            libc::SYS_socketpair,
            &[
                Only::OneOf(0, &[libc::AF_UNIX.cast_unsigned()]),
                Only::OneOf(
                    1,
                    &[
                        libc::SOCK_STREAM.cast_unsigned(),
                        (libc::SOCK_STREAM | libc::SOCK_CLOEXEC).cast_unsigned(),
                    ],
                ),
            ],
        ),
    ];

    pub fn all() -> Vec<Allowed> {
        let each = EACH.iter().map(|number| (*number, [].as_slice()));
        let all = each.chain(SOME.iter().copied());
        all.map(|(number, only)| Allowed { number, only }).collect()
    }
}
