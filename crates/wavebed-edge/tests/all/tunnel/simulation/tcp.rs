//! A TCP sender by windows: CUBIC (RFC 9438), loss by three later packets (RFC 9002), timeouts with F-RTO's undo.
//!
//! Lost packets are not sent again: new ones take their place, so that what arrives is what a receiver would get.

use std::collections::BTreeMap;

use super::MS;

const LEAST_RTO_NS: u64 = 200 * MS;
const BETA: f64 = 0.7;
const C: f64 = 0.4;

#[derive(Debug)]
pub struct Tcp {
    next: u64,
    in_flight: BTreeMap<u64, u64>,
    window: f64,
    threshold: f64,
    /// Losses of packets before this number belong to a reduction already made.
    recovered: u64,
    most: f64,
    epoch_ns: Option<u64>,
    rtt_ns: u64,
    heard_ns: u64,
    backoff: u32,
    /// The window before a timeout, until it is known whether it was needed.
    before_timeout: Option<(f64, f64)>,
}

impl Tcp {
    pub fn new() -> Self {
        Self {
            next: 0,
            in_flight: BTreeMap::new(),
            window: 10.0,
            threshold: f64::INFINITY,
            recovered: 0,
            most: 0.0,
            epoch_ns: None,
            rtt_ns: 100 * MS,
            heard_ns: 0,
            backoff: 0,
            before_timeout: None,
        }
    }

    /// The number of the next packet, if the window has room for it.
    #[expect(clippy::cast_precision_loss, reason = "a few thousand packets")]
    pub fn send(&mut self, now_ns: u64) -> Option<u64> {
        if self.in_flight.len() as f64 >= self.window.floor().max(1.0) {
            return None;
        }
        if self.in_flight.is_empty() {
            self.heard_ns = now_ns;
        }
        let number = self.next;
        self.next += 1;
        self.in_flight.insert(number, now_ns);
        Some(number)
    }

    pub fn timeout_ns(&self) -> Option<u64> {
        let rto_ns = (2 * self.rtt_ns).max(LEAST_RTO_NS) << self.backoff;
        (!self.in_flight.is_empty()).then_some(self.heard_ns + rto_ns)
    }

    pub fn time_out(&mut self, now_ns: u64) {
        self.before_timeout
            .get_or_insert((self.window, self.threshold));
        self.threshold = (self.window * BETA).max(2.0);
        self.window = 1.0;
        self.in_flight.clear();
        self.recovered = self.next;
        self.epoch_ns = None;
        self.backoff += 1;
        self.heard_ns = now_ns;
    }

    /// An acknowledgement of packet `number`, perhaps with a mark.
    pub fn acknowledge(&mut self, number: u64, marked: bool, now_ns: u64) {
        self.heard_ns = now_ns;
        self.backoff = 0;
        let Some(sent_ns) = self.in_flight.remove(&number) else {
            // It was not lost: the timeout was none.
            if let Some((window, threshold)) = self.before_timeout.take() {
                (self.window, self.threshold) = (window, threshold);
            }
            return;
        };
        self.before_timeout = None;
        let rtt_ns = now_ns - sent_ns;
        self.rtt_ns = (7 * self.rtt_ns + rtt_ns) / 8;
        let mut newest_lost = None;
        while let Some(oldest) = self.in_flight.first_entry()
            && *oldest.key() < number.saturating_sub(2)
        {
            newest_lost = Some(oldest.remove_entry().0);
        }
        let congested = newest_lost.or(marked.then_some(number));
        if congested.is_some_and(|number| number >= self.recovered) {
            self.reduce();
        } else if self.window < self.threshold {
            self.window += 1.0;
        } else {
            self.grow(now_ns);
        }
    }

    fn reduce(&mut self) {
        self.recovered = self.next;
        self.most = self.window;
        self.window = (self.window * BETA).max(2.0);
        self.threshold = self.window;
        self.epoch_ns = None;
    }

    #[expect(clippy::cast_precision_loss, reason = "seconds of a test")]
    fn grow(&mut self, now_ns: u64) {
        let epoch_ns = *self.epoch_ns.get_or_insert(now_ns);
        let seconds = |ns: u64| ns as f64 / 1e9;
        let at = seconds(now_ns - epoch_ns + self.rtt_ns);
        let middle = ((self.most.max(self.window) * (1.0 - BETA)) / C).cbrt();
        let cubic = C * (at - middle).powi(3) + self.most.max(self.window * BETA);
        // The Reno-friendly window grows by 3(1 - beta)/(1 + beta) a round trip.
        let reno = 3.0 * (1.0 - BETA) / (1.0 + BETA) / self.window;
        let step = ((cubic - self.window) / self.window).clamp(0.0, 0.5);
        self.window += step.max(reno);
    }
}
