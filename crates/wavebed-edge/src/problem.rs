//! Errors that end the program: one line and an exit status for scripts.

/// A line for standard error, and an exit status.
#[derive(Debug, thiserror::Error)]
#[error("{line}")]
pub struct Problem {
    /// The exit status: 1 failed, 2 invalid input, 3 the machine lacks a feature or a permission.
    pub status: u8,
    /// The error and what would be right.
    pub line: String,
}

impl Problem {
    /// Something failed.
    #[must_use]
    pub fn failed(line: impl Into<String>) -> Self {
        Self {
            status: 1,
            line: line.into(),
        }
    }

    /// An argument or a file is wrong.
    #[must_use]
    pub fn invalid(line: impl Into<String>) -> Self {
        Self {
            status: 2,
            line: line.into(),
        }
    }

    /// The machine lacks a feature or a permission.
    #[must_use]
    pub fn unable(line: impl Into<String>) -> Self {
        Self {
            status: 3,
            line: line.into(),
        }
    }
}
