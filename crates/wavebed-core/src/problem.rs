//! Errors that end the program: one line and an exit status for scripts.

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
