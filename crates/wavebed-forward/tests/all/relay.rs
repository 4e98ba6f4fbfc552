//! The relay between two cables: `left` to `in`, and `out` to `right`.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::cable::{in_namespace, ip, job, mac, make_pair, spec};
use wavebed_forward::account::FrameCounters;
use wavebed_forward::frame::{FrameSpec, Frames};
use wavebed_forward::receiver::Receiver;
use wavebed_forward::relay::{Relay, RelayCounts, Side};
use wavebed_forward::rx_ring::RxRing;
use wavebed_forward::sender::{Job, Sender, Sent};
use wavebed_forward::sendmmsg::Sendmmsg;
use wavebed_os::clock::monotonic_ns;
use wavebed_os::namespace::NetworkNamespace;
use wavebed_os::sched;

const LEFT: [u8; 6] = [2, 0, 0, 0, 0, 0x11];
const RIGHT: [u8; 6] = [2, 0, 0, 0, 0, 0x22];
/// How long what must happen may take: the relay may stand still for seconds where others run.
const PATIENCE: Duration = Duration::from_secs(60);

fn relay(delay: Duration) -> Relay {
    let sides = [("in", LEFT), ("out", RIGHT)];
    let sides = sides.map(|(interface, next_mac)| Side {
        interface,
        next_mac,
    });
    Relay::open(sides, delay).expect("a relay")
}

/// Runs `body` beside a relay.
fn with_relay(delay: Duration, body: impl FnOnce() + Send + 'static) {
    in_namespace(move || {
        make_pair("left", "in");
        make_pair("out", "right");
        beside(relay(delay), !delay.is_zero(), body);
    });
}

/// Runs `body` beside `relay`, and answers what the relay has counted. `first`: no other program goes before the relay, which
/// is the only way to keep time where others run.
fn beside(mut relay: Relay, first: bool, body: impl FnOnce()) -> RelayCounts {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let relaying = scope.spawn(|| {
            if first {
                // Without the right to that it tries as it is.
                let _ = sched::place_thread(0, 0, Some(1));
            }
            relay.run(&stop)
        });
        let guard = StopAtEnd(&stop);
        body();
        drop(guard);
        relaying.join().expect("the relay").expect("no fault")
    })
}

/// Stops the relay even if the test fails.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Sends from one end to the other, with a pace, and waits for what is still on the way: on a loaded machine the relay may
/// be late, but it loses nothing.
fn cross(from: &str, to: &str, spec: &FrameSpec, job: &Job, coming: u64) -> (Sent, FrameCounters) {
    let frames = Frames::new(spec).expect("a good specification");
    let mut receiver = RxRing::open(to).expect("receiver");
    receiver.start_trial(&frames, job.trial, 3).expect("open");
    let later_ns = monotonic_ns() - job.start_ns;
    let job = Job {
        start_ns: job.start_ns + later_ns,
        deadline_ns: job.deadline_ns + later_ns,
        ..job.clone()
    };
    let sent = Sendmmsg::open(from)
        .and_then(|mut sender| sender.send(&frames, &job, &AtomicBool::new(false)))
        .expect("send");
    let end = Instant::now() + PATIENCE;
    loop {
        thread::sleep(Duration::from_millis(50));
        let counters = receiver.counters().expect("counters");
        if counters.unique >= coming || Instant::now() > end {
            return (sent, counters);
        }
    }
}

#[test]
fn frames_cross_both_ways_with_new_addresses_and_one_hop_less() {
    with_relay(Duration::ZERO, || {
        for (from, to, via, next) in [
            ("left", "right", "in", RIGHT),
            ("right", "left", "out", LEFT),
        ] {
            for v6 in [false, true] {
                let mut spec = spec(v6, &[84, 1518]);
                spec.destination_mac = mac(via);
                let (sent, counters) =
                    cross(from, to, &spec, &job(1, 2000, Some(20_000.0), 4), 2000);
                assert_eq!(
                    (sent.frames, counters.unique, counters.reordered),
                    (2000, 2000, 0),
                    "{counters:?}"
                );
                let others =
                    counters.duplicates + counters.damaged + counters.stale + counters.foreign;
                assert_eq!(others, 0, "{counters:?}");
                assert_eq!(
                    counters.sizes.into_iter().collect::<Vec<_>>(),
                    [(84, 1000), (1518, 1000)]
                );
                let leaving = if via == "in" { mac("out") } else { mac("in") };
                // As it was written, but for the addresses, the hop and, in IPv4, the checksum of the header.
                let mut expected = [0; 1514];
                let seen = bytes(&counters.sample[0].hex);
                let stamp = wavebed_forward::frame::read(&seen)
                    .expect("a test frame")
                    .stamp;
                let frames = Frames::new(&spec).expect("a good specification");
                frames.write(0, 1, stamp.time_ns, &mut expected);
                expected[..6].copy_from_slice(&next);
                expected[6..12].copy_from_slice(&leaving);
                if v6 {
                    expected[21] -= 1;
                } else {
                    expected[22] -= 1;
                    expected[24] += 1;
                }
                assert_eq!(seen, expected[..seen.len()], "from {from}, IPv6 {v6}");
            }
        }
    });
}

#[test]
fn what_is_addressed_to_others_stays_and_is_counted() {
    in_namespace(|| {
        make_pair("left", "in");
        make_pair("out", "right");
        let counts = beside(relay(Duration::ZERO), false, || {
            let mut spec = spec(false, &[64]);
            spec.destination_mac = [2, 9, 9, 9, 9, 9];
            let (_, counters) = cross("left", "right", &spec, &job(1, 50, Some(5000.0), 1), 0);
            assert_eq!((counters.unique, counters.foreign), (0, 0));
            // One that crosses behind them: then the relay has seen them all.
            spec.destination_mac = mac("in");
            let (_, counters) = cross("left", "right", &spec, &job(2, 1, None, 1), 1);
            assert_eq!((counters.unique, counters.other_trial), (1, 0));
            assert_eq!(counters.foreign, 0, "{counters:?}");
        });
        assert_eq!((counts.forwarded, counts.ignored), (1, 50));
    });
}

/// No frame is early, and the fastest is at most 200 µs late. On a processor of its own the median is within 5 µs (measured
/// with 0.1 and 1 ms); where others run, most frames are late by what the others took.
#[test]
fn a_delay_is_kept() {
    with_relay(Duration::from_millis(3), || {
        let mut spec = spec(false, &[64]);
        spec.destination_mac = mac("in");
        let (sent, counters) = cross("left", "right", &spec, &job(0, 5000, Some(5000.0), 1), 5000);
        assert_eq!(
            (sent.frames, counters.unique, counters.reordered),
            (5000, 5000, 0)
        );
        let least_ns = counters.latency_min_ns.expect("frames");
        assert!((3_000_000..=3_200_000).contains(&least_ns), "{least_ns} ns");
    });
}

/// A connection brings checksums that the interface is to complete, and super-packets.
#[test]
fn a_connection_with_all_offloads_crosses() {
    in_namespace(|| {
        make_pair("left", "in");
        make_pair("out", "right");
        let (left, right) = (mac("left"), mac("right"));
        let ends = [
            ("left", "198.18.0", mac("in")),
            ("right", "198.18.1", mac("out")),
        ];
        let [client, server] =
            ends.map(|(interface, net, via)| Elsewhere::with(interface, net, via));
        let sides = [("in", left), ("out", right)];
        let sides = sides.map(|(interface, next_mac)| Side {
            interface,
            next_mac,
        });
        for interface in ["in", "out"] {
            ip(&format!("link set {interface} up"));
        }
        let relay = Relay::open(sides, Duration::ZERO).expect("a relay");
        let counts = beside(relay, false, || {
            let (listening, heard) = mpsc::channel();
            let serving = server.run(move || {
                let listener = TcpListener::bind("198.18.1.2:5000").expect("listen");
                listening.send(()).expect("the test");
                let (mut stream, _) = listener.accept().expect("accept");
                let mut text = Vec::new();
                stream.read_to_end(&mut text).expect("read");
                stream.write_all(b"thanks").expect("write");
                text
            });
            heard.recv_timeout(PATIENCE).expect("a listener");
            let text: Vec<u8> = (0..20_000_000_u32).map(|n| (n % 251) as u8).collect();
            let sent = text.clone();
            let asking = client.run(move || {
                let address = "198.18.1.2:5000".parse().expect("an address");
                let mut stream = TcpStream::connect_timeout(&address, PATIENCE).expect("connect");
                stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
                stream.set_write_timeout(Some(PATIENCE)).expect("a limit");
                stream.write_all(&sent).expect("write");
                stream.shutdown(std::net::Shutdown::Write).expect("end");
                let mut answer = String::new();
                stream.read_to_string(&mut answer).expect("read");
                answer
            });
            assert_eq!(asking.join().expect("the client"), "thanks");
            assert!(
                serving.join().expect("the server") == text,
                "what came is what was sent"
            );
        });
        // 20 MB in frames of 1.5 kB would be 13 800: it were super-packets.
        assert!((1..10_000).contains(&counts.forwarded), "{counts:?}");
    });
}

/// A network namespace with one end of a cable.
struct Elsewhere(Arc<NetworkNamespace>);

impl Elsewhere {
    /// Takes `interface` there, with the address NET.2 and all routes by NET.1, which is at `via`.
    fn with(interface: &'static str, net: &'static str, via: [u8; 6]) -> Self {
        let (send, receive) = mpsc::channel();
        let (go, wait) = mpsc::channel();
        let there = thread::spawn(move || {
            let namespace = NetworkNamespace::new().expect("root is needed");
            let path = std::fs::canonicalize("/proc/thread-self").expect("/proc");
            send.send(path).expect("the test");
            wait.recv().expect("the test");
            let via = wavebed_forward::frame::mac_text(via);
            ip(&format!("address add {net}.2/24 dev {interface}"));
            ip(&format!("link set {interface} arp on up"));
            ip(&format!(
                "neighbour add {net}.1 lladdr {via} dev {interface}"
            ));
            ip(&format!("route add default via {net}.1"));
            namespace
        });
        let path = receive.recv().expect("a namespace");
        ip(&format!(
            "link set {interface} netns {}/ns/net",
            path.display()
        ));
        go.send(()).expect("the thread");
        Self(Arc::new(there.join().expect("a namespace")))
    }

    /// Runs `body` there.
    fn run<T: Send + 'static>(
        &self,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> thread::JoinHandle<T> {
        let namespace = Arc::clone(&self.0);
        thread::spawn(move || {
            namespace.enter().expect("enter");
            body()
        })
    }
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2)
        .map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).expect("hexadecimal"))
        .collect()
}
