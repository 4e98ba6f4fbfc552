//! Termination by signals: the first signal starts an orderly end, the second one sets a time limit.

use wavebed_os::clock;

use crate::{limits, signals};

/// The termination signals received so far.
#[derive(Debug, Default)]
pub struct Ending {
    asked: u32,
    last: i32,
    kill_at_ns: Option<u64>,
}

impl Ending {
    /// Records a signal.
    pub fn hear(&mut self, signal: i32) {
        self.hear_at(signal, clock::monotonic_ns());
    }

    /// Time left until everything is killed, ns; `None` without a limit.
    #[must_use]
    pub fn left_ns(&self) -> Option<u64> {
        self.kill_at_ns
            .map(|at| at.saturating_sub(clock::monotonic_ns()))
    }

    /// Whether no time is left.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.left_ns() == Some(0)
    }

    /// The exit status after the kill.
    #[must_use]
    pub const fn status(&self) -> i32 {
        128 + self.last
    }

    /// Records a signal of this time.
    pub fn hear_at(&mut self, signal: i32, now_ns: u64) {
        if signal != signals::INT && signal != signals::TERM {
            return;
        }
        self.asked += 1;
        self.last = signal;
        if self.asked > 1 {
            self.kill_at_ns.get_or_insert(now_ns + limits::ALL_AGAIN_NS);
        }
    }
}

#[cfg(test)]
pub mod tests {
    use std::fs::{self, File};
    use std::os::fd::OwnedFd;
    use std::process::Command;
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_second_signal_sets_the_limit_and_no_later_one_moves_it() {
        let mut ending = Ending::default();
        ending.hear_at(signals::INT, 10);
        ending.hear_at(signals::HUP, 20);
        assert_eq!((ending.left_ns(), ending.is_due()), (None, false));
        ending.hear_at(signals::TERM, 30);
        ending.hear_at(signals::INT, 40);
        assert_eq!(ending.kill_at_ns, Some(30 + limits::ALL_AGAIN_NS));
        assert_eq!(ending.status(), 130);
    }

    /// An end whose time is over, and the number of a child that has ended with status 7; a descriptor that tells so.
    #[expect(clippy::zombie_processes, reason = "tests wait by its number")]
    pub fn late_for_an_ended_child() -> (Ending, i32, OwnedFd) {
        let mut ending = Ending::default();
        for _ in 0..2 {
            ending.hear_at(signals::TERM, 0);
        }
        while !ending.is_due() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut child = Command::new("sh");
        let child = child.args(["-c", "exit 7"]).spawn().expect("starts");
        let stat = format!("/proc/{}/stat", child.id());
        while !fs::read_to_string(&stat)
            .expect("not waited for")
            .contains(") Z ")
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        let readable = File::open("/dev/null").expect("a file").into();
        (ending, child.id().cast_signed(), readable)
    }
}
