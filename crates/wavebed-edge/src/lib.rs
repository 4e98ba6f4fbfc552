//! Remedies for radio links at the edge of a network.

pub mod check;
mod configuration;
pub mod problem;
mod second_process;
pub mod splitter;
pub mod syn;
pub mod system_calls;
pub mod tunnel;
pub mod units;

/// Signals that end a program in order: `SIGINT` and `SIGTERM` of signal(7).
const STOP_SIGNALS: [i32; 2] = [2, 15];
