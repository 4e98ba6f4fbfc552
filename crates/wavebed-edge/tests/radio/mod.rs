//! A server behind a radio in an outage: a TUN device and its reader.

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

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

/// A connection: the remainder of its outage, the time of its first SYN, and of the one that was answered, milliseconds.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_field_names, reason = "numbers have their unit")]
struct Course {
    remainder_ms: u32,
    first_ms: Option<u32>,
    answered_ms: Option<u32>,
}

type Courses = Arc<Mutex<BTreeMap<u16, Course>>>;

/// The radio, in a network namespace of the test's thread.
pub struct Radio {
    courses: Courses,
    first_port: AtomicU16,
}

impl Radio {
    /// Runs `test` in a new network namespace with a radio.
    pub fn run(test: impl FnOnce(&Self) + Send + 'static) {
        let work = move || {
            NetworkNamespace::new().expect("root is needed");
            let tun = device();
            let courses = Courses::default();
            let over = Arc::new(AtomicBool::new(false));
            let reader = {
                let (courses, over) = (Arc::clone(&courses), Arc::clone(&over));
                thread::spawn(move || read(&tun, &courses, &over))
            };
            let radio = Self {
                courses,
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
        let mut courses = self.courses.lock().expect("no panic");
        courses.clear();
        for (port, &remainder_ms) in (first..).zip(remainders_ms) {
            let course = Course {
                remainder_ms,
                ..Course::default()
            };
            courses.insert(port, course);
        }
    }

    /// The port of connection `number`.
    pub fn port(&self, number: usize) -> u16 {
        self.first_port.load(Ordering::Relaxed) + u16::try_from(number).expect("few")
    }

    /// How much later than the end of its outage the answered SYN of each connection was sent, milliseconds.
    pub fn extras_ms(&self) -> Vec<u32> {
        let courses = self.courses.lock().expect("no panic");
        let extra = |course: &Course| {
            let first = course.first_ms.expect("a SYN");
            let answered = course.answered_ms.expect("an answer");
            answered.wrapping_sub(first) - course.remainder_ms
        };
        courses.values().map(extra).collect()
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

fn read(tun: &Tun, courses: &Courses, over: &AtomicBool) {
    let mut buffer = vec![0; 70_000];
    while !over.load(Ordering::Relaxed) {
        poll::wait(&[tun.as_fd()], &mut [false], Some(LOOK_NS)).expect("poll");
        while let Some(length) = tun.read(&mut buffer).expect("read") {
            let packet = &buffer[VNET_HEADER_BYTES..length];
            if let Some(answer) = answer(packet, courses) {
                let header = [0; VNET_HEADER_BYTES];
                let parts = [IoSlice::new(&header), IoSlice::new(&answer)];
                tun.write_vectored(&parts).expect("write");
            }
        }
    }
}

/// The answer to a packet: to a SYN after its outage.
fn answer(packet: &[u8], courses: &Courses) -> Option<Vec<u8>> {
    let tcp = packet.get(IP_BYTES..)?;
    if packet[9] != TCP || tcp[13] & 0x3f != SYN {
        return None;
    }
    let now_ms = time_stamp_ms(&tcp[TCP_BYTES..])?;
    let mut courses = courses.lock().expect("no panic");
    let course = courses.get_mut(&u16::from_be_bytes([tcp[2], tcp[3]]))?;
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
    let mut answer = vec![0; IP_BYTES + TCP_BYTES];
    answer[0] = 0x45;
    answer[3] = 40;
    answer[8] = 64;
    answer[9] = TCP;
    answer[12..16].copy_from_slice(&packet[16..20]);
    answer[16..20].copy_from_slice(&packet[12..16]);
    let sum = checksum::checksum(&answer[..IP_BYTES]);
    answer[10..12].copy_from_slice(&sum.to_be_bytes());
    let tcp = &mut answer[IP_BYTES..];
    tcp[..2].copy_from_slice(&syn[2..4]);
    tcp[2..4].copy_from_slice(&syn[..2]);
    let sequence = u32::from_be_bytes([syn[4], syn[5], syn[6], syn[7]]);
    tcp[8..12].copy_from_slice(&sequence.wrapping_add(1).to_be_bytes());
    tcp[12] = 5 << 4;
    tcp[13] = SYN_AND_ACK;
    tcp[14..16].copy_from_slice(&u16::MAX.to_be_bytes());
    let mut covered = answer[12..IP_BYTES].to_vec();
    covered.extend([0, TCP, 0, 20]);
    covered.extend(&answer[IP_BYTES..]);
    let sum = checksum::checksum(&covered);
    answer[IP_BYTES + 16..IP_BYTES + 18].copy_from_slice(&sum.to_be_bytes());
    answer
}
