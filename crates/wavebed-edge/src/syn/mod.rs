//! `wavebed-edge syn`: connection requests (SYN) are retried each 100 ms within the first second.
//!
//! A SYN lost in an outage of the radio is repeated after one second, so that the outage costs half a second more than it
//! lasts on average. A BPF program for socket operations gives connections of this network namespace another first
//! timeout, and settings of the namespace keep it from doubling in the first second. Where the kernel refuses the
//! program, the settings alone repeat the SYN each second for half a minute.

pub mod keeper;
mod program;
mod report;
mod schedule;
mod sysctl;

use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use wavebed_os::cgroup::Group;
use wavebed_os::process::{ChildState, News, Signals, Spawn};
use wavebed_os::{clock, namespace, poll, process, unix};

use crate::problem::Problem;
use crate::units;
use keeper::Kept;
use program::{Early, Limit, Settings};
use report::Report;
use schedule::{KERNEL_TIMEOUT_S, Schedule, answer_patience_s, answer_retries, ticks};
use sysctl::{
    ANSWER_RETRIES, Change, LINEAR, LONGEST_TIMEOUT_MS, MPTCP_RETRIES, RETRIES, raise, read,
};

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

/// Linear retries where settings are all there is: for half a minute an outage costs at most one second more.
const LINEAR_WITHOUT_PROGRAM: u32 = 30;
/// The least limit of the timeout that the kernel takes, milliseconds; it is the kernel's own first timeout.
const LIMIT_MS: u32 = 1000;

/// The changes, and the times of SYNs that follow from them.
#[derive(Debug)]
struct Plan {
    pub schedule: Schedule,
    pub changes: Vec<Change>,
    pub program: Settings,
}

impl Plan {
    /// With the program.
    pub fn new(options: &Options) -> Result<Self, Problem> {
        let failed = |error: String| Problem::failed(format!("syn: {error}"));
        let per_s = clock::ticks_per_s().map_err(|error| failed(error.to_string()))?;
        let network = namespace::network_cookie().map_err(|error| failed(error.to_string()))?;
        let kernel = kernel_schedule();
        let (interval_s, dense_s) = (options.interval.as_secs_f64(), options.dense.as_secs_f64());
        let normal_ms = read(LONGEST_TIMEOUT_MS).filter(|ms| *ms > LIMIT_MS);
        let mut schedule = Schedule::dense(interval_s, dense_s, &kernel, normal_ms.is_some());
        let mut changes = vec![
            raise(LINEAR, schedule.linear),
            // Dense retries do not count.
            read(MPTCP_RETRIES).and_then(|retries| raise(MPTCP_RETRIES, retries + schedule.linear)),
        ];
        if options.answers {
            let before = read(ANSWER_RETRIES).unwrap_or(5);
            let retries = answer_retries(interval_s, answer_patience_s(before));
            changes.push(raise(ANSWER_RETRIES, retries));
        }
        // A setting that is larger already stays.
        schedule.linear = kernel.linear.max(schedule.linear);
        if read(LINEAR).is_none() {
            schedule.linear = 0;
        }
        let program = Settings {
            network,
            ticks: ticks(options.interval, per_s),
            answers: options.answers,
            harmless_retries: of_first_second(options.interval),
            more_retries: schedule.retries.saturating_sub(kernel.retries),
            limit: normal_ms.map(|normal_ms| Limit {
                ms: LIMIT_MS,
                normal_ms,
                retry: schedule.limited,
            }),
        };
        schedule.retries = kernel.retries + program.more_retries;
        Ok(Self {
            schedule,
            changes: changes.into_iter().flatten().collect(),
            program,
        })
    }

    /// Without the program, which the kernel refused for this reason.
    pub fn without_program(self, reason: &str) -> Result<Self, Problem> {
        let Some(linear) = read(LINEAR) else {
            return Err(Problem::unable(format!(
                "syn: {reason}; and this kernel has no net.{}: Linux 6.5 has",
                LINEAR.replace('/', ".")
            )));
        };
        Ok(Self {
            schedule: Schedule {
                linear: linear.max(LINEAR_WITHOUT_PROGRAM),
                ..kernel_schedule()
            },
            changes: raise(LINEAR, LINEAR_WITHOUT_PROGRAM).into_iter().collect(),
            ..self
        })
    }
}

/// The schedule of the kernel with its present settings.
fn kernel_schedule() -> Schedule {
    Schedule::of_kernel(read(LINEAR).unwrap_or(0), read(RETRIES).unwrap_or(6))
}

/// Retries within the first second, in which the kernel itself would send one; one more, because timers may end up to a
/// tick early.
fn of_first_second(interval: Duration) -> u32 {
    let second = Duration::from_secs_f64(KERNEL_TIMEOUT_S);
    let whole = second.as_micros().div_ceil(interval.as_micros().max(1));
    u32::try_from(whole + 1).unwrap_or(u32::MAX)
}

const PREFIX: &str = "wavebed-edge-syn-";

/// A command, or the wait for a signal.
#[derive(Debug)]
struct Command<'a> {
    argv: &'a [String],
    groups: Option<Groups>,
}

#[derive(Debug)]
struct Groups {
    ours: Group,
    name: String,
    of_command: Group,
}

impl<'a> Command<'a> {
    /// Makes the control group of a command.
    ///
    /// # Errors
    /// The process may not.
    pub fn prepare(argv: &'a [String]) -> Result<Self, Problem> {
        if argv.is_empty() {
            return Ok(Self { argv, groups: None });
        }
        let groups = Groups::make()
            .map_err(|error| Problem::unable(format!("syn: --run: {error}: leave out --run")))?;
        Ok(Self {
            argv,
            groups: Some(groups),
        })
    }

    /// The control group of the command.
    pub fn group(&self) -> Option<&Group> {
        self.groups.as_ref().map(|groups| &groups.of_command)
    }

    /// Runs the command, or waits for a signal, and returns the exit status.
    ///
    /// # Errors
    /// The command cannot be run.
    pub fn run(&self, signals: &Signals) -> Result<ExitCode, Problem> {
        let Some(groups) = &self.groups else {
            while !ENDINGS.contains(&wait(signals)?) {}
            return Ok(ExitCode::SUCCESS);
        };
        let process = groups.start(self.argv)?;
        loop {
            match wait(signals)? {
                CHILD_CHANGED => {}
                ending => {
                    // The error is that it has ended.
                    let _ = process::kill(-process, ending);
                }
            }
            while let News::Of(ended, state) = process::news_of_children() {
                if ended == process && state.is_end() {
                    return Ok(exit_code(state));
                }
            }
        }
    }
}

impl Groups {
    fn make() -> wavebed_os::Result<Self> {
        let ours = Group::root()?.own()?;
        // Groups of programs that were killed; the kernel keeps groups that have processes.
        for name in ours.children().unwrap_or_default() {
            if name.starts_with(PREFIX) {
                let _ = ours.remove(&name);
            }
        }
        let name = format!("{PREFIX}{}", std::process::id());
        Ok(Self {
            of_command: ours.create(&name)?,
            name,
            ours,
        })
    }

    /// Starts the command in its group: this process enters it for a moment.
    fn start(&self, argv: &[String]) -> Result<i32, Problem> {
        let failed = |error| Problem::failed(format!("syn: --run: {error}"));
        self.of_command.add(0).map_err(|error| {
            Problem::unable(format!("syn: --run: enter a control group: {error}"))
        })?;
        let environment: Vec<(String, String)> = std::env::vars_os()
            .filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let started = process::spawn(&Spawn {
            argv,
            environment: &environment,
            directory: None,
            network: None,
            hostname: "",
            stdio: [None, None, None],
            terminal: None,
            confinement: None,
        });
        self.ours.add(0).map_err(|error| {
            Problem::failed(format!("syn: --run: leave a control group: {error}"))
        })?;
        started.map_err(failed)
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        // What the command left behind goes on in the group that it came from.
        for process in self.of_command.processes().unwrap_or_default() {
            let _ = self.ours.add(process);
        }
        let _ = self.ours.remove(&self.name);
    }
}

fn exit_code(state: ChildState) -> ExitCode {
    ExitCode::from(u8::try_from(state.exit_code()).unwrap_or(u8::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_of_the_first_second_leave_the_window() {
        assert_eq!(of_first_second(Duration::from_millis(100)), 11);
        assert_eq!(of_first_second(Duration::from_millis(300)), 5);
        assert_eq!(of_first_second(Duration::from_secs(1)), 2);
    }
}
