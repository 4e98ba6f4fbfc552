//! New connections.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use super::direction::Direction;
use super::event::End;
use super::flow::{Flow, Leg, Side};
use super::server::Splitter;
use super::slab::Token;
use super::socket;
use super::window::Track;

/// Connections that are accepted before others have their turn.
const TURN: usize = 64;

impl Splitter {
    /// Accepts the connections that wait on a listener.
    pub(super) fn accept_all(&mut self, listener: usize, now_ns: u64) {
        for _ in 0..TURN {
            let Some(listener) = self.listeners.get(listener) else {
                return;
            };
            match socket::accept(&self.settings, listener) {
                Ok((client, address, wanted)) => {
                    self.totals.accepted += 1;
                    self.admit(client, address, wanted, now_ns);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if is_shortage(&error) => {
                    // The next sweep accepts again.
                    self.pause_accepting();
                    return;
                }
                // The client has already reset it, or its socket refused an option.
                Err(error) => {
                    self.totals.accepted += 1;
                    match error.kind() {
                        io::ErrorKind::NotConnected => self.totals.client_resets += 1,
                        _ => self.totals.failed += 1,
                    }
                }
            }
        }
    }

    /// A socket that is dropped here resets its connection.
    fn admit(&mut self, client: OwnedFd, address: SocketAddr, wanted: SocketAddr, now_ns: u64) {
        let is_loop = self.settings.is_transparent() && self.own_addresses.contains(&wanted);
        let is_allowed = self.admission.allows(address.ip(), self.flows.len());
        if is_loop || !is_allowed {
            self.totals.refused += 1;
            return;
        }
        while let Some(victim) = self.admission.victim(address.ip()) {
            self.end_flow(victim, End::Evicted, now_ns);
        }
        let server_address = self.settings.to.unwrap_or(wanted);
        match socket::begin_connection(&self.settings, address, server_address) {
            Ok(server) => self.begin(client, server, [address, server_address], now_ns),
            Err(_) => self.totals.failed += 1,
        }
    }

    fn begin(
        &mut self,
        client: OwnedFd,
        server: OwnedFd,
        [client_address, server_address]: [SocketAddr; 2],
        now_ns: u64,
    ) {
        let id = self.flows.insert(Flow {
            client: Leg::new(client),
            server: Leg::new(server),
            up: Direction::default(),
            down: Direction::default(),
            is_connecting: true,
            is_queued: false,
            client_address,
            server_address,
            opened_ns: now_ns,
            active_ns: now_ns,
            window: Track::default(),
        });
        self.admission.begin(id, client_address.ip());
        // The system's limit of watched descriptors, if anything.
        if self.watch_legs(id).is_err() {
            self.end_flow(id, End::Failed, now_ns);
        }
    }

    fn watch_legs(&mut self, id: super::slab::FlowId) -> io::Result<()> {
        let flags =
            EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::PRI | EventFlags::ET;
        let Some(flow) = self.flows.get_mut(id) else {
            return Ok(());
        };
        for (side, leg) in [(Side::Client, &flow.client), (Side::Server, &flow.server)] {
            let data = rustix::event::epoll::EventData::new_u64(Token::Leg(id, side).encode());
            rustix::event::epoll::add(&self.epoll, leg.socket.as_fd(), data, flags)?;
        }
        Ok(())
    }
}

/// Whether the system lacks descriptors or memory.
fn is_shortage(error: &io::Error) -> bool {
    let shortages = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOBUFS];
    Errno::from_io_error(error).is_some_and(|error| shortages.contains(&error))
}
