//! Starting programs on the hosts of a laboratory.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use wavebed_os::confinement::TEMPORARY;
use wavebed_os::error::Context;
use wavebed_os::process::{self, Spawn};
use wavebed_os::{clock, poll};

use super::Init;
use crate::confine::{self, Needs};
use crate::lab_file::ProcessFile;
use crate::network::Host;
use crate::problem::Problem;
use crate::ready::{self, Waited};
use crate::say::say;

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
        let deadline_ns = clock::monotonic_ns() + ready::PATIENCE_NS;
        for (host, (pid, programs)) in started {
            match ready::wait_for_ports(pid, programs, deadline_ns, |time| self.pause(time)) {
                Waited::Enough => {}
                Waited::Late(open) => say(format_args!(
                    "{host}: {open} ports are open after {} s for {programs} programs: the command starts",
                    ready::PATIENCE_NS / 1_000_000_000
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
            confine::environment(std::env::vars_os())
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
