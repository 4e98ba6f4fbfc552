//! One direction of a radio cell: the radios of its devices, and who gets each slot.
//!
//! Each device plans its next slot as a radio alone does. Where several plan the same one, the scheduler gives each of
//! them parts of it: first to retransmissions, the oldest first, then to new data by its policy. A device that gets none
//! plans again. 3GPP specifies no scheduler of a base station; the policies name their sources.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::background::{ModelledUser, ModelledUsers, UserReport};
use super::scheduler::{Asked, Scheduler, SchedulerConfig, ServiceConfig};
use super::slots::{Claim, Share};
use super::{Event, Radio};
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
    /// Runs that have not entered: when, and the port. In order of times.
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
