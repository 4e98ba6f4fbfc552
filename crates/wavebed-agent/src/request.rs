//! The requests that the agent answers, each a frame with `id` and `do`; docs/development/agent-protocol.md has the list.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use serde::Deserialize;

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
    /// Paths that stay those of the machine, also in folders in memory, and that confined programs may read.
    #[serde(default)]
    pub read: Vec<PathBuf>,
}

/// A program to start.
#[derive(Debug, Deserialize)]
pub struct Run {
    /// Program and arguments; a program that is not at its path is looked for by its name.
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
