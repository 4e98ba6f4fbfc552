//! Paths that carry less than the tunnel's packets of full size, and do not say so.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::tunnel_ends::address_changes::THREADS;
use crate::tunnel_ends::end::End;
use crate::tunnel_ends::flow::watch_lateness;
use crate::tunnel_ends::host::{Host, routed};
use crate::tunnel_ends::{PATIENCE, Setup, content, transfer};

/// A packet of the device's MTU, 1360 bytes, which may be fragmented (`dont`, `want`) or not (`do`).
const FULL: &str = "-s 1332 10.88.0.1";
/// What IP packets of 1300 bytes carry: 28 of UDP and IPv4, 38 that QUIC keeps free, 9 of the tunnel.
/// The interface takes 4 bytes more than its MTU, a VLAN tag, from the right.
const MOST: u64 = 1300 - 28 - 38 - 9 + 4;
/// Discovery stops when it is so near; quinn's minimum change, and its rounding.
const NEAR: u64 = 34;
/// Until traffic goes on after the path has shrunk, on a machine that does nothing else.
const RECOVERY: Duration = Duration::from_secs(10);

fn narrow(router: &Host) {
    narrow_to(router, 1300);
}

fn narrow_to(router: &Host, mtu: u16) {
    // An interface also drops what it receives beyond its MTU.
    router.command(&format!("ip link set far mtu {mtu}"));
}

fn state(end: &End, field: &str) -> u64 {
    end.new_state()[field].as_u64().expect("a number")
}

fn is_found(path_mtu: u64) -> bool {
    (MOST - NEAR..=MOST).contains(&path_mtu)
}

#[test]
fn a_path_that_is_too_narrow_for_the_devices_mtu_is_found_and_hosts_adapt() {
    let (left, router, right) = routed();
    narrow(&router);
    let setup = Setup::between((left, right));
    setup.must_pass();
    let start = Instant::now();
    let bytes = 2_000_000;
    let up = transfer(&setup.right, &setup.left, "10.88.0.1", bytes);
    println!("up, from the first ping on: {:?}", start.elapsed());
    let start = Instant::now();
    let down = transfer(&setup.left, &setup.right, "10.88.0.2", bytes);
    println!("down: {:?}", start.elapsed());
    assert!(up == content(bytes) && down == content(bytes));
    let (left, right) = setup.ends.as_ref().expect("running");
    for end in [left, right] {
        let path_mtu = state(end, "path_mtu");
        println!("path MTU {path_mtu}: {}", end.state());
        assert!(is_found(path_mtu), "{path_mtu}");
        assert!(state(end, "too_large") > 0);
    }
    let ping = |how| {
        setup
            .right
            .succeeds(&format!("ping -c 1 -W 40 -M {how} {FULL}"))
    };
    assert!(!ping("do"), "the host knows the path's MTU");
    setup.right.command("ip route flush cache");
    assert!(ping("dont"), "the tunnel fragments");
    assert!(state(right, "fragmented") > 0);
}

/// Sends `bytes` to 10.88.0.2 and calls `change` when a quarter has arrived; what arrived, and the longest time after
/// that without any.
fn transfer_over(setup: &Setup, bytes: usize, change: impl FnOnce()) -> (Vec<u8>, Duration) {
    let at = ("10.88.0.2", 5001);
    let listener = setup
        .right
        .run(move || TcpListener::bind(at).expect("a socket"));
    let (tell, told) = std::sync::mpsc::channel();
    let reader = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        let (mut got, mut part) = (Vec::new(), vec![0; 1 << 16]);
        let (mut last, mut gap) = (None, Duration::ZERO);
        loop {
            let count = stream.read(&mut part).expect("in time");
            got.extend(&part[..count]);
            if got.len() > bytes / 4 {
                let before = last.replace(Instant::now());
                gap = gap.max(before.map_or(Duration::ZERO, |before| before.elapsed()));
                let _ = tell.send(());
            }
            if count == 0 {
                return (got, gap);
            }
        }
    });
    let writer = setup.left.run(move || {
        let mut stream = TcpStream::connect(at).expect("connected");
        thread::spawn(move || {
            stream.set_write_timeout(Some(PATIENCE)).expect("set");
            stream.write_all(&content(bytes)).expect("sent");
        })
    });
    told.recv().expect("a quarter has arrived");
    change();
    writer.join().expect("sent");
    reader.join().expect("read")
}

#[test]
fn traffic_goes_on_after_a_path_has_shrunk() {
    shrink(PATIENCE);
}

#[test]
#[ignore = "judges times of this machine"]
fn a_path_that_shrinks_stops_traffic_for_ten_seconds_at_most() {
    shrink(RECOVERY);
}

fn shrink(recovery: Duration) {
    let (left, router, right) = routed();
    let setup = Setup::between((left, right));
    setup.must_pass();
    let bytes = 8_000_000;
    let late = watch_lateness();
    let (down, gap) = transfer_over(&setup, bytes, || narrow(&router));
    let late = late();
    assert!(down == content(bytes));
    assert!(gap < recovery + THREADS * late, "{gap:?}, {late:?} late");
    let late = watch_lateness();
    let start = Instant::now();
    let up = transfer(&setup.right, &setup.left, "10.88.0.1", 500_000);
    let (took, late) = (start.elapsed(), late());
    assert!(up == content(500_000));
    assert!(took < recovery + THREADS * late, "{took:?}, {late:?} late");
    // The first transfer may have ended before the path shrank: an end finds out by what it sends.
    assert!(transfer(&setup.left, &setup.right, "10.88.0.2", 500_000) == content(500_000));
    let (left, right) = setup.ends.as_ref().expect("running");
    for end in [left, right] {
        assert!(is_found(state(end, "path_mtu")), "{}", end.state());
    }
}

#[test]
fn a_host_with_ipv6_adapts_to_a_path_that_is_too_narrow() {
    let (left, router, right) = routed();
    // At least 1355 bytes, for the least MTU of IPv6.
    narrow_to(&router, 1400);
    let setup = Setup::between((left, right));
    setup.must_pass();
    for (host, last) in [(&setup.left, 1), (&setup.right, 2)] {
        host.command(&format!("ip address add fd88::{last}/64 dev wbt0 nodad"));
    }
    let ping = |how| {
        let words = format!("ping -6 -c 1 -W 1 -M {how} -s 1312 fd88::1");
        setup.right.succeeds(&words)
    };
    let start = Instant::now();
    while !ping("want") {
        assert!(start.elapsed() < PATIENCE, "no ping passes");
    }
    println!("after {:?}", start.elapsed());
    assert!(!ping("do"), "the host knows the path's MTU");
    let (_, right) = setup.ends.as_ref().expect("running");
    assert!(state(right, "path_mtu") >= 1280);
    assert!(state(right, "too_large") > 0);
}

#[test]
fn pings_alone_find_that_a_path_has_shrunk() {
    let (left, router, right) = routed();
    let setup = Setup::between((left, right));
    setup.must_pass();
    let ping = |seconds: u64| {
        setup
            .right
            .succeeds(&format!("ping -c 1 -W {seconds} -M want {FULL}"))
    };
    let patience_s = PATIENCE.as_secs();
    assert!(ping(patience_s), "the path carries full packets");
    // Longer than the tests of a new path.
    thread::sleep(Duration::from_secs(3));
    narrow(&router);
    let start = Instant::now();
    while !ping(1) {
        assert!(start.elapsed() < PATIENCE, "no ping passes");
    }
    println!("after {:?}", start.elapsed());
}
