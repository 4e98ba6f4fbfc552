//! How much heavy load is sent: enough that the queue of the access is never empty, and not much more.
//!
//! The sender keeps a window of bytes in flight. The receiver tells how long packets wait beyond the least delay. Below
//! half of the wanted queueing delay the window grows by what was delivered, as in slow start; above the wanted one it
//! becomes what the access delivers in a round trip and that delay. So the queue is filled within a few round trips,
//! covers falls of the rate, and is empty again soon after the end of a phase. Sending is paced.

use std::collections::VecDeque;

use crate::packet::Feedback;

const SECOND_NS: u64 = 1_000_000_000;
/// A rate is measured over at least this time.
const RATE_OVER_NS: u64 = 20_000_000;
/// The greatest rate of this time counts.
const RATE_OF_NS: u64 = 200_000_000;
/// Without feedback for so long, a single packet asks whether the access works again.
const SILENCE_NS: u64 = 250_000_000;
const ASK_EVERY_NS: u64 = 50_000_000;
const FIRST_SEGMENTS: u64 = 10;
const MOST_BYTES: u64 = 64 << 20;
/// Pacing beyond the rate that was measured, so that a window that grows can be used.
const PACE_FACTOR: u64 = 2;
const FIRST_PACE_BPS: u64 = 10_000_000;
const TICK_NS: u64 = 1_000_000;

/// The window of one sender. Times are nanoseconds since the start.
#[derive(Debug)]
pub struct Window {
    segment_bytes: u64,
    most_bps: Option<u64>,
    wanted_ns: u64,
    bytes: u64,
    next_seq: u32,
    highest: Option<u32>,
    oldest: u32,
    least_rtt_ns: u64,
    delivered: VecDeque<(u64, u64)>,
    rates: VecDeque<(u64, u64)>,
    heard_ns: u64,
    asked_ns: u64,
    credit: u64,
    credit_ns: u64,
}

impl Window {
    /// A window of packets of `segment_bytes`, at most `most_bps`.
    #[must_use]
    pub fn new(segment_bytes: u16, most_bps: Option<u64>) -> Self {
        let segment_bytes = u64::from(segment_bytes);
        Self {
            segment_bytes,
            most_bps,
            wanted_ns: 0,
            bytes: FIRST_SEGMENTS * segment_bytes,
            next_seq: 0,
            highest: None,
            oldest: 0,
            least_rtt_ns: u64::MAX,
            delivered: VecDeque::new(),
            rates: VecDeque::new(),
            heard_ns: 0,
            asked_ns: 0,
            credit: 0,
            credit_ns: 0,
        }
    }

    /// A phase begins at `now_ns` in which packets shall wait for `wanted_ns`. What was in flight is gone; the window
    /// stays.
    pub fn begin(&mut self, now_ns: u64, wanted_ns: u64) {
        self.wanted_ns = wanted_ns;
        self.oldest = self.next_seq;
        self.highest = None;
        self.delivered.clear();
        self.heard_ns = now_ns;
        self.asked_ns = now_ns;
        self.credit = 0;
        self.credit_ns = now_ns;
        // The rate of the last phase holds until there is another one.
        let last_bps = self.rate_bps();
        self.rates.clear();
        if last_bps > 0 {
            self.rates.push_back((now_ns, last_bps));
        }
    }

    /// Segments that may be sent at `now_ns`.
    pub fn room(&mut self, now_ns: u64) -> usize {
        let pace_bps = self.pace_bps();
        let waited_ns = now_ns.saturating_sub(self.credit_ns).min(10 * TICK_NS);
        let earned = pace_bps * waited_ns / SECOND_NS / 8;
        if earned > 0 {
            let most = (pace_bps * 2 * TICK_NS / SECOND_NS / 8).max(2 * self.segment_bytes);
            self.credit = (self.credit + earned).min(most);
            self.credit_ns = now_ns;
        }
        let in_flight = u64::from(self.in_flight()) * self.segment_bytes;
        if in_flight > 0
            && now_ns.saturating_sub(self.heard_ns.max(self.asked_ns)) >= ASK_EVERY_NS
            && now_ns.saturating_sub(self.heard_ns) >= SILENCE_NS
        {
            self.asked_ns = now_ns;
            return 1;
        }
        let free = self.bytes.saturating_sub(in_flight).min(self.credit);
        usize::try_from(free / self.segment_bytes).unwrap_or(usize::MAX)
    }

    /// The number of the next packet; it counts as sent.
    pub fn send(&mut self) -> u32 {
        let seq = self.next_seq;
        self.next_seq = self.next_seq.wrapping_add(1);
        self.credit = self.credit.saturating_sub(self.segment_bytes);
        seq
    }

    /// Packets sent so far.
    #[must_use]
    pub fn sent(&self) -> u32 {
        self.next_seq
    }

    /// The receiver's word has come at `now_ns`.
    pub fn hear(&mut self, feedback: &Feedback, now_ns: u64) {
        if feedback.highest < self.oldest || feedback.highest >= self.next_seq {
            return; // of the phase before
        }
        let before = self.highest.map_or(self.oldest, |highest| highest + 1);
        if feedback.highest < before {
            return;
        }
        let new_bytes = u64::from(feedback.highest + 1 - before) * self.segment_bytes;
        self.highest = Some(feedback.highest);
        self.heard_ns = now_ns;
        self.least_rtt_ns = self
            .least_rtt_ns
            .min(now_ns.saturating_sub(feedback.echo_ns).max(1));
        self.measure(feedback.received_bytes, now_ns);
        if feedback.queueing_ns < self.wanted_ns / 2 {
            self.bytes = (self.bytes + new_bytes).min(MOST_BYTES);
        } else if feedback.queueing_ns > self.wanted_ns {
            let time_ns = u128::from(self.least_rtt_ns + self.wanted_ns);
            let bytes = u128::from(self.rate_bps()) * time_ns / u128::from(8 * SECOND_NS);
            let least = FIRST_SEGMENTS * self.segment_bytes;
            self.bytes = u64::try_from(bytes)
                .unwrap_or(MOST_BYTES)
                .clamp(least, MOST_BYTES);
        }
    }

    fn in_flight(&self) -> u32 {
        self.next_seq - self.highest.map_or(self.oldest, |highest| highest + 1)
    }

    fn measure(&mut self, received_bytes: u64, now_ns: u64) {
        self.delivered.push_back((now_ns, received_bytes));
        while self.delivered.len() > 1 && now_ns - self.delivered[1].0 >= RATE_OVER_NS {
            self.delivered.pop_front();
        }
        let (since_ns, bytes) = self.delivered[0];
        if now_ns - since_ns >= RATE_OVER_NS {
            let grown = received_bytes.saturating_sub(bytes);
            let bps = u128::from(grown) * u128::from(8 * SECOND_NS) / u128::from(now_ns - since_ns);
            self.rates
                .push_back((now_ns, u64::try_from(bps).unwrap_or(u64::MAX)));
            while self.rates.len() > 1 && now_ns - self.rates[0].0 > RATE_OF_NS {
                self.rates.pop_front();
            }
        }
    }

    fn rate_bps(&self) -> u64 {
        self.rates.iter().map(|(_, bps)| *bps).max().unwrap_or(0)
    }

    fn pace_bps(&self) -> u64 {
        let of_window = if self.least_rtt_ns == u64::MAX {
            0
        } else {
            let bits = u128::from(self.bytes) * 8 * u128::from(SECOND_NS);
            u64::try_from(bits / u128::from(self.least_rtt_ns)).unwrap_or(u64::MAX)
        };
        let bps =
            FIRST_PACE_BPS.max(of_window.min(PACE_FACTOR * self.rate_bps().max(FIRST_PACE_BPS)));
        bps.min(self.most_bps.unwrap_or(u64::MAX))
    }
}
