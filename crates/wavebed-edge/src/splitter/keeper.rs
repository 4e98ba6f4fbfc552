//! A second process that removes the packet rules at the orderly end of the splitter: the filter of system calls forbids
//! the splitter itself to start nft and ip.

use std::io::{self, Read as _};
use std::process::ExitCode;

use wavebed_os::process::ChildState;

use super::rules::Rules;
use super::settings::Settings;
use super::{passwd, privileges, settings_file};
use crate::problem::Problem;
use crate::second_process::{self, SecondProcess};

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
    second_process::ignore_signals();
    let settings = settings_file::read(None, &options.sets).map_err(Problem::invalid)?;
    privileges::give_up(&settings).map_err(Problem::unable)?;
    second_process::say_ready();
    if io::stdin().read_exact(&mut [0]).is_ok() {
        Rules::new(&settings).remove().map_err(Problem::failed)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The second process.
#[derive(Debug)]
pub struct Keeper(SecondProcess);

impl Keeper {
    /// Starts it. The calling process must have one thread.
    ///
    /// # Errors
    /// One line.
    pub fn start(settings: &Settings) -> Result<Self, String> {
        // nft and ip are looked for in it.
        let path = std::env::var("PATH").map(|path| ("PATH".to_owned(), path));
        let path: Vec<(String, String)> = path.into_iter().collect();
        SecondProcess::start("splitter-keeper", sets(settings)?, &path)
            .map(Self)
            .map_err(|error| format!("cannot start a process: {error}"))
    }

    /// Removes the packet rules.
    ///
    /// # Errors
    /// They are not all removed; the second process has said why.
    pub fn remove_rules(mut self) -> Result<(), String> {
        match self.0.tell().and_then(|()| self.0.end()) {
            Ok(ChildState::Exited(0)) => Ok(()),
            _ => Err("the packet rules were not removed: run `splitter rules --remove`".to_owned()),
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
