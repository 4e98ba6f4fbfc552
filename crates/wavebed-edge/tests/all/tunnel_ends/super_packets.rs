//! Packets that arrive together reach the host as super-packets, and whole.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};

use crate::tunnel_ends::end::End;
use crate::tunnel_ends::{PATIENCE, Setup, content, transfer};

/// Packets that an end has coalesced, and the super-packets that it made of them.
fn coalesced(end: &End) -> (u64, u64) {
    let state = end.new_state();
    let number = |key: &str| state[key].as_u64().expect("a number");
    (number("coalesced"), number("super_packets"))
}

/// Whether an end has coalesced at least `packets` more than `before`.
fn coalesces(end: &End, before: u64, packets: u64) -> bool {
    let (found, super_packets) = coalesced(end);
    assert!(found >= 2 * super_packets);
    found >= before + packets && super_packets > 0
}

#[test]
fn a_large_transfer_arrives_whole_in_super_packets() {
    let setup = Setup::new();
    setup.must_pass();
    // Some 7700 packets.
    let bytes = 10_000_000;
    let got = transfer(&setup.left, &setup.right, "10.88.0.2", bytes);
    assert!(got == content(bytes));
    let (_, right) = setup.ends.as_ref().expect("running");
    assert!(coalesces(right, 0, 1000));
}

#[test]
fn a_transfer_over_ipv6_arrives_whole_in_super_packets() {
    let setup = Setup::new();
    setup.must_pass();
    for (host, last) in [(&setup.left, 1), (&setup.right, 2)] {
        host.command(&format!("ip address add fd00:88::{last}/64 dev wbt0 nodad"));
    }
    let (_, right) = setup.ends.as_ref().expect("running");
    let before = coalesced(right).0;
    let bytes = 5_000_000;
    let got = transfer(&setup.left, &setup.right, "fd00:88::2", bytes);
    assert!(got == content(bytes));
    assert!(coalesces(right, before, 500));
}

const DATAGRAM_BYTES: usize = 1000;
const BURSTS: u32 = 10;
const BURST: u32 = 20;

/// The numbers in datagrams, until the last number or a second without any.
fn numbers(receiver: &UdpSocket) -> Vec<u32> {
    let limit = Some(Duration::from_secs(1));
    receiver.set_read_timeout(limit).expect("set");
    let mut arrived = Vec::new();
    let mut got = [0; 2 * DATAGRAM_BYTES];
    while arrived.last() != Some(&(BURSTS * BURST - 1)) {
        match receiver.recv(&mut got) {
            Ok(length) => {
                assert_eq!(length, DATAGRAM_BYTES, "each datagram by itself");
                let number = got[..4].try_into().expect("four bytes");
                arrived.push(u32::from_be_bytes(number));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => panic!("{error}"),
        }
    }
    arrived
}

/// Sends numbered datagrams in bursts.
fn send(setup: &Setup, to: (&'static str, u16)) {
    setup.left.run(move || {
        let sender = UdpSocket::bind("0.0.0.0:0").expect("a socket");
        sender.connect(to).expect("connected");
        let mut datagram = [0; DATAGRAM_BYTES];
        for number in 0..BURSTS * BURST {
            datagram[..4].copy_from_slice(&number.to_be_bytes());
            sender.send(&datagram).expect("sent");
            if (number + 1) % BURST == 0 {
                thread::sleep(Duration::from_millis(20));
            }
        }
    });
}

/// A queue drops datagrams where the machine lets an end wait for long, so there is more than one try.
#[test]
fn datagrams_arrive_each_by_itself_and_in_order_when_they_were_coalesced() {
    let setup = Setup::new();
    setup.must_pass();
    let (_, right) = setup.ends.as_ref().expect("running");
    let until = Instant::now() + PATIENCE;
    for port in 5001.. {
        let to = ("10.88.0.2", port);
        let receiver = setup
            .right
            .run(move || UdpSocket::bind(to).expect("a socket"));
        let before = coalesced(right).0;
        let reader = thread::spawn(move || numbers(&receiver));
        send(&setup, to);
        let arrived = reader.join().expect("read");
        assert!(arrived.is_sorted(), "{arrived:?}");
        let all = arrived.len() == usize::try_from(BURSTS * BURST).expect("few");
        if all && coalesces(right, before, BURST.into()) {
            return;
        }
        assert!(Instant::now() < until, "{arrived:?}");
    }
}
