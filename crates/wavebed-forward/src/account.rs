//! The frame counters of a receiving port.
//!
//! How a frame is classed, in this order, by every receiver alike:
//!
//! 1. What [`crate::frame::read`] takes for no test frame is `foreign`.
//! 2. Another trial than the one that is counted: `other_trial`.
//! 3. Its UDP payload has not the length of the row of its number ([`crate::frame::Header::payload_length`] of
//!    [`crate::frame::Frames::row`]): `damaged`. So is a super-packet.
//! 4. A number [`WINDOW`] or more below the highest so far: `stale`.
//! 5. A number that was seen: `duplicates`; else `unique`, and `reordered` if a greater number of its flow
//!    (`number % flows`) came before.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use crate::frame::{FCS_BYTES, Frames, Stamp, read};
use crate::histogram::Histogram;

/// How far back a duplicate is recognised: frames of one trial.
pub const WINDOW: u64 = 1 << 20;

/// Frames that came in since the trial started. Every frame that the port saw is in exactly one of `unique`, `duplicates`,
/// `stale`, `other_trial`, `damaged` and `foreign`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FrameCounters {
    /// Frames of this trial, each number once.
    pub unique: u64,
    /// Frames of this trial that had come before.
    pub duplicates: u64,
    /// Of `unique`: those with a smaller number than one of the same flow that came before (RFC 4737).
    pub reordered: u64,
    /// Frames of this trial [`WINDOW`] or more numbers late: new or again, nobody knows.
    pub stale: u64,
    /// Frames of another trial: most often the one before.
    pub other_trial: u64,
    /// Frames of this trial whose UDP payload has not the length of their number's.
    pub damaged: u64,
    /// Everything else: ARP, neighbour discovery, spanning tree, a device that talks.
    pub foreign: u64,
    /// Test frames (`unique`, `duplicates`, `stale`, `damaged`) by size with FCS as it crossed the port: a super-packet is one.
    pub sizes: BTreeMap<u32, u64>,
    /// When the first and the last test frame came, monotonic, nanoseconds.
    pub first_ns: Option<u64>,
    /// See `first_ns`.
    pub last_ns: Option<u64>,
    /// Counts of the delay's histogram, by bucket (see [`crate::histogram`]); empty ones are left out.
    pub latency: BTreeMap<u32, u64>,
    /// The least and the greatest delay, nanoseconds.
    pub latency_min_ns: Option<u64>,
    /// See `latency_min_ns`.
    pub latency_max_ns: Option<u64>,
    /// Frames that the receiver itself lost, when it can know: a full ring.
    pub receiver_lost: u64,
    /// The first frames, as they crossed the port.
    pub sample: Vec<Sample>,
}

/// A frame that was kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sample {
    /// When it came, monotonic, nanoseconds.
    pub time_ns: u64,
    /// Bytes without FCS as it crossed the port.
    pub length: u32,
    /// Its first bytes, in hexadecimal.
    pub hex: String,
}

/// So much of a sampled frame is kept, bytes: all headers, the stamp, and some of what follows.
pub const SAMPLE_BYTES: usize = 128;

/// Counts the frames of a trial in user space.
#[derive(Clone, Debug)]
pub struct Accounts {
    frames: Frames,
    trial: u16,
    sample: usize,
    counters: FrameCounters,
    sizes: BTreeMap<u32, u64>,
    latency: Histogram,
    window: Window,
    /// By flow, one more than its greatest number so far.
    ahead: Vec<u64>,
}

impl Accounts {
    /// Counters at zero: `frames` of trial `trial` are expected; the first `sample` test frames are kept.
    #[must_use]
    pub fn new(frames: &Frames, trial: u16, sample: u32) -> Self {
        Self {
            trial,
            sample: sample as usize,
            counters: FrameCounters::default(),
            sizes: BTreeMap::new(),
            latency: Histogram::default(),
            window: Window::default(),
            ahead: vec![0; frames.flows()],
            frames: frames.clone(),
        }
    }

    /// Counts a frame that came in at `now_ns` (monotonic). `bytes` is the frame from its first MAC address on, and may be
    /// cut short after the stamp. `length` is the length of the whole frame as it crossed the port: without FCS, with
    /// the VLAN tag even where the kernel has taken it out of `bytes`.
    ///
    /// # Panics
    /// Never: 4 is short.
    pub fn see(&mut self, bytes: &[u8], length: u32, now_ns: u64) {
        let Some(seen) = read(bytes) else {
            self.counters.foreign += 1;
            return;
        };
        if seen.stamp.trial != self.trial {
            self.counters.other_trial += 1;
            return;
        }
        let size = length + u32::try_from(FCS_BYTES).expect("4");
        *self.sizes.entry(size).or_default() += 1;
        self.counters.first_ns.get_or_insert(now_ns);
        self.counters.last_ns = Some(now_ns);
        if self.counters.sample.len() < self.sample {
            self.counters.sample.push(Sample {
                time_ns: now_ns,
                length,
                hex: hexadecimal(&bytes[..bytes.len().min(SAMPLE_BYTES)]),
            });
        }
        let Stamp {
            number, time_ns, ..
        } = seen.stamp;
        if seen.payload_length != self.frames.row(number).payload_length() {
            self.counters.damaged += 1;
            return;
        }
        match self.window.enter(number) {
            Entry::New => self.new_frame(number, now_ns.saturating_sub(time_ns)),
            Entry::Again => self.counters.duplicates += 1,
            Entry::TooOld => self.counters.stale += 1,
        }
    }

    fn new_frame(&mut self, number: u64, delay_ns: u64) {
        self.counters.unique += 1;
        self.latency.add(delay_ns);
        let flow = number % self.ahead.len() as u64;
        #[expect(clippy::cast_possible_truncation, reason = "below a number of flows")]
        let ahead = &mut self.ahead[flow as usize];
        if number < *ahead {
            self.counters.reordered += 1;
        } else {
            *ahead = number + 1;
        }
    }

    /// Counts frames that the receiver knows it has lost.
    pub fn lose(&mut self, frames: u64) {
        self.counters.receiver_lost += frames;
    }

    /// The counters so far.
    #[must_use]
    pub fn counters(&self) -> FrameCounters {
        let range = self.latency.range();
        FrameCounters {
            sizes: self.sizes.clone(),
            latency: self.latency.counts(),
            latency_min_ns: range.map(|(least, _)| least),
            latency_max_ns: range.map(|(_, greatest)| greatest),
            ..self.counters.clone()
        }
    }
}

/// Bytes in hexadecimal.
#[must_use]
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

enum Entry {
    New,
    Again,
    TooOld,
}

const WORDS: usize = (WINDOW / 64) as usize;

/// Which of the last [`WINDOW`] numbers were seen.
#[derive(Clone, Debug)]
struct Window {
    /// One bit for each number, modulo [`WINDOW`].
    seen: Box<[u64]>,
    /// One more than the highest number so far.
    end: u64,
}

impl Default for Window {
    fn default() -> Self {
        Self {
            seen: vec![0; WORDS].into_boxed_slice(),
            end: 0,
        }
    }
}

impl Window {
    fn enter(&mut self, number: u64) -> Entry {
        if number + WINDOW < self.end {
            return Entry::TooOld;
        }
        self.advance(number + 1);
        let (word, bit) = Self::place(number);
        if self.seen[word] & bit != 0 {
            return Entry::Again;
        }
        self.seen[word] |= bit;
        Entry::New
    }

    /// Makes room up to `end`: forgets those whose places the new numbers take.
    fn advance(&mut self, end: u64) {
        if end > self.end + WINDOW {
            self.seen.fill(0);
            self.end = end;
        }
        while self.end < end {
            let (word, bit) = Self::place(self.end);
            if bit == 1 && self.end + 64 <= end {
                self.seen[word] = 0;
                self.end += 64;
            } else {
                self.seen[word] &= !bit;
                self.end += 1;
            }
        }
    }

    const fn place(number: u64) -> (usize, u64) {
        let place = number % WINDOW;
        ((place / 64) as usize, 1 << (place % 64))
    }
}
