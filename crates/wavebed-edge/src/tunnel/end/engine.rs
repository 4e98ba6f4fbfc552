//! The loop of an end.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use quinn::{Connection, ConnectionError, VarInt};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, sleep_until};
use wavebed_os::clock::monotonic_ns;
use wavebed_os::process::Signals;

use super::device::Device;
use super::outgoing::Outgoing;
use super::path_mtu::{PathState, SizeTest};
use super::presence::Presence;
use super::transport::{Connections, OVERHEAD_BYTES, largest_packet};
use crate::tunnel::wire::{KEEP_ALIVE, Message};
use crate::tunnel::{CoalesceCounters, Receiver, SenderState};

/// Packets of the host that are read before the loop looks elsewhere.
const READ_BATCH: usize = 32;
/// Messages of the other end that are taken before the loop looks elsewhere; their packets are coalesced. 49 packets of
/// the usual MTU fill a super-packet.
const TAKE_BATCH: usize = 64;
/// Without a word from the other end for this long, the connecting end tries a new connection beside the old one: the
/// other may have been restarted.
const SILENT_NS: u64 = 3_000_000_000;
/// How often is looked whether a search for the path's MTU has ended.
const SEARCH_LOOK_NS: u64 = 50_000_000;
/// Longest sleep.
const LOOK_NS: u64 = 500_000_000;

/// Signals as an asynchronous descriptor.
pub struct SignalFd(pub Signals);

impl std::os::fd::AsRawFd for SignalFd {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        use std::os::fd::AsFd;
        self.0.as_fd().as_raw_fd()
    }
}

#[expect(
    deprecated,
    reason = "`register` is an unsafe function, for types that change their descriptor; these keep it until they end"
)]
fn watched<T: std::os::fd::AsRawFd>(inner: T) -> io::Result<AsyncFd<T>> {
    AsyncFd::new(inner)
}

/// An end that runs.
pub struct Engine {
    device: AsyncFd<Device>,
    signals: AsyncFd<SignalFd>,
    connections: Connections,
    connection: Option<Connection>,
    /// Connections since the start.
    adopted: u64,
    outgoing: Outgoing,
    receiver: Receiver,
    presence: Presence,
    size_test: SizeTest,
    /// Whether reports were missing when that was last looked at.
    blocked: bool,
    connects: bool,
    /// Whether another connection was asked for.
    asked: bool,
    heard_ns: u64,
    /// QUIC's packets received when that was last looked at.
    received: u64,
    path: Option<std::net::SocketAddr>,
    state_every_ns: Option<u64>,
    state_ns: u64,
}

/// What an end shows of itself.
#[derive(Debug, serde::Serialize)]
pub struct EndState {
    connected: bool,
    /// Since the start.
    connections: u64,
    #[serde(flatten)]
    sender: SenderState,
    #[serde(flatten)]
    host: CoalesceCounters,
    #[serde(flatten)]
    path: PathState,
}

/// What happened.
enum Event {
    Device,
    Datagram(Result<Bytes, ConnectionError>),
    Connection(Connection),
    Stop,
    Time,
}

impl Engine {
    /// An end that is not yet connected; `connects`: it is the one that connects.
    ///
    /// # Errors
    /// The error of epoll(7).
    pub fn new(
        device: Device,
        signals: Signals,
        connections: Connections,
        outgoing: Outgoing,
        connects: bool,
        state_every_ns: Option<u64>,
    ) -> io::Result<Self> {
        Ok(Self {
            device: watched(device)?,
            signals: watched(SignalFd(signals))?,
            connections,
            connection: None,
            adopted: 0,
            outgoing,
            receiver: Receiver::default(),
            presence: Presence::default(),
            size_test: SizeTest::default(),
            blocked: false,
            connects,
            asked: true,
            heard_ns: monotonic_ns(),
            received: 0,
            path: None,
            state_every_ns,
            state_ns: 0,
        })
    }

    /// Runs until a signal comes. `show` gets the state as often as it is wanted.
    ///
    /// # Errors
    /// The device is gone.
    pub async fn run(&mut self, mut show: impl FnMut(&EndState)) -> io::Result<()> {
        loop {
            match self.next().await {
                Event::Device | Event::Time => {}
                Event::Datagram(Ok(message)) => {
                    self.take(&message);
                    self.take_waiting().await;
                    self.device.get_mut().flush();
                }
                Event::Datagram(Err(_)) => self.connection = None,
                Event::Connection(connection) => self.adopt(connection),
                Event::Stop => {
                    self.close().await;
                    return Ok(());
                }
            }
            // Both directions get their turn in each round, and then QUIC.
            self.read_device()?;
            self.work();
            tokio::task::yield_now().await;
            let now_ns = monotonic_ns();
            if let Some(every_ns) = self.state_every_ns
                && now_ns >= self.state_ns + every_ns
            {
                self.state_ns = now_ns;
                show(&self.state());
            }
        }
    }

    fn state(&self) -> EndState {
        EndState {
            connected: self.connection.is_some(),
            connections: self.adopted,
            sender: self.outgoing.sender.state(),
            host: self.device.get_ref().counters(),
            path: self.outgoing.path_state(),
        }
    }

    async fn next(&mut self) -> Event {
        let now_ns = monotonic_ns();
        let connected = self.connection.is_some();
        let due_ns = [
            self.outgoing.sender.next_send_ns().filter(|_| connected),
            self.outgoing.sender.next_check_ns().filter(|_| connected),
            self.receiver.next_report_ns().filter(|_| connected),
            self.size_test.due_ns().filter(|_| connected),
            (connected && self.outgoing.is_searching()).then_some(now_ns + SEARCH_LOOK_NS),
            self.presence
                .due_ns()
                .filter(|_| connected && self.connects),
        ];
        let due_ns = due_ns.into_iter().flatten().min().unwrap_or(u64::MAX);
        let wait_ns = due_ns.saturating_sub(now_ns).min(LOOK_NS);
        let due = Instant::now() + Duration::from_nanos(wait_ns);
        let connection = self.connection.clone();
        let datagram = async {
            match &connection {
                Some(connection) => connection.read_datagram().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = self.signals.readable() => Event::Stop,
            Some(new) = self.connections.new.recv() => Event::Connection(new),
            () = sleep_until(due) => Event::Time,
            message = datagram => Event::Datagram(message),
            ready = self.device.readable() => {
                // The loop reads until there is no more, and clears it then.
                drop(ready);
                Event::Device
            }
        }
    }

    fn read_device(&mut self) -> io::Result<()> {
        let now_ns = monotonic_ns();
        for _ in 0..READ_BATCH {
            let outgoing = &mut self.outgoing;
            let result = self.device.try_io_mut(Interest::READABLE, |device| {
                match device.read(|packet| outgoing.enqueue(packet, now_ns)) {
                    Ok(true) => Ok(()),
                    Ok(false) => Err(io::ErrorKind::WouldBlock.into()),
                    Err(error) => Err(error),
                }
            });
            match result {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Takes the datagrams that have already arrived.
    async fn take_waiting(&mut self) {
        for _ in 1..TAKE_BATCH {
            let Some(connection) = self.connection.clone() else {
                return;
            };
            tokio::select! {
                biased;
                message = connection.read_datagram() => match message {
                    Ok(message) => self.take(&message),
                    Err(_) => self.connection = None,
                },
                () = std::future::ready(()) => return,
            }
        }
    }

    /// Takes a message of the other end.
    fn take(&mut self, message: &Bytes) {
        let now_ns = monotonic_ns();
        self.heard_ns = now_ns;
        match Message::parse(message) {
            Ok(Message::Packet(header, packet)) => {
                let bytes = packet.len() as u64 + OVERHEAD_BYTES;
                self.receiver.receive(header, bytes, now_ns);
                if !packet.is_empty() {
                    self.presence.packet(now_ns);
                    self.device.get_mut().write(message.slice_ref(packet));
                }
            }
            Ok(Message::Report(report)) => self.outgoing.sender.report(&report, now_ns),
            // Another kind: the other end has the key, and another version.
            Ok(Message::KeepAlive) | Err(_) => {}
        }
    }

    /// Sends what is due, and looks after the connection.
    fn work(&mut self) {
        let now_ns = monotonic_ns();
        if let Some(connection) = &self.connection {
            let path = connection.remote_address();
            if self.path.replace(path).is_some_and(|before| before != path) {
                self.outgoing.sender.path_changed();
                self.size_test.start(now_ns);
            }
            if let Some(limit) = largest_packet(connection) {
                self.outgoing.observe(limit, now_ns, || {
                    (
                        connection.stats().path.sent_plpmtud_probes,
                        connection.rtt(),
                    )
                });
            }
            self.outgoing.sender.check(now_ns);
            let blocked = self.outgoing.sender.is_blocked();
            if std::mem::replace(&mut self.blocked, blocked) && !blocked {
                self.size_test.start_after_silence(now_ns);
            }
            if let Some(report) = self.receiver.report(now_ns) {
                let _ = connection.send_datagram(report.to_bytes().to_vec().into());
                self.presence.say(now_ns);
            }
            while let Some((header, packet)) = self.outgoing.poll(now_ns) {
                if !packet.is_empty() {
                    self.presence.packet(now_ns);
                }
                self.presence.say(now_ns);
                let message = [&header.to_bytes()[..], &packet].concat();
                if connection.send_datagram(message.into()).is_err() {
                    break;
                }
            }
            if self.size_test.take(now_ns)
                && self.outgoing.is_full()
                && let Some(bytes) = connection.max_datagram_size()
            {
                let mut message = vec![0; bytes];
                message[0] = KEEP_ALIVE;
                let _ = connection.send_datagram(message.into());
                // A small one after it, which arrives where the path is too narrow for the other.
                let _ = connection.send_datagram(vec![KEEP_ALIVE].into());
                self.presence.say(now_ns);
            }
            if self.connects && self.presence.due_ns().is_some_and(|at_ns| at_ns <= now_ns) {
                self.presence.say(now_ns);
                let _ = connection.send_datagram(vec![KEEP_ALIVE].into());
            }
        }
        for answer in self.outgoing.answers() {
            self.device.get_mut().write(answer.into());
        }
        let silent = self.is_silent(now_ns);
        if self.connects && !self.asked && (self.connection.is_none() || silent) {
            self.asked = true;
            self.connections.wanted.notify_one();
        }
    }

    /// Whether nothing came from the other end, not even answers to keep-alives, which QUIC counts.
    fn is_silent(&mut self, now_ns: u64) -> bool {
        if now_ns.saturating_sub(self.heard_ns) <= SILENT_NS {
            return false;
        }
        let received = self
            .connection
            .as_ref()
            .map_or(0, |connection| connection.stats().udp_rx.datagrams);
        let silent = std::mem::replace(&mut self.received, received) == received;
        self.heard_ns = now_ns;
        silent
    }

    /// A new connection takes the place of the one before.
    fn adopt(&mut self, connection: Connection) {
        if let Some(before) = self.connection.replace(connection) {
            before.close(VarInt::from_u32(0), b"replaced");
        }
        self.adopted += 1;
        self.asked = false;
        self.path = None;
        self.heard_ns = monotonic_ns();
        self.size_test.start(self.heard_ns);
        self.received = 0;
        self.receiver = Receiver::default();
        self.outgoing.sender.reconnected();
    }

    async fn close(&mut self) {
        self.connections
            .endpoint
            .close(VarInt::from_u32(0), b"stopped");
        let wait = self.connections.endpoint.wait_idle();
        let _ = tokio::time::timeout(Duration::from_millis(500), wait).await;
    }
}
