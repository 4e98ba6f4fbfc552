//! The agent proper: process 1 of its PID namespace, which answers requests and reports its programs.

use std::fs::File;
use std::io;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use wavebed_os::process::{ChildState, News, Signals};
use wavebed_os::{clock, namespace, poll, process, unix};

use crate::confined::Rules;
use crate::files::{Files, read_pieces};
use crate::guardian::Guardian;
use crate::programs::{Piece, Programs, Sampling, SamplingPlan, Stream};
use crate::protocol::{
    Frame, Frames, Hello, MOST_PAYLOAD_BYTES, Numbered, Problem, Request, Run, VERSION, write_frame,
};
use crate::{confined, machine};

/// Without a frame for this long the other side is gone: it asks for the clock every second, and ssh gives up after 15 s.
pub const SILENCE_NS: u64 = 20_000_000_000;
/// Tells the front that the agent lives.
const ALIVE: u8 = b'.';
/// Asks the front for a guardian.
pub const GUARD: u8 = b'g';
/// Between two tries to give a program its input.
const FEED_NS: u64 = 10_000_000;
const SIGCHLD: i32 = 17;

/// How the agent ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Asked,
    Gone,
}

struct Init {
    input: File,
    output: File,
    frames: Frames,
    signals: Signals,
    /// Hung up when the front process has ended; each request is news for it.
    front: UnixStream,
    guardian: Guardian,
    is_root: bool,
    rules: Option<Rules>,
    files: Files,
    programs: Programs,
    sampling: Option<Sampling>,
    heard_ns: u64,
    end: Option<End>,
}

/// Runs the agent in namespaces that were made for it. Returns its exit status.
///
/// # Errors
/// The namespaces cannot be prepared.
pub fn run(
    front: UnixStream,
    outer_user: Option<(u32, u32)>,
    guardian: Guardian,
) -> Result<i32, Problem> {
    if let Some((user, group)) = outer_user {
        namespace::map_root(user, group)?;
    }
    process::die_with_parent()?;
    if unix::is_hung_up(&front) {
        return Err(Problem("the agent was ended".to_owned()));
    }
    // It may be stopped, and then reads nothing.
    front.set_nonblocking(true)?;
    let signals = Signals::receive(&[SIGCHLD], &[])?;
    namespace::make_private()?;
    // Refused in some containers without root; programs then see the process ids of the machine.
    let _ = namespace::fresh_proc();
    let input = stream(io::stdin().as_fd())?;
    let output = stream(io::stdout().as_fd())?;
    let is_root = outer_user.is_none();
    let mut init = Init::new(input, output, signals, front, guardian, is_root);
    while init.end.is_none() {
        init.attend()?;
    }
    Ok(i32::from(init.end == Some(End::Gone)))
}

fn stream(fd: std::os::fd::BorrowedFd<'_>) -> io::Result<File> {
    Ok(fd.try_clone_to_owned()?.into())
}

impl Init {
    /// An agent that has done nothing yet, and heard the other side just now.
    fn new(
        input: File,
        output: File,
        signals: Signals,
        front: UnixStream,
        guardian: Guardian,
        is_root: bool,
    ) -> Self {
        Self {
            input,
            output,
            frames: Frames::default(),
            signals,
            front,
            guardian,
            is_root,
            rules: None,
            files: Files::default(),
            programs: Programs::default(),
            sampling: None,
            heard_ns: clock::monotonic_ns(),
            end: None,
        }
    }

    /// Waits for the next events and handles them.
    fn attend(&mut self) -> Result<(), Problem> {
        let is_feeding = self.programs.feed();
        let silent_ns = clock::monotonic_ns().saturating_sub(self.heard_ns);
        let left_ns = SILENCE_NS.saturating_sub(silent_ns);
        let timeout_ns = if is_feeding {
            FEED_NS.min(left_ns)
        } else {
            left_ns
        };
        let mut fds = vec![self.signals.as_fd(), self.front.as_fd(), self.input.as_fd()];
        fds.extend(self.programs.pipes());
        let mut readable = vec![false; fds.len()];
        poll::wait(&fds, &mut readable, Some(timeout_ns))?;
        drop(fds);
        if readable[1] {
            self.end = Some(End::Gone);
            return Ok(());
        }
        self.pass_on(&readable[3..])?;
        if readable[0] {
            self.reap()?;
        }
        if readable[2] {
            self.hear()?;
        } else if left_ns == 0 {
            // Looked at after the time was: a request that came while this process stood still is no silence.
            self.end = Some(End::Gone);
        }
        Ok(())
    }

    /// Notes that the other side is there.
    fn heard(&mut self) {
        self.heard_ns = clock::monotonic_ns();
        tell_alive(&self.front);
    }

    fn pass_on(&mut self, readable: &[bool]) -> io::Result<()> {
        let output = &mut self.output;
        let mut written = Ok(());
        self.programs.read(readable, |pid, stream, piece| {
            let sent = match piece {
                Piece::Bytes(bytes) => send_output(output, pid, stream, bytes),
                Piece::End => write_frame(
                    output,
                    &json!({"event": "closed", "pid": pid, "stream": stream.name()}),
                    &[],
                ),
            };
            if written.is_ok() {
                written = sent;
            }
        });
        written
    }

    fn reap(&mut self) -> io::Result<()> {
        while self.signals.next().is_some() {}
        while let News::Of(pid, state) = process::news_of_children() {
            if state.is_end() && self.programs.has(pid) {
                self.report_end(pid, state)?;
            }
        }
        Ok(())
    }

    fn report_end(&mut self, pid: i32, state: ChildState) -> io::Result<()> {
        let output = &mut self.output;
        let mut written = Ok(());
        self.programs.ended(pid, |stream, bytes| {
            if written.is_ok() {
                written = send_output(output, pid, stream, bytes);
            }
        });
        written?;
        let header = json!({"event": "exit", "pid": pid, "status": state.status()});
        write_frame(output, &header, &[])
    }

    fn hear(&mut self) -> Result<(), Problem> {
        let mut buffer = vec![0; 1 << 18];
        let count = match self.input.read(&mut buffer) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            Err(_) => 0,
        };
        if count == 0 {
            self.end = Some(End::Gone);
            return Ok(());
        }
        self.heard();
        self.frames.add(&buffer[..count]);
        while self.end.is_none() {
            let next = self.frames.next_frame();
            let Some(frame) = next.map_err(|error| Problem(error.to_string()))? else {
                break;
            };
            self.answer(frame)?;
        }
        Ok(())
    }

    fn answer(&mut self, frame: Frame) -> Result<(), Problem> {
        // Before anything else: the other side estimates our clock from it.
        let (unix_ns, monotonic_ns) = machine::clocks();
        let id = frame.header["id"].as_u64().unwrap_or_default();
        let answer = match serde_json::from_value::<Numbered>(frame.header) {
            Err(error) => Err(Problem::of("a request", error)),
            Ok(Numbered {
                request: Request::Clock,
                ..
            }) => {
                let (then_unix_ns, then_ns) = machine::clocks();
                Ok(json!({
                    "unix_ns": [unix_ns, then_unix_ns],
                    "monotonic_ns": [monotonic_ns, then_ns],
                }))
            }
            Ok(Numbered { request, .. }) => self.serve(request, &frame.payload),
        };
        let mut header = answer.unwrap_or_else(|problem| json!({"error": problem.to_string()}));
        header["id"] = id.into();
        write_frame(&mut self.output, &header, &[])?;
        Ok(())
    }

    fn serve(&mut self, request: Request, payload: &[u8]) -> Result<Value, Problem> {
        let done = json!({});
        if let Request::Hello(hello) = request {
            return self.hello(hello);
        }
        if self.rules.is_none() {
            return Err(Problem::of("a request", "the first one is hello"));
        }
        match request {
            Request::Folder { path } => self.files.make_folder(&path)?,
            Request::File {
                path,
                bytes,
                executable,
                private,
            } => self.files.make_file(&path, bytes, executable, private)?,
            Request::Write { path, offset } => self.files.write(&path, offset, payload)?,
            Request::Fetch { path, tag } => return self.fetch(tag, &path),
            Request::Run(run) => return self.start(&run),
            Request::Input { pid } => self.programs.give(pid, payload)?,
            Request::Kill { pid, signal } => self.kill(pid, signal)?,
            Request::Ports => return machine::open_ports(),
            Request::Congestion { address, algorithm } => {
                if !self.is_root {
                    return Err(Problem::of("congestion control by route", "log in as root"));
                }
                (&self.front).write_all(&[GUARD])?;
                self.guardian.set_congestion_control(address, algorithm)?;
            }
            Request::Towards { address } => return machine::towards(address),
            Request::Flows { least, most } => return machine::flows(least..=most),
            Request::Sample {
                folder,
                host,
                zero_ns,
                flows_ns,
                cpu_ns,
            } => {
                self.files.make_folder(&folder)?;
                self.sampling = Some(Sampling::start(SamplingPlan {
                    folder: &folder,
                    host,
                    zero_ns,
                    flows_ns,
                    cpu_ns,
                })?);
            }
            Request::StopSampling => {
                if let Some(sampling) = self.sampling.take() {
                    sampling.stop()?;
                }
            }
            Request::Stop => self.end = Some(End::Asked),
            Request::Hello(_) | Request::Clock => {}
        }
        Ok(done)
    }

    fn hello(&mut self, hello: Hello) -> Result<Value, Problem> {
        if hello.version != VERSION {
            return Err(Problem(format!(
                "version {} of the protocol: this agent has {VERSION}",
                hello.version
            )));
        }
        if self.rules.is_some() {
            return Err(Problem::of("hello", "was said before"));
        }
        confined::build(&hello.memory, &hello.read)?;
        let mut names = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
        for (name, address) in &hello.names {
            names.insert_str(0, &format!("{address} {name}\n"));
        }
        namespace::replace_file("/etc/hosts", &names)?;
        let mut memory = hello.memory;
        memory.push(PathBuf::from("/tmp"));
        self.files = Files::new(memory);
        self.rules = Some(Rules::new(self.is_root, hello.read));
        Ok(machine::description(self.is_root))
    }

    fn start(&mut self, run: &Run) -> Result<Value, Problem> {
        let Some(rules) = &self.rules else {
            return Err(Problem::of("a request", "the first one is hello"));
        };
        if let (Some(user), Some(needs)) = (rules.other_user(), &run.confine) {
            for folder in &needs.write {
                self.files.make_folder(folder)?;
                self.files.hand_over(folder, user)?;
            }
        }
        Ok(json!({"pid": self.programs.start(run, rules)?}))
    }

    fn kill(&self, pid: i32, signal: i32) -> Result<(), Problem> {
        if !self.programs.has(pid) {
            return Err(Problem::of(pid, "is no running program"));
        }
        process::kill(-pid, signal)
            .map_err(|error| Problem::of(format_args!("signal {signal}"), error))
    }

    fn fetch(&mut self, tag: u64, folder: &Path) -> Result<Value, Problem> {
        let files = self.files.changed(folder)?;
        for path in &files {
            let name = path
                .strip_prefix(folder)
                .unwrap_or(path)
                .to_string_lossy()
                .into_owned();
            let bytes = std::fs::symlink_metadata(path)?.len();
            let header = json!({"event": "file", "tag": tag, "name": name, "bytes": bytes});
            write_frame(&mut self.output, &header, &[])?;
            let (output, front) = (&mut self.output, &self.front);
            read_pieces(path, MOST_PAYLOAD_BYTES / 4, |offset, piece| {
                let header = json!({"event": "piece", "tag": tag, "name": name, "offset": offset});
                write_frame(output, &header, piece)?;
                // The other side reads, however slow the way to it is.
                tell_alive(front);
                Ok(())
            })?;
        }
        self.heard();
        Ok(json!({"files": files.len()}))
    }
}

/// Tells the front that the agent lives. It may be stopped, and then reads nothing.
fn tell_alive(mut front: &UnixStream) {
    let _ = front.write(&[ALIVE]);
}

fn send_output(output: &mut File, pid: i32, stream: Stream, bytes: &[u8]) -> io::Result<()> {
    let header = json!({"event": "output", "pid": pid, "stream": stream.name()});
    write_frame(output, &header, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::tests::folder;
    use crate::guardian;

    /// A signal that nobody sends here: signals of children belong to other tests.
    const UNUSED: i32 = 12;

    struct Others {
        input: File,
        output: File,
        front: UnixStream,
    }

    fn agent() -> (Init, Others) {
        let pipe = || {
            let (reader, writer) = io::pipe().expect("a pipe");
            (
                stream(reader.as_fd()).expect("a copy"),
                stream(writer.as_fd()).expect("a copy"),
            )
        };
        let ((input, requests), (answers, output)) = (pipe(), pipe());
        let (front, ours) = unix::stream_pair().expect("a pair");
        front.set_nonblocking(true).expect("set");
        let signals = Signals::receive(&[UNUSED], &[]).expect("signals");
        let (guardian, _) = guardian::pair().expect("a pair");
        let init = Init::new(input, output, signals, ours, guardian, false);
        let others = Others {
            input: requests,
            output: answers,
            front,
        };
        (init, others)
    }

    #[test]
    fn a_request_that_waited_while_the_agent_stood_still_is_no_silence() {
        let (mut init, mut others) = agent();
        let long_ago_ns = clock::monotonic_ns().saturating_sub(SILENCE_NS);
        init.heard_ns = long_ago_ns;
        write_frame(&mut others.input, &json!({"id": 1, "do": "clock"}), &[]).expect("asked");
        init.attend().expect("answered");
        assert_eq!(init.end, None);
        assert!(init.heard_ns > long_ago_ns);
        init.heard_ns = long_ago_ns;
        init.attend().expect("silence");
        assert_eq!(init.end, Some(End::Gone));
    }

    #[test]
    fn each_piece_of_a_fetch_that_is_read_tells_that_both_sides_are_there() {
        let folder = folder("slow");
        std::fs::write(folder.join("series.csv"), vec![7; MOST_PAYLOAD_BYTES]).expect("a file");
        let (mut init, mut others) = agent();
        init.files = Files::new(vec![folder.clone()]);
        let long_ago_ns = init.heard_ns;
        let reader = std::thread::spawn(move || {
            let read = io::copy(&mut others.output, &mut io::sink());
            (read.expect("read"), others.front)
        });
        init.fetch(1, &folder).expect("fetched");
        std::fs::remove_dir_all(&folder).expect("removed");
        assert!(init.heard_ns > long_ago_ns);
        drop(init);
        let (read, mut front) = reader.join().expect("no panic");
        assert!(read > MOST_PAYLOAD_BYTES as u64);
        let mut told = Vec::new();
        front.read_to_end(&mut told).expect("told");
        assert_eq!(told, [ALIVE; 5], "four pieces and the end");
    }
}
