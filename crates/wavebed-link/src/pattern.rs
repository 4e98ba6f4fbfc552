//! Patterns: the time series that drive a link.

/// Placeholder until the reader is there.
#[derive(Clone, Debug)]
pub struct Pattern;
