//! Modelled users of a cell: they take what devices of the same demand take.

use proptest::prelude::*;
use wavebed_link::config::{Policy, SchedulerConfig, ServiceConfig, TrafficConfig};
use wavebed_link::radio::{Air, ModelledUser, UserReport};
use wavebed_link::{RandomStream, Run};

use crate::cell_support::{CellLinks, cell_of, scheduler};
use crate::link_support::Event;
use crate::radio_support::{RATE_BPS, SLOT_BYTES, SLOT_NS, air, plain, radio_with_seed, segment};

const SECOND: u64 = 1_000_000_000;
const SLOTS: u64 = SECOND / SLOT_NS;

/// Data that lasts for a second and more, of `device`.
pub fn full_buffer(device: usize) -> Vec<(usize, Event)> {
    let runs = (0..70u32).map(|packet| Run {
        count: 1000,
        ..segment(10, packet)
    });
    runs.map(|run| (device, Event::Arrival(run))).collect()
}

fn user(place: u64, traffic: TrafficConfig, air: Air) -> (ModelledUser, ServiceConfig) {
    let random = RandomStream::new(7, 1000 + place);
    let user = ModelledUser::new(format!("user-{place}"), traffic, air, random);
    (user, ServiceConfig::default())
}

fn users(count: u64, traffic: TrafficConfig, rate_bps: u64) -> Vec<(ModelledUser, ServiceConfig)> {
    let air = || Air::constant(rate_bps, 0.0);
    (0..count)
        .map(|place| user(place, traffic, air()))
        .collect()
}

/// The bytes that each device with data got in a second.
pub fn delivered(cell: &mut CellLinks, full: &[usize]) -> Vec<u64> {
    let events: Vec<_> = full
        .iter()
        .flat_map(|&device| full_buffer(device))
        .collect();
    let outcomes = cell.drive(&events, SECOND, false);
    let bytes = |runs: &[Run]| runs.iter().map(Run::bytes).sum();
    let outcomes = outcomes.iter();
    outcomes.map(|outcome| bytes(&outcome.delivered)).collect()
}

fn cell_with(
    config: &SchedulerConfig,
    rates_bps: &[u64],
    background: Vec<(ModelledUser, ServiceConfig)>,
) -> CellLinks {
    let devices = rates_bps.iter().map(|&rate_bps| {
        let radio = radio_with_seed(plain(), Air::constant(rate_bps, 0.0), 1);
        (radio, ServiceConfig::default())
    });
    cell_of(config, devices.collect(), background)
}

const FULL: TrafficConfig = TrafficConfig::FullBuffer {};

#[test]
fn five_modelled_users_take_what_five_devices_take() {
    for policy in [Policy::ProportionalFair, Policy::RoundRobin] {
        for other_bps in [RATE_BPS, RATE_BPS / 4] {
            let config = scheduler(policy, 17);
            let mut rates_bps = vec![other_bps; 6];
            rates_bps[0] = RATE_BPS;
            let mut real = cell_with(&config, &rates_bps, Vec::new());
            let expected = delivered(&mut real, &[0, 1, 2, 3, 4, 5]);
            let mut modelled = cell_with(&config, &rates_bps[..1], users(5, FULL, other_bps));
            let found = delivered(&mut modelled, &[0])[0];
            let ratio = found as f64 / expected[0] as f64;
            assert!(
                (ratio - 1.0).abs() < 0.02,
                "{policy:?} {other_bps}: {ratio}"
            );
            let others: u64 = expected[1..].iter().sum();
            let reports = modelled.cell.background();
            let got: u64 = reports.iter().map(|user| user.fared.served_bytes).sum();
            let ratio = got as f64 / others as f64;
            assert!(
                (ratio - 1.0).abs() < 0.02,
                "{policy:?} {other_bps}: {ratio}"
            );
        }
    }
}

#[test]
fn a_modelled_user_wakes_nobody() {
    let events = |rates_bps: &[u64], background, full: &[usize]| {
        let mut cell = cell_with(
            &scheduler(Policy::ProportionalFair, 17),
            rates_bps,
            background,
        );
        let mut lists = vec![Vec::new(); rates_bps.len()];
        for &device in full {
            for (_, event) in full_buffer(device) {
                if let Event::Arrival(run) = event {
                    cell.links[device].accept(run);
                }
            }
        }
        let mut count = 0;
        while let Some(at_ns) = cell.next_event_ns().filter(|&at_ns| at_ns < SECOND / 10) {
            cell.poll(at_ns, &mut lists);
            count += 1;
        }
        count
    };
    let alone = events(&[RATE_BPS], Vec::new(), &[0]);
    let modelled = events(&[RATE_BPS], users(5, FULL, RATE_BPS), &[0]);
    let real = events(&[RATE_BPS; 6], Vec::new(), &[0, 1, 2, 3, 4, 5]);
    assert!(modelled <= alone, "{modelled} {alone}");
    assert!(modelled < real, "{modelled} {real}");
    assert_eq!(events(&[RATE_BPS], users(5, FULL, RATE_BPS), &[]), 0);
}

#[test]
fn devices_and_modelled_users_fill_the_slots() {
    let config = scheduler(Policy::ProportionalFair, 12);
    let mut cell = cell_with(&config, &[RATE_BPS, RATE_BPS], users(3, FULL, RATE_BPS));
    let got = delivered(&mut cell, &[0, 1]);
    let reports = cell.cell.background();
    let served: u64 = reports.iter().map(|user| user.fared.served_bytes).sum();
    // The blocks of the last slot are on their way.
    let all = got.iter().sum::<u64>() + served;
    assert!(
        ((SLOTS - 2) * SLOT_BYTES..=(SLOTS + 1) * SLOT_BYTES).contains(&all),
        "{all}"
    );
    let air_ns: u64 = reports.iter().map(|user| user.air_ns).sum();
    let of_devices: u64 = cell
        .links
        .iter()
        .map(|link| link.counters().total().air_ns)
        .sum();
    let all_ns = air_ns + of_devices;
    assert!(all_ns.abs_diff(SECOND) < 3 * SLOT_NS, "{all_ns}");
    for report in &reports {
        let ratio = report.air_ns as f64 * 5.0 / SECOND as f64;
        assert!((ratio - 1.0).abs() < 0.02, "{report:?}");
    }
}

/// Devices, modelled users and control information have the time of all slots, by independent counts.
#[test]
fn the_shares_of_the_air_time_sum_to_the_slots() {
    let slots_ns = |cell: &CellLinks| cell.cell.air(SECOND).slots_ns;
    let of_devices = |cell: &CellLinks| -> u64 {
        let links = cell.links.iter();
        links.map(|link| link.counters().total().air_ns).sum()
    };
    for policy in [Policy::ProportionalFair, Policy::RoundRobin] {
        let config = SchedulerConfig {
            control_units: 1,
            devices_per_slot: Some(2),
            ..scheduler(policy, 16)
        };
        let mut cell = cell_with(&config, &[RATE_BPS, RATE_BPS], users(3, FULL, RATE_BPS));
        delivered(&mut cell, &[0, 1]);
        cell.cell.finish(SECOND);
        assert_eq!(slots_ns(&cell), SECOND);
        let of_users: u64 = cell.cell.background().iter().map(|user| user.air_ns).sum();
        let control_ns = cell.cell.air(SECOND).control_ns;
        // A full buffer takes all that it is given; of a slot with one or two users 1/16 each is control.
        let used = of_devices(&cell) + of_users + control_ns;
        assert!(used.abs_diff(SECOND) <= 4 * SLOT_NS, "{policy:?} {used}");
        let share = control_ns as f64 / SECOND as f64;
        assert!((0.0625..=0.1251).contains(&share), "{policy:?} {share}");
    }
    // A user with a known demand alone: the rest is idle.
    let traffic = TrafficConfig::Files {
        per_s: 48.0,
        bytes: 500_000,
    };
    let config = scheduler(Policy::ProportionalFair, 16);
    let cell = cell_with(&config, &[RATE_BPS], users(1, traffic, RATE_BPS));
    cell.cell.advance(100 * SECOND);
    let user = cell.cell.background().remove(0);
    let air = cell.cell.air(100 * SECOND);
    assert_eq!((air.slots_ns, air.control_ns), (100 * SECOND, 0));
    let idle = 1.0 - user.air_ns as f64 / air.slots_ns as f64;
    let served = user.fared.served_bytes as f64 * 8.0 / (100.0 * RATE_BPS as f64);
    assert!((idle - (1.0 - served)).abs() < 0.002, "{idle} {served}");
}

#[test]
fn rows_and_files_sum_to_the_totals_whenever_they_are_taken() {
    let traffic = TrafficConfig::Files {
        per_s: 300.0,
        bytes: 100_000,
    };
    let run = |steps: u64| {
        let config = SchedulerConfig {
            control_units: 1,
            ..scheduler(Policy::ProportionalFair, 17)
        };
        let mut cell = cell_with(&config, &[RATE_BPS], users(2, traffic, RATE_BPS));
        cell.cell.keep(true);
        let events = full_buffer(0).into_iter().take(20);
        let events: Vec<_> = events.collect();
        let (mut air, mut got, mut files) = (Vec::new(), Vec::new(), Vec::new());
        for step in 1..=steps {
            let now_ns = SECOND / 4 * step / steps;
            let given: &[_] = if step == 1 { &events } else { &[] };
            cell.drive(given, now_ns, false);
            let (more_air, more) = cell.cell.take_rows(now_ns, step == steps);
            air.extend(more_air);
            got.extend(more);
            files.extend(cell.cell.take_files());
        }
        got.sort_by_key(|row| (row.at_ms, row.user));
        files.sort_by_key(|(user, file)| (file.ended_ns, *user));
        let reports = cell.cell.background();
        let total = cell.cell.air(SECOND / 4);
        (air, got, files, reports, total)
    };
    let (air, got, files, reports, total) = run(1);
    for (place, report) in reports.iter().enumerate() {
        let rows = || got.iter().filter(|row| row.user == place);
        assert_eq!(rows().map(|row| row.air_ns).sum::<u64>(), report.air_ns);
        let served: u64 = rows().map(|row| row.served_bytes).sum();
        assert!(report.fared.served_bytes - served <= 2 * SLOT_BYTES);
        let own = files.iter().filter(|(user, _)| *user == place);
        let times = own.map(|(_, file)| file.ended_ns - file.requested_ns);
        assert_eq!(times.sum::<u64>(), report.fared.files_ns);
        let waiting = report.fared.offered_bytes - report.fared.served_bytes;
        assert_eq!(report.queued_bytes, Some(waiting));
    }
    let slots: u64 = air.iter().map(|row| row.air.slots_ns).sum();
    let control: u64 = air.iter().map(|row| row.air.control_ns).sum();
    assert_eq!((slots, control), (total.slots_ns, total.control_ns));
    assert!(!files.is_empty() && control > 0);
    let (air_again, got_again, files_again, ..) = run(97);
    assert_eq!((air_again, got_again, files_again), (air, got, files));
}

#[test]
fn failed_blocks_of_a_modelled_user_cost_capacity() {
    let bad = air("1", &["0,768000000,0.25,los"]);
    let background = vec![
        user(0, FULL, Air::constant(RATE_BPS, 0.0)),
        user(1, FULL, bad),
    ];
    let config = scheduler(Policy::RoundRobin, 16);
    let cell = cell_with(&config, &[RATE_BPS], background);
    cell.cell.advance(SECOND);
    let [good, bad] = &cell.cell.background()[..] else {
        panic!("two users")
    };
    assert_eq!(good.air_ns, bad.air_ns);
    // 8000 blocks: the standard error of the part that fails is 0.5 %; four of them.
    let ratio = bad.fared.served_bytes as f64 / good.fared.served_bytes as f64;
    assert!((ratio - 0.75).abs() < 0.02, "{ratio}");
}

#[test]
fn users_with_a_file_each_count_as_so_many() {
    // No file ends within the second.
    let traffic = TrafficConfig::UserPerFile {
        per_s: 20.0,
        bytes: 1_000_000_000,
    };
    for policy in [Policy::ProportionalFair, Policy::RoundRobin] {
        let mut cell = cell_with(
            &scheduler(policy, 275),
            &[RATE_BPS],
            users(1, traffic, RATE_BPS),
        );
        let got = delivered(&mut cell, &[0])[0];
        let arrived = |at_ns: u64| {
            let mut demand = wavebed_link::radio::Background::new(
                traffic,
                RandomStream::new(7, 1000).process(0),
            );
            demand.advance(at_ns);
            demand.users() as f64
        };
        let parts = (0..1000).map(|ms| 1.0 / (1.0 + arrived(ms * 1_000_000)));
        let expected = parts.sum::<f64>() / 1000.0 * SLOTS as f64 * SLOT_BYTES as f64;
        let ratio = got as f64 / expected;
        assert!((ratio - 1.0).abs() < 0.1, "{policy:?}: {ratio}");
    }
}

/// Files of a user alone: what M/D/1 says, with a rate of 768 Mbit/s and slots of 125 µs.
#[test]
fn a_modelled_user_alone_has_the_whole_rate() {
    let traffic = TrafficConfig::Files {
        per_s: 96.0,
        bytes: 500_000,
    };
    let cell = cell_with(
        &scheduler(Policy::ProportionalFair, 12),
        &[RATE_BPS],
        users(1, traffic, RATE_BPS),
    );
    cell.cell.advance(400 * SECOND);
    let UserReport { fared, air_ns, .. } = cell.cell.background().remove(0);
    let service_ns = 500_000.0 * 8.0 / 0.768;
    let found_ns = fared.files_ns as f64 / fared.files as f64;
    // Half the files find others: ρ = 0.5. A file begins up to a slot after it arrives.
    let expected_ns = service_ns * 1.5 + SLOT_NS as f64 / 2.0;
    assert!(
        (found_ns / expected_ns - 1.0).abs() < 0.05,
        "{found_ns} {expected_ns}"
    );
    let busy = air_ns as f64 / (400.0 * SECOND as f64);
    assert!(
        (busy - fared.served_bytes as f64 / 400.0 / 96e6).abs() < 0.002,
        "{busy}"
    );
}

fn traffic() -> impl Strategy<Value = TrafficConfig> {
    prop_oneof![
        Just(FULL),
        (10.0..3000.0f64, 1..200_000u64)
            .prop_map(|(per_s, bytes)| TrafficConfig::Files { per_s, bytes }),
        (10.0..3000.0f64, 1..200_000u64)
            .prop_map(|(per_s, bytes)| TrafficConfig::UserPerFile { per_s, bytes }),
        (1..200_000u64, 1..5_000_000u64)
            .prop_map(|(bytes, pause_ns)| TrafficConfig::FileAfterFile { bytes, pause_ns }),
        (
            1_000_000..900_000_000u64,
            100_000..5_000_000u64,
            1..5_000_000u64
        )
            .prop_map(|(rate_bps, on_ns, off_ns)| TrafficConfig::OnOff {
                rate_bps,
                on_ns,
                off_ns
            }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn the_moments_of_polling_change_nothing_for_modelled_users(
        demands in prop::collection::vec(traffic(), 1..4),
        policy in prop_oneof![Just(Policy::ProportionalFair), Just(Policy::RoundRobin), Just(Policy::Priority)],
        prepare_slots in 0..4u64,
        arrivals in prop::collection::vec((0..20_000_000u64, 0..2usize, 1..60u16), 0..30),
        polls in prop::collection::vec(0..20_000_000u64, 0..60),
    ) {
        let run = |polls: &[u64], eager: bool| {
            let mut config = plain();
            config.carriers.primary.prepare_ns = prepare_slots * SLOT_NS;
            let radio = || radio_with_seed(config.clone(), Air::constant(RATE_BPS, 0.0), 1);
            let devices = (0..2).map(|_| (radio(), ServiceConfig::default())).collect();
            let background = (0..).zip(&demands);
            let background = background
                .map(|(place, &traffic)| user(place, traffic, air("0.01", &["0,768000000,0.1,los", "0.004,0,0,los", "0.006,90000000,0,los"])));
            let mut cell = cell_of(&scheduler(policy, 17), devices, background.collect());
            let arrivals = (0..).zip(&arrivals).map(|(packet, &(at_ns, device, count))| {
                (device, Event::Arrival(Run { count, ..segment(at_ns, packet) }))
            });
            let polls = polls.iter().map(|&at_ns| (0, Event::Poll(at_ns)));
            let mut events: Vec<_> = arrivals.chain(polls).collect();
            events.sort_by_key(|(_, event)| (event.at_ns(), matches!(event, Event::Poll(_))));
            let outcomes = cell.drive(&events, 25_000_000, eager);
            let delivered: Vec<Vec<Run>> = outcomes.into_iter().map(|outcome| outcome.delivered).collect();
            (delivered, cell.cell.background())
        };
        let expected = run(&[], false);
        prop_assert_eq!(&run(&polls, false), &expected);
        prop_assert_eq!(&run(&polls, true), &expected);
        for report in expected.1 {
            prop_assert!(report.fared.served_bytes <= report.fared.offered_bytes);
            prop_assert!(report.air_ns <= 25_000_000 + 4 * SLOT_NS);
        }
    }
}
