//! The event loop of one or both directions of a leg: it waits, reads, advances the links, and writes. One thread per
//! loop.

use std::cell;
use std::io;
use std::io::{PipeReader, Read};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use wavebed_link::{Change, Conditions, Counts, TimeSum};
use wavebed_os::clock::Awake;
use wavebed_os::{clock, guest, poll, sched};

use crate::cell_account::CellAccount;
use crate::coalesce::Coalesce;
use crate::direction::{Direction, Turn};
use crate::frame_input::FrameInput;
use crate::frames::FrameAccount;
use crate::on_time::{Gaps, Interruption, LONGEST_SLEEP_NS, TURN_NS};
use crate::packet_log::LinkLog;
use crate::port::{Device, Port, TimedInput, TimedOutput};
use crate::series::{CellRows, SeriesSender};

/// Interval at which finished rows go to the writer and the scheduler guard is called.
const HOUSEKEEPING_NS: u64 = 20_000_000;

/// The same in a guest of virtual time: a wake-up costs time of the host, and an idle path has no other.
const HOUSEKEEPING_IN_GUEST_NS: u64 = 100_000_000;

/// Packets are written this long before they are due, at least: a turn takes a few microseconds of virtual time.
const AHEAD_NS: u64 = 100_000;

/// The longest time between two polls of a device: its queue is finite.
const LONGEST_BLIND_NS: u64 = 2_000_000;

/// Interval over which the guard measures the fraction of time that the loop slept.
const GUARD_NS: u64 = 100_000_000;

/// A loop that sleeps less than this fraction of the time (per cent) leaves `SCHED_FIFO`: the kernel's throttle stops a
/// processor's real-time threads for 50 ms once they were busy for 95 % of a second, and a leg may have two of them.
const SLEEPS_TOO_LITTLE_PERCENT: u64 = 7;

/// A loop that sleeps more than this fraction of the time returns to `SCHED_FIFO`.
const SLEEPS_ENOUGH_PERCENT: u64 = 15;

/// A shorter wait did not sleep: falling asleep and waking up take longer.
const ENDED_AT_ONCE_NS: u64 = 3_000;

/// Packets read from the devices of a cell before the links are advanced, at most.
const READ_IN_A_TURN: usize = 16;

/// Up to this many descriptors are waited for without an allocation.
const FEW: usize = 8;

/// Commands to a running loop.
pub enum Command {
    /// The state of every link.
    Show(Sender<LoopState>),
    /// Changes the link with this name; answers whether a stage took the change, `None` when there is no such link.
    Apply(String, Change, Sender<Option<bool>>),
    /// Interrupts the chain of the link with this name, or any chain without one; answers whether there is such a link.
    Interrupt(Option<String>, Interruption, Sender<bool>),
    /// End, and return the directions.
    Stop,
}

/// The state of a link as `ctl show` prints it.
#[derive(Clone, Debug, Default)]
pub struct LinkState {
    /// `HOP.down` or `HOP.up`.
    pub name: String,
    /// Totals so far.
    pub counts: Counts,
    /// Segments in it.
    pub backlog: wavebed_link::Backlog,
    /// Times in its queue so far.
    pub waited: TimeSum,
    /// Its conditions now.
    pub conditions: Conditions,
    /// The live changes that it takes.
    pub takes: Vec<&'static str>,
}

/// The state of one direction of a leg.
#[derive(Clone, Debug, Default)]
pub struct DirectionState {
    /// `HOST-HOST.down` or `.up`.
    pub name: String,
    /// Times from device to device of the segments that left so far, as emulated.
    pub transit: TimeSum,
}

/// The state of the directions of a loop.
#[derive(Clone, Debug, Default)]
pub struct LoopState {
    /// Time since time zero, nanoseconds.
    pub at_ns: u64,
    /// Its directions.
    pub directions: Vec<DirectionState>,
    /// Every link, in the order in which packets pass them.
    pub links: Vec<LinkState>,
    /// The frames of every direction between ports of Ethernet.
    pub frames: Vec<FrameAccount>,
    /// Every direction of a cell that several share.
    pub cells: Vec<CellAccount>,
    /// Bytes of packets in flight.
    pub in_flight_bytes: u64,
    /// Memory of the packet pool.
    pub pool_bytes: usize,
}

/// A device that packets are read from.
pub struct Input {
    /// The device.
    pub device: Arc<Device>,
    /// Its ring, if it has one.
    pub ring: Option<FrameInput>,
    /// Whether it may have packets.
    readable: bool,
    /// Whether it had none when the loop went to sleep.
    was_empty: bool,
}

impl Input {
    /// A device that may have packets.
    #[must_use]
    pub const fn new(device: Arc<Device>) -> Self {
        Self {
            device,
            ring: None,
            readable: true,
            was_empty: false,
        }
    }
}

/// A direction with its devices: one at each end, or a cell's at one end.
pub struct AttachedDirection {
    /// `HOST-HOST.down` or `.up`; with a cell `HOST-CELL.down` or `.up`.
    pub name: String,
    /// The direction.
    pub direction: Direction,
    /// The devices that packets are read from.
    pub inputs: Vec<Input>,
    /// The devices that packets are written to.
    pub outputs: Vec<Arc<Device>>,
    /// The same in a guest of virtual time, if its kernel is on time by itself.
    pub timed: Option<(Vec<TimedInput>, Vec<TimedOutput>)>,
    /// The writer of the series, with the index of the first link and of the first chain's departures.
    pub series: Option<(SeriesSender, usize, usize)>,
    /// The inputs as one descriptor, if they are many.
    group: Option<poll::Group>,
    /// The input that is read first in the next turn, so that none waits for the others.
    first_input: usize,
}

impl AttachedDirection {
    /// A direction between these devices.
    #[must_use]
    pub fn new(
        name: String,
        direction: Direction,
        inputs: Vec<Arc<Device>>,
        outputs: Vec<Arc<Device>>,
    ) -> Self {
        Self {
            name,
            direction,
            inputs: inputs.into_iter().map(Input::new).collect(),
            outputs,
            timed: None,
            series: None,
            group: None,
            first_input: 0,
        }
    }

    /// Reads ports by their rings from now on, and merges frames unless each is to be written alone.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn map_inputs(&mut self, coalesce: Coalesce, origin_ns: u64) -> io::Result<()> {
        let longest = match coalesce {
            Coalesce::Off => 0,
            // A longer one does not leave.
            _ => self.outputs[0].largest_packet() as usize,
        };
        for input in &mut self.inputs {
            input.ring = FrameInput::new(&input.device, longest, origin_ns)?;
        }
        Ok(())
    }

    /// Lets the loop wait for many inputs as for one: the kernel then looks only at those that have packets.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn group_inputs(&mut self) -> io::Result<()> {
        // The devices of a guest are watched only while nothing is on its way.
        if self.inputs.len() > 1 && self.timed.is_none() {
            let fds: Vec<_> = (self.inputs.iter().map(|input| input.device.as_fd())).collect();
            self.group = Some(poll::Group::new(&fds)?);
        }
        Ok(())
    }

    /// Reads a few packets of each readable device, or one. Returns whether there may be more, where the poll need not
    /// tell.
    fn read(&mut self, clock: &impl Fn() -> u64, one: bool) -> io::Result<bool> {
        let count = self.inputs.len();
        let mut budget = READ_IN_A_TURN;
        for place in (self.first_input..count).chain(0..self.first_input) {
            if !self.inputs[place].readable {
                continue;
            }
            if budget == 0 {
                self.first_input = place;
                return Ok(true);
            }
            let turn = self.read_from(place, clock, one)?;
            self.inputs[place].readable = turn.more;
            budget = budget.saturating_sub(turn.packets);
        }
        Ok(self.inputs.iter().any(|input| input.readable))
    }

    fn read_from(&mut self, place: usize, clock: &impl Fn() -> u64, one: bool) -> io::Result<Turn> {
        if let Some((inputs, outputs)) = &mut self.timed {
            let (input, output) = (&mut inputs[place], &mut outputs[0]);
            return self.direction.read_all(place, input, output, clock);
        }
        let Input { device, ring, .. } = &mut self.inputs[place];
        let output = &mut self.outputs[0];
        match ring {
            Some(ring) => self.direction.read(place, ring, output, clock),
            None if one => self.direction.read_one(place, device, output, clock),
            None => self.direction.read(place, device, output, clock),
        }
    }

    /// Looks into the rings of the inputs. Returns whether one has packets; `None` where an input has no ring.
    fn look(&mut self) -> Option<bool> {
        let mut found = false;
        for input in &mut self.inputs {
            input.readable = input.ring.as_ref()?.has_frame();
            found |= input.readable;
        }
        Some(found)
    }

    /// Advances its links to now.
    fn advance(&mut self, clock: &impl Fn() -> u64) {
        match &mut self.timed {
            Some((_, outputs)) => self.direction.advance_to(outputs, clock),
            None => self.direction.advance_to(&mut self.outputs, clock),
        }
    }

    /// For how long the loop may leave its devices alone, nanoseconds: all that happens meanwhile is due later, and the
    /// kernel knows when it came. 0: the loop must look at each packet and each event.
    fn may_sleep_ns(&self) -> u64 {
        let foresight_ns = self.direction.foresight_ns();
        foresight_ns.saturating_sub(AHEAD_NS).min(LONGEST_BLIND_NS)
    }

    /// When it wants to be looked at next, if its devices have no packet before.
    fn due_ns(&self, now_ns: u64) -> u64 {
        match self.may_sleep_ns() {
            0 => {
                let due_ns = if self.timed.is_some() {
                    self.direction.next_event_ns()
                } else {
                    self.direction.next_departure_ns()
                };
                due_ns.map_or(u64::MAX, |due_ns| due_ns.max(now_ns + TURN_NS))
            }
            _ if self.direction.is_empty() => u64::MAX,
            sleep_ns => now_ns + sleep_ns,
        }
    }

    /// Whether a packet in one of its devices ends the loop's sleep.
    fn is_watched(&self) -> bool {
        self.may_sleep_ns() == 0 || self.direction.is_empty()
    }

    /// The account of its frames, if it is between ports of Ethernet.
    #[must_use]
    pub fn frames(&self) -> Option<FrameAccount> {
        let frames = self.direction.frames.as_ref()?;
        let from = self.inputs[0].device.ethernet()?;
        let to = self.outputs[0].ethernet()?;
        let mut account = frames.account(&self.name, self.direction.chains());
        let Direction { cell, chain, .. } = &self.direction;
        account.of_no_device_frames = cell.as_ref().map(|_| chain.account.devices.segments_read);
        Some(account.between(from, to))
    }
}

/// An event loop.
pub struct Loop {
    /// One direction, or both of a leg.
    pub directions: Vec<AttachedDirection>,
    /// Time zero on the monotonic clock.
    pub origin_ns: u64,
    /// Commands; a byte in `wake` announces one.
    pub commands: Receiver<Command>,
    /// See `commands`.
    pub wake: PipeReader,
}

/// The result of a loop.
pub struct Ended {
    /// The directions with their counters.
    pub directions: Vec<AttachedDirection>,
    /// Processor time of the thread, nanoseconds.
    pub cpu_ns: u64,
    /// Its scheduler, and the reason if real time was refused.
    pub scheduler: String,
    /// Whether it could keep idle processors awake.
    pub kept_awake: bool,
    /// How often it left `SCHED_FIFO` because it was busy.
    pub step_downs: u64,
    /// Periods in which it did not poll its devices.
    pub gaps: Gaps,
    /// Time zero to the end, nanoseconds.
    pub ended_ns: u64,
}

impl Loop {
    /// Runs until [`Command::Stop`].
    ///
    /// # Errors
    /// When a device or the poll fails for good.
    pub fn run(mut self) -> io::Result<Ended> {
        let time = TurnClock::new(self.origin_ns, guest::is_guest());
        let clock = || time.now_ns();
        let (longest_sleep_ns, each_ns) = if time.stands_still() {
            (u64::MAX / 2, HOUSEKEEPING_IN_GUEST_NS)
        } else {
            (LONGEST_SLEEP_NS, HOUSEKEEPING_NS)
        };
        let mut guard = Guard::new(sched::prepare_thread(sched::Options::default()));
        // The pipe blocks: it is read only after poll reported it readable.
        let mut is_asked = false;
        let mut gaps = Gaps::since(clock());
        let mut housekeeping_ns = each_ns;
        loop {
            if is_asked {
                let _ = self.wake.read(&mut [0u8; 64]);
                self.read_blind(&clock)?;
                if self.run_commands(&clock) {
                    break;
                }
            }
            let mut more = false;
            for attached in &mut self.directions {
                more |= attached.read(&clock, time.stands_still())?;
            }
            // Rows end here: a processor may be lost between the advance and the next look at the clock.
            let advanced_ns = clock();
            self.advance(&clock);
            let now_ns = clock();
            if now_ns >= housekeeping_ns {
                housekeeping_ns = now_ns + each_ns;
                self.send_rows(advanced_ns, false);
                guard.check(now_ns)?;
                // A loop that never sleeps takes commands here.
                if self.run_commands(&clock) {
                    break;
                }
            }
            // With more to read the poll does not sleep.
            let due_ns = self
                .directions
                .iter()
                .map(|attached| attached.due_ns(now_ns))
                .min()
                .unwrap_or(u64::MAX);
            let until_ns = if more {
                now_ns
            } else {
                due_ns.min(housekeeping_ns).min(now_ns + longest_sleep_ns)
            };
            if self.look() {
                is_asked = false;
                gaps.look(now_ns, now_ns, now_ns);
                continue;
            }
            is_asked = self.wait(until_ns.saturating_sub(now_ns))?;
            time.begin_turn();
            let woke_ns = clock();
            guard.slept(now_ns, woke_ns);
            gaps.look(now_ns, until_ns, woke_ns);
            self.note_empty(now_ns, until_ns.min(woke_ns));
        }
        let ended_ns = clock();
        self.send_rows(ended_ns, true);
        Ok(Ended {
            directions: self.directions,
            cpu_ns: clock::thread_cpu_ns(),
            scheduler: guard.describe(),
            kept_awake: guard.awake.is_some(),
            step_downs: guard.step_downs,
            gaps,
            ended_ns,
        })
    }

    /// Whether a ring has packets for the next turn. Without rings everywhere the kernel has to be asked.
    fn look(&mut self) -> bool {
        let mut found = false;
        for attached in &mut self.directions {
            let Some(has_packets) = attached.look() else {
                return false;
            };
            found |= has_packets;
        }
        found
    }

    /// Waits for the devices that are watched, and for commands. Others are read after each wait. Returns whether there is
    /// a command.
    fn wait(&mut self, timeout_ns: u64) -> io::Result<bool> {
        let mut watched = vec![self.wake.as_fd()];
        for attached in &self.directions {
            match &attached.group {
                Some(group) => watched.push(group.as_fd()),
                None if attached.is_watched() => {
                    watched.extend(attached.inputs.iter().map(|input| input.device.as_fd()));
                }
                None => {}
            }
        }
        let mut few = [false; FEW];
        let mut many;
        let found = if watched.len() <= FEW {
            &mut few[..watched.len()]
        } else {
            many = vec![false; watched.len()];
            &mut many[..]
        };
        poll::wait(&watched, found, Some(timeout_ns))?;
        drop(watched);
        let (is_asked, found) = found.split_first().expect("the pipe is one of them");
        let mut found = found.iter();
        for attached in &mut self.directions {
            let is_watched = attached.is_watched();
            let AttachedDirection { group, inputs, .. } = attached;
            for input in &mut *inputs {
                input.was_empty = !input.readable;
                input.readable = false;
            }
            if let Some(group) = group {
                if *found.next().expect("one for the group") {
                    group.readable(|place| inputs[place].readable = true)?;
                }
                continue;
            }
            for input in inputs {
                // What is not watched may have packets.
                input.readable = !is_watched || *found.next().expect("one for each");
            }
        }
        Ok(*is_asked)
    }

    /// Reads what came to devices that are not watched, before something else happens.
    fn read_blind(&mut self, clock: &impl Fn() -> u64) -> io::Result<()> {
        for attached in &mut self.directions {
            if !attached.is_watched() {
                for place in 0..attached.inputs.len() {
                    attached.read_from(place, clock, true)?;
                }
            }
        }
        Ok(())
    }

    /// Records that empty devices stayed empty until `until_ns`, if the loop slept: a wait that ends at once may have
    /// found an earlier packet. A packet that came while the loop overslept has waited.
    fn note_empty(&mut self, slept_ns: u64, until_ns: u64) {
        if until_ns < slept_ns + ENDED_AT_ONCE_NS {
            return;
        }
        for attached in &mut self.directions {
            let empty_ns = &mut attached.direction.empty_ns;
            for (input, empty_ns) in attached.inputs.iter().zip(empty_ns) {
                if input.was_empty {
                    *empty_ns = until_ns;
                }
            }
        }
    }

    /// Advances every direction to now.
    fn advance(&mut self, clock: &impl Fn() -> u64) {
        for attached in &mut self.directions {
            attached.advance(clock);
        }
    }

    /// Lets the next advance look at everything.
    fn wake_all(&mut self) {
        for attached in &mut self.directions {
            attached.direction.wake_all();
        }
    }

    /// Executes pending commands. True after `Stop`.
    fn run_commands(&mut self, clock: &impl Fn() -> u64) -> bool {
        while let Ok(command) = self.commands.try_recv() {
            // An answer fails to send only when nobody waits for it.
            match command {
                Command::Show(answer) => {
                    self.advance(clock);
                    let _ = answer.send(self.state(clock()));
                }
                Command::Apply(name, change, answer) => {
                    let _ = answer.send(self.apply(&name, &change, clock));
                }
                Command::Interrupt(name, interruption, answer) => {
                    let _ = answer.send(self.interrupt(name.as_deref(), interruption, clock));
                }
                Command::Stop => return true,
            }
        }
        false
    }

    /// Changes a link at one moment, after all directions were advanced to it.
    fn apply(&mut self, name: &str, change: &Change, clock: &impl Fn() -> u64) -> Option<bool> {
        let now_ns = clock();
        self.advance(&|| now_ns);
        self.wake_all();
        let mut links = self
            .directions
            .iter_mut()
            .flat_map(|attached| attached.direction.chains_mut())
            .flat_map(|chain| &mut chain.links);
        let named = links.find(|named| named.name == name)?;
        Some(named.link.apply(now_ns, change))
    }

    fn interrupt(
        &mut self,
        name: Option<&str>,
        interruption: Interruption,
        clock: &impl Fn() -> u64,
    ) -> bool {
        let now_ns = clock();
        self.advance(&|| now_ns);
        self.wake_all();
        let outages = interruption.from(now_ns);
        let mut found = false;
        for attached in &mut self.directions {
            let Some(name) = name else {
                let chains = attached.direction.entrances_mut();
                chains.for_each(|chain| chain.interrupt(outages));
                found = true;
                continue;
            };
            let chains = attached.direction.chains_mut();
            let named = chains.filter(|chain| chain.links.iter().any(|named| named.name == name));
            for chain in named {
                chain.interrupt(outages);
                found = true;
            }
        }
        found
    }

    fn state(&self, at_ns: u64) -> LoopState {
        let links = self
            .directions
            .iter()
            .flat_map(|attached| attached.direction.links());
        let directions = self.directions.iter().flat_map(|attached| {
            let each = attached.direction.transits().into_iter();
            each.map(|(name, transit)| DirectionState {
                name: name.unwrap_or(&attached.name).to_owned(),
                transit,
            })
        });
        LoopState {
            at_ns,
            directions: directions.collect(),
            links: links
                .map(|named| LinkState {
                    name: named.name.clone(),
                    counts: *named.link.counters().total(),
                    backlog: named.link.backlog(),
                    waited: named.link.counters().waited(),
                    conditions: named.link.conditions(at_ns),
                    takes: named.link.takes(),
                })
                .collect(),
            frames: self
                .directions
                .iter()
                .filter_map(AttachedDirection::frames)
                .collect(),
            cells: self
                .directions
                .iter()
                .filter_map(|attached| attached.direction.cell.as_ref()?.account(at_ns))
                .collect(),
            in_flight_bytes: self
                .directions
                .iter()
                .map(|attached| attached.direction.packets.in_flight_bytes())
                .sum(),
            pool_bytes: self
                .directions
                .iter()
                .map(|attached| attached.direction.packets.pool.memory_bytes())
                .sum(),
        }
    }

    fn send_rows(&mut self, now_ns: u64, closing: bool) {
        // At the end the current millisecond is written too.
        let until_ns = if closing { now_ns + 1_000_000 } else { now_ns };
        for attached in &mut self.directions {
            let direction = &mut attached.direction;
            let series = attached.series.as_ref().map(|(sender, ..)| sender);
            if let Some(at) = &mut direction.cell {
                if closing {
                    at.cell.finish(now_ns);
                }
                let files = at.cell.take_files();
                at.file_times.count(&files);
                if let Some(sender) = series {
                    let (air, users) = at.cell.take_rows(now_ns, closing);
                    sender.cell(&at.name, CellRows { air, users, files });
                }
            }
            if closing {
                let links = direction.chains_mut().flat_map(|chain| &mut chain.links);
                let logs = links.filter_map(|named| named.log.as_mut());
                logs.for_each(LinkLog::send);
            }
            let Some((sender, first_link, first_departures)) = &attached.series else {
                continue;
            };
            let links = direction.chains_mut().flat_map(|chain| &mut chain.links);
            for (place, named) in links.enumerate() {
                let rows = named.link.counters_mut().finished_rows(until_ns);
                sender.link(first_link + place, rows);
            }
            for (place, chain) in direction.accounts_mut().enumerate() {
                sender.departures(
                    first_departures + place,
                    chain.account.take_departures(closing),
                );
            }
        }
    }
}

/// The loop's clock. In a guest of virtual time it is read once per turn: each reading is a system call there, and time
/// stands still during a turn in any case.
struct TurnClock {
    origin_ns: u64,
    turn_ns: Option<cell::Cell<u64>>,
}

impl TurnClock {
    fn new(origin_ns: u64, in_guest: bool) -> Self {
        let made = Self {
            origin_ns,
            turn_ns: in_guest.then(cell::Cell::default),
        };
        made.begin_turn();
        made
    }

    const fn stands_still(&self) -> bool {
        self.turn_ns.is_some()
    }

    fn read_ns(&self) -> u64 {
        clock::monotonic_ns().saturating_sub(self.origin_ns)
    }

    fn now_ns(&self) -> u64 {
        self.turn_ns
            .as_ref()
            .map_or_else(|| self.read_ns(), cell::Cell::get)
    }

    fn begin_turn(&self) {
        if let Some(turn_ns) = &self.turn_ns {
            turn_ns.set(self.read_ns());
        }
    }
}

/// A loop that sleeps more than this fraction of the time keeps idle processors awake. An idle processor takes some 50
/// µs to wake up, four times per round trip: measured 210 µs of RTT error against 94 µs. A busy machine does not keep
/// them awake: where processors share a core, the spinning one slows the other (10.7 against 12.7 Gbit/s).
const KEEPS_AWAKE_PERCENT: u64 = 75;

/// Prevents the loop from starving the machine and from being stopped by the kernel's real-time throttle.
struct Guard {
    granted: sched::Granted,
    awake: Option<Awake>,
    window_since_ns: u64,
    slept_ns: u64,
    step_downs: u64,
}

impl Guard {
    fn new(granted: sched::Granted) -> Self {
        Self {
            granted,
            awake: Awake::request().ok(),
            window_since_ns: 0,
            slept_ns: 0,
            step_downs: 0,
        }
    }

    const fn slept(&mut self, from_ns: u64, until_ns: u64) {
        self.slept_ns += until_ns - from_ns;
    }

    fn check(&mut self, now_ns: u64) -> io::Result<()> {
        let window_ns = now_ns - self.window_since_ns;
        if window_ns < GUARD_NS {
            return Ok(());
        }
        let slept_percent = self.slept_ns * 100 / window_ns;
        if self.granted.is_real_time() {
            if slept_percent < SLEEPS_TOO_LITTLE_PERCENT {
                self.granted.step_down()?;
                self.step_downs += 1;
            }
        } else if slept_percent > SLEEPS_ENOUGH_PERCENT {
            self.granted.step_up()?;
        }
        if let Some(awake) = &mut self.awake {
            awake.set(slept_percent > KEEPS_AWAKE_PERCENT)?;
        }
        self.window_since_ns = now_ns;
        self.slept_ns = 0;
        Ok(())
    }

    fn describe(&self) -> String {
        match (self.granted.fifo_priority, &self.granted.refused) {
            (Some(priority), _) => format!("SCHED_FIFO {priority}"),
            (None, Some(reason)) => format!("normal ({reason})"),
            (None, None) => "normal".into(),
        }
    }
}
