//! Why a port does not do what it was asked.

use std::io::ErrorKind;

use serde::Serialize;
use wavebed_forward::answer::NotFound;

/// `EPERM`, `ENOMEM`, `EACCES`, `EBUSY`, `EINVAL`, `ENOSYS`, `EPROTONOSUPPORT`, `EOPNOTSUPP`: what the kernel answers when it will
/// not, or cannot.
const CANNOT: [i32; 8] = [1, 12, 13, 16, 22, 38, 93, 95];

/// Whose fault it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The request's.
    Wrong,
    /// This machine's.
    Cannot,
    /// It went wrong.
    Failed,
}

/// One line, and whose fault it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The line.
    pub line: String,
    /// See [`Kind`].
    pub kind: Kind,
}

impl Refusal {
    /// The request breaks a rule.
    pub fn wrong(line: impl Into<String>) -> Self {
        Self::new(line, Kind::Wrong)
    }

    /// The machine cannot.
    pub fn cannot(line: impl Into<String>) -> Self {
        Self::new(line, Kind::Cannot)
    }

    /// It was tried and went wrong.
    pub fn failed(line: impl Into<String>) -> Self {
        Self::new(line, Kind::Failed)
    }

    fn new(line: impl Into<String>, kind: Kind) -> Self {
        Self {
            line: line.into().replace('\n', " "),
            kind,
        }
    }
}

/// By the system's answer.
pub fn cannot_or_failed(error: &wavebed_os::Error) -> Refusal {
    let refused = error.errno().is_some_and(|number| CANNOT.contains(&number));
    if refused || error.source.kind() == ErrorKind::Unsupported {
        Refusal::cannot(error.to_string())
    } else {
        Refusal::failed(error.to_string())
    }
}

impl From<NotFound> for Refusal {
    fn from(error: NotFound) -> Self {
        match error {
            NotFound::Families(..) => Self::wrong(error.to_string()),
            NotFound::NoAnswer { .. } => Self::failed(error.to_string()),
            NotFound::System(error) => cannot_or_failed(&error),
        }
    }
}
