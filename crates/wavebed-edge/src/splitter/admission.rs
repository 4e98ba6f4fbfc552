//! Who may connect: limits on connections, of all clients and of each, and on servers that have not answered.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use super::settings::{Settings, client_key};
use super::slab::FlowId;

/// Counts connections.
#[derive(Debug)]
pub struct Admission {
    max_connections: usize,
    max_per_client: usize,
    max_connecting: usize,
    max_connecting_per_client: usize,
    open: HashMap<u128, usize>,
    /// Connections without an answer of their server, oldest first.
    connecting: VecDeque<(FlowId, u128)>,
}

impl Admission {
    /// Nobody is connected; at most `max_connections` fit into the limit of open files.
    pub fn new(settings: &Settings, max_connections: usize) -> Self {
        let number = |value: u32| usize::try_from(value).unwrap_or(usize::MAX);
        Self {
            max_connections,
            max_per_client: settings
                .max_connections_per_client
                .map_or(usize::MAX, number),
            max_connecting: number(settings.max_connecting),
            max_connecting_per_client: number(settings.max_connecting_per_client),
            open: HashMap::new(),
            connecting: VecDeque::new(),
        }
    }

    /// Whether a further connection of `client` is accepted while `open` exist.
    pub fn allows(&self, client: IpAddr, open: usize) -> bool {
        let of_client = self.open.get(&client_key(client)).copied().unwrap_or(0);
        open < self.max_connections && of_client < self.max_per_client
    }

    /// The connection that makes room for a further one of `client`: the oldest of the client's, or of all, that waits for
    /// its server.
    pub fn victim(&self, client: IpAddr) -> Option<FlowId> {
        let key = client_key(client);
        let mut own = self.connecting.iter().filter(|(_, other)| *other == key);
        if own.clone().count() >= self.max_connecting_per_client {
            return own.next().map(|(id, _)| *id);
        }
        if self.connecting.len() >= self.max_connecting {
            return self.connecting.front().map(|(id, _)| *id);
        }
        None
    }

    /// Counts a connection that waits for its server.
    pub fn begin(&mut self, id: FlowId, client: IpAddr) {
        let key = client_key(client);
        *self.open.entry(key).or_default() += 1;
        self.connecting.push_back((id, key));
    }

    /// Its server has answered.
    pub fn answered(&mut self, id: FlowId) {
        if let Some(at) = self.connecting.iter().position(|(other, _)| *other == id) {
            self.connecting.remove(at);
        }
    }

    /// It has ended.
    pub fn end(&mut self, id: FlowId, client: IpAddr, was_connecting: bool) {
        if was_connecting {
            self.answered(id);
        }
        let key = client_key(client);
        if let Some(count) = self.open.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                self.open.remove(&key);
            }
        }
    }

    /// Connections without an answer of their server.
    pub fn connecting(&self) -> usize {
        self.connecting.len()
    }
}
