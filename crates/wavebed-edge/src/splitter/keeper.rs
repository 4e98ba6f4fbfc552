//! A second process that removes the packet rules at the orderly end of the splitter, which may start no program any more.

use std::io::{self, PipeWriter, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::process::ExitCode;

use wavebed_os::process::{self, ChildState, Spawn};

use super::rules::Rules;
use super::settings::Settings;
use super::{passwd, privileges, settings_file};
use crate::problem::Problem;

/// SIGHUP, SIGINT, SIGTERM: they are for the splitter, whose end ends this process.
const IGNORED: [i32; 3] = [1, 2, 15];

/// Arguments of the second process.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Keys of the configuration that the rules have.
    sets: Vec<String>,
}

/// Waits for a byte on standard input, then removes the packet rules. At the end of the input without one, as after a
/// SIGKILL of the splitter, they stay: connections pass unsplit.
///
/// # Errors
/// The rules cannot be removed.
pub fn run(options: &Options) -> Result<ExitCode, Problem> {
    process::ignore(&IGNORED);
    let settings = settings_file::read(None, &options.sets).map_err(Problem::invalid)?;
    privileges::give_up(&settings).map_err(Problem::unable)?;
    // Readiness, for the first process.
    let _ = io::stdout().write_all(b"\n");
    if io::stdin().read_exact(&mut [0]).is_ok() {
        Rules::new(&settings).remove().map_err(Problem::failed)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The second process.
#[derive(Debug)]
pub struct Keeper {
    pipe: Option<PipeWriter>,
    process: i32,
}

impl Keeper {
    /// Starts it. The calling process must have one thread.
    ///
    /// # Errors
    /// One line.
    pub fn start(settings: &Settings) -> Result<Self, String> {
        let failed = |error: io::Error| format!("cannot start a process: {error}");
        let mut argv = vec!["/proc/self/exe".to_owned(), "splitter-keeper".to_owned()];
        argv.extend(sets(settings)?);
        let path: Vec<(String, String)> = std::env::var("PATH")
            .map(|path| ("PATH".to_owned(), path))
            .into_iter()
            .collect();
        let (input, pipe) = io::pipe().map_err(failed)?;
        let (mut ready, output) = io::pipe().map_err(failed)?;
        let process = process::spawn(&Spawn {
            argv: &argv,
            environment: &path,
            directory: None,
            network: None,
            hostname: "",
            stdio: [Some(input.as_fd()), Some(output.as_fd()), None],
            terminal: None,
            confinement: None,
        })
        .map_err(|error| failed(error.source))?;
        drop((input, output));
        let keeper = Self {
            pipe: Some(pipe),
            process,
        };
        // From then on no signal ends it before its time.
        ready.read_exact(&mut [0]).map_err(failed)?;
        Ok(keeper)
    }

    /// Removes the packet rules.
    ///
    /// # Errors
    /// They are not all removed; the second process has said why.
    pub fn remove_rules(mut self) -> Result<(), String> {
        let not_removed = "the packet rules were not removed: run `splitter rules --remove`";
        if let Some(mut pipe) = self.pipe.take() {
            pipe.write_all(b"\n").map_err(|_| not_removed.to_owned())?;
        }
        match process::wait_for(self.process) {
            Ok(ChildState::Exited(0)) => Ok(()),
            _ => Err(not_removed.to_owned()),
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if self.pipe.take().is_some() {
            let _ = process::wait_for(self.process);
        }
    }
}

/// The keys that the removal depends on.
fn sets(settings: &Settings) -> Result<Vec<String>, String> {
    let listen: Vec<String> = settings
        .listen
        .iter()
        .map(|one| format!("\"{one}\""))
        .collect();
    let mut sets = vec![
        format!("mark={}", settings.mark),
        format!("route-table={}", settings.route_table),
        format!("listen=[{}]", listen.join(", ")),
    ];
    if let Some(user) = &settings.user {
        sets.push(format!("user=\"{}\"", passwd::user_id(user)?));
    }
    Ok(sets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_process_removes_what_the_first_one_made() {
        let given = [
            "listen=[\"127.0.0.1:7\"]",
            "mark=9",
            "route-table=300",
            "user=\"12\"",
        ];
        let given = given.map(str::to_owned);
        let settings = settings_file::read(None, &given).expect("is valid");
        let passed =
            settings_file::read(None, &sets(&settings).expect("a user")).expect("is valid");
        assert_eq!(Rules::new(&passed).text(), Rules::new(&settings).text());
        assert_eq!(passed.user.as_deref(), Some("12"));
    }
}
