//! The event loop of one lane or of both lanes of a hop: waits, reads, moves the links on, writes. One thread each.

use std::io::{self, PipeReader, Read};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use wavebed_link::{Change, Tally};
use wavebed_os::awake::Awake;
use wavebed_os::{clock, poll, sched, tun::Tun};

use crate::gaps::{Gaps, LONGEST_SLEEP_NS};
use crate::lane::Lane;
use crate::series::SeriesSender;

/// How often finished rows go to the writer and the scheduler guard is consulted.
const HOUSEKEEPING_NS: u64 = 20_000_000;

/// How often the guard looks at the share of time that the loop slept.
const GUARD_NS: u64 = 100_000_000;

/// A loop that sleeps for less than this share (per cent) leaves `SCHED_FIFO`: the kernel's throttle stops a
/// processor's real-time threads for 50 ms once they were busy for 95 % of a second, and a hop may have two of them.
const SLEEPS_TOO_LITTLE_PERCENT: u64 = 7;

/// A loop that sleeps for more than this share goes back.
const SLEEPS_ENOUGH_PERCENT: u64 = 15;

/// Departures due within this time of a turn wait for the next turn: at 20 Gbit/s a segment is due every 0.6 µs,
/// and a turn for each of them would cost more than all the copying. What is due after a pause is not delayed.
const TURN_NS: u64 = 20_000;

/// A wait that is over in less found something at once: falling asleep and waking up take longer.
const ENDED_AT_ONCE_NS: u64 = 3_000;

/// What others ask of a running loop.
pub enum Command {
    /// The state of every link.
    Show(Sender<LoopState>),
    /// A live change of the link with this name; answers whether it took it, `None` when there is no such link.
    Apply(String, Change, Sender<Option<bool>>),
    /// End, and give the lane back.
    Stop,
}

/// The state of a link as `ctl show` prints it.
#[derive(Clone, Debug)]
pub struct LinkState {
    /// `SEGMENT.down` or `SEGMENT.up`.
    pub name: String,
    /// Totals so far.
    pub tally: Tally,
    /// What it holds.
    pub backlog: wavebed_link::Backlog,
}

/// The state of the lanes of a loop.
#[derive(Clone, Debug, Default)]
pub struct LoopState {
    /// Every link, in the order in which packets pass them.
    pub links: Vec<LinkState>,
    /// Bytes of packets in flight.
    pub in_flight_bytes: u64,
    /// Memory of the packet pool.
    pub pool_bytes: usize,
}

/// A lane between two devices.
pub struct Way {
    /// `HOST-HOST.down` or `.up`.
    pub name: String,
    /// The lane.
    pub lane: Lane,
    /// Where packets come from.
    pub input: Arc<Tun>,
    /// Where they go.
    pub output: Arc<Tun>,
    /// Where the series go, with the index of the first link and of the departures.
    pub series: Option<(SeriesSender, usize, usize)>,
}

/// What a loop works with.
pub struct Loop {
    /// One lane, or both of a hop.
    pub ways: Vec<Way>,
    /// Time zero on the monotonic clock.
    pub origin_ns: u64,
    /// Commands; a byte in `wake` says that there is one.
    pub commands: Receiver<Command>,
    /// See `commands`.
    pub wake: PipeReader,
}

/// How the loop ended.
pub struct Ended {
    /// The lanes with their books.
    pub ways: Vec<Way>,
    /// Processor time of the thread, nanoseconds.
    pub cpu_ns: u64,
    /// The scheduler that it had, and why not a better one.
    pub scheduler: String,
    /// Whether it could keep idle processors awake while it was not busy.
    pub kept_awake: bool,
    /// How often it left `SCHED_FIFO` because it was busy.
    pub step_downs: u64,
    /// Periods in which it did not look at its devices.
    pub gaps: Gaps,
    /// Time zero to the end, nanoseconds.
    pub ended_ns: u64,
}

impl Loop {
    /// Runs until [`Command::Stop`].
    ///
    /// # Errors
    /// When a device or the waiting fails for good.
    pub fn run(mut self) -> io::Result<Ended> {
        let origin_ns = self.origin_ns;
        let clock = move || clock::monotonic_ns().saturating_sub(origin_ns);
        let mut guard = Guard::new(sched::prepare_thread(sched::Wish::default()));
        // The last one is the pipe, which blocks: it is read only after the wait has said that there is something.
        let pipe = self.ways.len();
        let mut readable = vec![true; pipe + 1];
        readable[pipe] = false;
        let mut gaps = Gaps::since(clock());
        let mut housekeeping_ns = HOUSEKEEPING_NS;
        loop {
            if readable[pipe] {
                let _ = self.wake.read(&mut [0u8; 64]);
                if self.obey(&clock) {
                    break;
                }
            }
            let mut more = false;
            for (way, readable) in self.ways.iter_mut().zip(&mut readable) {
                *readable = *readable && way.lane.read(&mut way.input, &clock)?.more;
                more |= *readable;
            }
            self.advance(&clock);
            let now_ns = clock();
            if now_ns >= housekeeping_ns {
                housekeeping_ns = now_ns + HOUSEKEEPING_NS;
                self.send_rows(now_ns, false);
                guard.check(now_ns)?;
                // A loop that never sleeps hears commands too.
                if self.obey(&clock) {
                    break;
                }
            }
            // With more to read the wait only looks what else is there.
            let due_ns = self
                .ways
                .iter()
                .filter_map(|way| way.lane.next_event_ns())
                .min();
            let due_ns = due_ns.map_or(u64::MAX, |due_ns| due_ns.max(now_ns + TURN_NS));
            let until_ns = if more {
                now_ns
            } else {
                due_ns.min(housekeeping_ns).min(now_ns + LONGEST_SLEEP_NS)
            };
            let was_empty: [bool; 2] = std::array::from_fn(|way| way < pipe && !readable[way]);
            self.wait(until_ns.saturating_sub(now_ns), &mut readable)?;
            let woke_ns = clock();
            guard.slept(now_ns, woke_ns);
            gaps.look(now_ns, until_ns, woke_ns);
            self.note_empty(was_empty, now_ns, until_ns.min(woke_ns));
        }
        let ended_ns = clock();
        self.send_rows(ended_ns, true);
        Ok(Ended {
            ways: self.ways,
            cpu_ns: clock::thread_cpu_ns(),
            scheduler: guard.describe(),
            kept_awake: guard.awake.is_some(),
            step_downs: guard.step_downs,
            gaps,
            ended_ns,
        })
    }

    fn wait(&self, timeout_ns: u64, readable: &mut [bool]) -> io::Result<()> {
        let wake = self.wake.as_fd();
        let count = match &self.ways[..] {
            [one] => poll::wait(&[one.input.as_fd(), wake], readable, Some(timeout_ns)),
            [one, two] => poll::wait(
                &[one.input.as_fd(), two.input.as_fd(), wake],
                readable,
                Some(timeout_ns),
            ),
            _ => unreachable!("a loop has one lane or two"),
        };
        count.map(drop)
    }

    /// Notes that devices without a packet had none until `until_ns`, if the loop really slept: a wait that ends at once
    /// may have found a packet that came before it. What came while the loop overslept has waited.
    fn note_empty(&mut self, was_empty: [bool; 2], slept_ns: u64, until_ns: u64) {
        if until_ns < slept_ns + ENDED_AT_ONCE_NS {
            return;
        }
        for (way, was_empty) in self.ways.iter_mut().zip(was_empty) {
            if was_empty {
                way.lane.empty_ns = until_ns;
            }
        }
    }

    /// Moves every lane on to now.
    fn advance(&mut self, clock: &impl Fn() -> u64) {
        for way in &mut self.ways {
            way.lane.advance(&mut way.output, clock);
        }
    }

    /// Does what was asked. True when asked to stop.
    fn obey(&mut self, clock: &impl Fn() -> u64) -> bool {
        while let Ok(command) = self.commands.try_recv() {
            // Nobody waits for an answer that cannot be sent.
            match command {
                Command::Show(answer) => {
                    self.advance(clock);
                    let _ = answer.send(self.state());
                }
                Command::Apply(name, change, answer) => {
                    let _ = answer.send(self.apply(&name, &change, clock));
                }
                Command::Stop => return true,
            }
        }
        false
    }

    /// Makes a live change at one moment, up to which everything was moved on.
    fn apply(&mut self, name: &str, change: &Change, clock: &impl Fn() -> u64) -> Option<bool> {
        let now_ns = clock();
        self.advance(&|| now_ns);
        let mut links = self
            .ways
            .iter_mut()
            .flat_map(|way| &mut way.lane.direction.links);
        let named = links.find(|named| named.name == name)?;
        Some(named.link.apply(now_ns, change))
    }

    fn state(&self) -> LoopState {
        let links = self.ways.iter().flat_map(|way| &way.lane.direction.links);
        LoopState {
            links: links
                .map(|named| LinkState {
                    name: named.name.clone(),
                    tally: *named.link.books().total(),
                    backlog: named.link.backlog(),
                })
                .collect(),
            in_flight_bytes: self
                .ways
                .iter()
                .map(|way| way.lane.packets.in_flight_bytes())
                .sum(),
            pool_bytes: self
                .ways
                .iter()
                .map(|way| way.lane.packets.pool.memory_bytes())
                .sum(),
        }
    }

    fn send_rows(&mut self, now_ns: u64, closing: bool) {
        // At the end the millisecond that is under way is written too.
        let until_ns = if closing { now_ns + 1_000_000 } else { now_ns };
        for way in &mut self.ways {
            let Some((sender, first_link, departures)) = &way.series else {
                continue;
            };
            let direction = &mut way.lane.direction;
            for (index, named) in direction.links.iter_mut().enumerate() {
                sender.link(
                    first_link + index,
                    named.link.books_mut().finished_rows(until_ns),
                );
            }
            sender.departures(*departures, direction.take_departures(closing));
        }
    }
}

/// A loop that sleeps for more than this share keeps idle processors awake. Without that one takes some 50 µs to wake
/// up, four times in a round trip: measured 210 µs of RTT error against 94 µs. A busy machine is better off without:
/// where processors share a core, the one that spins slows the other (10.7 against 12.7 Gbit/s).
const KEEPS_AWAKE_PERCENT: u64 = 75;

/// Keeps the loop from starving the machine, and from the kernel's throttle.
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
