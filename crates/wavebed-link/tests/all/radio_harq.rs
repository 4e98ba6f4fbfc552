//! HARQ: delays, residual losses, combining, and the random numbers that treatments fraction.

use std::collections::BTreeMap;

use crate::radio_support::{
    RATE_BPS, SLOT_NS, air, burst, decoded, drive, harq, plain, radio, radio_with_seed, segment,
    slots,
};
use wavebed_link::radio::{Air, BlockRecord, Carriers, Harq, RadioConfig, Slots};
use wavebed_link::{Reason, Run};

fn with_harq(harq: Harq) -> RadioConfig {
    RadioConfig {
        carriers: Carriers {
            primary: Slots {
                harq: Some(harq),
                ..slots()
            },
            fallback: None,
        },
        ..plain()
    }
}

/// One segment every second millisecond, so that repetitions are out of the way.
fn sparse(count: u32) -> Vec<Run> {
    (0..count)
        .map(|packet| segment(u64::from(packet) * 2_000_000 + 10, packet))
        .collect()
}

#[test]
fn a_failed_block_comes_back_after_the_round_trip() {
    // It fails for sure while the rate is zero, which begins with the slot after the first transmission was planned.
    let air = air(
        "1",
        &[
            "0,768000000,0,los",
            "0.000125,0,0,outage",
            "0.00025,768000000,0,los",
        ],
    );
    let mut link = radio(with_harq(harq()), air);
    let outcome = drive(&mut link, &[segment(10, 0)], 2_000_000);
    assert_eq!(
        outcome.delivered,
        [(0, decoded(2))],
        "new data waits for a rate"
    );

    let always = Air::constant(RATE_BPS, 0.5);
    let outcome = drive(
        &mut radio(with_harq(harq()), always),
        &sparse(200),
        300_000_000,
    );
    for (packet, at_ns) in outcome.delivered {
        let delay_slots = (at_ns - decoded(u64::from(packet) * 16 + 1)) / SLOT_NS;
        assert!(
            delay_slots.is_multiple_of(4) && delay_slots <= 8,
            "{delay_slots} slots"
        );
    }
}

#[test]
fn a_repetition_takes_a_slot_and_pdcp_holds_back_what_overtook_it() {
    // Slot 2 fails, all but for sure; its repetition succeeds, all but for sure.
    let air = air(
        "1",
        &[
            "0,96000000,0,los",
            "0.00025,96000000,0.999999,los",
            "0.000375,96000000,0,los",
        ],
    );
    let combining = Harq {
        combining_gain_db: 30.0,
        slope_per_db: 30.0,
        ..harq()
    };
    let config = RadioConfig {
        reordering: Some(Some(10_000_000)),
        ..with_harq(combining)
    };
    let outcome = drive(&mut radio(config, air), &burst(10, 6), 5_000_000);
    let attempts: Vec<(u64, u32, bool)> = outcome
        .blocks
        .iter()
        .map(|block| (block.slot.index, block.attempt, block.failed))
        .collect();
    assert_eq!(
        attempts,
        [
            (1, 1, false),
            (2, 1, true),
            (3, 1, false),
            (4, 1, false),
            (5, 1, false),
            (6, 2, false),
            (7, 1, false)
        ]
    );
    let filled = decoded(6);
    assert_eq!(
        outcome.delivered,
        [
            (0, decoded(1)),
            (1, filled),
            (2, filled),
            (3, filled),
            (4, filled),
            (5, decoded(7))
        ]
    );
}

#[test]
fn delays_and_residual_losses_follow_the_formula() {
    let p: f64 = 0.3;
    let count = 20_000;
    let air = Air::constant(RATE_BPS, p);
    let outcome = drive(&mut radio(with_harq(harq()), air), &sparse(count), 1 << 45);
    let mut times: BTreeMap<u64, u32> = BTreeMap::new();
    for (packet, at_ns) in &outcome.delivered {
        let slots = (at_ns - decoded(u64::from(*packet) * 16 + 1)) / SLOT_NS;
        *times.entry(slots).or_default() += 1;
    }
    let n = f64::from(count);
    for (attempt, slots) in [(0, 0), (1, 4), (2, 8)] {
        let fraction = p.powi(attempt) * (1.0 - p);
        let expected = n * fraction;
        let five_sigma = 5.0 * (n * fraction * (1.0 - fraction)).sqrt();
        let found = f64::from(times[&slots]);
        assert!(
            (found - expected).abs() < five_sigma,
            "{slots}: {found}, not {expected}"
        );
    }
    let fraction = p.powi(3);
    #[expect(clippy::cast_precision_loss, reason = "a small count")]
    let lost = outcome.dropped(Reason::Block) as f64;
    assert!(
        (lost - n * fraction).abs() < 5.0 * (n * fraction).sqrt(),
        "{lost}"
    );
}

#[test]
fn combining_lowers_the_error_of_a_repetition_by_the_gain_and_the_slope() {
    let harq = Harq {
        combining_gain_db: 3.0,
        slope_per_db: 1.5,
        ..harq()
    };
    let odds = |p: f64| p / (1.0 - p);
    let second = harq.error_probability(0.1, 2);
    assert!((odds(second) / odds(0.1) - (-4.5f64).exp()).abs() < 1e-12);
    let fourth = harq.error_probability(0.1, 4);
    assert!((odds(fourth) / odds(0.1) - (-9.0f64).exp()).abs() < 1e-12);
    assert!(
        (harq.error_probability(1.0, 1) - 1.0).abs() < f64::EPSILON,
        "the first fails for certain"
    );
    let second = harq.error_probability(1.0, 2);
    assert!(
        (odds(second) - odds(0.99995) * (-4.5f64).exp()).abs() < 1e-6,
        "no other does: {second}"
    );
}

#[test]
fn a_lost_block_takes_all_that_it_carried() {
    let certain = Air::constant(RATE_BPS, 1.0);
    let outcome = drive(&mut radio(plain(), certain), &burst(10, 16), 2_000_000);
    assert!(outcome.delivered.is_empty());
    let expected: Vec<(u32, u64)> = (0..16)
        .map(|packet| (packet, decoded(1 + u64::from(packet) / 8)))
        .collect();
    assert_eq!(outcome.lost, expected);
    assert_eq!(outcome.dropped(Reason::Block), 16);
}

#[test]
fn a_segment_in_two_blocks_is_lost_with_either() {
    // 2250 bytes a slot: the second segment of each pair lies in two blocks.
    let air = Air::constant(144_000_000, 0.5);
    let outcome = drive(
        &mut radio_with_seed(plain(), air, 3),
        &burst(10, 1000),
        1 << 40,
    );
    let failed = |index: u64| {
        let record = outcome
            .blocks
            .iter()
            .find(|block| block.slot.index == index);
        record.expect("every slot is used").failed
    };
    for (packet, _) in &outcome.delivered {
        let from = u64::from(*packet) * 1500 / 2250 + 1;
        let to = (u64::from(*packet) * 1500 + 1499) / 2250 + 1;
        assert!(!failed(from) && !failed(to), "{packet}");
    }
    assert_eq!(outcome.delivered.len() + outcome.lost.len(), 1000);
    assert!(outcome.delivered.len() > 300 && outcome.lost.len() > 300);
}

#[test]
fn retransmissions_take_their_slots_from_new_data() {
    let p = 0.25;
    let unlimited = Harq {
        limit: 64,
        processes: 256,
        ..harq()
    };
    let air = Air::constant(RATE_BPS, p);
    let slots = 8000;
    let outcome = drive(
        &mut radio(with_harq(unlimited), air),
        &burst(10, 8 * slots),
        u64::from(slots) * SLOT_NS,
    );
    #[expect(clippy::cast_precision_loss, reason = "a small count")]
    let goodput = outcome.delivered.len() as f64 / f64::from(8 * slots);
    let sigma = (p * (1.0 - p) / f64::from(slots)).sqrt();
    assert!(
        (goodput - (1.0 - p)).abs() < 5.0 * sigma + 0.01,
        "{goodput}"
    );
}

#[test]
fn too_few_processes_stop_and_wait() {
    // A process is free again four slots after its block: two processes fill two slots of four.
    let config = with_harq(Harq {
        processes: 2,
        ..harq()
    });
    let air = Air::constant(RATE_BPS, 0.0);
    let outcome = drive(&mut radio(config, air), &burst(10, 48), 10_000_000);
    let used: Vec<u64> = outcome
        .blocks
        .iter()
        .map(|block| block.slot.index)
        .collect();
    assert_eq!(used, [1, 2, 5, 6, 9, 10]);
}

#[test]
fn the_fallback_carrier_has_processes_of_its_own() {
    let with = |processes: u32| Slots {
        harq: Some(Harq {
            processes,
            ..harq()
        }),
        ..slots()
    };
    let fallback = air("1", &["0,768000000,0,fallback"]);
    for (primary, expected) in [(8, [1, 2, 5, 6, 9, 10]), (1, [1, 2, 5, 6, 9, 10])] {
        let config = RadioConfig {
            carriers: Carriers {
                primary: with(primary),
                fallback: Some(with(2)),
            },
            ..plain()
        };
        let outcome = drive(
            &mut radio(config, fallback.clone()),
            &burst(10, 48),
            10_000_000,
        );
        let used: Vec<u64> = outcome
            .blocks
            .iter()
            .map(|block| block.slot.index)
            .collect();
        assert_eq!(used, expected);
    }
}

#[test]
fn acknowledgements_and_repetitions_wait_for_their_slots_in_the_frame() {
    // DDDSU, S with 10 downlink and 2 uplink symbols: a failure in slot 5 (D) is acknowledged at the earliest in slot
    // 7, which is D, so in slot 8 (S), and the block comes back two slots later, in slot 10 (D).
    let frame = Slots {
        own_symbols: vec![14, 14, 14, 10, 0],
        other_symbols: vec![0, 0, 0, 2, 14],
        harq: Some(harq()),
        ..slots()
    };
    assert_eq!(frame.retransmission(5, &harq()), 10);
    // Slot 7 (D): earliest 9 (U), back in slot 11 (D).
    assert_eq!(frame.retransmission(7, &harq()), 11);
    // Slot 6 (D): earliest 8 (S), back in slot 10.
    assert_eq!(frame.retransmission(6, &harq()), 10);
}

#[test]
fn nothing_is_acknowledged_before_it_is_decoded() {
    // DDDSU without uplink symbols in S: the block of slot 1 is decoded 3.2 slots after its end, in slot 5, so the
    // acknowledgement misses slot 4 (U) and takes slot 9; the block comes back in slot 11.
    let frame = Slots {
        own_symbols: vec![14, 14, 14, 10, 0],
        other_symbols: vec![0, 0, 0, 0, 14],
        decode_ns: 400_000,
        ..slots()
    };
    assert_eq!(frame.retransmission(1, &harq()), 11);
}

#[test]
fn in_lte_a_block_comes_back_after_eight_subframes() {
    let lte = Harq {
        feedback_slots: 4,
        schedule_slots: 4,
        ..harq()
    };
    assert_eq!(slots().retransmission(3, &lte), 11);
}

/// Transmissions by slot, process and attempt.
fn verdicts(blocks: &[BlockRecord]) -> BTreeMap<(u64, u32, u32), bool> {
    blocks
        .iter()
        .map(|block| {
            (
                (block.slot.index, block.process, block.attempt),
                block.failed,
            )
        })
        .collect()
}

#[test]
fn two_treatments_with_one_seed_meet_the_same_errors_slot_by_slot() {
    let air = Air::constant(RATE_BPS, 0.2);
    let config = with_harq(harq());
    let full = drive(
        &mut radio_with_seed(config.clone(), air.clone(), 9),
        &burst(10, 8 * 4000),
        4000 * SLOT_NS,
    );
    let arrivals = sparse(250);
    let thin = drive(
        &mut radio_with_seed(config.clone(), air.clone(), 9),
        &arrivals,
        4000 * SLOT_NS,
    );
    let (full, thin) = (verdicts(&full.blocks), verdicts(&thin.blocks));
    let shared: Vec<_> = thin
        .iter()
        .filter(|(key, _)| full.contains_key(key))
        .collect();
    assert!(shared.len() > 200, "{} shared transmissions", shared.len());
    assert!(shared.iter().any(|&(_, &failed)| failed));
    for (key, failed) in shared {
        assert_eq!(full[key], *failed, "{key:?}");
    }
    let other = drive(
        &mut radio_with_seed(config, air, 10),
        &arrivals,
        4000 * SLOT_NS,
    );
    assert_ne!(thin, verdicts(&other.blocks), "another seed, other errors");
}

#[test]
fn saturating_treatments_meet_identical_errors_throughout() {
    let air = Air::constant(RATE_BPS, 0.2);
    let run = |size: u32| {
        let arrivals = burst(10, size);
        let outcome = drive(
            &mut radio_with_seed(with_harq(harq()), air.clone(), 5),
            &arrivals,
            1000 * SLOT_NS,
        );
        verdicts(&outcome.blocks)
    };
    let (one, other) = (run(20_000), run(9_000));
    assert_eq!(one, other);
    assert!(one.len() > 900);
}

#[test]
fn a_repetition_waits_for_a_slot_as_large_as_its_block_needs() {
    // DDDSU with 6 downlink symbols in S. The block of slot 6 (D) fails and may come back from slot 13 (S) on: it needs
    // 14 symbols, so slot 15. New data takes the special slot meanwhile. A short block would fit into it.
    let frame = Slots {
        own_symbols: vec![14, 14, 14, 6, 0],
        other_symbols: vec![0, 0, 0, 4, 14],
        harq: Some(Harq {
            feedback_slots: 2,
            schedule_slots: 5,
            ..harq()
        }),
        ..slots()
    };
    let config = RadioConfig {
        carriers: Carriers {
            primary: frame,
            fallback: None,
        },
        ..plain()
    };
    let rows = [
        "0,768000000,0,los",
        "0.00075,768000000,1,los",
        "0.000875,768000000,0,los",
    ];
    let used = |arrivals: &[Run]| {
        let outcome = drive(
            &mut radio(config.clone(), air("1", &rows)),
            arrivals,
            2_500_000,
        );
        let blocks: Vec<(u64, u32)> = outcome
            .blocks
            .iter()
            .map(|block| (block.slot.index, block.attempt))
            .collect();
        blocks
    };
    let full = used(&burst(5 * SLOT_NS + 10, 200));
    assert!(full.contains(&(13, 1)), "{full:?}");
    assert!(full.contains(&(15, 2)), "{full:?}");
    let short = used(&[segment(5 * SLOT_NS + 10, 0)]);
    assert_eq!(short, [(6, 1), (13, 2)]);
}
