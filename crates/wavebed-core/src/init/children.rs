//! The programs of a laboratory: their state changes and their end.

use std::os::fd::AsFd;

use std::time::Duration;

use serde_json::Value;
use wavebed_os::process::{self, ChildState, News};
use wavebed_os::{clock, guest, poll, unix};

use super::serve::Undelivered;
use super::{Drain, Init};
use crate::front::message;
use crate::limits;
use crate::say::say;
use crate::signals;

impl Init {
    /// Reaps every child that ended, orphans included.
    pub(super) fn reap(&mut self) {
        while self.signals.next().is_some() {}
        while let (News::Of(pid, state), host_cpu_ns) = self.news() {
            self.stops.changed(pid, state, clock::monotonic_ns());
            if self.command == Some(pid) {
                self.command_changed(state);
            } else if state.is_end()
                && let Some(id) = self.runs.remove(&pid)
                && let Some(connection) = self.connections.get_mut(&id)
            {
                connection.answer(&ending(pid, state, host_cpu_ns));
            }
        }
    }

    /// A state change of a child; of one that has ended, with the host's processor time where the kernel counts it.
    fn news(&mut self) -> (News, Option<u64>) {
        let mut read = None;
        let news = process::news_at_end(|pid| read = guest::host_cpu_ns(pid));
        self.host_cpu_ns += read.unwrap_or_default();
        (news, read)
    }

    /// The host's processor time of all programs so far, where the kernel counts it: of those that have ended, and of
    /// those that go on.
    pub(super) fn host_cpu_ns(&self) -> Option<u64> {
        let own = [1, self.engine_child.pid];
        let running_ns = guest::host_cpu_ns_of_all_but(&own)?;
        Some(self.host_cpu_ns + running_ns)
    }

    fn command_changed(&mut self, state: ChildState) {
        if matches!(state, ChildState::Stopped(_)) {
            if self.has_terminal {
                let _ = unix::send(self.front.as_fd(), &[message::STOPPED], &[]);
            }
        } else if state.is_end() {
            let now_ns = clock::monotonic_ns();
            self.drain = Some(Drain {
                status: state.exit_code(),
                ends_ns: now_ns + self.lab.drain_ns,
                look_ns: now_ns,
                empty_ns: None,
            });
            if self.interrupted || self.asked_to_end > 0 || self.lab.drain_ns == 0 {
                self.end_with(state.exit_code());
            }
        }
    }

    /// Ends the laboratory whose command has ended once the last data has arrived and was read.
    pub(super) fn look_at_drain(&mut self) {
        let now_ns = clock::monotonic_ns();
        let Some(mut drain) = self.drain.take_if(|drain| drain.look_ns <= now_ns) else {
            return;
        };
        let left = self.undelivered();
        let is_empty = left
            .as_ref()
            .is_ok_and(|left| *left == Undelivered::default());
        drain.empty_ns = is_empty.then(|| drain.empty_ns.unwrap_or(now_ns));
        let is_quiet = drain
            .empty_ns
            .is_some_and(|since| now_ns >= since + limits::QUIET_NS);
        if is_quiet || now_ns >= drain.ends_ns {
            match left {
                Ok(left) if !is_empty => say(format_args!(
                    "{left} after {:.1} s: the laboratory ends all the same (--drain)",
                    Duration::from_nanos(self.lab.drain_ns).as_secs_f64()
                )),
                Err(line) => say(line),
                Ok(_) => {}
            }
            self.end_with(drain.status);
        }
        drain.look_ns = now_ns + limits::DRAIN_LOOK_NS;
        self.drain = Some(drain);
    }

    /// Sends every program SIGTERM and waits for a limited time.
    pub(super) fn end_programs(&mut self) {
        let deadline_ns = clock::monotonic_ns() + self.lab.grace_ns;
        let mut asked = false;
        loop {
            let (news, host_cpu_ns) = self.news();
            if let News::Of(pid, state) = news {
                if state.is_end()
                    && let Some(connection) = self
                        .runs
                        .remove(&pid)
                        .and_then(|id| self.connections.get_mut(&id))
                {
                    connection.answer(&ending(pid, state, host_cpu_ns));
                }
                continue;
            }
            // The engine's process is not among them: its descriptor reports its end.
            if news == News::NoChildren {
                return;
            }
            if !asked {
                asked = true;
                let _ = process::kill(-1, signals::TERM);
                let _ = process::kill(-1, signals::CONT);
            }
            let now_ns = clock::monotonic_ns();
            if now_ns >= deadline_ns {
                return;
            }
            let _ = poll::wait(
                &[self.signals.as_fd()],
                &mut [false],
                Some(deadline_ns - now_ns),
            );
            while self.signals.next().is_some() {}
        }
    }
}

/// What the connection that started a program gets at its end.
fn ending(pid: i32, state: ChildState, host_cpu_ns: Option<u64>) -> Value {
    let mut answer = serde_json::json!({"pid": pid, "exit": state.status()});
    if let Some(time_ns) = host_cpu_ns {
        answer["host_cpu_ns"] = digits(time_ns);
    }
    answer
}

/// A time of the host, as the laboratory tells it to programs of a guest: a text of twenty digits. A number would have more
/// digits in one run than in the next. What a program has in memory moves its page faults, and so its times.
pub(super) fn digits(time_ns: u64) -> Value {
    format!("{time_ns:020}").into()
}
