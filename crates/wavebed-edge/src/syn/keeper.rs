//! A second process that puts the settings back when the first one has ended, also by SIGKILL.

use std::io::{self, PipeWriter, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::process::ExitCode;

use wavebed_os::process::{self, ChildState, Spawn};

use super::sysctl::Change;
use crate::problem::Problem;

/// SIGHUP, SIGINT, SIGTERM: they end the first process, and its end ends this one.
const IGNORED: [i32; 3] = [1, 2, 15];

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
    process::ignore(&IGNORED);
    let changes = options.changes.iter().map(|text| read(text));
    let changes: Vec<Change> = changes
        .collect::<Option<_>>()
        .ok_or_else(|| Problem::invalid("syn-keeper: is started by `wavebed-edge syn`"))?;
    // Readiness, for the first process.
    let _ = io::stdout().write_all(b"\n");
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
pub struct Kept {
    /// Open as long as the settings are to stay.
    pipe: Option<PipeWriter>,
    process: i32,
}

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
        let (input, pipe) = io::pipe()?;
        let (mut ready, output) = io::pipe()?;
        let words = changes
            .iter()
            .map(|one| format!("{}={}={}", one.name, one.before, one.during));
        let argv: Vec<String> = ["/proc/self/exe", "syn-keeper"]
            .map(str::to_owned)
            .into_iter()
            .chain(words)
            .collect();
        let process = process::spawn(&Spawn {
            argv: &argv,
            environment: &[],
            directory: None,
            network: None,
            hostname: "",
            stdio: [Some(input.as_fd()), Some(output.as_fd()), None],
            terminal: None,
            confinement: None,
        })
        .map_err(|error| error.source)?;
        drop((input, output));
        let kept = Self {
            pipe: Some(pipe),
            process,
        };
        // From then on no signal ends it before its time.
        ready.read_exact(&mut [0])?;
        Ok(kept)
    }

    /// Puts the settings back.
    ///
    /// # Errors
    /// They are not all back; the second process has said why.
    pub fn restore(mut self) -> Result<(), Problem> {
        match self.end() {
            Ok(ChildState::Exited(0)) => Ok(()),
            _ => Err(Problem::failed("syn: the settings were not put back")),
        }
    }

    fn end(&mut self) -> io::Result<ChildState> {
        drop(self.pipe.take());
        process::wait_for(self.process)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if self.pipe.is_some() {
            let _ = self.end();
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
