//! The medium of 802.11ad over time: airtime of aggregates, outages, frame errors. One station of a hop sends at a time.

use std::sync::Arc;

use crate::pattern::{Clock, Cursor, End, Pattern, Playback};
use crate::random_stream::{Chance, RandomStream};
use crate::rate::Profile;
use crate::stage::Change;

/// Settings of a [`Wifi`] stage, beside its queue, rate and errors.
#[derive(Clone, Copy, Debug)]
pub struct WifiSettings {
    /// Bytes of an aggregate at most, [`WifiSettings::overhead_bytes`] included. At least one frame of
    /// the MTU.
    pub aggregate_bytes: u32,
    /// Frames of an aggregate at most, and the window of the block acknowledgement. At least 1.
    pub aggregate_frames: usize,
    /// Airtime of an aggregate beside its bytes: preamble, interframe spaces, block acknowledgement.
    pub overhead_ns: u64,
    /// Retransmissions of a frame before it is given up.
    pub retries: u32,
    /// Bytes of a frame beyond the IP bytes of its packet.
    pub overhead_bytes: u32,
    /// The largest packet, IP bytes.
    pub mtu_bytes: u32,
}

impl WifiSettings {
    /// The bytes of a full aggregate: as many frames of the largest packet as it can hold.
    #[must_use]
    pub fn full_bytes(&self) -> u64 {
        let frame_bytes = u64::from(self.mtu_bytes) + u64::from(self.overhead_bytes);
        let by_bytes = u64::from(self.aggregate_bytes) / frame_bytes;
        by_bytes.clamp(1, self.aggregate_frames as u64) * frame_bytes
    }

    /// The rate at which the overhead takes all the time of full aggregates, bits per second, rounded down; `u64::MAX`
    /// without overhead. It bounds the throughput.
    #[must_use]
    pub fn most_bps(&self) -> u64 {
        let bits = u128::from(self.full_bytes()) * 8_000_000_000;
        let rate = bits.checked_div(u128::from(self.overhead_ns));
        rate.map_or(u64::MAX, |rate| u64::try_from(rate).unwrap_or(u64::MAX))
    }
}

const NANOBITS_PER_BYTE: u128 = 8_000_000_000;

/// Airtime of aggregates at one rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Airtime {
    overhead_ns: u64,
    /// Time of a byte, nanoseconds, as a fraction.
    byte_time: u128,
    divisor: u128,
}

impl Airtime {
    /// Full aggregates have the throughput `rate_bps`, which is above zero: the time of a byte is `8 / rate - overhead
    /// / full`, or zero where that is negative.
    pub(super) fn new(settings: &WifiSettings, rate_bps: u64) -> Self {
        let full_bytes = u128::from(settings.full_bytes());
        let rate = u128::from(rate_bps);
        let whole = full_bytes * NANOBITS_PER_BYTE;
        Self {
            overhead_ns: settings.overhead_ns,
            byte_time: whole.saturating_sub(u128::from(settings.overhead_ns) * rate),
            divisor: full_bytes * rate,
        }
    }

    /// From the start of an aggregate until its first `bytes` are out, nanoseconds, rounded up.
    pub(super) fn of(&self, bytes: u64) -> u64 {
        let payload = (u128::from(bytes) * self.byte_time).div_ceil(self.divisor);
        u64::try_from(payload)
            .unwrap_or(u64::MAX)
            .saturating_add(self.overhead_ns)
    }
}

/// The probability over time that a frame fails.
#[derive(Clone, Debug)]
pub enum Bler {
    /// Constant, 0 to 1.
    Constant(f64),
    /// The `bler` of the pattern that gives the rate; 0 where there is none.
    OfPattern(Option<Cursor>),
}

impl Bler {
    /// The `bler` of `pattern` played from its time `start_ns` on, which is the virtual time `origin_ns`.
    #[must_use]
    pub fn of(pattern: &Arc<Pattern>, end: End, start_ns: u64, origin_ns: u64) -> Self {
        Self::play(&Playback {
            pattern: pattern.clone(),
            end,
            clock: Clock::new(start_ns, origin_ns),
        })
    }

    pub(super) fn play(playback: &Playback) -> Self {
        let cursor = || Cursor::of(playback.clone());
        Self::OfPattern(playback.pattern.bler().is_some().then(cursor))
    }

    pub(super) fn chance(&mut self, at_ns: u64) -> Chance {
        let probability = match self {
            Self::Constant(probability) => Some(*probability),
            Self::OfPattern(None) => None,
            Self::OfPattern(Some(cursor)) => cursor
                .seek(at_ns)
                .and_then(|row| cursor.pattern().bler().map(|bler| bler[row])),
        };
        Chance::new(probability.unwrap_or(0.0))
    }
}

/// The rate and the errors over time.
#[derive(Debug)]
pub(super) struct Air {
    rate: Profile,
    bler: Bler,
    /// A copy of the rate for the search of the next outage.
    ahead: Profile,
    /// The earliest outage at or after the last queried time.
    outage_ns: Option<u64>,
    random: RandomStream,
    /// The microsecond in which the last frame ended, and the number of the frame among those that ended in it.
    last_us: u64,
    ordinal: u64,
}

impl Air {
    pub(super) fn new(rate: Profile, bler: Bler, random: RandomStream) -> Self {
        let mut ahead = rate.clone();
        let outage_ns = ahead.next_outage(0);
        Self {
            rate,
            bler,
            ahead,
            outage_ns,
            random,
            last_us: u64::MAX,
            ordinal: 0,
        }
    }

    /// Applies a live change at `at_ns`.
    pub(super) fn change(&mut self, at_ns: u64, change: &Change) {
        let end = self.rate.end();
        let (rate, bler) = if let Change::RateBps(rate_bps) = change {
            (Some(Profile::constant(*rate_bps)), Bler::OfPattern(None))
        } else {
            let Some(playback) = change.playback(at_ns, end) else {
                return;
            };
            let bler = Bler::play(&playback);
            (Profile::play(playback), bler)
        };
        let Some(rate) = rate else { return };
        self.ahead = rate.clone();
        self.rate = rate;
        self.outage_ns = self.ahead.next_outage(at_ns);
        if let Bler::OfPattern(_) = self.bler {
            self.bler = bler;
        }
    }

    pub(super) fn profile(&self) -> Profile {
        self.rate.clone()
    }

    pub(super) fn end_ns(&self) -> Option<u64> {
        self.rate.end_ns()
    }

    /// The earliest time at or after `at_ns` with a rate above zero.
    pub(super) fn next_service(&mut self, at_ns: u64) -> Option<u64> {
        self.rate.next_service(at_ns)
    }

    /// The airtimes and the error probability of an aggregate that starts at `start_ns`, with a rate above zero.
    pub(super) fn start(&mut self, settings: &WifiSettings, start_ns: u64) -> (Airtime, Chance) {
        let airtime = Airtime::new(settings, self.rate.rate_at(start_ns));
        (airtime, self.bler.chance(start_ns))
    }

    /// The earliest time at or after `at_ns` with rate zero; `at_ns` never goes back.
    pub(super) fn next_outage(&mut self, at_ns: u64) -> Option<u64> {
        if self.outage_ns.is_some_and(|outage_ns| outage_ns < at_ns) {
            self.outage_ns = self.ahead.next_outage(at_ns);
        }
        self.outage_ns
    }

    /// Whether the frame fails that ends at `sent_ns`, which never goes back.
    pub(super) fn fails(&mut self, chance: Chance, sent_ns: impl FnOnce() -> u64) -> bool {
        if let Some(certain) = chance.certainty() {
            return certain;
        }
        let microsecond = sent_ns() / 1000;
        self.ordinal = if microsecond == self.last_us {
            self.ordinal + 1
        } else {
            0
        };
        self.last_us = microsecond;
        chance.hits(self.random.process(self.ordinal), microsecond)
    }
}
