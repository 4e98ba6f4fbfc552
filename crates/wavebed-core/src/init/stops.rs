//! Programs that were stopped for a while (SIGSTOP): their measurements and services in that time say nothing about the
//! path.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use serde_json::{Value, json};
use wavebed_os::process::ChildState;

use crate::engine::TEXT;
use crate::lab_file::ProcessFile;

/// A run is invalid if a program was stopped for longer: the order of the differences between round trips under study,
/// and the bound for gaps of the engine.
const INVALID_S: f64 = 0.05;

/// A program that was stopped.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Stop {
    /// Its host.
    host: String,
    /// Its file name.
    program: String,
    /// Total time stopped, s.
    stopped_s: f64,
}

#[derive(Debug)]
struct Program {
    host: String,
    name: String,
    stopped_at_ns: Option<u64>,
    stopped_ns: u64,
}

impl Program {
    fn go_on(&mut self, now_ns: u64) {
        if let Some(at) = self.stopped_at_ns.take() {
            self.stopped_ns += now_ns.saturating_sub(at);
        }
    }

    fn stop(self) -> Option<Stop> {
        (self.stopped_ns > 0).then(|| Stop {
            host: self.host,
            program: self.name,
            stopped_s: std::time::Duration::from_nanos(self.stopped_ns).as_secs_f64(),
        })
    }
}

/// The stops of the programs of a laboratory, except the command of a terminal, which its user may stop.
#[derive(Debug, Default)]
pub struct Stops {
    running: BTreeMap<i32, Program>,
    found: Vec<Stop>,
}

impl Stops {
    /// Records a new program.
    pub fn started(&mut self, pid: i32, process: &ProcessFile) {
        let argv0 = process.argv.first().map_or("", String::as_str);
        let name = Path::new(argv0).file_name().unwrap_or_default();
        self.running.insert(
            pid,
            Program {
                host: process.host.clone(),
                name: name.to_string_lossy().into_owned(),
                stopped_at_ns: None,
                stopped_ns: 0,
            },
        );
    }

    /// Records a state change of a process.
    pub fn changed(&mut self, pid: i32, state: ChildState, now_ns: u64) {
        let Some(program) = self.running.get_mut(&pid) else {
            return;
        };
        if matches!(state, ChildState::Stopped(_)) {
            program.stopped_at_ns.get_or_insert(now_ns);
            return;
        }
        program.go_on(now_ns);
        if state.is_end() {
            let ended = self.running.remove(&pid);
            self.found.extend(ended.and_then(Program::stop));
        }
    }

    /// Every stop until now.
    pub fn all(&mut self, now_ns: u64) -> Vec<Stop> {
        let mut all = std::mem::take(&mut self.found);
        for mut program in std::mem::take(&mut self.running).into_values() {
            program.go_on(now_ns);
            all.extend(program.stop());
        }
        all
    }
}

/// Adds the stops to a summary: as figures, as one of its checks, and to its text.
pub fn add(summary: &mut Value, stops: &[Stop]) {
    let is_long = stops.iter().any(|stop| stop.stopped_s > INVALID_S);
    let severity = if is_long { "invalid" } else { "suspect" };
    let named: Vec<String> = stops
        .iter()
        .map(|stop| {
            let Stop {
                host,
                program,
                stopped_s,
            } = stop;
            format!("{program:?} on {host} was stopped for {stopped_s:.3} s")
        })
        .collect();
    let evidence = if named.is_empty() {
        "every program ran until its end".to_owned()
    } else {
        named.join("; ")
    };
    if !stops.is_empty()
        && let Some(Value::String(text)) = summary.get_mut(TEXT)
    {
        text.extend([severity, ": ", &evidence, "\n"]);
    }
    if let Some(Value::Array(checks)) = summary.get_mut("checks") {
        checks.push(json!({
            "code": "stopped",
            "name": "no program was stopped",
            "holds": stops.is_empty(),
            "severity": severity,
            "evidence": evidence,
        }));
    }
    summary["stopped_programs"] = json!(stops);
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn process(host: &str, argv0: &str) -> ProcessFile {
        ProcessFile {
            host: host.to_owned(),
            argv: vec![argv0.to_owned()],
            confined: false,
        }
    }

    #[test]
    fn the_times_of_a_program_add_up_and_end_with_it() {
        let mut stops = Stops::default();
        stops.started(7, &process("server", "/usr/bin/iperf3"));
        stops.started(8, &process("client", "ping"));
        stops.started(9, &process("client", "curl"));
        stops.changed(7, ChildState::Stopped(19), SECOND);
        stops.changed(7, ChildState::Stopped(19), 2 * SECOND);
        stops.changed(7, ChildState::Continued, 3 * SECOND);
        stops.changed(7, ChildState::Stopped(19), 4 * SECOND);
        stops.changed(7, ChildState::Killed(9), 5 * SECOND);
        stops.changed(8, ChildState::Exited(0), 5 * SECOND);
        stops.changed(9, ChildState::Stopped(19), 5 * SECOND);
        stops.changed(10, ChildState::Stopped(19), 5 * SECOND);
        let named = serde_json::to_value(stops.all(6 * SECOND)).expect("JSON");
        let wanted = json!([
            {"host": "server", "program": "iperf3", "stopped_s": 3.0},
            {"host": "client", "program": "curl", "stopped_s": 1.0}
        ]);
        assert_eq!(named, wanted);
    }

    #[test]
    fn a_summary_names_stopped_programs() {
        let of = |stops: &[Stop]| {
            let mut summary = json!({"checks": [], TEXT: "links\n"});
            add(&mut summary, stops);
            summary
        };
        let stop = |stopped_s: f64| Stop {
            host: "server".to_owned(),
            program: "iperf3".to_owned(),
            stopped_s,
        };
        let none = of(&[]);
        assert_eq!(none["stopped_programs"], json!([]));
        assert_eq!(none["checks"][0]["holds"], true);
        assert_eq!(none[TEXT], "links\n");
        let short = of(&[stop(0.02)]);
        assert_eq!(short["checks"][0]["severity"], "suspect");
        let long = of(&[stop(0.02), stop(3.2)]);
        let evidence = "\"iperf3\" on server was stopped for 0.020 s; \"iperf3\" on server was stopped for 3.200 s";
        let check = json!({
            "code": "stopped",
            "name": "no program was stopped", "holds": false, "severity": "invalid", "evidence": evidence
        });
        assert_eq!(long["checks"], json!([check]));
        assert_eq!(long[TEXT], format!("links\ninvalid: {evidence}\n"));
    }
}
