//! Uplink grants: the base station grants the reported buffer after a delay.

use std::collections::VecDeque;

use super::settings::{Grants, Slots};
use super::slots::Slot;

/// The base station's knowledge of the UE's buffer over time.
#[derive(Debug)]
pub struct Scheduler {
    grants: Grants,
    /// Bytes that are granted and not yet sent.
    credit: u64,
    /// Bytes sent since the beginning.
    sent: u64,
    /// Reports in flight, in order of the time at which they take effect.
    reports: VecDeque<Report>,
}

#[derive(Clone, Copy, Debug)]
struct Report {
    /// The first slot that it can yield a grant for.
    from_ns: u64,
    backlog: u64,
    /// Bytes that had been sent when it was made.
    sent: u64,
}

impl Scheduler {
    /// Nothing is known yet.
    #[must_use]
    pub const fn new(grants: Grants) -> Self {
        Self {
            grants,
            credit: 0,
            sent: 0,
            reports: VecDeque::new(),
        }
    }

    /// Returns when, at `from_ns` or later, data that arrived at `there_ns` may be sent. Sends a scheduling request if
    /// nothing is granted and no report is in flight.
    pub fn earliest_ns(&mut self, there_ns: u64, from_ns: u64, slots: &Slots) -> u64 {
        if self.credit > 0 {
            return from_ns;
        }
        self.reports
            .retain(|report| report.backlog > self.sent - report.sent);
        let granted_ns = match self.reports.front() {
            Some(report) => report.from_ns,
            None => self.request(there_ns, slots),
        };
        let configured_ns = self.grants.configured.map_or(u64::MAX, |configured| {
            slots.periodic(from_ns, configured.slots) * slots.slot_ns
        });
        granted_ns.min(configured_ns).max(from_ns)
    }

    fn request(&mut self, at_ns: u64, slots: &Slots) -> u64 {
        let request = slots.periodic(at_ns, self.grants.request_slots);
        let from_ns = slots.granted(request, &self.grants) * slots.slot_ns;
        self.reports.push_back(Report {
            from_ns,
            backlog: self.grants.first_bytes,
            sent: self.sent,
        });
        from_ns
    }

    /// Bytes that may be sent in `slot`.
    pub fn granted(&mut self, slot: Slot, slots: &Slots) -> u64 {
        while let Some(report) = self.reports.front()
            && report.from_ns <= slot.start_ns
        {
            self.credit = report.backlog.saturating_sub(self.sent - report.sent);
            self.reports.pop_front();
        }
        let configured = self.grants.configured.map_or(0, |configured| {
            let first = slots.next_own(slot.index / configured.slots * configured.slots);
            if first == slot.index {
                configured.bytes
            } else {
                0
            }
        });
        self.credit.max(configured)
    }

    /// `bytes` were sent in `slot`, with a report that `backlog` bytes are left.
    pub fn sent(&mut self, slot: Slot, slots: &Slots, bytes: u64, backlog: u64) {
        self.sent += bytes;
        // The unused rest of a grant is padding.
        self.credit = if backlog > 0 {
            self.credit.saturating_sub(bytes)
        } else {
            0
        };
        if backlog > 0 {
            self.reports.push_back(Report {
                from_ns: slots.granted(slot.index, &self.grants) * slots.slot_ns,
                backlog,
                sent: self.sent,
            });
        }
    }

    /// The buffer was empty until `at_ns`: grants up to then were used for padding.
    pub fn idle_until(&mut self, at_ns: u64) {
        self.credit = 0;
        self.reports.retain(|report| report.from_ns > at_ns);
    }

    /// Resets the base station's knowledge.
    pub fn reset(&mut self) {
        self.credit = 0;
        self.reports.clear();
    }
}
