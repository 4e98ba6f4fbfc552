//! What the agent says of its machine: clocks, ports, the interface towards a host.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::ops::RangeInclusive;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use wavebed_os::clock;
use wavebed_os::netlink::{Netlink, interface_index};
use wavebed_os::sock_diag::{SockDiag, TcpSocket};
use wavebed_path::host_counters::Sockets;

use crate::protocol::{Problem, VERSION};

/// Any port: only the route is asked for.
const DISCARD: u16 = 9;

/// The system's clock and `CLOCK_MONOTONIC`, nanoseconds, read one after the other.
#[must_use]
pub fn clocks() -> (u64, u64) {
    let unix = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let unix_ns = u64::try_from(unix.as_nanos()).unwrap_or_default();
    (unix_ns, clock::monotonic_ns())
}

/// What the answer to the first request says; `is_root`: whether the agent was started by root.
#[must_use]
pub fn description(is_root: bool) -> Value {
    let line = |path: &str| {
        fs::read_to_string(path)
            .unwrap_or_default()
            .trim()
            .to_owned()
    };
    let controls = line("/proc/sys/net/ipv4/tcp_available_congestion_control");
    let connection = std::env::var("SSH_CONNECTION").unwrap_or_default();
    json!({
        "version": VERSION,
        "is_root": is_root,
        "system": line("/proc/sys/kernel/ostype"),
        "kernel": line("/proc/sys/kernel/osrelease"),
        "name": line("/proc/sys/kernel/hostname"),
        "architecture": std::env::consts::ARCH,
        "processors": std::thread::available_parallelism().map_or(1, usize::from),
        "congestion_controls": controls.split_whitespace().collect::<Vec<_>>(),
        "reached_from": connection.split_whitespace().next(),
        "congestion_control": line("/proc/sys/net/ipv4/tcp_congestion_control"),
    })
}

/// The ports at which a program listens by TCP, or which UDP sockets without a peer have.
///
/// # Errors
/// The system does not tell them.
pub fn open_ports() -> Result<Value, Problem> {
    let ports = Sockets::of_this_thread().and_then(|sockets| sockets.open_ports());
    let ports = ports.map_err(|error| Problem::of("open ports", error))?;
    Ok(json!({"ports": ports}))
}

/// The interface towards a host, its own address, and its counters.
///
/// # Errors
/// There is no route, or the kernel does not tell the interface.
pub fn towards(address: IpAddr) -> Result<Value, Problem> {
    let own = own_address(address)?;
    let netlink = Netlink::route()?;
    let (name, index) = interface_of(&netlink, own)?;
    let counters = netlink.counters(index)?;
    Ok(json!({
        "interface": name,
        "address": own,
        "rx_bytes": counters.rx_bytes,
        "rx_packets": counters.rx_packets,
        "rx_dropped": counters.rx_dropped + counters.rx_missed + counters.rx_errors,
        "tx_bytes": counters.tx_bytes,
        "tx_packets": counters.tx_packets,
        "tx_dropped": counters.tx_dropped + counters.tx_errors,
    }))
}

/// The established TCP connections with one of these ports at either end, and their longest smoothed round trip.
///
/// # Errors
/// The kernel does not tell them.
pub fn flows(ports: RangeInclusive<u16>) -> Result<Value, Problem> {
    let (mut count, mut max_rtt_us) = (0_u64, None);
    let each = |socket: &TcpSocket<'_>| {
        let ends = [socket.local.port(), socket.remote.port()];
        if socket.state == "established" && ends.iter().any(|port| ports.contains(port)) {
            count += 1;
            max_rtt_us = max_rtt_us.max(socket.info.rtt_us);
        }
    };
    SockDiag::open()?
        .tcp_sockets(each)
        .map_err(|error| Problem::of("the TCP connections", error))?;
    Ok(json!({"count": count, "max_rtt_us": max_rtt_us}))
}

fn own_address(address: IpAddr) -> Result<IpAddr, Problem> {
    let any: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    // Connecting a UDP socket asks for the route and sends nothing.
    let connect = || -> std::io::Result<IpAddr> {
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect(SocketAddr::new(address, DISCARD))?;
        Ok(socket.local_addr()?.ip())
    };
    connect().map_err(|error| Problem::of(format_args!("no route to {address}"), error))
}

fn interface_of(netlink: &Netlink, own: IpAddr) -> Result<(String, u32), Problem> {
    let names = fs::read_to_string("/proc/net/dev").unwrap_or_default();
    for name in names
        .lines()
        .filter_map(|line| Some(line.split_once(':')?.0.trim()))
    {
        let Ok(index) = interface_index(name) else {
            continue;
        };
        let addresses = netlink.addresses(index).unwrap_or_default();
        if addresses.iter().any(|(address, _)| *address == own) {
            return Ok((name.to_owned(), index));
        }
    }
    Err(Problem::of(own, "no interface has this address"))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_connection_counts_by_the_port_of_either_end() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let _client = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        let _server = listener.accept().unwrap();
        assert_eq!(
            flows(port..=port).unwrap()["count"],
            2,
            "both ends are here"
        );
        assert!(flows(port..=port).unwrap()["max_rtt_us"].as_u64().is_some());
        assert_eq!(
            flows(1..=1).unwrap(),
            json!({"count": 0, "max_rtt_us": null})
        );
    }

    #[test]
    fn the_interface_of_the_loopback_address_is_lo() {
        let found = towards(Ipv4Addr::LOCALHOST.into()).unwrap();
        assert_eq!(found["interface"], "lo");
        assert_eq!(found["address"], "127.0.0.1");
    }
}
