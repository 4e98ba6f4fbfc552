//! The programs of a laboratory: their state changes and their end.

use std::os::fd::AsFd;

use wavebed_os::process::{self, ChildState, News};
use wavebed_os::{clock, poll, unix};

use super::Init;
use crate::front::message;
use crate::limits;
use crate::signals;

impl Init {
    /// Reaps every child that ended, orphans included.
    pub(super) fn reap(&mut self) {
        while self.signals.next().is_some() {}
        while let News::Of(pid, state) = process::news_of_children() {
            self.stops.changed(pid, state, clock::monotonic_ns());
            if self.command == Some(pid) {
                self.command_changed(state);
            } else if state.is_end()
                && let Some(id) = self.runs.remove(&pid)
                && let Some(connection) = self.connections.get_mut(&id)
            {
                connection.answer(&serde_json::json!({"pid": pid, "exit": state.status()}));
            }
        }
    }

    fn command_changed(&mut self, state: ChildState) {
        if matches!(state, ChildState::Stopped(_)) {
            if self.has_terminal {
                let _ = unix::send(self.front.as_fd(), &[message::STOPPED], &[]);
            }
        } else if state.is_end() {
            self.end_with(state.exit_code());
        }
    }

    /// Sends every program SIGTERM and waits for a limited time.
    pub(super) fn end_programs(&mut self) {
        let deadline_ns = clock::monotonic_ns() + limits::PROGRAMS_NS;
        let mut asked = false;
        loop {
            while let News::Of(pid, state) = process::news_of_children() {
                if state.is_end()
                    && let Some(connection) = self
                        .runs
                        .remove(&pid)
                        .and_then(|id| self.connections.get_mut(&id))
                {
                    connection.answer(&serde_json::json!({"pid": pid, "exit": state.status()}));
                }
            }
            // The engine's process is not among them: its descriptor reports its end.
            if process::news_of_children() == News::NoChildren {
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
