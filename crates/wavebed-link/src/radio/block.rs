//! Transport blocks in flight, and the record of each transmission.

use std::collections::{BTreeMap, VecDeque};
use std::f64::consts::LN_2;

use crate::counters::Reason;
use crate::run::{Run, Slot};
use crate::stage::Outlet;

/// A share of a slot: a number of its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Parts that are given.
    pub given: u32,
    /// Parts of the slot, at least 1.
    pub all: u32,
}

impl Share {
    /// The whole slot.
    pub const WHOLE: Self = Self { given: 1, all: 1 };

    /// This share of the bytes, or of the time, of a slot.
    #[must_use]
    pub fn of(self, whole: u64) -> u64 {
        if self.given == self.all {
            return whole;
        }
        let part = u128::from(whole) * u128::from(self.given) / u128::from(self.all);
        u64::try_from(part).unwrap_or(u64::MAX)
    }

    /// Parts that `bytes` take in a slot of `capacity` bytes; at least 1, at most the share.
    #[must_use]
    pub fn units_of(self, bytes: u64, capacity: u64) -> u32 {
        let units = (bytes * u64::from(self.all)).div_ceil(capacity.max(1));
        u32::try_from(units)
            .unwrap_or(u32::MAX)
            .clamp(1, self.given.max(1))
    }
}

/// A transport block in a HARQ process.
#[derive(Debug)]
pub struct Block {
    /// Its number, from 0, in the order in which blocks were built.
    pub number: u64,
    /// The HARQ process.
    pub process: u32,
    /// The slot of the first transmission.
    pub first: Slot,
    /// Transmissions so far.
    pub attempts: u32,
    /// What decides whether a transmission fails.
    pub errors: Errors,
    /// Bytes on air.
    pub bytes: u64,
    /// Symbols that a retransmission needs in its slot.
    pub symbols: u32,
    /// What it took of its first slot.
    pub resource: Resource,
    /// The share of its first slot on which its power was.
    pub share: Share,
    /// Its contents; none after it was received.
    pub chunks: Vec<Chunk>,
    /// Whether it was received, which the sender may not know.
    pub received: bool,
    /// When the receiver first got later data while this block was missing.
    pub noticed_ns: Option<u64>,
    /// Its next event.
    pub phase: Phase,
}

/// Resources that a block takes: parts of a slot times symbols. A retransmission takes as many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resource(u64);

impl Resource {
    /// `units` parts of a slot of `symbols` symbols.
    #[must_use]
    pub fn of(units: u32, symbols: u32) -> Self {
        Self(u64::from(units) * u64::from(symbols.max(1)))
    }

    /// Parts of a slot of `symbols` symbols; at least 1.
    #[must_use]
    pub fn units(self, symbols: u32) -> u32 {
        let units = self.0.div_ceil(u64::from(symbols.max(1)));
        u32::try_from(units).unwrap_or(u32::MAX).max(1)
    }
}

/// What decides whether a transmission of a block fails.
#[derive(Clone, Copy, Debug)]
pub enum Errors {
    /// The probability that the first transmission fails.
    Rate(f64),
    /// The SINR of each transmission.
    Sinr(Decoder),
}

/// The next event of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The end of decoding.
    Decoding {
        /// When.
        at_ns: u64,
        /// Whether decoding fails.
        failed: bool,
        /// Whether the sender takes it for the opposite.
        misheard: bool,
        /// When its process is free, or may send it again.
        then_ns: u64,
    },
    /// A slot for a retransmission, from this time on.
    Again {
        /// When.
        from_ns: u64,
    },
    /// Success; its process is free from this time on.
    Done {
        /// When.
        from_ns: u64,
    },
}

/// Part of a block.
#[derive(Clone, Copy, Debug)]
pub struct Chunk {
    /// Number of the first segment since the link began (COUNT in the standards).
    pub count: u64,
    /// Bytes on air, with the overhead of the lower layers.
    pub bytes: u64,
    /// From when on it may be sent.
    pub ready_ns: u64,
    /// The order of the block that HARQ gave up on, until later data has shown the gap to the receiver.
    pub unnoticed: Option<(u64, u32)>,
    /// Number of RLC retransmissions.
    pub retries: u8,
    /// Its kind.
    pub part: Part,
}

/// The kind of a chunk.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    /// Whole segments of one packet.
    Whole(Run),
    /// A piece of one segment, tracked in [`Cuts`].
    Piece,
}

/// Segments sent in pieces.
#[derive(Debug, Default)]
pub struct Cuts {
    open: Vec<Cut>,
}

#[derive(Debug)]
struct Cut {
    count: u64,
    run: Run,
    /// Pieces that have neither arrived nor been lost.
    pieces: u32,
    lost: bool,
}

impl Cuts {
    /// Removes up to `room` bytes from the first chunk of `source`, and splits a segment that fits only in part.
    /// A segment takes `overhead` more than its IP bytes.
    #[inline]
    pub fn take(
        &mut self,
        source: &mut VecDeque<Chunk>,
        room: u64,
        overhead: u32,
    ) -> Option<Chunk> {
        let rest = source.front_mut()?;
        if rest.bytes <= room {
            return source.pop_front();
        }
        if room == 0 {
            return None;
        }
        let mut front = *rest;
        if let Part::Whole(run) = &mut rest.part
            && run.count > 1
        {
            let each = u64::from(run.head_bytes() + overhead);
            let fitting = u16::try_from(room / each).unwrap_or(u16::MAX);
            let taken = fitting.clamp(1, run.count - 1);
            front.part = Part::Whole(run.split_front(taken));
            front.bytes = u64::from(taken) * each;
            rest.count += u64::from(taken);
            rest.bytes -= front.bytes;
            if fitting > 0 {
                return Some(front);
            }
            source.push_front(front);
        }
        source.front_mut().map(|segment| self.cut(segment, room))
    }

    /// Splits `room` bytes off `rest`, which is one segment or a piece of one.
    fn cut(&mut self, rest: &mut Chunk, room: u64) -> Chunk {
        match rest.part {
            Part::Whole(run) => self.open.push(Cut {
                count: rest.count,
                run,
                pieces: 2,
                lost: false,
            }),
            Part::Piece => {
                let cut = self.open.iter_mut().find(|cut| cut.count == rest.count);
                cut.expect("a piece belongs to a segment").pieces += 1;
            }
        }
        rest.part = Part::Piece;
        rest.bytes -= room;
        Chunk {
            bytes: room,
            ..*rest
        }
    }

    /// A piece of segment `count` arrived. Returns the segment if it is complete.
    pub fn arrived(&mut self, count: u64) -> Option<Run> {
        let cut = self.resolve(count)?;
        (!cut.lost).then_some(cut.run)
    }

    /// A piece of segment `count` is lost. Returns the segment if this is its first lost piece.
    pub fn lost(&mut self, count: u64) -> Option<Run> {
        let cut = self.open.iter_mut().find(|cut| cut.count == count)?;
        let first = !std::mem::replace(&mut cut.lost, true);
        let run = cut.run;
        self.resolve(count);
        first.then_some(run)
    }

    /// The segment `count`, while pieces of it are in flight or wait.
    pub fn segment(&self, count: u64) -> Option<Run> {
        let cut = self.open.iter().find(|cut| cut.count == count)?;
        Some(cut.run)
    }

    /// Removes segment `count` with all of its pieces; `None` if it was removed or is lost.
    pub fn take_out(&mut self, count: u64) -> Option<Run> {
        let place = self.open.iter().position(|cut| cut.count == count)?;
        let cut = self.open.swap_remove(place);
        (!cut.lost).then_some(cut.run)
    }

    /// Removes one piece; returns the entry if none is left.
    fn resolve(&mut self, count: u64) -> Option<Cut> {
        let place = self.open.iter().position(|cut| cut.count == count)?;
        self.open[place].pieces -= 1;
        (self.open[place].pieces == 0).then(|| self.open.swap_remove(place))
    }
}

impl Chunk {
    /// Appends the segments of `next` if they follow directly in the same packet.
    pub fn extend(&mut self, next: &Self) -> bool {
        let (Part::Whole(run), Part::Whole(more)) = (&mut self.part, &next.part) else {
            return false;
        };
        let follows = run.packet == more.packet
            && run.end() == more.first
            && self.count + u64::from(run.count) == next.count
            && self.retries == next.retries
            && run.last_bytes == run.segment_bytes
            && run.segment_bytes == more.segment_bytes
            && (run.ecn, run.flags, run.flow) == (more.ecn, more.flags, more.flow)
            && (run.flip, more.flip) == (0, 0);
        if follows {
            run.count += more.count;
            run.last_bytes = more.last_bytes;
            self.bytes += next.bytes;
        }
        follows
    }
}

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

/// The packets of the numbered segments that have not left the legs.
///
/// In a leg, the packet of a run is the COUNT of its first segment, less its index in the packet: so consecutive segments
/// have the same one and leave together, and the COUNT follows from the run.
#[derive(Debug, Default)]
pub struct Numbers {
    /// COUNT of the first.
    first: u64,
    packets: VecDeque<Option<u32>>,
}

impl Numbers {
    /// Numbers `run`; returns it as the legs know it.
    pub fn enter(&mut self, run: Run) -> Run {
        let count = self.first + self.packets.len() as u64;
        for _ in 0..run.count {
            self.packets.push_back(Some(run.packet));
        }
        Run {
            packet: low(count).wrapping_sub(run.first.into()),
            ..run
        }
    }

    /// COUNT of the first segment of a run in a leg.
    pub fn count(&self, run: &Run) -> u64 {
        let count = run.packet.wrapping_add(run.first.into());
        self.first + u64::from(count.wrapping_sub(low(self.first)))
    }

    /// The runs, packet by packet, of what a leg knows as `run`.
    pub fn known(&self, mut run: Run) -> Vec<Run> {
        let mut found = Vec::new();
        let mut place = usize::try_from(self.count(&run) - self.first).expect("it is in memory");
        while let Some(packet) = self.packets.get(place).copied() {
            let segments = self.packets.range(place..).take(run.count.into());
            let same = segments.take_while(|other| **other == packet).count();
            let length = u16::try_from(same).unwrap_or(run.count);
            let last = length == run.count;
            let front = if last { run } else { run.split_front(length) };
            found.extend(packet.map(|packet| Run { packet, ..front }));
            if last {
                break;
            }
            place += usize::from(length);
        }
        found
    }

    /// Removes the segments of `run`, which left a leg, and passes them to `put` packet by packet with their COUNT.
    pub fn leave(&mut self, mut run: Run, mut put: impl FnMut(u64, Run)) {
        let mut count = self.count(&run);
        loop {
            let place = usize::try_from(count - self.first).expect("it is in memory");
            let packet = self.packets[place];
            let segments = self.packets.range_mut(place..).take(run.count.into());
            let same = segments.take_while(|other| **other == packet);
            let length = same.fold(0, |length, segment| {
                *segment = None;
                length + 1
            });
            let packet = packet.expect("a segment leaves once");
            if length == run.count {
                put(count, Run { packet, ..run });
                break;
            }
            let front = run.split_front(length);
            put(count, Run { packet, ..front });
            count += u64::from(length);
        }
        while let Some(None) = self.packets.front() {
            self.packets.pop_front();
            self.first += 1;
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the low bits are enough for what is in memory"
)]
const fn low(count: u64) -> u32 {
    count as u32
}

// Whether a block is decoded: the information of its transmissions against what it needs.
//
// `docs/models/radio.md` has the model and its sources.

/// The channel code of a carrier.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    serde::Deserialize,
    serde::Serialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Code {
    /// LDPC, of NR (TS 38.212, clause 5.3.2).
    #[default]
    Ldpc,
    /// The turbo code of LTE (TS 36.212, clause 5.1.3.2).
    Turbo,
}

impl Code {
    /// Bits of the largest code block (TS 38.212, clause 5.2.2; TS 36.212, clause 5.1.2).
    const fn largest_bits(self) -> f64 {
        match self {
            Self::Ldpc => 8448.0,
            Self::Turbo => 6144.0,
        }
    }

    /// The circular buffer of a block of `bits` with code rate `rate` (TS 38.212, clauses 5.4.2.1 and 7.2.2; TS 36.212,
    /// clause 5.1.4.1.2): the rate of the mother code, and where the redundancy versions 0, 2, 3 and 1 begin.
    fn buffer(self, bits: f64, rate: f64) -> (f64, [f64; 4]) {
        let second_graph = bits <= 292.0 || (bits <= 3824.0 && rate <= 0.67) || rate <= 0.25;
        match self {
            Self::Turbo => (1.0 / 3.0, [0.0, 0.5, 0.75, 0.25]),
            Self::Ldpc if second_graph => (1.0 / 5.0, [0.0, 25.0 / 50.0, 43.0 / 50.0, 13.0 / 50.0]),
            Self::Ldpc => (1.0 / 3.0, [0.0, 33.0 / 66.0, 56.0 / 66.0, 17.0 / 66.0]),
        }
    }
}

/// SNR that real codes need beyond capacity, as a ratio: 1.5 dB, the mean over the MCS of TS 38.214.
const GAP: f64 = 1.412_537_544_622_754_4;
/// Standard deviation of what the SINR of a slot does not say, as in `wavebed.channel.transport_formats`.
const SPREAD_DB: f64 = 0.5;
/// A normal variable exceeds it with probability 0.1.
const Z: f64 = 1.281_551_565_544_600_4;
/// Slope at that point of the logit of a normal distribution with standard deviation 1.
const LOGIT_SLOPE: f64 = 1.949_981_465_916_520_7;
/// The efficiencies, bits per symbol, up to which the MCS of TS 38.214 use 2, 4 and 6 bits of a symbol.
const MODULATIONS: [(f64, f64); 4] = [(1.2, 2.0), (2.5, 4.0), (5.85, 6.0), (f64::INFINITY, 8.0)];
/// No MCS has a higher code rate (TS 38.214, clause 5.1.3).
const HIGHEST_RATE: f64 = 0.95;

/// The receiver of one block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decoder {
    /// SINR at which the first transmission of this block fails with probability 0.1.
    need_db: f64,
    slope_per_db: f64,
    /// Transmissions that the circular buffer holds, at least 1.
    buffer: f64,
    /// Where in it the redundancy versions begin, in transmissions, in the order in which they are sent.
    starts: [f64; 4],
    /// SNR of each redundancy version, summed over its transmissions.
    snr: [f64; 4],
}

impl Decoder {
    /// The receiver of a block of `bytes`, where blocks of `full_bytes` with its MCS need `need_db`.
    #[must_use]
    pub fn new(code: Code, need_db: f64, bytes: u64, full_bytes: u64) -> Self {
        let bits = bits_of(bytes);
        let need = ratio(need_db);
        let efficiency = information(need) / LN_2;
        let bits_of_symbol = MODULATIONS
            .iter()
            .find(|&&(most, _)| efficiency < most)
            .map_or(8.0, |&(_, bits)| bits);
        let rate = (efficiency / bits_of_symbol).min(HIGHEST_RATE);
        let (mother_rate, starts) = code.buffer(bits, rate);
        let buffer = (rate / mother_rate).max(1.0);
        let largest = code.largest_bits();
        let own_db = code_db(need, bits.min(largest));
        let full_db = code_db(need, bits_of(full_bytes).max(bits).min(largest));
        Self {
            need_db: need_db + Z * (own_db - full_db),
            slope_per_db: LOGIT_SLOPE / own_db.hypot(SPREAD_DB),
            buffer,
            starts: starts.map(|start| start * buffer),
            snr: [0.0; 4],
        }
    }

    /// Receives transmission number `attempt` (from 1), sent with `sinr_db`. Returns the probability that decoding
    /// fails.
    pub fn receive(&mut self, attempt: u32, sinr_db: f64) -> f64 {
        self.snr[(attempt as usize).wrapping_sub(1) % 4] += ratio(sinr_db);
        let equivalent_db = if attempt == 1 {
            sinr_db
        } else {
            10.0 * (GAP * self.gathered().exp_m1()).log10()
        };
        1.0 / (1.0 + 9.0 * (self.slope_per_db * (equivalent_db - self.need_db)).exp())
    }

    /// Information of all transmissions, nats per symbol of one: bits that were sent once carry the information of their SNR,
    /// bits that were sent several times carry the information of the sum.
    fn gathered(&self) -> f64 {
        let ends = self.starts.map(|start| (start + 1.0) % self.buffer);
        let mut edges = [self.buffer; 9];
        edges[..4].copy_from_slice(&self.starts);
        edges[4..8].copy_from_slice(&ends);
        edges.sort_by(f64::total_cmp);
        let mut from = 0.0;
        let mut nats = 0.0;
        for to in edges {
            let middle = f64::midpoint(from, to);
            let covers = |start: f64| (middle - start).rem_euclid(self.buffer) < 1.0;
            let versions = self.starts.iter().zip(self.snr);
            let snr: f64 = versions
                .filter(|&(&start, _)| covers(start))
                .map(|(_, snr)| snr)
                .sum();
            nats += (to - from) * information(snr);
            from = to;
        }
        nats
    }
}

/// Information of a symbol at `snr`, nats.
pub(super) fn information(snr: f64) -> f64 {
    (snr / GAP).ln_1p()
}

/// Standard deviation, in decibels, of the SNR at which a code of `bits` fails that needs `snr` (Polyanskiy, Poor,
/// Verdú 2010).
fn code_db(snr: f64, bits: f64) -> f64 {
    let symbols = bits * LN_2 / information(snr);
    let dispersion = snr * (snr + 2.0) / (1.0 + snr).powi(2);
    let capacity_per_db = snr / (1.0 + snr) * std::f64::consts::LN_10 / 10.0;
    (dispersion / symbols).sqrt() / capacity_per_db
}

pub(super) fn ratio(decibels: f64) -> f64 {
    10f64.powf(decibels / 10.0)
}

#[expect(clippy::cast_precision_loss, reason = "blocks are short")]
fn bits_of(bytes: u64) -> f64 {
    8.0 * bytes as f64
}
