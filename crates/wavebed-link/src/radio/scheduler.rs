//! Who gets each slot of a cell: the settings of its scheduler, and the scheduler.

use garde::Validate;
use schemars::JsonSchema;
use serde::Deserialize;

use super::slots::Claim;
use crate::run::Slot;
use crate::stage::MAX_RATE_BPS;

/// Resource blocks of the widest carrier (TS 38.101-1, table 5.3.2-1: 273).
const MAX_UNITS: u32 = 275;
/// The least urgent priority level (TS 23.501, clause 5.7.3.3).
const MAX_LEVEL: u32 = 127;

/// Who gets the slots of one direction of a cell.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, Validate)]
#[serde(deny_unknown_fields)]
#[garde(allow_unvalidated)]
#[schemars(rename = "CellScheduler")]
pub struct SchedulerConfig {
    /// Which device is served first.
    pub policy: Policy,
    /// Parts of a slot, each for one device: resource block groups (TS 38.214 5.1.2.2.1).
    #[garde(range(min = 1, max = MAX_UNITS))]
    pub units: u32,
    /// Slots over which proportional fair averages what a device was given.
    #[serde(default = "average_slots")]
    #[garde(range(min = 1.0, max = 1e6))]
    pub average_slots: f64,
    /// Devices that one slot serves at most, by control channel or beams; null: one for each part.
    #[serde(default)]
    #[garde(range(min = 1, max = MAX_UNITS))]
    pub devices_per_slot: Option<u32>,
    /// Parts of a slot that the control information of each served device takes.
    #[serde(default)]
    #[garde(range(max = MAX_UNITS))]
    pub control_units: u32,
    /// Slices, with their least shares of each slot (`rRMPolicyMinRatio`, TS 28.541).
    #[serde(default)]
    #[garde(dive)]
    pub slices: Vec<SliceConfig>,
}

/// As `LastAvgTPutWeight` of 5G-LENA.
const fn average_slots() -> f64 {
    99.0
}

/// Which device is served first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// The highest ratio of the rate that a device could have to the rate that it was given (Jalali, Padovani, Pankaj
    /// 2000).
    ProportionalFair,
    /// One after another, in equal parts.
    RoundRobin,
    /// The highest rate.
    MaximumRate,
    /// Guaranteed rates by priority level, then the lowest priority level (TS 23.501, clause 5.7.3.3); proportional fair
    /// within a level.
    Priority,
}

/// A slice of a cell.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, Validate)]
#[serde(deny_unknown_fields)]
#[garde(allow_unvalidated)]
#[schemars(rename = "CellSlice")]
pub struct SliceConfig {
    /// Its name.
    pub name: String,
    /// Its part of the slots.
    #[garde(range(min = 0.0, max = 1.0))]
    pub share: f64,
}

/// What a device is entitled to in one direction.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, Validate)]
#[serde(deny_unknown_fields)]
#[garde(allow_unvalidated)]
#[schemars(rename = "CellService")]
pub struct ServiceConfig {
    /// Priority level, the lowest first. 90: of 5QI 9, the default bearer (TS 23.501, 5.7.4).
    #[serde(default = "level")]
    #[garde(range(min = 1, max = MAX_LEVEL))]
    pub level: u32,
    /// Guaranteed bit rate (GFBR), bits per second; null: none.
    #[serde(default)]
    #[garde(range(min = 1, max = MAX_RATE_BPS))]
    pub guaranteed_bps: Option<u64>,
    /// The slice; null: none.
    #[serde(default)]
    pub slice: Option<String>,
}

const fn level() -> u32 {
    90
}

impl Default for ServiceConfig {
    fn default() -> Self {
        Self {
            level: level(),
            guaranteed_bps: None,
            slice: None,
        }
    }
}

/// The claim of a device to a slot, and what it is given.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    /// Its index; a modelled user has an index behind all devices.
    pub(super) device: usize,
    pub(super) claim: Claim,
    /// Parts of the slot that it can use, and bytes of the whole slot; `None` until somebody wants to know.
    pub(super) need: Option<(u32, u64)>,
    /// Users that it stands for.
    pub(super) users: u32,
    pub(super) given: u32,
}

/// The parts of a slot that a device can use, of the given number, and the bytes of the whole slot.
pub(super) type Need<'a> = dyn FnMut(usize, Slot, u32) -> (u32, u64) + 'a;

/// Who gets the parts of each slot.
pub(super) struct Scheduler {
    pub(super) config: SchedulerConfig,
    users: Vec<User>,
    /// One for each carrier whose slots were claimed.
    carriers: Vec<Carrier>,
    /// What each slice may take before the others, parts of slots.
    credits: Vec<f64>,
    /// Slots of this direction before the one that is claimed.
    pub(super) slots_before: u64,
    ranks: Vec<Rank>,
}

/// What the scheduler knows of a device.
#[derive(Clone, Copy, Debug)]
struct User {
    level: u32,
    guaranteed_bps: Option<u64>,
    /// Bytes of its guaranteed rate that it may have before others, and at which time.
    tokens: (f64, u64),
    /// The index of its slice.
    slice: Option<usize>,
}

/// What the scheduler knows of one carrier.
#[derive(Debug)]
struct Carrier {
    /// Base station, fall-back, and component carrier.
    key: (u32, bool, u32),
    /// Slots that were given and have not begun. A device that resumes decides later than others, who may have been
    /// given the next slot already.
    given: Vec<Given>,
    averages: Vec<Average>,
}

/// A slot that was given.
#[derive(Clone, Copy, Debug)]
struct Given {
    slot: Slot,
    /// Parts that are left of it, and devices that it may still serve.
    left: u32,
    seats: u32,
    /// The device that got most of it, and how much.
    most: (u32, usize),
}

/// What a device was given on one carrier.
#[derive(Clone, Copy, Debug, Default)]
struct Average {
    /// Bytes per slot, exponentially averaged up to `slots` slots of this direction since time 0.
    bytes: f64,
    slots: u64,
    /// Rises with each turn.
    turn: u64,
}

/// The place of a claim in the order of service.
#[derive(Clone, Copy, Debug)]
struct Rank {
    level: u32,
    ratio: f64,
    turn: u64,
    at: usize,
}

impl Rank {
    /// Whether it is served before `other`: by its level, its ratio, or because it has waited longer.
    fn is_before(&self, other: &Self) -> bool {
        let order = self
            .level
            .cmp(&other.level)
            .then(other.ratio.total_cmp(&self.ratio))
            .then((self.turn, self.at).cmp(&(other.turn, other.at)));
        order.is_lt()
    }
}

/// A guaranteed rate that was not asked for is kept for this long: less than the averaging window of 2 s (TS 23.501,
/// clause 5.7.3.6), so that no burst of it stops the others.
const GUARANTEE_NS: u64 = 100_000_000;

impl Scheduler {
    pub(super) fn new(config: SchedulerConfig, services: &[ServiceConfig]) -> Self {
        let users = services.iter().map(|service| User {
            level: service.level,
            guaranteed_bps: service.guaranteed_bps,
            tokens: (0.0, 0),
            slice: (service.slice.as_ref())
                .and_then(|name| config.slices.iter().position(|slice| slice.name == *name)),
        });
        Self {
            users: users.collect(),
            carriers: Vec::new(),
            credits: vec![0.0; config.slices.len()],
            config,
            slots_before: 0,
            ranks: Vec::new(),
        }
    }

    /// Whether a slot of a base station was given already, in part or as a whole.
    pub(super) fn is_open(&self, station: u32, slot: Slot) -> bool {
        let key = (station, slot.fallback, slot.carrier);
        let mut carriers = self.carriers.iter();
        let carrier = carriers.find(|carrier| carrier.key == key);
        carrier.is_some_and(|carrier| carrier.given.iter().any(|given| given.slot == slot))
    }

    /// The carrier of the slot, by its place.
    fn carrier_of(&mut self, claim: &Claim) -> usize {
        let key = (claim.station, claim.slot.fallback, claim.slot.carrier);
        let found = self.carriers.iter().position(|carrier| carrier.key == key);
        found.unwrap_or_else(|| {
            self.carriers.push(Carrier {
                key,
                given: Vec::new(),
                averages: vec![Average::default(); self.users.len()],
            });
            self.carriers.len() - 1
        })
    }

    /// Gives the parts of the slot that is claimed at `now_ns`. Returns the device that got most of it. `need` returns
    /// the parts of the slot that a device can use, and the bytes of the whole slot.
    pub(super) fn give(
        &mut self,
        now_ns: u64,
        claims: &mut [Asked],
        need: &mut Need<'_>,
    ) -> Option<u32> {
        let first = claims.first()?.claim;
        let place = self.carrier_of(&first);
        let slots = &mut self.carriers[place].given;
        slots.retain(|given| given.slot.start_ns >= now_ns);
        let found = slots.iter().position(|given| given.slot == first.slot);
        let at = found.unwrap_or_else(|| {
            slots.push(Given {
                slot: first.slot,
                left: self.config.units,
                seats: self.config.devices_per_slot.unwrap_or(self.config.units),
                most: (0, 0),
            });
            slots.len() - 1
        });
        let mut left = Left {
            units: slots[at].left,
            seats: slots[at].seats,
            all: self.config.units,
            control: self.config.control_units,
            need,
        };
        if let [only] = claims
            && only.need.is_none()
        {
            // A device alone has all that is left, whatever it needs.
            only.need = Some((left.units, 0));
            left.give(only, u32::MAX);
            if only.given > 0 && only.claim.again_since_ns.is_none() {
                self.carriers[place].averages[only.device].turn = (self.slots_before + 1) << 20;
            }
        } else {
            self.share(place, claims, &mut left);
        }
        let Left { units, seats, .. } = left;
        let slot = &mut self.carriers[place].given[at];
        (slot.left, slot.seats) = (units, seats);
        for asked in claims.iter() {
            if asked.given > slot.most.0 {
                slot.most = (asked.given, asked.device);
            }
        }
        let (given, device) = slot.most;
        (given > 0).then(|| u32::try_from(device).unwrap_or(u32::MAX))
    }

    /// Gives parts to several devices: retransmissions first, the oldest first, then slices, then all.
    fn share(&mut self, place: usize, claims: &mut [Asked], left: &mut Left<'_>) {
        let again = |asked: &Asked| asked.claim.again_since_ns;
        if claims.iter().any(|asked| again(asked).is_some()) {
            let mut order: Vec<usize> = (0..claims.len())
                .filter(|&at| again(&claims[at]).is_some())
                .collect();
            order.sort_by_key(|&at| again(&claims[at]));
            for at in order {
                left.give_whole(&mut claims[at]);
            }
        }
        for slice in 0..self.credits.len() {
            let share = self.config.slices[slice].share * f64::from(self.config.units);
            let is_of = |user: &User| user.slice == Some(slice);
            if !self.rank(place, claims, is_of) {
                self.credits[slice] = 0.0;
                continue;
            }
            // What one slot could not give is kept for the next.
            let credit = (self.credits[slice] + share).min(2.0 * share);
            let others = left.units.saturating_sub(whole_units(credit));
            left.units -= others;
            let before = left.units;
            self.by_policy(claims, left);
            self.credits[slice] = credit - f64::from(before - left.units);
            left.units += others;
        }
        if self.rank(place, claims, |_| true) {
            self.by_policy(claims, left);
            self.end_turns(place, claims);
        }
    }

    /// Ranks the claims of new data of these users. Returns whether there is one.
    fn rank(&mut self, place: usize, claims: &[Asked], is_of: impl Fn(&User) -> bool) -> bool {
        self.ranks.clear();
        let policy = self.config.policy;
        for (at, asked) in claims.iter().enumerate() {
            let Asked {
                device,
                claim,
                users,
                ..
            } = asked;
            let user = &self.users[*device];
            if claim.again_since_ns.is_some() || !is_of(user) {
                continue;
            }
            let average = &mut self.carriers[place].averages[*device];
            average.pass(self.slots_before, self.config.average_slots);
            #[expect(clippy::cast_precision_loss, reason = "rates are below 2^53")]
            let rate_bps = claim.rate_bps as f64;
            self.ranks.push(Rank {
                level: if policy == Policy::Priority {
                    user.level
                } else {
                    0
                },
                ratio: match policy {
                    Policy::RoundRobin => 0.0,
                    Policy::MaximumRate => rate_bps,
                    // Of several users, each was given its part of the average.
                    Policy::ProportionalFair | Policy::Priority => {
                        rate_bps * f64::from(*users) / average.bytes.max(f64::MIN_POSITIVE)
                    }
                },
                turn: average.turn,
                at,
            });
        }
        !self.ranks.is_empty()
    }

    /// Gives parts to the claims that were ranked.
    fn by_policy(&mut self, claims: &mut [Asked], left: &mut Left<'_>) {
        let mut ranks = std::mem::take(&mut self.ranks);
        match self.config.policy {
            Policy::RoundRobin => {
                ranks.sort_unstable_by_key(|rank| (rank.turn, rank.at));
                deal(claims, &ranks, left);
            }
            Policy::Priority => {
                ranks.sort_unstable_by_key(|rank| (rank.level, rank.at));
                for rank in &ranks {
                    let most = self.guaranteed(&mut claims[rank.at], left);
                    left.give(&mut claims[rank.at], most);
                }
                fill(claims, &mut ranks, left);
            }
            Policy::MaximumRate | Policy::ProportionalFair => fill(claims, &mut ranks, left),
        }
        self.ranks = ranks;
    }

    /// Notes who had a turn in the slot.
    fn end_turns(&mut self, place: usize, claims: &[Asked]) {
        for (number, rank) in (0..).zip(&self.ranks) {
            let Asked { device, given, .. } = claims[rank.at];
            if given > 0 {
                // Of those with a turn in one slot, who got more is served later; of equal ones, who was served later. So
                // the parts that cannot be divided go round.
                let average = &mut self.carriers[place].averages[device];
                let last = u64::from(given) << 10 | MOST_RANKS.min(number);
                average.turn = (self.slots_before + 1) << 20 | last;
            }
        }
    }

    /// Parts of the slot that the device may have for its guaranteed rate.
    fn guaranteed(&mut self, asked: &mut Asked, left: &mut Left<'_>) -> u32 {
        let user = &mut self.users[asked.device];
        let Some(guaranteed_bps) = user.guaranteed_bps else {
            return 0;
        };
        user.fill(guaranteed_bps, asked.claim.slot.start_ns);
        let (_, capacity) = left.need(asked);
        #[expect(clippy::cast_precision_loss, reason = "bytes of a slot are few")]
        let unit_bytes = capacity as f64 / f64::from(self.config.units);
        whole_units((user.tokens.0 / unit_bytes.max(1.0)).ceil())
    }

    /// A device has sent `bytes` of new data in the slot that it was given.
    pub(super) fn sent(&mut self, asked: &Asked, bytes: u64) {
        let place = self.carrier_of(&asked.claim);
        #[expect(clippy::cast_precision_loss, reason = "bytes of a slot are few")]
        let sent = bytes as f64;
        let average = &mut self.carriers[place].averages[asked.device];
        average.pass(self.slots_before, self.config.average_slots);
        average.bytes += sent / self.config.average_slots;
        let user = &mut self.users[asked.device];
        if user.guaranteed_bps.is_some() {
            user.tokens.0 -= sent;
        }
    }
}

impl User {
    /// Adds what its guaranteed rate gives up to `at_ns`.
    #[expect(clippy::cast_precision_loss, reason = "2^53 ns are 104 days")]
    fn fill(&mut self, guaranteed_bps: u64, at_ns: u64) {
        let (tokens, since_ns) = self.tokens;
        let bytes = |time_ns: u64| guaranteed_bps as f64 / 8e9 * time_ns as f64;
        let more = bytes(at_ns.saturating_sub(since_ns));
        let tokens = (tokens + more).min(bytes(GUARANTEE_NS));
        self.tokens = (tokens, since_ns.max(at_ns));
    }
}

impl Average {
    /// Time passes up to the slot before which there are `slots`.
    fn pass(&mut self, slots: u64, average_slots: f64) {
        let kept = 1.0 - 1.0 / average_slots;
        match slots.saturating_sub(self.slots) {
            0 => return,
            1 => self.bytes *= kept,
            passed => self.bytes *= kept.powi(i32::try_from(passed).unwrap_or(i32::MAX)),
        }
        self.slots = slots;
    }
}

/// What is left of a slot.
struct Left<'a> {
    units: u32,
    seats: u32,
    /// Parts of the whole slot, and those that the control information of a device takes.
    all: u32,
    control: u32,
    need: &'a mut Need<'a>,
}

impl Left<'_> {
    /// Parts that a device can use, and the bytes of the whole slot.
    fn need(&mut self, asked: &mut Asked) -> (u32, u64) {
        let (all, most) = (self.all, self.all - self.control);
        if let Some(known) = asked.need {
            return known;
        }
        let (need, capacity) = (self.need)(asked.device, asked.claim.slot, all);
        *asked.need.insert((need.min(most), capacity))
    }

    /// Parts that a device may still be given.
    fn room(&self, asked: &Asked) -> u32 {
        match asked.given {
            0 if self.seats == 0 => 0,
            0 => self.units.saturating_sub(self.control),
            _ => self.units,
        }
    }

    /// Gives up to `most` parts of those that it needs.
    fn give(&mut self, asked: &mut Asked, most: u32) {
        let room = self.room(asked).min(most);
        if room == 0 {
            return;
        }
        let given = room.min(self.need(asked).0 - asked.given);
        if given == 0 {
            return;
        }
        if asked.given == 0 {
            self.seats -= 1;
            self.units -= self.control;
        }
        self.units -= given;
        asked.given += given;
    }

    /// Gives all that it needs, or nothing.
    fn give_whole(&mut self, asked: &mut Asked) {
        if self.room(asked) >= self.need(asked).0 {
            self.give(asked, u32::MAX);
        }
    }
}

/// Gives each what it needs, by rank, until nothing is left. Those that were looked at come first in `ranks`.
fn fill(claims: &mut [Asked], ranks: &mut [Rank], left: &mut Left<'_>) {
    for done in 0..ranks.len() {
        if left.units == 0 {
            break;
        }
        let mut best = done;
        for at in done + 1..ranks.len() {
            if ranks[at].is_before(&ranks[best]) {
                best = at;
            }
        }
        ranks.swap(done, best);
        left.give(&mut claims[ranks[done].at], u32::MAX);
    }
}

/// Devices whose order within a slot is kept.
const MOST_RANKS: u64 = (1 << 10) - 1;

/// Gives each user one part in turn, until nothing is left or needed.
fn deal(claims: &mut [Asked], ranks: &[Rank], left: &mut Left<'_>) {
    loop {
        let before = left.units;
        for rank in ranks {
            if left.units == 0 {
                return;
            }
            let users = claims[rank.at].users;
            left.give(&mut claims[rank.at], users);
        }
        if left.units == before {
            return;
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "between 0 and a few parts of a slot"
)]
fn whole_units(units: f64) -> u32 {
    units.clamp(0.0, 1e6) as u32
}
