//! How much heavy load is sent: enough that the queue of the access is never empty, and not much more.
//!
//! The sender keeps a window of bytes in flight. The receiver tells how long packets wait beyond the least delay. Below
//! half of the wanted queueing delay the window grows by what was delivered, as in slow start; above the wanted one it
//! becomes what the access delivers in a round trip and that delay. So the queue is filled within a few round trips,
//! covers falls of the rate, and is empty again soon after the end of a phase. Sending is paced.

use std::collections::VecDeque;
use std::io;
use std::io::Write;

use crate::packet::{Feedback, Packet};

const SECOND_NS: u64 = 1_000_000_000;
/// A rate is measured over at least this time.
const RATE_OVER_NS: u64 = 20_000_000;
/// The greatest rate of this time counts.
const RATE_OF_NS: u64 = 200_000_000;
/// After this time without feedback, a single packet asks whether the access works again.
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

// What an end received: a line of text for each light packet, and for each millisecond of heavy load.
//
// | line | values, separated by commas |
// |---|---|
// | `start` | version, `start_unix_ns` of the own clock |
// | `p` | a light packet: arrival, its number, sending, payload bytes, index and count in its train |
// | `b` | a millisecond of heavy load: phase, payload bytes, packets, packets lost before the last of them, first and last arrival, sending of the first and the last, greatest delay |
// | `sent` | at the end: light packets, heavy packets, milliseconds in which the system took nothing |
//
// Times are nanoseconds since the start: arrivals on this end's clock, sendings on the other's. Delays are differences
// of the two.

/// One line of heavy load stands for at most the bytes of this time.
const BIN_NS: u64 = 1_000_000;

/// The packets of a millisecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bin {
    number: u64,
    phase: char,
    bytes: u64,
    packets: u64,
    lost: u64,
    first_ns: u64,
    last_ns: u64,
    first_send_ns: u64,
    last_send_ns: u64,
    longest_ns: i64,
}

/// Writes the lines.
#[derive(Debug)]
pub struct Received<W: Write> {
    lines: W,
    bin: Option<Bin>,
    next_seq: u32,
}

impl<W: Write> Received<W> {
    /// Begins the file.
    ///
    /// # Errors
    /// Its writer's.
    pub fn begin(mut lines: W, start_unix_ns: u64) -> io::Result<Self> {
        writeln!(lines, "start,1,{start_unix_ns}")?;
        Ok(Self {
            lines,
            bin: None,
            next_seq: 0,
        })
    }

    /// A light packet of `bytes` has arrived.
    ///
    /// # Errors
    /// Its writer's.
    pub fn light(
        &mut self,
        packet: &Packet,
        index: u8,
        count: u8,
        bytes: usize,
        at_ns: u64,
    ) -> io::Result<()> {
        let (seq, send_ns) = (packet.seq, packet.send_ns);
        writeln!(
            self.lines,
            "p,{at_ns},{seq},{send_ns},{bytes},{index},{count}"
        )
    }

    /// A packet of heavy load of `bytes` has arrived in a phase. One that was overtaken is not counted as lost again.
    ///
    /// # Errors
    /// Its writer's.
    pub fn heavy(
        &mut self,
        packet: &Packet,
        phase: char,
        bytes: usize,
        at_ns: u64,
    ) -> io::Result<()> {
        let number = at_ns / BIN_NS;
        if self
            .bin
            .is_some_and(|bin| bin.number != number || bin.phase != phase)
        {
            self.write_bin()?;
        }
        let lost = u64::from(packet.seq.saturating_sub(self.next_seq));
        self.next_seq = self.next_seq.max(packet.seq.saturating_add(1));
        let delay_ns = at_ns.cast_signed() - packet.send_ns.cast_signed();
        let bin = self.bin.get_or_insert(Bin {
            number,
            phase,
            bytes: 0,
            packets: 0,
            lost: 0,
            first_ns: at_ns,
            last_ns: at_ns,
            first_send_ns: packet.send_ns,
            last_send_ns: packet.send_ns,
            longest_ns: delay_ns,
        });
        bin.bytes += bytes as u64;
        bin.packets += 1;
        bin.lost += lost;
        bin.last_ns = at_ns;
        bin.last_send_ns = packet.send_ns;
        bin.longest_ns = bin.longest_ns.max(delay_ns);
        Ok(())
    }

    /// Ends the file.
    ///
    /// # Errors
    /// Its writer's.
    pub fn end(mut self, light: u32, heavy: u32, refused_ms: u64) -> io::Result<()> {
        self.write_bin()?;
        writeln!(self.lines, "sent,{light},{heavy},{refused_ms}")?;
        self.lines.flush()
    }

    fn write_bin(&mut self) -> io::Result<()> {
        let Some(bin) = self.bin.take() else {
            return Ok(());
        };
        writeln!(
            self.lines,
            "b,{},{},{},{},{},{},{},{},{}",
            bin.phase,
            bin.bytes,
            bin.packets,
            bin.lost,
            bin.first_ns,
            bin.last_ns,
            bin.first_send_ns,
            bin.last_send_ns,
            bin.longest_ns
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Use;

    fn heavy(seq: u32, send_ns: u64) -> Packet {
        Packet {
            kind: Use::Heavy,
            seq,
            send_ns,
        }
    }

    #[test]
    fn heavy_load_is_one_line_a_millisecond() {
        let mut text = Vec::new();
        let mut received = Received::begin(&mut text, 5).expect("written");
        received
            .heavy(&heavy(0, 100), 'd', 10, 1_100_000)
            .expect("written");
        received
            .heavy(&heavy(3, 200), 'd', 10, 1_900_000)
            .expect("written");
        received
            .heavy(&heavy(4, 300), 'd', 10, 2_000_000)
            .expect("written");
        received.end(1, 5, 0).expect("written");
        assert_eq!(
            String::from_utf8(text).expect("text"),
            "start,1,5\nb,d,20,2,2,1100000,1900000,100,200,1899800\n\
             b,d,10,1,0,2000000,2000000,300,300,1999700\nsent,1,5,0\n"
        );
    }

    #[test]
    fn an_overtaken_packet_is_not_lost_again() {
        let mut text = Vec::new();
        let mut received = Received::begin(&mut text, 0).expect("written");
        for seq in [0, 2, 1, 3] {
            received.heavy(&heavy(seq, 0), 'u', 1, 0).expect("written");
        }
        received.end(0, 4, 0).expect("written");
        assert!(
            String::from_utf8(text)
                .expect("text")
                .contains("b,u,4,4,1,")
        );
    }
}
