//! A pair of interfaces in a network namespace of the test's own thread. Root is needed: without it the test fails.

use std::net::IpAddr;
use std::process::Command;
use std::thread;

use wavebed_forward::frame::{FrameSpec, Frames, Range};
use wavebed_forward::pace::interval_q32;
use wavebed_forward::sender::Job;
use wavebed_os::clock::monotonic_ns;
use wavebed_os::namespace::NetworkNamespace;

/// Runs `body` on a thread in a new network namespace, with the interfaces `left` and `right`, two ends of one cable.
pub fn with_pair(left: &'static str, right: &'static str, body: impl FnOnce() + Send + 'static) {
    in_namespace(move || {
        make_pair(left, right);
        body();
    });
}

/// Runs `body` on a thread in a new network namespace where IPv6 is off, so that no packet of the host's own comes between.
pub fn in_namespace(body: impl FnOnce() + Send + 'static) {
    let work = move || {
        NetworkNamespace::new().expect("root is needed");
        for place in ["all", "default"] {
            let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{place}/disable_ipv6"), "1");
        }
        body();
    };
    thread::spawn(work).join().expect("the test's thread");
}

/// Two ends of one cable, up.
pub fn make_pair(left: &str, right: &str) {
    ip(&format!("link add {left} type veth peer name {right}"));
    for end in [left, right] {
        ip(&format!("link set {end} arp off up"));
    }
}

/// Runs `ip` in the namespace of the calling thread.
pub fn ip(arguments: &str) -> String {
    let output = Command::new("ip")
        .args(arguments.split_whitespace())
        .output()
        .expect("ip (iproute2)");
    assert!(
        output.status.success(),
        "ip {arguments}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The MAC address of `interface`.
pub fn mac(interface: &str) -> [u8; 6] {
    let text = ip(&format!("link show {interface}"));
    let mut words = text
        .split_whitespace()
        .skip_while(|word| *word != "link/ether");
    let mac = words.nth(1).expect("an address");
    let mut bytes = [0; 6];
    for (byte, digits) in bytes.iter_mut().zip(mac.split(':')) {
        *byte = u8::from_str_radix(digits, 16).expect("hexadecimal");
    }
    bytes
}

/// Frames of IPv4 or IPv6 of these sizes, 32 flows.
pub fn spec(v6: bool, sizes_bytes: &[u16]) -> FrameSpec {
    let (source, destination) = if v6 {
        ("2001:2::2", "2001:2:0:1::2")
    } else {
        ("198.18.0.2", "198.18.1.2")
    };
    let address = |text: &str| text.parse::<IpAddr>().expect("an address");
    FrameSpec {
        sizes_bytes: sizes_bytes.to_vec(),
        source_mac: [2, 0, 0, 0, 0, 1],
        destination_mac: [2, 0, 0, 0, 0, 2],
        vlan: None,
        pppoe_session: None,
        sources: Range {
            first: address(source),
            count: 1,
        },
        destinations: Range {
            first: address(destination),
            count: 16,
        },
        source_ports: Range {
            first: 49_152,
            count: 64,
        },
        destination_ports: Range {
            first: 49_152,
            count: 64,
        },
        flows: 32,
    }
}

/// The frames of [`spec`].
pub fn frames(v6: bool, sizes_bytes: &[u16]) -> Frames {
    Frames::new(&spec(v6, sizes_bytes)).expect("a good specification")
}

/// A job that begins now and may take a minute.
pub fn job(trial: u16, frames: u64, rate_pps: Option<f64>, batch: u32) -> Job {
    let now_ns = monotonic_ns();
    Job {
        trial,
        frames,
        interval_q32: rate_pps.map_or(0, |rate| interval_q32(rate).expect("a rate")),
        batch,
        start_ns: now_ns,
        deadline_ns: now_ns + 60_000_000_000,
    }
}
