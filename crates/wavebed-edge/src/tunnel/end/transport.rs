//! QUIC: connections to the other end, whose datagrams no second congestion control holds back.

use std::any::Any;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn::congestion::{Controller, ControllerFactory};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{
    ClientConfig, Connection, Endpoint, EndpointConfig, Incoming, MtuDiscoveryConfig, Runtime as _,
    ServerConfig, TokioRuntime, TransportConfig,
};
use tokio::sync::{Notify, mpsc};
use tokio::time::{sleep, timeout};

use super::filter::Filtered;
use super::initial::InitialKey;
use super::key::PrivateKey;
use super::settings::{Kind, Settings};
use super::tls;
use crate::tunnel::wire::PACKET_HEADER_BYTES;

/// Bytes around a message in a QUIC packet: first byte, connection ID 8, packet number 4, frame 3, tag 16 (RFC 9000, 9221).
const QUIC_BYTES: u16 = 32;
/// What quinn keeps free for them: it counts 8 bytes for the length in the frame, whatever the length is.
const QUIC_BOUND_BYTES: u16 = 38;
/// UDP and IPv4, which most paths have; with IPv6 it is 20 bytes more.
const UDP_IP_BYTES: u64 = 28;
/// What quinn receives by default, whatever the configuration of the other end.
const DEFAULT_UDP_PAYLOAD: u16 = 1472;
/// A radio may be away for long; QUIC itself needs nothing to go on after it.
const IDLE: Duration = Duration::from_secs(120);
/// Keeps address translations, and finds a lost end.
const KEEP_ALIVE: Duration = Duration::from_secs(1);
/// One try to connect; a blocked radio lets none through.
const HANDSHAKE: Duration = Duration::from_secs(3);
/// Handshakes at a time at the listening end, which has one honest peer.
const MOST_HANDSHAKES: usize = 256;
const RETRY: Duration = Duration::from_millis(200);
/// Datagrams that wait inside QUIC: the pacing before it leaves few.
const BUFFER_BYTES: usize = 4 << 20;

/// From one search for a larger size to the next, while the path carries less than the device's MTU: such a search is
/// a few probes, and an end may have moved to another network.
const SEARCH_AGAIN: Duration = Duration::from_secs(60);

/// Bytes of a packet on the link beyond its IP bytes.
pub const OVERHEAD_BYTES: u64 = QUIC_BYTES as u64 + PACKET_HEADER_BYTES as u64 + UDP_IP_BYTES;

/// Congestion control that never limits: the rate law stands before it, and two loops around each other would oscillate.
#[derive(Clone, Copy, Debug)]
struct Unlimited;

/// Above 2^32, quinn does not pace.
const WINDOW: u64 = 1 << 40;

impl Controller for Unlimited {
    fn on_congestion_event(
        &mut self,
        _now: Instant,
        _sent: Instant,
        _persistent: bool,
        _lost: u64,
    ) {
    }

    fn on_mtu_update(&mut self, _new_mtu: u16) {}

    fn window(&self) -> u64 {
        WINDOW
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(*self)
    }

    fn initial_window(&self) -> u64 {
        WINDOW
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

impl ControllerFactory for Unlimited {
    fn build(self: Arc<Self>, _now: Instant, _current_mtu: u16) -> Box<dyn Controller> {
        Box::new(*self)
    }
}

/// UDP payload of a QUIC packet with an IP packet of `mtu` bytes.
fn udp_payload(mtu: u32) -> u16 {
    let header = u32::try_from(PACKET_HEADER_BYTES).unwrap_or_default();
    u16::try_from(mtu + header).unwrap_or(u16::MAX / 2) + QUIC_BOUND_BYTES
}

/// The largest IP packet that `connection` takes now.
pub fn largest_packet(connection: &Connection) -> Option<usize> {
    let message = connection.max_datagram_size()?;
    message.checked_sub(PACKET_HEADER_BYTES)
}

fn transport(mtu: u32) -> TransportConfig {
    let mut discovery = MtuDiscoveryConfig::default();
    discovery
        .upper_bound(udp_payload(mtu))
        .interval(SEARCH_AGAIN)
        // From a black hole on, large packets wait for the search.
        .black_hole_cooldown(Duration::ZERO);
    let mut config = TransportConfig::default();
    config
        .max_idle_timeout(IDLE.try_into().ok())
        .keep_alive_interval(Some(KEEP_ALIVE))
        // QUIC begins anew with each address: at its least size, large packets would wait for four round trips each time. The
        // handshake has packets of the least size, 1200 bytes, all the same; `SizeTest` finds a path that carries less.
        .initial_mtu(udp_payload(mtu))
        .mtu_discovery_config(Some(discovery))
        .max_concurrent_bidi_streams(0u8.into())
        .max_concurrent_uni_streams(0u8.into())
        .datagram_receive_buffer_size(Some(BUFFER_BYTES))
        .datagram_send_buffer_size(BUFFER_BYTES)
        .congestion_controller_factory(Arc::new(Unlimited));
    config
}

/// A bound socket with its configuration, before the asynchronous part begins.
pub struct Bound {
    socket: UdpSocket,
    kind: Kind,
    endpoint: EndpointConfig,
    to: SocketAddr,
    initial: InitialKey,
    client: Option<ClientConfig>,
    server: Option<ServerConfig>,
}

/// A millisecond in which the program does not run is 125 KB at 1 Gbit/s, and the system's default is 208 KiB. Root may
/// exceed the system's limit; others get what it allows.
fn enlarge_buffers(socket: &UdpSocket) {
    use rustix::net::sockopt;
    if sockopt::set_socket_recv_buffer_size_force(socket, BUFFER_BYTES).is_err() {
        let _ = sockopt::set_socket_recv_buffer_size(socket, BUFFER_BYTES);
    }
    let _ = sockopt::set_socket_send_buffer_size(socket, BUFFER_BYTES);
}

/// Makes keys and socket ready.
///
/// # Errors
/// One line.
pub fn bind(settings: &Settings, key: &PrivateKey) -> Result<Bound, String> {
    let at = settings.socket_address()?;
    let any: IpAddr = if at.is_ipv4() {
        Ipv4Addr::UNSPECIFIED.into()
    } else {
        Ipv6Addr::UNSPECIFIED.into()
    };
    let local = match settings.kind {
        Kind::Listen => at,
        Kind::Connect => (any, 0).into(),
    };
    let socket = UdpSocket::bind(local).map_err(|error| format!("at: {local}: {error}"))?;
    enlarge_buffers(&socket);
    let transport = Arc::new(transport(settings.mtu));
    let keys = |error: rustls::Error| format!("{}: {error}", settings.key.display());
    let suites = |_| "TLS has no cipher for QUIC's first packets".to_owned();
    let (mut client, mut server) = (None, None);
    let initial = match settings.kind {
        Kind::Listen => InitialKey::new(key.public(), settings.peer),
        Kind::Connect => InitialKey::new(settings.peer, key.public()),
    };
    match settings.kind {
        Kind::Connect => {
            let tls = tls::client(key, settings.peer).map_err(keys)?;
            let crypto = QuicClientConfig::try_from(tls).map_err(suites)?;
            let mut config = ClientConfig::new(Arc::new(crypto));
            let initial = initial.clone();
            config
                .transport_config(transport)
                .initial_dst_cid_provider(Arc::new(move || initial.connection_id()));
            client = Some(config);
        }
        Kind::Listen => {
            let tls = tls::server(key, settings.peer).map_err(keys)?;
            let crypto = QuicServerConfig::try_from(tls).map_err(suites)?;
            let mut config = ServerConfig::with_crypto(Arc::new(crypto));
            config
                .transport_config(transport)
                .retry_token_lifetime(HANDSHAKE)
                .max_incoming(MOST_HANDSHAKES);
            server = Some(config);
        }
    }
    let mut endpoint = EndpointConfig::default();
    // The default is the payload of Ethernet.
    let most = udp_payload(settings.mtu).max(DEFAULT_UDP_PAYLOAD);
    endpoint
        .max_udp_payload_size(most)
        .map_err(|error| format!("mtu: {error}"))?;
    Ok(Bound {
        socket,
        endpoint,
        kind: settings.kind,
        to: at,
        initial,
        client,
        server,
    })
}

/// Connections as they are made, and the request for another one.
pub struct Connections {
    /// New connections to the other end, whose key was verified.
    pub new: mpsc::Receiver<Connection>,
    /// At the connecting end: the present connection is lost or silent.
    pub wanted: Arc<Notify>,
    /// For the end of the program.
    pub endpoint: Endpoint,
}

impl Bound {
    /// Starts to listen or to connect.
    ///
    /// # Errors
    /// The error of the socket.
    pub fn start(self) -> io::Result<Connections> {
        let runtime = Arc::new(TokioRuntime);
        let from = (self.kind == Kind::Connect).then_some(self.to);
        let socket = Filtered::new(runtime.wrap_udp_socket(self.socket)?, from);
        let mut endpoint = Endpoint::new_with_abstract_socket(
            self.endpoint,
            self.server,
            Arc::new(socket),
            runtime,
        )?;
        if let Some(client) = self.client {
            endpoint.set_default_client_config(client);
        }
        let (to_main, new) = mpsc::channel(1);
        let wanted = Arc::new(Notify::new());
        match self.kind {
            Kind::Listen => drop(tokio::spawn(listen(
                endpoint.clone(),
                self.initial,
                to_main,
            ))),
            Kind::Connect => drop(tokio::spawn(connect(
                endpoint.clone(),
                self.to,
                Arc::clone(&wanted),
                to_main,
            ))),
        }
        wanted.notify_one();
        Ok(Connections {
            new,
            wanted,
            endpoint,
        })
    }
}

/// Passes on a first packet of the other end that comes from an address of the other end; others get no answer.
///
/// A recorded first packet gets a Retry, a tenth of its bytes, and no more unless the answer comes from where the packet
/// claimed to come from. A time in the packet would refuse it at once, but only where clocks agree.
fn admitted(incoming: Incoming, initial: &InitialKey) -> Option<Incoming> {
    if !initial.made(&incoming.orig_dst_cid()) {
        incoming.ignore();
        return None;
    }
    if incoming.remote_address_validated() {
        return Some(incoming);
    }
    if let Err(error) = incoming.retry() {
        error.into_incoming().ignore();
    }
    None
}

/// Accepts connections; each handshake by itself, so that one that does not end holds up no other.
async fn listen(endpoint: Endpoint, initial: InitialKey, to_main: mpsc::Sender<Connection>) {
    while let Some(incoming) = endpoint.accept().await {
        let Some(incoming) = admitted(incoming, &initial) else {
            continue;
        };
        let to_main = to_main.clone();
        tokio::spawn(async move {
            // A wrong key, or no answer: no connection.
            if let Ok(Ok(connection)) = timeout(HANDSHAKE, incoming).await {
                let _ = to_main.send(connection).await;
            }
        });
    }
}

/// Connects each time that it is asked to, until it succeeds.
async fn connect(
    endpoint: Endpoint,
    to: SocketAddr,
    wanted: Arc<Notify>,
    to_main: mpsc::Sender<Connection>,
) {
    loop {
        wanted.notified().await;
        loop {
            // The name is part of TLS; the key alone counts.
            if let Ok(connecting) = endpoint.connect(to, "tunnel")
                && let Ok(Ok(connection)) = timeout(HANDSHAKE, connecting).await
            {
                if to_main.send(connection).await.is_err() {
                    return;
                }
                break;
            }
            sleep(RETRY).await;
        }
    }
}

#[cfg(test)]
mod tests;
