//! The front process: it starts the laboratory's init, stays in the machine's namespaces, forwards signals and
//! connections, manages the terminal, and exits with the laboratory's status.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{UnixListener, UnixStream};

use wavebed_os::confinement::Set;
use wavebed_os::named_sockets::NamedSockets;
use wavebed_os::namespace::{Forked, Isolation, NetworkNamespace};
use wavebed_os::process::{ChildState, Settings, Signals};
use wavebed_os::{clock, confinement, namespace, poll, process, unix};
use wavebed_path::LinkError;

use crate::init::InitSetup;
use crate::lab_file::LabFile;
use crate::names::message;
use crate::problem::{FAILED, Problem, say};
use crate::{init, limits, names, path_engine, problem};

/// Signals for the command.
const PASSED_ON: [i32; 7] = [
    problem::INT,
    problem::TERM,
    problem::HUP,
    problem::QUIT,
    problem::USR1,
    problem::USR2,
    problem::WINCH,
];

struct Front {
    signals: Signals,
    /// In the machine's network namespace.
    listener: UnixListener,
    /// In the hosts' namespaces: abstract names belong to a network namespace.
    inside: Vec<UnixListener>,
    /// Name of the user namespace of init. This process may not ask for it.
    users: Vec<u8>,
    init: OwnedFd,
    init_pid: i32,
    isolation: Isolation,
    pidfd: OwnedFd,
    /// Socket over which the owner sends connections; its hang-up means that the owner has ended.
    owner: Option<OwnedFd>,
    user: u32,
    terminal: Option<Settings>,
    ending: Ending,
}

/// Runs the laboratory of the file at `path` and returns the exit status.
///
/// # Errors
/// The file is invalid, or the machine cannot run it.
pub fn run(path: &str, control: Option<i32>) -> Result<i32, Problem> {
    let mut lab = LabFile::read(path)?;
    let hops = path_engine::build_hops(&lab).map_err(|error| match error {
        LinkError::Pattern(line) => Problem::wrong(line),
        LinkError::Stage { .. } => Problem::wrong(format!("{path}: {error}")),
    })?;
    let (user, group) = namespace::effective_user();
    if lab.network.nat && user != 0 {
        return Err(Problem::cannot(
            "nat: requires root: run as root, or set nat to false",
        ));
    }
    let owner = control
        .map(process::adopt_descriptor)
        .transpose()
        .map_err(|error| Problem::wrong(error.to_string()))?;
    let machine = if lab.network.nat {
        Some(NetworkNamespace::current()?)
    } else {
        None
    };
    let outside = NamedSockets::of_this_thread().ok();
    let listener = names::listen(&lab.name, user)?;
    let (init, front_end) = unix::message_pair()?;
    let stdin = std::io::stdin();
    let terminal = if process::is_ours(stdin.as_fd()) {
        Settings::of(stdin.as_fd()).ok()
    } else {
        None
    };
    let signals = Signals::receive(&PASSED_ON, &[problem::TTOU])?;
    let (forked, isolation) = problem::fork(user).map_err(Problem::or_virtual_time)?;
    match forked {
        Forked::Child => {
            drop((init, listener, signals, owner));
            let outer_user = (isolation == Isolation::UserLaboratory).then_some((user, group));
            let has_terminal = terminal.is_some();
            lab.front = front_end.try_clone().ok();
            let setup = InitSetup {
                lab,
                hops,
                machine,
                outside,
                front: front_end,
                outer_user,
                has_terminal,
            };
            std::process::exit(init::run(setup))
        }
        Forked::Parent(child) => {
            drop((front_end, machine, hops));
            // It forwards, waits and reports: that needs no privilege on the machine.
            confinement::renounce(Set::empty())
                .map_err(|error| Problem::failed(error.to_string()))?;
            let front = Front {
                signals,
                listener,
                inside: Vec::new(),
                users: Vec::new(),
                init,
                init_pid: child.pid,
                isolation,
                pidfd: child.pidfd,
                owner,
                user,
                terminal,
                ending: Ending::default(),
            };
            Ok(front.attend())
        }
    }
}

impl Front {
    /// Serves all descriptors until init has ended.
    fn attend(mut self) -> i32 {
        loop {
            let mut fds: Vec<BorrowedFd<'_>> = vec![
                self.pidfd.as_fd(),
                self.signals.as_fd(),
                self.listener.as_fd(),
                self.init.as_fd(),
            ];
            fds.extend(self.inside.iter().map(AsFd::as_fd));
            let owner = fds.len();
            fds.extend(self.owner.as_ref().map(AsFd::as_fd));
            let mut readable = vec![false; owner + 1];
            if poll::wait(&fds, &mut readable, self.ending.left_ns()).is_err() {
                return self.end(FAILED);
            }
            // What has ended by itself has its own status, also if this process was late to see it.
            if self.ending.is_due() && !readable[0] {
                return self.kill_init(self.ending.status());
            }
            if readable[1] {
                self.pass_signals();
            }
            if readable[2] {
                self.pass_visitor(&self.listener, |_| true);
            }
            for (listener, _) in self
                .inside
                .iter()
                .zip(&readable[4..])
                .filter(|each| *each.1)
            {
                self.pass_visitor(listener, |visitor| self.is_unconfined(visitor));
            }
            if readable[0] {
                return self.init_ended();
            }
            if readable[3] {
                self.hear_init();
            }
            if readable[owner] && !self.hear_owner() {
                return self.kill_init(FAILED);
            }
        }
    }

    /// Kills init, and with it every process inside.
    fn kill_init(&self, status: i32) -> i32 {
        let _ = process::kill(self.init_pid, problem::KILL);
        let _ = process::wait_for(self.init_pid);
        self.end(status)
    }

    fn pass_signals(&mut self) {
        while let Some(number) = self.signals.next() {
            self.ending.hear(number);
            let number = u8::try_from(number).unwrap_or(0);
            let _ = unix::send(self.init.as_fd(), &[message::SIGNAL, number], &[]);
        }
    }

    /// Accepts a connection to the name and passes it to init, if its peer is this user or root. User ids are the
    /// machine's only outside the laboratory's user namespace.
    fn pass_visitor(&self, listener: &UnixListener, may_enter: impl Fn(&UnixStream) -> bool) {
        if let Ok((stream, _)) = listener.accept()
            && let Ok(peer) = unix::peer_user(&stream)
            && (peer == self.user || peer == 0)
            && may_enter(&stream)
        {
            self.pass_connection(&stream);
        }
    }

    /// Whether a program inside is not confined. Where confined programs are a user of their own, the check of the user
    /// has refused them already.
    fn is_unconfined(&self, visitor: &UnixStream) -> bool {
        self.isolation == Isolation::Laboratory || is_root_of(&self.users, visitor)
    }

    /// Passes the owner's connections to init. Returns whether the owner still runs.
    fn hear_owner(&self) -> bool {
        let Some(owner) = &self.owner else {
            return true;
        };
        let mut descriptors = Vec::new();
        let count = unix::receive(owner.as_fd(), &mut [0; 8], &mut descriptors);
        for descriptor in descriptors {
            self.pass_connection(&UnixStream::from(descriptor));
        }
        count.is_ok_and(|count| count > 0)
    }

    fn pass_connection(&self, stream: &UnixStream) {
        if stream.set_nonblocking(true).is_ok() {
            let _ = unix::send(self.init.as_fd(), &[message::CONNECTION], &[stream.as_fd()]);
        }
    }

    fn hear_init(&mut self) {
        let mut buffer = [0; 64];
        let mut descriptors = Vec::new();
        match unix::receive(self.init.as_fd(), &mut buffer, &mut descriptors) {
            Ok(count @ 1..) if buffer[0] == message::LISTENER => {
                self.users = buffer[1..count].to_vec();
                self.inside
                    .extend(descriptors.into_iter().map(UnixListener::from));
            }
            Ok(1..) if buffer[0] == message::STOPPED && self.terminal.is_some() => {
                process::stop_ourselves();
                let stdin = std::io::stdin();
                let kind = if process::is_ours(stdin.as_fd()) {
                    message::FOREGROUND
                } else {
                    message::BACKGROUND
                };
                let _ = unix::send(self.init.as_fd(), &[kind], &[]);
            }
            // Init is about to end, and its descriptor will report that.
            Ok(0) | Err(_) => std::thread::yield_now(),
            Ok(_) => {}
        }
    }

    fn init_ended(&self) -> i32 {
        match process::wait_for(self.init_pid) {
            Ok(ChildState::Exited(code)) => self.end(code),
            Ok(state) => {
                if let (Some(settings), ChildState::Killed(_)) = (&self.terminal, state) {
                    let _ = settings.restore(std::io::stdin().as_fd());
                }
                let status = self.end(FAILED);
                say("the laboratory was killed");
                status
            }
            Err(_) => self.end(FAILED),
        }
    }

    /// Takes the terminal back.
    fn end(&self, status: i32) -> i32 {
        if let Some(settings) = &self.terminal {
            let stdin = std::io::stdin();
            let _ = process::take(stdin.as_fd());
            if status > 128 {
                let _ = settings.restore(stdin.as_fd());
            }
        }
        status
    }
}

/// Whether the visitor is root in the user namespace of this name. A confined program is in another one, or has lost
/// the capabilities of its root.
fn is_root_of(users: &[u8], visitor: &UnixStream) -> bool {
    let capable = |pid: i32| {
        let found = fs::read_link(format!("/proc/{pid}/ns/user")).ok()?;
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("CapEff:"))?;
        let effective = u64::from_str_radix(line.trim(), 16).ok()?;
        Some(found.as_os_str().as_bytes() == users && effective & Set::SYS_ADMIN.bits() != 0)
    };
    unix::peer_process(visitor).is_ok_and(|pid| capable(pid) == Some(true))
}

/// The termination signals received so far.
#[derive(Debug, Default)]
pub struct Ending {
    asked: u32,
    last: i32,
    kill_at_ns: Option<u64>,
}

impl Ending {
    /// Records a signal.
    pub fn hear(&mut self, signal: i32) {
        self.hear_at(signal, clock::monotonic_ns());
    }

    /// Time left until everything is killed, ns; `None` without a limit.
    #[must_use]
    pub fn left_ns(&self) -> Option<u64> {
        self.kill_at_ns
            .map(|at| at.saturating_sub(clock::monotonic_ns()))
    }

    /// Whether no time is left.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.left_ns() == Some(0)
    }

    /// The exit status after the kill.
    #[must_use]
    pub const fn status(&self) -> i32 {
        128 + self.last
    }

    /// Records a signal of this time.
    pub fn hear_at(&mut self, signal: i32, now_ns: u64) {
        if signal != problem::INT && signal != problem::TERM {
            return;
        }
        self.asked += 1;
        self.last = signal;
        if self.asked > 1 {
            self.kill_at_ns.get_or_insert(now_ns + limits::ALL_AGAIN_NS);
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::fs;
    use std::fs::File;
    use std::os::fd::OwnedFd;
    use std::process::Command;
    use std::time::Duration;

    #[test]
    fn the_second_signal_sets_the_limit_and_no_later_one_moves_it() {
        let mut ending = Ending::default();
        ending.hear_at(problem::INT, 10);
        ending.hear_at(problem::HUP, 20);
        assert_eq!((ending.left_ns(), ending.is_due()), (None, false));
        ending.hear_at(problem::TERM, 30);
        ending.hear_at(problem::INT, 40);
        assert_eq!(ending.kill_at_ns, Some(30 + limits::ALL_AGAIN_NS));
        assert_eq!(ending.status(), 130);
    }

    /// An end whose time is over, and the number of a child that has ended with status 7; a descriptor that tells so.
    #[expect(clippy::zombie_processes, reason = "tests wait by its number")]
    pub fn late_for_an_ended_child() -> (Ending, i32, OwnedFd) {
        let mut ending = Ending::default();
        for _ in 0..2 {
            ending.hear_at(problem::TERM, 0);
        }
        while !ending.is_due() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut child = Command::new("sh");
        let child = child.args(["-c", "exit 7"]).spawn().expect("starts");
        let stat = format!("/proc/{}/stat", child.id());
        while !fs::read_to_string(&stat)
            .expect("not waited for")
            .contains(") Z ")
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        let readable = File::open("/dev/null").expect("a file").into();
        (ending, child.id().cast_signed(), readable)
    }

    #[test]
    fn an_init_that_has_ended_by_itself_keeps_its_status_though_its_time_is_over() {
        let (ending, init_pid, pidfd) = late_for_an_ended_child();
        let (init, _inside) = unix::message_pair().expect("pair");
        let name = format!("wavebed-test/late/{}", std::process::id());
        let front = Front {
            signals: Signals::receive(&[problem::WINCH], &[]).expect("signals"),
            listener: unix::listen(&name).expect("listen"),
            inside: Vec::new(),
            users: Vec::new(),
            init,
            init_pid,
            isolation: Isolation::Laboratory,
            pidfd,
            owner: None,
            user: 0,
            terminal: None,
            ending,
        };
        assert_eq!(front.attend(), 7);
    }

    #[test]
    fn a_visitor_is_root_in_the_user_namespace_of_init_or_confined() {
        let (visitor, _other_end) = unix::stream_pair().expect("pair");
        let own = fs::read_link("/proc/self/ns/user").expect("a link");
        let permitted = confinement::permitted().expect("a set");
        let is_capable = permitted.contains(Set::SYS_ADMIN);
        assert_eq!(is_root_of(own.as_os_str().as_bytes(), &visitor), is_capable);
        assert!(!is_root_of(b"user:[1]", &visitor));
        assert!(!is_root_of(b"", &visitor), "init has not sent it");
    }
}
