//! Remedies for radio links at the edge of a network.

pub mod check;
pub mod problem;
pub mod splitter;
pub mod syn;
pub mod tunnel;
pub mod units;
