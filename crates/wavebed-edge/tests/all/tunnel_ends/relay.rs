//! A relay of UDP between the ends, as an address translation: it counts bytes, keeps what the connecting end sent
//! first, and can change its port towards the listening end.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::tunnel_ends::host::Host;

/// Where a relay of [`crate::tunnel_ends::Setup`] is, on the host of the listening end.
pub const RELAY: &str = "192.0.2.1:4434";
const LISTENING: &str = "192.0.2.1:4433";
const KEPT: usize = 16;

/// What has passed in one direction.
#[derive(Clone, Copy, Default)]
pub struct Passed {
    pub datagrams: usize,
    pub bytes: usize,
}

fn count(passed: &Mutex<Passed>, datagram: &[u8]) {
    let mut passed = passed.lock().expect("no panic");
    passed.datagrams += 1;
    passed.bytes += datagram.len();
}

struct Shared {
    /// Towards the connecting end.
    front: UdpSocket,
    /// Towards the listening end: one port, and the next one.
    backs: [UdpSocket; 2],
    used: AtomicUsize,
    client: Mutex<Option<SocketAddr>>,
    first: Mutex<Vec<Vec<u8>>>,
    there: Mutex<Passed>,
    back: Mutex<Passed>,
    ended: AtomicBool,
}

/// A running relay.
pub struct Relay(Arc<Shared>);

fn socket(at: &str) -> UdpSocket {
    let socket = UdpSocket::bind(at).expect("a socket");
    let limit = Some(Duration::from_millis(100));
    socket.set_read_timeout(limit).expect("set");
    socket
}

impl Relay {
    /// Starts a relay on the host of the listening end.
    pub fn start(host: &Host) -> Self {
        let shared = host.run(|| Shared {
            front: socket(RELAY),
            backs: ["192.0.2.1:0"; 2].map(socket),
            used: AtomicUsize::new(0),
            client: Mutex::new(None),
            first: Mutex::new(Vec::new()),
            there: Mutex::default(),
            back: Mutex::default(),
            ended: AtomicBool::new(false),
        });
        let shared = Arc::new(shared);
        let one = Arc::clone(&shared);
        thread::spawn(move || one.pass_there());
        for number in 0..2 {
            let one = Arc::clone(&shared);
            thread::spawn(move || one.pass_back(number));
        }
        Self(shared)
    }

    /// From now on the listening end sees another port, and what it sends to the former one is lost.
    pub fn change_port(&self) {
        self.0.used.store(1, Ordering::Relaxed);
    }

    /// Where the connecting end is.
    pub fn client(&self) -> Option<SocketAddr> {
        *self.0.client.lock().expect("no panic")
    }

    /// What went to the listening end, and what came from it.
    pub fn passed(&self) -> (Passed, Passed) {
        let copy = |passed: &Mutex<Passed>| *passed.lock().expect("no panic");
        (copy(&self.0.there), copy(&self.0.back))
    }

    /// The first datagrams of the connecting end.
    pub fn first(&self) -> Vec<Vec<u8>> {
        self.0.first.lock().expect("no panic").clone()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    fn each(&self, socket: &UdpSocket, mut pass: impl FnMut(&[u8], SocketAddr)) {
        let mut datagram = [0; 2000];
        while !self.ended.load(Ordering::Relaxed) {
            if let Ok((bytes, from)) = socket.recv_from(&mut datagram) {
                pass(&datagram[..bytes], from);
            }
        }
    }

    fn pass_there(&self) {
        self.each(&self.front, |datagram, from| {
            *self.client.lock().expect("no panic") = Some(from);
            let mut first = self.first.lock().expect("no panic");
            if first.len() < KEPT {
                first.push(datagram.to_vec());
            }
            count(&self.there, datagram);
            let back = &self.backs[self.used.load(Ordering::Relaxed)];
            let _ = back.send_to(datagram, LISTENING);
        });
    }

    fn pass_back(&self, number: usize) {
        self.each(&self.backs[number], |datagram, _| {
            count(&self.back, datagram);
            let client = *self.client.lock().expect("no panic");
            if let Some(client) = client.filter(|_| self.used.load(Ordering::Relaxed) == number) {
                let _ = self.front.send_to(datagram, client);
            }
        });
    }
}
