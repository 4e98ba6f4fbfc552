//! Settings of the calling thread's network namespace under `/proc/sys/net`.

use std::fs;
use std::io;
use std::path::PathBuf;

/// Retries of a SYN before the timeout doubles (Linux 6.5).
pub const LINEAR: &str = "ipv4/tcp_syn_linear_timeouts";
/// Retries of a SYN after that.
pub const RETRIES: &str = "ipv4/tcp_syn_retries";
/// Retries of an answer to a SYN.
pub const ANSWER_RETRIES: &str = "ipv4/tcp_synack_retries";
/// Retries of an MPTCP SYN before MPTCP is given up (Linux 6.12); without a change, 0.3 s of outage would do that.
pub const MPTCP_RETRIES: &str = "mptcp/syn_retrans_before_tcp_fallback";

/// The longest timeout, milliseconds (Linux 6.15).
pub const LONGEST_TIMEOUT_MS: &str = "ipv4/tcp_rto_max_ms";

/// A setting, its value before, and its value while the program runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Path below `/proc/sys/net`.
    pub name: String,
    /// The value before.
    pub before: u32,
    /// The value during.
    pub during: u32,
}

impl Change {
    /// Writes the value for the time of the program.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn make(&self) -> io::Result<()> {
        fs::write(path(&self.name), self.during.to_string())
    }

    /// Puts the value before back, unless somebody else has changed the setting since.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn undo(&self) -> io::Result<()> {
        if read(&self.name) == Some(self.during) {
            fs::write(path(&self.name), self.before.to_string())?;
        }
        Ok(())
    }
}

/// The present value; `None` if the kernel has no such setting.
#[must_use]
pub fn read(name: &str) -> Option<u32> {
    fs::read_to_string(path(name)).ok()?.trim().parse().ok()
}

/// The change of setting `name` to at least `value`; `None` if there is no such setting or it is as large already.
#[must_use]
pub fn raise(name: &str, value: u32) -> Option<Change> {
    let before = read(name)?;
    (before < value).then(|| Change {
        name: name.to_owned(),
        before,
        during: value,
    })
}

fn path(name: &str) -> PathBuf {
    PathBuf::from("/proc/sys/net").join(name)
}
