//! System errors: the operation, its object, and the system's error.

use std::io;

/// The result of an operation on the system.
pub type Result<T> = std::result::Result<T, Error>;

/// A system call that failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} {object}: {source}")]
pub struct Error {
    /// The operation, a verb: `open`, `mount`, `add address to`.
    pub operation: &'static str,
    /// Its object.
    pub object: String,
    /// The system's error.
    pub source: io::Error,
}

impl Error {
    /// An error with the error number of this thread's last system call.
    #[must_use]
    pub fn last(operation: &'static str, object: impl Into<String>) -> Self {
        Self {
            operation,
            object: object.into(),
            source: io::Error::last_os_error(),
        }
    }

    /// The error number, if the system gave one.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        self.source.raw_os_error()
    }

    /// Whether the limit of open files is reached.
    #[must_use]
    pub fn is_out_of_descriptors(&self) -> bool {
        self.errno() == Some(libc::EMFILE)
    }
}

/// Adds the operation and its object to an I/O result.
pub trait Context<T> {
    /// Adds the operation and its object.
    ///
    /// # Errors
    /// The error of `self`, with its context.
    fn during(self, operation: &'static str, object: impl Into<String>) -> Result<T>;
}

impl<T, E: Into<io::Error>> Context<T> for std::result::Result<T, E> {
    fn during(self, operation: &'static str, object: impl Into<String>) -> Result<T> {
        self.map_err(|error| Error {
            operation,
            object: object.into(),
            source: error.into(),
        })
    }
}

/// Turns the -1 of a system call into its error.
///
/// # Errors
/// The last error of this thread, if `value` is -1.
pub(crate) fn check(value: i32) -> io::Result<i32> {
    if value == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(value)
    }
}
