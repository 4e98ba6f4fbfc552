//! Slots: their symbols and capacity in this direction.

use std::collections::VecDeque;

use super::air::Air;
use super::settings::{GrantLosses, Grants, Harq, Slots};
use crate::pattern::{Clock, State};
use crate::random_stream::RandomStream;
use crate::run::Slot;

/// What a radio asks of a slot.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    /// The slot.
    pub slot: Slot,
    /// The base station that gives it.
    pub station: u32,
    /// For a retransmission, when the block was first sent.
    pub again_since_ns: Option<u64>,
    /// Its rate with the whole slot, bits per second.
    pub rate_bps: u64,
}

impl Slots {
    /// Symbols of this direction in the slot.
    pub(super) fn own(&self, index: u64) -> u32 {
        self.own_symbols[Self::place(index, &self.own_symbols)]
    }

    fn place(index: u64, symbols: &[u32]) -> usize {
        usize::try_from(index % symbols.len() as u64).expect("less than the length of the frame")
    }

    /// The first slot from `index` on with symbols of this direction.
    #[must_use]
    pub fn next_own(&self, index: u64) -> u64 {
        Self::next(&self.own_symbols, index, 1)
    }

    /// The first slot from `index` on with at least this many symbols of this direction, or with the most of any slot.
    #[must_use]
    fn next_own_with(&self, index: u64, symbols: u32) -> u64 {
        let most = self.own_symbols.iter().copied().max().unwrap_or(1);
        Self::next(&self.own_symbols, index, symbols.clamp(1, most.max(1)))
    }

    /// The index of `slot` by the time of a pattern, which is the slot's own unless a clock plays the pattern.
    /// It keeps the place in the duplex frame, so that a slot has the same symbols by both.
    #[must_use]
    pub fn index_in_pattern(&self, slot: Slot, clock: &Clock) -> u64 {
        let index = clock.position(slot.start_ns) / self.slot_ns;
        let length = self.own_symbols.len() as u64;
        index - index % length + slot.index % length
    }

    /// Symbols that `bytes` take in slot `index` at `rate_bps`; at least 1.
    #[must_use]
    pub fn symbols_of(&self, bytes: u64, index: u64, rate_bps: u64) -> u32 {
        let capacity = self.capacity_bytes(index, rate_bps).max(1);
        let symbols = (bytes * u64::from(self.own(index))).div_ceil(capacity);
        u32::try_from(symbols).unwrap_or(u32::MAX).max(1)
    }

    /// The first slot from `index` on with symbols of the other direction.
    #[must_use]
    pub fn next_other(&self, index: u64) -> u64 {
        Self::next(&self.other_symbols, index, 1)
    }

    fn next(symbols: &[u32], index: u64, least: u32) -> u64 {
        (index..index + symbols.len() as u64)
            .find(|&index| symbols[Self::place(index, symbols)] >= least)
            .unwrap_or(index)
    }

    /// Bytes that the slot carries at `rate_bps`, which is an average over the duplex frame: each symbol of this
    /// direction carries the same. Fractions of a byte are carried over to the next slots.
    #[must_use]
    pub fn capacity_bytes(&self, index: u64, rate_bps: u64) -> u64 {
        let length = self.own_symbols.len() as u64;
        let place = Self::place(index, &self.own_symbols);
        // A million frames keep the product within 128 bits, and lose less than a byte where they end.
        let frames = index / length % 1_000_000;
        let per_frame: u32 = self.own_symbols.iter().sum();
        let earlier: u32 = self.own_symbols[..place].iter().sum();
        let before = u128::from(frames) * u128::from(per_frame) + u128::from(earlier);
        let frame_bits_ns = u128::from(rate_bps) * u128::from(self.slot_ns) * u128::from(length);
        let bytes =
            |symbols: u128| frame_bits_ns * symbols / (8_000_000_000 * u128::from(per_frame));
        let bytes = bytes(before + u128::from(self.own(index))) - bytes(before);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// Slots of this direction before the slot `index`.
    #[must_use]
    pub fn own_before(&self, index: u64) -> u64 {
        let count = |symbols: &[u32]| symbols.iter().filter(|&&symbols| symbols > 0).count() as u64;
        let place = Self::place(index, &self.own_symbols);
        let frames = index / self.own_symbols.len() as u64;
        frames * count(&self.own_symbols) + count(&self.own_symbols[..place])
    }

    /// Time of the frame for each of its slots of this direction.
    #[must_use]
    pub fn period_ns(&self) -> u64 {
        let own = self.own_symbols.iter().filter(|&&symbols| symbols > 0);
        self.slot_ns * self.own_symbols.len() as u64 / own.count().max(1) as u64
    }

    /// Bytes of a full block at `rate_bps`: of a slot with the most symbols of this direction.
    #[must_use]
    pub fn full_bytes(&self, rate_bps: u64) -> u64 {
        let most = self.own_symbols.iter().copied().max().unwrap_or(1);
        let per_frame: u32 = self.own_symbols.iter().sum();
        let frame_ns = u128::from(self.slot_ns) * self.own_symbols.len() as u128;
        let bytes = u128::from(rate_bps) * frame_ns * u128::from(most)
            / (8_000_000_000 * u128::from(per_frame));
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// The first slot that may retransmit a block that failed in slot `index`.
    #[must_use]
    pub fn retransmission(&self, index: u64, harq: &Harq) -> u64 {
        let decoded = (self.slot_ns + self.decode_ns).div_ceil(self.slot_ns);
        let feedback = self.next_other(index + harq.feedback_slots.max(decoded));
        self.next_own(feedback + harq.schedule_slots)
    }

    /// The first slot that a request or report in slot `index` can yield a grant for.
    #[must_use]
    pub fn granted(&self, index: u64, grants: &Grants) -> u64 {
        let grant = self.next_other(index + grants.schedule_slots);
        self.next_own(grant + grants.prepare_slots)
    }

    /// The first slot at or after `at_ns` that is the first of this direction from a multiple of `every` slots on.
    #[must_use]
    pub fn periodic(&self, at_ns: u64, every: u64) -> u64 {
        let index = at_ns.div_ceil(self.slot_ns);
        let moved = self.next_own(index / every * every);
        if moved >= index {
            moved
        } else {
            self.next_own(index.next_multiple_of(every))
        }
    }
}

/// The carriers of a link: its own, and its fallback.
#[derive(Clone, Debug)]
pub struct Carriers {
    /// The carrier.
    pub primary: Slots,
    /// The fallback carrier; `None`: the slots stay the same.
    pub fallback: Option<Slots>,
}

impl Carriers {
    /// The slots in `state`, and whether they belong to the fallback.
    #[must_use]
    pub fn of(&self, state: State) -> (&Slots, bool) {
        match &self.fallback {
            Some(slots) if state == State::Fallback => (slots, true),
            _ => (&self.primary, false),
        }
    }

    /// The slots that `slot` belongs to.
    #[must_use]
    pub fn slots(&self, slot: Slot) -> &Slots {
        match &self.fallback {
            Some(slots) if slot.fallback => slots,
            _ => &self.primary,
        }
    }

    /// The first slot of this direction that begins at or after `at_ns`, outside handovers, that meets `need`.
    pub fn find(&self, air: &mut Air, mut at_ns: u64, needs: Needs) -> Found {
        let give_up_ns = at_ns.saturating_add(air.scan_ns());
        let mut hope = false;
        while at_ns <= give_up_ns {
            let now;
            (at_ns, now) = match needs {
                Needs::Rate => air.after_outage(at_ns),
                Needs::Symbols(_) => (at_ns, air.at(at_ns)),
            };
            let symbols = match needs {
                Needs::Rate => u32::from(now.rate_bps > 0),
                Needs::Symbols(symbols) => symbols,
            };
            if now.state != State::Handover && symbols > 0 {
                hope = true;
                let (slots, fallback) = self.of(now.state);
                let index = slots.next_own_with(at_ns.div_ceil(slots.slot_ns), symbols);
                let start_ns = index * slots.slot_ns;
                if start_ns < now.until_ns {
                    return Found::Slot(Slot {
                        fallback,
                        carrier: 0,
                        index,
                        start_ns,
                    });
                }
            }
            if now.until_ns == u64::MAX {
                return Found::Never;
            }
            at_ns = now.until_ns;
        }
        if hope {
            Found::LookAgain(at_ns)
        } else {
            Found::Never
        }
    }
}

/// The requirement on a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// A rate above zero, for new data.
    Rate,
    /// This many symbols, for a retransmission: it keeps its size.
    Symbols(u32),
}

impl Found {
    /// The same on this component carrier.
    #[must_use]
    pub fn on(self, carrier: u32) -> Self {
        match self {
            Self::Slot(slot) => Self::Slot(Slot { carrier, ..slot }),
            other => other,
        }
    }
}

/// The result of [`Carriers::find`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// This slot.
    Slot(Slot),
    /// None up to this time.
    LookAgain(u64),
    /// There is none.
    Never,
}

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

    /// Whether something is granted that was not sent.
    pub const fn has_credit(&self) -> bool {
        self.credit > 0
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

/// The next slot that will be used.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// When its block is built.
    pub at_ns: u64,
    /// The slot; `None`: none was found, search again.
    pub(super) slot: Option<Slot>,
    /// The block that is sent again in it; `None`: a new one.
    pub(super) again: Option<usize>,
}

impl Plan {
    pub(super) fn start_ns(&self) -> u64 {
        self.slot.map_or(self.at_ns, |slot| slot.start_ns)
    }

    pub(super) fn order(&self) -> (u64, u32) {
        (self.start_ns(), self.slot.map_or(0, |slot| slot.carrier))
    }
}
