//! `wavebed-core bridge FILE`: two ports of this machine with the links between them.
//!
//! The engine is a process of its own, as in a laboratory. The process that the user started holds the control socket and
//! watches the engine: when it fails, frames stop, or pass without the links. All that both change on the machine belongs
//! to their descriptors.

mod ports;
mod serve;
mod unshaped;

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;

use serde_json::Value;
use wavebed_os::capabilities::{self, Set};
use wavebed_os::ethernet_port::EthernetPort;
use wavebed_os::namespace::{self, Child, Forked, Isolation, Notice};
use wavebed_os::nft_ingress::Ingress;
use wavebed_os::process::{self, ChildState, Signals};
use wavebed_os::{clock, poll, unix};
use wavebed_path::{Device, LinkError};

use self::ports::Ports;
use self::unshaped::Unshaped;
use crate::bridge_file::{BridgeFile, OnFailure};
use crate::control::{self, Connection};
use crate::directory;
use crate::engine::{self, EngineLink, TEXT};
use crate::limits;
use crate::path_engine::{self, Built};
use crate::problem::{FAILED, INTERRUPTED, Problem};
use crate::say::{say, say_text};
use crate::signals;
use crate::summary_file::write_summary;

/// Signals that end the bridge.
const ENDING: [i32; 4] = [signals::INT, signals::TERM, signals::HUP, signals::QUIT];

/// A running bridge.
struct Bridge {
    file: BridgeFile,
    user: u32,
    signals: Signals,
    listener: UnixListener,
    engine: EngineLink,
    engine_child: Child,
    state: State,
    connections: BTreeMap<u64, Connection>,
    next_connection: u64,
    end: Option<End>,
    /// Keeps the frames from this machine's own stack; removed with the process.
    _ingress: Option<Ingress>,
}

/// Who carries the frames.
enum State {
    /// The engine. The ports are here too if frames are to pass without it.
    Shaping(Option<[EthernetPort; 2]>),
    /// This process, since the engine failed.
    Unshaped(Box<Unshaped>),
    /// Nobody, since the engine failed.
    Closed,
}

/// How the bridge ends.
#[derive(Clone, Copy, Debug)]
struct End {
    status: i32,
    /// The connection that requested it.
    asked_by: Option<u64>,
}

/// A descriptor that can be read.
#[derive(Clone, Copy, Debug)]
enum Source {
    Signals,
    Listener,
    Engine,
    Port(usize),
    Connection(u64),
}

/// Runs the bridge of the file at `path` and returns the exit status.
///
/// # Errors
/// The file is invalid, or the machine cannot run it.
pub fn run(path: &str) -> Result<i32, Problem> {
    let file = BridgeFile::read(path)?;
    let hops = path_engine::build_bridge(&file).map_err(|error| match error {
        LinkError::Pattern(line) => Problem::wrong(line),
        LinkError::Stage { .. } => Problem::wrong(format!("{path}: {error}")),
    })?;
    let (user, _) = namespace::effective_user();
    let listener = directory::listen(&file.name, user)?;
    let Ports { sockets, ingress } = Ports::open(&file)?;
    let signals = Signals::receive(&ENDING, &[signals::TTOU])?;
    let (ours, theirs) = unix::stream_pair()?;
    match namespace::fork(Isolation::None, Notice::DescriptorOnly)? {
        Forked::Child => {
            drop((ours, signals, listener, ingress));
            if process::die_with_parent().is_err() || unix::is_hung_up(&theirs) {
                std::process::exit(FAILED);
            }
            end_with_any_thread();
            let start = || start_engine(&file, hops, sockets);
            std::process::exit(engine::serve(start, theirs))
        }
        Forked::Parent(engine_child) => {
            drop((theirs, hops));
            let engine = EngineLink::new(ours, engine_child.pid).map_err(Problem::failed)?;
            // The summary may go to a folder of another user.
            capabilities::renounce(Set::DAC_OVERRIDE)
                .map_err(|error| Problem::failed(error.to_string()))?;
            say(format_args!(
                "bridge {}: {} (network) and {} (devices)",
                file.name, file.a, file.b
            ));
            let is_open = file.on_failure == OnFailure::Open;
            let bridge = Bridge {
                file,
                user,
                signals,
                listener,
                engine,
                engine_child,
                state: State::Shaping(is_open.then_some(sockets)),
                connections: BTreeMap::new(),
                next_connection: 0,
                end: None,
                _ingress: ingress,
            };
            Ok(bridge.attend())
        }
    }
}

/// Lets a panic in any thread end the process at once: the bridge is then open or closed, not half alive.
fn end_with_any_thread() {
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        tell(panic);
        std::process::exit(FAILED);
    }));
}

fn start_engine(
    file: &BridgeFile,
    hops: Built,
    sockets: [EthernetPort; 2],
) -> Result<Box<dyn engine::Engine>, String> {
    path_engine::start_bridge(file, hops, sockets.map(Device::Ethernet))
}

impl Bridge {
    /// Serves all descriptors until the bridge is to end. Returns the exit status.
    fn attend(mut self) -> i32 {
        loop {
            let ready = self.wait();
            if ready.is_empty() && matches!(self.state, State::Shaping(_)) {
                // Its end is a source of its own.
                let _ = self.engine.check(limits::HEARTBEAT);
            }
            for source in ready {
                match source {
                    Source::Signals => self.hear_signals(),
                    Source::Listener => self.accept(),
                    Source::Engine => self.engine_ended(),
                    Source::Port(from) => self.carry(from),
                    Source::Connection(id) => self.hear_connection(id),
                }
            }
            if let Some(end) = self.end {
                return self.finish(end);
            }
            self.send_samples();
        }
    }

    /// Waits, and returns what can be read; nothing after some time.
    fn wait(&mut self) -> Vec<Source> {
        let mut fds = vec![
            (Source::Signals, self.signals.as_fd()),
            (Source::Listener, self.listener.as_fd()),
        ];
        match &self.state {
            State::Shaping(_) => fds.push((Source::Engine, self.engine_child.pidfd.as_fd())),
            State::Unshaped(unshaped) => {
                let ports = unshaped.ports().iter().enumerate();
                fds.extend(ports.map(|(from, port)| (Source::Port(from), port.as_fd())));
            }
            State::Closed => {}
        }
        let connections = self.connections.iter();
        fds.extend(connections.map(|(id, each)| (Source::Connection(*id), each.as_fd())));
        let (sources, fds): (Vec<Source>, Vec<_>) = fds.into_iter().unzip();
        let mut readable = vec![false; fds.len()];
        let sample_ns = control::sample_due_ns(&self.connections).map_or(u64::MAX, |at_ns| {
            at_ns.saturating_sub(clock::monotonic_ns())
        });
        let limit_ns = sample_ns.min(limits::HEARTBEAT_EVERY_NS);
        if let Err(error) = poll::wait(&fds, &mut readable, Some(limit_ns)) {
            say(format_args!("cannot wait: {error}"));
            self.end_with(FAILED);
        }
        let ready = sources.into_iter().zip(readable);
        ready
            .filter_map(|(source, is)| is.then_some(source))
            .collect()
    }

    fn end_with(&mut self, status: i32) {
        self.end.get_or_insert(End {
            status,
            asked_by: None,
        });
    }

    /// Ctrl-C interrupts the bridge; another signal stops it, as it must stop at some time.
    fn hear_signals(&mut self) {
        while let Some(signal) = self.signals.next() {
            self.end_with(if signal == signals::INT {
                INTERRUPTED
            } else {
                0
            });
        }
    }

    /// Accepts a connection of this user or root.
    fn accept(&mut self) {
        if let Ok((stream, _)) = self.listener.accept()
            && let Ok(peer) = unix::peer_user(&stream)
            && (peer == self.user || peer == 0)
            && stream.set_nonblocking(true).is_ok()
        {
            let connection = Connection::new(stream);
            self.connections.insert(self.next_connection, connection);
            self.next_connection += 1;
        }
    }

    fn engine_ended(&mut self) {
        let ended = process::wait_for(self.engine_child.pid);
        let status = ended.map_or(FAILED, ChildState::exit_code);
        match self.engine.fault() {
            Some(line) => say(line),
            None => say(format_args!(
                "the link engine ended unexpectedly (status {status})"
            )),
        }
        match std::mem::replace(&mut self.state, State::Closed) {
            State::Shaping(Some(ports)) if ports.iter().all(|port| port.check().is_ok()) => {
                self.state = State::Unshaped(Box::new(Unshaped::new(ports)));
                say("frames pass without the links until the bridge is stopped");
            }
            _ => self.end_with(FAILED),
        }
    }

    fn carry(&mut self, from: usize) {
        if let State::Unshaped(unshaped) = &mut self.state
            && let Err(error) = unshaped.carry(from)
        {
            let name = unshaped.ports()[from].interface().to_owned();
            say(format_args!("{name}: {error}"));
            self.end_with(FAILED);
        }
    }

    /// Stops the engine, writes the summary, answers. Returns the exit status.
    fn finish(mut self, end: End) -> i32 {
        let mut status = end.status;
        let summary = match &self.state {
            State::Shaping(_) => {
                let summary = self.engine.stop_unless(self.signals.as_fd());
                let _ = process::wait_for(self.engine_child.pid);
                summary
            }
            _ => Err("the link engine has ended: there is no summary".to_owned()),
        };
        let summary = summary.and_then(|mut value| {
            let text = value.as_object_mut().and_then(|object| object.remove(TEXT));
            // The file first: printing may fail or block.
            let written = self.write_summary(&value);
            say_text(text.as_ref().and_then(Value::as_str).unwrap_or_default());
            written.map(|()| value)
        });
        if let Err(line) = &summary {
            say(line);
            status = FAILED;
        }
        if let Some(connection) = end.asked_by.and_then(|id| self.connections.get_mut(&id)) {
            connection.answer(&match summary {
                Ok(value) => serde_json::json!({"ok": true, "summary": value}),
                Err(line) => serde_json::json!({"error": line}),
            });
        }
        status
    }

    fn write_summary(&self, summary: &Value) -> Result<(), String> {
        let file = &self.file;
        write_summary(file.summary_file.as_deref(), &file.name, file.seed, summary)
    }
}
