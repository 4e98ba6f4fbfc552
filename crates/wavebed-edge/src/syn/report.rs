//! What `syn` prints: a line, or with `--json` an object, when it has started and when it has ended.

use std::io::{self, Write as _};

use super::program::Counters;
use super::schedule::Schedule;

/// Prints events on standard output.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    json: bool,
}

impl Report {
    pub const fn new(json: bool) -> Self {
        Self { json }
    }

    /// SYNs are sent by this schedule from now on; by settings alone if the program was `refused`.
    pub fn started(self, schedule: &Schedule, refused: Option<&str>) {
        let method = if refused.is_some() { "sysctl" } else { "bpf" };
        if self.json {
            // Steps of the kernel's timers are milliseconds.
            let retries = schedule.retries_s();
            let rounded = retries.iter().map(|time| (time * 1e3).round() / 1e3);
            say(&serde_json::json!({
                "event": "started",
                "method": method,
                "refused": refused,
                "retries_s": rounded.collect::<Vec<_>>(),
                "patience_s": (schedule.patience_s() * 1e3).round() / 1e3,
            }));
            return;
        }
        if let Some(reason) = refused {
            say(&format!("no BPF program ({reason}): settings alone"));
        }
        let count = schedule.linear + 1;
        say(&format!(
            "SYN: {count} retries each {:.0} ms, then the time between two doubles; given up after {:.0} s",
            schedule.first_s * 1e3,
            schedule.patience_s()
        ));
    }

    /// All is as it was before.
    pub fn ended(self, counters: Option<&Counters>) {
        if self.json {
            say(&serde_json::json!({"event": "ended", "counters": counters}));
            return;
        }
        if let Some(found) = counters {
            say(&format!(
                "SYN: {} connections, {} of them after a retry ({} initial windows kept); {} answers",
                found.connections, found.retried, found.windows_kept, found.answers
            ));
        }
    }
}

fn say(line: &impl std::fmt::Display) {
    let mut output = io::stdout();
    // Without a reader the work goes on.
    let _ = writeln!(output, "{line}").and_then(|()| output.flush());
}
