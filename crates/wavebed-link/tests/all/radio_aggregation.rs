//! Carrier aggregation: activation, deactivation, and what each carrier has of its own.

use std::collections::{BTreeMap, BTreeSet};

use crate::radio_support::{
    DECODE_NS, RATE_BPS, SLOT_NS, air, burst, decoded, drive, harq, plain, radio, radio_with_seed,
    segment, slots,
};
use wavebed_link::radio::{
    Acknowledged, Aggregation, Air, BlockRecord, Carriers, Handover, Harq, Load, RadioConfig, Rlc,
    Slots,
};
use wavebed_link::{Reason, Run};

const MS: u64 = 1_000_000;
const STEADY: Air = Air::constant(RATE_BPS, 0.0);
/// Of four carriers: two segments of 1500 bytes in a slot of each. They are activated after eight slots.
const FOUR: Aggregation = Aggregation {
    carriers: 4,
    activation_ns: MS,
    deactivation_ns: 2 * MS,
};

fn with(aggregation: Aggregation) -> RadioConfig {
    RadioConfig {
        aggregation: Some(aggregation),
        ..plain()
    }
}

fn with_harq(harq: Harq) -> RadioConfig {
    RadioConfig {
        carriers: Carriers {
            primary: Slots {
                harq: Some(harq),
                ..slots()
            },
            fallback: None,
        },
        ..with(FOUR)
    }
}

fn acknowledged(retransmissions: u8) -> Rlc {
    Rlc::Acknowledged(Acknowledged {
        reassembly_ns: 2 * MS,
        poll_ns: 5 * MS,
        status_ns: 300_000,
        retransmissions,
        reestablish_ns: 20 * MS,
        status_loss: 0.0,
        window: None,
    })
}

/// Repetitions succeed, all but for sure.
fn combining() -> Harq {
    Harq {
        combining_gain_db: 30.0,
        slope_per_db: 30.0,
        ..harq()
    }
}

/// Slot and carrier of each transmission.
fn used(blocks: &[BlockRecord]) -> Vec<(u64, u32)> {
    let place = |block: &BlockRecord| (block.slot.index, block.slot.carrier);
    blocks.iter().map(place).collect()
}

/// The slots in which a secondary carrier sent.
fn aggregated(blocks: &[BlockRecord]) -> BTreeSet<u64> {
    let secondary = blocks.iter().filter(|block| block.slot.carrier > 0);
    secondary.map(|block| block.slot.index).collect()
}

#[test]
fn a_transfer_after_idle_begins_on_the_primary_carrier() {
    let mut link = radio(with(FOUR), STEADY);
    let outcome = drive(&mut link, &burst(10, 30), 2 * MS);
    // The block of slot 1 leaves data: the others are active from the slot that begins 1 ms after it.
    let alone = (1..=8).map(|slot| (slot, 0));
    let together = (9..=10).flat_map(|slot| (0..4).map(move |carrier| (slot, carrier)));
    let together: Vec<(u64, u32)> = alone.chain(together).collect();
    assert_eq!(used(&outcome.blocks), together[..15]);
    assert!(outcome.blocks.iter().all(|block| block.bytes == 3000));
    let times: Vec<u64> = outcome.delivered.iter().map(|&(_, at_ns)| at_ns).collect();
    let mut expected: Vec<u64> = (1..=8).flat_map(|slot| [decoded(slot); 2]).collect();
    expected.extend([decoded(9); 8]);
    expected.extend([decoded(10); 6]);
    assert_eq!(times, expected);
    assert!(outcome.delivered.is_sorted(), "in order");
    assert_eq!(outcome.counters.total().blocks_sent, 15);
}

#[test]
fn data_that_fits_the_primary_carrier_activates_no_other() {
    let arrivals: Vec<Run> = (0..100)
        .map(|packet| segment(u64::from(packet) * SLOT_NS / 2 + 10, packet))
        .collect();
    let outcome = drive(&mut radio(with(FOUR), STEADY), &arrivals, 20 * MS);
    assert_eq!(outcome.delivered.len(), 100);
    assert_eq!(aggregated(&outcome.blocks), BTreeSet::new());
}

#[test]
fn an_activation_delay_that_ends_within_a_slot_waits_for_the_next_one() {
    for (activation_ns, first) in [(MS, 9), (MS + 1, 10), (0, 1)] {
        let config = with(Aggregation {
            activation_ns,
            ..FOUR
        });
        let outcome = drive(&mut radio(config, STEADY), &burst(10, 60), 5 * MS);
        assert_eq!(aggregated(&outcome.blocks).first(), Some(&first));
    }
}

#[test]
fn preparation_holds_on_each_carrier() {
    let config = RadioConfig {
        carriers: Carriers {
            primary: Slots {
                prepare_ns: 300_000,
                ..slots()
            },
            fallback: None,
        },
        ..with(FOUR)
    };
    // Slot 11 begins at 1.375 ms: what comes 300 µs before it is too late for it, on any carrier.
    let mut arrivals = burst(10, 14);
    arrivals.push(segment(1_075_000 - 1, 14));
    arrivals.extend((15..17).map(|packet| segment(1_075_000, packet)));
    let outcome = drive(&mut radio(config, STEADY), &arrivals, 5 * MS);
    assert_eq!(outcome.of(13), decoded(9));
    assert_eq!(outcome.of(14), decoded(11));
    assert_eq!(outcome.of(15), decoded(12));
    assert_eq!(outcome.of(16), decoded(12));
}

#[test]
fn a_timer_without_blocks_deactivates_the_secondary_carriers() {
    let big = |at_ns: u64, first: u32, count: u32| -> Vec<Run> {
        (first..first + count)
            .map(|packet| segment(at_ns, packet))
            .collect()
    };
    // Until slot 9 the primary carrier serves 16 packets; the rest takes slots 9 and 10 of the others.
    let first = big(10, 0, 32);
    // The last block of a secondary carrier is in slot 10, at 1.25 ms: the timer expires at 3.25 ms, slot 26.
    for (at_ns, expected) in [(3_000_010, 25), (3_125_010, 34)] {
        let arrivals = [first.clone(), big(at_ns, 32, 24)].concat();
        let outcome = drive(&mut radio(with(FOUR), STEADY), &arrivals, 10 * MS);
        assert_eq!(outcome.delivered.len(), 56);
        let slots = aggregated(&outcome.blocks);
        assert_eq!(slots.iter().find(|&&slot| slot > 10), Some(&expected));
    }
}

#[test]
fn blocks_on_the_secondary_carriers_keep_them_active() {
    // More than the primary carrier has: data without end, for ten times the timer.
    let arrivals: Vec<Run> = (0..1280)
        .map(|packet| segment(u64::from(packet) * SLOT_NS / 8 + 10, packet))
        .collect();
    let outcome = drive(&mut radio(with(FOUR), STEADY), &arrivals, 40 * MS);
    assert_eq!(outcome.delivered.len(), 1280);
    let slots: Vec<u64> = aggregated(&outcome.blocks).into_iter().collect();
    assert_eq!(slots.first(), Some(&9));
    assert!(slots.windows(2).all(|pair| pair[1] - pair[0] <= 16));
    assert!(slots.last() > Some(&150));
}

#[test]
fn each_carrier_has_processes_of_its_own() {
    // A process is free again four slots after its block: two processes fill two slots of four, on each carrier.
    let config = with_harq(Harq {
        processes: 2,
        ..harq()
    });
    let outcome = drive(&mut radio(config, STEADY), &burst(10, 60), 5 * MS);
    let of = |carrier: u32| -> Vec<u64> {
        let all = used(&outcome.blocks).into_iter();
        all.filter(|place| place.1 == carrier)
            .map(|place| place.0)
            .collect()
    };
    assert_eq!(of(0)[..8], [1, 2, 5, 6, 9, 10, 13, 14]);
    for carrier in 1..4 {
        assert_eq!(of(carrier)[..4], [9, 10, 13, 14]);
    }
}

#[test]
fn a_retransmission_stays_on_its_carrier_and_new_data_takes_the_others() {
    // Every block of slot 9 fails, all but for sure; the repetitions succeed, all but for sure.
    let air = air(
        "1",
        &[
            "0,768000000,0,los",
            "0.001125,768000000,0.999999,los",
            "0.00125,768000000,0,los",
        ],
    );
    let outcome = drive(
        &mut radio(with_harq(combining()), air),
        &burst(10, 42),
        5 * MS,
    );
    let again: Vec<(u64, u32)> = outcome
        .blocks
        .iter()
        .filter(|block| block.attempt == 2)
        .map(|block| (block.slot.index, block.slot.carrier))
        .collect();
    assert_eq!(again, [(13, 0), (13, 1), (13, 2), (13, 3)]);
    // Slots 10 and 11 have eight packets each; the last two of 42 take slot 12.
    assert_eq!(outcome.of(16), decoded(13));
    assert_eq!(outcome.of(23), decoded(13));
    assert_eq!(outcome.of(24), decoded(10));
    assert_eq!(outcome.of(41), decoded(12));
    assert_eq!(outcome.counters.total().blocks_failed, 4);
}

/// Outcomes by slot, process and attempt on one carrier.
fn verdicts(blocks: &[BlockRecord], carrier: u32) -> BTreeMap<(u64, u32, u32), bool> {
    let own = blocks.iter().filter(|block| block.slot.carrier == carrier);
    own.map(|block| {
        let key = (block.slot.index, block.process, block.attempt);
        (key, block.failed)
    })
    .collect()
}

#[test]
fn the_primary_carrier_meets_the_errors_of_a_link_without_aggregation() {
    let air = Air::constant(RATE_BPS, 0.3);
    let arrivals = burst(10, 20_000);
    let config = with_harq(harq());
    let alone = RadioConfig {
        aggregation: None,
        ..config.clone()
    };
    let run = |config: RadioConfig| {
        drive(
            &mut radio_with_seed(config, air.clone(), 5),
            &arrivals,
            60 * MS,
        )
    };
    let (alone, together) = (run(alone), run(config));
    let alone = verdicts(&alone.blocks, 0);
    let primary = verdicts(&together.blocks, 0);
    let both: Vec<_> = primary
        .iter()
        .filter(|(key, _)| alone.contains_key(key))
        .collect();
    assert!(both.len() > 400, "{}", both.len());
    assert!(both.iter().all(|&(key, failed)| alone[key] == *failed));
    for carrier in 1..4 {
        let other = verdicts(&together.blocks, carrier);
        let both = other
            .iter()
            .filter_map(|(key, failed)| Some((primary.get(key)?, failed)));
        let all = both.clone().count();
        let same = both.filter(|(primary, other)| primary == other).count() as f64 / all as f64;
        assert!(all > 100, "{all}");
        assert!((0.45..0.7).contains(&same), "independent errors: {same}");
    }
}

#[test]
fn one_carrier_is_no_aggregation() {
    let air = air(
        "0.02",
        &[
            "0,768000000,0.3,los",
            "0.004,100000000,0.5,nlos",
            "0.006,0,1,outage",
            "0.009,300000001,0.1,fallback",
            "0.012,0,1,handover",
            "0.015,768000000,0.2,los",
        ],
    );
    let run = |aggregation: Option<Aggregation>| {
        let config = RadioConfig {
            rlc: acknowledged(2),
            reordering: Some(Some(10 * MS)),
            load: Some(Load {
                mean: 0.3,
                burst_ns: MS,
            }),
            aggregation,
            ..with_harq(harq())
        };
        let arrivals: Vec<Run> = (0..3000)
            .map(|packet| segment(u64::from(packet) * 20_000 + 10, packet))
            .collect();
        drive(&mut radio(config, air.clone()), &arrivals, 500 * MS)
    };
    let one = Aggregation {
        carriers: 1,
        ..FOUR
    };
    let (none, one) = (run(None), run(Some(one)));
    assert_eq!(none.blocks, one.blocks);
    assert_eq!(none.delivered, one.delivered);
    assert!(one.blocks.len() > 300);
}

#[test]
fn the_parts_of_the_carriers_are_the_whole() {
    for rate_bps in [0, 3, 768_000_001, 999_999_999_999] {
        for carriers in [1, 3, 7, 32] {
            let all = Aggregation { carriers, ..FOUR };
            let parts: Vec<u64> = (0..carriers)
                .map(|carrier| all.part(rate_bps, carrier))
                .collect();
            assert_eq!(parts.iter().sum::<u64>(), rate_bps);
            let (least, most) = (parts.iter().min(), parts.iter().max());
            assert!(
                most.zip(least)
                    .is_some_and(|(most, least)| most - least <= 1)
            );
        }
    }
}

#[test]
fn a_fall_back_has_one_carrier_and_deactivates_the_others() {
    let rows = [
        "0,768000000,0,los",
        "0.002,768000000,0,fallback",
        "0.003,768000000,0,los",
    ];
    let run =
        |config: RadioConfig| drive(&mut radio(config, air("1", &rows)), &burst(10, 400), 6 * MS);
    let outcome = run(with(FOUR));
    let slots = aggregated(&outcome.blocks);
    // 2 and 3 ms are slots 16 and 24; the command of slot 24 is in effect from slot 32 on.
    assert!(slots.contains(&15));
    assert_eq!(slots.range(16..).next(), Some(&32));
    let in_fallback = outcome
        .blocks
        .iter()
        .filter(|block| (16..24).contains(&block.slot.index));
    let bytes: Vec<u64> = in_fallback.map(|block| block.bytes).collect();
    assert_eq!(bytes, [12_000; 8], "the whole rate on one carrier");
}

#[test]
fn a_fall_back_during_activation_ends_it() {
    let rows = [
        "0,768000000,0,los",
        "0.0005,768000000,0,fallback",
        "0.00075,768000000,0,los",
    ];
    let outcome = drive(
        &mut radio(with(FOUR), air("1", &rows)),
        &burst(10, 100),
        4 * MS,
    );
    // Slot 6, at 750 µs, carries the next command.
    assert_eq!(aggregated(&outcome.blocks).first(), Some(&14));
}

#[test]
fn a_handover_deactivates_the_secondary_carriers() {
    let rows = [
        "0,768000000,0,los",
        "0.002,0,0,handover",
        "0.003,768000000,0,los",
    ];
    for config in [
        with(FOUR),
        RadioConfig {
            rlc: acknowledged(8),
            ..with(FOUR)
        },
    ] {
        let outcome = drive(&mut radio(config, air("1", &rows)), &burst(10, 400), 6 * MS);
        let slots = aggregated(&outcome.blocks);
        assert!(slots.contains(&15));
        assert_eq!(slots.range(16..).next(), Some(&32));
    }
}

#[test]
fn a_handover_of_an_idle_link_deactivates_them_too() {
    let rows = [
        "0,768000000,0,los",
        "0.002,0,0,handover",
        "0.0025,768000000,0,los",
    ];
    let mut arrivals = burst(10, 32);
    arrivals.extend((32..92).map(|packet| segment(2_500_010, packet)));
    let outcome = drive(&mut radio(with(FOUR), air("1", &rows)), &arrivals, 6 * MS);
    // The timer would expire at 3.25 ms; the command of slot 21 is in effect from slot 29 on.
    let slots = aggregated(&outcome.blocks);
    assert_eq!(slots.range(11..).next(), Some(&29));
}

#[test]
fn a_failed_link_deactivates_the_secondary_carriers() {
    // Slot 20 of one carrier fails without end.
    let rows = [
        "0,768000000,0,los",
        "0.0025,768000000,1,los",
        "0.002625,768000000,0,los",
    ];
    let config = RadioConfig {
        rlc: acknowledged(0),
        ..with(FOUR)
    };
    let outcome = drive(
        &mut radio(config, air("1", &rows)),
        &burst(10, 600),
        40 * MS,
    );
    assert_eq!(outcome.counters.total().link_failures, 1);
    assert_eq!(outcome.delivered.len(), 600);
    let slots = aggregated(&outcome.blocks);
    // The failure is at 2.65 ms, the end 20 ms later: in slot 182. Its block commands, for slot 190.
    let restored = used(&outcome.blocks)
        .iter()
        .map(|place| place.0)
        .find(|&slot| slot > 30);
    assert_eq!(restored, Some(182));
    assert_eq!(slots.range(22..).next(), Some(&190));
}

#[test]
fn a_block_of_a_deactivated_carrier_is_left_to_rlc() {
    // Slot 12 fails; its repetitions would come in slot 20, but the fall-back of slot 16 flushes the buffers of HARQ.
    let rows = [
        "0,768000000,0,los",
        "0.0015,768000000,1,los",
        "0.001625,768000000,0,los",
        "0.002,768000000,0,fallback",
    ];
    let late = Harq {
        schedule_slots: 6,
        processes: 32,
        ..combining()
    };
    let unacknowledged = drive(
        &mut radio(with_harq(late), air("1", &rows)),
        &burst(10, 100),
        20 * MS,
    );
    // Three blocks of two packets: the primary carrier's is sent again, on the fallback carrier.
    assert_eq!(unacknowledged.dropped(Reason::Block), 6);
    assert_eq!(unacknowledged.lost[0].1, 2 * MS, "when it falls back");
    let config = RadioConfig {
        rlc: acknowledged(8),
        ..with_harq(late)
    };
    let outcome = drive(
        &mut radio(config, air("1", &rows)),
        &burst(10, 100),
        20 * MS,
    );
    assert_eq!(outcome.delivered.len(), 100);
    // The gap shows when slot 13 is decoded; then come t-Reassembly and the report, up to 4.075 ms.
    let gap_ns = decoded(13) + 2 * MS + 300_000;
    let slot = gap_ns / SLOT_NS + 1;
    for packet in 42..48 {
        assert_eq!(outcome.of(packet), decoded(slot), "{packet}");
    }
}

#[test]
fn a_short_timer_flushes_what_waits_for_its_retransmission() {
    // Slot 9 fails; the timer of two slots expires before the repetitions of slot 13.
    let rows = [
        "0,768000000,0,los",
        "0.001125,768000000,1,los",
        "0.00125,768000000,0,los",
    ];
    let config = RadioConfig {
        aggregation: Some(Aggregation {
            deactivation_ns: 2 * SLOT_NS,
            ..FOUR
        }),
        ..with_harq(combining())
    };
    let outcome = drive(&mut radio(config, air("1", &rows)), &burst(10, 24), 20 * MS);
    assert_eq!(outcome.dropped(Reason::Block), 6);
    assert!(outcome.lost.iter().all(|&(_, at_ns)| at_ns == 11 * SLOT_NS));
    assert_eq!(outcome.of(17), decoded(13), "the primary carrier's");
}

#[test]
fn a_later_carrier_of_the_same_slot_shows_a_gap() {
    // Without HARQ a block fails about as often as not. A gap before a received block of the same slot is reported
    // from that slot on.
    let config = RadioConfig {
        rlc: acknowledged(255),
        aggregation: Some(Aggregation {
            activation_ns: 0,
            ..FOUR
        }),
        ..plain()
    };
    let air = Air::constant(RATE_BPS, 0.5);
    let outcome = drive(
        &mut radio_with_seed(config, air, 2),
        &burst(10, 8),
        100 * MS,
    );
    let first: Vec<bool> = outcome.blocks[..4]
        .iter()
        .map(|block| block.failed)
        .collect();
    assert_eq!(used(&outcome.blocks)[..4], [(1, 0), (1, 1), (1, 2), (1, 3)]);
    let shown = first.iter().rposition(|&failed| !failed).unwrap_or(0);
    let gap = first[..shown].iter().position(|&failed| failed);
    assert!(gap.is_some(), "a seed with a gap: {first:?}");
    let again_ns = decoded(1) + 2 * MS + 300_000;
    let again = outcome.blocks[4].slot;
    assert_eq!(again.index, again_ns / SLOT_NS + 1);
}

#[test]
fn each_carrier_has_other_users_of_its_own() {
    let config = RadioConfig {
        load: Some(Load {
            mean: 0.5,
            burst_ns: MS,
        }),
        ..with(FOUR)
    };
    let arrivals: Vec<Run> = (0..20_000)
        .map(|packet| Run {
            count: 8,
            ..segment(10, packet)
        })
        .collect();
    let outcome = drive(&mut radio(config, STEADY), &arrivals, 2000 * MS);
    let mut slots: [BTreeSet<u64>; 4] = Default::default();
    for (slot, carrier) in used(&outcome.blocks) {
        slots[carrier as usize].insert(slot);
    }
    for own in &slots {
        let given = own.len() as f64 / 16_000.0;
        assert!((given - 0.5).abs() < 0.06, "{given}");
    }
    assert_ne!(slots[0], slots[1]);
    assert_ne!(slots[1], slots[2]);
}

#[test]
fn what_waits_is_lost_with_a_handover_that_loses() {
    let rows = [
        "0,768000000,0,los",
        "0.002,0,0,handover",
        "0.003,768000000,0,los",
    ];
    let config = RadioConfig {
        handover: Handover::Lose,
        ..with_harq(harq())
    };
    let outcome = drive(&mut radio(config, air("1", &rows)), &burst(10, 400), 6 * MS);
    assert_eq!(outcome.delivered.len() + outcome.lost.len(), 400);
    assert!(outcome.lost.iter().all(|&(_, at_ns)| at_ns == 2 * MS));
    assert!(
        outcome
            .delivered
            .iter()
            .all(|&(_, at_ns)| at_ns <= 2 * MS + DECODE_NS)
    );
}
