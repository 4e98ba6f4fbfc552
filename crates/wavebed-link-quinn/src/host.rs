//! One host: an endpoint and its connections.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use quinn_proto::{
    ClientConfig, ConnectError, Connection, ConnectionHandle, DatagramEvent, EcnCodepoint,
    Endpoint, Transmit,
};
use wavebed_link::Ecn;
use wavebed_link::sim::{Departure, Fate, Packet, SimLink};

use crate::application::{Application, Context};

/// Datagrams that a host sends at once at most, as `quinn` does with segmentation offload.
pub const BURST_DATAGRAMS: usize = 10;
/// IPv4 and UDP.
const HEADER_BYTES: usize = 28;
const NANOS: u64 = 1_000_000_000;

/// Datagrams that hosts dropped; those that links dropped are in the counts of the links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Larger than the path's MTU.
    pub too_large: u64,
    /// With a flipped bit, which a UDP checksum shows.
    pub corrupted: u64,
}

/// Time, and all that is the same for both hosts.
pub(crate) struct Clock {
    origin: Instant,
    pub now_ns: u64,
    pub mtu_bytes: usize,
    /// Timers of connections expire at multiples of this.
    pub timer_ns: u64,
}

impl Clock {
    pub fn new(mtu_bytes: u32) -> Self {
        Self {
            // Any instant would do: only differences count.
            origin: Instant::now(),
            now_ns: 0,
            mtu_bytes: mtu_bytes as usize,
            timer_ns: 1,
        }
    }

    pub const fn now(&self) -> Duration {
        Duration::from_nanos(self.now_ns)
    }

    pub fn instant(&self) -> Instant {
        self.origin + self.now()
    }

    /// When a timer for `instant` expires.
    pub fn expiry_ns(&self, instant: Instant) -> u64 {
        ns(instant.saturating_duration_since(self.origin)).next_multiple_of(self.timer_ns)
    }
}

pub(crate) fn ns(time: Duration) -> u64 {
    time.as_secs() * NANOS + u64::from(time.subsec_nanos())
}

struct Session<A> {
    connection: Connection,
    application: A,
    wake: Option<Duration>,
    /// When its next timer expires.
    timeout_ns: Option<u64>,
}

pub(crate) struct Host<A> {
    endpoint: Endpoint,
    address: SocketAddr,
    peer: SocketAddr,
    sessions: BTreeMap<usize, Session<A>>,
    /// Connections to which something happened since they were last driven.
    touched: BTreeSet<usize>,
    accept: Box<dyn FnMut() -> A>,
    buffer: Vec<u8>,
    pub dropped: Dropped,
}

impl<A: Application> Host<A> {
    pub fn new(
        endpoint: Endpoint,
        (address, peer): (SocketAddr, SocketAddr),
        accept: Box<dyn FnMut() -> A>,
    ) -> Self {
        Self {
            endpoint,
            address,
            peer,
            sessions: BTreeMap::new(),
            touched: BTreeSet::new(),
            accept,
            buffer: Vec::new(),
            dropped: Dropped::default(),
        }
    }

    pub fn connect(
        &mut self,
        config: ClientConfig,
        application: A,
        clock: &Clock,
    ) -> Result<usize, ConnectError> {
        let connected = self
            .endpoint
            .connect(clock.instant(), config, self.peer, "server")?;
        Ok(self.begin(connected, application))
    }

    fn begin(
        &mut self,
        (handle, connection): (ConnectionHandle, Connection),
        application: A,
    ) -> usize {
        let session = Session {
            connection,
            application,
            wake: None,
            timeout_ns: None,
        };
        self.sessions.insert(handle.0, session);
        self.touched.insert(handle.0);
        handle.0
    }

    pub fn applications(&self) -> impl Iterator<Item = (usize, &A, &Connection)> {
        let each = self.sessions.iter();
        each.map(|(&key, session)| (key, &session.application, &session.connection))
    }

    pub fn session(&mut self, key: usize) -> (&mut A, &mut Connection) {
        let session = self.sessions.get_mut(&key).expect("made by connect");
        (&mut session.application, &mut session.connection)
    }

    /// When a timer or an application is due.
    pub fn next_event_ns(&self) -> Option<u64> {
        let times = self.sessions.values();
        times
            .flat_map(|session| [session.timeout_ns, session.wake.map(ns)])
            .flatten()
            .min()
    }

    /// Takes what a link delivered.
    pub fn receive(
        &mut self,
        departure: Departure<BytesMut>,
        clock: &Clock,
        out: &mut SimLink<BytesMut>,
    ) {
        if departure.fate != Fate::Delivered {
            return;
        }
        if departure.flipped_bit.is_some() {
            self.dropped.corrupted += 1;
            return;
        }
        let (from, to) = (self.peer, Some(self.address.ip()));
        let ecn = EcnCodepoint::from_bits(departure.packet.ecn as u8);
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        let at = clock.instant();
        let found = self
            .endpoint
            .handle(at, from, to, ecn, departure.content, &mut buffer);
        match found {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some(session) = self.sessions.get_mut(&handle.0) {
                    session.connection.handle_event(event);
                    self.touched.insert(handle.0);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                match self.endpoint.accept(incoming, at, &mut buffer, None) {
                    Ok(accepted) => {
                        let application = (self.accept)();
                        self.begin(accepted, application);
                    }
                    Err(refused) => {
                        if let Some(transmit) = refused.response {
                            self.send(&transmit, &buffer, clock, out);
                        }
                    }
                }
            }
            Some(DatagramEvent::Response(transmit)) => self.send(&transmit, &buffer, clock, out),
            None => {}
        }
        self.buffer = buffer;
    }

    /// Lets timers, applications and connections do what is due, and sends what they have.
    pub fn drive(&mut self, clock: &Clock, out: &mut SimLink<BytesMut>) {
        for (&key, session) in &mut self.sessions {
            if session
                .timeout_ns
                .is_some_and(|at_ns| at_ns <= clock.now_ns)
            {
                session.connection.handle_timeout(clock.instant());
                self.touched.insert(key);
            }
            if session.wake.is_some_and(|at| at <= clock.now()) {
                session.wake = None;
                let mut context = Context {
                    now: clock.now(),
                    instant: clock.instant(),
                    wake: &mut session.wake,
                    connection: &mut session.connection,
                };
                session.application.on_wake(&mut context);
                self.touched.insert(key);
            }
        }
        while let Some(key) = self.touched.pop_first() {
            self.drive_one(key, clock, out);
        }
    }

    fn drive_one(&mut self, key: usize, clock: &Clock, out: &mut SimLink<BytesMut>) {
        let at = clock.instant();
        let mut buffer = std::mem::take(&mut self.buffer);
        while let Some(session) = self.sessions.get_mut(&key) {
            let mut again = false;
            while let Some(event) = session.connection.poll() {
                again = true;
                let mut context = Context {
                    now: clock.now(),
                    instant: at,
                    wake: &mut session.wake,
                    connection: &mut session.connection,
                };
                session.application.on_event(&mut context, event);
            }
            while let Some(event) = session.connection.poll_endpoint_events() {
                again = true;
                let handle = ConnectionHandle(key);
                if let Some(event) = self.endpoint.handle_event(handle, event) {
                    session.connection.handle_event(event);
                }
            }
            buffer.clear();
            let transmit = session
                .connection
                .poll_transmit(at, BURST_DATAGRAMS, &mut buffer);
            if let Some(transmit) = transmit {
                self.send(&transmit, &buffer, clock, out);
            } else if !again {
                let timeout = session.connection.poll_timeout();
                session.timeout_ns = timeout.map(|at| clock.expiry_ns(at));
                break;
            }
        }
        self.buffer = buffer;
    }

    /// Sends the datagrams in `bytes`.
    fn send(
        &mut self,
        transmit: &Transmit,
        bytes: &[u8],
        clock: &Clock,
        out: &mut SimLink<BytesMut>,
    ) {
        let ecn = transmit
            .ecn
            .map_or(Ecn::NotEct, |ecn| Ecn::from_bits(ecn as u8));
        let bytes = &bytes[..transmit.size];
        for datagram in bytes.chunks(transmit.segment_size.unwrap_or(transmit.size)) {
            match u16::try_from(datagram.len() + HEADER_BYTES) {
                Ok(size) if usize::from(size) <= clock.mtu_bytes => {
                    let packet = Packet::new(size).with_ecn(ecn);
                    out.send(clock.now_ns, packet, BytesMut::from(datagram));
                }
                _ => self.dropped.too_large += 1,
            }
        }
    }
}
