//! The FQ-CoDel queue of RFC 8290.

use std::collections::VecDeque;

use super::codel::{CodelSettings, Runs};
use super::codel_control::CodelControl;
use super::{Fifo, Held, Limit, Queue, Room};
use crate::counters::Reason;
use crate::random_stream::RandomStream;
use crate::run::Run;
use crate::stage::{Backlog, Outlet};
use crate::unit::Unit;

/// Most segments that one overflow drops (RFC 8290, section 4.1).
const DROP_BATCH: u32 = 64;

/// Parameters of FQ-CoDel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FqCodelSettings {
    /// `CoDel` parameters of each queue.
    pub codel: CodelSettings,
    /// Number of queues that flows are hashed to.
    pub flows: u32,
    /// Quantum: bytes that a queue may send per round.
    pub quantum_bytes: u32,
}

impl Default for FqCodelSettings {
    /// The values of RFC 8290, section 5.2.
    fn default() -> Self {
        let codel = CodelSettings {
            ecn: true,
            ..CodelSettings::default()
        };
        Self {
            codel,
            flows: 1024,
            quantum_bytes: 1514,
        }
    }
}

#[derive(Debug)]
struct Flow {
    fifo: Fifo,
    control: CodelControl,
    /// Deficit: bytes that the flow may still send in this round.
    deficit: i64,
    /// Whether it is in the list of new flows or in that of old ones.
    listed: bool,
}

impl Flow {
    fn new(unit: Unit) -> Self {
        Self {
            fifo: Fifo::new(unit),
            control: CodelControl::default(),
            deficit: 0,
            listed: false,
        }
    }
}

/// Queues under `CoDel`, served by deficit round robin.
#[derive(Debug)]
pub struct FqCodel {
    settings: FqCodelSettings,
    room: Room,
    random: RandomStream,
    flows: Vec<Flow>,
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    held: Held,
    segments: u64,
}

impl FqCodel {
    /// An empty queue. `random` perturbs the hash of the flows.
    ///
    /// # Panics
    /// If there are no flows, or the quantum is zero.
    #[must_use]
    pub fn new(settings: FqCodelSettings, limit: Limit, unit: Unit, random: RandomStream) -> Self {
        assert!(
            settings.flows > 0 && settings.quantum_bytes > 0,
            "FQ-CoDel needs flows and a quantum"
        );
        Self {
            settings,
            room: Room::new(limit, unit),
            random,
            flows: std::iter::repeat_with(|| Flow::new(unit))
                .take(settings.flows as usize)
                .collect(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            held: Held::default(),
            segments: 0,
        }
    }

    /// The queue that flow hash `flow` goes to.
    #[must_use]
    pub fn flow_queue(&self, flow: u32) -> u32 {
        let word = self.random.word(u64::from(flow)) >> 32;
        ((word * u64::from(self.settings.flows)) >> 32) as u32
    }

    fn push(&mut self, index: u32, run: Run) {
        self.change(index, |flow| flow.fifo.push(run));
        let flow = &mut self.flows[index as usize];
        if !flow.listed {
            flow.listed = true;
            flow.deficit = i64::from(self.settings.quantum_bytes);
            self.new.push_back(index);
        }
    }

    /// Applies a change to the queue of flow `index`, and updates the totals.
    fn change<T>(&mut self, index: u32, change: impl FnOnce(&mut Flow) -> T) -> T {
        let flow = &mut self.flows[index as usize];
        let (held, segments) = (flow.fifo.held(), flow.fifo.backlog().segments);
        let result = change(flow);
        let after = flow.fifo.held();
        self.held.packets = self.held.packets + after.packets - held.packets;
        self.held.bytes = self.held.bytes + after.bytes - held.bytes;
        self.segments = self.segments + flow.fifo.backlog().segments - segments;
        result
    }

    /// Drops from the head of the queue with most bytes: half of them, but at most a batch.
    fn drop_batch(&mut self, now_ns: u64, out: &mut Outlet<'_>) {
        let mut fattest = 0;
        let mut most_bytes = 0;
        for (index, flow) in (0..).zip(&self.flows) {
            let bytes = flow.fifo.held().bytes;
            if bytes > most_bytes {
                (fattest, most_bytes) = (index, bytes);
            }
        }
        let mut dropped_bytes = 0;
        for _ in 0..DROP_BATCH {
            let Some(run) = self.change(fattest, |flow| flow.fifo.pop()) else {
                break;
            };
            dropped_bytes += run.bytes();
            out.drop(
                Run {
                    at_ns: now_ns,
                    ..run
                },
                Reason::Overflow,
            );
            if dropped_bytes >= most_bytes / 2 {
                break;
            }
        }
    }

    /// Flows in the order of the lists.
    fn in_turn(&self) -> impl Iterator<Item = &Flow> {
        self.new
            .iter()
            .chain(&self.old)
            .map(|&index| &self.flows[index as usize])
    }
}

impl Queue for FqCodel {
    fn enqueue(&mut self, mut run: Run, out: &mut Outlet<'_>) {
        self.settings.codel.see(&run);
        let index = self.flow_queue(run.flow);
        if self.room.fits(&run, self.held) {
            return self.push(index, run);
        }
        loop {
            let rest = self.room.unit() == Unit::Packet && run.count > 1;
            let one = if rest { run.split_front(1) } else { run };
            self.push(index, one);
            while self.room.exceeded(self.held) {
                self.drop_batch(one.at_ns, out);
            }
            if !rest {
                return;
            }
        }
    }

    fn dequeue(&mut self, now_ns: u64, out: &mut Outlet<'_>) -> Option<Run> {
        let codel = self.settings.codel;
        loop {
            let from_new = !self.new.is_empty();
            let list = if from_new {
                &mut self.new
            } else {
                &mut self.old
            };
            let index = *list.front()?;
            let flow = &mut self.flows[index as usize];
            if flow.deficit <= 0 {
                flow.deficit += i64::from(self.settings.quantum_bytes);
                list.pop_front();
                self.old.push_back(index);
                continue;
            }
            let run = self.change(index, |flow| {
                let mut runs = Runs {
                    fifo: &mut flow.fifo,
                    out,
                };
                let run = flow.control.dequeue(&mut runs, now_ns, &codel)?;
                flow.deficit -= i64::try_from(run.bytes()).unwrap_or(i64::MAX);
                Some(run)
            });
            if run.is_some() {
                return run;
            }
            if from_new {
                // A new flow passes the old list once, so that it cannot starve old flows.
                self.new.pop_front();
                self.old.push_back(index);
            } else {
                self.old.pop_front();
                self.flows[index as usize].listed = false;
            }
        }
    }

    fn head_bytes(&self) -> Option<u32> {
        // A queue without deficit waits for this many rounds; rounds keep the order of the lists.
        let quantum = i64::from(self.settings.quantum_bytes);
        let rounds = |flow: &&Flow| {
            if flow.deficit > 0 {
                0
            } else {
                1 - flow.deficit / quantum
            }
        };
        let waiting = self.in_turn().filter(|flow| flow.fifo.held().packets > 0);
        waiting.min_by_key(rounds)?.fifo.head_bytes()
    }

    fn backlog(&self) -> Backlog {
        Backlog {
            segments: self.segments,
            bytes: self.held.bytes,
        }
    }

    fn wants_rate(&self) -> bool {
        self.room.wants_rate()
    }

    fn service_rate(&mut self, rate_bps: u64) {
        self.room.service_rate(rate_bps);
    }
}
