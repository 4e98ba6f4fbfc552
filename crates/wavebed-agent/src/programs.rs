//! The programs of a trial: their start, their streams, their end.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io;
use std::io::{ErrorKind, Read, Seek, Write};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::pipe::{PipeFlags, pipe_with};
use wavebed_os::namespace::{Child, Forked, Isolation, Notice};
use wavebed_os::process::Spawn;
use wavebed_os::sock_diag::SockDiag;
use wavebed_os::{namespace, poll, process, unix};
use wavebed_path::SampleSetup;
use wavebed_path::sampler::Sampler;

use crate::confined::Rules;
use crate::protocol::{Output, Problem, Run};

/// Environment variables that every program has, beside those whose names begin with `LC_`.
const HARMLESS: [&str; 5] = ["LANG", "LANGUAGE", "PATH", "TERM", "TZ"];
/// Where programs of the system are, whatever ssh sets.
pub(crate) const SYSTEM_FOLDERS: &str =
    "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";
/// Folder for temporary files of programs.
const TEMPORARY: &str = "/tmp";
/// Most bytes for the standard input of a program that it has not read.
const MOST_WAITING_BYTES: usize = 16 << 20;

/// Standard output or standard error, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Stream {
    /// Its name in frames.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// A running program.
#[derive(Debug, Default)]
struct Program {
    /// Outputs that are kept until its end.
    kept: BTreeMap<Stream, File>,
    /// Its standard input, and what it has not taken yet; `true`: to be closed after that.
    input: Option<(File, VecDeque<u8>, bool)>,
}

/// The programs of a trial, and their streams.
#[derive(Debug, Default)]
pub struct Programs {
    running: BTreeMap<i32, Program>,
    /// Pipes of programs and their descendants, which may outlive them.
    live: Vec<(i32, Stream, File)>,
}

/// What has become of a pipe.
pub enum Piece {
    /// These bytes came.
    Bytes(Vec<u8>),
    /// Its last writer has closed it.
    End,
}

impl Programs {
    /// Starts a program and returns its number.
    ///
    /// # Errors
    /// There is none of this name, or it cannot be confined.
    pub fn start(&mut self, run: &Run, rules: &Rules) -> Result<i32, Problem> {
        let mut argv = run.argv.clone();
        let program = Path::new(argv.first().ok_or(Problem("argv: is empty".to_owned()))?);
        // It may be in another folder here.
        if !program.exists()
            && let Some(name) = program.file_name()
        {
            argv[0] = name.to_string_lossy().into_owned();
        }
        let environment = environment(run);
        let confinement = run.confine.as_ref().map(|needs| rules.confinement(needs));
        let (input, ours) = if run.input {
            let (theirs, ours) = pipe_with(PipeFlags::CLOEXEC).map_err(io::Error::from)?;
            (theirs, Some(File::from(ours)))
        } else {
            (OwnedFd::from(File::open("/dev/null")?), None)
        };
        if let Some(ours) = &ours {
            rustix::io::ioctl_fionbio(ours, true).map_err(io::Error::from)?;
        }
        let (output, output_ours) = output_of(run.stdout)?;
        let (error, error_ours) = output_of(run.stderr)?;
        let here = run.confine.as_ref().map(|_| TEMPORARY.into());
        let what = Spawn {
            argv: &argv,
            environment: &environment,
            directory: run.cwd.clone().or(here),
            network: None,
            hostname: "",
            stdio: [
                Some(input.as_fd()),
                Some(output.as_fd()),
                Some(error.as_fd()),
            ],
            terminal: None,
            confinement: confinement.as_ref(),
        };
        let pid = process::spawn(&what)?;
        let mut program = Program {
            kept: BTreeMap::new(),
            input: ours.map(|file| (file, VecDeque::new(), false)),
        };
        for (stream, ours) in [(Stream::Stdout, output_ours), (Stream::Stderr, error_ours)] {
            match ours {
                Ours::Nothing => {}
                Ours::Kept(file) => {
                    program.kept.insert(stream, file);
                }
                Ours::Pipe(file) => self.live.push((pid, stream, file)),
            }
        }
        self.running.insert(pid, program);
        Ok(pid)
    }

    /// Whether this program runs.
    #[must_use]
    pub fn has(&self, pid: i32) -> bool {
        self.running.contains_key(&pid)
    }

    /// Takes bytes for the standard input of a program; none: closes it.
    ///
    /// # Errors
    /// It has too many unread bytes.
    pub fn give(&mut self, pid: i32, bytes: &[u8]) -> Result<(), Problem> {
        // A program that has ended wants no input.
        let Some((_, waiting, close)) = self.running.get_mut(&pid).and_then(|it| it.input.as_mut())
        else {
            return Ok(());
        };
        if waiting.len() + bytes.len() > MOST_WAITING_BYTES {
            return Err(Problem::of(
                "standard input",
                "the program does not read it",
            ));
        }
        waiting.extend(bytes);
        *close |= bytes.is_empty();
        Ok(())
    }

    /// Writes what programs take of their input. Returns whether bytes are left.
    pub fn feed(&mut self) -> bool {
        let mut left = false;
        for program in self.running.values_mut() {
            let Some((file, waiting, close)) = &mut program.input else {
                continue;
            };
            let written = write_some(file, waiting);
            if written.is_err() || (waiting.is_empty() && *close) {
                program.input = None;
            } else {
                left |= !waiting.is_empty();
            }
        }
        left
    }

    /// The descriptors of all pipes, in the order of [`Programs::read`].
    #[must_use]
    pub fn pipes(&self) -> Vec<BorrowedFd<'_>> {
        self.live.iter().map(|(_, _, file)| file.as_fd()).collect()
    }

    /// Reads once from each pipe that is `readable`.
    pub fn read(&mut self, readable: &[bool], mut each: impl FnMut(i32, Stream, &Piece)) {
        let mut flags = readable.iter();
        self.live.retain_mut(|(pid, stream, file)| {
            if flags.next() != Some(&true) {
                return true;
            }
            match read_once(file) {
                None => true,
                Some(piece) => {
                    each(*pid, *stream, &piece);
                    matches!(piece, Piece::Bytes(_))
                }
            }
        });
    }

    /// Reads what a program that has ended left in its pipes, and what was kept.
    pub fn ended(&mut self, pid: i32, mut each: impl FnMut(Stream, &[u8])) {
        for (_, stream, file) in self.live.iter_mut().filter(|(of, ..)| *of == pid) {
            while let Some(Piece::Bytes(bytes)) = read_once(file) {
                each(*stream, &bytes);
            }
        }
        let Some(program) = self.running.remove(&pid) else {
            return;
        };
        for (stream, mut file) in program.kept {
            let mut buffer = vec![0; 1 << 16];
            let _ = file.rewind();
            while let Ok(count @ 1..) = file.read(&mut buffer) {
                each(stream, &buffer[..count]);
            }
        }
    }
}

/// The agent's side of an output stream.
enum Ours {
    Nothing,
    Kept(File),
    Pipe(File),
}

fn output_of(kind: Output) -> Result<(OwnedFd, Ours), Problem> {
    Ok(match kind {
        Output::Null => (
            File::options().write(true).open("/dev/null")?.into(),
            Ours::Nothing,
        ),
        Output::AtEnd => {
            let file = memfd_create(c"output", MemfdFlags::CLOEXEC).map_err(io::Error::from)?;
            let file = File::from(file);
            (file.try_clone()?.into(), Ours::Kept(file))
        }
        Output::Live => {
            let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC).map_err(io::Error::from)?;
            rustix::io::ioctl_fionbio(&ours, true).map_err(io::Error::from)?;
            (theirs, Ours::Pipe(ours.into()))
        }
    })
}

/// Reads what is there, once; `None`: nothing yet.
fn read_once(file: &mut File) -> Option<Piece> {
    let mut buffer = vec![0; 1 << 16];
    match file.read(&mut buffer) {
        Ok(0) => Some(Piece::End),
        Ok(count) => {
            buffer.truncate(count);
            Some(Piece::Bytes(buffer))
        }
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
            None
        }
        Err(_) => Some(Piece::End),
    }
}

fn write_some(file: &mut File, waiting: &mut VecDeque<u8>) -> io::Result<()> {
    while !waiting.is_empty() {
        match file.write(waiting.as_slices().0) {
            Ok(count) => drop(waiting.drain(..count)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn environment(run: &Run) -> Vec<(String, String)> {
    let mut variables: BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(key, _)| HARMLESS.contains(&key.as_str()) || key.starts_with("LC_"))
        .collect();
    variables
        .entry("PATH".to_owned())
        .and_modify(|path| *path = format!("{path}:{SYSTEM_FOLDERS}"))
        .or_insert_with(|| SYSTEM_FOLDERS.to_owned());
    for key in ["HOME", "TMPDIR"] {
        variables.insert(key.to_owned(), TEMPORARY.to_owned());
    }
    variables.extend(run.env.iter().cloned());
    variables.into_iter().collect()
}

/// A process that samples until it is stopped or the agent ends.
#[derive(Debug)]
pub struct Sampling {
    child: Child,
    stop: OwnedFd,
}

/// What is sampled.
pub struct SamplingPlan<'a> {
    /// Folder of `flows.csv` and `cpu.csv`, which exists.
    pub folder: &'a Path,
    /// Name of this host.
    pub host: String,
    /// Time zero on `CLOCK_MONOTONIC`.
    pub zero_ns: u64,
    /// Between two samples of the connections, nanoseconds.
    pub flows_ns: u64,
    /// Between two samples of the processors, nanoseconds.
    pub cpu_ns: u64,
}

impl Sampling {
    /// Starts to sample.
    ///
    /// # Errors
    /// The process cannot be made, or an interval is shorter than a millisecond.
    pub fn start(plan: SamplingPlan<'_>) -> Result<Self, Problem> {
        if plan.flows_ns.min(plan.cpu_ns) < 1_000_000 {
            return Err(Problem::of(
                "an interval of samples",
                "is shorter than a millisecond",
            ));
        }
        let (ours, theirs) = unix::stream_pair()?;
        match namespace::fork(Isolation::None, Notice::DescriptorOnly)? {
            Forked::Parent(child) => {
                drop(theirs);
                Ok(Self {
                    child,
                    stop: ours.into(),
                })
            }
            Forked::Child => {
                drop(ours);
                let _ = process::die_with_parent();
                let stop: OwnedFd = theirs.into();
                // The inputs of programs are open here too: they would never end.
                let _ = process::keep_only(stop.as_fd());
                std::process::exit(sample(plan, &stop));
            }
        }
    }

    /// Ends it, with its files complete.
    ///
    /// # Errors
    /// It could not read the kernel or write its files.
    pub fn stop(self) -> Result<(), Problem> {
        drop(self.stop);
        let state = process::wait_for(self.child.pid)?;
        match state.exit_code() {
            0 => Ok(()),
            _ => Err(Problem::of(
                "samples of connections and processors",
                "could not be taken or written",
            )),
        }
    }
}

fn sample(plan: SamplingPlan<'_>, stop: &OwnedFd) -> i32 {
    let start = || -> Result<Sampler, String> {
        let sockets = SockDiag::open().map_err(|error| error.to_string())?;
        let setup = SampleSetup {
            flows_ns: plan.flows_ns,
            cpu_ns: plan.cpu_ns,
            hosts: vec![(plan.host, sockets)],
        };
        Sampler::start(setup, plan.folder, plan.zero_ns).map_err(|error| error.to_string())
    };
    let Ok(sampler) = start() else {
        return 1;
    };
    let mut readable = [false];
    while !unix::is_hung_up(stop) {
        let _ = poll::wait(&[stop.as_fd()], &mut readable, None);
    }
    i32::from(sampler.finish().1.is_some())
}
