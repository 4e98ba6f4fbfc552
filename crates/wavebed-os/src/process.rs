//! Processes: start in a namespace, wait, signals, and the terminal.

use std::ffi::CString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::{io, mem};

use rustix::io::{Errno, FdFlags, fcntl_dupfd_cloexec, fcntl_setfd, retry_on_intr};
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpgrp, getpid, set_parent_process_death_signal,
    setpgid, setsid, wait, waitpid,
};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr, tcsetpgrp};

use crate::confinement::Confinement;
use crate::error::{Context, Error, Result, check};
use crate::{namespace, sched};

/// `CLOSE_RANGE_CLOEXEC` (Linux 5.11).
const CLOSE_AT_EXEC: libc::c_int = 4;

/// The parameters of a new process.
#[derive(Debug)]
pub struct Spawn<'a> {
    /// Program and arguments, at least one.
    pub argv: &'a [String],
    /// The whole environment.
    pub environment: &'a [(String, String)],
    /// Working directory; `None` for the caller's.
    pub directory: Option<PathBuf>,
    /// Network namespace; `None` for the caller's.
    pub network: Option<BorrowedFd<'a>>,
    /// Host name that the process sees; needs `network`.
    pub hostname: &'a str,
    /// Standard input, output and error; `None` for the caller's.
    pub stdio: [Option<BorrowedFd<'a>>; 3],
    /// The terminal whose foreground the process group gets.
    pub terminal: Option<BorrowedFd<'a>>,
    /// Its confinement; `None`: the caller's user and file system.
    pub confinement: Option<&'a Confinement>,
}

/// Starts a program as the leader of a new process group and returns its process id. The caller must have one thread.
/// The program starts with default signals and inherits nothing but its standard streams.
///
/// # Errors
/// The program cannot be found or run, or its environment cannot be set up.
pub fn spawn(what: &Spawn<'_>) -> Result<i32> {
    let name = what.argv.first().map_or("nothing", String::as_str);
    let prepared = Prepared::new(what).during("run", name)?;
    let (mut reader, writer) = io::pipe().during("make a pipe for", name)?;
    // SAFETY: the caller has one thread (see the documentation), so the child may do anything.
    let pid = check(unsafe { libc::fork() }).during("fork for", name)?;
    if pid == 0 {
        drop(reader);
        let error = prepared.become_program(what);
        let number = error.raw_os_error().unwrap_or(libc::EINVAL);
        let _ = (&writer).write_all(&number.to_ne_bytes());
        // SAFETY: _exit(2) does not return and runs nothing of ours.
        unsafe { libc::_exit(127) };
    }
    drop(writer);
    let mut number = [0; 4];
    if reader.read_exact(&mut number).is_err() {
        return Ok(pid);
    }
    let _ = wait_for(pid);
    Err(Error {
        operation: "run",
        object: name.to_owned(),
        source: io::Error::from_raw_os_error(i32::from_ne_bytes(number)),
    })
}

/// Strings in the form of execve(2).
struct Prepared {
    argv: Vec<CString>,
    environment: Vec<CString>,
    candidates: Vec<CString>,
}

impl Prepared {
    fn new(what: &Spawn<'_>) -> io::Result<Self> {
        let c_string = |bytes: &[u8]| CString::new(bytes).map_err(io::Error::from);
        let program = what.argv.first().ok_or(io::ErrorKind::InvalidInput)?;
        let argv = what
            .argv
            .iter()
            .map(|arg| c_string(arg.as_bytes()))
            .collect::<io::Result<_>>()?;
        let environment = what
            .environment
            .iter()
            .map(|(key, value)| c_string(format!("{key}={value}").as_bytes()))
            .collect::<io::Result<_>>()?;
        let path = what.environment.iter().find(|(key, _)| key == "PATH");
        let path = path.map_or(
            "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            |(_, value)| value,
        );
        let candidates = if program.contains('/') {
            vec![c_string(program.as_bytes())?]
        } else {
            std::env::split_paths(path)
                .map(|directory| c_string(directory.join(program).as_os_str().as_bytes()))
                .collect::<io::Result<_>>()?
        };
        Ok(Self {
            argv,
            environment,
            candidates,
        })
    }

    /// Executes the program in the child after fork. Returns only on an error.
    fn become_program(&self, what: &Spawn<'_>) -> io::Error {
        match enter_place(what) {
            Ok(()) => self.execute(),
            Err(error) => error,
        }
    }

    fn execute(&self) -> io::Error {
        let pointers = |strings: &[CString]| -> Vec<*const libc::c_char> {
            strings
                .iter()
                .map(|text| text.as_ptr())
                .chain([std::ptr::null()])
                .collect()
        };
        let (argv, environment) = (pointers(&self.argv), pointers(&self.environment));
        let mut worst = io::Error::from_raw_os_error(libc::ENOENT);
        for path in &self.candidates {
            // SAFETY: the path and both null-terminated lists are valid for the call.
            unsafe { libc::execve(path.as_ptr(), argv.as_ptr(), environment.as_ptr()) };
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::NotFound
                && error.raw_os_error() != Some(libc::ENOTDIR)
            {
                worst = error;
            }
        }
        worst
    }
}

fn enter_place(what: &Spawn<'_>) -> io::Result<()> {
    lead_group(what)?;
    if let Some(network) = what.network {
        namespace::enter_network(network).map_err(|error| error.source)?;
    }
    if what.network.is_some() || what.confinement.is_some() {
        namespace::unshare_mounts_and_name().map_err(|error| error.source)?;
    }
    if what.network.is_some() {
        // Containers may refuse both. Prompts then name the machine, and programs see its interfaces in /sys.
        let _ = namespace::set_hostname(what.hostname);
        let _ = namespace::fresh_sys();
    }
    replace_stdio(&what.stdio)?;
    sched::lift_busy_limit();
    default_signals();
    if let Some(confinement) = what.confinement {
        confinement.hide()?;
        confinement.become_user()?;
    }
    if let Some(directory) = &what.directory {
        std::env::set_current_dir(directory)?;
    }
    close_range(3, libc::c_uint::MAX, CLOSE_AT_EXEC)
}

/// Closes every descriptor of a forked child but its standard ones and `kept`: the descriptors of its parent must end when the
/// parent closes them.
///
/// The child must never use or drop what owned the others: it ends by `exit`.
///
/// # Errors
/// The kernel is older than Linux 5.9.
pub fn keep_only(kept: BorrowedFd<'_>) -> io::Result<()> {
    let kept = libc::c_uint::try_from(kept.as_raw_fd()).unwrap_or(0);
    if kept > 3 {
        close_range(3, kept - 1, 0)?;
    }
    close_range(kept.max(2) + 1, libc::c_uint::MAX, 0)
}

/// `close_range(2)`, for which musl has no function.
fn close_range(first: libc::c_uint, last: libc::c_uint, flags: libc::c_int) -> io::Result<()> {
    // SAFETY: it takes numbers. Callers close descriptors at the start of a program, or in a child that uses none of them.
    let answer = unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) };
    check(i32::try_from(answer).unwrap_or(-1)).map(drop)
}

/// Makes the calling process the leader of a process group, in the foreground of its terminal if it gets one; or of a
/// session.
fn lead_group(what: &Spawn<'_>) -> io::Result<()> {
    if what
        .confinement
        .is_some_and(|confinement| confinement.own_session)
    {
        setsid()?;
        return Ok(());
    }
    setpgid(None, None)?;
    if let Some(terminal) = what.terminal {
        // SIGTTOU is blocked by our caller, or else this would stop us.
        tcsetpgrp(terminal, getpid())?;
    }
    Ok(())
}

fn replace_stdio(stdio: &[Option<BorrowedFd<'_>>; 3]) -> io::Result<()> {
    // First out of the way of 0, 1 and 2, so that no copy overwrites another's source.
    let mut copies = [const { None }; 3];
    for (copy, fd) in copies.iter_mut().zip(stdio) {
        *copy = fd.map(|fd| fcntl_dupfd_cloexec(fd, 10)).transpose()?;
    }
    let [input, output, error] = copies;
    input.map_or(Ok(()), dup2_stdin)?;
    output.map_or(Ok(()), dup2_stdout)?;
    Ok(error.map_or(Ok(()), dup2_stderr)?)
}

/// Sets default actions for all signals and blocks none, as at the start of a program.
fn default_signals() {
    // SAFETY: signal numbers only; the empty set is valid for the call. Refused numbers do no harm.
    unsafe {
        for number in 1..32 {
            libc::signal(number, libc::SIG_DFL);
        }
        let mut none: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

/// The new state of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildState {
    /// It ended with this status.
    Exited(i32),
    /// It was killed by this signal.
    Killed(i32),
    /// It was stopped by this signal and can continue.
    Stopped(i32),
    /// It continues after a stop.
    Continued,
}

impl ChildState {
    /// Whether it is the end of the process.
    #[must_use]
    pub const fn is_end(self) -> bool {
        matches!(self, Self::Exited(_) | Self::Killed(_))
    }

    /// The status that a shell would report: 128 + number for a signal.
    #[must_use]
    pub const fn exit_code(self) -> i32 {
        match self {
            Self::Continued => 0,
            Self::Exited(code) => code,
            Self::Killed(signal) | Self::Stopped(signal) => 128 + signal,
        }
    }

    /// The status of the process; for a signal its negative number, which no status is.
    #[must_use]
    pub const fn status(self) -> i32 {
        match self {
            Self::Continued => 0,
            Self::Exited(code) => code,
            Self::Killed(signal) | Self::Stopped(signal) => -signal,
        }
    }

    fn of(status: WaitStatus) -> Self {
        if let Some(code) = status.exit_status() {
            Self::Exited(code)
        } else if let Some(signal) = status.stopping_signal() {
            Self::Stopped(signal)
        } else if let Some(signal) = status.terminating_signal() {
            Self::Killed(signal)
        } else {
            Self::Continued
        }
    }
}

/// The result of a query for state changes of children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// This child changed to this state.
    Of(i32, ChildState),
    /// There are children without a state change.
    Quiet,
    /// There are no children.
    NoChildren,
}

/// Queries the state change of any child, without waiting.
#[must_use]
pub fn news_of_children() -> News {
    match wait(WaitOptions::NOHANG | WaitOptions::UNTRACED | WaitOptions::CONTINUED) {
        Ok(None) => News::Quiet,
        Ok(Some((pid, status))) => News::Of(pid.as_raw_pid(), ChildState::of(status)),
        Err(_) => News::NoChildren,
    }
}

/// Queries the state change of any child, without waiting. `at_end` gets the number of a child that has ended, whose
/// entry in `/proc` is still there.
pub fn news_at_end(at_end: impl FnOnce(i32)) -> News {
    let ended = match change_of_children(libc::WEXITED | libc::WNOWAIT) {
        Ok(None) => {
            return match change_of_children(libc::WSTOPPED | libc::WCONTINUED) {
                Ok(Some((pid, state))) => News::Of(pid, state),
                Ok(None) => News::Quiet,
                Err(_) => News::NoChildren,
            };
        }
        Ok(Some((pid, _))) => pid,
        Err(_) => return News::NoChildren,
    };
    at_end(ended);
    match waitpid(Pid::from_raw(ended), WaitOptions::NOHANG) {
        Ok(Some((pid, status))) => News::Of(pid.as_raw_pid(), ChildState::of(status)),
        _ => News::Quiet,
    }
}

/// A state change of any child, of the kinds in `options`.
fn change_of_children(options: libc::c_int) -> io::Result<Option<(i32, ChildState)>> {
    // SAFETY: the structure of numbers is valid when it is zero, and waitid(2) writes to it alone.
    let (pid, code, status) = unsafe {
        let mut found: libc::siginfo_t = mem::zeroed();
        check(libc::waitid(
            libc::P_ALL,
            0,
            &raw mut found,
            options | libc::WNOHANG,
        ))?;
        (found.si_pid(), found.si_code, found.si_status())
    };
    let state = match code {
        libc::CLD_EXITED => ChildState::Exited(status),
        libc::CLD_STOPPED => ChildState::Stopped(status),
        libc::CLD_CONTINUED => ChildState::Continued,
        _ => ChildState::Killed(status),
    };
    Ok((pid != 0).then_some((pid, state)))
}

/// Waits for the end of one child, with any kind of [`Notice`](crate::namespace::Notice).
///
/// # Errors
/// There is no such child.
pub fn wait_for(pid: i32) -> io::Result<ChildState> {
    let any_notice = WaitOptions::from_bits_retain(libc::__WALL.cast_unsigned());
    let ended = retry_on_intr(|| waitpid(Pid::from_raw(pid), any_notice))?;
    ended.map_or_else(
        || Err(Errno::CHILD.into()),
        |(_, status)| Ok(ChildState::of(status)),
    )
}

/// Sends a signal to a process (or, with a negative number, to a process group; -1: to all).
///
/// # Errors
/// There is none, or the caller may not signal it.
pub fn kill(pid: i32, signal: i32) -> io::Result<()> {
    // SAFETY: kill(2) takes numbers.
    check(unsafe { libc::kill(pid, signal) }).map(drop)
}

/// Makes the kernel kill the calling process when its parent ends.
///
/// # Errors
/// None on Linux.
pub fn die_with_parent() -> io::Result<()> {
    Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
}

/// Takes a descriptor that the process inherited, by number. Programs started later do not inherit it.
///
/// # Errors
/// It is a standard stream, or not open.
pub fn adopt_descriptor(number: i32) -> Result<OwnedFd> {
    let object = || format!("descriptor {number}");
    if number < 3 {
        let error = io::Error::from_raw_os_error(libc::EBADF);
        return Err(error).during("use", object());
    }
    // SAFETY: fcntl with numbers; it fails for a descriptor that is not open. Above 2, nothing else in this
    // program owns a descriptor that it inherited.
    unsafe {
        check(libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC)).during("use", object())?;
        Ok(OwnedFd::from_raw_fd(number))
    }
}

/// Lets programs started from now on inherit `fd`, and returns its number.
///
/// # Errors
/// The error of fcntl(2).
pub fn let_inherit(fd: BorrowedFd<'_>) -> Result<RawFd> {
    fcntl_setfd(fd, FdFlags::empty()).during("hand on", "a descriptor")?;
    Ok(fd.as_raw_fd())
}

/// Lets the calling process ignore these signals.
pub fn ignore(signals: &[i32]) {
    for &number in signals {
        // SAFETY: SIG_IGN needs no handler.
        unsafe { libc::signal(number, libc::SIG_IGN) };
    }
}

/// A signal and its origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Its number.
    pub number: i32,
    /// The kernel sent it, as a terminal's Ctrl-C: every process of the group got it.
    pub from_kernel: bool,
}

/// Signals received as data.
#[derive(Debug)]
pub struct Signals {
    file: File,
}

impl Signals {
    /// Blocks `signals` and `also_block` in the calling thread, and receives the former.
    ///
    /// # Errors
    /// The error of signalfd(2).
    pub fn receive(signals: &[i32], also_block: &[i32]) -> Result<Self> {
        // SAFETY: the sets are initialised by sigemptyset and valid for the calls; the descriptor is owned at once.
        unsafe {
            let mut set: libc::sigset_t = mem::zeroed();
            libc::sigemptyset(&raw mut set);
            for &number in signals.iter().chain(also_block) {
                libc::sigaddset(&raw mut set, number);
            }
            check(libc::sigprocmask(
                libc::SIG_SETMASK,
                &raw const set,
                std::ptr::null_mut(),
            ))
            .during("block", "signals")?;
            for &number in also_block {
                libc::sigdelset(&raw mut set, number);
            }
            let fd = check(libc::signalfd(
                -1,
                &raw const set,
                libc::SFD_CLOEXEC | libc::SFD_NONBLOCK,
            ))
            .during("open", "a signal descriptor")?;
            Ok(Self {
                file: File::from(OwnedFd::from_raw_fd(fd)),
            })
        }
    }

    /// The next signal's number, if there is one.
    #[must_use]
    pub fn next(&self) -> Option<i32> {
        self.next_received().map(|signal| signal.number)
    }

    /// The next signal, if there is one.
    #[must_use]
    pub fn next_received(&self) -> Option<Received> {
        let mut info = [0; mem::size_of::<libc::signalfd_siginfo>()];
        (&self.file).read_exact(&mut info).ok()?;
        let word =
            |at: usize| i32::from_ne_bytes([info[at], info[at + 1], info[at + 2], info[at + 3]]);
        Some(Received {
            number: word(mem::offset_of!(libc::signalfd_siginfo, ssi_signo)),
            from_kernel: word(mem::offset_of!(libc::signalfd_siginfo, ssi_code)) == libc::SI_KERNEL,
        })
    }
}

impl std::os::fd::AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Whether `fd` is the caller's terminal and the caller is in its foreground.
#[must_use]
pub fn is_ours(fd: BorrowedFd<'_>) -> bool {
    tcgetpgrp(fd).is_ok_and(|group| group == getpgrp())
}

/// Gives the foreground of the terminal to process group `group`. `SIGTTOU` must be blocked or ignored.
///
/// # Errors
/// `fd` is not the caller's terminal, or there is no such group in the session.
pub fn give(fd: BorrowedFd<'_>, group: i32) -> io::Result<()> {
    let group = Pid::from_raw(group).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(tcsetpgrp(fd, group)?)
}

/// Takes the foreground of the terminal back for the caller's process group.
///
/// # Errors
/// `fd` is not the caller's terminal.
pub fn take(fd: BorrowedFd<'_>) -> io::Result<()> {
    Ok(tcsetpgrp(fd, getpgrp())?)
}

/// Stops the caller's process group, as Ctrl-Z does, until it is continued.
pub fn stop_ourselves() {
    // SAFETY: signals by number, to our own group and ourselves. The first is for the others of the group only:
    // if the caller took it too, it would be stopped twice and continued once.
    unsafe {
        libc::signal(libc::SIGTSTP, libc::SIG_IGN);
        libc::kill(0, libc::SIGTSTP);
        libc::raise(libc::SIGSTOP);
        libc::signal(libc::SIGTSTP, libc::SIG_DFL);
    }
}

/// The settings of a terminal at one moment.
#[derive(Clone)]
pub struct Settings(Termios);

impl Settings {
    /// The settings of `fd` now.
    ///
    /// # Errors
    /// `fd` is not a terminal.
    pub fn of(fd: BorrowedFd<'_>) -> io::Result<Self> {
        Ok(Self(tcgetattr(fd)?))
    }

    /// Restores the settings of `fd`.
    ///
    /// # Errors
    /// `fd` is not a terminal.
    pub fn restore(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        Ok(tcsetattr(fd, OptionalActions::Drain, &self.0)?)
    }
}
