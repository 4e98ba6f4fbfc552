//! A port's address resolution: it answers for addresses that it plays, and finds the addresses of its neighbours.

use std::io::PipeWriter;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::thread::JoinHandle;
use std::{io, thread};

use wavebed_os::packet_socket::NeighbourSocket;
use wavebed_os::{clock, poll};

use crate::frame::Range;
use crate::neighbour;
use crate::neighbour::Heard;

/// A question without an answer is asked again after this long.
const AGAIN_NS: u64 = 200_000_000;

/// Answers ARP and neighbour discovery in a thread of its own, until it is dropped.
#[derive(Debug)]
pub struct Answerer {
    /// Dropping it ends the thread.
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

impl Answerer {
    /// Answers at `interface` for `addresses` with `mac`, in the VLAN of each question.
    ///
    /// # Errors
    /// There is no such interface, or the process may not.
    pub fn start(
        interface: &str,
        mac: [u8; 6],
        addresses: Vec<Range<IpAddr>>,
    ) -> wavebed_os::Result<Self> {
        use wavebed_os::error::Context as _;
        let socket = NeighbourSocket::open(interface)?;
        let (wake, stop) = io::pipe().during("open", "a pipe")?;
        let work = move || {
            let mut readable = [false; 2];
            loop {
                let waited = poll::wait(&[wake.as_fd(), socket.as_fd()], &mut readable, None);
                if waited.is_err() || readable[0] {
                    return;
                }
                answer_all(&socket, mac, &addresses);
            }
        };
        let thread = thread::Builder::new()
            .name("answer".to_owned())
            .spawn(work)
            .during("start", "a thread")?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Answerer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Answers what came. An interface that is down for a while is answered at again when it comes back.
fn answer_all(socket: &NeighbourSocket, mac: [u8; 6], addresses: &[Range<IpAddr>]) {
    while let Ok(Some(frame)) = socket.receive() {
        let Some(Heard::Question(question)) = neighbour::hear(&frame.bytes) else {
            continue;
        };
        if addresses.iter().any(|range| range.has(question.target)) {
            let _ = socket.send(&neighbour::answer(&question, mac, frame.vlan));
        }
    }
}

impl Range<IpAddr> {
    /// Whether the address is one of the range.
    #[must_use]
    pub fn has(&self, address: IpAddr) -> bool {
        let steps = match (self.first, address) {
            (IpAddr::V4(first), IpAddr::V4(other)) => {
                let steps = u32::from(other).checked_sub(u32::from(first));
                steps.map(u128::from)
            }
            (IpAddr::V6(first), IpAddr::V6(other)) => {
                u128::from(other).checked_sub(u128::from(first))
            }
            _ => None,
        };
        steps.is_some_and(|steps| steps < u128::from(self.count))
    }
}

/// Why a neighbour was not found.
#[derive(Debug, thiserror::Error)]
pub enum NotFound {
    /// The addresses cannot belong together.
    #[error("address: {0} and the source {1} are of different families")]
    Families(IpAddr, IpAddr),
    /// Nobody answered.
    #[error("address: nobody at {interface} answers for {address} within {waited_ms} ms")]
    NoAnswer {
        /// Where it was asked.
        interface: String,
        /// The address that was looked for.
        address: IpAddr,
        /// How long.
        waited_ms: u64,
    },
    /// The interface.
    #[error(transparent)]
    System(#[from] wavebed_os::Error),
}

/// A question to the neighbours.
#[derive(Clone, Copy, Debug)]
pub struct Search<'a> {
    /// Where to ask.
    pub interface: &'a str,
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// The address to find.
    pub address: IpAddr,
    /// Who asks.
    pub source: IpAddr,
    /// In which VLAN.
    pub vlan: Option<u16>,
    /// For how long.
    pub timeout_ns: u64,
}

impl Search<'_> {
    /// Asks, each 200 ms, until there is an answer.
    ///
    /// # Errors
    /// See [`NotFound`].
    pub fn run(&self) -> Result<[u8; 6], NotFound> {
        let frame = neighbour::ask(self.address, self.source, self.mac, self.vlan)
            .ok_or(NotFound::Families(self.address, self.source))?;
        let socket = NeighbourSocket::open(self.interface)?;
        let start = clock::monotonic_ns();
        let end = start.saturating_add(self.timeout_ns);
        let mut again = start;
        loop {
            let now = clock::monotonic_ns();
            if now >= end {
                return Err(NotFound::NoAnswer {
                    interface: self.interface.to_owned(),
                    address: self.address,
                    waited_ms: self.timeout_ns / 1_000_000,
                });
            }
            if now >= again {
                socket.send(&frame)?;
                again = now + AGAIN_NS;
            }
            let mut readable = [false];
            let wait = again.min(end) - now;
            // A failed wait is an empty one; the deadline ends it all.
            let _ = poll::wait(&[socket.as_fd()], &mut readable, Some(wait));
            while let Some(frame) = socket.receive()? {
                if let Some(Heard::Answer(address, mac)) = neighbour::hear(&frame.bytes)
                    && address == self.address
                    && frame.vlan.unwrap_or(0) == self.vlan.unwrap_or(0)
                {
                    return Ok(mac);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wavebed_os::namespace::{NetworkNamespace, effective_user};
    use wavebed_os::netlink::{Netlink, interface_index};

    const LEFT: [u8; 6] = [2, 0, 0, 0, 0, 1];
    const RIGHT: [u8; 6] = [2, 0, 0, 0, 0, 2];

    fn in_a_namespace_with_a_pair(work: impl FnOnce() + Send + 'static) {
        let run = || {
            let Ok(_namespace) = NetworkNamespace::new() else {
                assert_ne!(effective_user().0, 0, "root may");
                return;
            };
            let netlink = Netlink::route().expect("socket");
            netlink.add_veth("left", "right").expect("pair");
            for name in ["left", "right"] {
                let index = interface_index(name).expect("made");
                netlink.set_up(index).expect("up");
            }
            work();
        };
        thread::spawn(run).join().expect("no panic");
    }

    fn search(address: &str, source: &str, vlan: Option<u16>, timeout_ns: u64) -> Search<'static> {
        Search {
            interface: "left",
            mac: LEFT,
            address: address.parse().expect("address"),
            source: source.parse().expect("address"),
            vlan,
            timeout_ns,
        }
    }

    fn range(first: &str, count: u16) -> Range<IpAddr> {
        Range {
            first: first.parse().expect("address"),
            count,
        }
    }

    #[test]
    fn what_one_port_answers_another_finds() {
        in_a_namespace_with_a_pair(|| {
            let ranges = vec![range("198.18.1.2", 16), range("2001:2::5", 2)];
            let answerer = Answerer::start("right", RIGHT, ranges).expect("started");
            for vlan in [None, Some(7)] {
                for (address, source) in [("198.18.1.17", "198.18.1.1"), ("2001:2::6", "2001:2::1")]
                {
                    let found = search(address, source, vlan, 60_000_000_000).run();
                    assert_eq!(found.expect("found"), RIGHT);
                }
            }
            let nobody = search("198.18.1.18", "198.18.1.1", None, 20_000_000).run();
            assert!(matches!(
                nobody,
                Err(NotFound::NoAnswer { waited_ms: 20, .. })
            ));
            drop(answerer);
            let gone = search("198.18.1.17", "198.18.1.1", None, 20_000_000).run();
            assert!(gone.is_err());
        });
    }

    #[test]
    fn ranges_hold_their_addresses_and_no_others() {
        let row = range("198.18.0.255", 2);
        for (address, inside) in [
            ("198.18.0.254", false),
            ("198.18.0.255", true),
            ("198.18.1.0", true),
            ("198.18.1.1", false),
            ("::ffff:198.18.0.255", false),
        ] {
            assert_eq!(row.has(address.parse().expect("address")), inside);
        }
    }
}
