//! Senders in virtual time: CUBIC (RFC 9438) with classic ECN, and a scalable one with the law of DCTCP (RFC 8257), which
//! is the law of Prague without its independence of the round trip. Each packet is acknowledged with its ECN field, after
//! the rest of the round trip.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::{Arc, Mutex};

use wavebed_link::queue::Queue;
use wavebed_link::{Backlog, Ecn, Link, Outlet, Reason, Run, RunFlags};

const SECOND: f64 = 1e9;
const SEGMENT: u16 = 1500;
/// Later packets that must be acknowledged before one is lost (RFC 9002, section 6.1.1).
const THRESHOLD: u64 = 3;
/// Without any acknowledgement for this long, everything is lost.
const TIMEOUT_NS: u64 = 1_000_000_000;

/// What a sender does with its window.
#[derive(Clone, Copy, Debug)]
pub enum Law {
    /// Wmax of the last reduction, and when it happened.
    Cubic { most: f64, since_ns: u64 },
    /// Mean fraction of marked packets; packets and marks of this round.
    Scalable { alpha: f64, acked: u32, marked: u32 },
}

/// One flow with data without end.
#[derive(Debug)]
pub struct Flow {
    law: Law,
    ecn: Ecn,
    window: f64,
    slow_start: bool,
    next: u64,
    flight: BTreeMap<u64, u64>,
    /// The end of the round in which the window was last reduced, or alpha last updated.
    reduced: u64,
    round: u64,
    rtt_ns: f64,
    paced_ns: u64,
    heard_ns: u64,
    pub delivered_bytes: u64,
    pub marks: u64,
    pub losses: u64,
}

impl Flow {
    pub fn cubic(ecn: Ecn) -> Self {
        let law = Law::Cubic {
            most: 0.0,
            since_ns: 0,
        };
        Self::new(law, ecn)
    }

    pub fn scalable() -> Self {
        let law = Law::Scalable {
            alpha: 1.0,
            acked: 0,
            marked: 0,
        };
        Self::new(law, Ecn::Ect1)
    }

    fn new(law: Law, ecn: Ecn) -> Self {
        Self {
            law,
            ecn,
            window: 10.0,
            slow_start: true,
            next: 0,
            flight: BTreeMap::new(),
            reduced: 0,
            round: 0,
            rtt_ns: 0.0,
            paced_ns: 0,
            heard_ns: 0,
            delivered_bytes: 0,
            marks: 0,
            losses: 0,
        }
    }

    /// When the next packet may be sent.
    fn next_ns(&self, now_ns: u64) -> Option<u64> {
        let room = (self.flight.len() as f64) + 1.0 <= self.window.max(2.0);
        room.then(|| self.paced_ns.max(now_ns))
    }

    fn timeout_ns(&self) -> Option<u64> {
        let first_ns = *self.flight.values().next()?;
        Some(first_ns.max(self.heard_ns) + TIMEOUT_NS)
    }

    fn send(&mut self, now_ns: u64) -> u64 {
        let number = self.next;
        self.next += 1;
        self.flight.insert(number, now_ns);
        // The scalable sender paces (RFC 9331, section 4.3), the other is clocked by acknowledgements.
        if matches!(self.law, Law::Scalable { .. }) && self.rtt_ns > 0.0 {
            let gain = if self.slow_start { 2.0 } else { 1.0 };
            let gap_ns = (self.rtt_ns / self.window.max(2.0) / gain) as u64;
            self.paced_ns = self.paced_ns.max(now_ns.saturating_sub(gap_ns)) + gap_ns;
        }
        number
    }

    fn acknowledge(&mut self, now_ns: u64, number: u64, ce: bool) {
        self.heard_ns = now_ns;
        let Some(sent_ns) = self.flight.remove(&number) else {
            return;
        };
        self.delivered_bytes += u64::from(SEGMENT);
        self.marks += u64::from(ce);
        let rtt_ns = (now_ns - sent_ns) as f64;
        self.rtt_ns += (rtt_ns - self.rtt_ns) * if self.rtt_ns > 0.0 { 0.125 } else { 1.0 };
        let lost: Vec<u64> = (self.flight.range(..number.saturating_sub(THRESHOLD)))
            .map(|(&number, _)| number)
            .collect();
        for number in &lost {
            self.flight.remove(number);
        }
        self.losses += lost.len() as u64;
        self.count(number, ce);
        if !lost.is_empty() || ce {
            self.reduce(now_ns, number, !lost.is_empty());
        } else {
            self.grow(now_ns);
        }
    }

    /// Updates alpha once in a round (RFC 8257, section 3.3).
    fn count(&mut self, number: u64, ce: bool) {
        let Law::Scalable {
            alpha,
            acked,
            marked,
        } = &mut self.law
        else {
            return;
        };
        *acked += 1;
        *marked += u32::from(ce);
        if number >= self.round {
            *alpha += (f64::from(*marked) / f64::from(*acked) - *alpha) / 16.0;
            (*acked, *marked, self.round) = (0, 0, self.next);
        }
    }

    fn reduce(&mut self, now_ns: u64, number: u64, lost: bool) {
        self.slow_start = false;
        if number < self.reduced {
            return;
        }
        self.reduced = self.next;
        match &mut self.law {
            Law::Cubic { most, since_ns } => {
                // Fast convergence (RFC 9438, section 4.7).
                *most = if self.window < *most {
                    self.window * 0.85
                } else {
                    self.window
                };
                *since_ns = now_ns;
                self.window *= 0.7;
            }
            Law::Scalable { .. } if lost => self.window *= 0.5,
            Law::Scalable { alpha, .. } => self.window *= 1.0 - *alpha / 2.0,
        }
        self.window = self.window.max(2.0);
    }

    fn grow(&mut self, now_ns: u64) {
        if self.slow_start {
            self.window += 1.0;
            return;
        }
        let Law::Cubic { most, since_ns } = self.law else {
            self.window += 1.0 / self.window;
            return;
        };
        let after_s = ((now_ns - since_ns) as f64 + self.rtt_ns) / SECOND;
        let back_s = (most * 0.3 / 0.4).cbrt();
        let cubic = 0.4 * (after_s - back_s).powi(3) + most;
        // As Reno would be by then (RFC 9438, section 4.3).
        let rounds = (now_ns - since_ns) as f64 / self.rtt_ns.max(1.0);
        let reno = most * 0.7 + 3.0 * 0.3 / 1.7 * rounds;
        let aim = cubic.max(reno).clamp(self.window, 1.5 * self.window);
        self.window += (aim - self.window) / self.window;
    }

    fn expire(&mut self, now_ns: u64) {
        self.losses += self.flight.len() as u64;
        self.flight.clear();
        self.heard_ns = now_ns;
        self.window = 2.0;
        self.slow_start = true;
    }
}

/// Flows over a link whose round trip without queues and radio is `rtt_ns`, until `until_ns`.
pub fn run(link: &mut Link, flows: &mut [Flow], rtt_ns: u64, until_ns: u64) {
    let mut feedback = BinaryHeap::new();
    let mut delivered = Vec::new();
    let mut now_ns = 0;
    while now_ns < until_ns {
        link.poll(now_ns, &mut delivered);
        for run in delivered.drain(..) {
            let flow = run.flow as usize;
            let ce = run.ecn == Ecn::Ce;
            feedback.push(Reverse((
                run.at_ns + rtt_ns,
                flow,
                u64::from(run.packet),
                ce,
            )));
        }
        link.take_lost();
        while let Some(&Reverse((at_ns, flow, number, ce))) = feedback.peek()
            && at_ns <= now_ns
        {
            feedback.pop();
            flows[flow].acknowledge(now_ns, number, ce);
        }
        for (index, flow) in (0u32..).zip(flows.iter_mut()) {
            if flow.timeout_ns().is_some_and(|at_ns| at_ns <= now_ns) {
                flow.expire(now_ns);
            }
            while flow.next_ns(now_ns) == Some(now_ns) {
                let packet = flow.send(now_ns) as u32;
                link.accept(packet_of(now_ns, index, packet, flow.ecn));
            }
        }
        let senders = flows
            .iter()
            .flat_map(|flow| [flow.next_ns(now_ns), flow.timeout_ns()])
            .flatten();
        now_ns = senders
            .chain(feedback.peek().map(|&Reverse((at_ns, ..))| at_ns))
            .chain(link.next_event_ns())
            .min()
            .unwrap_or(until_ns)
            .max(now_ns + 1);
    }
}

fn packet_of(at_ns: u64, flow: u32, packet: u32, ecn: Ecn) -> Run {
    Run {
        at_ns,
        packet,
        first: 0,
        count: 1,
        segment_bytes: SEGMENT,
        last_bytes: SEGMENT,
        flow,
        flip: 0,
        ecn,
        flags: RunFlags::default(),
    }
}

/// Times in a queue by flow, nanoseconds.
pub type Waits = Arc<Mutex<[Vec<u64>; 2]>>;

/// A queue whose waits are written down.
pub struct Watched<Q> {
    pub queue: Q,
    pub waits: Waits,
}

impl<Q: Queue> Queue for Watched<Q> {
    fn enqueue(&mut self, run: Run, out: &mut Outlet<'_>) {
        self.queue.enqueue(run, out);
    }

    fn dequeue(&mut self, now_ns: u64, out: &mut Outlet<'_>) -> Option<Run> {
        let run = self.queue.dequeue(now_ns, out)?;
        let waits = &mut self.waits.lock().unwrap()[run.flow as usize];
        waits.push(now_ns - run.at_ns);
        Some(run)
    }

    fn head_bytes(&self) -> Option<u32> {
        self.queue.head_bytes()
    }

    fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }

    fn expire(&mut self, arrived_ns: u64) -> Option<Run> {
        self.queue.expire(arrived_ns)
    }

    fn head_at_ns(&self) -> Option<u64> {
        self.queue.head_at_ns()
    }

    fn clear(&mut self, at_ns: u64, reason: Reason, out: &mut Outlet<'_>) {
        self.queue.clear(at_ns, reason, out);
    }
}
