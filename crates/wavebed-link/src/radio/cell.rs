//! One direction of a radio cell: the radios of its devices, and who gets each slot.
//!
//! Each device plans its next slot as a radio alone does. Where several plan the same one, the scheduler gives each of
//! them parts of it: first to retransmissions, the oldest first, then to new data by its policy. A device that gets none
//! plans again. 3GPP specifies no scheduler of a base station; the policies name their sources.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::background::{ModelledUser, ModelledUsers, UserReport, UserRow};
use super::block::Share;
use super::scheduler::{Asked, Scheduler, SchedulerConfig, ServiceConfig};
use super::settings::Slots;
use super::slots::Claim;
use super::traffic::EndedFile;
use super::{Event, Radio};
use crate::pattern::State;
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

    /// Whether several share its slots. The radio of a device that has them all is no part of it.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        !self.devices().members.is_empty()
    }

    /// Where the time of its slots went up to `now_ns`. It must have been advanced to then.
    #[must_use]
    pub fn air(&self, now_ns: u64) -> AirReport {
        let devices = self.devices();
        AirReport {
            slots_ns: devices.capacity.up_to(now_ns),
            control_ns: devices.control.total_ns,
        }
    }

    /// Keeps the files that modelled users end, until [`Cell::take_files`]; with `rows` also what each of them and the
    /// control information take in each millisecond, until [`Cell::take_rows`].
    pub fn keep(&self, rows: bool) {
        let mut devices = self.devices();
        devices.background.keep(rows);
        if rows {
            devices.control.rows.get_or_insert_default();
        }
    }

    /// Takes the files that ended, each with the place of its user.
    #[must_use]
    pub fn take_files(&self) -> Vec<(usize, EndedFile)> {
        self.devices().background.take_files()
    }

    /// Takes the rows of each millisecond that has ended by `now_ns`, at the end also the last one. It must have been
    /// advanced to then.
    #[must_use]
    pub fn take_rows(&self, now_ns: u64, closing: bool) -> (Vec<AirRow>, Vec<UserRow>) {
        let mut devices = self.devices();
        let end_ms = now_ns / 1_000_000 + u64::from(closing);
        let Devices {
            control,
            capacity,
            background,
            ..
        } = &mut *devices;
        let rows = control.take_rows(end_ms, now_ns, capacity);
        (rows, background.take_rows(end_ms))
    }

    /// Serves modelled users up to `now_ns`, or up to the next event of a device. Nothing may arrive from then on.
    pub fn finish(&self, now_ns: u64) {
        let mut devices = self.devices();
        let until_ns = devices.next_event_ns().unwrap_or(u64::MAX).min(now_ns);
        devices.leave(until_ns);
    }

    /// Tells the devices whose ports have something to forward or to count.
    pub fn for_each_changed(&self, mut tell: impl FnMut(usize)) {
        for (index, member) in self.devices().members.iter().enumerate() {
            if !member.effects.is_empty() {
                tell(index);
            }
        }
    }
}

/// Where the time of the slots of one direction of a cell went, besides devices and modelled users.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AirReport {
    /// Time of all slots of the direction, of each component carrier at each base station; with the slots of a fall-back
    /// technology if a device uses it.
    pub slots_ns: u64,
    /// Time of the parts of slots that control information took.
    pub control_ns: u64,
}

/// The time of the slots in a millisecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AirRow {
    /// Milliseconds since the origin.
    pub at_ms: u64,
    /// As in [`AirReport`], of the slots that began in the millisecond.
    pub air: AirReport,
}

/// The time of all slots of a direction.
struct Capacity {
    /// Each kind of slots, and its number of carriers.
    carriers: Vec<(Slots, u64)>,
}

impl Capacity {
    fn new(radios: &[Radio], background: &ModelledUsers) -> Self {
        let Some(first) = radios.first() else {
            return Self {
                carriers: Vec::new(),
            };
        };
        let of_devices = radios.iter().flat_map(|radio| radio.air.stations());
        let mut stations: Vec<u32> = of_devices.chain(background.stations()).collect();
        stations.sort_unstable();
        stations.dedup();
        let stations = stations.len() as u64;
        let parts = first.config.aggregation.map_or(1, |each| each.carriers);
        let primary = first.config.carriers.primary.clone();
        let mut carriers = vec![(primary, stations * u64::from(parts))];
        let falls_back = |radio: &&Radio| radio.air.plays(State::Fallback);
        let mut fallbacks = radios.iter().filter(falls_back);
        let fallback = fallbacks.find_map(|radio| radio.config.carriers.fallback.clone());
        carriers.extend(fallback.map(|slots| (slots, stations)));
        Self { carriers }
    }

    /// The time of the slots that began before `now_ns`.
    fn up_to(&self, now_ns: u64) -> u64 {
        let times = self.carriers.iter().map(|(slots, carriers)| {
            slots.own_before(now_ns.div_ceil(slots.slot_ns)) * slots.slot_ns * carriers
        });
        times.sum()
    }
}

/// The time that control information takes.
#[derive(Default)]
struct Control {
    total_ns: u64,
    /// The time in each millisecond, if it is kept.
    rows: Option<BTreeMap<u64, u64>>,
    /// The first millisecond that was not taken.
    next_ms: u64,
}

impl Control {
    fn count(&mut self, start_ns: u64, time_ns: u64) {
        self.total_ns += time_ns;
        if let Some(rows) = &mut self.rows {
            *rows.entry(start_ns / 1_000_000).or_default() += time_ns;
        }
    }

    fn take_rows(&mut self, end_ms: u64, now_ns: u64, capacity: &Capacity) -> Vec<AirRow> {
        let Some(rows) = &mut self.rows else {
            return Vec::new();
        };
        let later = rows.split_off(&end_ms);
        let before = std::mem::replace(rows, later);
        let milliseconds = self.next_ms..end_ms;
        self.next_ms = self.next_ms.max(end_ms);
        let up_to = |ms: u64| capacity.up_to((ms * 1_000_000).min(now_ns));
        let row = |at_ms: u64| AirRow {
            at_ms,
            air: AirReport {
                slots_ns: up_to(at_ms + 1) - up_to(at_ms),
                control_ns: before.get(&at_ms).copied().unwrap_or(0),
            },
        };
        milliseconds.map(row).collect()
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
    /// Runs that have not entered: when, and the port. In order of times.
    inputs: VecDeque<(usize, Run)>,
    /// The next event of each member.
    events: Vec<Next>,
    scheduler: Scheduler,
    background: ModelledUsers,
    /// Those that ask for one slot.
    claims: Vec<Asked>,
    capacity: Capacity,
    control: Control,
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
        let capacity = Capacity::new(&radios, &background);
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
            capacity,
            control: Control::default(),
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
        for mut asked in claims {
            asked.device += self.members.len();
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
        let members = &mut self.members;
        let mut need =
            |device: usize, slot: Slot, units: u32| members[device].radio.need(slot, units);
        let most_given = self.scheduler.give(now_ns, &mut self.claims, &mut need);
        self.count_control();
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

    /// Counts the parts of a slot that was given which control information takes.
    fn count_control(&mut self) {
        let SchedulerConfig {
            units,
            control_units,
            ..
        } = self.scheduler.config;
        let (Some(asked), Some(first)) = (self.claims.first(), self.members.first()) else {
            return;
        };
        let slot = asked.claim.slot;
        let served = self.claims.iter().filter(|asked| asked.given > 0).count();
        let given = control_units * u32::try_from(served).unwrap_or(0);
        if given > 0 {
            let slot_ns = first.radio.config.carriers.slots(slot).slot_ns;
            let share = Share { given, all: units };
            self.control.count(slot.start_ns, share.of(slot_ns));
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
