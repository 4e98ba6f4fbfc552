//! One direction of a radio cell: the radios of its devices, and who gets each slot.
//!
//! Each device plans its next slot as a radio alone does. Where several plan the same one, the scheduler gives each of
//! them parts of it: first to retransmissions, the oldest first, then to new data by its policy. A device that gets none
//! plans again. 3GPP specifies no scheduler of a base station; the policies name their sources.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::slots::{Claim, Share};
use super::{Event, Radio};
use crate::config::{Policy, SchedulerConfig, ServiceConfig};
use crate::run::{Backlog, BlockRecord, Run};
use crate::stage::{Change, Conditions, Effect, Outlet, Stage};

/// One direction of a cell, which its ports share. Runs enter by the ports; [`Cell::advance`] handles them in the order of
/// their times; the ports forward what left.
#[derive(Clone)]
pub struct Cell(Arc<Mutex<Devices>>);

impl Cell {
    /// A cell of these devices, each with what it is entitled to. All have the same slots.
    #[must_use]
    pub fn new(config: SchedulerConfig, devices: Vec<(Radio, ServiceConfig)>) -> Self {
        Self(Arc::new(Mutex::new(Devices::new(config, devices))))
    }

    fn devices(&self) -> MutexGuard<'_, Devices> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The port of the device with this index: its radio, as a stage of its link.
    #[must_use]
    pub fn port(&self, index: usize) -> Box<dyn Stage> {
        Box::new(Port {
            cell: self.clone(),
            index,
        })
    }

    /// Handles everything up to and including `now_ns`. Every port must have been given what reaches it up to then.
    pub fn advance(&self, now_ns: u64) {
        self.devices().advance(now_ns);
    }

    /// Time of the next event, if nothing else arrives.
    #[must_use]
    pub fn next_event_ns(&self) -> Option<u64> {
        self.devices().next_event_ns()
    }
}

/// The radio of one device of a cell, as a stage of its link.
struct Port {
    cell: Cell,
    index: usize,
}

impl Stage for Port {
    fn accept(&mut self, run: Run, _: &mut Outlet<'_>) {
        self.cell.devices().put(self.index, run);
    }

    /// Forwards what has left; [`Cell::advance`] moves the time.
    fn poll(&mut self, _: u64, out: &mut Outlet<'_>) {
        let mut devices = self.cell.devices();
        for effect in devices.members[self.index].effects.drain(..) {
            out.repeat(effect);
        }
    }

    /// The cell tells its events.
    fn next_event_ns(&self) -> Option<u64> {
        None
    }

    fn backlog(&self) -> Backlog {
        self.cell.devices().backlog(self.index)
    }

    fn apply(&mut self, now_ns: u64, change: &Change) -> bool {
        let mut devices = self.cell.devices();
        let taken = devices.members[self.index].radio.apply(now_ns, change);
        devices.look(self.index);
        taken
    }

    fn takes(&self) -> &'static [&'static str] {
        self.cell.devices().members[self.index].radio.takes()
    }

    fn conditions(&self, now_ns: u64) -> Conditions {
        self.cell.devices().members[self.index]
            .radio
            .conditions(now_ns)
    }

    fn log_blocks(&mut self) -> bool {
        self.cell.devices().members[self.index].radio.log_blocks();
        true
    }

    fn take_blocks(&mut self) -> Vec<BlockRecord> {
        self.cell.devices().members[self.index].radio.take_blocks()
    }

    fn is_port(&self) -> bool {
        true
    }
}

/// A device of a cell.
struct Device {
    radio: Radio,
    /// What its radio did and its port has not repeated.
    effects: VecDeque<Effect>,
}

/// The devices of one direction of a cell.
struct Devices {
    members: Vec<Device>,
    /// Runs that have not entered: when, by which port. In order of times.
    inputs: VecDeque<(usize, Run)>,
    /// The next event of each member.
    events: Vec<Next>,
    scheduler: Scheduler,
    /// Those that ask for one slot.
    claims: Vec<Asked>,
}

/// When the next event of a device is due; a slot comes after all other events of its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Next {
    at_ns: u64,
    is_slot: bool,
}

impl Next {
    const NEVER: Self = Self {
        at_ns: u64::MAX,
        is_slot: true,
    };
}

/// A claim of a device, and what it is given.
#[derive(Clone, Copy, Debug)]
struct Asked {
    device: usize,
    claim: Claim,
    given: u32,
}

impl Devices {
    fn new(config: SchedulerConfig, devices: Vec<(Radio, ServiceConfig)>) -> Self {
        let (radios, services): (Vec<Radio>, Vec<ServiceConfig>) = devices.into_iter().unzip();
        let members: Vec<Device> = radios
            .into_iter()
            .map(|radio| Device {
                radio,
                effects: VecDeque::new(),
            })
            .collect();
        Self {
            events: vec![Next::NEVER; members.len()],
            members,
            inputs: VecDeque::new(),
            scheduler: Scheduler::new(config, &services),
            claims: Vec::new(),
        }
    }

    /// Keeps `run` until its time; runs of one port come in order.
    fn put(&mut self, device: usize, run: Run) {
        let later = |(other, next): &(usize, Run)| (next.at_ns, *other) > (run.at_ns, device);
        let mut place = self.inputs.len();
        while place > 0 && later(&self.inputs[place - 1]) {
            place -= 1;
        }
        self.inputs.insert(place, (device, run));
    }

    /// Finds the next event of a device.
    fn look(&mut self, device: usize) {
        let next = self.members[device].radio.next();
        self.events[device] = next.map_or(Next::NEVER, |(at_ns, event)| Next {
            at_ns,
            is_slot: event == Event::Slot,
        });
    }

    fn next_event(&self) -> Next {
        self.events.iter().copied().min().unwrap_or(Next::NEVER)
    }

    fn next_event_ns(&self) -> Option<u64> {
        let input = self.inputs.front().map_or(u64::MAX, |(_, run)| run.at_ns);
        let at_ns = self.next_event().at_ns.min(input);
        (at_ns < u64::MAX).then_some(at_ns)
    }

    fn advance(&mut self, now_ns: u64) {
        loop {
            let next = self.next_event();
            if let Some(&(device, run)) = self.inputs.front()
                && run.at_ns <= now_ns
                && run.at_ns < next.at_ns
            {
                self.inputs.pop_front();
                let Device { radio, effects } = &mut self.members[device];
                radio.enter(run.at_ns, run, &mut Outlet::record(effects));
                self.look(device);
            } else if next.at_ns <= now_ns {
                self.handle(next);
            } else {
                break;
            }
        }
    }

    /// Handles the first event that is due at the time of `next`: of one device, or a slot of all devices that planned it.
    fn handle(&mut self, next: Next) {
        let mut due = self.events.iter();
        let Some(first) = due.position(|event| *event == next) else {
            return;
        };
        if !next.is_slot || !self.gather(first, next) {
            let Device { radio, effects } = &mut self.members[first];
            if let Some((at_ns, event)) = radio.next() {
                radio.handle(at_ns, event, &mut Outlet::record(effects));
            }
            self.look(first);
            return;
        }
        self.scheduler.give(&mut self.claims);
        for place in 0..self.claims.len() {
            let asked = self.claims[place];
            let Device { radio, effects } = &mut self.members[asked.device];
            let share = Share {
                given: asked.given,
                all: self.scheduler.config.units,
            };
            let (bytes, units) = radio.use_slot(share, &mut Outlet::record(effects));
            self.scheduler.given(&asked, bytes, units);
            radio.make_plan(next.at_ns);
            self.look(asked.device);
        }
    }

    /// Collects the claims of all devices that decide at the time of `next` and plan the slot of the device `first`. False
    /// if that one plans none.
    fn gather(&mut self, first: usize, next: Next) -> bool {
        self.claims.clear();
        for device in first..self.members.len() {
            if self.events[device] != next {
                continue;
            }
            let SchedulerConfig {
                units,
                control_units,
                ..
            } = self.scheduler.config;
            let Some(mut claim) = self.members[device].radio.claim(units) else {
                if device == first {
                    return false;
                }
                continue;
            };
            claim.need = claim.need.min(units - control_units);
            if self
                .claims
                .first()
                .is_none_or(|asked| asked.claim.is_for_slot_of(&claim))
            {
                self.claims.push(Asked {
                    device,
                    claim,
                    given: 0,
                });
            }
        }
        true
    }

    fn backlog(&self, device: usize) -> Backlog {
        let member = &self.members[device];
        let mut backlog = member.radio.backlog();
        for (other, run) in &self.inputs {
            if *other == device {
                backlog.count(run);
            }
        }
        for effect in &member.effects {
            if let Effect::Forward(run) | Effect::Drop(run, _) = effect {
                backlog.count(run);
            }
        }
        backlog
    }
}

/// Who gets the parts of each slot.
struct Scheduler {
    config: SchedulerConfig,
    users: Vec<User>,
    /// One for each carrier whose slots were claimed.
    carriers: Vec<Carrier>,
    /// The slice of each user, as an index; those without one share the rest.
    slices: Vec<Option<usize>>,
    /// What each slice may take before the others, parts of slots.
    credits: Vec<f64>,
    order: Vec<usize>,
}

/// What the scheduler knows of a device.
#[derive(Clone, Copy, Debug)]
struct User {
    level: u32,
    guaranteed_bps: Option<u64>,
    /// Bytes of its guaranteed rate that it may have before others, and at which time.
    tokens: (f64, u64),
}

/// What the scheduler knows of one carrier.
#[derive(Debug)]
struct Carrier {
    /// Base station, fall-back, and component carrier.
    key: (u32, bool, u32),
    /// The last slot that was given, the parts that are left of it, and the devices that it may still serve.
    slot: u64,
    left: u32,
    seats: u32,
    averages: Vec<Average>,
}

/// What a device was given on one carrier.
#[derive(Clone, Copy, Debug, Default)]
struct Average {
    /// Bytes per slot, exponentially averaged up to `slots` slots of this direction since time 0.
    bytes: f64,
    slots: u64,
    /// The number of its last turn.
    turn: u64,
}

/// A guaranteed rate that was not asked for is kept for this long: less than the averaging window of 2 s (TS 23.501,
/// clause 5.7.3.6), so that no burst of it stops the others.
const GUARANTEE_NS: u64 = 100_000_000;

impl Scheduler {
    fn new(config: SchedulerConfig, services: &[ServiceConfig]) -> Self {
        let users = services.iter().map(|service| User {
            level: service.level,
            guaranteed_bps: service.guaranteed_bps,
            tokens: (0.0, 0),
        });
        let slice = |service: &ServiceConfig| {
            let name = service.slice.as_ref()?;
            config.slices.iter().position(|slice| slice.name == *name)
        };
        Self {
            users: users.collect(),
            carriers: Vec::new(),
            slices: services.iter().map(slice).collect(),
            credits: vec![0.0; config.slices.len()],
            config,
            order: Vec::new(),
        }
    }

    /// The carrier of the slot, by its place.
    fn carrier_of(&mut self, claim: &Claim) -> usize {
        let key = (claim.station, claim.slot.fallback, claim.slot.carrier);
        let found = self.carriers.iter().position(|carrier| carrier.key == key);
        found.unwrap_or_else(|| {
            self.carriers.push(Carrier {
                key,
                slot: u64::MAX,
                left: 0,
                seats: 0,
                averages: vec![Average::default(); self.users.len()],
            });
            self.carriers.len() - 1
        })
    }

    /// Gives the parts of the slot that is claimed.
    fn give(&mut self, claims: &mut [Asked]) {
        let Some(first) = claims.first().map(|asked| asked.claim) else {
            return;
        };
        let place = self.carrier_of(&first);
        let units = self.config.units;
        let carrier = &mut self.carriers[place];
        if carrier.slot != first.slot.index {
            carrier.slot = first.slot.index;
            carrier.left = units;
            carrier.seats = self.config.devices_per_slot.unwrap_or(units);
        }
        let mut left = Left {
            units: carrier.left,
            seats: carrier.seats,
            control: self.config.control_units,
        };
        if let [only] = claims {
            // A device alone has all that is left, whatever it needs.
            only.claim.need = left.units;
            left.give(only, u32::MAX);
        } else {
            self.share(place, claims, &mut left);
        }
        let carrier = &mut self.carriers[place];
        carrier.left = left.units;
        carrier.seats = left.seats;
    }

    /// Gives parts to several devices: retransmissions first, the oldest first, then slices, then all.
    fn share(&mut self, place: usize, claims: &mut [Asked], left: &mut Left) {
        let mut order = std::mem::take(&mut self.order);
        order.clear();
        order.extend((0..claims.len()).filter(|&at| claims[at].claim.again_since_ns.is_some()));
        order.sort_by_key(|&at| claims[at].claim.again_since_ns);
        for &at in &order {
            left.give_whole(&mut claims[at]);
        }
        for slice in 0..self.credits.len() {
            let share = self.config.slices[slice].share * f64::from(self.config.units);
            let is_of = |asked: &Asked| self.slices[asked.device] == Some(slice);
            order.clear();
            order.extend(
                (0..claims.len())
                    .filter(|&at| claims[at].claim.again_since_ns.is_none() && is_of(&claims[at])),
            );
            if order.is_empty() {
                self.credits[slice] = 0.0;
                continue;
            }
            // What a slot could not give is kept for one more.
            let credit = (self.credits[slice] + share).min(2.0 * share);
            let before = left.units;
            let budget = whole_units(credit).min(before);
            let mut part = Left {
                units: budget,
                ..*left
            };
            self.by_policy(place, claims, &mut order, &mut part);
            left.seats = part.seats;
            left.units -= budget - part.units;
            self.credits[slice] = credit - f64::from(before - left.units);
        }
        order.clear();
        order.extend((0..claims.len()).filter(|&at| claims[at].claim.again_since_ns.is_none()));
        self.by_policy(place, claims, &mut order, left);
        self.order = order;
    }

    /// Gives parts to these claims of new data by the policy.
    fn by_policy(
        &mut self,
        place: usize,
        claims: &mut [Asked],
        order: &mut [usize],
        left: &mut Left,
    ) {
        match self.config.policy {
            Policy::RoundRobin => {
                order.sort_by_key(|&at| self.turn(place, &claims[at]));
                deal(claims, order, left);
            }
            Policy::MaximumRate => {
                let key = |at: usize, claims: &[Asked]| {
                    let rate_bps = claims[at].claim.rate_bps;
                    (u64::MAX - rate_bps, self.turn(place, &claims[at]))
                };
                order.sort_by_key(|&at| key(at, claims));
                fill(claims, order, left);
            }
            Policy::ProportionalFair => {
                self.by_ratio(place, claims, order);
                fill(claims, order, left);
            }
            Policy::Priority => {
                self.by_ratio(place, claims, order);
                // The sort is stable: proportional fair within a level.
                order.sort_by_key(|&at| self.users[claims[at].device].level);
                for &at in order.iter() {
                    let most = self.guaranteed(&claims[at]);
                    left.give(&mut claims[at], most);
                }
                fill(claims, order, left);
            }
        }
    }

    /// The number of the last turn of a device.
    fn turn(&self, place: usize, asked: &Asked) -> (u64, usize) {
        let turn = self.carriers[place].averages[asked.device].turn;
        (turn, asked.device)
    }

    /// Sorts by the ratio of a device's rate to what it was given, the highest first; of equal ones the device that has
    /// waited longest.
    fn by_ratio(&mut self, place: usize, claims: &[Asked], order: &mut [usize]) {
        let config = &self.config;
        let averages = &mut self.carriers[place].averages;
        for &at in order.iter() {
            let Asked { device, claim, .. } = &claims[at];
            averages[*device].pass(claim.own_before, config.average_slots);
        }
        let ratio = |at: usize| {
            let Asked { device, claim, .. } = &claims[at];
            #[expect(clippy::cast_precision_loss, reason = "rates are below 2^53")]
            let rate_bps = claim.rate_bps as f64;
            rate_bps / averages[*device].bytes.max(f64::MIN_POSITIVE)
        };
        order.sort_by(|&one, &other| {
            let by_turn = || {
                let turn = |at: usize| {
                    let device = claims[at].device;
                    (averages[device].turn, device)
                };
                turn(one).cmp(&turn(other))
            };
            ratio(other).total_cmp(&ratio(one)).then_with(by_turn)
        });
    }

    /// Parts of the slot that the device may have for its guaranteed rate.
    fn guaranteed(&mut self, asked: &Asked) -> u32 {
        let user = &mut self.users[asked.device];
        let Some(guaranteed_bps) = user.guaranteed_bps else {
            return 0;
        };
        let at_ns = asked.claim.slot.start_ns;
        user.fill(guaranteed_bps, at_ns);
        #[expect(clippy::cast_precision_loss, reason = "bytes of a slot are few")]
        let unit_bytes = asked.claim.capacity as f64 / f64::from(self.config.units);
        whole_units((user.tokens.0 / unit_bytes.max(1.0)).ceil())
    }

    /// A device has sent this in the slot that it asked for.
    fn given(&mut self, asked: &Asked, bytes: u64, units: u32) {
        let place = self.carrier_of(&asked.claim);
        let is_new = asked.claim.again_since_ns.is_none();
        #[expect(clippy::cast_precision_loss, reason = "bytes of a slot are few")]
        let sent = bytes as f64;
        let average = &mut self.carriers[place].averages[asked.device];
        average.pass(asked.claim.own_before, self.config.average_slots);
        average.bytes += sent / self.config.average_slots;
        if units > 0 && is_new {
            // Of devices with a turn in one slot, who got more is served later.
            average.turn = (asked.claim.own_before << 20) + (u64::from(asked.given) << 10);
        }
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
        let passed = slots.saturating_sub(self.slots);
        if passed == 0 {
            return;
        }
        let kept = 1.0 - 1.0 / average_slots;
        let power = i32::try_from(passed).unwrap_or(i32::MAX);
        self.bytes *= kept.powi(power);
        self.slots = slots;
    }
}

/// What is left of a slot.
#[derive(Clone, Copy, Debug)]
struct Left {
    units: u32,
    seats: u32,
    /// Parts that the control information of a device takes.
    control: u32,
}

impl Left {
    /// Parts that a device may be given, if `asked` is its claim.
    fn room(&self, asked: &Asked) -> u32 {
        match asked.given {
            0 if self.seats == 0 => 0,
            0 => self.units.saturating_sub(self.control),
            _ => self.units,
        }
    }

    /// Gives up to `most` parts of those that it needs.
    fn give(&mut self, asked: &mut Asked, most: u32) {
        let given = (asked.claim.need - asked.given)
            .min(most)
            .min(self.room(asked));
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
        if self.room(asked) >= asked.claim.need {
            self.give(asked, u32::MAX);
        }
    }
}

/// Gives each what it needs, one after another.
fn fill(claims: &mut [Asked], order: &[usize], left: &mut Left) {
    for &at in order {
        if left.units == 0 {
            break;
        }
        left.give(&mut claims[at], u32::MAX);
    }
}

/// Gives each one part in turn, until nothing is left or needed.
fn deal(claims: &mut [Asked], order: &[usize], left: &mut Left) {
    loop {
        let before = left.units;
        for &at in order {
            left.give(&mut claims[at], 1);
        }
        if left.units == before {
            break;
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
