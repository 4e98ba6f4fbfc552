//! A command of `--run`, in a control group of its own.

use std::process::ExitCode;

use wavebed_os::cgroup::Group;
use wavebed_os::process::{self, ChildState, News, Signals, Spawn};

use super::{CHILD_CHANGED, ENDINGS, wait};
use crate::problem::Problem;

const PREFIX: &str = "wavebed-edge-syn-";

/// A command, or the wait for a signal.
#[derive(Debug)]
pub struct Command<'a> {
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
        // Those of programs that were killed; the kernel keeps groups that have processes.
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
