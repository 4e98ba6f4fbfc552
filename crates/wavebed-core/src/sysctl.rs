//! Settings of a host's network namespace. All act on the namespace of the calling thread.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;

use wavebed_os::namespace::NetworkNamespace;

use crate::problem::Problem;

/// Defaults of every host; the laboratory file may override them. Buffers: 10 Gbit/s over 80 ms are 100 MB in flight,
/// and the kernel needs up to twice that for its own structures; the defaults stopped one flow at 366 Mbit/s.
const DEFAULTS: [(&str, &str); 8] = [
    ("net.ipv4.tcp_rmem", "4096 131072 536870912"),
    ("net.ipv4.tcp_wmem", "4096 16384 536870912"),
    // A connection must not start from the metrics of an earlier one.
    ("net.ipv4.tcp_no_metrics_save", "1"),
    ("net.ipv4.conf.all.rp_filter", "0"),
    ("net.ipv4.conf.default.rp_filter", "0"),
    // Every packet to nowhere is answered, as far as the kernel does it: a second limit stays (docs/development/traps.md).
    ("net.ipv4.icmp_ratemask", "0"),
    ("net.core.somaxconn", "4096"),
    // Web servers without root listen on port 80.
    ("net.ipv4.ip_unprivileged_port_start", "0"),
];

/// No packets from the IPv6 stack itself: they would use up indices of packet-indexed patterns.
const QUIET_V6: [(&str, &str); 5] = [
    ("disable_ipv6", "0"),
    ("accept_ra", "0"),
    ("accept_dad", "0"),
    ("router_solicitations", "0"),
    // 1: no link-local address.
    ("addr_gen_mode", "1"),
];

fn path(key: &str) -> PathBuf {
    PathBuf::from("/proc/sys").join(key.replace('.', "/"))
}

fn set(key: &str, value: &str) -> io::Result<()> {
    fs::write(path(key), value)
}

/// Writes the settings of every host. Settings that the kernel lacks are skipped.
pub fn defaults(has_v6: bool) {
    for (key, value) in DEFAULTS {
        let _ = set(key, value);
    }
    // Every group may ping; a user namespace has group 0 only.
    if set("net.ipv4.ping_group_range", "0 2147483647").is_err() {
        let _ = set("net.ipv4.ping_group_range", "0 0");
    }
    if has_v6 {
        let _ = set("net.ipv6.conf.all.disable_ipv6", "0");
        let _ = set("net.ipv6.icmp.ratemask", "\n");
        quiet_device("default");
    }
}

/// Buckets of a host's own table of TCP connections.
const OWN_SOCKETS: &str = "1024";

/// Creates a network namespace with its own table of TCP connections (Linux 6.1) and moves the calling thread into it.
/// By default all namespaces share one table, and a query for the connections of one namespace scans all its buckets:
/// 200 µs for 262144 buckets, against 8 µs for these. Limits that would shrink with the table are kept. Older kernels
/// use the shared table.
///
/// # Errors
/// The process may not create namespaces.
pub fn namespace_with_own_sockets() -> wavebed_os::Result<NetworkNamespace> {
    // The size is a setting of the namespace that the new one is created from; no other namespace changes.
    NetworkNamespace::new()?;
    let limits = [
        "net.ipv4.tcp_max_syn_backlog",
        "net.ipv4.tcp_max_tw_buckets",
    ];
    let limits = limits.map(|key| (key, fs::read_to_string(path(key))));
    let _ = set("net.ipv4.tcp_child_ehash_entries", OWN_SOCKETS);
    let namespace = NetworkNamespace::new()?;
    for (key, value) in limits {
        if let Ok(value) = value {
            let _ = set(key, value.trim());
        }
    }
    Ok(namespace)
}

/// Lets the host forward packets. Call it after its devices have lost their multicast flag: the IPv6 stack of a
/// forwarding host joins groups on every device that has it, and reports that to its neighbours.
pub fn forward() {
    let _ = set("net.ipv4.ip_forward", "1");
    let _ = set("net.ipv6.conf.all.forwarding", "1");
}

/// Lets the host answer packets from one device that it has no route for, and forward others: its containers are behind
/// it.
pub fn forward_from(device: &str) {
    let _ = fs::write(format!("/proc/sys/net/ipv4/conf/{device}/forwarding"), "1");
}

/// Stops the packets of the IPv6 stack on one device.
pub fn quiet_device(device: &str) {
    for (key, value) in QUIET_V6 {
        let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{device}/{key}"), value);
    }
}

/// Writes a host's own settings.
///
/// # Errors
/// A setting is unknown, or the kernel refuses it.
pub fn apply(host: &str, settings: &BTreeMap<String, String>) -> Result<(), Problem> {
    for (key, value) in settings {
        set(key, value).map_err(|error| {
            let reason = match error.kind() {
                io::ErrorKind::NotFound => "a network namespace has no such setting".to_owned(),
                io::ErrorKind::PermissionDenied => {
                    "it belongs to the whole machine: leave it out".to_owned()
                }
                io::ErrorKind::InvalidInput => format!("the kernel refuses the value {value:?}"),
                _ => format!("the value {value:?} cannot be set: {error}"),
            };
            Problem::wrong(format!("hosts: {host}: sysctls: {key}: {reason}"))
        })?;
    }
    Ok(())
}

/// The congestion controls available on this machine.
#[must_use]
pub fn congestion_controls() -> Vec<String> {
    let text = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control")
        .unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

/// The remark if this machine does not forward packets.
#[must_use]
pub fn forwarding_remark(has_v6: bool) -> Option<String> {
    let off = |key: &str| fs::read_to_string(path(key)).is_ok_and(|text| text.trim() == "0");
    let mut keys = Vec::new();
    if off("net.ipv4.ip_forward") {
        keys.push("net.ipv4.ip_forward=1");
    }
    if has_v6 && off("net.ipv6.conf.all.forwarding") {
        keys.push("net.ipv6.conf.all.forwarding=1");
    }
    if keys.is_empty() {
        return None;
    }
    Some(format!(
        "nat: the client reaches this machine only: to reach other networks, run: sysctl {}",
        keys.join(" ")
    ))
}
