//! Slices, guaranteed rates and priority levels of a cell, by experiment.

use wavebed_link::config::{Policy, SchedulerConfig, ServiceConfig, SliceConfig};
use wavebed_link::radio::Air;

use crate::cell_background::{delivered, full_buffer};
use crate::cell_support::{CellLinks, cell_of, scheduler};
use crate::link_support::Event;
use crate::radio_support::{
    DECODE_NS, RATE_BPS, SLOT_BYTES, SLOT_NS, plain, radio_with_seed, sized,
};

const SECOND: u64 = 1_000_000_000;
/// What the cell carries in a second.
const ALL: f64 = (SECOND / SLOT_NS * SLOT_BYTES) as f64;
const POLICIES: [Policy; 4] = [
    Policy::ProportionalFair,
    Policy::RoundRobin,
    Policy::MaximumRate,
    Policy::Priority,
];

fn cell(config: &SchedulerConfig, devices: &[(u64, ServiceConfig)]) -> CellLinks {
    let devices = devices.iter().map(|(rate_bps, service)| {
        let radio = radio_with_seed(plain(), Air::constant(*rate_bps, 0.0), 1);
        (radio, service.clone())
    });
    cell_of(config, devices.collect(), Vec::new())
}

fn with_slice(policy: Policy) -> SchedulerConfig {
    SchedulerConfig {
        slices: vec![SliceConfig {
            name: "video".into(),
            share: 0.3,
        }],
        ..scheduler(policy, 17)
    }
}

fn in_slice() -> ServiceConfig {
    ServiceConfig {
        slice: Some("video".into()),
        ..ServiceConfig::default()
    }
}

fn level(level: u32) -> ServiceConfig {
    ServiceConfig {
        level,
        ..ServiceConfig::default()
    }
}

#[test]
fn a_slice_with_demand_has_its_share_beside_any_load() {
    for policy in POLICIES {
        for others in [1, 5, 20] {
            // The others are better in all that a policy looks at.
            let mut devices = vec![(RATE_BPS / 2, in_slice())];
            devices.resize(1 + others, (RATE_BPS, level(1)));
            let mut cell = cell(&with_slice(policy), &devices);
            let full: Vec<usize> = (0..=others).collect();
            let got = delivered(&mut cell, &full);
            let part = got[0] as f64 / (ALL / 2.0);
            assert!(part > 0.299, "{policy:?}, {others} others: {part}");
            let rest: u64 = got[1..].iter().sum();
            let all = part + rest as f64 / ALL;
            assert!(
                all > 0.995 && all <= 1.0,
                "{policy:?}, {others} others: {all}"
            );
        }
    }
}

#[test]
fn the_devices_of_a_slice_share_it() {
    let mut devices = vec![(RATE_BPS, in_slice()); 3];
    devices.resize(13, (RATE_BPS, ServiceConfig::default()));
    for policy in [Policy::ProportionalFair, Policy::RoundRobin] {
        let mut cell = cell(&with_slice(policy), &devices);
        let full: Vec<usize> = (0..13).collect();
        let got = delivered(&mut cell, &full);
        let slice: u64 = got[..3].iter().sum();
        assert!(slice as f64 / ALL > 0.299, "{policy:?}: {got:?}");
        for bytes in &got[..3] {
            let ratio = *bytes as f64 * 3.0 / slice as f64;
            assert!((ratio - 1.0).abs() < 0.02, "{policy:?}: {got:?}");
        }
    }
}

#[test]
fn what_a_slice_does_not_use_goes_to_others() {
    for policy in POLICIES {
        let devices = [(RATE_BPS, in_slice()), (RATE_BPS, ServiceConfig::default())];
        let mut idle = cell(&with_slice(policy), &devices);
        let got = delivered(&mut idle, &[1]);
        assert!(got[1] as f64 / ALL > 0.999, "{policy:?}: {got:?}");
        // A tenth of what the cell carries: one segment of 1200 bytes each slot.
        let mut light = cell(&with_slice(policy), &devices);
        let thin = (0..8000u32).map(|packet| sized(u64::from(packet) * SLOT_NS + 50, packet, 1200));
        let thin = thin.map(|run| (0, Event::Arrival(run)));
        let mut events: Vec<_> = full_buffer(1).into_iter().chain(thin).collect();
        events.sort_by_key(|(_, event)| event.at_ns());
        let outcomes = light.drive(&events, SECOND, false);
        let bytes = |device: usize| -> f64 {
            let runs = outcomes[device].delivered.iter();
            runs.map(|run| run.bytes() as f64).sum()
        };
        assert!(bytes(0) > 0.0995 * ALL, "{policy:?}: {}", bytes(0));
        // A part of a slot is 706 bytes: two carry 1412, and 1200 are used.
        assert!(
            bytes(0) + bytes(1) > 0.97 * ALL,
            "{policy:?}: {} {}",
            bytes(0),
            bytes(1)
        );
    }
}

#[test]
fn a_guaranteed_rate_is_met_while_it_is_possible() {
    let guaranteed = |bps: u64| ServiceConfig {
        guaranteed_bps: Some(bps),
        ..ServiceConfig::default()
    };
    let config = scheduler(Policy::Priority, 17);
    let got = |own_bps: u64, bps: u64| {
        let mut devices = vec![(own_bps, guaranteed(bps))];
        devices.resize(11, (RATE_BPS, level(10)));
        let full: Vec<usize> = (0..11).collect();
        delivered(&mut cell(&config, &devices), &full)
    };
    // Ten devices of a more urgent level want everything.
    for bps in [1_000_000, 50_000_000, 500_000_000] {
        let found = got(RATE_BPS, bps)[0] as f64 * 8.0 / bps as f64;
        assert!(found > 0.99, "{bps}: {found}");
        assert!(found < 1.0 + 0.11, "{bps}: {found}");
    }
    // It cannot have more than all slots.
    let found = got(RATE_BPS / 16, RATE_BPS / 8);
    assert!(found[0] as f64 * 16.0 / ALL > 0.99, "{found:?}");
    assert!(
        (found[1..].iter().sum::<u64>() as f64) < 0.01 * ALL,
        "{found:?}"
    );
}

#[test]
fn two_guarantees_that_do_not_fit_are_met_by_level() {
    let of = |level: u32| ServiceConfig {
        guaranteed_bps: Some(RATE_BPS / 4 * 3),
        level,
        ..ServiceConfig::default()
    };
    let devices = [(RATE_BPS, of(30)), (RATE_BPS, of(20))];
    let got = delivered(
        &mut cell(&scheduler(Policy::Priority, 17), &devices),
        &[0, 1],
    );
    assert!((got[1] as f64 / ALL - 0.75).abs() < 0.03, "{got:?}");
    assert!((got[0] as f64 / ALL - 0.25).abs() < 0.03, "{got:?}");
}

#[test]
fn a_strict_priority_starves_the_rest() {
    let config = scheduler(Policy::Priority, 17);
    let devices = [
        (RATE_BPS / 2, level(10)),
        (RATE_BPS, level(90)),
        (RATE_BPS, level(90)),
    ];
    let got = delivered(&mut cell(&config, &devices), &[0, 1, 2]);
    assert!(got[0] as f64 / (ALL / 2.0) > 0.999, "{got:?}");
    assert!(got[1] + got[2] < 2 * SLOT_BYTES, "{got:?}");
    // Without demand of the first one, the others share.
    let got = delivered(&mut cell(&config, &devices), &[1, 2]);
    assert!((got[1] as f64 * 2.0 / ALL - 1.0).abs() < 0.02, "{got:?}");
    assert!((got[2] as f64 * 2.0 / ALL - 1.0).abs() < 0.02, "{got:?}");
}

/// The largest delay of packets of 100 bytes each 20 ms, of a device beside 20 others with data without end.
fn worst_ns(policy: Policy, service: ServiceConfig) -> u64 {
    let config = SchedulerConfig {
        devices_per_slot: Some(1),
        ..scheduler(policy, 17)
    };
    let mut devices = vec![(RATE_BPS, service)];
    devices.resize(21, (RATE_BPS, ServiceConfig::default()));
    let mut cell = cell(&config, &devices);
    let sent = |packet: u32| u64::from(packet) * 20_000_000 + 10_000_077;
    let packets = (0..49).map(|packet| (0, Event::Arrival(sized(sent(packet), packet, 100))));
    let others = (1..21).flat_map(full_buffer);
    let mut events: Vec<_> = others.chain(packets).collect();
    events.sort_by_key(|(_, event)| event.at_ns());
    let outcomes = cell.drive(&events, SECOND, false);
    let delivered = &outcomes[0].delivered;
    assert_eq!(delivered.len(), 49);
    let delay_ns = delivered.iter().map(|run| run.at_ns - sent(run.packet));
    delay_ns.max().expect("packets")
}

#[test]
fn a_call_of_5qi_1_waits_for_no_full_buffer() {
    // Level 20 before 90: the next slot is its own. One device is served in each slot.
    let next_ns = SLOT_NS + SLOT_NS + DECODE_NS;
    assert!(worst_ns(Policy::Priority, level(20)) <= next_ns);
    // Equal parts: at most each of the others comes first.
    let turn_ns = worst_ns(Policy::RoundRobin, level(20));
    assert!(turn_ns <= 20 * SLOT_NS + next_ns, "{turn_ns}");
    // Proportional fair prefers who was given little.
    let fair_ns = worst_ns(Policy::ProportionalFair, level(20));
    assert!(fair_ns <= next_ns, "{fair_ns}");
    // The highest rate is everybody's; so who waited longest is first.
    let most_ns = worst_ns(Policy::MaximumRate, level(20));
    assert!(most_ns <= 20 * SLOT_NS + next_ns, "{most_ns}");
}
