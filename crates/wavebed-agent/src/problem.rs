//! Errors of the agent: one line for the machine that started it.

use std::fmt::Display;
use std::io;

/// A request, or the start, failed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Problem(pub String);

impl Problem {
    /// A line from its parts: what was tried, and the reason.
    pub fn of(what: impl Display, why: impl Display) -> Self {
        Self(format!("{what}: {why}"))
    }
}

impl From<wavebed_os::Error> for Problem {
    fn from(error: wavebed_os::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<wavebed_probe::problem::Problem> for Problem {
    fn from(problem: wavebed_probe::problem::Problem) -> Self {
        Self(problem.to_string())
    }
}
