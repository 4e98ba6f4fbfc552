//! Guests of virtual time: `wavebed-core guest` starts the kernel outside, and `wavebed-core guest-init` is its first process.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use serde::Deserialize;
use wavebed_os::guest::{self, Shared};
use wavebed_os::netlink::{Netlink, interface_index};
use wavebed_os::process::{self, ChildState, News, Signals, Spawn};
use wavebed_os::{capabilities, clock, guest_calls, landlock, namespace, poll, sched};

use crate::channel::{self, Channel};
use crate::problem::Problem;
use crate::signals;

/// Time since the guest's start at which the command begins, nanoseconds: ping takes the first second for no time at all, and
/// sends without a pause.
const BEGIN_NS: u64 = 10_000_000_000;

/// The guest's host name.
const NAME: &str = "guest";

/// How to start the kernel.
#[derive(clap::Args)]
pub struct Options {
    /// The process that the guest must not outlive.
    #[arg(long)]
    parent: u32,
    /// The processor to stay on.
    #[arg(long)]
    processor: usize,
    /// A folder that the guest may write to; it may write nowhere else. May be repeated.
    #[arg(long)]
    writable: Vec<String>,
    /// A file or folder that the guest may read, like what it may write; it may read nothing else. May be repeated.
    #[arg(long)]
    readable: Vec<String>,
    /// The kernel and its command line.
    #[arg(last = true, required = true)]
    kernel: Vec<String>,
}

/// What the first process does, as a JSON object.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Task {
    command: Vec<String>,
    /// In order of names, so that two guests have the same one.
    environment: BTreeMap<String, String>,
    /// A folder of the host, whose files the guest has at their places below its root.
    given: String,
    shared: Vec<Folder>,
    /// The file of the command's output, in the guest.
    log: String,
    /// The files of the channel to the host, in the guest.
    channel: channel::Files,
    /// The file of the command's exit status, or of the reason why there is none, in the guest.
    status: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Folder {
    outside: String,
    inside: String,
    writable: bool,
}

/// Becomes the kernel, on one processor. It reaches no other files than those of `readable` and `writable`, and makes no
/// other system calls than those of `guest_calls`.
///
/// # Errors
/// The kernel cannot be started, or its owner has ended.
pub fn start(options: &Options) -> Result<i32, Problem> {
    let refused = |what: &str, error: &dyn std::fmt::Display| {
        Problem::failed(format!("cannot start a guest: {what}: {error}"))
    };
    process::die_with_parent().map_err(|error| refused("owner", &error))?;
    if std::os::unix::process::parent_id() != options.parent {
        return Err(Problem::failed("cannot start a guest: its owner has ended"));
    }
    sched::place_thread(0, options.processor, None)
        .map_err(|error| refused("processor", &error))?;
    capabilities::never_gain().map_err(|error| refused("no_new_privs", &error))?;
    // A machine without Landlock refuses nothing, nor one without filters.
    landlock::only(&options.readable, &options.writable)
        .map_err(|error| refused("landlock", &error))?;
    guest_calls::allow_kernel().map_err(|error| refused("seccomp", &error))?;
    let program = &options.kernel[0];
    let error = Command::new(program).args(&options.kernel[1..]).exec();
    Err(refused(program, &error))
}

/// Sets the guest up, runs the command, and powers off.
///
/// # Errors
/// The file is wrong, or the guest cannot be set up.
pub fn init(file: &str) -> Result<i32, Problem> {
    let text =
        fs::read_to_string(file).map_err(|error| Problem::wrong(format!("{file}: {error}")))?;
    let task: Task =
        serde_json::from_str(&text).map_err(|error| Problem::wrong(format!("{file}: {error}")))?;
    if std::process::id() != 1 {
        return Err(Problem::wrong(
            "guest-init is the first process of a guest, and not for use outside",
        ));
    }
    let told = match live(&task) {
        Ok(status) => status.to_string(),
        Err(problem) => problem.line,
    };
    if let Err(error) = fs::write(&task.status, &told) {
        guest::tell(&format!("{}: {error}; {told}", task.status));
    }
    guest::power_off()?;
    Ok(0)
}

fn live(task: &Task) -> Result<i32, Problem> {
    let shared: Vec<_> = task.shared.iter().map(Folder::as_shared).collect();
    guest::enter_root(&task.given, &shared)?;
    namespace::set_hostname(NAME)?;
    let route = Netlink::route()?;
    route
        .set_up(interface_index("lo")?)
        .map_err(|error| Problem::failed(format!("lo: {error}")))?;
    let signals = Signals::receive(&[signals::CHLD], &[])?;
    let environment: Vec<_> = task.environment.clone().into_iter().collect();
    let failed = |error: std::io::Error| Problem::failed(format!("{}: {error}", task.log));
    let log = File::create(&task.log).map_err(failed)?;
    let nothing = File::open("/dev/null").map_err(failed)?;
    clock::sleep_until(BEGIN_NS);
    let command = process::spawn(&Spawn {
        argv: &task.command,
        environment: &environment,
        directory: Some("/".into()),
        network: None,
        hostname: NAME,
        stdio: [Some(nothing.as_fd()), Some(log.as_fd()), Some(log.as_fd())],
        terminal: None,
        confinement: None,
    })?;
    let mut channel = Channel::new(&task.channel);
    loop {
        while let News::Of(pid, state) = process::news_of_children() {
            match state {
                ChildState::Exited(code) if pid == command => return Ok(code),
                ChildState::Killed(signal) if pid == command => return Ok(128 + signal),
                _ => {}
            }
        }
        let mut readable = [false; 2];
        let sources: Vec<_> = [signals.as_fd()].into_iter().chain(channel.lab()).collect();
        poll::wait(&sources, &mut readable, Some(channel.left_ns()))
            .map_err(|error| Problem::failed(error.to_string()))?;
        while signals.next().is_some() {}
        if readable[1] {
            channel.hear();
        }
        channel.look();
    }
}

impl Folder {
    fn as_shared(&self) -> Shared<'_> {
        Shared {
            outside: &self.outside,
            inside: &self.inside,
            writable: self.writable,
        }
    }
}
