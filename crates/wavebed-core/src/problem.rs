//! What the program says and how it ends: errors with exit statuses, lines on standard error, summaries, signals.

use std::fmt::Display;
use std::io;
use std::io::Write;
use std::path::Path;

use serde_json::Value;
use wavebed_os::namespace::{Forked, Isolation, Notice};
use wavebed_os::{namespace, output};

/// Exit status: the experiment failed.
pub const FAILED: i32 = 1;
/// Exit status: the arguments or a file are invalid.
pub const WRONG_INPUT: i32 = 2;
/// Exit status: the machine lacks a feature or a permission.
pub const CANNOT: i32 = 3;
/// Exit status: interrupted.
pub const INTERRUPTED: i32 = 130;

/// A line for standard error, and an exit status.
#[derive(Debug, thiserror::Error)]
#[error("{line}")]
pub struct Problem {
    /// The exit status.
    pub status: i32,
    /// The error and its remedy.
    pub line: String,
}

impl Problem {
    /// The experiment failed.
    pub fn failed(line: impl Into<String>) -> Self {
        Self {
            status: FAILED,
            line: line.into(),
        }
    }

    /// The arguments or a file are invalid.
    pub fn wrong(line: impl Into<String>) -> Self {
        Self {
            status: WRONG_INPUT,
            line: line.into(),
        }
    }

    /// The machine lacks a feature or a permission.
    pub fn cannot(line: impl Into<String>) -> Self {
        Self {
            status: CANNOT,
            line: format!("{}; `wavebed doctor` explains", line.into()),
        }
    }

    /// The same problem; where a guest is possible, the line names it: it needs neither namespaces nor a TUN device.
    #[must_use]
    pub fn or_virtual_time(self) -> Self {
        if !cfg!(target_arch = "x86_64") || self.status != CANNOT {
            return self;
        }
        Self {
            line: format!(
                "{}; --virtual-time needs none of this (once: `wavebed kernel build`)",
                self.line
            ),
            ..self
        }
    }

    /// No process could be started in new namespaces.
    pub fn no_namespaces(error: wavebed_os::Error) -> Self {
        if error.is_out_of_descriptors() {
            return error.into();
        }
        Self::cannot(format!(
            "this user may not make namespaces here ({}): run as root",
            error.source
        ))
    }

    /// An operation in new namespaces is refused.
    pub fn no_rights(error: &wavebed_os::Error) -> Self {
        Self::cannot(format!(
            "{error}: this system restricts user namespaces; run as root"
        ))
    }
}

impl From<wavebed_os::Error> for Problem {
    fn from(error: wavebed_os::Error) -> Self {
        if error.is_out_of_descriptors() {
            return Self {
                status: CANNOT,
                line: format!("{error}: raise the limit of open files: ulimit -n 1024"),
            };
        }
        Self::cannot(error.to_string())
    }
}

/// Prints a line on standard error. Ignores errors.
pub fn say(line: impl Display) {
    say_text(&format!("wavebed-core: {line}\n"));
}

/// Prints a text on standard error unchanged.
pub fn say_text(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Prints on standard output.
///
/// # Errors
/// If it is closed, full or broken.
pub fn print(text: &str) -> Result<(), Problem> {
    let mut output = io::stdout();
    output
        .write_all(text.as_bytes())
        .and_then(|()| output.flush())
        .map_err(|error| Problem::failed(format!("standard output: {error}")))
}

/// Hang-up of the terminal.
pub const HUP: i32 = 1;
/// Ctrl-C.
pub const INT: i32 = 2;
/// Ctrl-\.
pub const QUIT: i32 = 3;
/// Kill; cannot be caught.
pub const KILL: i32 = 9;
/// For programs' own use.
pub const USR1: i32 = 10;
/// For programs' own use.
pub const USR2: i32 = 12;
/// Request to terminate.
pub const TERM: i32 = 15;
/// A child changed its state.
pub const CHLD: i32 = 17;
/// Continue after a stop.
pub const CONT: i32 = 18;
/// Ctrl-Z.
pub const TSTP: i32 = 20;
/// Reading in the background.
pub const TTIN: i32 = 21;
/// Writing in the background.
pub const TTOU: i32 = 22;
/// The window changed its size.
pub const WINCH: i32 = 28;

/// Makes a process in namespaces of its own. Root that may not make them (in a container) tries as other users do, with a user
/// namespace. Returns which it was.
///
/// # Errors
/// The process cannot be made.
pub fn fork(user: u32) -> Result<(Forked, Isolation), Problem> {
    let mut isolation = if user == 0 {
        Isolation::Laboratory
    } else {
        Isolation::UserLaboratory
    };
    let mut forked = namespace::fork(isolation, Notice::DescriptorOnly);
    if isolation == Isolation::Laboratory
        && forked.as_ref().is_err_and(|error| error.errno() == Some(1))
    {
        isolation = Isolation::UserLaboratory;
        forked = namespace::fork(isolation, Notice::DescriptorOnly);
    }
    Ok((forked.map_err(Problem::no_namespaces)?, isolation))
}

/// Writes the summary, with the name and the seed, if there is a file for it.
///
/// # Errors
/// One line with the file and the system's error.
pub fn write_summary(
    path: Option<&Path>,
    name: &str,
    seed: u64,
    summary: &Value,
) -> Result<(), String> {
    let Some(path) = path else {
        return Ok(());
    };
    let mut summary = summary.clone();
    summary["name"] = name.into();
    summary["seed"] = seed.into();
    let text = serde_json::to_string_pretty(&summary).map_err(|error| error.to_string())?;
    output::write(path, (text + "\n").as_bytes())
        .map_err(|error| format!("summary_file: {}: {error}", path.display()))
}
