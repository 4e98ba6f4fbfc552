//! A second process that puts the settings back when the first one has ended, also by SIGKILL.

use std::io::{self, Read as _};
use std::process::ExitCode;

use wavebed_os::process::ChildState;

use super::sysctl::Change;
use crate::problem::Problem;
use crate::second_process::{self, SecondProcess};

/// Arguments of the second process.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Settings as NAME=BEFORE=DURING.
    changes: Vec<String>,
}

/// Waits for the end of standard input, then puts the settings back.
///
/// # Errors
/// A setting cannot be put back.
pub fn run(options: &Options) -> Result<ExitCode, Problem> {
    second_process::ignore_signals();
    let changes = options.changes.iter().map(|text| read(text));
    let changes: Vec<Change> = changes
        .collect::<Option<_>>()
        .ok_or_else(|| Problem::invalid("syn-keeper: is started by `wavebed-edge syn`"))?;
    second_process::say_ready();
    let _ = io::stdin().read_to_end(&mut Vec::new());
    for change in &changes {
        change
            .undo()
            .map_err(|error| Problem::failed(format!("syn: restore {}: {error}", change.name)))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn read(text: &str) -> Option<Change> {
    let mut fields = text.split('=');
    let change = Change {
        name: fields.next()?.to_owned(),
        before: fields.next()?.parse().ok()?,
        during: fields.next()?.parse().ok()?,
    };
    fields.next().is_none().then_some(change)
}

/// Settings that are changed until this is dropped or its process ends.
#[derive(Debug)]
pub struct Kept(SecondProcess);

impl Kept {
    /// Changes the settings. The calling process must have one thread.
    ///
    /// # Errors
    /// A setting cannot be changed: none is then.
    pub fn change(changes: &[Change]) -> Result<Self, Problem> {
        let kept = Self::start(changes)
            .map_err(|error| Problem::failed(format!("syn: start a process: {error}")))?;
        for change in changes {
            change.make().map_err(|error| {
                Problem::unable(format!(
                    "syn: cannot set net/{}: {error}: run it as root",
                    change.name
                ))
            })?;
        }
        Ok(kept)
    }

    fn start(changes: &[Change]) -> io::Result<Self> {
        let words = changes
            .iter()
            .map(|one| format!("{}={}={}", one.name, one.before, one.during));
        SecondProcess::start("syn-keeper", words, &[]).map(Self)
    }

    /// Puts the settings back.
    ///
    /// # Errors
    /// They are not all back; the second process has said why.
    pub fn restore(mut self) -> Result<(), Problem> {
        match self.0.end() {
            Ok(ChildState::Exited(0)) => Ok(()),
            _ => Err(Problem::failed("syn: the settings were not put back")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_read_as_they_are_written() {
        let change = Change {
            name: "ipv4/tcp_syn_retries".to_owned(),
            before: 6,
            during: 10,
        };
        assert_eq!(read("ipv4/tcp_syn_retries=6=10"), Some(change));
        assert_eq!(read("ipv4/tcp_syn_retries=6"), None);
        assert_eq!(read("a=1=2=3"), None);
    }
}
