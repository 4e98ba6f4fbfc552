//! Other users of the cell: bursts of demand that take slots by proportional fair.

use garde::Validate;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::bounds::MAX_TIME_NS;
use crate::random_stream::RandomStream;

/// As good as none.
const MIN_LOAD: f64 = 1e-6;
/// Shorter bursts would cost time, and no scheduler would see them.
const MIN_BURST_NS: u64 = 100_000;

/// An assumption: some objects of a web page at the rate of a cell.
const fn burst_ns() -> u64 {
    5_000_000
}

/// Bursts of other users.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema, Validate)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Mean fraction of the slots that other users need.
    #[garde(range(min = MIN_LOAD, max = 0.99))]
    pub mean: f64,
    /// Mean time that a burst takes with all slots.
    #[serde(default = "burst_ns")]
    #[garde(range(min = MIN_BURST_NS, max = MAX_TIME_NS))]
    pub burst_ns: u64,
}

/// Slots over which the scheduler averages what it gave to a user (`LastAvgTPutWeight` of 5G-LENA).
const AVERAGE_SLOTS: f64 = 99.0;

/// A burst of another user. Times are those with all slots.
#[derive(Clone, Copy, Debug)]
struct Burst {
    left_ns: f64,
    /// Mean fraction of the slots that it was given.
    given: f64,
}

/// Which slots other users take.
#[derive(Debug)]
pub struct Others {
    load: Load,
    random: RandomStream,
    bursts: Vec<Burst>,
    /// The next burst: its number, and when it arrives.
    next: (u64, f64),
    /// Up to here the slots are given.
    until_ns: u64,
    /// Mean rate that this user was given.
    given_bps: f64,
}

impl Others {
    /// Nobody has demand at time 0.
    #[must_use]
    pub fn new(load: Load, random: RandomStream) -> Self {
        let mut others = Self {
            load,
            random,
            bursts: Vec::new(),
            next: (0, 0.0),
            until_ns: 0,
            given_bps: 0.0,
        };
        others.next.1 = others.gap_ns();
        others
    }

    /// An exponentially distributed number of mean 1; `which` is 0 for the gap before a burst, 1 for its size.
    fn draw(&self, which: u64) -> f64 {
        -(-self.random.unit(2 * self.next.0 + which)).ln_1p()
    }

    #[expect(clippy::cast_precision_loss, reason = "2^53 ns are 104 days")]
    fn gap_ns(&self) -> f64 {
        self.draw(0) * self.load.burst_ns as f64 / self.load.mean
    }

    /// Bursts that arrive up to `now_ns`.
    #[expect(clippy::cast_precision_loss, reason = "2^53 ns are 104 days")]
    fn arrive(&mut self, now_ns: f64) {
        while self.next.1 <= now_ns {
            let left_ns = self.draw(1) * self.load.burst_ns as f64;
            let given = 1.0 / (self.bursts.len() as f64 + 1.0);
            self.bursts.push(Burst { left_ns, given });
            self.next.0 += 1;
            self.next.1 += self.gap_ns();
        }
    }

    /// The slots up to `to_ns`, each of `slot_ns` on the average, go to others alone, in equal parts.
    #[expect(clippy::cast_precision_loss, reason = "2^53 ns are 104 days")]
    fn leave(&mut self, to_ns: u64, slot_ns: f64) {
        let mut now_ns = self.until_ns as f64;
        let to_ns = to_ns as f64;
        let slots = (to_ns - now_ns).max(0.0) / slot_ns;
        self.given_bps *= (1.0 - 1.0 / AVERAGE_SLOTS).powf(slots);
        while now_ns < to_ns {
            self.arrive(now_ns);
            let stop_ns = self.next.1.min(to_ns);
            let count = self.bursts.len() as f64;
            let least_ns = self.bursts.iter().map(|burst| burst.left_ns);
            let least_ns = least_ns.fold(f64::INFINITY, f64::min);
            let each_ns = ((stop_ns - now_ns) / count).min(least_ns);
            for burst in &mut self.bursts {
                burst.left_ns -= each_ns;
                burst.given = 1.0 / count;
            }
            self.bursts.retain(|burst| burst.left_ns > 0.0);
            now_ns = if each_ns < least_ns || count < 1.0 {
                stop_ns
            } else {
                now_ns + each_ns * count
            };
        }
    }

    /// This user takes the slot from `start_ns` on without being chosen.
    #[expect(clippy::cast_precision_loss, reason = "2^53 ns are 104 days")]
    pub fn occupy(&mut self, start_ns: u64, slot_ns: u64) {
        if start_ns > self.until_ns {
            self.leave(start_ns, slot_ns as f64);
        }
        self.until_ns = self.until_ns.max(start_ns).saturating_add(slot_ns);
    }

    /// Whether another user gets the slot from `start_ns` on, in which this one would send at `rate_bps`. A slot is one
    /// of every `slot_ns`. Slots are asked for in order; those between were left to the others.
    #[expect(clippy::cast_precision_loss, reason = "rates fit")]
    pub fn take(&mut self, start_ns: u64, slot_ns: u64, rate_bps: u64) -> bool {
        let slot = slot_ns as f64;
        self.occupy(start_ns, slot_ns);
        self.arrive(start_ns as f64);
        let rate_bps = rate_bps as f64;
        // The least given burst has the highest ratio of what it could have to what it was given.
        let least = self.bursts.iter().map(|burst| burst.given).enumerate();
        let least = least.min_by(|one, other| one.1.total_cmp(&other.1));
        let winner = least
            .filter(|&(_, given)| given * rate_bps < self.given_bps)
            .map(|(place, _)| place);
        let own_bps = if winner.is_none() { rate_bps } else { 0.0 };
        self.given_bps += (own_bps - self.given_bps) / AVERAGE_SLOTS;
        for (place, burst) in self.bursts.iter_mut().enumerate() {
            let served = winner == Some(place);
            burst.given += (f64::from(u8::from(served)) - burst.given) / AVERAGE_SLOTS;
            burst.left_ns -= if served { slot } else { 0.0 };
        }
        self.bursts.retain(|burst| burst.left_ns > 0.0);
        winner.is_some()
    }
}
