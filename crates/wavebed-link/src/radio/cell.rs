//! One direction of a radio cell: the radios of its devices, and who gets each slot.
//!
//! Each device plans its next slot as a radio alone does. Where several plan the same one, the scheduler gives each of
//! them parts of it: first to retransmissions, the oldest first, then to new data by its policy. A device that gets none
//! plans again. 3GPP specifies no scheduler of a base station; the policies name their sources.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::background::{ModelledUser, ModelledUsers, UserReport};
use super::slots::{Claim, Share};
use super::{Event, Radio};
use crate::config::{Policy, SchedulerConfig, ServiceConfig};
use crate::run::{Backlog, BlockRecord, Run, Slot};
use crate::stage::{Change, Conditions, Effect, Outlet, Stage};

/// One direction of a cell, which its ports share. Runs enter by the ports; [`Cell::advance`] handles them in the order of
/// their times; the ports forward what left.
#[derive(Clone)]
pub struct Cell(Arc<Mutex<Devices>>);

impl Cell {
    /// A cell of these devices, each with what it is entitled to, and modelled users. All have the same slots.
    #[must_use]
    pub fn new(
        config: SchedulerConfig,
        devices: Vec<(Radio, ServiceConfig)>,
        background: Vec<(ModelledUser, ServiceConfig)>,
    ) -> Self {
        Self(Arc::new(Mutex::new(Devices::new(
            config, devices, background,
        ))))
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

    /// How each modelled user fared up to the time of the last [`Cell::advance`].
    #[must_use]
    pub fn background(&self) -> Vec<UserReport> {
        self.devices().background.reports()
    }
}

impl Cell {
    /// Tells the devices whose ports have something to forward or to count.
    pub fn for_each_changed(&self, mut tell: impl FnMut(usize)) {
        for (index, member) in self.devices().members.iter().enumerate() {
            if !member.effects.is_empty() {
                tell(index);
            }
        }
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

    fn counts_air(&self) -> bool {
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
    background: ModelledUsers,
    /// Those that ask for one slot.
    claims: Vec<Asked>,
}

/// When the next event of a device is due, twice, and one more if it is a slot, which comes after all other events of its
/// time. One number, because the first of many is looked for at each event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Next(u64);

impl Next {
    const NEVER: Self = Self(u64::MAX);

    const fn new(at_ns: u64, is_slot: bool) -> Self {
        Self(at_ns << 1 | is_slot as u64)
    }

    const fn at_ns(self) -> u64 {
        if self.0 == u64::MAX {
            u64::MAX
        } else {
            self.0 >> 1
        }
    }

    const fn is_slot(self) -> bool {
        self.0 & 1 == 1
    }
}

/// The claim of a device to a slot, and what it is given.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    /// Its index; a modelled user has an index behind those of all devices.
    pub(super) device: usize,
    pub(super) claim: Claim,
    /// Parts of the slot that it can use, and bytes of the whole slot; `None` until somebody wants to know.
    pub(super) need: Option<(u32, u64)>,
    /// Users that it stands for.
    pub(super) users: u32,
    pub(super) given: u32,
}

impl Devices {
    fn new(
        config: SchedulerConfig,
        devices: Vec<(Radio, ServiceConfig)>,
        background: Vec<(ModelledUser, ServiceConfig)>,
    ) -> Self {
        let (radios, mut services): (Vec<Radio>, Vec<ServiceConfig>) = devices.into_iter().unzip();
        let (users, others): (Vec<ModelledUser>, Vec<ServiceConfig>) =
            background.into_iter().unzip();
        services.extend(others);
        let background = ModelledUsers::new(users, radios.first());
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
            background,
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
        self.events[device] = next.map_or(Next::NEVER, |(at_ns, event)| {
            Next::new(at_ns, event == Event::Slot)
        });
    }

    fn next_event(&self) -> Next {
        self.events.iter().copied().min().unwrap_or(Next::NEVER)
    }

    fn next_event_ns(&self) -> Option<u64> {
        let input = self.inputs.front().map_or(u64::MAX, |(_, run)| run.at_ns);
        let at_ns = self.next_event().at_ns().min(input);
        (at_ns < u64::MAX).then_some(at_ns)
    }

    fn advance(&mut self, now_ns: u64) {
        loop {
            let next = self.next_event();
            if let Some(&(device, run)) = self.inputs.front()
                && run.at_ns <= now_ns
                && run.at_ns < next.at_ns()
            {
                self.inputs.pop_front();
                let Device { radio, effects } = &mut self.members[device];
                radio.enter(run.at_ns, run, &mut Outlet::record(effects));
                self.look(device);
            } else if next.at_ns() <= now_ns {
                self.handle(next);
            } else {
                break;
            }
        }
        self.leave(now_ns);
    }

    /// Gives the slots that were decided about before `now_ns`, and that no device asked for, to modelled users.
    fn leave(&mut self, now_ns: u64) {
        while let Some((index, decided_ns)) = self.background.next_slot(now_ns) {
            self.scheduler.slots_before = self.background.slots_before(index);
            for (station, carrier) in self.background.places(index) {
                let slot = self.background.slot(index, carrier);
                if !self.scheduler.is_open(station, slot) {
                    self.claims.clear();
                    self.add_background(station, slot, decided_ns);
                    self.give_slot(decided_ns);
                }
            }
        }
    }

    /// Adds the claims of the modelled users to the slot of a base station.
    fn add_background(&mut self, station: u32, slot: Slot, now_ns: u64) {
        let SchedulerConfig {
            units,
            control_units,
            ..
        } = self.scheduler.config;
        let claims = self.background.claims(station, slot, now_ns, units);
        for (place, mut asked) in claims {
            asked.device = self.members.len() + place;
            asked.need = asked
                .need
                .map(|(need, bytes)| (need.min(units - control_units), bytes));
            self.claims.push(asked);
        }
    }

    /// Handles the first event that is due at the time of `next`: of one device, or a slot of all devices that planned it.
    fn handle(&mut self, next: Next) {
        if next.is_slot() {
            self.leave(next.at_ns());
        }
        let mut due = self.events.iter();
        let Some(first) = due.position(|event| *event == next) else {
            return;
        };
        if !next.is_slot() || !self.gather(first, next) {
            let Device { radio, effects } = &mut self.members[first];
            if let Some((at_ns, event)) = radio.next() {
                radio.handle(at_ns, event, &mut Outlet::record(effects));
            }
            self.look(first);
            return;
        }
        let Claim { station, slot, .. } = self.claims[0].claim;
        if self.background.have(slot) && !self.scheduler.is_open(station, slot) {
            self.add_background(station, slot, next.at_ns());
        }
        self.give_slot(next.at_ns());
    }

    /// Gives the slot that is claimed at `now_ns`, and uses it.
    fn give_slot(&mut self, now_ns: u64) {
        let most_given = self
            .scheduler
            .give(now_ns, &mut self.claims, &mut self.members);
        for place in 0..self.claims.len() {
            let asked = self.claims[place];
            let share = Share {
                given: asked.given,
                all: self.scheduler.config.units,
            };
            if let Some(user) = asked.device.checked_sub(self.members.len()) {
                if asked.given > 0 {
                    let bytes = self.background.use_slot(user, &asked, share);
                    self.scheduler.sent(&asked, bytes);
                }
                continue;
            }
            let Device { radio, effects } = &mut self.members[asked.device];
            if asked.given == 0 {
                radio.pass_slot(now_ns, most_given);
            } else {
                let bytes = radio.use_slot(share, &mut Outlet::record(effects));
                radio.make_plan(now_ns);
                self.scheduler.sent(&asked, bytes);
            }
            self.look(asked.device);
        }
    }

    /// Collects the claims of all devices that decide at the time of `next` and plan the slot of the device `first`. False
    /// if that one plans none.
    fn gather(&mut self, first: usize, next: Next) -> bool {
        self.claims.clear();
        let Some(slot) = self.members[first].radio.planned() else {
            return false;
        };
        let mut station = None;
        for device in first..self.members.len() {
            let radio = &mut self.members[device].radio;
            if self.events[device] != next || radio.planned() != Some(slot) {
                continue;
            }
            let claim = radio.claim(slot);
            if *station.get_or_insert(claim.station) == claim.station {
                self.claims.push(Asked {
                    device,
                    claim,
                    need: None,
                    users: 1,
                    given: 0,
                });
            }
        }
        self.scheduler.slots_before = self.members[first].radio.slots_before(slot);
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
    /// What each slice may take before the others, parts of slots.
    credits: Vec<f64>,
    /// Slots of this direction before the one that is claimed.
    slots_before: u64,
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
    fn new(config: SchedulerConfig, services: &[ServiceConfig]) -> Self {
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
    fn is_open(&self, station: u32, slot: Slot) -> bool {
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

    /// Gives the parts of the slot that is claimed at `now_ns`. Returns the device that got most of it.
    fn give(&mut self, now_ns: u64, claims: &mut [Asked], members: &mut [Device]) -> Option<u32> {
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
            members,
        };
        if let [only] = claims
            && only.device < left.members.len()
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

    /// A device has sent so many bytes of new data in the slot that it was given.
    fn sent(&mut self, asked: &Asked, bytes: u64) {
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
    members: &'a mut [Device],
}

impl Left<'_> {
    /// Parts that a device can use, and the bytes of the whole slot.
    fn need(&mut self, asked: &mut Asked) -> (u32, u64) {
        let (all, most) = (self.all, self.all - self.control);
        let members = &mut self.members;
        *asked.need.get_or_insert_with(|| {
            let radio = &mut members[asked.device].radio;
            let (need, capacity) = radio.need(asked.claim.slot, all);
            (need.min(most), capacity)
        })
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
