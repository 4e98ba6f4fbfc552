//! The conditions of a link at one time, for a display.

use crate::pattern::State;

/// The conditions of a stage or a link at one time; `None` where it has none, or where they are not known without
/// traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Conditions {
    /// Rate, bits per second.
    pub rate_bps: Option<u64>,
    /// Delay beside queueing, nanoseconds; the mean of a distribution.
    pub delay_ns: Option<u64>,
    /// Probability that a segment is lost.
    pub loss: Option<f64>,
    /// State of the radio.
    pub state: Option<State>,
    /// Effective SINR of the data, dB.
    pub sinr_db: Option<f64>,
}

impl Conditions {
    /// Those of two stages in a row: the lower rate, the sum of delays, the loss of both, and the first radio.
    #[must_use]
    pub fn then(self, next: Self) -> Self {
        Self {
            rate_bps: both(self.rate_bps, next.rate_bps, u64::min),
            delay_ns: both(self.delay_ns, next.delay_ns, u64::saturating_add),
            loss: both(self.loss, next.loss, |one, other| {
                1.0 - (1.0 - one) * (1.0 - other)
            }),
            state: self.state.or(next.state),
            sinr_db: self.sinr_db.or(next.sinr_db),
        }
    }
}

fn both<T>(one: Option<T>, other: Option<T>, join: impl FnOnce(T, T) -> T) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(join(one, other)),
        (one, other) => one.or(other),
    }
}
