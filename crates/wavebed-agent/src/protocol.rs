//! The protocol of the agent: frames with a JSON header, the requests that it answers, and its errors.
//! docs/development/agent-protocol.md has the list.

use std::fmt::Display;
use std::io;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;

/// The largest header, bytes: a command line with its environment.
pub const MOST_HEADER_BYTES: usize = 1 << 20;
/// The largest payload, bytes.
pub const MOST_PAYLOAD_BYTES: usize = 1 << 20;
const LENGTHS_BYTES: usize = 8;

/// A frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// A JSON object.
    pub header: Value,
    /// Bytes beside it.
    pub payload: Vec<u8>,
}

/// The stream is no sequence of frames.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum FrameError {
    /// A length is beyond its limit.
    #[error("a frame has a {part} of {bytes} bytes: at most {most}")]
    TooLong {
        /// `header` or `payload`.
        part: &'static str,
        /// Its length.
        bytes: usize,
        /// The limit.
        most: usize,
    },
    /// The header is no JSON object.
    #[error("the header of a frame is no JSON object")]
    Header,
}

/// Cuts a stream into frames, whatever pieces it arrives in.
#[derive(Debug, Default)]
pub struct Frames {
    bytes: Vec<u8>,
}

impl Frames {
    /// Adds bytes of the stream.
    pub fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next frame; `None` until all of it is there.
    ///
    /// # Errors
    /// The stream is no sequence of frames; nothing after that can be read.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        let Some((header_bytes, payload_bytes)) = self.lengths()? else {
            return Ok(None);
        };
        let end = LENGTHS_BYTES + header_bytes + payload_bytes;
        if self.bytes.len() < end {
            return Ok(None);
        }
        let after_header = LENGTHS_BYTES + header_bytes;
        let header: Value = serde_json::from_slice(&self.bytes[LENGTHS_BYTES..after_header])
            .map_err(|_| FrameError::Header)?;
        if !header.is_object() {
            return Err(FrameError::Header);
        }
        let payload = self.bytes[after_header..end].to_vec();
        self.bytes.drain(..end);
        Ok(Some(Frame { header, payload }))
    }

    fn lengths(&self) -> Result<Option<(usize, usize)>, FrameError> {
        let Some(head) = self.bytes.first_chunk::<LENGTHS_BYTES>() else {
            return Ok(None);
        };
        let length = |at: usize| {
            u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]) as usize
        };
        Ok(Some((
            checked("header", length(0), MOST_HEADER_BYTES)?,
            checked("payload", length(4), MOST_PAYLOAD_BYTES)?,
        )))
    }
}

fn checked(part: &'static str, bytes: usize, most: usize) -> Result<usize, FrameError> {
    if bytes > most {
        return Err(FrameError::TooLong { part, bytes, most });
    }
    Ok(bytes)
}

/// Writes a frame.
///
/// # Errors
/// The stream is closed, or a part is beyond its limit.
pub fn write_frame(stream: &mut impl Write, header: &Value, payload: &[u8]) -> io::Result<()> {
    let header = header.to_string();
    let too_long = || io::Error::from(io::ErrorKind::InvalidInput);
    if header.len() > MOST_HEADER_BYTES || payload.len() > MOST_PAYLOAD_BYTES {
        return Err(too_long());
    }
    let header_bytes = u32::try_from(header.len()).map_err(|_| too_long())?;
    let payload_bytes = u32::try_from(payload.len()).map_err(|_| too_long())?;
    let mut all = Vec::with_capacity(LENGTHS_BYTES + header.len() + payload.len());
    all.extend_from_slice(&header_bytes.to_le_bytes());
    all.extend_from_slice(&payload_bytes.to_le_bytes());
    all.extend_from_slice(header.as_bytes());
    all.extend_from_slice(payload);
    stream.write_all(&all)?;
    stream.flush()
}

/// The version of the protocol.
pub const VERSION: u32 = 1;

/// A request with the number that its answer has.
#[derive(Debug, Deserialize)]
pub struct Numbered {
    /// Repeated in the answer.
    pub id: u64,
    /// What is asked.
    #[serde(flatten)]
    pub request: Request,
}

/// What is asked.
#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Request {
    /// The first request: prepares the file system of the programs.
    Hello(Hello),
    /// The system's clock and `CLOCK_MONOTONIC`.
    Clock,
    /// Makes a folder and those above it.
    Folder {
        /// Absolute, in one of the folders in memory.
        path: PathBuf,
    },
    /// Makes a file of a size, of zeros.
    File {
        /// Absolute, in one of the folders in memory.
        path: PathBuf,
        /// Its size.
        bytes: u64,
        /// Whether it can be run.
        #[serde(default)]
        executable: bool,
        /// Whether only its owner can read it.
        #[serde(default)]
        private: bool,
    },
    /// Writes the payload into a file.
    Write {
        /// The file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
    },
    /// Sends the files of a folder that were made or changed here.
    Fetch {
        /// Absolute, in one of the folders in memory.
        path: PathBuf,
        /// Repeated with each file.
        #[serde(default)]
        tag: u64,
    },
    /// Starts a program.
    Run(Run),
    /// Gives the payload to the standard input of a program; an empty one closes it.
    Input {
        /// Its number.
        pid: i32,
    },
    /// Sends a signal to a program and its children.
    Kill {
        /// Its number.
        pid: i32,
        /// The signal's number.
        signal: i32,
    },
    /// Asks for the ports at which programs listen by TCP, or which UDP sockets without a peer have.
    Ports,
    /// Asks for the interface towards a host, its address and its counters.
    Towards {
        /// The other host.
        address: IpAddr,
    },
    /// Asks for the established TCP connections with a port of a range.
    Flows {
        /// The first port.
        least: u16,
        /// The last one.
        most: u16,
    },
    /// Gives the host's new connections to another host a congestion control until the agent ends.
    Congestion {
        /// The other host.
        address: Ipv4Addr,
        /// Its name in the kernel.
        algorithm: String,
    },
    /// Samples connections and processors into a folder until [`Request::StopSampling`].
    Sample {
        /// Where `flows.csv` and `cpu.csv` go.
        folder: PathBuf,
        /// Name of this host in them.
        host: String,
        /// Time zero on this machine's `CLOCK_MONOTONIC`.
        zero_ns: u64,
        /// Between two samples of the connections.
        flows_ns: u64,
        /// Between two samples of the processors.
        cpu_ns: u64,
    },
    /// Ends the sampling, with its files complete.
    StopSampling,
    /// Ends all programs and the agent.
    Stop,
}

/// The first request.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    /// [`VERSION`] of the other side.
    pub version: u32,
    /// Folders that programs find in memory, whatever is on the disk.
    pub memory: Vec<PathBuf>,
    /// Addresses by the names of hosts.
    pub names: Vec<(String, IpAddr)>,
    /// Paths that stay as on the machine, also in folders in memory, and that confined programs may read.
    #[serde(default)]
    pub read: Vec<PathBuf>,
}

/// A program to start.
#[derive(Debug, Deserialize)]
pub struct Run {
    /// Program and arguments. If no file is at the program's path, the agent searches its name in `PATH`.
    pub argv: Vec<String>,
    /// Its variables, beside a few of the agent's.
    #[serde(default)]
    pub env: Vec<(String, String)>,
    /// Its working folder.
    #[serde(default)]
    pub cwd: Option<PathBuf>,
    /// Its exceptions, if it is confined.
    #[serde(default)]
    pub confine: Option<Needs>,
    /// Whether its standard input is given by [`Request::Input`].
    #[serde(default)]
    pub input: bool,
    /// Its standard output.
    #[serde(default)]
    pub stdout: Output,
    /// Its standard error.
    #[serde(default)]
    pub stderr: Output,
}

/// Where an output stream of a program goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Output {
    /// Nowhere.
    #[default]
    Null,
    /// To the other side, as it is written.
    Live,
    /// To the other side when the program has ended, so that no trial carries it.
    AtEnd,
}

/// The exceptions of a confined program.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Needs {
    /// Further paths that it reads.
    pub read: Vec<PathBuf>,
    /// Folders that it writes to.
    pub write: Vec<PathBuf>,
    /// Its capabilities.
    pub capabilities: Vec<Capability>,
}

/// A capability that a program may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Capability {
    /// Settings of the host's network.
    NetAdmin,
}

/// A request, or the start, failed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Problem(pub String);

impl Problem {
    /// A line from its parts: what was tried, and the reason.
    pub fn of(what: impl Display, why: impl Display) -> Self {
        Self(format!("{what}: {why}"))
    }
}

impl From<wavebed_os::Error> for Problem {
    fn from(error: wavebed_os::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<wavebed_probe::config::Problem> for Problem {
    fn from(problem: wavebed_probe::config::Problem) -> Self {
        Self(problem.to_string())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_header_that_is_no_object_ends_the_stream() {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&2_u32.to_le_bytes());
        bytes.extend_from_slice(&0_u32.to_le_bytes());
        bytes.extend_from_slice(b"[]");
        let mut frames = Frames::default();
        frames.add(&bytes);
        assert_eq!(frames.next_frame(), Err(FrameError::Header));
    }

    #[test]
    fn a_length_beyond_the_limit_is_refused_before_its_bytes_arrive() {
        let mut frames = Frames::default();
        frames.add(&4_u32.to_le_bytes());
        frames.add(&u32::MAX.to_le_bytes());
        assert!(matches!(
            frames.next_frame(),
            Err(FrameError::TooLong {
                part: "payload",
                ..
            })
        ));
    }

    proptest! {
        #[test]
        fn frames_arrive_as_written_in_pieces_of_any_size(
            payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..6),
            piece in 1_usize..50,
        ) {
            let mut stream = Vec::new();
            for (number, payload) in payloads.iter().enumerate() {
                write_frame(&mut stream, &json!({"id": number}), payload).unwrap();
            }
            let mut frames = Frames::default();
            let mut found = Vec::new();
            for bytes in stream.chunks(piece) {
                frames.add(bytes);
                while let Some(frame) = frames.next_frame().unwrap() {
                    found.push(frame);
                }
            }
            prop_assert_eq!(found.len(), payloads.len());
            for (number, (frame, payload)) in found.iter().zip(&payloads).enumerate() {
                prop_assert_eq!(&frame.header["id"], &json!(number));
                prop_assert_eq!(&frame.payload, payload);
            }
        }

        #[test]
        fn any_bytes_give_frames_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut frames = Frames::default();
            frames.add(&bytes);
            while let Ok(Some(_)) = frames.next_frame() {}
        }
    }
}
