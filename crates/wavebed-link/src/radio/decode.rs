//! Whether a block is decoded: the information of its transmissions against what it needs.
//!
//! `docs/models/harq-rlc.md` has the model and its sources.

use std::f64::consts::LN_2;

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

    /// Information of all transmissions, nats per symbol of one: bits that were sent once carry that of their SNR,
    /// bits that were sent several times that of the sum.
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
fn information(snr: f64) -> f64 {
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

fn ratio(decibels: f64) -> f64 {
    10f64.powf(decibels / 10.0)
}

#[expect(clippy::cast_precision_loss, reason = "blocks are short")]
fn bits_of(bytes: u64) -> f64 {
    8.0 * bytes as f64
}
