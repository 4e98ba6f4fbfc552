//! The splitter's configuration.

use std::net::{IpAddr, SocketAddr};

use serde::Deserialize;

use super::settings_value::{Ports, Prefix, Size, Time};

/// How bytes are copied from one socket to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Copy {
    /// splice(2) through a pipe.
    Splice,
    /// recv(2) and send(2) through a buffer of the program.
    ReadWrite,
}

/// The configuration. Without a file every key has its default.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Addresses that the splitter listens on. Packets of intercepted connections are assigned to these sockets.
    pub listen: Vec<SocketAddr>,
    /// Direct mode: every connection goes to this address, from the splitter's own. No transparency, no root.
    pub to: Option<SocketAddr>,
    /// Interfaces whose connections are split; empty: all forwarded ones.
    pub client_interfaces: Vec<String>,
    /// Destinations that are not split.
    pub bypass: Vec<Prefix>,
    /// Destination ports that are not split.
    pub bypass_ports: Vec<Ports>,
    /// Whether the program installs its packet rules at its start and removes them at its end.
    pub rules: bool,
    /// Whether connections that began before the rules stay unsplit and alive. Costs SYN cookies.
    pub keep_established: bool,
    /// Mark of packets for the splitter's sockets; the splitter's own packets have the next number.
    pub mark: u32,
    /// Routing table, and priority of the routing rule.
    pub route_table: u32,
    /// Congestion control towards the client, over the radio.
    #[serde(alias = "down")]
    pub client_congestion_control: Option<String>,
    /// Congestion control towards the server.
    #[serde(alias = "up")]
    pub server_congestion_control: Option<String>,
    /// Shortest retransmission timeout of the client leg.
    pub client_min_rto: Option<Time>,
    /// Shortest retransmission timeout of the server leg.
    pub server_min_rto: Option<Time>,
    /// After this long without an acknowledgement of data the client counts as dead (RFC 5482).
    pub client_user_timeout: Option<Time>,
    /// After this long without an acknowledgement of data the server counts as dead (RFC 5482).
    pub server_user_timeout: Option<Time>,
    /// Most bytes that wait unsent in the client leg's socket.
    pub client_unsent: Size,
    /// Receive buffer of the server leg; without it the kernel sizes it.
    pub server_receive_buffer: Option<Size>,
    /// Silence after which keep-alive probes are sent on both legs.
    pub keepalive: Option<Time>,
    /// How bytes are copied.
    pub copy: Copy,
    /// Largest buffer of each direction of a connection.
    pub buffer: Size,
    /// Bytes that may wait in the buffers of all connections together.
    pub memory: Size,
    /// Most connections at a time; further ones are reset.
    pub max_connections: u32,
    /// Most connections of one client (IPv6: of one /64) at a time.
    pub max_connections_per_client: Option<u32>,
    /// Most connections whose server has not answered; the oldest of them makes room.
    pub max_connecting: u32,
    /// Most connections of one client (IPv6: of one /64) whose server has not answered.
    pub max_connecting_per_client: u32,
    /// Time without a byte after which a connection is reset.
    pub idle: Time,
    /// The same once one direction has ended.
    pub half_closed: Time,
    /// Time that the server has to answer.
    pub handshake: Time,
    /// Time that connections have to end after a request to stop.
    pub drain: Time,
    /// Switches the radio-aware window on: time that data may wait at the edge for the radio.
    pub window_queue: Option<Time>,
    /// Address of the metrics' HTTP server.
    pub metrics: Option<SocketAddr>,
    /// Allows a metrics address that other hosts can reach.
    pub metrics_remote: bool,
    /// User, by name or number, that the program becomes when root starts it.
    pub user: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: vec![
                SocketAddr::from(([127, 0, 0, 1], 5000)),
                SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], 5000)),
            ],
            to: None,
            client_interfaces: Vec::new(),
            bypass: Vec::new(),
            bypass_ports: Vec::new(),
            rules: false,
            keep_established: false,
            mark: 0x2b50,
            route_table: 2850,
            client_congestion_control: None,
            server_congestion_control: None,
            client_min_rto: None,
            server_min_rto: None,
            client_user_timeout: None,
            server_user_timeout: None,
            client_unsent: Size(128 << 10),
            server_receive_buffer: None,
            keepalive: None,
            copy: Copy::Splice,
            buffer: Size(1 << 20),
            memory: Size(96 << 20),
            max_connections: 12_000,
            max_connections_per_client: None,
            max_connecting: 1024,
            max_connecting_per_client: 256,
            // RFC 5382, REQ-5: established 2 h 4 min, transitory 4 min.
            idle: Time::seconds(7440),
            half_closed: Time::seconds(240),
            handshake: Time::seconds(30),
            drain: Time::seconds(10),
            window_queue: None,
            metrics: None,
            metrics_remote: false,
            user: None,
        }
    }
}

impl Settings {
    /// Whether connections are intercepted, with the client's address kept.
    #[must_use]
    pub fn is_transparent(&self) -> bool {
        self.to.is_none()
    }

    /// The mark of the splitter's own packets towards servers.
    #[must_use]
    pub fn own_mark(&self) -> u32 {
        self.mark.wrapping_add(1)
    }

    /// Checks what no single key shows.
    ///
    /// # Errors
    /// One line: the key, the error and what would be right.
    pub fn check(&self) -> Result<(), String> {
        self.check_addresses()?;
        self.check_sizes()?;
        let names = [
            &self.client_congestion_control,
            &self.server_congestion_control,
        ];
        for name in names.into_iter().flatten() {
            if name.is_empty() || name.len() > 15 || !name.chars().all(is_name) {
                return Err(format!(
                    "congestion-control: `{name}` is no name of a congestion control: write `bbr` or `cubic`"
                ));
            }
        }
        if let Some(time) = [self.client_min_rto, self.server_min_rto]
            .into_iter()
            .flatten()
            .find(|time| !(1..=1_000_000).contains(&time.0.as_micros()))
        {
            return Err(format!(
                "min-rto: {:?} is out of range: write `1us` to `1s`",
                time.0
            ));
        }
        let times = [self.idle, self.half_closed, self.handshake];
        if times.iter().any(|time| time.ns() < 1_000_000) {
            return Err(
                "idle, half-closed and handshake must be at least `1ms`: write `30s`".to_owned(),
            );
        }
        Ok(())
    }

    fn check_addresses(&self) -> Result<(), String> {
        if self.listen.is_empty() {
            return Err("listen: no address: write `[\"127.0.0.1:5000\"]`".to_owned());
        }
        if self.is_transparent() && self.listen.iter().any(|one| !one.ip().is_loopback()) {
            return Err(
                "listen: only loopback addresses intercept connections: write `127.0.0.1:5000`"
                    .to_owned(),
            );
        }
        if self.rules && !self.is_transparent() {
            return Err(
                "rules: direct mode (`to`) has no packet rules: remove one of the two".to_owned(),
            );
        }
        if self.rules && self.listen.iter().any(|one| one.port() == 0) {
            return Err("listen: packet rules need a port: write `127.0.0.1:5000`".to_owned());
        }
        if let Some(address) = self.metrics
            && !address.ip().is_loopback()
            && !self.metrics_remote
        {
            return Err(format!(
                "metrics: other hosts can reach {address}: write `127.0.0.1:9101`, or add `metrics-remote = true`"
            ));
        }
        let interface = |name: &&String| {
            name.is_empty()
                || name.len() > 15
                || !name.chars().all(|one| is_name(one) || one == '.')
        };
        if let Some(name) = self.client_interfaces.iter().find(interface) {
            return Err(format!(
                "client-interfaces: `{name}` is no interface name: write `wwan0`"
            ));
        }
        if self.mark == 0 || self.mark == u32::MAX || self.route_table < 256 {
            return Err(
                "mark must be 1 to 4294967294, and route-table 256 or more: write `0x2b50` and `2850`"
                    .to_owned(),
            );
        }
        Ok(())
    }

    fn check_sizes(&self) -> Result<(), String> {
        let ranges = [
            ("client-unsent", self.client_unsent.0, 4 << 10, 1 << 30),
            ("buffer", self.buffer.0, 16 << 10, 64 << 20),
            ("memory", self.memory.0, 1 << 20, 1 << 40),
        ];
        for (key, bytes, least, most) in ranges {
            if !(least..=most).contains(&bytes) {
                return Err(format!(
                    "{key}: {bytes} bytes are out of range: write {least}b to {most}b"
                ));
            }
        }
        let numbers = [
            ("max-connections", self.max_connections),
            ("max-connecting", self.max_connecting),
            ("max-connecting-per-client", self.max_connecting_per_client),
            (
                "max-connections-per-client",
                self.max_connections_per_client.unwrap_or(1),
            ),
        ];
        for (key, number) in numbers {
            if !(1..=1_000_000).contains(&number) {
                return Err(format!(
                    "{key}: {number} is out of range: write 1 to 1000000"
                ));
            }
        }
        Ok(())
    }
}

fn is_name(one: char) -> bool {
    one.is_ascii_alphanumeric() || "_-".contains(one)
}

/// The key under which a client's connections are counted: IPv6 hosts have a /64 (RFC 6177).
#[must_use]
pub fn client_key(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits() >> 64 << 64,
    }
}
