//! A server behind a radio in an outage: a TUN device and its reader.

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use wavebed_os::interface::Route;
use wavebed_os::namespace::NetworkNamespace;
use wavebed_os::netlink::{Netlink, interface_index};
use wavebed_os::poll;
use wavebed_os::tun::{Tun, VNET_HEADER_BYTES};
use wavebed_packet::checksum;

const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 18, 0, 1));
/// The server behind the radio: it answers at every port.
pub const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 18, 0, 2));
const TCP: u8 = 6;
const SYN: u8 = 0x02;
const SYN_AND_ACK: u8 = 0x12;
const IP_BYTES: usize = 20;
const TCP_BYTES: usize = 20;
const LOOK_NS: u64 = 5_000_000;
/// More of a pause of the radio's reader may cost another retry.
pub const RESTED: Duration = Duration::from_millis(100);

/// A connection: the remainder of its outage, the time of its first SYN, and of the one that was answered, milliseconds.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_field_names, reason = "numbers have their unit")]
struct Course {
    remainder_ms: u32,
    first_ms: Option<u32>,
    answered_ms: Option<u32>,
}

/// What the server saw and what it is to send.
#[derive(Debug, Default)]
struct Server {
    courses: BTreeMap<u16, Course>,
    /// The port of its last request.
    port: u16,
    /// Times of answers to that.
    answers_ms: Vec<u32>,
    outgoing: Vec<Vec<u8>>,
    /// The longest time since the beginning in which the reader did not look.
    stood_still: Duration,
}

type Shared = Arc<Mutex<Server>>;

/// The radio, in a network namespace of the test's thread.
pub struct Radio {
    server: Shared,
    first_port: AtomicU16,
}

impl Radio {
    /// Runs `test` in a new network namespace with a radio.
    pub fn run(test: impl FnOnce(&Self) + Send + 'static) {
        let work = move || {
            NetworkNamespace::new().expect("root is needed");
            let tun = device();
            let server = Shared::default();
            let over = Arc::new(AtomicBool::new(false));
            let reader = {
                let (server, over) = (Arc::clone(&server), Arc::clone(&over));
                thread::spawn(move || read(&tun, &server, &over))
            };
            let radio = Self {
                server,
                first_port: AtomicU16::new(1000),
            };
            test(&radio);
            over.store(true, Ordering::Relaxed);
            reader.join().expect("the reader");
        };
        thread::spawn(work).join().expect("the test's thread");
    }

    /// Forgets all connections; those that follow begin in an outage with these remainders.
    pub fn begin(&self, remainders_ms: &[u32]) {
        let first = self.first_port.fetch_add(1000, Ordering::Relaxed) + 1000;
        let mut server = self.server.lock().expect("no panic");
        server.stood_still = Duration::ZERO;
        let courses = &mut server.courses;
        courses.clear();
        for (port, &remainder_ms) in (first..).zip(remainders_ms) {
            let course = Course {
                remainder_ms,
                ..Course::default()
            };
            courses.insert(port, course);
        }
    }

    /// The longest time in which the server saw nothing: requests that were sent in it were repeated for no outage.
    pub fn stood_still(&self) -> Duration {
        self.server.lock().expect("no panic").stood_still
    }

    /// The same in milliseconds, and zero where it is short: what a kernel's timer may be late on this machine.
    pub fn late_ms(&self) -> u32 {
        let late = self.stood_still();
        let late = if late > RESTED { late } else { Duration::ZERO };
        u32::try_from(late.as_millis()).expect("minutes at most")
    }

    /// The port of connection `number`.
    pub fn port(&self, number: usize) -> u16 {
        self.first_port.load(Ordering::Relaxed) + u16::try_from(number).expect("few")
    }

    /// How much later than the end of its outage the answered SYN of each connection was sent, milliseconds.
    pub fn extras_ms(&self) -> Vec<u32> {
        let courses = &self.server.lock().expect("no panic").courses;
        let extra = |course: &Course| {
            let first = course.first_ms.expect("a SYN");
            let answered = course.answered_ms.expect("an answer");
            answered.wrapping_sub(first) - course.remainder_ms
        };
        courses.values().map(extra).collect()
    }
}

impl Radio {
    /// The server asks for a connection to a port of this host, and never goes on.
    pub fn request(&self, port: u16) {
        let mut server = self.server.lock().expect("no panic");
        server.stood_still = Duration::ZERO;
        server.answers_ms.clear();
        // A new one: the last request goes on.
        server.port += 1;
        let packet = request(server.port, port);
        server.outgoing.push(packet);
    }

    /// When this host answered the server's request, milliseconds after its first answer.
    pub fn answers_ms(&self) -> Vec<u32> {
        let answers = &self.server.lock().expect("no panic").answers_ms;
        let first = answers.first().copied().unwrap_or(0);
        answers.iter().map(|at| at.wrapping_sub(first)).collect()
    }
}

fn device() -> Tun {
    for place in ["all", "default"] {
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{place}/disable_ipv6"), "1");
    }
    let tun = Tun::create("radio", 1500).expect("a device");
    let netlink = Netlink::route().expect("netlink");
    netlink
        .set_up(interface_index("lo").expect("loopback"))
        .expect("up");
    netlink.set_up(tun.index()).expect("up");
    netlink
        .add_address(tun.index(), CLIENT, 32)
        .expect("address");
    let route = Route {
        destination: SERVER,
        prefix_bits: 32,
        interface: tun.index(),
        source: Some(CLIENT),
        // Its initial window is the standard one.
        congestion_control: None,
    };
    netlink.add_route(&route).expect("route");
    tun
}

fn write(tun: &Tun, packet: &[u8]) {
    let header = [0; VNET_HEADER_BYTES];
    let parts = [IoSlice::new(&header), IoSlice::new(packet)];
    tun.write_vectored(&parts).expect("write");
}

fn read(tun: &Tun, server: &Shared, over: &AtomicBool) {
    let mut buffer = vec![0; 70_000];
    let mut looked = Instant::now();
    while !over.load(Ordering::Relaxed) {
        poll::wait(&[tun.as_fd()], &mut [false], Some(LOOK_NS)).expect("poll");
        let outgoing = {
            let mut server = server.lock().expect("no panic");
            server.stood_still = server.stood_still.max(looked.elapsed());
            looked = Instant::now();
            std::mem::take(&mut server.outgoing)
        };
        for packet in outgoing {
            write(tun, &packet);
        }
        while let Some(length) = tun.read(&mut buffer).expect("read") {
            let packet = &buffer[VNET_HEADER_BYTES..length];
            if let Some(answer) = answer(packet, &mut server.lock().expect("no panic")) {
                write(tun, &answer);
            }
        }
    }
}

/// The answer to a packet: to a SYN after its outage.
fn answer(packet: &[u8], server: &mut Server) -> Option<Vec<u8>> {
    let tcp = packet.get(IP_BYTES..)?;
    let flags = tcp.get(13)? & 0x3f;
    if packet[9] != TCP || flags & SYN == 0 {
        return None;
    }
    let now_ms = time_stamp_ms(&tcp[TCP_BYTES..])?;
    let port = u16::from_be_bytes([tcp[2], tcp[3]]);
    if flags == SYN_AND_ACK {
        if port == server.port {
            server.answers_ms.push(now_ms);
        }
        return None;
    }
    let course = server.courses.get_mut(&port)?;
    let first_ms = *course.first_ms.get_or_insert(now_ms);
    if now_ms.wrapping_sub(first_ms) < course.remainder_ms {
        return None;
    }
    course.answered_ms.get_or_insert(now_ms);
    Some(accepted(packet, tcp))
}

/// `TSval` among the options of a SYN (RFC 7323, 3.2).
fn time_stamp_ms(mut options: &[u8]) -> Option<u32> {
    loop {
        match *options {
            [8, 10, a, b, c, d, ..] => return Some(u32::from_be_bytes([a, b, c, d])),
            [1, ref rest @ ..] => options = rest,
            [_, length, ..] if length >= 2 => options = options.get(usize::from(length)..)?,
            _ => return None,
        }
    }
}

/// A SYN-ACK without options.
fn accepted(packet: &[u8], syn: &[u8]) -> Vec<u8> {
    let mut tcp = [0; TCP_BYTES];
    tcp[..2].copy_from_slice(&syn[2..4]);
    tcp[2..4].copy_from_slice(&syn[..2]);
    let sequence = u32::from_be_bytes([syn[4], syn[5], syn[6], syn[7]]);
    tcp[8..12].copy_from_slice(&sequence.wrapping_add(1).to_be_bytes());
    tcp[13] = SYN_AND_ACK;
    whole(&packet[16..20], &packet[12..16], &tcp)
}

/// A SYN with a time stamp, from the server to this host.
fn request(from: u16, to: u16) -> Vec<u8> {
    let mut tcp = [0; TCP_BYTES + 12];
    tcp[..2].copy_from_slice(&from.to_be_bytes());
    tcp[2..4].copy_from_slice(&to.to_be_bytes());
    tcp[13] = SYN;
    tcp[TCP_BYTES..TCP_BYTES + 8].copy_from_slice(&[1, 1, 8, 10, 0, 0, 0, 1]);
    let bytes = |address| match address {
        IpAddr::V4(address) => address.octets(),
        IpAddr::V6(_) => unreachable!("they are of IPv4"),
    };
    whole(&bytes(SERVER), &bytes(CLIENT), &tcp)
}

/// A packet with both checksums.
fn whole(from: &[u8], to: &[u8], tcp: &[u8]) -> Vec<u8> {
    let tcp_bytes = u8::try_from(tcp.len()).expect("short");
    let mut packet = vec![0; IP_BYTES];
    packet[0] = 0x45;
    packet[3] = tcp_bytes + 20;
    packet[8] = 64;
    packet[9] = TCP;
    packet[12..16].copy_from_slice(from);
    packet[16..20].copy_from_slice(to);
    let sum = checksum::checksum(&packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend(tcp);
    packet[IP_BYTES + 12] = (tcp_bytes / 4) << 4;
    packet[IP_BYTES + 14..IP_BYTES + 16].copy_from_slice(&u16::MAX.to_be_bytes());
    let mut covered = packet[12..].to_vec();
    covered.extend([0, TCP, 0, tcp_bytes]);
    let sum = checksum::checksum(&covered);
    packet[IP_BYTES + 16..IP_BYTES + 18].copy_from_slice(&sum.to_be_bytes());
    packet
}
