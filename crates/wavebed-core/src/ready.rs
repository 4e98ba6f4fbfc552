//! Waits for servers: a command that starts before its server listens fails on any path.

use std::time::Duration;

use wavebed_os::clock;
use wavebed_path::host_counters::Sockets;

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
    while let Some(open) = open_ports(pid) {
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

/// The number of ports that are open in the namespace of a process; none of a process that has ended.
fn open_ports(pid: i32) -> Option<usize> {
    let ports = Sockets::of_process(pid).and_then(|sockets| sockets.open_ports());
    ports.ok().map(|ports| ports.len())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::{Waited, wait_for_ports};

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
