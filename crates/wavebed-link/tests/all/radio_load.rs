//! Other users' bursts take slots by proportional fair.

use crate::radio_support::{RATE_BPS, SLOT_NS, drive, plain, radio_with_seed, segment};
use wavebed_link::Run;
use wavebed_link::radio::{Air, Load, RadioConfig};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

fn with(mean: f64, burst_ns: u64) -> RadioConfig {
    RadioConfig {
        load: Some(Load { mean, burst_ns }),
        ..plain()
    }
}

/// The slots that a user with data without end is given in `seconds`.
fn given(config: RadioConfig, seconds: u64, seed: u64) -> Vec<u64> {
    let all = seconds * SECOND / SLOT_NS;
    let air = Air::constant(RATE_BPS, 0.0);
    let mut radio = radio_with_seed(config, air, seed);
    let arrivals: Vec<Run> = (0..=all as u32)
        .map(|packet| Run {
            count: 8,
            ..segment(10, packet)
        })
        .collect();
    let outcome = drive(&mut radio, &arrivals, seconds * SECOND);
    let full = outcome.blocks.iter().all(|block| block.bytes == 12_000);
    assert!(full, "slots are skipped, not shrunk");
    outcome
        .blocks
        .iter()
        .map(|block| block.slot.index)
        .collect()
}

#[test]
fn a_greedy_user_is_left_what_the_others_do_not_need() {
    for mean in [0.2, 0.5, 0.8] {
        let slots = given(with(mean, MS), 10, 1).len() as f64 / (10 * SECOND / SLOT_NS) as f64;
        assert!((slots - (1.0 - mean)).abs() < 0.06, "{mean}: {slots}");
    }
}

#[test]
fn users_with_long_bursts_have_equal_parts() {
    let slots = given(with(0.7, SECOND), 10, 3);
    let spans: Vec<u64> = slots.windows(201).map(|few| few[200] - few[0]).collect();
    let of = |users: u64| {
        let near = spans
            .iter()
            .filter(|span| span.abs_diff(200 * users) <= 4 * users);
        near.count() as f64 / spans.len() as f64
    };
    let parts: Vec<f64> = (1..8).map(of).collect();
    println!("{parts:?}");
    assert!(parts.iter().sum::<f64>() > 0.8, "{parts:?}");
    assert!(
        parts.iter().filter(|&&part| part > 0.02).count() > 1,
        "{parts:?}"
    );
}

#[test]
fn the_load_reacts_to_demand() {
    // A packet now and then finds the slot taken about as often as others are active; a greedy user in vain waits for
    // half of the slots while they are.
    let config = with(0.5, 20 * MS);
    let arrivals: Vec<Run> = (0..2000u32)
        .map(|packet| segment(u64::from(packet) * 7 * MS + 10, packet))
        .collect();
    let air = Air::constant(RATE_BPS, 0.0);
    let outcome = drive(&mut radio_with_seed(config, air, 1), &arrivals, 20 * SECOND);
    assert_eq!(outcome.delivered.len(), 2000);
    let late = outcome
        .delivered
        .iter()
        .filter(|&&(packet, at_ns)| at_ns - u64::from(packet) * 7 * MS > 3 * SLOT_NS);
    // A user that was given little has the better ratio: its packets are served first.
    assert!(late.count() < 100, "sparse packets do not wait for bursts");
}

#[test]
fn the_bursts_do_not_depend_on_what_this_user_sends() {
    let all = given(with(0.5, 5 * MS), 2, 7);
    let again = given(with(0.5, 5 * MS), 2, 7);
    let other = given(with(0.5, 5 * MS), 2, 8);
    assert_eq!(all, again);
    assert_ne!(all, other);
}
