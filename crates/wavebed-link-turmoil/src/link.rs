//! The messages between two hosts.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use turmoil::{LinkIter, Protocol, Segment};
use wavebed_link::sim::{Departure, Fate, Packet, PathSpec, SimLink, SimPath, SpecError};

const TCP_HEADER_BYTES: usize = 20;
const UDP_HEADER_BYTES: usize = 8;

/// A packet of a message.
#[derive(Clone, Copy, Debug)]
struct Part {
    /// The number of the message, in the order of sending.
    message: u64,
    /// Which of its packets, from 0.
    index: usize,
    packet: Packet,
}

/// What is known of a message that turmoil holds.
#[derive(Debug)]
struct Message {
    number: u64,
    is_tcp: bool,
    /// Packets that have not arrived.
    missing: BTreeSet<usize>,
}

/// The link between two hosts, both directions.
pub(crate) struct HeldLink {
    server: IpAddr,
    client: IpAddr,
    path: SimPath<Part>,
    /// As turmoil holds them, in its order.
    messages: Vec<Message>,
    /// Packets of TCP that were dropped, by the time and order of their retransmission, and whether they go down.
    again: BTreeMap<(u64, u64), (bool, Part)>,
    retransmission_ns: u64,
    sent: u64,
}

impl HeldLink {
    pub fn new(
        server: IpAddr,
        client: IpAddr,
        path: &PathSpec,
        seed: u64,
        retransmission: Duration,
    ) -> Result<Self, SpecError> {
        Ok(Self {
            server,
            client,
            path: path.build(seed)?,
            messages: Vec::new(),
            again: BTreeMap::new(),
            retransmission_ns: u64::try_from(retransmission.as_nanos()).unwrap_or(u64::MAX),
            sent: 0,
        })
    }

    pub fn joins(&self, one: IpAddr, other: IpAddr) -> bool {
        (self.server, self.client) == (one, other) || (self.server, self.client) == (other, one)
    }

    /// Takes what was sent since the last call, and lets turmoil deliver what has arrived by `now_ns`.
    pub fn pass(&mut self, now_ns: u64, link: LinkIter<'_>) {
        let held: Vec<_> = link.collect();
        if held.len() < self.messages.len() {
            // The hosts were partitioned, which drops what is underway.
            self.messages.clear();
        }
        for message in &held[self.messages.len()..] {
            self.accept(now_ns, message.pair(), message.protocol());
        }
        self.advance(now_ns);
        let mut arrived = self
            .messages
            .iter()
            .map(|message| message.missing.is_empty());
        for message in held {
            if arrived.next() == Some(true) {
                message.deliver();
            }
        }
        self.messages.retain(|message| !message.missing.is_empty());
    }

    /// Offers the packets of a message.
    fn accept(&mut self, now_ns: u64, (from, to): (SocketAddr, SocketAddr), message: &Protocol) {
        let is_down = from.ip() == self.server;
        let sizes = packet_sizes(message, to.ip(), self.path.mtu_bytes() as usize);
        let flow = u32::from(from.port()) << 16 | u32::from(to.port());
        let number = self.sent;
        self.sent += 1;
        self.messages.push(Message {
            number,
            is_tcp: matches!(message, Protocol::Tcp(_)),
            missing: (0..sizes.len()).collect(),
        });
        for (index, bytes) in sizes.into_iter().enumerate() {
            let part = Part {
                message: number,
                index,
                packet: Packet::new(bytes).of_flow(flow),
            };
            self.link(is_down).send(now_ns, part.packet, part);
        }
    }

    const fn link(&mut self, is_down: bool) -> &mut SimLink<Part> {
        if is_down {
            &mut self.path.down
        } else {
            &mut self.path.up
        }
    }

    /// Advances both directions to `now_ns`, with the retransmissions that are due on the way.
    fn advance(&mut self, now_ns: u64) {
        loop {
            let due_ns = self.again.first_key_value().map(|(&(at_ns, _), _)| at_ns);
            let until_ns = due_ns.map_or(now_ns, |at_ns| at_ns.min(now_ns));
            for is_down in [true, false] {
                while let Some(departure) = self.link(is_down).poll(until_ns) {
                    self.leave(is_down, &departure);
                }
            }
            let Some(entry) = self.again.first_entry() else {
                return;
            };
            if entry.key().0 > now_ns {
                return;
            }
            let ((at_ns, _), (is_down, part)) = entry.remove_entry();
            self.link(is_down).send(at_ns, part.packet, part);
        }
    }

    /// A packet left a link.
    fn leave(&mut self, is_down: bool, departure: &Departure<Part>) {
        let part = departure.content;
        let found = self
            .messages
            .binary_search_by_key(&part.message, |message| message.number);
        // The same part of a copy may have arrived before.
        let Ok(place) = found else { return };
        let message = &mut self.messages[place];
        if departure.fate == Fate::Delivered && departure.flipped_bit.is_none() {
            message.missing.remove(&part.index);
        } else if message.is_tcp {
            let key = (departure.at_ns + self.retransmission_ns, self.sent);
            self.sent += 1;
            self.again.insert(key, (is_down, part));
        }
    }
}

/// IP bytes of each packet that carries a message.
fn packet_sizes(message: &Protocol, to: IpAddr, mtu_bytes: usize) -> Vec<u16> {
    let ip = if to.is_ipv4() { 20 } else { 40 };
    let (bytes, header) = match message {
        Protocol::Tcp(Segment::Data(_, data)) => (data.len(), ip + TCP_HEADER_BYTES),
        Protocol::Tcp(_) => (0, ip + TCP_HEADER_BYTES),
        Protocol::Udp(datagram) => (datagram.0.len(), ip + UDP_HEADER_BYTES),
    };
    let most = mtu_bytes.saturating_sub(header).max(1);
    let mut left = bytes;
    let mut sizes = Vec::new();
    while left > 0 || sizes.is_empty() {
        let part = left.min(most);
        sizes.push(u16::try_from(part + header).unwrap_or(u16::MAX));
        left -= part;
    }
    sizes
}
