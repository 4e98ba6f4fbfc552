//! `wavebed-core bridge FILE`: two ports of this machine with the links between them.
//!
//! The engine is a process of its own, as in a laboratory. The process that the user started holds the control socket and
//! watches the engine: when it fails, frames stop, or pass without the links. Every change that the two processes make
//! to the machine ends when their descriptors close.

mod ports;

use std::collections::BTreeMap;
use std::io;
use std::io::IoSlice;
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;

use serde_json::{Value, json};
use wavebed_os::confinement::Set;
use wavebed_os::ethernet_port::{EthernetPort, Refusal};
use wavebed_os::namespace::{Child, Forked, Isolation, Notice};
use wavebed_os::netlink::interface_index;
use wavebed_os::nft::{Ingress, Silence};
use wavebed_os::process::{ChildState, Signals};
use wavebed_os::{clock, confinement, namespace, poll, process, unix};
use wavebed_path::{Device, FrameAccount, LinkError};

use crate::bridge_file::{BridgeFile, OnFailure};
use crate::control::{Connection, ControlRequest, Watch};
use crate::engine::{EngineLink, Request, TEXT};
use crate::path_engine::Built;
use crate::problem::{FAILED, INTERRUPTED, Problem, say, say_text, write_summary};
use crate::{control, engine, limits, names, path_engine, problem};
use ports::Ports;

/// Signals that end the bridge.
const ENDING: [i32; 4] = [problem::INT, problem::TERM, problem::HUP, problem::QUIT];

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
    /// Keeps a Linux bridge from sending past the links; removed with the process.
    _silence: Option<Silence>,
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
    let listener = names::listen(&file.name, user)?;
    let Ports {
        sockets,
        ingress,
        silence,
    } = Ports::open(&file)?;
    let signals = Signals::receive(&ENDING, &[problem::TTOU])?;
    let (ours, theirs) = unix::stream_pair()?;
    match namespace::fork(Isolation::None, Notice::DescriptorOnly)? {
        Forked::Child => {
            drop((ours, signals, listener, ingress, silence));
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
            confinement::renounce(Set::DAC_OVERRIDE)
                .map_err(|error| Problem::failed(error.to_string()))?;
            say(format_args!(
                "bridge {}: {} (network) and {} (devices)",
                file.name,
                file.switch.as_ref().unwrap_or(&file.a),
                file.b
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
                _silence: silence,
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
            self.end_with(if signal == problem::INT {
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
            None if self.file.switch.is_some() && interface_index(&self.file.b).is_err() => {
                say(format_args!(
                    "{} is gone: its container has ended",
                    self.file.b
                ));
            }
            None => say(format_args!(
                "the link engine ended unexpectedly (status {status})"
            )),
        }
        let State::Shaping(Some(mut ports)) = std::mem::replace(&mut self.state, State::Closed)
        else {
            return self.end_with(FAILED);
        };
        // The engine had their rings.
        let mut ports_mut = ports.iter_mut();
        if ports_mut.all(|port| port.check().is_ok() && port.leave_ring().is_ok()) {
            self.state = State::Unshaped(Box::new(Unshaped::new(ports)));
            say("frames pass without the links until the bridge is stopped");
        } else {
            self.end_with(FAILED);
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

impl Bridge {
    fn hear_connection(&mut self, id: u64) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        for request in connection.receive() {
            self.serve(id, request);
        }
        if self.connections.get(&id).is_none_or(Connection::is_closed) {
            self.connections.remove(&id);
        }
    }

    fn serve(&mut self, id: u64, request: Result<ControlRequest, String>) {
        let answer = match request {
            Ok(ControlRequest::Show) => self.show(),
            Ok(ControlRequest::Set { link, setting }) => self
                .ask(&Request::Set { link, setting })
                .map(|_| json!({"ok": true})),
            Ok(ControlRequest::Timeline(action)) => self
                .ask(&Request::Timeline(action))
                .map(|state| json!({"ok": true, "timeline": state})),
            Ok(ControlRequest::Begin) => self.ask(&Request::Begin),
            Ok(ControlRequest::Watch { every_ms }) => self.watch(id, every_ms),
            Ok(ControlRequest::Maps) => Ok(json!({"maps": []})),
            Ok(
                ControlRequest::Run { .. }
                | ControlRequest::Kill { .. }
                | ControlRequest::Ports { .. }
                | ControlRequest::Network { .. }
                | ControlRequest::Undelivered,
            ) => Err("a bridge has no programs".to_owned()),
            Ok(ControlRequest::Rebind) => Err(
                "a bridge has no server, which would see other ports: write it to a laboratory"
                    .to_owned(),
            ),
            Ok(ControlRequest::Stop) => {
                self.end.get_or_insert(End {
                    status: 0,
                    asked_by: Some(id),
                });
                return;
            }
            Err(line) => Err(line),
        };
        let answer = answer.unwrap_or_else(|line| json!({"error": line}));
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.answer(&answer);
        }
    }

    /// Lets samples follow the answer, which has the names of their columns.
    fn watch(&mut self, id: u64, every_ms: u64) -> Result<Value, String> {
        let mut head = self.ask(&Request::Head)?;
        head["every_ms"] = every_ms.into();
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.start_watch(Watch::new(every_ms, clock::monotonic_ns()));
        }
        Ok(json!({"watching": head}))
    }

    /// Sends the samples that are due. An engine that hangs is killed, as by the heartbeat.
    fn send_samples(&mut self) {
        let (engine, state) = (&mut self.engine, &self.state);
        control::send_samples(&mut self.connections, || {
            matches!(state, State::Shaping(_))
                .then(|| engine.ask_within(&Request::Sample, limits::HEARTBEAT).ok())?
        });
    }

    fn ask(&mut self, request: &Request) -> Result<Value, String> {
        match self.state {
            State::Shaping(_) => self.engine.ask(request),
            State::Unshaped(_) => {
                Err("the link engine has ended: frames pass without the links".to_owned())
            }
            State::Closed => Err("the link engine has ended".to_owned()),
        }
    }

    fn show(&mut self) -> Result<Value, String> {
        let (mut value, state) = if let State::Unshaped(unshaped) = &self.state {
            let frames = unshaped.accounts();
            (json!({"links": [], "frames": frames}), "unshaped")
        } else {
            (self.ask(&Request::Show)?, "shaping")
        };
        value["name"] = self.file.name.clone().into();
        value["state"] = state.into();
        value["ports"] = json!({"a": self.file.a, "b": self.file.b});
        value["hosts"] = json!([]);
        value["hops"] = self
            .file
            .views()
            .map(|hop| json!({"name": hop.name, "kind": hop.kind.name()}))
            .collect();
        Ok(value)
    }
}

/// Frames of one port before the other one's turn.
const BATCH: usize = 64;
/// The longest frame with its virtio-net header: 64 KiB of packet and its headers, in whole pages.
const ROOM_BYTES: usize = 17 * 4096;

/// Two ports, and the frames that were carried between them.
struct Unshaped {
    ports: [EthernetPort; 2],
    accounts: [FrameAccount; 2],
    room: Vec<u8>,
}

impl Unshaped {
    /// Carries frames between these ports from now on.
    pub fn new(ports: [EthernetPort; 2]) -> Self {
        Self {
            ports,
            accounts: [FrameAccount::default(), FrameAccount::default()],
            room: vec![0; ROOM_BYTES],
        }
    }

    /// The ports.
    pub const fn ports(&self) -> &[EthernetPort; 2] {
        &self.ports
    }

    /// Carries the frames that wait at a port, if they are not too many.
    ///
    /// # Errors
    /// The port is gone.
    pub fn carry(&mut self, from: usize) -> io::Result<()> {
        let (port, other) = (&self.ports[from], &self.ports[1 - from]);
        let account = &mut self.accounts[from];
        for _ in 0..BATCH {
            let Some(length) = port.read(&mut self.room)? else {
                break;
            };
            account.received_frames += 1;
            match other.write(&[IoSlice::new(&self.room[..length])]) {
                Ok(()) => account.around_frames += 1,
                Err(error) => {
                    let reason = Refusal::of(&error).name();
                    *account.dropped_frames.entry(reason).or_default() += 1;
                }
            }
        }
        Ok(())
    }

    /// The accounts of both directions since the engine failed; a super-packet counts once.
    pub fn accounts(&self) -> [FrameAccount; 2] {
        [0_usize, 1].map(|from| {
            let (port, other) = (&self.ports[from], &self.ports[1 - from]);
            let mut account = self.accounts[from].clone();
            let direction = ["down", "up"][from];
            let [a, b] = [0_usize, 1].map(|each| self.ports[each].interface());
            account.name = format!("{a}-{b}.{direction}");
            account.between(port, other)
        })
    }
}
