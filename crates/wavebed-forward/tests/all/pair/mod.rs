//! Two interfaces joined back to back, in a network namespace of the test's own thread. Root is needed.

use std::thread;
use std::time::{Duration, Instant};

use wavebed_forward::account::FrameCounters;
use wavebed_forward::frame::{FrameSpec, Frames, Range};
use wavebed_forward::receiver::Receiver;
use wavebed_os::namespace::NetworkNamespace;
use wavebed_os::netlink::{Netlink, interface_index};

/// Runs `body` where `left` and `right` are the two ends.
pub fn with_pair(body: impl FnOnce() + Send + 'static) {
    let work = move || {
        NetworkNamespace::new().expect("root is needed");
        // No frame of the host's own may come between.
        for place in ["all", "default"] {
            let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{place}/disable_ipv6"), "1");
        }
        add_pair("left", "right");
        body();
    };
    thread::spawn(work).join().expect("the test's thread");
}

/// Makes a pair and sets both ends up.
pub fn add_pair(one: &str, other: &str) {
    let netlink = Netlink::route().expect("netlink");
    netlink.add_veth(one, other).expect("a veth pair");
    for name in [one, other] {
        netlink
            .set_up(interface_index(name).expect("the interface"))
            .expect("up");
    }
}

/// IPv4 frames of these sizes with FCS.
pub fn spec(flows: u16, sizes_bytes: &[u16]) -> FrameSpec {
    let address = |text: &str| Range {
        first: text.parse().expect("an address"),
        count: 1,
    };
    let ports = Range {
        first: 49_152,
        count: 64,
    };
    FrameSpec {
        sizes_bytes: sizes_bytes.to_vec(),
        source_mac: [2, 0, 0, 0, 0, 1],
        destination_mac: [2, 0, 0, 0, 0, 2],
        vlan: None,
        pppoe_session: None,
        sources: address("198.18.0.2"),
        destinations: address("198.19.0.2"),
        source_ports: ports,
        destination_ports: ports,
        flows,
    }
}

/// The same in IPv6.
pub fn spec_v6(flows: u16, sizes_bytes: &[u16]) -> FrameSpec {
    let address = |text: &str| Range {
        first: text.parse().expect("an address"),
        count: 1,
    };
    FrameSpec {
        sources: address("2001:2::2"),
        destinations: address("2001:2:0:1::2"),
        ..spec(flows, sizes_bytes)
    }
}

/// Their table.
pub fn frames(spec: &FrameSpec) -> Frames {
    Frames::new(spec).expect("a specification")
}

/// How many frames the counters hold.
pub fn total(counters: &FrameCounters) -> u64 {
    counters.unique
        + counters.duplicates
        + counters.stale
        + counters.other_trial
        + counters.damaged
        + counters.foreign
}

/// Waits until the counters hold `count` frames, and a moment more; a minute at most.
pub fn counters_of(receiver: &mut impl Receiver, count: u64) -> FrameCounters {
    let end = Instant::now() + Duration::from_secs(60);
    while total(&receiver.counters().expect("counters")) < count && Instant::now() < end {
        thread::sleep(Duration::from_millis(2));
    }
    thread::sleep(Duration::from_millis(10));
    receiver.counters().expect("counters")
}
