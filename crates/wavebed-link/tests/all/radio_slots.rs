//! Slots, duplex frames, and the contents of blocks.

use crate::radio_support::{
    DECODE_NS, RATE_BPS, SLOT_BYTES, SLOT_NS, air, burst, decoded, drive, plain, radio, segment,
    sized, slots,
};
use wavebed_link::Stage;
use wavebed_link::radio::{Air, Carriers, RadioConfig, Slots};

const STEADY: Air = Air::constant(RATE_BPS, 0.0);

/// `DDDSU` with 6 downlink, 4 guard and 4 uplink symbols in the special slot.
fn tdd_down() -> Slots {
    Slots {
        own_symbols: vec![14, 14, 14, 6, 0],
        other_symbols: vec![0, 0, 0, 4, 14],
        ..slots()
    }
}

fn with_slots(primary: Slots) -> RadioConfig {
    RadioConfig {
        carriers: Carriers {
            primary,
            fallback: None,
        },
        ..plain()
    }
}

#[test]
fn a_segment_leaves_when_the_slot_after_its_arrival_is_decoded() {
    let outcome = drive(&mut radio(plain(), STEADY), &[segment(10, 0)], 1_000_000);
    assert_eq!(outcome.delivered, [(0, decoded(1))]);
}

#[test]
fn data_that_comes_just_when_a_slot_begins_takes_the_next_one() {
    let outcome = drive(
        &mut radio(plain(), STEADY),
        &[segment(SLOT_NS, 0)],
        1_000_000,
    );
    assert_eq!(outcome.delivered, [(0, decoded(2))]);
}

#[test]
fn preparation_moves_the_deadline_of_data_before_the_slot() {
    let config = with_slots(Slots {
        prepare_ns: 40_000,
        ..slots()
    });
    let just_in_time = segment(SLOT_NS - 40_001, 0);
    let outcome = drive(
        &mut radio(config.clone(), STEADY),
        &[just_in_time],
        1_000_000,
    );
    assert_eq!(outcome.delivered, [(0, decoded(1))]);
    let too_late = segment(SLOT_NS - 40_000, 0);
    let outcome = drive(&mut radio(config, STEADY), &[too_late], 1_000_000);
    assert_eq!(outcome.delivered, [(0, decoded(2))]);
}

#[test]
fn a_block_leaves_as_one_burst_and_takes_what_the_slot_carries() {
    let outcome = drive(&mut radio(plain(), STEADY), &burst(10, 20), 2_000_000);
    let bursts: Vec<u64> = outcome.delivered.iter().map(|&(_, at_ns)| at_ns).collect();
    let expected = [
        vec![decoded(1); 8],
        vec![decoded(2); 8],
        vec![decoded(3); 4],
    ]
    .concat();
    assert_eq!(bursts, expected);
    let bytes: Vec<u64> = outcome.blocks.iter().map(|block| block.bytes).collect();
    assert_eq!(bytes, [SLOT_BYTES, SLOT_BYTES, 6000]);
}

#[test]
fn a_segment_that_fits_in_part_is_cut_and_arrives_with_its_last_piece() {
    // 1000 bytes a slot: 1500 take two slots, with 500 left for the next segment.
    let air = Air::constant(64_000_000, 0.0);
    let outcome = drive(&mut radio(plain(), air), &burst(10, 3), 2_000_000);
    assert_eq!(
        outcome.delivered,
        [(0, decoded(2)), (1, decoded(3)), (2, decoded(5))]
    );
    let bytes: Vec<u64> = outcome.blocks.iter().map(|block| block.bytes).collect();
    assert_eq!(bytes, [1000, 1000, 1000, 1000, 500]);
}

#[test]
fn lower_layers_take_their_bytes_for_each_segment() {
    let config = RadioConfig {
        overhead_bytes: 500,
        ..plain()
    };
    let outcome = drive(&mut radio(config, STEADY), &burst(10, 7), 2_000_000);
    let last = outcome.delivered.last().expect("seven arrive");
    assert_eq!(*last, (6, decoded(2)), "six of 2000 bytes fill a slot");
}

#[test]
fn segments_of_one_packet_leave_as_one_run() {
    let mut whole = segment(10, 0);
    whole.count = 6;
    let outcome = drive(&mut radio(plain(), STEADY), &[whole], 2_000_000);
    assert_eq!(outcome.delivered, [(0, decoded(1))]);
}

#[test]
fn a_duplex_frame_serves_its_own_slots_only_and_keeps_the_average_rate() {
    // 48 symbols of 70 are downlink: 60 000 bytes a frame are 17 500 in a full slot and 7 500 in the special one.
    let count = 80;
    let outcome = drive(
        &mut radio(with_slots(tdd_down()), STEADY),
        &burst(10, count),
        20_000_000,
    );
    let used: Vec<(u64, u64)> = outcome
        .blocks
        .iter()
        .map(|block| (block.slot.index, block.bytes))
        .collect();
    assert_eq!(
        used,
        [
            (1, 17_500),
            (2, 17_500),
            (3, 7_500),
            (5, 17_500),
            (6, 17_500),
            (7, 17_500),
            (8, 7_500),
            (10, 17_500),
        ]
    );
    let total: u64 = outcome.blocks.iter().map(|block| block.bytes).sum();
    assert_eq!(total, u64::from(count) * 1500);
}

#[test]
fn slots_without_rate_are_waited_for() {
    let dark = air(
        "0.01",
        &[
            "0,768000000,0,los",
            "0.001,0,0,outage",
            "0.003,768000000,0,los",
        ],
    );
    let outcome = drive(&mut radio(plain(), dark), &[segment(999_999, 0)], 9_000_000);
    assert_eq!(outcome.delivered, [(0, 3_000_000 + SLOT_NS + DECODE_NS)]);
}

#[test]
fn the_fallback_carrier_has_slots_of_its_own() {
    let config = RadioConfig {
        carriers: Carriers {
            primary: slots(),
            fallback: Some(Slots {
                slot_ns: 1_000_000,
                decode_ns: 500_000,
                ..slots()
            }),
        },
        ..plain()
    };
    let air = air("0.1", &["0,768000000,0,los", "0.0102,12000000,0,fallback"]);
    let outcome = drive(&mut radio(config, air), &burst(10_190_000, 2), 20_000_000);
    // The next 125 µs slot would begin at 10.25 ms, but from 10.2 ms on slots last 1 ms and carry 1500 bytes.
    assert_eq!(outcome.delivered, [(0, 12_500_000), (1, 13_500_000)]);
}

#[test]
fn small_packets_do_not_stretch_a_slot() {
    let many: Vec<_> = (0..100).map(|packet| sized(10, packet, 100)).collect();
    let outcome = drive(&mut radio(plain(), STEADY), &many, 1_000_000);
    assert!(
        outcome
            .delivered
            .iter()
            .all(|&(_, at_ns)| at_ns == decoded(1))
    );
}

#[test]
fn an_idle_link_has_nothing_to_do() {
    let mut link = radio(plain(), STEADY);
    assert_eq!(link.next_event_ns(), None);
    drive(&mut link, &[segment(10, 0)], 1_000_000);
    assert_eq!(link.next_event_ns(), None);
}

#[test]
fn a_rate_below_a_byte_per_slot_is_kept_over_many_slots() {
    // 54 kbit/s are 0.84 bytes in 125 µs.
    let total: u64 = (0..80_000)
        .map(|index| slots().capacity_bytes(index, 54_000))
        .sum();
    assert_eq!(total, 67_500);
    let total: u64 = (0..80_000)
        .map(|index| tdd_down().capacity_bytes(index, 54_001))
        .sum();
    assert_eq!(total, 67_501);
}
