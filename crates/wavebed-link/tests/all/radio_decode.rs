//! Decoding of blocks by SINR: against a receiver that counts every bit of the circular buffer, and on the link.

use proptest::prelude::*;

use crate::radio_support::{burst, decoded, drive, harq, plain, radio, segment, sinr_air, slots};
use wavebed_link::Run;
use wavebed_link::radio::{Carriers, Code, Decoder, Harq, RadioConfig, Slots};

/// More bytes than the largest code block has.
const LARGE: u64 = 100_000;

fn ratio(decibels: f64) -> f64 {
    10f64.powf(decibels / 10.0)
}

/// Probability that the last of the transmissions with `sinrs_db` fails.
fn failure(code: Code, need_db: f64, bytes: u64, sinrs_db: &[f64]) -> f64 {
    let mut decoder = Decoder::new(code, need_db, bytes, LARGE);
    let each = (1u32..).zip(sinrs_db);
    each.map(|(attempt, &sinr_db)| decoder.receive(attempt, sinr_db))
        .last()
        .expect("there is a transmission")
}

/// A circular buffer, bit by bit, as TS 38.212 5.4.2.1 and TS 36.212 5.1.4.1.2 fill and read it, and the capacity of
/// each bit's energy.
struct Buffer {
    bits: usize,
    /// Bits of a transmission.
    sent: usize,
    starts: [usize; 4],
}

impl Buffer {
    /// A block of `information_bits` and code rate `rate`; `columns` is the length of the buffer and `starts` the first
    /// columns of redundancy versions 0, 1, 2 and 3, in units of the lifting size.
    fn new(information_bits: usize, rate: f64, mother_rate: f64, starts: [f64; 4]) -> Self {
        let bits = (information_bits as f64 / mother_rate).round() as usize;
        Self {
            bits,
            sent: (information_bits as f64 / rate).round() as usize,
            starts: starts.map(|start| (start * bits as f64).round() as usize),
        }
    }

    /// Information of these transmissions, as multiples of one symbol's, nats.
    fn gathered(&self, snrs: &[f64]) -> f64 {
        let mut energy = vec![0.0; self.bits];
        for (attempt, snr) in snrs.iter().enumerate() {
            let start = self.starts[[0, 2, 3, 1][attempt % 4]];
            for bit in start..start + self.sent {
                energy[bit % self.bits] += snr / ratio(1.5);
            }
        }
        energy
            .iter()
            .map(|&snr: &f64| (1.0 + snr).ln())
            .sum::<f64>()
            / self.sent as f64
    }

    /// SNR of a single transmission with the information of these, dB.
    fn equivalent_db(&self, snrs: &[f64]) -> f64 {
        let wanted = self.gathered(snrs);
        let (mut low, mut high) = (-100.0, 200.0);
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            if self.gathered(&[ratio(middle)]) < wanted {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }
}

/// The logit of the error rate, from what `wavebed.channel.transport_formats` says about a code of 10 % at `need_db`.
fn logit(above_db: f64, need_db: f64, bits: f64) -> f64 {
    let snr = ratio(need_db);
    let efficiency = (1.0 + ratio(need_db - 1.5)).log2();
    let symbols = bits / efficiency;
    let bits_of_nat = std::f64::consts::LOG2_E;
    let dispersion = snr * (snr + 2.0) / (1.0 + snr).powi(2) * bits_of_nat.powi(2);
    let capacity = |db: f64| (1.0 + ratio(db)).log2();
    let per_db = (capacity(need_db + 1e-4) - capacity(need_db - 1e-4)) / 2e-4;
    let code_db = (dispersion / symbols).sqrt() / per_db;
    let z = 1.281_551_565_5_f64;
    let density = (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    -(9f64.ln()) - above_db * density / 0.09 / (code_db.powi(2) + 0.25).sqrt()
}

fn logit_of(probability: f64) -> f64 {
    (probability / (1.0 - probability)).ln()
}

#[test]
fn a_first_transmission_fails_as_the_curve_of_link_adaptation_says() {
    for code in [Code::Ldpc, Code::Turbo] {
        let bits = if code == Code::Ldpc { 8448.0 } else { 6144.0 };
        for need_db in [-6.7, -2.8, 0.45, 7.9, 13.4, 19.0, 24.6] {
            assert!((failure(code, need_db, LARGE, &[need_db]) - 0.1).abs() < 1e-12);
            for above_db in [-6.0, -3.2, -2.5, -1.0, 0.5, 1.0, 3.0] {
                let found = logit_of(failure(code, need_db, LARGE, &[need_db + above_db]));
                let expected = logit(above_db, need_db, bits);
                assert!(
                    (found - expected).abs() < 1e-4,
                    "{need_db} {above_db}: {found}, not {expected}"
                );
                // 3.8 per decibel, and 1 not before 9 dB.
                assert!(
                    (found + 2.197 + 3.8 * above_db).abs() < 0.02 * above_db.abs() * 3.8 + 1e-3
                );
            }
        }
    }
    assert!(failure(Code::Ldpc, 10.0, LARGE, &[1.0]) < 1.0);
}

#[test]
fn transmissions_add_up_as_the_bits_of_the_circular_buffer_do() {
    // Need in dB, code rate (by the efficiency that it allows, and the modulation), code, bytes, mother rate, starts.
    let graph_1 = [0.0, 17.0 / 66.0, 33.0 / 66.0, 56.0 / 66.0];
    let graph_2 = [0.0, 13.0 / 50.0, 25.0 / 50.0, 43.0 / 50.0];
    let turbo = [0.0, 0.25, 0.5, 0.75];
    let third = 1.0 / 3.0;
    let cases = [
        (18.35, 6.0, Code::Ldpc, LARGE, third, graph_1),
        (13.4, 6.0, Code::Ldpc, LARGE, third, graph_1),
        (9.0, 6.0, Code::Ldpc, LARGE, third, graph_1),
        (4.2, 4.0, Code::Ldpc, LARGE, third, graph_1),
        (-0.5, 2.0, Code::Ldpc, LARGE, third, graph_1),
        (2.0, 2.0, Code::Ldpc, 400, 0.2, graph_2),
        (13.4, 6.0, Code::Ldpc, 30, 0.2, graph_2),
        (-5.4, 2.0, Code::Ldpc, LARGE, 0.2, graph_2),
        (24.0, 8.0, Code::Turbo, LARGE, third, turbo),
        (6.3, 4.0, Code::Turbo, LARGE, third, turbo),
        (-4.0, 2.0, Code::Turbo, LARGE, third, turbo),
    ];
    let courses: [&[f64]; 7] = [
        &[-2.5, -2.5],
        &[-6.0, -6.0, -6.0],
        &[-9.0, -9.0, -9.0, -9.0],
        &[-3.0, -12.0, -4.0],
        &[-20.0, -1.0],
        &[-8.0, -8.0, -8.0, -8.0, -8.0, -8.0],
        &[-12.0, -7.0, -9.5, -8.0],
    ];
    for (need_db, symbol_bits, code, bytes, mother_rate, starts) in cases {
        let rate = (1.0 + ratio(need_db - 1.5)).log2() / symbol_bits;
        let buffer = Buffer::new(8448, rate.min(0.95), mother_rate, starts);
        for course in courses {
            let sinrs_db: Vec<f64> = course.iter().map(|above_db| need_db + above_db).collect();
            let snrs: Vec<f64> = sinrs_db.iter().map(|&db| ratio(db)).collect();
            let one = failure(code, need_db, bytes, &[buffer.equivalent_db(&snrs)]);
            let all = failure(code, need_db, bytes, &sinrs_db);
            if rate > mother_rate {
                // A bit of 8448 more or less.
                let tolerance = 0.02 + 0.002 * logit_of(one).abs();
                assert!(
                    (logit_of(all) - logit_of(one)).abs() < tolerance,
                    "{need_db} {course:?}: {all}, not {one}"
                );
            } else {
                // Each transmission has every bit: their SNR adds up.
                let sum_db = 10.0 * snrs.iter().sum::<f64>().log10();
                let chase = failure(code, need_db, bytes, &[sum_db]);
                assert!(
                    (logit_of(all) - logit_of(chase)).abs() < 1e-6,
                    "{need_db} {course:?}"
                );
            }
        }
    }
}

#[test]
fn two_transmissions_need_what_the_tables_say_of_half_the_code_rate() {
    // From the LDPC curves of link adaptation, interpolated: SNR of an MCS and of half its code rate with the same
    // modulation. 64QAM 948, 910 and 873, 16QAM 658, QPSK 679 of 1024.
    for (need_db, half_db) in [
        (19.0, 9.8),
        (18.35, 9.36),
        (17.1, 8.7),
        (7.9, 2.6),
        (2.5, -1.8),
    ] {
        let (mut low, mut high) = (-20.0, 30.0);
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            if failure(Code::Ldpc, need_db, LARGE, &[middle, middle]) > 0.1 {
                low = middle;
            } else {
                high = middle;
            }
        }
        let difference_db: f64 = low - half_db;
        assert!(
            difference_db.abs() < 0.55,
            "{need_db}: {low}, not {half_db}"
        );
    }
}

#[test]
fn a_second_transmission_of_a_block_2_5_db_too_fast_fails_once_in_sixty_at_most() {
    // A code that has no new bits: 3 dB more. With new bits it is better still.
    let chase = failure(Code::Turbo, -4.0, LARGE, &[-6.5, -6.5]);
    assert!((chase / 0.016 - 1.0).abs() < 0.05, "{chase}");
    for need_db in [0.0, 5.0, 10.0, 15.0, 20.0] {
        let too_low_db = need_db - 2.5;
        let second = failure(Code::Ldpc, need_db, LARGE, &[too_low_db, too_low_db]);
        assert!(second < chase, "{need_db}: {second}");
    }
}

#[test]
fn a_small_block_has_a_flatter_curve_and_needs_more() {
    let full = Decoder::new(Code::Ldpc, 7.9, LARGE, LARGE).receive(1, 7.9);
    assert!((full - 0.1).abs() < 1e-12);
    let small = failure(Code::Ldpc, 7.9, 52, &[7.9]);
    assert!(small > 0.2, "{small}");
    // Its 10 % point is where the normal approximation has it: 1.28 times the difference of the deviations.
    let deviation_db = |bits: f64| {
        let slope = -(logit(1.0, 7.9, bits) + 9f64.ln());
        ((1.949_98 / slope).powi(2) - 0.25).sqrt()
    };
    let shift_db = 1.281_55 * (deviation_db(8.0 * 52.0) - deviation_db(8448.0));
    assert!((0.2..0.6).contains(&shift_db), "{shift_db}");
    let shifted = failure(Code::Ldpc, 7.9, 52, &[7.9 + shift_db]);
    assert!((shifted - 0.1).abs() < 1e-4, "{shifted}");
    // Where all blocks of the rate are small, the need is a small block's.
    let alone = Decoder::new(Code::Ldpc, 7.9, 52, 52).receive(1, 7.9);
    assert!((alone - 0.1).abs() < 1e-12, "{alone}");
}

fn with(code: Code, limit: u32) -> RadioConfig {
    let harq = Some(Harq { limit, ..harq() });
    let primary = Slots {
        code,
        harq,
        ..slots()
    };
    let fallback = None;
    RadioConfig {
        carriers: Carriers { primary, fallback },
        ..plain()
    }
}

/// Bursts that fill a slot, every second millisecond: retransmissions are out of the way.
fn bursts(count: u32) -> Vec<Run> {
    (0..count * 8)
        .map(|packet| segment(u64::from(packet / 8) * 2_000_000 + 10, packet))
        .collect()
}

#[test]
fn blocks_are_lost_as_often_as_the_sums_of_their_snr_say() {
    // One hundred thousand code bits say -4 dB: a turbo code has no new bits then, so that SNR adds up. 3.86 per
    // decibel; the largest code block of LTE.
    let count = 4000;
    for below_db in [2.5, 3.2, 6.0] {
        let row = format!("0,768000000,{},-4", -4.0 - below_db);
        let air = sinr_air("1", &[&row]);
        let outcome = drive(
            &mut radio(with(Code::Turbo, 4), air),
            &bursts(count),
            1 << 45,
        );
        let mut reaching = f64::from(count);
        for attempt in 1..=4u32 {
            let above_db = 10.0 * f64::from(attempt).log10() - below_db;
            let p = 1.0 / (1.0 + (-logit(above_db, -4.0, 6144.0)).exp());
            let made = outcome
                .blocks
                .iter()
                .filter(|block| block.attempt == attempt);
            let (sent, failed) = made.fold((0, 0), |(sent, failed), block| {
                (sent + 1, failed + u32::from(block.failed))
            });
            let five_sigma = 5.0 * (f64::from(sent) * p * (1.0 - p)).sqrt() + 1.0;
            let expected = f64::from(sent) * p;
            assert!(
                (f64::from(failed) - expected).abs() < five_sigma,
                "{below_db} dB, {attempt}: {failed} of {sent}, not {expected}"
            );
            reaching *= p;
        }
        let lost = outcome.lost.len() as f64 / 8.0;
        assert!(
            lost <= 2.0 * reaching + 5.0 && lost >= reaching / 2.0 - 5.0,
            "{below_db} dB: {lost} blocks, not {reaching}"
        );
    }
}

#[test]
fn a_retransmission_in_a_recovered_sinr_succeeds() {
    // 20 dB too little in slot 2 only; its retransmission in slot 6 meets 3 dB more than it needs.
    let rows = [
        "0,768000000,20,17",
        "0.00025,768000000,-3,17",
        "0.000375,768000000,20,17",
    ];
    let outcome = drive(
        &mut radio(with(Code::Ldpc, 2), sinr_air("1", &rows)),
        &burst(10, 24),
        5_000_000,
    );
    let second: Vec<(u64, u32, bool)> = outcome
        .blocks
        .iter()
        .filter(|block| block.slot.index % 4 == 2)
        .map(|block| (block.slot.index, block.attempt, block.failed))
        .collect();
    assert_eq!(second, [(2, 1, true), (6, 2, false)]);
    assert_eq!(outcome.of(8), decoded(6));
    assert!(outcome.lost.is_empty());
}

#[test]
fn each_transmission_counts_with_the_sinr_of_its_slot() {
    // 1 dB too little twice is enough, and once is not with 20 dB too little in the second slot.
    for (then_db, fails) in [("16", false), ("-3", true)] {
        let then = format!("0.0005,768000000,{then_db},17");
        let rows = ["0,768000000,12,17", &then];
        let outcome = drive(
            &mut radio(with(Code::Ldpc, 2), sinr_air("1", &rows)),
            &burst(10, 8),
            1_000_000,
        );
        let found: Vec<bool> = outcome.blocks.iter().map(|block| block.failed).collect();
        assert_eq!(found, [true, fails], "{then_db}");
    }
}

#[test]
fn a_slot_without_rate_adds_nothing() {
    let rows = [
        "0,768000000,12,17",
        "0.0005,0,30,17",
        "0.000875,768000000,12,17",
    ];
    let outcome = drive(
        &mut radio(with(Code::Ldpc, 3), sinr_air("1", &rows)),
        &burst(10, 8),
        2_000_000,
    );
    let found: Vec<bool> = outcome.blocks.iter().map(|block| block.failed).collect();
    assert_eq!(found, [true, true, false]);
}

proptest! {
    #[test]
    fn more_is_never_worse(
        turbo in any::<bool>(),
        need_db in -30.0..40.0f64,
        bytes in 1u64..3000,
        above_db in prop::collection::vec(-20.0..5.0f64, 1..9),
        place in any::<prop::sample::Index>(),
        more_db in 0.0..10.0f64,
    ) {
        let code = if turbo { Code::Turbo } else { Code::Ldpc };
        let mut sinrs_db: Vec<f64> = above_db.iter().map(|above_db| need_db + above_db).collect();
        let p = failure(code, need_db, bytes, &sinrs_db);
        prop_assert!((0.0..=1.0).contains(&p), "{}", p);
        if let Some((_, fewer)) = sinrs_db.split_last() && !fewer.is_empty() {
            let before = failure(code, need_db, bytes, fewer);
            prop_assert!(p <= before + 1e-9, "another transmission: {} after {}", p, before);
        }
        let needing_more = failure(code, need_db + more_db, bytes, &sinrs_db[..1]);
        let first = failure(code, need_db, bytes, &sinrs_db[..1]);
        prop_assert!(needing_more >= first - 1e-9, "a higher need: {} after {}", needing_more, first);
        sinrs_db[place.index(above_db.len())] += more_db;
        let better = failure(code, need_db, bytes, &sinrs_db);
        prop_assert!(better <= p + 1e-9, "a higher SINR: {} after {}", better, p);
    }

    #[test]
    fn no_values_of_the_format_give_something_else_than_a_probability(
        turbo in any::<bool>(),
        need_mdb in -100_000i32..=100_000,
        bytes in prop_oneof![1u64..100, 1u64..1 << 40],
        full_bytes in prop_oneof![0u64..100, 1u64..1 << 40],
        sinrs_mdb in prop::collection::vec(-100_000i32..=100_000, 1..64),
    ) {
        let code = if turbo { Code::Turbo } else { Code::Ldpc };
        let mut decoder = Decoder::new(code, f64::from(need_mdb) / 1000.0, bytes, full_bytes);
        for (attempt, sinr_mdb) in (1u32..).zip(sinrs_mdb) {
            let p = decoder.receive(attempt, f64::from(sinr_mdb) / 1000.0);
            prop_assert!((0.0..=1.0).contains(&p), "{}", p);
        }
    }
}
