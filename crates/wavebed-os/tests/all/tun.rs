//! TUN devices in a network namespace of the test's own thread. Root is needed.

use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use wavebed_os::interface::Route;
use wavebed_os::namespace::NetworkNamespace;
use wavebed_os::netlink::Netlink;
use wavebed_os::tun::{TX_QUEUE_PACKETS, Tun, VNET_HEADER_BYTES};

const OURS: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 18, 0, 1));
const THEIRS: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 18, 0, 2));

/// Runs `body` on a thread in a new network namespace, with a device that leads to `THEIRS`.
fn with_device(body: impl FnOnce(Tun) + Send + 'static) {
    let work = move || {
        NetworkNamespace::new().expect("root is needed");
        // No packet of the host's own may come between.
        for place in ["all", "default"] {
            let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{place}/disable_ipv6"), "1");
        }
        let tun = Tun::create("wb0", 1500).expect("a device");
        let netlink = Netlink::route().expect("netlink");
        netlink.set_up(tun.index()).expect("up");
        netlink.add_address(tun.index(), OURS, 32).expect("address");
        let route = Route {
            destination: THEIRS,
            prefix_bits: 32,
            interface: tun.index(),
            source: Some(OURS),
            congestion_control: None,
        };
        netlink.add_route(&route).expect("route");
        assert!(
            netlink.add_route(&route).is_err(),
            "a prefix is claimed once"
        );
        body(tun);
    };
    thread::spawn(work).join().expect("the test's thread");
}

#[test]
fn packets_of_the_host_can_be_read_and_answered() {
    with_device(|tun| {
        let mut buffer = vec![0; 70_000];
        let socket = UdpSocket::bind((OURS, 1000)).expect("socket");
        socket.send_to(b"hello", (THEIRS, 2000)).expect("send");
        let length = tun.read(&mut buffer).expect("read").expect("a packet");
        assert_eq!(length, VNET_HEADER_BYTES + 20 + 8 + 5);
        let packet = &mut buffer[VNET_HEADER_BYTES..length];
        assert_eq!(
            (packet[0], packet[9], &packet[28..]),
            (0x45, 17, &b"hello"[..])
        );
        // Back to where it came from: both checksums survive the exchange of addresses and ports.
        let (source, destination) = (packet[12..16].to_vec(), packet[16..20].to_vec());
        packet[12..16].copy_from_slice(&destination);
        packet[16..20].copy_from_slice(&source);
        let (from, to) = (packet[20..22].to_vec(), packet[22..24].to_vec());
        packet[20..22].copy_from_slice(&to);
        packet[22..24].copy_from_slice(&from);
        let header = buffer[..VNET_HEADER_BYTES].to_vec();
        let parts = [
            IoSlice::new(&header),
            IoSlice::new(&buffer[VNET_HEADER_BYTES..length]),
        ];
        assert_eq!(tun.write_vectored(&parts).expect("write"), length);
        let mut text = [0; 16];
        let (count, peer) = socket.recv_from(&mut text).expect("receive");
        assert_eq!(
            (&text[..count], peer),
            (&b"hello"[..], (THEIRS, 2000).into())
        );
    });
}

#[test]
fn losses_of_a_late_reader_are_counted() {
    with_device(|tun| {
        let mut buffer = vec![0; 70_000];
        let before = tun.losses().expect("counters").tx_dropped;
        let socket = UdpSocket::bind((OURS, 1000)).expect("socket");
        let sent = u64::from(TX_QUEUE_PACKETS) + 500;
        for _ in 0..sent {
            // The socket may report drops of the device as errors; that is part of the test.
            let _ = socket.send_to(b"x", (THEIRS, 2000));
        }
        let lost = tun.losses().expect("counters").tx_dropped - before;
        let mut read = 0;
        while tun.read(&mut buffer).expect("read").is_some() {
            read += 1;
        }
        assert_eq!(read + lost, sent, "every packet was read or counted");
        assert!(lost > 0, "the queue is not endless");
    });
}

#[test]
fn a_device_ends_with_its_value_or_stays_with_its_namespace() {
    with_device(|tun| {
        drop(tun);
        // A program that another test starts holds a copy of every descriptor until it runs.
        let deadline = Instant::now() + Duration::from_secs(60);
        while wavebed_os::netlink::interface_index("wb0").is_ok() {
            assert!(Instant::now() < deadline, "the device outlived its value");
            thread::yield_now();
        }
        let kept = Tun::create("wb0", 1500).expect("the name is free again");
        kept.leave_to_namespace().expect("keep");
        drop(kept);
        assert!(wavebed_os::netlink::interface_index("wb0").is_ok());
    });
}

#[test]
fn a_long_queue_and_mtu_are_set_and_multicast_is_not() {
    with_device(|tun| {
        let output = std::process::Command::new("ip")
            .args(["link", "show", "wb0"])
            .output()
            .expect("ip");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            text.contains("mtu 1500") && text.contains("qlen 10000"),
            "{text}"
        );
        assert!(!text.contains("MULTICAST"), "{text}");
        assert_eq!((tun.name(), tun.mtu()), ("wb0", 1500));
    });
}
