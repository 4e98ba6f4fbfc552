//! A split connection: two legs and two directions.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::event::epoll::EventFlags;

use super::direction::{Broken, Direction, Turn};
use super::pool::Pool;
use super::window::Track;

/// A connection of the splitter with one of the two hosts.
#[derive(Debug)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "four independent facts about a socket"
)]
pub struct Leg {
    /// Its non-blocking socket.
    pub socket: OwnedFd,
    /// Reading has not failed with `WouldBlock` since the last event.
    pub is_readable: bool,
    /// The same for writing.
    pub is_writable: bool,
    /// The host has ended its stream, perhaps behind bytes not yet read.
    pub is_hung_up: bool,
    /// Urgent data has arrived (RFC 9293, 3.8.5).
    pub is_urgent: bool,
}

impl Leg {
    /// A leg with no events yet.
    pub fn new(socket: OwnedFd) -> Self {
        Self {
            socket,
            is_readable: false,
            is_writable: false,
            is_hung_up: false,
            is_urgent: false,
        }
    }

    /// Remembers an event.
    pub fn note(&mut self, events: EventFlags) {
        let broken = EventFlags::ERR | EventFlags::HUP;
        self.is_hung_up |= events.intersects(EventFlags::RDHUP | broken);
        self.is_urgent |= events.contains(EventFlags::PRI);
        self.is_readable |=
            events.intersects(EventFlags::IN | EventFlags::PRI | EventFlags::RDHUP | broken);
        self.is_writable |= events.intersects(EventFlags::OUT | broken);
    }
}

/// The two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The host that opened the connection.
    Client,
    /// The host that it wanted to reach.
    Server,
}

/// A split connection.
#[derive(Debug)]
pub struct Flow {
    /// The connection with the client.
    pub client: Leg,
    /// The connection with the server.
    pub server: Leg,
    /// From the client to the server.
    pub up: Direction,
    /// From the server to the client.
    pub down: Direction,
    /// Whether the server has not answered yet.
    pub is_connecting: bool,
    /// Whether it waits for its next turn.
    pub is_queued: bool,
    /// The client.
    pub client_address: SocketAddr,
    /// The server.
    pub server_address: SocketAddr,
    /// When it began, of the monotonic clock.
    pub opened_ns: u64,
    /// When the last byte, or the end of a stream, moved.
    pub active_ns: u64,
    /// The radio-aware window.
    pub window: Track,
}

impl Flow {
    /// Copies in both directions.
    pub fn pump(&mut self, pool: &mut Pool, now_ns: u64) -> Result<[Turn; 2], Side> {
        let up = self
            .up
            .pump(&mut self.client, &mut self.server, pool, now_ns)
            .map_err(|broken| side_of(broken, Side::Client, Side::Server))?;
        let down = self
            .down
            .pump(&mut self.server, &mut self.client, pool, now_ns)
            .map_err(|broken| side_of(broken, Side::Server, Side::Client))?;
        if up.has_moved || down.has_moved {
            self.active_ns = now_ns;
        }
        Ok([up, down])
    }

    /// Whether both streams have ended in order.
    pub fn is_complete(&self) -> bool {
        self.up.is_shut && self.down.is_shut
    }

    /// Whether one of them has.
    pub fn is_half_closed(&self) -> bool {
        self.up.is_ended != self.down.is_ended
    }
}

fn side_of(broken: Broken, source: Side, destination: Side) -> Side {
    match broken {
        Broken::Source => source,
        Broken::Destination => destination,
    }
}
