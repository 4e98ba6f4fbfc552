//! Guests of virtual time: `wavebed-core guest` starts the kernel outside, and `wavebed-core guest-init` is its first process.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::{fs, io};

use serde::Deserialize;
use serde_json::{Value, json};
use wavebed_os::guest::Shared;
use wavebed_os::netlink::{Netlink, interface_index};
use wavebed_os::process::{ChildState, News, Signals, Spawn};
use wavebed_os::{clock, confinement, guest, namespace, poll, process, sched, unix};

use crate::problem::Problem;
use crate::{names, problem};

/// Time since the guest's start at which the command begins, nanoseconds: ping takes the first second for no time at all, and
/// sends without a pause.
const BEGIN_NS: u64 = 10_000_000_000;

/// The guest's host name.
const NAME: &str = "guest";

/// How to start the kernel.
#[derive(clap::Args)]
pub struct Options {
    /// The process that the guest must not outlive.
    #[arg(long)]
    parent: u32,
    /// The processor to stay on.
    #[arg(long)]
    processor: usize,
    /// A folder that the guest may write to; it may write nowhere else. May be repeated.
    #[arg(long)]
    writable: Vec<String>,
    /// A file or folder that the guest may read, like what it may write; it may read nothing else. May be repeated.
    #[arg(long)]
    readable: Vec<String>,
    /// The kernel and its command line.
    #[arg(last = true, required = true)]
    kernel: Vec<String>,
}

/// What the first process does, as a JSON object.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Task {
    command: Vec<String>,
    /// In order of names, so that two guests have the same one.
    environment: BTreeMap<String, String>,
    /// A folder of the host, whose files the guest has at their places below its root.
    given: String,
    shared: Vec<Folder>,
    /// The file of the command's output, in the guest.
    log: String,
    /// The files of the channel to the host, in the guest.
    channel: Files,
    /// The file of the command's exit status, or of the reason why there is none, in the guest.
    status: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Folder {
    outside: String,
    inside: String,
    writable: bool,
}

/// Becomes the kernel, on one processor. It reaches only the files of `readable` and `writable`, and makes only
/// the system calls of `guest_calls`.
///
/// # Errors
/// The kernel cannot be started, or its owner has ended.
pub fn start(options: &Options) -> Result<i32, Problem> {
    let refused = |what: &str, error: &dyn std::fmt::Display| {
        Problem::failed(format!("cannot start a guest: {what}: {error}"))
    };
    process::die_with_parent().map_err(|error| refused("owner", &error))?;
    if std::os::unix::process::parent_id() != options.parent {
        return Err(Problem::failed("cannot start a guest: its owner has ended"));
    }
    sched::place_thread(0, options.processor, None)
        .map_err(|error| refused("processor", &error))?;
    confinement::never_gain().map_err(|error| refused("no_new_privs", &error))?;
    // A machine without Landlock refuses nothing, nor one without filters.
    confinement::only(&options.readable, &options.writable)
        .map_err(|error| refused("landlock", &error))?;
    guest::allow_kernel().map_err(|error| refused("seccomp", &error))?;
    let program = &options.kernel[0];
    let error = Command::new(program).args(&options.kernel[1..]).exec();
    Err(refused(program, &error))
}

/// Sets the guest up, runs the command, and powers off.
///
/// # Errors
/// The file is wrong, or the guest cannot be set up.
pub fn init(file: &str) -> Result<i32, Problem> {
    let text =
        fs::read_to_string(file).map_err(|error| Problem::wrong(format!("{file}: {error}")))?;
    let task: Task =
        serde_json::from_str(&text).map_err(|error| Problem::wrong(format!("{file}: {error}")))?;
    if std::process::id() != 1 {
        return Err(Problem::wrong(
            "guest-init is the first process of a guest, and not for use outside",
        ));
    }
    let told = match live(&task) {
        Ok(status) => status.to_string(),
        Err(problem) => problem.line,
    };
    if let Err(error) = fs::write(&task.status, &told) {
        guest::tell(&format!("{}: {error}; {told}", task.status));
    }
    guest::power_off()?;
    Ok(0)
}

fn live(task: &Task) -> Result<i32, Problem> {
    let shared: Vec<_> = task.shared.iter().map(Folder::as_shared).collect();
    guest::enter_root(&task.given, &shared)?;
    namespace::set_hostname(NAME)?;
    let route = Netlink::route()?;
    route
        .set_up(interface_index("lo")?)
        .map_err(|error| Problem::failed(format!("lo: {error}")))?;
    let signals = Signals::receive(&[problem::CHLD], &[])?;
    let environment: Vec<_> = task.environment.clone().into_iter().collect();
    let failed = |error: std::io::Error| Problem::failed(format!("{}: {error}", task.log));
    let log = File::create(&task.log).map_err(failed)?;
    let nothing = File::open("/dev/null").map_err(failed)?;
    clock::sleep_until(BEGIN_NS);
    let command = process::spawn(&Spawn {
        argv: &task.command,
        environment: &environment,
        directory: Some("/".into()),
        network: None,
        hostname: NAME,
        stdio: [Some(nothing.as_fd()), Some(log.as_fd()), Some(log.as_fd())],
        terminal: None,
        confinement: None,
    })?;
    let mut channel = Channel::new(&task.channel);
    loop {
        while let News::Of(pid, state) = process::news_of_children() {
            match state {
                ChildState::Exited(code) if pid == command => return Ok(code),
                ChildState::Killed(signal) if pid == command => return Ok(128 + signal),
                _ => {}
            }
        }
        let mut readable = [false; 2];
        let sources: Vec<_> = [signals.as_fd()].into_iter().chain(channel.lab()).collect();
        poll::wait(&sources, &mut readable, Some(channel.left_ns()))
            .map_err(|error| Problem::failed(error.to_string()))?;
        while signals.next().is_some() {}
        if readable[1] {
            channel.hear();
        }
        channel.look();
    }
}

impl Folder {
    fn as_shared(&self) -> Shared<'_> {
        Shared {
            outside: &self.outside,
            inside: &self.inside,
            writable: self.writable,
        }
    }
}

// The channel between the laboratory in a guest of virtual time and the host: files of the guest's two folders.
//
// At fixed virtual times the guest's first process writes the state of the laboratory, whether or not the host reads it,
// and takes the changes that the host has written. It waits for nobody outside, so that a host that watches moves no packet.
// It makes the same system calls with changes and without, and reads no change before it is due: a change at a given time moves
// nothing before that time.

/// Time between two looks, nanoseconds.
const EVERY_NS: u64 = 1_000_000_000;
/// After how many looks at a laboratory without packets the time between two looks doubles with each, and no sample is made.
const QUIET_LOOKS: u32 = 5;
/// How often it doubles.
const MOST_DOUBLINGS: u32 = 5;
/// How long a laboratory may take to answer, nanoseconds.
const ANSWER_NS: u64 = 2_000_000_000;
/// What stands for no state and no maps.
const NONE: &[u8] = b"null";
/// Most bytes of changes at a look. The host writes no longer line.
const MOST_CHANGES: usize = 1 << 16;
/// Digits of a number of a change.
const DIGITS: usize = 20;
/// Bytes of a change before its request.
const HEAD: usize = 2 * (DIGITS + 1);

/// The files, which the host makes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Files {
    /// The state of the laboratory in its first line; null without one.
    state: String,
    /// The maps of its scenes, in its first line.
    maps: String,
    /// Changes to make, a line each: two numbers, and a request to the laboratory. The numbers have twenty digits and a space. The
    /// first is the number of the laboratory in the guest, from 1. The second is when the change is made, nanoseconds since the
    /// laboratory's time zero, a multiple of the time between two looks; the past: at the next look.
    changes: String,
    /// What became of each, a line each.
    answers: String,
}

/// The guest's end of the channel.
pub struct Channel<'a> {
    files: &'a Files,
    due_ns: u64,
    lab: Option<Lab>,
    /// The number of the last laboratory.
    number: u64,
    /// Room for changes; used from the start, so that changes cause no page fault.
    room: Vec<u8>,
    /// How many bytes of the changes were made.
    made: u64,
}

impl<'a> Channel<'a> {
    /// A channel of these files.
    pub fn new(files: &'a Files) -> Self {
        Self {
            files,
            due_ns: clock::monotonic_ns().next_multiple_of(EVERY_NS),
            lab: None,
            number: 0,
            room: vec![1; MOST_CHANGES + HEAD],
            made: 0,
        }
    }

    /// How long to wait until the next look, nanoseconds.
    pub fn left_ns(&self) -> u64 {
        self.due_ns.saturating_sub(clock::monotonic_ns())
    }

    /// Can be read when the laboratory has sent a sample, or ended.
    pub fn lab(&self) -> Option<BorrowedFd<'_>> {
        let lab = self.lab.as_ref()?;
        let client = lab.samples.as_ref().unwrap_or(&lab.requests);
        Some(client.stream.as_fd())
    }

    /// Receives what the laboratory has sent. Tells the host if it has ended: until the next look, it could take the host long.
    pub fn hear(&mut self) {
        let stands = |lab: &mut Lab| lab.samples.as_mut().unwrap_or(&mut lab.requests).receive();
        if self.lab.as_mut().is_some_and(|lab| !stands(lab)) {
            self.lab = None;
            write(&self.files.state, true, NONE);
        }
    }

    /// Looks, if it is time.
    pub fn look(&mut self) {
        let now_ns = clock::monotonic_ns();
        if now_ns < self.due_ns {
            return;
        }
        let at_ns = self.due_ns;
        let every_ns = self.lab.as_ref().map_or(EVERY_NS, Lab::every_ns);
        self.due_ns = (now_ns + 1).next_multiple_of(every_ns);
        let is_new = self.lab.is_none();
        if is_new {
            self.lab = Lab::find();
            self.number += u64::from(self.lab.is_some());
        }
        let zero_ns = self.lab.as_ref().and_then(|lab| lab.zero_ns);
        // Time zero is a little after a whole second.
        let time_ns =
            zero_ns.map(|zero_ns| at_ns.saturating_sub(zero_ns).next_multiple_of(EVERY_NS));
        let changes = self.changes(time_ns);
        let Some(lab) = &mut self.lab else { return };
        for request in &changes {
            let answer = lab.requests.ask(request);
            let answer = answer.and_then(|line| serde_json::from_slice(&line).ok());
            let answer: Value =
                answer.unwrap_or_else(|| json!({"error": "the laboratory has ended"}));
            let line =
                json!({"lab": self.number, "at_ns": time_ns, "request": request, "answer": answer});
            write(&self.files.answers, false, line.to_string().as_bytes());
        }
        if is_new || !changes.is_empty() {
            let maps = lab.requests.ask(&json!({"do": "maps"}));
            write(&self.files.maps, true, maps.as_deref().unwrap_or(NONE));
        }
        let state = lab.state(self.number, at_ns);
        if state.is_none() {
            self.lab = None;
        }
        write(&self.files.state, true, state.as_deref().unwrap_or(NONE));
    }

    /// The requests of the changes that are due, `time_ns` after time zero. A malformed line, or one of an earlier laboratory, is
    /// passed over. An empty file is treated as a change that is not due, by the same instructions: otherwise a change that is yet
    /// to come would move page faults.
    fn changes(&mut self, time_ns: Option<u64>) -> Vec<Value> {
        let file = File::open(&self.files.changes);
        let count = file.and_then(|file| file.read_at(&mut self.room[..MOST_CHANGES], self.made));
        let count = count.unwrap_or(0);
        self.room[count..count + HEAD].fill(b'9');
        let (mut found, mut begin) = (Vec::new(), 0);
        loop {
            let head = &self.room[begin..begin + HEAD];
            let (lab, at_ns) = (
                number(&head[..DIGITS]),
                number(&head[DIGITS + 1..][..DIGITS]),
            );
            let is_due = time_ns.is_some_and(|time_ns| at_ns <= u128::from(time_ns));
            if lab > u128::from(self.number) || (lab == u128::from(self.number) && !is_due) {
                return found;
            }
            let text = &self.room[begin..count];
            let Some(end) = text.iter().position(|byte| *byte == b'\n') else {
                return found;
            };
            if lab == u128::from(self.number)
                && let Ok(request) = serde_json::from_slice(text.get(HEAD..end).unwrap_or_default())
            {
                found.push(request);
            }
            begin += end + 1;
            self.made += end as u64 + 1;
        }
    }
}

/// The number of these digits. Other bytes give another number.
fn number(digits: &[u8]) -> u128 {
    let digit = |byte: &u8| u128::from(byte.wrapping_sub(b'0'));
    digits
        .iter()
        .fold(0, |number, byte| number * 10 + digit(byte))
}

/// Writes a line into a file that is there: over its beginning, or behind it. A full disk loses the line.
fn write(file: &str, replace: bool, line: &[u8]) {
    let text = [line, b"\n"].concat();
    // Not truncated: filesystems such as ext4 write a file to the disk that is closed after that.
    let mut options = OpenOptions::new();
    let options = options.write(true).append(!replace);
    // Closed at once: the guest's kernel gives a file to the host when it is closed.
    let _ = options
        .open(file)
        .and_then(|mut file| file.write_all(&text));
}

/// A laboratory in the guest.
struct Lab {
    requests: Client,
    /// Gives a sample at each look, once time has begun and while packets move.
    samples: Option<Client>,
    /// What the directions counted at the last look.
    counted: Value,
    /// For how many looks no packet has moved.
    quiet: u32,
    socket: String,
    /// Its time zero, once its time has begun.
    zero_ns: Option<u64>,
    /// The last answer to `watch`, once its time has begun.
    watching: Option<Vec<u8>>,
    sample: Option<Vec<u8>>,
}

impl Lab {
    fn find() -> Option<Self> {
        let lab = names::running(false).into_iter().next()?;
        Some(Self {
            requests: Client::to(&lab.socket)?,
            samples: None,
            counted: Value::Null,
            quiet: 0,
            socket: lab.socket,
            zero_ns: None,
            watching: None,
            sample: None,
        })
    }

    /// How long to wait until the next look, nanoseconds.
    fn every_ns(&self) -> u64 {
        EVERY_NS << self.quiet.saturating_sub(QUIET_LOOKS).min(MOST_DOUBLINGS)
    }

    /// Counts for how many looks no packet has moved, by the laboratory's answer to `show`.
    fn count(&mut self, show: &[u8]) {
        let mut show: Value = serde_json::from_slice(show).unwrap_or_default();
        let counted = show["directions"].take();
        let is_quiet = counted == self.counted && show["in_flight_bytes"] == 0;
        self.quiet = if is_quiet { self.quiet + 1 } else { 0 };
        self.counted = counted;
    }

    /// Its state for the host, from its own words; none: it has ended. The same time stands at both ends: a host that reads while
    /// the line is written sees two.
    fn state(&mut self, number: u64, at_ns: u64) -> Option<Vec<u8>> {
        let show = self.requests.ask(&json!({"do": "show"}))?;
        self.count(&show);
        if self.quiet >= QUIET_LOOKS {
            self.samples = None;
        } else if let Some(sample) = self.samples.as_mut().and_then(Client::last) {
            self.sample = Some(sample);
        } else if self.samples.is_none() {
            let mut samples = Client::to(&self.socket)?;
            let every_ms = EVERY_NS / 1_000_000;
            let answer = samples.ask(&json!({"do": "watch", "every_ms": every_ms}))?;
            let found: Value = serde_json::from_slice(&answer).ok()?;
            if let Some(zero_ns) = found["watching"]["zero_ns"].as_u64() {
                self.zero_ns = Some(zero_ns);
                self.watching = Some(answer);
                self.samples = Some(samples);
            }
        }
        let head = format!("{{\"at_ns\":{at_ns},\"lab\":{number},\"show\":");
        let end = format!(",\"end_ns\":{at_ns}}}");
        let watching = self.watching.as_deref().unwrap_or(NONE);
        let sample = self.sample.as_deref().unwrap_or(NONE);
        let parts = [
            head.as_bytes(),
            &show,
            b",\"watching\":",
            watching,
            b",\"sample\":",
            sample,
            end.as_bytes(),
        ];
        Some(parts.concat())
    }
}

/// A connection to a laboratory.
struct Client {
    stream: UnixStream,
    rest: Vec<u8>,
}

impl Client {
    fn to(socket: &str) -> Option<Self> {
        let stream = unix::connect(socket).ok()?;
        stream.set_nonblocking(true).ok()?;
        Some(Self {
            stream,
            rest: Vec::new(),
        })
    }

    /// The answer to a request; none: the laboratory has ended, or hangs.
    fn ask(&mut self, request: &Value) -> Option<Vec<u8>> {
        let mut line = request.to_string().into_bytes();
        line.push(b'\n');
        self.stream.write_all(&line).ok()?;
        let end_ns = clock::monotonic_ns() + ANSWER_NS;
        loop {
            if let Some(answer) = self.line() {
                return Some(answer);
            }
            let left_ns = end_ns.saturating_sub(clock::monotonic_ns());
            let mut readable = [false];
            poll::wait(&[self.stream.as_fd()], &mut readable, Some(left_ns)).ok()?;
            if left_ns == 0 || !self.receive() {
                return None;
            }
        }
    }

    /// The last line that was received.
    fn last(&mut self) -> Option<Vec<u8>> {
        std::iter::from_fn(|| self.line()).last()
    }

    /// The next line that was received, without its end.
    fn line(&mut self) -> Option<Vec<u8>> {
        let end = self.rest.iter().position(|byte| *byte == b'\n')?;
        let mut line: Vec<u8> = self.rest.drain(..=end).collect();
        line.pop();
        Some(line)
    }

    /// Receives what has come. Returns whether the connection stands.
    fn receive(&mut self) -> bool {
        let mut chunk = vec![0; 1 << 16];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => return false,
                Ok(count) => self.rest.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(folder: &std::path::Path) -> Files {
        let name = |name: &str| folder.join(name).to_string_lossy().into_owned();
        Files {
            state: name("state"),
            maps: name("maps"),
            changes: name("changes"),
            answers: name("answers"),
        }
    }

    #[test]
    fn changes_are_made_in_order_each_once_and_not_before_their_time() {
        let folder = std::env::temp_dir().join(format!("wavebed-channel-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let files = files(&folder);
        let mut channel = Channel::new(&files);
        channel.number = 2;
        let mut made = |text: &str, time_ns: Option<u64>| {
            std::fs::write(&files.changes, text).expect("written");
            let changes = channel.changes(time_ns);
            changes
                .iter()
                .map(|request| request["do"].as_u64().expect("a number"))
                .collect::<Vec<_>>()
        };
        let line = |lab: u64, at_ns: u64| format!("{lab:020} {at_ns:020} {{\"do\":{at_ns}}}\n");
        let text =
            line(1, 4) + &line(2, 0) + &line(2, 7) + &line(2, 6).replace('{', "") + &line(2, 3);
        assert_eq!(made(&text, None), [0; 0], "its time has not begun");
        assert_eq!(made(&text, Some(5)), [0]);
        assert_eq!(made(&text, Some(6)), [0; 0]);
        assert_eq!(made(&text, Some(7)), [7, 3]);
        let whole = text + &line(2, 8);
        assert_eq!(
            made(&whole[..whole.len() - 9], Some(9)),
            [0; 0],
            "a part of a line"
        );
        assert_eq!(
            made(&(whole + &line(3, 1)), Some(9)),
            [8],
            "another is of the next laboratory"
        );
        std::fs::remove_dir_all(folder).expect("removed");
    }
}
