//! `wavebed-core sandbox -- COMMAND…`: a command in namespaces of its own; nothing is left when either end dies.
//!
//! The front stays outside, in the machine's namespaces: it passes on signals, places kernel threads on processors for those
//! inside, and ends with the command's status. Its child is process 1 of the sandbox. The command stays in the front's process
//! group, so that a terminal treats both as one.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Command;

use serde::Deserialize;
use serde_json::json;
use wavebed_os::namespace::{Forked, Isolation};
use wavebed_os::process::{ChildState, News, Signals};
use wavebed_os::{namespace, poll, process, sched, unix};

use crate::front::Ending;
use crate::problem;
use crate::problem::{FAILED, Problem, say};

/// Names the descriptor on which the front is asked to place kernel threads.
const PIN_VARIABLE: &str = "WAVEBED_PIN";

/// Signals that are meant for the command.
const PASSED_ON: [i32; 6] = [
    problem::INT,
    problem::TERM,
    problem::HUP,
    problem::QUIT,
    problem::USR1,
    problem::USR2,
];

/// Runs `command` in a sandbox and returns its exit status.
///
/// # Errors
/// The machine cannot make a sandbox, or the command cannot be run.
pub fn run(command: &[String]) -> Result<i32, Problem> {
    let (user, group) = namespace::effective_user();
    let (init_end, front_end) = unix::message_pair()?;
    let (pin_inside, pin_outside) = unix::stream_pair()?;
    let signals = Signals::receive(&PASSED_ON, &[])?;
    let (forked, isolation) = problem::fork(user)?;
    match forked {
        Forked::Child => {
            drop((init_end, pin_outside, signals));
            let outer_user = (isolation == Isolation::UserLaboratory).then_some((user, group));
            let status = live(command, &front_end, &pin_inside.into(), outer_user);
            std::process::exit(status.unwrap_or_else(|problem| {
                say(&problem);
                problem.status
            }))
        }
        Forked::Parent(child) => {
            drop((front_end, pin_inside));
            let front = Front {
                signals,
                init: init_end,
                init_pid: child.pid,
                pidfd: child.pidfd,
                pins: PinService::new(pin_outside),
                ending: Ending::default(),
            };
            Ok(front.attend())
        }
    }
}

struct Front {
    signals: Signals,
    init: OwnedFd,
    init_pid: i32,
    pidfd: OwnedFd,
    pins: PinService,
    ending: Ending,
}

impl Front {
    /// Waits on everything until init has ended.
    fn attend(mut self) -> i32 {
        loop {
            let mut readable = [false; 3];
            let fds = [
                Some(self.pidfd.as_fd()),
                Some(self.signals.as_fd()),
                self.pins.as_fd(),
            ];
            let fds: Vec<_> = fds.into_iter().flatten().collect();
            if poll::wait(&fds, &mut readable, self.ending.left_ns()).is_err() {
                return FAILED;
            }
            // What has ended by itself has its own status, also if this process was late to see it.
            if self.ending.is_due() && !readable[0] {
                let _ = process::kill(self.init_pid, problem::KILL);
                let _ = process::wait_for(self.init_pid);
                return self.ending.status();
            }
            if readable[1] {
                self.pass_signals();
            }
            if readable[2] {
                self.pins.serve();
            }
            if readable[0] {
                return self.init_ended();
            }
        }
    }

    /// What the kernel sent, as a terminal does, the command has had already.
    fn pass_signals(&mut self) {
        while let Some(signal) = self.signals.next_received() {
            self.ending.hear(signal.number);
            if !signal.from_kernel {
                let number = u8::try_from(signal.number).unwrap_or(0);
                let _ = unix::send(self.init.as_fd(), &[number], &[]);
            }
        }
    }

    fn init_ended(&self) -> i32 {
        match process::wait_for(self.init_pid) {
            Ok(ChildState::Exited(code)) => code,
            Ok(_) => {
                say("the sandbox was killed");
                FAILED
            }
            Err(_) => FAILED,
        }
    }
}

/// The life of init, process 1 inside. Returns the command's exit status; the kernel then ends what is left.
fn live(
    command: &[String],
    front: &OwnedFd,
    pin: &OwnedFd,
    outer_user: Option<(u32, u32)>,
) -> Result<i32, Problem> {
    if let Some((user, group)) = outer_user {
        namespace::map_root(user, group).map_err(|error| Problem::no_rights(&error))?;
    }
    process::die_with_parent().map_err(|error| Problem::failed(error.to_string()))?;
    if unix::is_hung_up(front) {
        return Err(Problem::failed("the front process is gone"));
    }
    let signals = Signals::receive(&[problem::CHLD], &[])?;
    furnish()?;
    let number = process::let_inherit(pin.as_fd())?;
    let child = Command::new(&command[0])
        .args(&command[1..])
        .env(PIN_VARIABLE, number.to_string())
        .spawn()
        .map_err(|error| Problem::wrong(format!("cannot run {}: {error}", command[0])))?;
    let pid = i32::try_from(child.id()).expect("process numbers are small");
    loop {
        let mut readable = [false; 2];
        let fds = [signals.as_fd(), front.as_fd()];
        poll::wait(&fds, &mut readable, None)
            .map_err(|error| Problem::failed(error.to_string()))?;
        if readable[0]
            && let Some(status) = reap(&signals, pid)
        {
            return Ok(status);
        }
        if readable[1] {
            let mut buffer = [0; 1];
            match unix::receive(front.as_fd(), &mut buffer, &mut Vec::new()) {
                Ok(1) => drop(process::kill(pid, i32::from(buffer[0]))),
                // The front process is gone; nobody is there to hear a status.
                _ => return Ok(FAILED),
            }
        }
    }
}

/// Reaps every child that ended, orphans too. Returns the command's status if it is among them.
fn reap(signals: &Signals, command: i32) -> Option<i32> {
    while signals.next().is_some() {}
    while let News::Of(pid, fate) = process::news_of_children() {
        if pid == command && fate.is_end() {
            return Some(fate.exit_code());
        }
    }
    None
}

/// Makes the mounts of the sandbox and its loopback.
fn furnish() -> Result<(), Problem> {
    namespace::make_private().map_err(|error| Problem::no_rights(&error))?;
    // Refused in some containers without root; programs then see the processes and settings of outside.
    let _ = namespace::fresh_proc();
    let _ = namespace::fresh_sys_for_writing().or_else(|_| namespace::fresh_sys());
    // The folder in which iproute2 keeps the names of namespaces. Where it is missing, the folder above is hidden, so that
    // none has to be made on the machine.
    let run =
        fs::canonicalize("/var/run").map_or("/run".to_owned(), |path| path.display().to_string());
    let names = format!("{run}/netns");
    if fs::exists(&names).unwrap_or(false) {
        namespace::memory_over(&names)?;
    } else {
        namespace::memory_over(&run)?;
        fs::create_dir(&names).map_err(|error| Problem::failed(format!("{names}: {error}")))?;
    }
    let netlink = wavebed_os::netlink::Netlink::route()?;
    netlink
        .set_up(wavebed_os::netlink::interface_index("lo")?)
        .map_err(|error| Problem::cannot(format!("the kernel refuses lo: {error}")))
}

/// A request is one short line; whoever sends more without an end is not understood.
const LONGEST_LINE: usize = 4096;

/// `PF_KTHREAD` of the kernel's `sched.h`, in the ninth column of `/proc/N/stat`.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// What the name of a thread that polls a network interface begins with.
const POLLS_INTERFACE: &str = "napi/";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    napi: u32,
    core: usize,
    #[serde(default)]
    fifo: i32,
}

/// The outer end of `$WAVEBED_PIN`.
struct PinService {
    stream: Option<UnixStream>,
    pending: Vec<u8>,
}

impl PinService {
    /// A service on `stream`. Whoever asks without reading the answers loses it: the front must not wait for anybody.
    pub fn new(stream: UnixStream) -> Self {
        let answers = stream.set_nonblocking(true).is_ok();
        Self {
            stream: answers.then_some(stream),
            pending: Vec::new(),
        }
    }

    /// What to wait on, while there is somebody inside.
    pub fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.stream.as_ref().map(AsFd::as_fd)
    }

    /// Reads what has come and answers each whole line.
    pub fn serve(&mut self) {
        let Some(mut stream) = self.stream.as_ref() else {
            return;
        };
        let mut buffer = [0; LONGEST_LINE];
        let count = match stream.read(&mut buffer) {
            Err(error)
                if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) =>
            {
                return;
            }
            Ok(0) | Err(_) => {
                self.stream = None;
                return;
            }
            Ok(count) => count,
        };
        self.pending.extend_from_slice(&buffer[..count]);
        while let Some(end) = self.pending.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.pending.drain(..=end).collect();
            let answer = match place(&line) {
                Ok(()) => json!({"ok": {}}),
                Err(reason) => json!({"error": reason}),
            };
            if stream.write_all(format!("{answer}\n").as_bytes()).is_err() {
                self.stream = None;
                return;
            }
        }
        if self.pending.len() > LONGEST_LINE {
            self.stream = None;
        }
    }
}

fn place(line: &[u8]) -> Result<(), String> {
    let request: Request = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let thread = find_thread(request.napi).ok_or_else(|| {
        format!(
            "napi: no thread {POLLS_INTERFACE}…-{} can be seen on this machine",
            request.napi
        )
    })?;
    let fifo = (request.fifo > 0).then_some(request.fifo);
    if fifo.is_some() && !sched::throttle_is_on() {
        return Err("fifo: kernel.sched_rt_runtime_us is -1, so a busy thread could starve the machine; set it to 950000".to_owned());
    }
    sched::place_thread(thread, request.core, fifo).map_err(|error| {
        format!(
            "the thread of NAPI {} on processor {}: {error}",
            request.napi, request.core
        )
    })
}

/// The kernel thread of a NAPI instance, whose number is unique on the machine and ends the thread's name.
fn find_thread(napi: u32) -> Option<i32> {
    fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let number = entry.file_name().to_str()?.parse().ok()?;
        let name = fs::read_to_string(entry.path().join("comm")).ok()?;
        let (_, id) = name
            .trim_end()
            .strip_prefix(POLLS_INTERFACE)?
            .rsplit_once('-')?;
        (id.parse() == Ok(napi) && is_kernel_thread(number)).then_some(number)
    })
}

fn is_kernel_thread(number: i32) -> bool {
    let text = fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
    // The name stands in parentheses and may hold any character; the state, the third column, follows it.
    text.rsplit_once(") ")
        .and_then(|(_, rest)| rest.split(' ').nth(6))
        .and_then(|flags| flags.parse::<u64>().ok())
        .is_some_and(|flags| flags & KERNEL_THREAD != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::tests::late_for_an_ended_child;

    #[test]
    fn an_init_that_has_ended_by_itself_keeps_its_status_though_its_time_is_over() {
        let (ending, init_pid, pidfd) = late_for_an_ended_child();
        let (init, _inside) = unix::message_pair().expect("pair");
        let (_asks, pins) = unix::stream_pair().expect("pair");
        let front = Front {
            signals: Signals::receive(&[problem::USR2], &[]).expect("signals"),
            init,
            init_pid,
            pidfd,
            pins: PinService::new(pins),
            ending,
        };
        assert_eq!(front.attend(), 7);
    }

    #[test]
    fn only_kernel_threads_that_poll_an_interface_are_placed() {
        // A process may take any name; that makes it none of the kernel's.
        let comm = "/proc/self/comm";
        let name = fs::read_to_string(comm).expect("a name");
        fs::write(comm, "napi/x-40000001").expect("another name");
        let answer = place(br#"{"napi": 40000001, "core": 0}"#);
        fs::write(comm, name).expect("the name again");
        assert!(answer.is_err_and(|reason| reason.contains("no thread napi/")));
        assert!(place(br#"{"napi": 1}"#).is_err());
        assert!(place(br#"{"napi": 1, "core": 0, "nice": 1}"#).is_err());
    }

    #[test]
    fn the_kernels_own_threads_are_known_by_their_flag() {
        assert!(!is_kernel_thread(1));
        // Number 2 is the kernel's, where this process can see it.
        if fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n") {
            assert!(is_kernel_thread(2));
        }
    }

    #[test]
    fn each_line_has_its_answer() {
        let (inside, outside) = UnixStream::pair().expect("pair");
        let mut service = PinService::new(outside);
        (&inside).write_all(b"{\"napi\"").expect("write");
        service.serve();
        (&inside).write_all(b": 1}\nnothing\n").expect("write");
        service.serve();
        drop(service);
        let mut text = String::new();
        (&inside).read_to_string(&mut text).expect("read");
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(text.lines().all(|line| line.starts_with("{\"error\":")));
    }
}
