//! The protocol of the control socket: one JSON object per line in each direction.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::io::Write;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use serde::Deserialize;
use serde_json::Value;
use wavebed_os::{clock, unix};

use crate::engine::Setting;
use crate::lab_file::{Needs, ProcessFile};
use crate::timeline::Action;

/// Longest line: a pattern of a few million rows.
const LONGEST_LINE: usize = 256 << 20;

/// A request as parsed from its line.
#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
enum Line {
    Show,
    Undelivered,
    Ports {
        host: String,
    },
    Network {
        host: String,
    },
    Maps,
    Watch {
        every_ms: u64,
    },
    Begin,
    Set {
        link: Option<String>,
        #[serde(flatten)]
        setting: Setting,
    },
    Timeline(Action),
    Rebind,
    Run {
        host: String,
        argv: Vec<String>,
        #[serde(default)]
        env: BTreeMap<String, String>,
        cwd: Option<String>,
        confine: Option<Needs>,
    },
    Kill {
        pid: i32,
        signal: i32,
    },
    Stop,
}

/// A request to a running laboratory.
#[derive(Debug)]
pub enum ControlRequest {
    /// Return counters and addresses.
    Show,
    /// Return what is on its way from program to program.
    Undelivered,
    /// Return the open ports of a host.
    Ports {
        /// Its name.
        host: String,
    },
    /// Return the descriptor of init that leads other programs to the network namespace of a host.
    Network {
        /// Its name.
        host: String,
    },
    /// Return the maps of the scenes.
    Maps,
    /// Send samples of the counters from now on.
    Watch {
        /// Milliseconds between two samples.
        every_ms: u64,
    },
    /// Start the laboratory's time.
    Begin,
    /// Change links while they run.
    Set {
        /// The link; null for every link that takes the change.
        link: Option<String>,
        /// The change.
        setting: Setting,
    },
    /// Control the timeline.
    Timeline(Action),
    /// Give the client's flows other source ports.
    Rebind,
    /// Start a program.
    Run {
        /// Its host and arguments.
        process: ProcessFile,
        /// Variables on top of the laboratory's own.
        environment: Vec<(String, String)>,
        /// Working directory.
        directory: Option<String>,
        /// Its needs, if it is to be confined.
        needs: Option<Needs>,
        /// Standard input, output and error.
        stdio: [Option<OwnedFd>; 3],
    },
    /// Send a signal to the process group of a program that was started here.
    Kill {
        /// Its process id.
        pid: i32,
        /// The signal's number.
        signal: i32,
    },
    /// End the laboratory.
    Stop,
}

/// One connection to the control socket.
pub struct Connection {
    stream: UnixStream,
    buffer: Vec<u8>,
    descriptors: VecDeque<OwnedFd>,
    /// The rest of a sample for which the socket had no room.
    unsent: Vec<u8>,
    watch: Option<Watch>,
    closed: bool,
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Connection {
    /// A connection over `stream`, which does not block.
    #[must_use]
    pub fn new(stream: UnixStream) -> Self {
        Self {
            stream,
            buffer: Vec::new(),
            descriptors: VecDeque::new(),
            unsent: Vec::new(),
            watch: None,
            closed: false,
        }
    }

    /// Whether the other end has closed.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        self.closed
    }

    /// Reads from the socket and returns the complete requests.
    pub fn receive(&mut self) -> Vec<Result<ControlRequest, String>> {
        let mut chunk = vec![0; 1 << 16];
        loop {
            let mut descriptors = Vec::new();
            match unix::receive(self.stream.as_fd(), &mut chunk, &mut descriptors) {
                Ok(0) => {
                    self.closed = true;
                    break;
                }
                Ok(count) => {
                    self.descriptors.extend(descriptors);
                    self.buffer.extend_from_slice(&chunk[..count]);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.closed |= error.kind() != io::ErrorKind::WouldBlock;
                    break;
                }
            }
        }
        self.closed |= self.buffer.len() > LONGEST_LINE;
        let mut requests = Vec::new();
        let mut start = 0;
        while let Some(length) = self.buffer[start..].iter().position(|byte| *byte == b'\n') {
            let line = self.buffer[start..start + length].to_vec();
            start += length + 1;
            requests.push(self.parse(&line));
        }
        self.buffer.drain(..start);
        requests
    }

    fn parse(&mut self, line: &[u8]) -> Result<ControlRequest, String> {
        let line =
            serde_json::from_slice(line).map_err(|error| format!("invalid request: {error}"))?;
        Ok(match line {
            Line::Show => ControlRequest::Show,
            Line::Undelivered => ControlRequest::Undelivered,
            Line::Ports { host } => ControlRequest::Ports { host },
            Line::Network { host } => ControlRequest::Network { host },
            Line::Maps => ControlRequest::Maps,
            Line::Watch { every_ms } if EVERY_MS.contains(&every_ms) => {
                ControlRequest::Watch { every_ms }
            }
            Line::Watch { every_ms } => {
                let (least, most) = (EVERY_MS.start(), EVERY_MS.end());
                return Err(format!(
                    "every_ms: {every_ms} is out of range: write a whole number from {least} to {most}"
                ));
            }
            Line::Begin => ControlRequest::Begin,
            Line::Set { link, setting } => ControlRequest::Set { link, setting },
            Line::Timeline(action) => ControlRequest::Timeline(action),
            Line::Rebind => ControlRequest::Rebind,
            Line::Run {
                host,
                argv,
                env,
                cwd,
                confine,
            } => ControlRequest::Run {
                process: check(host, argv, confine.is_some())?,
                environment: env.into_iter().collect(),
                directory: cwd,
                needs: confine,
                stdio: [(); 3].map(|()| self.descriptors.pop_front()),
            },
            Line::Kill { pid, signal } => ControlRequest::Kill { pid, signal },
            Line::Stop => ControlRequest::Stop,
        })
    }

    /// Sends an answer. A connection whose peer does not read its answers is closed.
    pub fn answer(&mut self, answer: &Value) {
        let mut line = std::mem::take(&mut self.unsent);
        line.extend(answer.to_string().into_bytes());
        line.push(b'\n');
        self.closed |= self.stream.write_all(&line).is_err();
    }

    /// Sends samples from now on; they replace the samples of an earlier request.
    pub fn start_watch(&mut self, watch: Watch) {
        self.watch = Some(watch);
    }

    /// When the next sample is due.
    #[must_use]
    pub fn sample_due_ns(&self) -> Option<u64> {
        let watch = self.watch.as_ref().filter(|_| !self.closed)?;
        Some(watch.due_ns())
    }

    /// Takes the sample that is due at `now_ns`. Returns whether one was.
    pub fn take_sample(&mut self, now_ns: u64) -> bool {
        let watch = self.watch.as_mut().filter(|_| !self.closed);
        watch.is_some_and(|watch| watch.take(now_ns))
    }

    /// Sends a sample, with the number of those lost before. Without room for the rest of an earlier one, or without a
    /// sample, it is lost: a peer that reads slowly delays nobody.
    pub fn send_sample(&mut self, sample: Option<&Value>) {
        self.send_rest();
        let Some(watch) = &mut self.watch else {
            return;
        };
        let Some(Value::Object(sample)) = sample.filter(|_| self.unsent.is_empty()) else {
            watch.lose();
            return;
        };
        let mut sample = sample.clone();
        sample.insert("lost".to_owned(), watch.lost().into());
        self.unsent = Value::Object(sample).to_string().into_bytes();
        self.unsent.push(b'\n');
        self.send_rest();
    }

    /// Sends as much of an earlier sample as there is room for.
    fn send_rest(&mut self) {
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(count) => drop(self.unsent.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.closed |= error.kind() != io::ErrorKind::WouldBlock;
                    return;
                }
            }
        }
    }
}

fn check(host: String, argv: Vec<String>, confined: bool) -> Result<ProcessFile, String> {
    if argv.first().is_none_or(String::is_empty) {
        return Err("run: argv: must name a program".to_owned());
    }
    Ok(ProcessFile {
        host,
        argv,
        confined,
    })
}
/// When the next sample of any connection is due.
pub fn sample_due_ns(connections: &BTreeMap<u64, Connection>) -> Option<u64> {
    let connections = connections.values();
    connections.filter_map(Connection::sample_due_ns).min()
}

/// Sends the samples that are due: one question to the engine serves all connections.
pub fn send_samples(
    connections: &mut BTreeMap<u64, Connection>,
    sample: impl FnOnce() -> Option<Value>,
) {
    let now_ns = clock::monotonic_ns();
    let due: Vec<u64> = connections
        .iter_mut()
        .filter_map(|(id, connection)| connection.take_sample(now_ns).then_some(*id))
        .collect();
    if due.is_empty() {
        return;
    }
    let sample = sample();
    for id in due {
        if let Some(connection) = connections.get_mut(&id) {
            connection.send_sample(sample.as_ref());
        }
    }
}

/// Milliseconds between two samples. A shorter time would show the engine's own turns.
pub const EVERY_MS: RangeInclusive<u64> = 10..=10_000;

/// The samples of one connection. They are due at multiples of a period, whatever delays come between.
#[derive(Debug, PartialEq, Eq)]
pub struct Watch {
    every_ns: u64,
    due_ns: u64,
    lost: u64,
}

impl Watch {
    /// Samples from `now_ns` on.
    pub const fn new(every_ms: u64, now_ns: u64) -> Self {
        Self {
            every_ns: every_ms * 1_000_000,
            due_ns: now_ns,
            lost: 0,
        }
    }

    /// When the next one is due.
    pub const fn due_ns(&self) -> u64 {
        self.due_ns
    }

    /// Takes the sample that is due at `now_ns`, and skips those that are overdue by a period or more. Returns whether
    /// one was due.
    pub const fn take(&mut self, now_ns: u64) -> bool {
        if now_ns < self.due_ns {
            return false;
        }
        let missed = (now_ns - self.due_ns) / self.every_ns;
        self.lost += missed;
        self.due_ns += (missed + 1) * self.every_ns;
        true
    }

    /// Counts a sample that could not be taken or sent.
    pub const fn lose(&mut self) {
        self.lost += 1;
    }

    /// Samples lost so far.
    pub const fn lost(&self) -> u64 {
        self.lost
    }
}
