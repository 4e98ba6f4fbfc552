//! Errors of a prober: one line.

use std::io;

/// A prober cannot go on.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Problem(pub String);

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
