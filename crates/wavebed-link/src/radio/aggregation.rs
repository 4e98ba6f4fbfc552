//! Carrier aggregation: when the secondary carriers are active (TS 38.321, clause 5.9).

use garde::Validate;
use schemars::JsonSchema;
use serde::Deserialize;

use super::NEVER;
use super::air::Air;
use crate::bounds::MAX_TIME_NS;
use crate::pattern::State;

/// Component carriers of equal rate: all but the first are activated by a command when data waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema, Validate)]
#[serde(deny_unknown_fields)]
pub struct Aggregation {
    /// Component carriers of equal rate, the primary one included (maxNrofServingCells, TS 38.331).
    #[garde(range(min = 2, max = 32))]
    pub carriers: u32,
    /// From the command to the first slot of the secondary carriers.
    #[serde(default = "activation_ns")]
    #[garde(range(max = MAX_TIME_NS))]
    pub activation_ns: u64,
    /// sCellDeactivationTimer: time without a block on a secondary carrier.
    #[serde(default = "deactivation_ns")]
    #[garde(range(min = 1, max = MAX_TIME_NS))]
    pub deactivation_ns: u64,
}

/// TS 36.133 7.7.2, of a known carrier. In NR it depends on the period of the SSB (TS 38.133 8.3.2): an assumption.
const fn activation_ns() -> u64 {
    24_000_000
}

/// An assumption: TS 38.331 has 20 to 1280 ms.
const fn deactivation_ns() -> u64 {
    80_000_000
}

impl Aggregation {
    /// The part of `rate_bps` that `carrier` has. All parts together are the whole.
    #[must_use]
    pub fn part(&self, rate_bps: u64, carrier: u32) -> u64 {
        let carriers = u64::from(self.carriers.max(1));
        rate_bps / carriers + u64::from(u64::from(carrier) < rate_bps % carriers)
    }
}

/// The secondary carriers: one command activates all of them.
#[derive(Debug)]
pub struct Secondary {
    settings: Aggregation,
    /// Since when they are active, or will be; [`NEVER`] after a deactivation.
    from_ns: u64,
    /// When their last block began.
    last_ns: u64,
    /// The next fall-back after the command.
    fallback_ns: u64,
}

impl Secondary {
    /// Deactivated.
    #[must_use]
    pub fn new(settings: Aggregation, air: &mut Air) -> Self {
        let mut secondary = Self {
            settings,
            from_ns: NEVER,
            last_ns: 0,
            fallback_ns: 0,
        };
        secondary.look_ahead(0, air);
        secondary
    }

    /// Finds the first fall-back at or after `at_ns`.
    pub fn look_ahead(&mut self, at_ns: u64, air: &mut Air) {
        self.fallback_ns = air.next_into(State::Fallback, at_ns).unwrap_or(NEVER);
    }

    /// The times at which a slot of theirs may begin; empty while they are deactivated.
    #[must_use]
    pub fn active(&self) -> std::ops::Range<u64> {
        let expires_ns = self.last_ns.saturating_add(self.settings.deactivation_ns);
        self.from_ns..expires_ns.min(self.fallback_ns)
    }

    /// At `at_ns` a block for the slot at `start_ns` was built, with the command, unless they are active or become so.
    pub fn command(&mut self, at_ns: u64, start_ns: u64, air: &mut Air) {
        if self.from_ns < NEVER && at_ns < self.active().end {
            return;
        }
        if self.fallback_ns <= start_ns {
            self.look_ahead(start_ns, air);
        }
        self.from_ns = start_ns.saturating_add(self.settings.activation_ns);
        self.last_ns = self.from_ns;
    }

    /// One of them sends a block in the slot at `start_ns`.
    pub fn sent(&mut self, start_ns: u64) {
        self.last_ns = self.last_ns.max(start_ns);
    }

    /// Deactivates them.
    pub const fn deactivate(&mut self) {
        self.from_ns = NEVER;
    }
}
