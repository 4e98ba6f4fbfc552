//! The control socket's language: one JSON object per line, each way.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use serde::Deserialize;
use serde_json::Value;
use wavebed_os::unix;

use crate::confine::Needs;
use crate::engine::Setting;
use crate::lab_file::ProcessFile;

/// A line may be this long: a pattern of a few million rows.
const LONGEST_LINE: usize = 256 << 20;

/// A demand as it stands on its line.
#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
enum Line {
    Show,
    Begin,
    Set {
        link: Option<String>,
        #[serde(flatten)]
        setting: Setting,
    },
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

/// What somebody wants of a running laboratory.
#[derive(Debug)]
pub enum Demand {
    /// Counters and addresses.
    Show,
    /// Let time begin.
    Begin,
    /// A live change.
    Set {
        /// The link; every one that takes the change without.
        link: Option<String>,
        /// The change.
        setting: Setting,
    },
    /// Start a program.
    Run {
        /// Where and what.
        process: ProcessFile,
        /// Variables on top of the laboratory's own.
        environment: Vec<(String, String)>,
        /// Working directory.
        directory: Option<String>,
        /// What it needs, if it is to be confined.
        needs: Option<Needs>,
        /// Standard input, output and error.
        stdio: [Option<OwnedFd>; 3],
    },
    /// A signal to a program that was started here, and its process group.
    Kill {
        /// Its number.
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
            closed: false,
        }
    }

    /// Whether the other end is gone.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        self.closed
    }

    /// Takes what has arrived and returns the demands that are complete.
    pub fn receive(&mut self) -> Vec<Result<Demand, String>> {
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
        let mut demands = Vec::new();
        let mut start = 0;
        while let Some(length) = self.buffer[start..].iter().position(|byte| *byte == b'\n') {
            let line = self.buffer[start..start + length].to_vec();
            start += length + 1;
            demands.push(self.understand(&line));
        }
        self.buffer.drain(..start);
        demands
    }

    fn understand(&mut self, line: &[u8]) -> Result<Demand, String> {
        let line =
            serde_json::from_slice(line).map_err(|error| format!("this is no demand: {error}"))?;
        Ok(match line {
            Line::Show => Demand::Show,
            Line::Begin => Demand::Begin,
            Line::Set { link, setting } => Demand::Set { link, setting },
            Line::Run {
                host,
                argv,
                env,
                cwd,
                confine,
            } => Demand::Run {
                process: check(host, argv, confine.is_some())?,
                environment: env.into_iter().collect(),
                directory: cwd,
                needs: confine,
                stdio: [(); 3].map(|()| self.descriptors.pop_front()),
            },
            Line::Kill { pid, signal } => Demand::Kill { pid, signal },
            Line::Stop => Demand::Stop,
        })
    }

    /// Sends an answer. Whoever does not read its answers is let go.
    pub fn answer(&mut self, answer: &Value) {
        let mut line = answer.to_string().into_bytes();
        line.push(b'\n');
        self.closed |= self.stream.write_all(&line).is_err();
    }
}

fn check(host: String, argv: Vec<String>, confined: bool) -> Result<ProcessFile, String> {
    if argv.first().is_none_or(String::is_empty) {
        return Err("run: argv: a program is wanted".to_owned());
    }
    Ok(ProcessFile {
        host,
        argv,
        confined,
    })
}
