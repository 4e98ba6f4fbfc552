//! Invariants of every cell, for all radios, arrivals, polls and live changes.

use std::collections::BTreeMap;

use proptest::prelude::*;
use wavebed_link::config::{Policy, SchedulerConfig, ServiceConfig, SliceConfig};
use wavebed_link::{Counts, Link};

use crate::cell_support::{cell, scheduler};
use crate::link_support::random::{events, link, others, single_radios, with_polls};
use crate::link_support::{Event, Outcome, assert_conserved, drive, each};

const END_NS: u64 = 2_000_000;

fn policies() -> impl Strategy<Value = Policy> {
    prop_oneof![
        Just(Policy::ProportionalFair),
        Just(Policy::RoundRobin),
        Just(Policy::MaximumRate),
        Just(Policy::Priority),
    ]
}

fn schedulers() -> impl Strategy<Value = SchedulerConfig> {
    let slices = prop_oneof![
        Just(Vec::new()),
        Just(vec![SliceConfig {
            name: "a".into(),
            share: 0.3
        }])
    ];
    (
        policies(),
        2u32..20,
        prop::option::of(1u32..3),
        0u32..2,
        slices,
    )
        .prop_map(
            |(policy, units, devices_per_slot, control_units, slices)| SchedulerConfig {
                devices_per_slot,
                control_units,
                slices,
                ..scheduler(policy, units)
            },
        )
}

fn services() -> impl Strategy<Value = ServiceConfig> {
    (1u32..4, prop::option::of(1_000_000u64..2_000_000_000)).prop_map(|(level, guaranteed_bps)| {
        ServiceConfig {
            level,
            guaranteed_bps,
            slice: None,
        }
    })
}

/// Stages of a device: others before and after the radio of its cell, whose slots all devices have.
fn devices() -> impl Strategy<Value = Vec<Vec<String>>> {
    let few = || prop::collection::vec(others(), 0..2);
    let of = (few(), single_radios(), few()).prop_map(|(before, radio, after)| {
        let mut stages = before;
        stages.push(radio);
        stages.extend(after);
        stages
    });
    prop::collection::vec(of, 3).prop_map(|mut devices| {
        let radio = |stages: &[String]| {
            let place = stages
                .iter()
                .position(|text| text.contains(r#""stage":"radio""#));
            place.expect("it has a radio")
        };
        let first: serde_json::Value =
            serde_json::from_str(&devices[0][radio(&devices[0])]).expect("it is JSON");
        for stages in &mut devices {
            let place = radio(stages);
            let mut stage: serde_json::Value =
                serde_json::from_str(&stages[place]).expect("it is JSON");
            for key in ["slots", "fallback", "direction"] {
                stage[key] = first[key].clone();
            }
            if stage["direction"] == "up" {
                stage["aggregation"] = serde_json::Value::Null;
            }
            stages[place] = stage.to_string();
        }
        devices
    })
}

fn sorted(outcome: &Outcome) -> Vec<(u32, u16, u64)> {
    let mut lost = each(&outcome.lost);
    lost.sort_unstable_by_key(|&(packet, index, at_ns)| (at_ns, packet, index));
    lost
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_device_with_nobody_beside_it_is_a_radio_alone(
        stages in (prop::collection::vec(others(), 0..2), single_radios()),
        policy in policies(),
        units in 1u32..30,
        events in events(),
        seed in any::<u64>(),
        eager in any::<bool>(),
    ) {
        let (mut stages, radio) = stages;
        stages.push(radio);
        let mut alone = link(&stages, seed);
        let expected = drive(&mut alone, &events, END_NS, eager);
        let device = (stages, ServiceConfig::default());
        let events: Vec<_> = events.into_iter().map(|event| (0, event)).collect();
        // Air time alone differs: a cell counts the parts of a slot.
        let total = |link: &Link| Counts { air_ns: 0, ..*link.counters().total() };
        let rows = |link: &mut Link| {
            let mut rows = link.counters_mut().finished_rows(END_NS);
            for row in &mut rows {
                row.counts.air_ns = 0;
            }
            format!("{rows:?}")
        };
        let alone_rows = rows(&mut alone);
        for devices in [vec![device.clone()], vec![device.clone(), device]] {
            let mut some = cell(&scheduler(policy, units), &devices, seed);
            prop_assert_eq!(some.links[0].has_port(), devices.len() > 1);
            let found = some.drive(&events, END_NS, eager);
            prop_assert_eq!(&found[0].delivered, &expected.delivered);
            prop_assert_eq!(sorted(&found[0]), sorted(&expected));
            prop_assert_eq!(total(&some.links[0]), total(&alone));
            prop_assert_eq!(&rows(&mut some.links[0]), &alone_rows);
        }
    }

    #[test]
    fn every_segment_of_every_device_is_accounted_for(
        stages in devices(),
        services in prop::collection::vec(services(), 3),
        config in schedulers(),
        events in events(),
        seed in any::<u64>(),
    ) {
        let devices: Vec<_> = stages.into_iter().zip(services).collect();
        let mut some = cell(&config, &devices, seed);
        let mut delivered = vec![Vec::new(); 3];
        let mut place = 0;
        for event in with_polls(&events, seed) {
            place = (place + 1) % 3;
            match event {
                Event::Arrival(run) => some.links[place].accept(run),
                Event::Poll(at_ns) => some.poll(at_ns, &mut delivered),
                Event::Change(at_ns, change) => {
                    some.poll(at_ns, &mut delivered);
                    some.links[place].apply(at_ns, &change);
                }
            }
            some.links.iter().for_each(assert_conserved);
        }
        some.poll(END_NS, &mut delivered);
        some.links.iter().for_each(assert_conserved);
    }

    #[test]
    fn the_devices_of_a_cell_share_the_time_of_each_slot(
        stages in devices(),
        services in prop::collection::vec(services(), 3),
        config in schedulers(),
        events in events(),
        seed in any::<u64>(),
    ) {
        // At one base station the two carriers have one slot each at a time; a carrier of the fall-back has its own.
        let devices: Vec<_> = stages.into_iter().zip(services).collect();
        let mut some = cell(&config, &devices, seed);
        some.links.iter_mut().for_each(Link::log_packets);
        let events: Vec<_> = (0..).zip(events).map(|(place, event)| (place % 3, event)).collect();
        some.drive(&events, END_NS, false);
        let mut of_slots: BTreeMap<(bool, u32, u64), u64> = BTreeMap::new();
        let mut air_ns = 0;
        for (device, link) in some.links.iter_mut().enumerate() {
            let total = *link.counters().total();
            let blocks: Vec<_> = link.packet_log().expect("it was asked for").take_blocks().collect();
            prop_assert_eq!(total.blocks_sent, blocks.len() as u64);
            air_ns += total.air_ns;
            for block in &blocks {
                *of_slots.entry((block.slot.fallback, block.slot.carrier, block.slot.index)).or_default() += 1;
                prop_assert!(block.turn_of.is_none_or(|other| other < 3), "{:?}", block);
                prop_assert!(block.turn_of.map(|other| other as usize) != Some(device), "{:?}", block);
                prop_assert!(block.turn_of.is_none() || block.turn_ns > 0 || block.turn_last_ns == 0, "{:?}", block);
            }
            let rows = link.counters_mut().finished_rows(END_NS);
            prop_assert!(rows.iter().map(|row| row.counts.air_ns).sum::<u64>() <= total.air_ns);
        }
        let slot = |text: &str| -> u64 {
            let radio = devices[0].0.iter().find(|stage| stage.contains("\"slots\"")).expect("it has a radio");
            let keys: serde_json::Value = serde_json::from_str(radio).expect("it is JSON");
            keys[text]["slot_ns"].as_u64().unwrap_or(0)
        };
        let (primary_ns, fallback_ns) = (slot("slots"), slot("fallback"));
        let most_ns: u64 = of_slots
            .keys()
            .map(|&(is_fallback, ..)| if is_fallback { fallback_ns } else { primary_ns })
            .sum();
        prop_assert!(air_ns <= most_ns, "{} ns in slots of {} ns", air_ns, most_ns);
        prop_assert!(of_slots.values().all(|&blocks| blocks <= 3));
    }

    #[test]
    fn the_moments_of_polling_a_cell_change_nothing(
        stages in devices(),
        services in prop::collection::vec(services(), 3),
        config in schedulers(),
        events in events(),
        seed in any::<u64>(),
    ) {
        let devices: Vec<_> = stages.into_iter().zip(services).collect();
        let shared = |events: &[Event]| -> Vec<(usize, Event)> {
            let device = |event: &Event| match event {
                Event::Arrival(run) => run.packet as usize % 3,
                _ => 0,
            };
            events.iter().map(|event| (device(event), event.clone())).collect()
        };
        let lazy = cell(&config, &devices, seed).drive(&shared(&events), END_NS, false);
        for (polled, eager) in [(with_polls(&events, seed), false), (events, true)] {
            let other = cell(&config, &devices, seed).drive(&shared(&polled), END_NS, eager);
            for (one, other) in lazy.iter().zip(&other) {
                prop_assert_eq!(&one.delivered, &other.delivered);
                prop_assert_eq!(sorted(one), sorted(other));
            }
        }
    }
}
