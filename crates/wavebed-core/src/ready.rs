//! Waits for servers: a command that starts before its server listens fails on any path.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use wavebed_os::clock;

/// Time limit for servers to listen. Afterwards the command starts.
const PATIENCE_NS: u64 = 500_000_000;

const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Waits until as many ports are open in the network namespace of `pid` as it has background `programs`.
pub fn wait_for_ports(pid: i32, programs: usize) {
    let deadline_ns = clock::monotonic_ns() + PATIENCE_NS;
    while open_ports(pid) < programs && clock::monotonic_ns() < deadline_ns {
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Ports that TCP listens on or UDP is bound to.
fn open_ports(pid: i32) -> usize {
    let mut ports = BTreeSet::new();
    for (table, state) in [("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")] {
        // A program that has ended has no table and opens no port.
        let text = fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        ports.extend(ports_in(&text, state).map(|port| (&table[..3], port.to_owned())));
    }
    ports.len()
}

/// The local ports of the sockets in a state, in hexadecimal as the kernel writes them.
fn ports_in<'a>(table: &'a str, state: &'a str) -> impl Iterator<Item = &'a str> {
    table.lines().skip(1).filter_map(move |line| {
        let mut fields = line.split_whitespace().skip(1);
        let local = fields.next()?;
        let _remote = fields.next()?;
        (fields.next()? == state).then(|| local.rsplit(':').next())?
    })
}

#[cfg(test)]
mod tests {
    use super::{open_ports, ports_in};

    #[test]
    fn only_sockets_of_the_state_count() {
        let table = "  sl  local_address rem_address   st\n   0: 0100007F:1F90 00000000:0000 0A 0:0\n   \
                     1: 0100007F:0016 0100007F:A001 01 0:0\n";
        assert_eq!(ports_in(table, "0A").collect::<Vec<_>>(), ["1F90"]);
    }

    #[test]
    fn a_listener_of_this_process_is_seen() {
        let before = open_ports(std::process::id().cast_signed());
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        assert!(open_ports(std::process::id().cast_signed()) > before);
        drop(listener);
    }
}
