//! DRX (TS 38.321, clause 5.7) and RRC release. The two directions of a hop share one connection.

use garde::Validate;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::bounds::MAX_TIME_NS;
use std::sync::atomic::{AtomicU64, Ordering};

use super::settings::Direction;

/// Connected-mode DRX. Nanoseconds, cycles more than 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drx {
    /// Awake for this long after the last activity (drx-InactivityTimer).
    pub inactivity_ns: u64,
    /// The short cycle, and how many of them come first; `None`: the long cycle at once.
    pub short: Option<(u64, u64)>,
    /// The long cycle.
    pub long_cycle_ns: u64,
    /// Awake at the beginning of each cycle (drx-onDurationTimer).
    pub on_ns: u64,
}

/// Release to idle or inactive, and promotion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema, Validate)]
#[serde(deny_unknown_fields)]
pub struct Rrc {
    /// Idle time before the release.
    #[garde(range(min = 1, max = MAX_TIME_NS))]
    pub inactivity_ns: u64,
    /// Time of the promotion to connected mode.
    #[garde(range(max = MAX_TIME_NS))]
    pub promotion_ns: u64,
    /// Paging cycle: longest wait of a downlink packet for its paging.
    #[garde(range(max = MAX_TIME_NS))]
    pub paging_ns: u64,
}

/// The connection of a UE.
///
/// Directions may run in different threads. Activity of one direction causes traffic in the other only through the
/// hosts, so it is recorded before that traffic arrives.
#[derive(Debug)]
pub struct Connection {
    drx: Option<Drx>,
    rrc: Option<Rrc>,
    /// The last activity.
    last_ns: AtomicU64,
    /// When the connection is available again after the last promotion.
    awake_ns: AtomicU64,
}

impl Connection {
    /// A connection that is awake at time 0.
    #[must_use]
    pub const fn new(drx: Option<Drx>, rrc: Option<Rrc>) -> Self {
        Self {
            drx,
            rrc,
            last_ns: AtomicU64::new(0),
            awake_ns: AtomicU64::new(0),
        }
    }

    /// Data for `direction` arrived at `at_ns`. Returns the time from which it may be sent.
    pub fn wake(&self, at_ns: u64, direction: Direction) -> u64 {
        let awake_ns = self.awake_ns.load(Ordering::Acquire);
        if at_ns < awake_ns {
            return awake_ns;
        }
        let idle_ns = at_ns.saturating_sub(self.last_ns.load(Ordering::Acquire));
        let promoted_ns = self.promoted_ns(at_ns, idle_ns, direction);
        if let Some(promoted_ns) = promoted_ns {
            self.awake_ns.fetch_max(promoted_ns, Ordering::AcqRel);
        }
        let ready_ns = promoted_ns.unwrap_or_else(|| match self.drx {
            Some(drx) if direction == Direction::Down => drx.listens_ns(at_ns, idle_ns),
            // A scheduling request may be sent at any time.
            _ => at_ns,
        });
        self.active(ready_ns);
        ready_ns
    }

    /// Records activity at `at_ns`.
    pub fn active(&self, at_ns: u64) {
        self.last_ns.fetch_max(at_ns, Ordering::AcqRel);
    }

    /// When a released connection is available again; `None` if it was not released.
    fn promoted_ns(&self, at_ns: u64, idle_ns: u64, direction: Direction) -> Option<u64> {
        let rrc = self.rrc.filter(|rrc| idle_ns >= rrc.inactivity_ns)?;
        let paged_ns = match direction {
            Direction::Down if rrc.paging_ns > 0 => at_ns.next_multiple_of(rrc.paging_ns),
            _ => at_ns,
        };
        Some(paged_ns.saturating_add(rrc.promotion_ns))
    }
}

impl Drx {
    /// When a UE that has been idle for `idle_ns` at `at_ns` listens next.
    fn listens_ns(&self, at_ns: u64, idle_ns: u64) -> u64 {
        if idle_ns < self.inactivity_ns {
            return at_ns;
        }
        let next = |cycle_ns: u64| {
            if at_ns % cycle_ns < self.on_ns {
                at_ns
            } else {
                at_ns.next_multiple_of(cycle_ns)
            }
        };
        // The short cycles end at some time (drx-ShortCycleTimer); a cycle that would begin after that is not a short
        // one.
        let asleep_ns = idle_ns - self.inactivity_ns;
        let short = self.short.and_then(|(short_ns, cycles)| {
            let left_ns = short_ns.saturating_mul(cycles).checked_sub(asleep_ns)?;
            Some(next(short_ns)).filter(|listens_ns| listens_ns - at_ns < left_ns)
        });
        short.unwrap_or_else(|| next(self.long_cycle_ns))
    }
}
