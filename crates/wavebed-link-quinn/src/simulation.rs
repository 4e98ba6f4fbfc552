//! The loop of events.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use quinn_proto::{ClientConfig, ConnectError, Connection, Endpoint, EndpointConfig, ServerConfig};
use wavebed_link::RandomStream;
use wavebed_link::sim::{Departure, Fate, PathSpec, SimPath, SpecError};

use crate::application::Application;
use crate::host::{Clock, Dropped, Host, ns};

const CLIENT: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 50_000);
const SERVER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2)), 443);
/// The keys of the endpoints' random numbers; links have other keys.
const ENDPOINT_STREAM: u64 = u64::MAX;

/// What keeps a simulation from beginning.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The path cannot be built.
    #[error("the path: {0}")]
    Path(#[from] SpecError),
    /// The connection cannot be begun.
    #[error("the connection: {0}")]
    Connect(#[from] ConnectError),
}

/// A connection of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionId(usize);

/// A client and a server with a path between them. `C` and `S` are their applications, one for each connection.
pub struct Simulation<C, S> {
    clock: Clock,
    path: SimPath<BytesMut>,
    client: Host<C>,
    server: Host<S>,
    digest: u64,
}

impl<C: Application, S: Application> Simulation<C, S> {
    /// Hosts without connections at time 0; `accept` makes the server's application of each connection.
    ///
    /// # Errors
    /// If `path` breaks a rule.
    pub fn new(
        path: &PathSpec,
        seed: u64,
        config: ServerConfig,
        accept: impl FnMut() -> S + 'static,
    ) -> Result<Self, Error> {
        Self::with_endpoints(
            path,
            seed,
            config,
            accept,
            [EndpointConfig::default(), EndpointConfig::default()],
        )
    }

    /// As [`Simulation::new`], with the configurations of the client's and the server's endpoint; their random seeds
    /// are replaced.
    ///
    /// # Errors
    /// If `path` breaks a rule.
    pub fn with_endpoints(
        path: &PathSpec,
        seed: u64,
        config: ServerConfig,
        accept: impl FnMut() -> S + 'static,
        endpoints: [EndpointConfig; 2],
    ) -> Result<Self, Error> {
        let [mut client, mut server] = endpoints;
        client.rng_seed(Some(rng_seed(seed, 0)));
        server.rng_seed(Some(rng_seed(seed, 1)));
        let client = Endpoint::new(Arc::new(client), None, true, None);
        let server = Endpoint::new(Arc::new(server), Some(Arc::new(config)), true, None);
        Ok(Self {
            clock: Clock::new(path.mtu_bytes()),
            path: path.build(seed)?,
            client: Host::new(
                client,
                (CLIENT, SERVER),
                Box::new(|| unreachable!("a client without a server configuration accepts none")),
            ),
            server: Host::new(server, (SERVER, CLIENT), Box::new(accept)),
            digest: 0,
        })
    }

    /// The simulation with timers of connections that expire at multiples of `resolution`, as timers of an operating
    /// system or a runtime do: 1 ms in tokio. Without, they expire when they are due. Pacing depends on it.
    #[must_use]
    pub fn with_timer_resolution(mut self, resolution: Duration) -> Self {
        self.clock.timer_ns = ns(resolution).max(1);
        self
    }

    /// Begins a connection from the client to the server now.
    ///
    /// # Errors
    /// If `config` does not suit the endpoint.
    pub fn connect(&mut self, config: ClientConfig, application: C) -> Result<ConnectionId, Error> {
        let key = self.client.connect(config, application, &self.clock)?;
        Ok(ConnectionId(key))
    }

    /// Virtual time since the simulation began.
    #[must_use]
    pub const fn now(&self) -> Duration {
        self.clock.now()
    }

    /// Both links.
    #[must_use]
    pub const fn path(&self) -> &SimPath<BytesMut> {
        &self.path
    }

    /// Both links, to change them live.
    pub const fn path_mut(&mut self) -> &mut SimPath<BytesMut> {
        &mut self.path
    }

    /// The client's application of a connection.
    ///
    /// # Panics
    /// If another simulation made `id`.
    #[must_use]
    pub fn client(&self, id: ConnectionId) -> &C {
        let mut each = self.client.applications();
        let found = each.find(|(key, ..)| *key == id.0);
        found.expect("made by connect").1
    }

    /// The client's application and connection.
    ///
    /// # Panics
    /// If another simulation made `id`.
    pub fn client_mut(&mut self, id: ConnectionId) -> (&mut C, &mut Connection) {
        self.client.session(id.0)
    }

    /// The server's applications and connections, in the order of acceptance.
    pub fn servers(&self) -> impl Iterator<Item = (&S, &Connection)> {
        let each = self.server.applications();
        each.map(|(_, application, connection)| (application, connection))
    }

    /// What both hosts dropped.
    #[must_use]
    pub const fn dropped(&self) -> [Dropped; 2] {
        [self.client.dropped, self.server.dropped]
    }

    /// A number from sizes, times, marks and fates of all datagrams so far: the same for two runs that are the same.
    #[must_use]
    pub const fn digest(&self) -> u64 {
        self.digest
    }

    /// Goes on until `is_done`, until `end`, or until nothing can happen any more. Returns whether it is done.
    pub fn run_until(&mut self, end: Duration, mut is_done: impl FnMut(&Self) -> bool) -> bool {
        let end_ns = u64::try_from(end.as_nanos()).unwrap_or(u64::MAX);
        loop {
            self.step();
            if is_done(self) {
                return true;
            }
            let next_ns = self.next_event_ns().unwrap_or(u64::MAX);
            if next_ns > end_ns {
                self.clock.now_ns = self.clock.now_ns.max(end_ns);
                return false;
            }
            self.clock.now_ns = self.clock.now_ns.max(next_ns);
        }
    }

    fn next_event_ns(&self) -> Option<u64> {
        let times = [
            self.path.next_event_ns(),
            self.client.next_event_ns(),
            self.server.next_event_ns(),
        ];
        times.into_iter().flatten().min()
    }

    /// Processes everything that is due.
    fn step(&mut self) {
        let SimPath { down, up, .. } = &mut self.path;
        while let Some(departure) = up.poll(self.clock.now_ns) {
            self.digest = mixed(self.digest, &departure, 0);
            self.server.receive(departure, &self.clock, down);
        }
        while let Some(departure) = down.poll(self.clock.now_ns) {
            self.digest = mixed(self.digest, &departure, 1);
            self.client.receive(departure, &self.clock, up);
        }
        self.client.drive(&self.clock, up);
        self.server.drive(&self.clock, down);
    }
}

/// The digest with one more departure (FNV-1a over words).
fn mixed(digest: u64, departure: &Departure<BytesMut>, direction: u64) -> u64 {
    let fate = match departure.fate {
        Fate::Delivered => 0,
        Fate::Dropped(reason) => 1 + reason as u64,
    };
    let packet = departure.packet;
    let words = [
        departure.at_ns,
        packet.bytes.into(),
        packet.ecn as u64,
        fate,
        direction,
    ];
    words
        .into_iter()
        .fold(digest ^ 0xcbf2_9ce4_8422_2325, |sum, word| {
            (sum ^ word).wrapping_mul(0x0100_0000_01b3)
        })
}

/// 32 bytes for the random numbers of an endpoint.
fn rng_seed(seed: u64, endpoint: u64) -> [u8; 32] {
    let random = RandomStream::new(seed, ENDPOINT_STREAM).process(endpoint);
    let mut bytes = [0; 32];
    for (index, place) in (0..).zip(bytes.chunks_exact_mut(8)) {
        place.copy_from_slice(&random.word(index).to_le_bytes());
    }
    bytes
}
