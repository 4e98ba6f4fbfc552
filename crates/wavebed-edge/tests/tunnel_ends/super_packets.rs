//! Packets that arrive together reach the host as super-packets, and whole.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};

use crate::end::End;
use crate::{PATIENCE, Setup, content, transfer};

/// Packets that an end has coalesced, and the super-packets that it made of them; a second old at most.
fn coalesced(end: &End) -> (u64, u64) {
    let state = end.state();
    let number = |key: &str| state[key].as_u64().expect("a number");
    (number("coalesced"), number("super_packets"))
}

/// Waits until an end has coalesced at least `packets` more than `before`.
fn must_coalesce(end: &End, before: u64, packets: u64) {
    let until = Instant::now() + Duration::from_secs(5);
    loop {
        let (found, super_packets) = coalesced(end);
        if found >= before + packets {
            assert!(super_packets > 0 && found >= 2 * super_packets);
            return;
        }
        assert!(Instant::now() < until, "{found} after {before}");
        thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_large_transfer_arrives_whole_in_super_packets() {
    let setup = Setup::new();
    setup.must_pass();
    // Some 23,000 packets.
    let bytes = 30_000_000;
    let got = transfer(&setup.left, &setup.right, "10.88.0.2", bytes);
    assert!(got == content(bytes));
    let (_, right) = setup.ends.as_ref().expect("running");
    must_coalesce(right, 0, 5000);
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
    must_coalesce(right, before, 500);
}

const DATAGRAM_BYTES: usize = 1000;

/// The numbers in datagrams until none comes for two seconds.
fn numbers(receiver: &UdpSocket) -> Vec<u32> {
    let limit = Some(Duration::from_secs(2));
    receiver.set_read_timeout(limit).expect("set");
    let mut arrived = Vec::new();
    let mut got = [0; 2 * DATAGRAM_BYTES];
    loop {
        match receiver.recv(&mut got) {
            Ok(length) => {
                assert_eq!(length, DATAGRAM_BYTES, "each datagram by itself");
                let number = got[..4].try_into().expect("four bytes");
                arrived.push(u32::from_be_bytes(number));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return arrived,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Sends numbered datagrams in bursts; the numbers that arrive.
fn datagrams(setup: &Setup, bursts: u32, burst: u32) -> Vec<u32> {
    let to = ("10.88.0.2", 5001);
    let receiver = setup
        .right
        .run(move || UdpSocket::bind(to).expect("a socket"));
    let reader = thread::spawn(move || numbers(&receiver));
    let sender = setup
        .left
        .run(|| UdpSocket::bind("0.0.0.0:0").expect("a socket"));
    setup.left.run(move || {
        sender.connect(to).expect("connected");
        let mut datagram = [0; DATAGRAM_BYTES];
        for number in 0..bursts * burst {
            datagram[..4].copy_from_slice(&number.to_be_bytes());
            sender.send(&datagram).expect("sent");
            if (number + 1) % burst == 0 {
                thread::sleep(Duration::from_millis(20));
            }
        }
    });
    reader.join().expect("read")
}

#[test]
fn datagrams_arrive_each_by_itself_and_in_order_when_they_were_coalesced() {
    let setup = Setup::new();
    setup.must_pass();
    let (_, right) = setup.ends.as_ref().expect("running");
    let before = coalesced(right).0;
    let arrived = datagrams(&setup, 50, 20);
    assert!(arrived.is_sorted(), "{arrived:?}");
    assert!(arrived.len() > 900, "{} of 1000", arrived.len());
    must_coalesce(right, before, 100);
    assert!(setup.passes(PATIENCE));
}
