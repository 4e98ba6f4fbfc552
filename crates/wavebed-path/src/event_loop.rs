//! The event loop of one or both directions of a leg: it waits, reads, advances the links, and writes. One thread per
//! loop.

use std::cell::Cell;
use std::io;
use std::io::{PipeReader, Read};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use wavebed_link::{Change, Conditions, Counts, TimeSum};
use wavebed_os::clock::Awake;
use wavebed_os::{clock, guest, poll, sched};

use crate::direction::Direction;
use crate::frames::FrameAccount;
use crate::on_time::{Gaps, Interruption, LONGEST_SLEEP_NS};
use crate::packet_log::LinkLog;
use crate::port::{Device, TimedInput, TimedOutput};
use crate::series::SeriesSender;

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

/// Packets due within this time after a turn wait for the next turn: at 20 Gbit/s a segment is due every 0.6 µs, and a
/// turn for each would cost more than the copying. A packet due after a pause is not delayed.
const TURN_NS: u64 = 20_000;

/// A shorter wait did not sleep: falling asleep and waking up take longer.
const ENDED_AT_ONCE_NS: u64 = 3_000;

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
    /// Bytes of packets in flight.
    pub in_flight_bytes: u64,
    /// Memory of the packet pool.
    pub pool_bytes: usize,
}

/// A direction with its two devices.
pub struct AttachedDirection {
    /// `HOST-HOST.down` or `.up`.
    pub name: String,
    /// The direction.
    pub direction: Direction,
    /// The device that packets are read from.
    pub input: Arc<Device>,
    /// The device that packets are written to.
    pub output: Arc<Device>,
    /// The same two in a guest of virtual time, if its kernel is on time by itself.
    pub timed: Option<(TimedInput, TimedOutput)>,
    /// The writer of the series, with the index of the first link and of the first chain's departures.
    pub series: Option<(SeriesSender, usize, usize)>,
}

impl AttachedDirection {
    /// Reads a few packets, or one. Returns whether there may be more, where the poll need not tell.
    fn read(&mut self, clock: &impl Fn() -> u64, one: bool) -> io::Result<bool> {
        if let Some((input, output)) = &mut self.timed {
            return Ok(self.direction.read_all(input, output, clock)?.more);
        }
        let (input, output) = (&mut self.input, &mut self.output);
        let turn = if one {
            self.direction.read_one(input, output, clock)?
        } else {
            self.direction.read(input, output, clock)?
        };
        Ok(turn.more)
    }

    /// Advances its links to now.
    fn advance(&mut self, clock: &impl Fn() -> u64) {
        match &mut self.timed {
            Some((_, output)) => self.direction.advance(output, clock),
            None => self.direction.advance(&mut self.output, clock),
        }
    }

    /// For how long the loop may leave its device alone, nanoseconds: all that happens meanwhile is due later, and the
    /// kernel knows when it came. 0: the loop must look at each packet and each event.
    fn may_sleep_ns(&self) -> u64 {
        let foresight_ns = self.direction.foresight_ns();
        foresight_ns.saturating_sub(AHEAD_NS).min(LONGEST_BLIND_NS)
    }

    /// When it wants to be looked at next, if its device has no packet before.
    fn due_ns(&self, now_ns: u64) -> u64 {
        match self.may_sleep_ns() {
            0 => {
                let due_ns = self.direction.next_event_ns();
                due_ns.map_or(u64::MAX, |due_ns| due_ns.max(now_ns + TURN_NS))
            }
            _ if self.direction.is_empty() => u64::MAX,
            sleep_ns => now_ns + sleep_ns,
        }
    }

    /// Whether a packet in its device ends the loop's sleep.
    fn is_watched(&self) -> bool {
        self.may_sleep_ns() == 0 || self.direction.is_empty()
    }

    /// The account of its frames, if it is between ports of Ethernet.
    #[must_use]
    pub fn frames(&self) -> Option<FrameAccount> {
        let frames = self.direction.frames.as_ref()?;
        let (from, to) = (self.input.ethernet()?, self.output.ethernet()?);
        let account = frames.account(&self.name, self.direction.chains());
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
        // The last entry is the pipe, which blocks: it is read only after poll reported it readable.
        let pipe = self.directions.len();
        let mut readable = vec![true; pipe + 1];
        readable[pipe] = false;
        let mut gaps = Gaps::since(clock());
        let mut housekeeping_ns = each_ns;
        loop {
            if readable[pipe] {
                let _ = self.wake.read(&mut [0u8; 64]);
                self.read_blind(&clock)?;
                if self.run_commands(&clock) {
                    break;
                }
            }
            let mut more = false;
            for (attached, readable) in self.directions.iter_mut().zip(&mut readable) {
                *readable = *readable && attached.read(&clock, time.stands_still())?;
                more |= *readable;
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
            let was_empty: [bool; 2] =
                std::array::from_fn(|index| index < pipe && !readable[index]);
            self.wait(until_ns.saturating_sub(now_ns), &mut readable)?;
            time.begin_turn();
            let woke_ns = clock();
            guard.slept(now_ns, woke_ns);
            gaps.look(now_ns, until_ns, woke_ns);
            self.note_empty(was_empty, now_ns, until_ns.min(woke_ns));
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

    /// Waits for the devices that are watched, and for commands. Others are read after each wait.
    fn wait(&self, timeout_ns: u64, readable: &mut [bool]) -> io::Result<()> {
        let pipe = self.directions.len();
        let mut watched = [(0, self.wake.as_fd()); 3];
        let mut count = 0;
        readable.fill(true);
        for (index, attached) in self.directions.iter().enumerate() {
            if attached.is_watched() {
                watched[count] = (index, attached.input.as_fd());
                count += 1;
            }
        }
        watched[count] = (pipe, self.wake.as_fd());
        let mut found = [false; 3];
        let fds = watched.map(|(_, fd)| fd);
        poll::wait(&fds[..=count], &mut found, Some(timeout_ns))?;
        for ((index, _), found) in watched[..=count].iter().zip(found) {
            readable[*index] = found;
        }
        Ok(())
    }

    /// Reads what came to devices that are not watched, before something else happens.
    fn read_blind(&mut self, clock: &impl Fn() -> u64) -> io::Result<()> {
        for attached in &mut self.directions {
            if !attached.is_watched() {
                attached.read(clock, true)?;
            }
        }
        Ok(())
    }

    /// Records that empty devices stayed empty until `until_ns`, if the loop slept: a wait that ends at once may have
    /// found an earlier packet. A packet that came while the loop overslept has waited.
    fn note_empty(&mut self, was_empty: [bool; 2], slept_ns: u64, until_ns: u64) {
        if until_ns < slept_ns + ENDED_AT_ONCE_NS {
            return;
        }
        for (attached, was_empty) in self.directions.iter_mut().zip(was_empty) {
            if was_empty {
                attached.direction.empty_ns = until_ns;
            }
        }
    }

    /// Advances every direction to now.
    fn advance(&mut self, clock: &impl Fn() -> u64) {
        for attached in &mut self.directions {
            attached.advance(clock);
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
        let chains = self
            .directions
            .iter_mut()
            .flat_map(|attached| attached.direction.chains_mut());
        let named = chains.filter(|chain| {
            name.is_none_or(|name| chain.links.iter().any(|named| named.name == name))
        });
        let mut found = false;
        for chain in named {
            chain.interrupt(interruption.from(now_ns));
            found = true;
        }
        found
    }

    fn state(&self, at_ns: u64) -> LoopState {
        let links = self
            .directions
            .iter()
            .flat_map(|attached| attached.direction.links());
        let directions = self.directions.iter().map(|attached| DirectionState {
            name: attached.name.clone(),
            transit: attached.direction.transit(),
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
            let series = &attached.series;
            let mut next_link = series.as_ref().map_or(0, |(_, first_link, _)| *first_link);
            for (place, chain) in attached.direction.chains_mut().enumerate() {
                if closing {
                    let links = chain.links.iter_mut();
                    let logs = links.filter_map(|named| named.log.as_mut());
                    logs.for_each(LinkLog::send);
                }
                let Some((sender, _, departures)) = series else {
                    continue;
                };
                for named in &mut chain.links {
                    sender.link(next_link, named.link.counters_mut().finished_rows(until_ns));
                    next_link += 1;
                }
                sender.departures(departures + place, chain.take_departures(closing));
            }
        }
    }
}

/// The loop's clock. In a guest of virtual time it is read once per turn: each reading is a system call there, and time
/// stands still during a turn in any case.
struct TurnClock {
    origin_ns: u64,
    turn_ns: Option<Cell<u64>>,
}

impl TurnClock {
    fn new(origin_ns: u64, in_guest: bool) -> Self {
        let made = Self {
            origin_ns,
            turn_ns: in_guest.then(Cell::default),
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
            .map_or_else(|| self.read_ns(), Cell::get)
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
