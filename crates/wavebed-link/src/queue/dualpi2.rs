//! The coupled dual queue of RFC 9332, with the AQMs of its appendix A: PI2 and a ramp.

use super::codel::DequeueRate;
use super::{Fifo, Held, Limit, Queue, Room};
use crate::counters::Reason;
use crate::run::{Backlog, Run};
use crate::stage::{Outlet, Unit};

/// Bytes that L4S packets may take for each byte of classic packets, while both wait.
const L4S_WEIGHT: u64 = 15;
/// Updates of the controller between two packets; the others are left out, since they change nothing by then.
const MOST_UPDATES: u32 = 10_000;
/// The marking probability of L4S packets at which classic drops replace marks (`p_Lmax`).
const MOST_L4S: f64 = 1.0;

/// The queueing delay that decides about marks of the L4S AQM. The controller uses the delay of the classic queue's head:
/// its proportional gain would amplify the noise of a prediction to drops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DelayEstimate {
    /// How long the head of the queue has waited.
    #[default]
    Measured,
    /// How long a packet that arrives now would wait: the bytes ahead of it, over the rate at which its queue was
    /// emptied during the last this many nanoseconds with packets in it.
    Predicted(u64),
}

/// Parameters of the queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DualPi2Settings {
    /// Delay that the controller aims at, nanoseconds.
    pub target_ns: u64,
    /// Longest usual round trip, nanoseconds: the gains of the controller follow from it.
    pub rtt_max_ns: u64,
    /// The coupling factor k: L4S packets are marked k times as often as the square root of the classic probability.
    pub coupling: f64,
    /// Delay above which L4S packets are marked, nanoseconds (minTh).
    pub threshold_ns: u64,
    /// From that delay to the one at which all are marked, nanoseconds; 0: a step.
    pub range_ns: u64,
    /// Delay of the L4S queue.
    pub delay: DelayEstimate,
}

impl Default for DualPi2Settings {
    /// The values of RFC 9332, appendix A.1.
    fn default() -> Self {
        Self {
            target_ns: 15_000_000,
            rtt_max_ns: 100_000_000,
            coupling: 2.0,
            threshold_ns: 800_000,
            range_ns: 400_000,
            delay: DelayEstimate::Measured,
        }
    }
}

/// One of the two queues.
#[derive(Debug)]
struct Half {
    fifo: Fifo,
    rate: DequeueRate,
    /// Sum of the probabilities since the last event (`recur` of the RFC): events are evenly spaced, not drawn.
    due: f64,
}

impl Half {
    fn new(unit: Unit, delay: DelayEstimate) -> Self {
        let window_ns = match delay {
            DelayEstimate::Measured => 0,
            DelayEstimate::Predicted(window_ns) => window_ns,
        };
        Self {
            fifo: Fifo::new(unit),
            rate: DequeueRate::new(window_ns),
            due: 0.0,
        }
    }

    /// The delay at `now_ns`, when `head_at_ns` is the arrival of the packet that is or would be served.
    fn delay_ns(&self, now_ns: u64, head_at_ns: u64) -> u64 {
        let predicted = self.rate.time_ns(self.fifo.held().bytes);
        predicted.unwrap_or_else(|| now_ns.saturating_sub(head_at_ns))
    }

    /// The delay at `now_ns`; 0 when empty.
    fn waiting_ns(&self, now_ns: u64) -> u64 {
        let head_at_ns = self.fifo.head_at_ns();
        head_at_ns.map_or(0, |head_at_ns| self.delay_ns(now_ns, head_at_ns))
    }

    /// Whether an event of this probability happens.
    fn happens(&mut self, probability: f64) -> bool {
        self.due += probability;
        let happens = self.due > 1.0;
        if happens {
            self.due -= 1.0;
        }
        happens
    }
}

/// Two queues, one for L4S packets and one for the others, with coupled AQMs.
#[derive(Debug)]
pub struct DualPi2 {
    settings: DualPi2Settings,
    room: Room,
    l4s: Half,
    classic: Half,
    /// Bytes of L4S packets that were served while classic ones waited, less what those were served for them.
    owed: u64,
    controller: Controller,
}

impl DualPi2 {
    /// An empty queue.
    ///
    /// # Panics
    /// If target or round trip are 0.
    #[must_use]
    pub fn new(settings: DualPi2Settings, limit: Limit, unit: Unit) -> Self {
        Self {
            settings,
            room: Room::new(limit, unit),
            l4s: Half::new(unit, settings.delay),
            classic: Half::new(unit, DelayEstimate::Measured),
            owed: 0,
            controller: Controller::new(&settings),
        }
    }

    fn held(&self) -> Held {
        let (l4s, classic) = (self.l4s.fifo.held(), self.classic.fifo.held());
        Held {
            packets: l4s.packets + classic.packets,
            bytes: l4s.bytes + classic.bytes,
        }
    }

    /// Whether the next packet is an L4S packet. Both kinds wait: one classic packet for `L4S_WEIGHT` times its bytes.
    fn serves_l4s(&self) -> bool {
        match (self.l4s.fifo.head_bytes(), self.classic.fifo.head_bytes()) {
            (Some(_), Some(classic)) => self.owed < L4S_WEIGHT * u64::from(classic),
            (l4s, _) => l4s.is_some(),
        }
    }

    /// Updates the controller at each of its times up to `now_ns`; the queues have not changed since the last one.
    fn control(&mut self, now_ns: u64) {
        for _ in 0..MOST_UPDATES {
            let Some(at_ns) = self.controller.due(now_ns) else {
                return;
            };
            let l4s_ns = self.l4s.waiting_ns(at_ns);
            self.controller
                .update(l4s_ns.max(self.classic.waiting_ns(at_ns)));
            if self.held().packets == 0 && self.controller.is_at_rest() {
                break;
            }
        }
        self.controller.skip_to(now_ns);
    }

    /// Takes the next L4S packet; `None` if overload drops it.
    fn take_l4s(&mut self, now_ns: u64, out: &mut Outlet<'_>) -> Option<Run> {
        let half = &mut self.l4s;
        let mut run = half.fifo.pop()?;
        half.rate.left(now_ns, run.bytes());
        if self.classic.fifo.held().packets > 0 {
            self.owed += run.bytes();
        }
        let coupled = self.controller.l4s(self.settings.coupling);
        let marked = if coupled < MOST_L4S {
            let waited_ns = half.delay_ns(now_ns, run.at_ns);
            // A packet with none behind it is no queue (Th_len).
            let alone = half.fifo.held().packets == 0;
            let native = if alone {
                0.0
            } else {
                self.settings.ramp(waited_ns)
            };
            half.happens(native.max(coupled))
        } else {
            if half.happens(self.controller.classic()) {
                drop(run, now_ns, out);
                return None;
            }
            half.happens(MOST_L4S)
        };
        if marked {
            out.mark(&mut run, now_ns);
        }
        Some(run)
    }

    /// Takes the next classic packet; `None` if it is dropped.
    fn take_classic(&mut self, now_ns: u64, out: &mut Outlet<'_>) -> Option<Run> {
        let half = &mut self.classic;
        let mut run = half.fifo.pop()?;
        half.rate.left(now_ns, run.bytes());
        let both = self.l4s.fifo.held().packets > 0 && half.fifo.held().packets > 0;
        let paid = L4S_WEIGHT * run.bytes();
        self.owed = if both {
            self.owed.saturating_sub(paid)
        } else {
            0
        };
        let probability = self.controller.classic();
        if half.happens(probability) {
            let overloaded = probability >= self.settings.most_classic();
            if overloaded || !out.mark(&mut run, now_ns) {
                drop(run, now_ns, out);
                return None;
            }
        }
        Some(run)
    }

    /// The queue whose head has waited longest.
    fn oldest(&mut self) -> &mut Half {
        let at_ns = |half: &Half| half.fifo.head_at_ns().unwrap_or(u64::MAX);
        if at_ns(&self.l4s) < at_ns(&self.classic) {
            &mut self.l4s
        } else {
            &mut self.classic
        }
    }
}

fn drop(run: Run, at_ns: u64, out: &mut Outlet<'_>) {
    out.drop(Run { at_ns, ..run }, Reason::Aqm);
}

impl DualPi2Settings {
    /// Probability that the L4S AQM alone marks a packet that waited this long.
    #[expect(clippy::cast_precision_loss, reason = "2^53 ns are 104 days")]
    fn ramp(&self, waited_ns: u64) -> f64 {
        match waited_ns.checked_sub(self.threshold_ns) {
            None | Some(0) => 0.0,
            Some(above_ns) if above_ns >= self.range_ns => 1.0,
            Some(above_ns) => above_ns as f64 / self.range_ns as f64,
        }
    }

    /// The classic probability from which on ECN is not used (`p_Cmax`).
    fn most_classic(&self) -> f64 {
        (self.coupling * self.coupling).recip().min(1.0)
    }
}

impl Queue for DualPi2 {
    fn enqueue(&mut self, run: Run, out: &mut Outlet<'_>) {
        self.control(run.at_ns);
        let held = self.held();
        let half = if run.ecn.is_l4s() {
            &mut self.l4s
        } else {
            &mut self.classic
        };
        if half.fifo.held().packets == 0 {
            half.rate.starts(run.at_ns);
        }
        let fifo = &mut half.fifo;
        self.room.admit(
            run,
            held,
            |run| fifo.push(run),
            |run| out.drop(run, Reason::Overflow),
        );
    }

    fn dequeue(&mut self, now_ns: u64, out: &mut Outlet<'_>) -> Option<Run> {
        self.control(now_ns);
        while self.held().packets > 0 {
            let taken = if self.serves_l4s() {
                self.take_l4s(now_ns, out)
            } else {
                self.take_classic(now_ns, out)
            };
            if taken.is_some() {
                return taken;
            }
        }
        None
    }

    fn head_bytes(&self) -> Option<u32> {
        let half = if self.serves_l4s() {
            &self.l4s
        } else {
            &self.classic
        };
        half.fifo.head_bytes()
    }

    fn backlog(&self) -> Backlog {
        let mut backlog = self.l4s.fifo.backlog();
        backlog += self.classic.fifo.backlog();
        backlog
    }

    fn expire(&mut self, arrived_ns: u64) -> Option<Run> {
        self.oldest().fifo.pop_arrived_by(arrived_ns)
    }

    fn head_at_ns(&self) -> Option<u64> {
        let heads = [&self.l4s, &self.classic].map(|half| half.fifo.head_at_ns());
        heads.into_iter().flatten().min()
    }

    fn clear(&mut self, at_ns: u64, reason: Reason, out: &mut Outlet<'_>) {
        while let Some(run) = self.oldest().fifo.pop() {
            out.drop(Run { at_ns, ..run }, reason);
        }
    }

    fn wants_rate(&self) -> bool {
        self.room.wants_rate()
    }

    fn service_rate(&mut self, rate_bps: u64) {
        self.room.service_rate(rate_bps);
    }
}

/// The PI controller of the base probability p' (RFC 9332, figure 6).
#[derive(Debug)]
struct Controller {
    period_ns: u64,
    next_ns: u64,
    target_ns: f64,
    /// Gains per nanosecond of delay.
    alpha: f64,
    beta: f64,
    last_ns: f64,
    base: f64,
}

impl Controller {
    #[expect(clippy::cast_precision_loss, reason = "2^53 ns are 104 days")]
    fn new(settings: &DualPi2Settings) -> Self {
        let period_ns = settings.target_ns.min(settings.rtt_max_ns / 3).max(1);
        let rtt_max_ns = settings.rtt_max_ns as f64;
        assert!(
            settings.target_ns > 0 && settings.rtt_max_ns > 0,
            "the controller needs times"
        );
        Self {
            period_ns,
            next_ns: period_ns,
            target_ns: settings.target_ns as f64,
            alpha: 0.1 * period_ns as f64 / (rtt_max_ns * rtt_max_ns),
            beta: 0.3 / rtt_max_ns,
            last_ns: 0.0,
            base: 0.0,
        }
    }

    /// The next time of an update, if it is due by `now_ns`.
    fn due(&mut self, now_ns: u64) -> Option<u64> {
        let at_ns = self.next_ns;
        if at_ns > now_ns {
            return None;
        }
        self.next_ns = at_ns.saturating_add(self.period_ns);
        Some(at_ns)
    }

    #[expect(clippy::cast_precision_loss, reason = "2^53 ns are 104 days")]
    fn update(&mut self, delay_ns: u64) {
        let delay_ns = delay_ns as f64;
        let change =
            self.alpha * (delay_ns - self.target_ns) + self.beta * (delay_ns - self.last_ns);
        self.base = (self.base + change).clamp(0.0, 1.0);
        self.last_ns = delay_ns;
    }

    /// Whether updates with empty queues change nothing.
    fn is_at_rest(&self) -> bool {
        self.base <= 0.0 && self.last_ns <= 0.0
    }

    /// Leaves out the updates up to `now_ns`.
    fn skip_to(&mut self, now_ns: u64) {
        let behind_ns = now_ns.saturating_sub(self.next_ns);
        let left_out = behind_ns.div_ceil(self.period_ns);
        self.next_ns = (self.next_ns).saturating_add(left_out.saturating_mul(self.period_ns));
    }

    /// Probability of a drop or mark of a classic packet.
    fn classic(&self) -> f64 {
        self.base * self.base
    }

    /// Probability that the coupling marks an L4S packet.
    fn l4s(&self, coupling: f64) -> f64 {
        coupling * self.base
    }
}
