//! Waits for servers: a command that starts before its server listens fails on any path.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use wavebed_os::clock;

/// Time limit for all servers to listen. Afterwards the command starts.
pub const PATIENCE_NS: u64 = 10_000_000_000;

/// First and longest time between two looks. The kernel takes a part of a millisecond for one.
const LOOK_AFTER: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(64)];

/// How a wait for servers ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Waited {
    /// There is a port for each program, or the process has ended.
    Enough,
    /// The deadline came first. This number of ports is open.
    Late(usize),
    /// The pause was interrupted.
    Interrupted,
}

/// Waits until the network namespace of `pid` has an open port for each of its background `programs`, or until that
/// process has ended. `pause` waits between two looks; if it returns true, the wait is over.
pub fn wait_for_ports(
    pid: i32,
    programs: usize,
    deadline_ns: u64,
    mut pause: impl FnMut(Duration) -> bool,
) -> Waited {
    let [mut after, longest] = LOOK_AFTER;
    while let Some(open) = open_ports(pid).map(|ports| ports.len()) {
        if open >= programs {
            break;
        }
        if clock::monotonic_ns() >= deadline_ns {
            return Waited::Late(open);
        }
        if pause(after) {
            return Waited::Interrupted;
        }
        after = longest.min(after * 2);
    }
    Waited::Enough
}

/// Ports that TCP listens on or UDP is bound to; none of a process that has ended.
fn open_ports(pid: i32) -> Option<BTreeSet<(&'static str, String)>> {
    let mut ports = BTreeSet::new();
    for (table, state) in [("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")] {
        let text = match fs::read_to_string(format!("/proc/{pid}/net/{table}")) {
            Ok(text) => text,
            Err(_) if table.ends_with('6') => continue, // a kernel without IPv6
            Err(_) => return None,
        };
        ports.extend(ports_in(&text, state).map(|port| (&table[..3], port.to_owned())));
    }
    Some(ports)
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
    use std::process::Command;

    use super::{Waited, open_ports, ports_in, wait_for_ports};

    #[test]
    fn only_sockets_of_the_state_count() {
        let table = "  sl  local_address rem_address   st\n   0: 0100007F:1F90 00000000:0000 0A 0:0\n   \
                     1: 0100007F:0016 0100007F:A001 01 0:0\n";
        assert_eq!(ports_in(table, "0A").collect::<Vec<_>>(), ["1F90"]);
    }

    #[test]
    fn a_listener_of_this_process_is_seen() {
        let own = std::process::id().cast_signed();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        // Other programs of the machine open and close ports meanwhile.
        let open = open_ports(own).expect("it runs");
        assert!(open.contains(&("tcp", format!("{port:04X}"))), "{open:?}");
    }

    #[test]
    fn a_program_that_has_ended_is_not_waited_for() {
        let mut child = Command::new("true").spawn().expect("a program");
        let pid = child.id().cast_signed();
        let pause = |time| {
            std::thread::sleep(time);
            false
        };
        assert_eq!(
            wait_for_ports(pid, usize::MAX, u64::MAX, pause),
            Waited::Enough
        );
        child.wait().expect("it has ended");
    }

    #[test]
    fn a_wait_ends_at_its_deadline_and_at_an_interruption() {
        let own = std::process::id().cast_signed();
        assert_eq!(
            wait_for_ports(own, usize::MAX, u64::MAX, |_| true),
            Waited::Interrupted
        );
        assert!(matches!(
            wait_for_ports(own, usize::MAX, 0, |_| false),
            Waited::Late(_)
        ));
    }
}
