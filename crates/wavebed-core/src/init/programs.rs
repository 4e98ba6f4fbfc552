//! Starting programs on the hosts of a laboratory.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};
use wavebed_os::confinement::TEMPORARY;
use wavebed_os::error::Context;
use wavebed_os::process::{ChildState, News, Spawn};
use wavebed_os::{clock, guest, poll, process, unix};
use wavebed_path::host_counters::Sockets;

use super::serve::Undelivered;
use super::{Drain, Init};
use crate::engine::TEXT;
use crate::lab_file::{Needs, ProcessFile};
use crate::names::message;
use crate::network::Host;
use crate::problem::{Problem, say};
use crate::{lab_file, limits, problem};

/// Variables that name a proxy, in lower case: no proxy can be reached from inside.
const PROXIES: [&str; 5] = [
    "http_proxy",
    "https_proxy",
    "ftp_proxy",
    "all_proxy",
    "no_proxy",
];

/// The start parameters of a program.
#[derive(Default)]
pub(super) struct Place<'a> {
    /// Variables on top of the laboratory's own.
    pub environment: &'a [(String, String)],
    /// Working directory.
    pub directory: Option<&'a str>,
    /// Its needs, if it is confined.
    pub needs: Needs,
    /// Standard input, output and error; init's own without.
    pub stdio: [Option<BorrowedFd<'a>>; 3],
    /// Whether it gets the terminal's foreground.
    pub foreground: bool,
}

impl Init {
    pub(super) fn start_programs(&mut self) -> Result<(), Problem> {
        let nothing = File::open("/dev/null").during("open", "/dev/null")?;
        let errors = std::io::stderr();
        let background = std::mem::take(&mut self.lab.background);
        let mut started: BTreeMap<&str, (i32, usize)> = BTreeMap::new();
        for process in &background {
            let place = Place {
                stdio: [Some(nothing.as_fd()), Some(errors.as_fd()), None],
                ..Place::default()
            };
            let pid = self.start(process, &place).map_err(Problem::wrong)?;
            self.stops.started(pid, process);
            started.entry(&process.host).or_insert((pid, 0)).1 += 1;
        }
        let deadline_ns = clock::monotonic_ns() + PATIENCE_NS;
        for (host, (pid, programs)) in started {
            match wait_for_ports(pid, programs, deadline_ns, |time| self.pause(time)) {
                Waited::Enough => {}
                Waited::Late(open) => say(format_args!(
                    "{host}: {open} ports are open after {} s for {programs} programs: the command starts",
                    PATIENCE_NS / 1_000_000_000
                )),
                Waited::Interrupted => return Ok(()),
            }
        }
        if let Some(command) = self.lab.command.take() {
            let place = Place {
                foreground: self.has_terminal,
                ..Place::default()
            };
            let pid = self.start(&command, &place).map_err(Problem::wrong)?;
            self.command = Some(pid);
        }
        Ok(())
    }

    /// Waits for this time at most, and serves a message of the front process that comes. Returns whether the laboratory
    /// is to end.
    fn pause(&mut self, time: Duration) -> bool {
        let mut readable = [false];
        let limit_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        if poll::wait(&[self.front.as_fd()], &mut readable, Some(limit_ns)).is_ok() && readable[0] {
            self.hear_front();
        }
        self.end.is_some()
    }

    /// Starts a program on a host and returns its process id.
    pub(super) fn start(
        &mut self,
        process: &ProcessFile,
        place: &Place<'_>,
    ) -> Result<i32, String> {
        self.outside.close_new();
        let host = &self.hosts[self.lab.host_index(&process.host)?];
        let argv: Vec<String> = process
            .argv
            .iter()
            .map(|argument| self.fill_in(argument))
            .collect();
        let rules = self.rules.as_ref().filter(|_| process.confined);
        let confinement = rules.map(|rules| rules.confinement(&place.needs));
        if process.confined && confinement.is_none() {
            return Err("confine: the laboratory file has no key confine".to_owned());
        }
        let own = if process.confined {
            lab_file::environment(std::env::vars_os())
        } else {
            without_proxies()
        };
        let environment = self.environment(host, own, place.environment);
        // The current directory may be hidden.
        let hidden = process.confined.then_some(TEMPORARY);
        let input = std::io::stdin();
        let what = Spawn {
            argv: &argv,
            environment: &environment,
            directory: place.directory.or(hidden).map(Into::into),
            network: Some(host.network.as_fd()),
            hostname: &host.name,
            stdio: place.stdio,
            terminal: place.foreground.then(|| input.as_fd()),
            confinement: confinement.as_ref(),
        };
        process::spawn(&what).map_err(|error| format!("{}: {error}", process.host))
    }

    /// Replaces `{server}`, `{edge}` and `{client}` by addresses.
    fn fill_in(&self, argument: &str) -> String {
        self.hosts.iter().fold(argument.to_owned(), |text, host| {
            text.replace(&format!("{{{}}}", host.name), &host.v4.to_string())
        })
    }

    fn environment(
        &self,
        host: &Host,
        mut variables: BTreeMap<String, String>,
        extra: &[(String, String)],
    ) -> Vec<(String, String)> {
        let server = &self.hosts[0];
        variables.extend([
            ("WAVEBED_SERVER".to_owned(), server.v4.to_string()),
            ("WAVEBED_SERVER6".to_owned(), server.v6.to_string()),
            ("WAVEBED_HOST".to_owned(), host.name.clone()),
            ("WAVEBED_LAB".to_owned(), self.lab.name.clone()),
        ]);
        variables.extend(extra.iter().cloned());
        variables.into_iter().collect()
    }
}

fn without_proxies() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(key, _)| !PROXIES.contains(&key.to_ascii_lowercase().as_str()))
        .collect()
}

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
                let _ = process::kill(-1, problem::TERM);
                let _ = process::kill(-1, problem::CONT);
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

// Programs that were stopped for a while (SIGSTOP): their measurements and services in that time say nothing about the
// path.

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

    #[test]
    fn a_program_that_has_ended_is_not_waited_for() {
        let mut child = std::process::Command::new("true")
            .spawn()
            .expect("a program");
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
