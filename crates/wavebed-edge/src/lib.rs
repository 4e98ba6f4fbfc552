//! Remedies for radio links at the edge of a network.

pub mod tunnel;
