//! Uplink grants: the base station grants the reported buffer after a delay.

use std::collections::VecDeque;

use super::settings::{GrantLosses, Grants, Slots};
use super::slots::Slot;
use crate::random_stream::RandomStream;

/// The base station's knowledge of the UE's buffer over time.
#[derive(Debug)]
pub struct Scheduler {
    grants: Grants,
    random: RandomStream,
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
    /// Whether it stands for the request that follows the loss of a report.
    retry: bool,
}

/// The random streams of requests and reports.
const REQUESTS: u64 = 0;
const REPORTS: u64 = 1;

impl Scheduler {
    /// Nothing is known yet.
    #[must_use]
    pub const fn new(grants: Grants, random: RandomStream) -> Self {
        Self {
            grants,
            random,
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
        let from_ns = self.answered_ns(at_ns, slots);
        self.reports.push_back(Report {
            from_ns,
            backlog: self.grants.first_bytes,
            sent: self.sent,
            retry: false,
        });
        from_ns
    }

    /// When data may be sent for which requests begin at `at_ns`: the first that is not lost yields a grant, or random
    /// access does.
    fn answered_ns(&self, at_ns: u64, slots: &Slots) -> u64 {
        let every = self.grants.request_slots;
        let mut request = slots.periodic(at_ns, every);
        if let Some(losses) = &self.grants.losses {
            let random = self.random.process(REQUESTS);
            let mut requests = 1;
            while random.unit(request) < losses.request {
                let start_ns = request * slots.slot_ns;
                if requests >= losses.most_requests {
                    let after_ns = start_ns.saturating_add(losses.access_ns);
                    return slots.next_own(after_ns.div_ceil(slots.slot_ns)) * slots.slot_ns;
                }
                let next_ns = start_ns + losses.prohibit_ns.max(slots.slot_ns);
                request = slots.periodic(next_ns, every);
                requests += 1;
            }
        }
        slots.granted(request, &self.grants) * slots.slot_ns
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
            self.report(slot, slots, backlog);
        }
    }

    /// Reports in `slot` that `backlog` bytes wait. A report that is received replaces the retry of one that was lost.
    fn report(&mut self, slot: Slot, slots: &Slots, backlog: u64) {
        let lost =
            |losses: &GrantLosses| self.random.process(REPORTS).unit(slot.index) < losses.report;
        let retry_ns = self
            .grants
            .losses
            .filter(lost)
            .map(|losses| losses.retry_ns);
        let from_ns = match retry_ns {
            None => {
                self.reports.retain(|report| !report.retry);
                slots.granted(slot.index, &self.grants) * slots.slot_ns
            }
            // The timer of the first lost report runs on.
            Some(_) if self.reports.iter().any(|report| report.retry) => return,
            Some(retry_ns) => self.answered_ns(slot.start_ns.saturating_add(retry_ns), slots),
        };
        let backlog = match retry_ns {
            None => backlog,
            Some(_) => self.grants.first_bytes,
        };
        self.reports.push_back(Report {
            from_ns,
            backlog,
            sent: self.sent,
            retry: retry_ns.is_some(),
        });
    }

    /// The buffer was empty until `at_ns`: grants up to then were used for padding.
    pub fn idle_until(&mut self, at_ns: u64) {
        self.credit = 0;
        self.reports
            .retain(|report| report.from_ns > at_ns && !report.retry);
    }

    /// Resets the base station's knowledge.
    pub fn reset(&mut self) {
        self.credit = 0;
        self.reports.clear();
    }
}
