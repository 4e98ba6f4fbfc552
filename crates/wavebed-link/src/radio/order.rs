//! In-order delivery: PDCP's t-Reordering (TS 38.323, clause 5.2.2.2) or RLC's (TS 36.322, clause 5.1.3).

use std::collections::BTreeMap;

use crate::counters::Reason;
use crate::run::Run;
use crate::stage::Outlet;

/// Holds back segments that arrived before their predecessors. Variables are named as in TS 38.323.
#[derive(Debug)]
pub struct Order {
    /// t-Reordering; `None`: a gap lasts until [`Order::give_up`].
    timer_ns: Option<u64>,
    /// `RX_DELIV`: the first segment that was not delivered and is still expected.
    rx_deliv: u64,
    /// `RX_NEXT`: the one after the highest received.
    rx_next: u64,
    /// When t-Reordering expires, and `RX_REORD`.
    running: Option<(u64, u64)>,
    stored: BTreeMap<u64, Run>,
    /// Segments given up, if there is no timer.
    given_up: BTreeMap<u64, u64>,
}

impl Order {
    /// The state before the first segment.
    #[must_use]
    pub const fn new(timer_ns: Option<u64>) -> Self {
        Self {
            timer_ns,
            rx_deliv: 0,
            rx_next: 0,
            running: None,
            stored: BTreeMap::new(),
            given_up: BTreeMap::new(),
        }
    }

    /// When [`Order::expire`] is due.
    #[must_use]
    pub fn deadline_ns(&self) -> Option<u64> {
        self.running.map(|(deadline_ns, _)| deadline_ns)
    }

    /// Whether the segment with this number was given up: it is dropped when it arrives.
    #[must_use]
    pub const fn is_past(&self, count: u64) -> bool {
        count < self.rx_deliv
    }

    /// Receives `run` at `run.at_ns`; its first segment has number `count`.
    pub fn receive(&mut self, count: u64, run: Run, out: &mut Outlet<'_>) {
        let now_ns = run.at_ns;
        if count < self.rx_deliv {
            out.drop(run, Reason::Late);
            return;
        }
        self.rx_next = self.rx_next.max(count + u64::from(run.count));
        if count == self.rx_deliv && self.stored.is_empty() && self.given_up.is_empty() {
            self.rx_deliv += u64::from(run.count);
            out.forward(run);
            return;
        }
        self.stored.insert(count, run);
        self.deliver_consecutive(now_ns, out);
        self.restart(now_ns);
    }

    /// Gives up the segment with this number. Has an effect only without a timer.
    pub fn give_up(&mut self, now_ns: u64, count: u64, segments: u64, out: &mut Outlet<'_>) {
        if self.timer_ns.is_none() {
            self.given_up.insert(count, segments);
            self.rx_next = self.rx_next.max(count + segments);
            self.deliver_consecutive(now_ns, out);
        }
    }

    /// t-Reordering expired at `now_ns`.
    pub fn expire(&mut self, now_ns: u64, out: &mut Outlet<'_>) {
        let Some((_, rx_reord)) = self.running.take() else {
            return;
        };
        while let Some(entry) = self.stored.first_entry()
            && *entry.key() < rx_reord
        {
            out.forward(Run {
                at_ns: now_ns,
                ..entry.remove()
            });
        }
        self.rx_deliv = self.rx_deliv.max(rx_reord);
        self.deliver_consecutive(now_ns, out);
        self.restart(now_ns);
    }

    fn deliver_consecutive(&mut self, now_ns: u64, out: &mut Outlet<'_>) {
        loop {
            if let Some(entry) = self.stored.first_entry()
                && *entry.key() == self.rx_deliv
            {
                let run = entry.remove();
                self.rx_deliv += u64::from(run.count);
                out.forward(Run {
                    at_ns: now_ns,
                    ..run
                });
            } else if let Some(entry) = self.given_up.first_entry()
                && *entry.key() <= self.rx_deliv
            {
                let end = *entry.key() + entry.remove();
                self.rx_deliv = self.rx_deliv.max(end);
            } else {
                return;
            }
        }
    }

    /// Stops t-Reordering if its gap is filled, and starts it if there is a gap.
    fn restart(&mut self, now_ns: u64) {
        if self
            .running
            .is_some_and(|(_, rx_reord)| self.rx_deliv >= rx_reord)
        {
            self.running = None;
        }
        if let Some(timer_ns) = self.timer_ns
            && self.running.is_none()
            && self.rx_deliv < self.rx_next
        {
            self.running = Some((now_ns.saturating_add(timer_ns), self.rx_next));
        }
    }

    /// All segments held back.
    pub fn take_all(&mut self) -> impl Iterator<Item = Run> {
        self.running = None;
        std::mem::take(&mut self.stored).into_values()
    }
}
