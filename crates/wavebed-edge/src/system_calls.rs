//! The system calls of running programs; all others are refused once they have started (seccomp(2)).
//!
//! No list has a call that opens a file, starts a program, makes a thread or changes a right. Memory cannot become
//! executable, and only IP sockets can be made: the splitter keeps `CAP_NET_ADMIN`, but reaches no netlink with it.

use std::io;

use wavebed_os::confinement;
use wavebed_os::confinement::{Allowed, Only};

/// `AF_INET` and `AF_INET6`.
const IP_FAMILIES: &[u32] = &[2, 10];
/// `FIONREAD`: how much can be read.
const READABLE: &[u32] = &[0x541b];
/// `PROT_EXEC`
const EXECUTABLE: u32 = 4;

/// Memory, time, signals, events, descriptors, and the end.
const EACH: &[libc::c_long] = &[
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_futex,
    libc::SYS_getrandom,
    libc::SYS_restart_syscall,
    libc::SYS_sched_yield,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    // A panic or abort(3) ends the program, by the second one in musl.
    libc::SYS_tgkill,
    libc::SYS_tkill,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_ppoll,
    libc::SYS_close,
    libc::SYS_fcntl,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
];

/// Their third argument is the protection of memory.
const MEMORY: &[(libc::c_long, &[Only])] = &[
    (libc::SYS_mmap, &[Only::Without(2, EXECUTABLE)]),
    (libc::SYS_mprotect, &[Only::Without(2, EXECUTABLE)]),
];

/// Calls that newer architectures do not have.
#[cfg(target_arch = "x86_64")]
const OLD: &[libc::c_long] = &[libc::SYS_epoll_wait, libc::SYS_poll];
#[cfg(not(target_arch = "x86_64"))]
const OLD: &[libc::c_long] = &[];

const SPLITTER: &[libc::c_long] = &[
    libc::SYS_accept4,
    libc::SYS_bind,
    libc::SYS_connect,
    libc::SYS_getpeername,
    libc::SYS_pipe2,
    libc::SYS_splice,
    // The end of the process that removes the packet rules.
    libc::SYS_wait4,
];

const TUNNEL: &[libc::c_long] = &[libc::SYS_recvmmsg, libc::SYS_sendmmsg];

/// Refuses what a splitter does not do once it listens. False: the kernel has no filter.
///
/// # Errors
/// The system's refusal.
pub fn allow_splitter() -> io::Result<bool> {
    const SOME: &[(libc::c_long, &[Only])] = &[
        (libc::SYS_socket, &[Only::OneOf(0, IP_FAMILIES)]),
        (libc::SYS_ioctl, &[Only::OneOf(1, READABLE)]),
    ];
    allow(SPLITTER, SOME)
}

/// Refuses what an end of the tunnel does not do once its socket and its device are open. False: the kernel has no filter.
///
/// # Errors
/// The system's refusal.
pub fn allow_tunnel() -> io::Result<bool> {
    allow(TUNNEL, &[])
}

fn allow(calls: &[libc::c_long], some: &[(libc::c_long, &'static [Only])]) -> io::Result<bool> {
    let calls = [EACH, OLD, calls].concat();
    let calls = calls.into_iter().map(|number| (number, [].as_slice()));
    let all = calls.chain(MEMORY.iter().chain(some).copied());
    let all: Vec<Allowed> = all.map(|(number, only)| Allowed { number, only }).collect();
    confinement::allow_only(&all)
}
