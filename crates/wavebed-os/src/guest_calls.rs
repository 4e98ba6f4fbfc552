//! The system calls that the kernel of a guest makes on the machine; all others are refused (seccomp(2)).
//!
//! The list has what User-Mode Linux needs for memory, time, signals, the guest's processes, and files. It has no call that
//! mounts, makes a namespace, loads a program into the kernel, reads keys or another process, or asks for more rights. The only
//! sockets are pairs that reach nobody else. Files and folders can be made, links and devices cannot.

use std::io;

/// Refuses the calling process, and the program that it becomes, what the kernel of a guest does not do. False: this machine
/// has no filter.
///
/// # Errors
/// The system's refusal.
pub fn allow_kernel() -> io::Result<bool> {
    #[cfg(target_arch = "x86_64")]
    return crate::seccomp::allow_only(&list::all());
    #[cfg(not(target_arch = "x86_64"))]
    return Ok(false);
}

#[cfg(target_arch = "x86_64")]
mod list {
    use crate::seccomp::{Allowed, Only};

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
