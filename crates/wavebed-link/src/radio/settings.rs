//! The settings of a radio link, in the terms of the standards. Times are nanoseconds, or slots where named so.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use garde::Validate;
use schemars::JsonSchema;
use serde::Deserialize;

use super::air::Air;
use super::block::{Block, Code, Phase};
use crate::pattern::State;
use crate::random_stream::RandomStream;
use crate::run::{NEVER, Slot};
use crate::stage::{MAX_SLOTS, MAX_TIME_NS};

/// `nrofHARQ-ProcessesForPDSCH-v1700` (TS 38.331).
const MAX_PROCESSES: u32 = 32;

/// The direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Towards the client.
    Down,
    /// Towards the server.
    Up,
}

/// The slots of one carrier (TS 38.211, clause 4.3; TS 36.211, clause 4).
#[derive(Clone, Debug, PartialEq)]
pub struct Slots {
    /// Length of a slot.
    pub slot_ns: u64,
    /// Symbols of this direction in each slot of the duplex frame; at least one slot has some. One entry, all 14,
    /// is FDD.
    pub own_symbols: Vec<u32>,
    /// Symbols of the other direction, likewise.
    pub other_symbols: Vec<u32>,
    /// How long before its slot data must be available.
    pub prepare_ns: u64,
    /// How long after its slot a block is decoded.
    pub decode_ns: u64,
    /// The channel code.
    pub code: Code,
    /// Hybrid ARQ; `None`: each block is sent once.
    pub harq: Option<Harq>,
}

/// Hybrid ARQ of one carrier; times in slots of that carrier.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema, Validate)]
#[serde(deny_unknown_fields)]
pub struct Harq {
    /// Blocks in flight.
    #[garde(range(min = 1, max = MAX_PROCESSES))]
    pub processes: u32,
    /// Slots from a block to its feedback.
    #[garde(range(max = MAX_SLOTS))]
    pub feedback_slots: u64,
    /// Slots from the feedback to the next transmission.
    #[garde(range(min = 1, max = MAX_SLOTS))]
    pub schedule_slots: u64,
    /// Transmissions of a block, the first included.
    #[garde(range(min = 1, max = 64))]
    pub limit: u32,
    /// Gain of doubled energy, where the trace has no SINR.
    #[garde(range(min = 0.0, max = 100.0))]
    pub combining_gain_db: f64,
    /// Logit slope of the error rate per decibel, where the trace has no SINR.
    #[garde(range(min = 0.0, max = 100.0))]
    pub slope_per_db: f64,
    /// Lost acknowledgements: a received block is sent again.
    #[serde(default)]
    #[garde(range(min = 0.0, max = 1.0))]
    pub ack_loss: f64,
    /// Negative acknowledgements taken for positive ones: the block is left to RLC.
    #[serde(default)]
    #[garde(range(min = 0.0, max = 1.0))]
    pub nack_loss: f64,
}

/// What four decimals round to 1: an error rate of 1 says that the first transmission fails, not by how much.
const NEARLY_CERTAIN: f64 = 0.99995;

impl Harq {
    /// The probability that transmission number `attempt` (from 1) fails, if the first fails with `bler`.
    ///
    /// The soft bits of all transmissions add up: the second has twice the energy of the first, the fourth four
    /// times. The error curve of the code is modelled as logistic. No retransmission fails for certain.
    #[must_use]
    pub fn error_probability(&self, bler: f64, attempt: u32) -> f64 {
        if attempt <= 1 || bler <= 0.0 {
            return bler;
        }
        let bler = bler.min(NEARLY_CERTAIN);
        let gain_db = self.combining_gain_db * f64::from(attempt).log2();
        let log_odds = (bler / (1.0 - bler)).ln() - self.slope_per_db * gain_db;
        1.0 / (1.0 + (-log_odds).exp())
    }
}

/// Handling of a block that HARQ gave up on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rlc {
    /// Acknowledged mode (TS 38.322, clause 5.2.3): its data is sent again.
    Acknowledged(Acknowledged),
    /// Unacknowledged mode: its data is lost.
    Unacknowledged,
}

/// The timers of RLC acknowledged mode.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Acknowledged {
    /// How long the receiver waits before it reports a gap (t-Reassembly; t-Reordering in LTE).
    pub reassembly_ns: u64,
    /// How long the sender waits for a status report before it sends again (t-PollRetransmit).
    pub poll_ns: u64,
    /// From the trigger of the status report to its reception.
    pub status_ns: u64,
    /// Retransmissions before the radio link fails (maxRetxThreshold).
    pub retransmissions: u8,
    /// From that failure until the radio link is re-established.
    pub reestablish_ns: u64,
    /// Probability that a status report is lost; the sender polls again after its timer.
    pub status_loss: f64,
    /// Segments from the oldest that is not acknowledged to the newest (`AM_Window_Size`); `None`: any number.
    pub window: Option<u64>,
}

/// How the uplink is granted.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema, Validate)]
#[serde(deny_unknown_fields)]
pub struct Grants {
    /// Period of the opportunities to ask for a grant.
    #[garde(range(min = 1, max = MAX_SLOTS))]
    pub request_slots: u64,
    /// From the request to the grant.
    #[garde(range(max = MAX_SLOTS))]
    pub schedule_slots: u64,
    /// From the grant to the transmission.
    #[garde(range(min = 1, max = MAX_SLOTS))]
    pub prepare_slots: u64,
    /// Size of the grant that answers a request.
    #[garde(range(min = 1, max = MAX_SLOTS))]
    pub first_bytes: u64,
    /// A configured grant.
    #[garde(dive)]
    pub configured: Option<Configured>,
    /// Lost requests and reports.
    #[garde(dive)]
    pub losses: Option<GrantLosses>,
}

/// Loss of requests and reports, and what the UE does then (TS 38.321, clauses 5.4.4 and 5.4.5).
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema, Validate)]
#[serde(deny_unknown_fields)]
pub struct GrantLosses {
    /// Lost scheduling requests.
    #[garde(range(min = 0.0, max = 1.0))]
    pub request: f64,
    /// Lost buffer status reports.
    #[garde(range(min = 0.0, max = 1.0))]
    pub report: f64,
    /// sr-ProhibitTimer.
    #[garde(range(max = MAX_TIME_NS))]
    pub prohibit_ns: u64,
    /// sr-TransMax: requests before random access (TS 38.331).
    #[garde(range(min = 1, max = 64))]
    pub most_requests: u32,
    /// Time of random access.
    #[garde(range(max = MAX_TIME_NS))]
    pub access_ns: u64,
    /// retxBSR-Timer: from a lost report to the next request.
    #[garde(range(min = 1, max = MAX_TIME_NS))]
    pub retry_ns: u64,
}

/// A configured grant, which needs no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema, Validate)]
#[serde(deny_unknown_fields)]
pub struct Configured {
    /// Its period in slots.
    #[garde(range(min = 1, max = MAX_SLOTS))]
    pub slots: u64,
    /// Bytes of each.
    #[garde(range(min = 1, max = MAX_SLOTS))]
    pub bytes: u64,
}

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

/// The slots since the latest block of new data that were given to others.
#[derive(Debug, Default)]
pub struct Turns {
    /// When the first one began; 0: there is none.
    pub first_ns: u64,
    /// When the last one began.
    pub last_ns: u64,
    /// How many each device got.
    devices: BTreeMap<u32, u64>,
}

impl Turns {
    /// The slot from `start_ns` on was given to others, most of it to `device`; `None`: to a user that is no device.
    pub fn missed(&mut self, start_ns: u64, device: Option<u32>) {
        if self.first_ns == 0 {
            self.first_ns = start_ns;
        }
        self.last_ns = start_ns;
        if let Some(device) = device {
            *self.devices.entry(device).or_default() += 1;
        }
    }

    /// The device that got most of them: the first one of several.
    pub fn device(&self) -> Option<u32> {
        let most = |&(&device, &slots): &(&u32, &u64)| (slots, Reverse(device));
        self.devices
            .iter()
            .max_by_key(most)
            .map(|(&device, _)| device)
    }
}

/// The blocks of one carrier, and other users of its slots.
#[derive(Debug, Default)]
pub struct Entity {
    /// Its blocks.
    pub blocks: Vec<Block>,
    /// The end of the last slot that was used.
    pub free_ns: u64,
    /// Other users.
    pub others: Option<Others>,
}

impl Entity {
    /// The next end of decoding.
    pub fn decoded_ns(&self) -> Option<u64> {
        let decoding = self.blocks.iter().filter_map(|block| match block.phase {
            Phase::Decoding { at_ns, .. } => Some(at_ns),
            _ => None,
        });
        decoding.min()
    }

    /// The place of the first block whose decoding ends at `now_ns`.
    pub fn decoded(&self, now_ns: u64) -> Option<usize> {
        let ends =
            |block: &Block| matches!(block.phase, Phase::Decoding { at_ns, .. } if at_ns == now_ns);
        self.blocks.iter().position(ends)
    }

    /// The block that may be sent again first: from when on, and its place.
    pub fn again(&self) -> Option<(u64, usize)> {
        let waiting = self.blocks.iter().enumerate().filter_map(|(place, block)| {
            let Phase::Again { from_ns } = block.phase else {
                return None;
            };
            Some((from_ns, block.first.start_ns, place))
        });
        waiting.min().map(|(from_ns, _, place)| (from_ns, place))
    }

    /// When a HARQ process of `slots` is free; `None` while unknown.
    pub fn process_free_ns(&self, slots: &Slots) -> Option<u64> {
        let processes = slots.harq.map_or(NEVER, |harq| u64::from(harq.processes));
        if (self.blocks.len() as u64) < processes {
            return Some(0);
        }
        let free = self.blocks.iter().filter_map(|block| match block.phase {
            Phase::Done { from_ns } => Some(from_ns),
            _ => None,
        });
        free.min()
    }

    /// The process in turn in the slot that has this index in the pattern's time, or else the first free one.
    pub fn free_process(&self, index: u64, slots: &Slots) -> u32 {
        let processes = slots.harq.map_or(1, |harq| harq.processes);
        let turn = u32::try_from(index % u64::from(processes)).unwrap_or(0);
        let busy = |process: u32| self.blocks.iter().any(|block| block.process == process);
        if busy(turn) {
            (0..processes)
                .find(|&process| !busy(process))
                .unwrap_or(turn)
        } else {
            turn
        }
    }

    /// Whether another user gets `slot`, in which this one would send at `rate_bps`.
    pub fn others_take(&mut self, slot: Slot, slots: &Slots, rate_bps: u64) -> bool {
        let others = self.others.as_mut();
        others.is_some_and(|others| others.take(slot.start_ns, slots.period_ns(), rate_bps))
    }

    /// A retransmission takes `slot`.
    pub fn occupy(&mut self, slot: Slot, slots: &Slots) {
        if let Some(others) = &mut self.others {
            others.occupy(slot.start_ns, slots.period_ns());
        }
    }
}
