//! The sending half of an end: flow queues, a pacer, and the rate law.

use super::law::{Law, Observation};
use super::queue::{FlowQueues, FlowQueuesSettings, QueueCounters};
use super::receiver::REPORT_NS;
use super::record::Record;
use super::units::{bytes_in, time_of};
use super::wire::{PacketHeader, Report, unwrapped, wrapped};

/// Time that the pacer makes up for after a late wake-up.
const BURST_NS: u64 = 2_000_000;
/// Reports that may be missing before the link counts as blocked.
const MISSING_REPORTS: u64 = 5;
/// Time between empty packets while the link is blocked.
const SEARCH_NS: u64 = 20_000_000;
/// Bytes of queues are at most what the rate carries in this time: four intervals of `CoDel`, as CAKE has it.
const LIMIT_NS: u64 = 400_000_000;
/// But no less than this, some 160 packets.
const LEAST_LIMIT_BYTES: u64 = 256 << 10;

/// Parameters of a [`Sender`].
#[derive(Clone, Copy, Debug)]
pub struct SenderSettings {
    /// The queues; their limit is the greatest one.
    pub queues: FlowQueuesSettings,
    /// Bytes of a packet on the link beyond its IP bytes.
    pub overhead_bytes: u64,
    /// Perturbs hashes.
    pub seed: u64,
}

/// What a sender shows of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct SenderState {
    /// The rate, bits per second.
    pub rate_bps: u64,
    /// Bytes that wait.
    pub queued_bytes: u64,
    /// Bytes sent and not yet reported.
    pub in_flight_bytes: u64,
    /// Packets that the receiver did not get.
    pub lost_packets: u64,
    /// Whether reports are missing.
    pub blocked: bool,
    /// Packets of the queues.
    pub queues: QueueCounters,
}

/// Shapes what one end sends.
pub struct Sender {
    settings: SenderSettings,
    queues: FlowQueues,
    law: Box<dyn Law>,
    record: Record,
    /// When the pacer lets the next packet go.
    next_ns: u64,
    last: Option<Last>,
    /// When the last report came, or the first packet was sent.
    heard_ns: u64,
    lost_packets: u64,
    blocked: bool,
}

/// The last report, with whole numbers.
#[derive(Clone, Copy, Debug)]
struct Last {
    number: u32,
    at_us: u64,
    highest: u64,
    packets: u64,
    bytes: u64,
    delay_us: u64,
    heard_ns: u64,
    sent_bytes: u64,
}

impl Sender {
    /// A sender with empty queues.
    #[must_use]
    pub fn new(settings: SenderSettings, law: Box<dyn Law>) -> Self {
        let mut sender = Self {
            queues: FlowQueues::new(settings.queues, settings.seed),
            settings,
            law,
            record: Record::default(),
            next_ns: 0,
            last: None,
            heard_ns: 0,
            lost_packets: 0,
            blocked: false,
        };
        sender.limit_queues();
        sender
    }

    /// Takes an IP packet.
    pub fn enqueue(&mut self, bytes: Vec<u8>, now_ns: u64) {
        self.queues.enqueue(bytes, now_ns);
    }

    /// The next packet that may be sent at `now_ns`; an empty one only looks whether the link is blocked.
    pub fn poll(&mut self, now_ns: u64) -> Option<(PacketHeader, Vec<u8>)> {
        if self.next_send_ns()? > now_ns {
            return None;
        }
        // What is sent into a blocked link may be lost: packets wait, empty ones look for the end of the blockage.
        let packet = if self.blocked {
            Vec::new()
        } else {
            self.queues.dequeue(now_ns)?.bytes
        };
        let bytes = packet.len() as u64 + self.settings.overhead_bytes;
        if self.record.in_flight_bytes() == 0 {
            self.heard_ns = now_ns;
        }
        let sequence = self.record.send(bytes, now_ns);
        self.next_ns = if self.blocked {
            now_ns + SEARCH_NS
        } else {
            let from_ns = self.next_ns.max(now_ns.saturating_sub(BURST_NS));
            from_ns + time_of(bytes, self.law.pace().rate_bps)
        };
        let header = PacketHeader {
            sequence: wrapped(sequence),
            sent_us: wrapped(now_ns / 1000),
        };
        Some((header, packet))
    }

    /// When [`Sender::poll`] may give a packet; `None` while nothing waits or the window is full.
    #[must_use]
    pub fn next_send_ns(&self) -> Option<u64> {
        let pace = self.law.pace();
        if self.blocked {
            return Some(self.next_ns);
        }
        let may_send =
            self.queues.backlog().segments > 0 && self.record.in_flight_bytes() < pace.window_bytes;
        may_send.then(|| self.next_ns.max(pace.resume_ns))
    }

    /// Takes a report that arrives at `now_ns`. One that is out of order, or reports what was not sent, is ignored.
    pub fn report(&mut self, report: &Report, now_ns: u64) {
        let known = self.last.map_or(0, |last| last.highest);
        let highest = unwrapped(known, report.highest);
        if highest >= self.record.next() {
            return;
        }
        let last = self.last;
        let ahead = |last: Last| report.number.wrapping_sub(last.number).cast_signed();
        if last.is_some_and(|last| ahead(last) <= 0 || report.bytes < last.bytes) {
            return;
        }
        let sent_ns = self.record.received(highest);
        let now = Last {
            number: report.number,
            at_us: unwrapped(last.map_or(1 << 32, |last| last.at_us), report.at_us),
            highest: highest.max(known),
            packets: report.packets,
            bytes: report.bytes,
            delay_us: unwrapped(
                last.map_or(1 << 32, |last| last.delay_us),
                report.delay_last_us,
            ),
            heard_ns: now_ns,
            sent_bytes: self.record.sent_bytes(),
        };
        self.last = Some(now);
        self.heard_ns = now_ns;
        if std::mem::take(&mut self.blocked) {
            // The floor's pace does not hold any more.
            self.next_ns = now_ns;
        }
        let Some(last) = last else { return };
        let sent_packets = now.highest - last.highest;
        let arrived_packets = now.packets.saturating_sub(last.packets);
        let missing = sent_packets.saturating_sub(arrived_packets);
        self.lost_packets += missing;
        let held_ns = u64::from(report.held_us) * 1000;
        let delay_ns = |low| unwrapped(now.delay_us, low) * 1000;
        let pace = self.law.pace();
        self.law.observe(&Observation {
            now_ns,
            interval_ns: now.at_us.saturating_sub(last.at_us).max(1) * 1000,
            delivered_bytes: now.bytes - last.bytes,
            longest_gap_ns: u64::from(report.gap_us) * 1000,
            lost_packets: missing,
            delay_min_ns: delay_ns(report.delay_min_us),
            delay_mean_ns: delay_ns(report.delay_mean_us),
            delay_last_ns: now.delay_us * 1000,
            rtt_ns: sent_ns.map(|sent_ns| now_ns.saturating_sub(sent_ns + held_ns)),
            sent_bytes: now.sent_bytes - last.sent_bytes,
            sendable_bytes: bytes_in(pace.rate_bps, now_ns - last.heard_ns),
            in_flight_bytes: self.record.in_flight_bytes(),
        });
        self.limit_queues();
    }

    /// When [`Sender::check`] has something to do: the time at which reports count as missing.
    #[must_use]
    pub fn next_check_ns(&self) -> Option<u64> {
        let oldest_ns = self.record.oldest_ns()?;
        let expected_ns = self.heard_ns.max(oldest_ns + self.law.rtt_ns());
        (!self.blocked).then_some(expected_ns + MISSING_REPORTS * REPORT_NS)
    }

    /// Looks whether reports are missing at `now_ns`.
    pub fn check(&mut self, now_ns: u64) {
        if self.next_check_ns().is_some_and(|at_ns| at_ns <= now_ns) {
            self.blocked = true;
            self.law.blocked(now_ns);
            // Nothing is known of what was sent; the next packet must not wait for the pace of before.
            self.next_ns = now_ns;
        }
    }

    /// The path has changed: delays of the former one say nothing of this one.
    pub fn path_changed(&mut self) {
        self.law.path_changed();
    }

    /// There is a new connection: the receiver knows nothing of what was sent. Waiting packets and the rate stay.
    pub fn reconnected(&mut self) {
        self.record = Record::default();
        self.last = None;
        self.blocked = false;
        self.law.path_changed();
    }

    /// Whether reports are missing.
    #[must_use]
    pub const fn is_blocked(&self) -> bool {
        self.blocked
    }

    fn limit_queues(&mut self) {
        let wanted = bytes_in(self.law.pace().rate_bps, LIMIT_NS);
        let most = self.settings.queues.limit_bytes;
        self.queues
            .set_limit_bytes(wanted.max(LEAST_LIMIT_BYTES).min(most));
    }

    /// Its state.
    #[must_use]
    pub fn state(&self) -> SenderState {
        SenderState {
            rate_bps: self.law.pace().rate_bps,
            queued_bytes: self.queues.backlog().bytes,
            in_flight_bytes: self.record.in_flight_bytes(),
            lost_packets: self.lost_packets,
            blocked: self.blocked,
            queues: *self.queues.counters(),
        }
    }
}
