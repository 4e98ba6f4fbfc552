//! `wavebed-edge syn`: connection requests (SYN) are retried each 100 ms within the first second.
//!
//! A SYN lost in an outage of the radio is repeated after one second, so that the outage costs half a second more than it
//! lasts on average. A BPF program for socket operations gives connections of this network namespace another first
//! timeout, and settings of the namespace keep it from doubling in the first second. Where the kernel refuses the
//! program, the settings alone repeat the SYN each second for half a minute.

mod command;
pub mod keeper;
mod plan;
mod program;
mod report;
mod schedule;
mod sysctl;

use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use wavebed_os::cgroup::Group;
use wavebed_os::process::Signals;
use wavebed_os::{namespace, poll, unix};

use crate::problem::Problem;
use crate::units;
use command::Command;
use keeper::Kept;
use plan::Plan;
use program::{Early, Limit, Settings};
use report::Report;
use schedule::KERNEL_TIMEOUT_S;

/// SIGHUP, SIGINT and SIGTERM end the program.
const ENDINGS: [i32; 3] = [1, 2, 15];
const CHILD_CHANGED: i32 = 17;
/// One program per network namespace has this name.
const NAME: &str = "wavebed-edge-syn";
/// Shortest timeout: a shorter one repeats requests of most paths before their answer can be back.
const SHORTEST: Duration = Duration::from_millis(20);
const LONGEST_DENSE: Duration = Duration::from_secs(10);

/// Arguments of `wavebed-edge syn`.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Time between two SYNs of a connection, at first.
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = units::time)]
    pub interval: Duration,
    /// For how long; then the time between two doubles.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = units::time)]
    pub dense: Duration,
    /// Also repeat answers to connection requests (SYN-ACK) early: after this time, then twice it, and so on.
    #[arg(long)]
    pub answers: bool,
    /// Only for processes in this control group (version 2) and below; default: all of this network namespace.
    #[arg(long, value_name = "DIR", conflicts_with = "run")]
    pub cgroup: Option<PathBuf>,
    /// Use the kernel's settings only.
    #[arg(long)]
    pub no_bpf: bool,
    /// Print one JSON object per event.
    #[arg(long)]
    pub json: bool,
    /// Run this command, for it alone, and end with it and its exit status; all that follows belongs to the command.
    #[arg(long, value_name = "CMD", num_args = 1.., allow_hyphen_values = true, trailing_var_arg = true)]
    pub run: Vec<String>,
}

/// Runs until a signal, or the end of the command.
///
/// # Errors
/// An argument is out of bounds, the process lacks a permission, or another one does this in the network namespace.
pub fn run(options: &Options) -> Result<ExitCode, Problem> {
    check(options)?;
    let _only_one = unix::listen(NAME).map_err(|error| {
        if error.source.kind() == std::io::ErrorKind::AddrInUse {
            Problem::failed(
                "syn: another `wavebed-edge syn` runs in this network namespace: end it first",
            )
        } else {
            Problem::failed(format!("syn: {error}"))
        }
    })?;
    let command = Command::prepare(&options.run)?;
    let group = options.cgroup.as_deref().map(chosen).transpose()?;
    let mut plan = Plan::new(options)?;
    let early = if options.no_bpf {
        Err("--no-bpf".to_owned())
    } else {
        attach(command.group().or(group.as_ref()), &plan.program).map_err(|error| error.to_string())
    };
    if let Err(reason) = &early {
        plan = plan.without_program(reason)?;
    }
    let kept = Kept::change(&plan.changes)?;
    let signals = Signals::receive(&[ENDINGS.as_slice(), &[CHILD_CHANGED]].concat(), &[])
        .map_err(|error| Problem::failed(format!("syn: {error}")))?;
    let report = Report::new(options.json);
    report.started(&plan.schedule, early.as_ref().err().map(String::as_str));
    let answer = command.run(&signals);
    let counters = early.ok().map(|program| program.counters());
    kept.restore()?;
    report.ended(counters.as_ref());
    answer
}

fn check(options: &Options) -> Result<(), Problem> {
    let (interval, dense) = (options.interval, options.dense);
    let longest = Duration::from_secs_f64(KERNEL_TIMEOUT_S);
    if !(SHORTEST..=longest).contains(&interval) {
        return Err(Problem::invalid("syn: --interval: write 20ms to 1s"));
    }
    if !(interval..=LONGEST_DENSE).contains(&dense) {
        return Err(Problem::invalid(
            "syn: --dense: write at least the interval, and 10s at most",
        ));
    }
    if dense.as_micros().div_ceil(interval.as_micros()) > u128::from(schedule::MOST_RETRIES) {
        return Err(Problem::invalid(
            "syn: --dense: is more than 127 intervals, the kernel's limit: write less",
        ));
    }
    Ok(())
}

/// The control group that the user named.
fn chosen(path: &Path) -> Result<Group, Problem> {
    let name = path.display();
    if !path.join("cgroup.controllers").exists() {
        let right = "name a folder of a control group (version 2)";
        return Err(Problem::invalid(format!(
            "syn: --cgroup: {name} is none: {right}"
        )));
    }
    Group::open(path).map_err(|error| Problem::invalid(format!("syn: --cgroup: {error}")))
}

fn attach(group: Option<&Group>, settings: &Settings) -> wavebed_os::Result<Early> {
    match group {
        Some(group) => Early::attach(settings, group.as_fd()),
        None => Early::attach(settings, Group::root()?.as_fd()),
    }
}

/// Loads the program for the calling thread's network namespace and attaches it to a control group, for a moment.
///
/// # Errors
/// The kernel's refusal.
pub fn try_program(group: BorrowedFd<'_>) -> wavebed_os::Result<()> {
    let settings = Settings {
        network: namespace::network_cookie()?,
        ticks: 1,
        answers: true,
        harmless_retries: 1,
        more_retries: 1,
        limit: Some(Limit {
            ms: 1000,
            normal_ms: 120_000,
            retry: 1,
        }),
    };
    Early::attach(&settings, group).map(drop)
}

/// Waits until a signal of the set has come.
fn wait(signals: &Signals) -> Result<i32, Problem> {
    loop {
        if let Some(number) = signals.next() {
            return Ok(number);
        }
        poll::wait(&[signals.as_fd()], &mut [false], None)
            .map_err(|error| Problem::failed(format!("syn: wait: {error}")))?;
    }
}
