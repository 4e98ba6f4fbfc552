//! One direction that runs.

use std::collections::VecDeque;
use std::fmt;

use super::spec::{LinkSpec, SpecError};
use crate::conditions::Conditions;
use crate::counters::{Counts, Reason};
use crate::link::Link;
use crate::run::{Ecn, Run, RunFlags};
use crate::stage::{Backlog, Change};

/// A packet that is offered to a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// IP bytes, headers included; at least 1.
    pub bytes: u16,
    /// Any number that packets of one flow have in common, for fair queueing.
    pub flow: u32,
    /// The ECN field.
    pub ecn: Ecn,
}

impl Packet {
    /// A packet of this many IP bytes of flow 0 that is not ECN-capable.
    #[must_use]
    pub const fn new(bytes: u16) -> Self {
        Self {
            bytes,
            flow: 0,
            ecn: Ecn::NotEct,
        }
    }

    /// The packet as one of this flow.
    #[must_use]
    pub const fn of_flow(self, flow: u32) -> Self {
        Self { flow, ..self }
    }

    /// The packet with this ECN field.
    #[must_use]
    pub const fn with_ecn(self, ecn: Ecn) -> Self {
        Self { ecn, ..self }
    }
}

/// How a packet left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// At the far end.
    Delivered,
    /// Dropped.
    Dropped(Reason),
}

/// A packet that left a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Departure<T> {
    /// When, nanoseconds of virtual time.
    pub at_ns: u64,
    /// How.
    pub fate: Fate,
    /// The packet; its ECN field may have become [`Ecn::Ce`].
    pub packet: Packet,
    /// The bit that a link with bit errors has flipped, counted from the first bit on the wire.
    pub flipped_bit: Option<u32>,
    /// What was offered with it.
    pub content: T,
}

/// One direction in virtual time. `T` belongs to a packet and leaves with it; a copy that the link makes of a packet
/// gets a clone.
pub struct SimLink<T> {
    link: Link,
    contents: Contents<T>,
    departures: VecDeque<Departure<T>>,
    delivered: Vec<Run>,
    now_ns: u64,
    /// Whether everything up to `now_ns` was polled.
    is_polled: bool,
}

impl<T> fmt::Debug for SimLink<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SimLink")
            .field("now_ns", &self.now_ns)
            .field("backlog", &self.link.backlog())
            .finish_non_exhaustive()
    }
}

impl<T: Clone> SimLink<T> {
    /// A link that is empty at time 0, with an MTU of 1500 bytes.
    ///
    /// # Errors
    /// The first value of `spec` that breaks a rule.
    pub fn new(spec: &LinkSpec, seed: u64) -> Result<Self, SpecError> {
        Ok(super::SimPath::new(spec, &LinkSpec::new(), seed)?.down)
    }

    pub(super) fn of(link: Link) -> Self {
        Self {
            link,
            contents: Contents::new(),
            departures: VecDeque::new(),
            delivered: Vec::new(),
            now_ns: 0,
            is_polled: false,
        }
    }

    /// Offers `packet` at `now_ns`. A time before that of an earlier call counts as that one.
    pub fn send(&mut self, now_ns: u64, packet: Packet, content: T) {
        self.now_ns = self.now_ns.max(now_ns);
        self.is_polled = false;
        let bytes = packet.bytes.max(1);
        self.link.accept(Run {
            at_ns: self.now_ns,
            packet: self.contents.keep(content),
            first: 0,
            count: 1,
            segment_bytes: bytes,
            last_bytes: bytes,
            flow: packet.flow,
            flip: 0,
            ecn: packet.ecn,
            flags: RunFlags::default(),
        });
    }

    /// The next packet that left up to and including `now_ns`, the earliest first; call it until `None`. A time before
    /// that of an earlier call counts as that one.
    pub fn poll(&mut self, now_ns: u64) -> Option<Departure<T>> {
        if now_ns > self.now_ns {
            self.now_ns = now_ns;
            self.is_polled = false;
        }
        if !self.is_polled {
            self.is_polled = true;
            self.advance();
        }
        self.departures.pop_front()
    }

    /// When to poll next, if nothing else is offered; `None`: nothing is in the link. Never later than the next
    /// departure.
    #[must_use]
    pub fn next_event_ns(&self) -> Option<u64> {
        let left = self.departures.front().map(|_| self.now_ns);
        let dropped = self.link.has_lost().then_some(self.now_ns);
        left.or(dropped).or_else(|| self.link.next_event_ns())
    }

    /// Packets in the link, and their bytes.
    #[must_use]
    pub fn backlog(&self) -> Backlog {
        self.link.backlog()
    }

    /// Packets offered, delivered, marked, and dropped by reason so far.
    #[must_use]
    pub const fn counts(&self) -> &Counts {
        self.link.counters().total()
    }

    /// Rate, delay, loss and radio state at the time of the last call.
    #[must_use]
    pub fn conditions(&self) -> Conditions {
        self.link.conditions(self.now_ns)
    }

    /// Applies a live change at `now_ns`. False if it concerns no part of the link.
    pub fn apply(&mut self, now_ns: u64, change: &Change) -> bool {
        self.now_ns = self.now_ns.max(now_ns);
        self.advance();
        self.is_polled = false;
        self.link.apply(self.now_ns, change)
    }

    /// Processes everything up to `now_ns`.
    fn advance(&mut self) {
        self.link.poll(self.now_ns, &mut self.delivered);
        for run in self.link.take_copied() {
            self.contents.retain(run.packet);
        }
        let known = self.departures.len();
        for run in self.delivered.drain(..) {
            let content = self.contents.take(run.packet);
            self.departures
                .push_back(departure(&run, Fate::Delivered, content));
        }
        let delivered = self.departures.len();
        for (run, reason) in self.link.take_lost_with_reasons() {
            let content = self.contents.take(run.packet);
            self.departures
                .push_back(departure(&run, Fate::Dropped(reason), content));
        }
        if self.departures.len() > delivered {
            self.departures.make_contiguous()[known..].sort_by_key(|left| left.at_ns);
        }
    }
}

const fn departure<T>(run: &Run, fate: Fate, content: T) -> Departure<T> {
    Departure {
        at_ns: run.at_ns,
        fate,
        packet: Packet {
            bytes: run.last_bytes,
            flow: run.flow,
            ecn: run.ecn,
        },
        flipped_bit: run.flipped_bit(),
        content,
    }
}

/// What belongs to the packets in a link, by their keys.
struct Contents<T> {
    kept: Vec<Option<(T, u32)>>,
    free: Vec<u32>,
}

impl<T: Clone> Contents<T> {
    const fn new() -> Self {
        Self {
            kept: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Keeps `content` and returns its key.
    fn keep(&mut self, content: T) -> u32 {
        if let Some(key) = self.free.pop() {
            self.kept[key as usize] = Some((content, 1));
            return key;
        }
        let key = u32::try_from(self.kept.len()).expect("fewer packets than memory holds");
        self.kept.push(Some((content, 1)));
        key
    }

    /// Counts one more packet with this content.
    fn retain(&mut self, key: u32) {
        if let Some((_, count)) = &mut self.kept[key as usize] {
            *count += 1;
        }
    }

    /// The content of a packet that leaves.
    fn take(&mut self, key: u32) -> T {
        let place = &mut self.kept[key as usize];
        if let Some((content, count)) = place
            && *count > 1
        {
            *count -= 1;
            return content.clone();
        }
        self.free.push(key);
        let (content, _) = place.take().expect("a packet leaves once");
        content
    }
}
