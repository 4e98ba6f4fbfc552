//! The rules of the wifi stage, with numbers that can be checked by hand.

use std::sync::Arc;

use crate::link_support::random::{events, link, wifis};
use crate::link_support::{Event, Outcome, drive, segment, super_packet};
use proptest::prelude::*;
use wavebed_link::pattern::{End, Pattern};
use wavebed_link::queue::{Codel, CodelSettings, Infinite, Limit, Queue};
use wavebed_link::rate::Profile;
use wavebed_link::wifi::Wifi;
use wavebed_link::wifi::{Bler, WifiSettings};
use wavebed_link::{Change, Link, RandomStream, Reason, Run, Unit};

const END_NS: u64 = 10_000_000_000;

/// Four frames of 1000 bytes are full. At 1.6 Gbit/s they take 20 µs: 10 µs of overhead and 2.5 ns for each byte.
const SMALL: WifiSettings = WifiSettings {
    aggregate_bytes: 4000,
    aggregate_frames: 4,
    overhead_ns: 10_000,
    retries: 2,
    overhead_bytes: 0,
    mtu_bytes: 1000,
};
const RATE_BPS: u64 = 1_600_000_000;

fn infinite() -> Box<dyn Queue> {
    Box::new(Infinite::new(Unit::Packet))
}

fn constant(settings: WifiSettings, rate_bps: u64, bler: f64, seed: u64) -> Wifi {
    let rate = Profile::constant(rate_bps);
    let random = RandomStream::new(seed, 0);
    Wifi::new(settings, infinite(), rate, Bler::Constant(bler), random)
}

fn pattern(columns: &str, rows: &str) -> Arc<Pattern> {
    let text =
        format!("# wavebed pattern 1\n# kind = steps\n# duration_s = 0.001\n{columns}\n{rows}\n");
    Arc::new(Pattern::parse(&text).expect("the test's pattern is valid"))
}

fn played(settings: WifiSettings, pattern: &Arc<Pattern>, end: End) -> Wifi {
    let rate = Profile::pattern(pattern.clone(), end, 0, 0).expect("it has rates");
    let bler = Bler::of(pattern, end, 0, 0);
    Wifi::new(settings, infinite(), rate, bler, RandomStream::new(1, 0))
}

fn run(stage: Wifi, events: &[Event]) -> (Outcome, Link) {
    let mut link = Link::new(vec![Box::new(stage)], true);
    let outcome = drive(&mut link, events, END_NS, true);
    assert_eq!(link.next_event_ns(), None);
    (outcome, link)
}

fn arrive(runs: impl IntoIterator<Item = Run>) -> Vec<Event> {
    runs.into_iter().map(Event::Arrival).collect()
}

/// Packet, first segment, segments and time of each delivered run.
fn bursts(outcome: &Outcome) -> Vec<(u32, u16, u16, u64)> {
    let each = |run: &Run| (run.packet, run.first, run.count, run.at_ns);
    outcome.delivered.iter().map(each).collect()
}

/// Two super-packets, two failures: times computed by hand.
#[test]
fn two_superpackets_with_two_failures_end_as_computed_by_hand() {
    let seed = 59;
    let unit = |microsecond| RandomStream::new(seed, 0).process(0).unit(microsecond);
    // The frames end in these microseconds; two of them fail with probability 0.3.
    let failing: Vec<u64> = [12, 15, 17, 20, 32, 35, 47, 50]
        .into_iter()
        .filter(|&microsecond| unit(microsecond) < 0.3)
        .collect();
    assert_eq!(failing, [15, 35]);
    let arrivals = arrive([
        super_packet(0, 0, 4, 1000, 1000),
        super_packet(0, 1, 2, 1000, 1000),
    ]);
    let (outcome, link) = run(constant(SMALL, RATE_BPS, 0.3, seed), &arrivals);
    assert_eq!(
        bursts(&outcome),
        [(0, 0, 1, 20_001), (0, 1, 3, 35_001), (1, 0, 2, 50_001),]
    );
    assert_eq!(outcome.lost, []);
    let total = link.counters().total();
    assert_eq!((total.blocks_sent, total.blocks_failed), (8, 2));
}

#[test]
fn full_aggregates_carry_exactly_the_rate() {
    let settings = WifiSettings {
        aggregate_bytes: 262_143,
        aggregate_frames: 64,
        overhead_ns: 30_000,
        retries: 7,
        overhead_bytes: 40,
        mtu_bytes: 1500,
    };
    assert_eq!(settings.full_bytes(), 64 * 1540);
    for rate_bps in [27_500_000u64, 2_502_500_000, 4_620_000_000] {
        let arrivals: Vec<Run> = (0..100)
            .map(|packet| super_packet(0, packet, 64, 1500, 1500))
            .collect();
        let (outcome, _) = run(constant(settings, rate_bps, 0.0, 1), &arrive(arrivals));
        let exact_ns = (64 * 1540 * 8_000_000_000u64).div_ceil(rate_bps);
        let ends: Vec<u64> = outcome.delivered.iter().map(|run| run.at_ns).collect();
        let expected: Vec<u64> = (1..=100).map(|count| 1 + count * exact_ns).collect();
        assert_eq!(ends, expected, "{rate_bps}");
    }
}

#[test]
fn a_small_aggregate_pays_the_whole_overhead() {
    let (outcome, _) = run(
        constant(SMALL, RATE_BPS, 0.0, 1),
        &arrive([segment(0, 0, 40)]),
    );
    assert_eq!(outcome.departures(), [(0, 0, 1 + 10_000 + 100)]);
}

#[test]
fn overhead_bytes_count_for_airtime_and_for_the_limit() {
    let settings = WifiSettings {
        overhead_bytes: 100,
        mtu_bytes: 900,
        ..SMALL
    };
    let (outcome, _) = run(
        constant(settings, RATE_BPS, 0.0, 1),
        &arrive([super_packet(0, 0, 5, 900, 900)]),
    );
    assert_eq!(bursts(&outcome), [(0, 0, 4, 20_001), (0, 4, 1, 32_501)]);
}

#[test]
fn a_packet_larger_than_an_aggregate_goes_alone() {
    let arrivals = arrive([
        segment(0, 0, 1000),
        segment(0, 1, 5000),
        segment(0, 2, 1000),
    ]);
    let (outcome, _) = run(constant(SMALL, RATE_BPS, 0.0, 1), &arrivals);
    let expected = [(0, 0, 12_501), (1, 0, 35_001), (2, 0, 47_501)];
    assert_eq!(outcome.departures(), expected);
}

#[test]
fn what_arrives_when_an_aggregate_starts_waits_for_the_next() {
    let arrivals = arrive([
        segment(0, 0, 1000),
        segment(1, 1, 1000),
        segment(12_500, 2, 1000),
        segment(12_501, 3, 1000),
    ]);
    let (outcome, _) = run(constant(SMALL, RATE_BPS, 0.0, 1), &arrivals);
    let expected = [
        (0, 0, 12_501),
        (1, 0, 27_501),
        (2, 0, 27_501),
        (3, 0, 40_001),
    ];
    assert_eq!(outcome.departures(), expected);
}

#[test]
fn a_frame_is_given_up_after_its_retries() {
    let (outcome, link) = run(
        constant(SMALL, RATE_BPS, 1.0, 1),
        &arrive([segment(0, 0, 1000)]),
    );
    assert_eq!(outcome.delivered, []);
    assert_eq!(outcome.losses(), [(0, 0, 1 + 3 * 12_500)]);
    assert_eq!(
        link.counters().total().dropped[Reason::Block as usize].segments,
        1
    );
}

#[test]
fn what_follows_a_frame_that_is_given_up_is_delivered_then() {
    // From 15 µs on every frame fails; from 40 µs on none does.
    let pattern = pattern(
        "time_s,rate_bps,bler",
        "0,1600000000,0\n0.000015,1600000000,1\n0.00004,1600000000,0",
    );
    let settings = WifiSettings {
        retries: 0,
        ..SMALL
    };
    let arrivals = arrive([
        super_packet(0, 0, 4, 1000, 1000),
        segment(0, 1, 1000),
        segment(30_000, 2, 1000),
    ]);
    let (outcome, _) = run(played(settings, &pattern, End::Hold), &arrivals);
    // The error probability at the aggregate's start counts: 1 ns, 20 001 ns, 32 501 ns.
    assert_eq!(
        outcome.departures()[..4],
        [0, 1, 2, 3].map(|index| (0, index, 20_001))
    );
    assert_eq!(outcome.losses(), [(1, 0, 32_501), (2, 0, 45_001)]);
}

#[test]
fn a_gap_stops_the_window() {
    // The first aggregate fails as a whole; then the window is full and nothing new is sent.
    let pattern = pattern(
        "time_s,rate_bps,bler",
        "0,1600000000,1\n0.00001,1600000000,0",
    );
    let arrivals = arrive([super_packet(0, 0, 8, 1000, 1000)]);
    let (outcome, _) = run(played(SMALL, &pattern, End::Hold), &arrivals);
    assert_eq!(bursts(&outcome), [(0, 0, 4, 40_001), (0, 4, 4, 60_001)]);
}

#[test]
fn nothing_is_sent_at_rate_zero_and_an_interrupted_aggregate_fails_as_a_whole() {
    let pattern = pattern(
        "time_s,rate_bps",
        "0,0\n0.0001,1600000000\n0.00015,0\n0.0002,1600000000",
    );
    let arrivals = arrive([segment(7, 0, 1000), super_packet(112_500, 1, 8, 1000, 1000)]);
    let (outcome, link) = run(played(SMALL, &pattern, End::Hold), &arrivals);
    // 100 to 112.5 µs, 112.501 to 132.501 µs, 132.501 to 152.501 µs with the outage in it, 200 to 220 µs.
    assert_eq!(
        bursts(&outcome),
        [(0, 0, 1, 112_500), (1, 0, 4, 132_501), (1, 4, 4, 220_000)]
    );
    let total = link.counters().total();
    assert_eq!((total.blocks_sent, total.blocks_failed), (13, 4));
}

#[test]
fn a_live_rate_holds_from_the_next_aggregate_and_a_live_outage_cuts_the_present_one() {
    let arrivals = |change| {
        let mut events = arrive([super_packet(0, 0, 8, 1000, 1000)]);
        events.extend(change);
        run(constant(SMALL, RATE_BPS, 0.0, 1), &events).0
    };
    let faster = arrivals(vec![Event::Change(10_000, Change::RateBps(2 * RATE_BPS))]);
    assert_eq!(bursts(&faster), [(0, 0, 4, 20_001), (0, 4, 4, 30_001)]);
    let dark = [(10_000, 0), (12_000, RATE_BPS)]
        .map(|(at, rate)| Event::Change(at, Change::RateBps(rate)));
    let cut = arrivals(dark.to_vec());
    assert_eq!(bursts(&cut), [(0, 0, 4, 40_001), (0, 4, 4, 60_001)]);
    let late = [(10_000, 0), (50_000, RATE_BPS)]
        .map(|(at, rate)| Event::Change(at, Change::RateBps(rate)));
    assert_eq!(
        bursts(&arrivals(late.to_vec())),
        [(0, 0, 4, 70_000), (0, 4, 4, 90_000)]
    );
}

#[test]
fn a_live_pattern_brings_its_errors_unless_the_probability_is_constant() {
    let bad = pattern("time_s,rate_bps,bler", "0,1600000000,1");
    let good = pattern("time_s,rate_bps", "0,1600000000");
    let settings = WifiSettings {
        retries: 0,
        ..SMALL
    };
    let lost = |stage, change| {
        let events = [
            Event::Change(0, change),
            Event::Arrival(segment(1, 0, 1000)),
        ];
        run(stage, &events).0.lost.len()
    };
    let live = |pattern: &Arc<Pattern>| Change::Pattern(pattern.clone());
    assert_eq!(lost(played(settings, &good, End::Repeat), live(&bad)), 1);
    assert_eq!(lost(played(settings, &bad, End::Repeat), live(&good)), 0);
    assert_eq!(
        lost(
            played(settings, &bad, End::Repeat),
            Change::RateBps(RATE_BPS)
        ),
        0
    );
    assert_eq!(lost(constant(settings, RATE_BPS, 0.0, 1), live(&bad)), 0);
}

#[test]
fn the_end_of_a_pattern_drops_everything() {
    let pattern = pattern("time_s,rate_bps", "0,1600000000");
    let arrivals = arrive([
        super_packet(985_000, 0, 5, 1000, 1000),
        segment(1_000_001, 1, 1000),
    ]);
    let (outcome, link) = run(played(SMALL, &pattern, End::Stop), &arrivals);
    assert_eq!(outcome.delivered, []);
    assert_eq!(
        link.counters().total().dropped[Reason::Ended as usize].segments,
        6
    );
}

#[test]
fn a_rate_above_the_most_is_carried_as_the_most() {
    assert_eq!(SMALL.most_bps(), 3_200_000_000);
    for rate_bps in [3_200_000_000, 1_000_000_000_000] {
        let arrivals = arrive([super_packet(0, 0, 8, 1000, 1000)]);
        let (outcome, _) = run(constant(SMALL, rate_bps, 0.0, 1), &arrivals);
        assert_eq!(bursts(&outcome), [(0, 0, 4, 10_001), (0, 4, 4, 20_001)]);
    }
}

#[test]
fn the_series_holds_the_queue_and_the_time_in_it() {
    let arrivals = arrive([super_packet(0, 0, 8, 1000, 1000)]);
    let (_, mut link) = run(constant(SMALL, RATE_BPS, 0.0, 1), &arrivals);
    let row = link.counters_mut().finished_rows(1_000_000)[0];
    assert_eq!((row.queue_peak_bytes, row.queue_bytes), (8000, 0));
    assert_eq!((row.sojourn.count, row.sojourn.max_ns), (8, 20_001));
    assert_eq!(row.sojourn.sum_ns, 4 + 4 * 20_001);
}

#[test]
fn codel_may_drop_on_the_way_to_an_aggregate() {
    let codel = CodelSettings {
        target_ns: 1_000,
        interval_ns: 20_000,
        ecn: false,
        ce_threshold_ns: None,
        mtu_bytes: 1000,
    };
    let queue = Box::new(Codel::new(codel, Limit::Packets(1000), Unit::Packet));
    let rate = Profile::constant(RATE_BPS);
    let wifi = Wifi::new(
        SMALL,
        queue,
        rate,
        Bler::Constant(0.0),
        RandomStream::new(1, 0),
    );
    let (outcome, link) = run(wifi, &arrive([super_packet(0, 0, 200, 1000, 1000)]));
    let total = link.counters().total();
    let dropped = total.dropped[Reason::Aqm as usize].segments;
    assert!(dropped > 0);
    assert_eq!(outcome.departures().len() as u64 + dropped, 200);
}

#[test]
fn the_fraction_of_failures_is_the_bler_also_for_many_frames_in_one_microsecond() {
    // 100 bytes at 100 Gbit/s: 125 frames end in a microsecond.
    let settings = WifiSettings {
        aggregate_bytes: 100_000,
        aggregate_frames: 1000,
        overhead_ns: 0,
        retries: 0,
        overhead_bytes: 0,
        mtu_bytes: 100,
    };
    let arrivals: Vec<Run> = (0..100)
        .map(|packet| super_packet(0, packet, 1000, 100, 100))
        .collect();
    let (outcome, _) = run(
        constant(settings, 100_000_000_000, 0.1, 3),
        &arrive(arrivals),
    );
    let lost = outcome.losses();
    // Binomial(100000, 0.1): sd 94.9; five of them.
    assert!(lost.len().abs_diff(10_000) < 475, "{}", lost.len());
    // Neighbours fail independently: Binomial(99900, 0.01) pairs, sd 31.4; five of them, and a little for overlaps.
    let pairs = lost
        .windows(2)
        .filter(|pair| pair[0].0 == pair[1].0 && pair[0].1 + 1 == pair[1].1)
        .count();
    assert!(pairs.abs_diff(999) < 170, "{pairs}");
}

/// Frames of one packet each, so that the end of a frame is the end of its aggregate.
#[test]
fn two_treatments_with_one_seed_meet_the_same_channel() {
    let settings = WifiSettings {
        aggregate_frames: 1,
        retries: 0,
        ..SMALL
    };
    // 1000 bytes at 0.4 Gbit/s take 20 µs and 500 bytes 15 µs: 10 µs of overhead and 10 ns for each byte.
    let outcomes = |bytes: u16, lead_ns: u64, gap: usize| {
        let arrivals: Vec<Run> = (0u32..1000)
            .step_by(gap)
            .map(|packet| segment(100_000 * u64::from(packet + 1) - lead_ns, packet, bytes))
            .collect();
        let (outcome, _) = run(constant(settings, 400_000_000, 0.3, 8), &arrive(arrivals));
        let lost: Vec<u32> = outcome.lost.iter().map(|run| run.packet).collect();
        lost
    };
    let all = outcomes(1000, 20_000, 1);
    assert!((200..400).contains(&all.len()), "{}", all.len());
    let thirds: Vec<u32> = all.into_iter().filter(|packet| packet % 3 == 0).collect();
    assert_eq!(outcomes(500, 15_000, 3), thirds);
}

/// The contents of an aggregate, computed from the arrivals: segments, each with its bytes.
fn expected(settings: &WifiSettings, rate_bps: u64, arrivals: &[Run]) -> Vec<(u32, u16, u64)> {
    let mut waiting: Vec<(u32, u16, u64, u64)> = Vec::new();
    for run in arrivals {
        let mut rest = *run;
        while rest.count > 1 {
            let front = rest.split_front(1);
            waiting.push((front.packet, front.first, front.at_ns, front.bytes()));
        }
        waiting.push((rest.packet, rest.first, rest.at_ns, rest.bytes()));
    }
    let full = u128::from(settings.full_bytes());
    let (mut free_ns, mut next, mut departures) = (0u64, 0, Vec::new());
    while next < waiting.len() {
        let start_ns = free_ns.max(waiting[next].2 + 1);
        let (mut end, mut bytes) = (next, 0u64);
        while end < waiting.len() && end - next < settings.aggregate_frames {
            let more = waiting[end].3 + u64::from(settings.overhead_bytes);
            let fits = bytes + more <= u64::from(settings.aggregate_bytes) || end == next;
            if waiting[end].2 >= start_ns || !fits {
                break;
            }
            bytes += more;
            end += 1;
        }
        // overhead + bytes · (8 · 10⁹ / rate - overhead / full), over the common denominator rate · full.
        let rate = u128::from(rate_bps);
        let overhead = u128::from(settings.overhead_ns);
        let span =
            overhead * rate * full + u128::from(bytes) * (8_000_000_000 * full - overhead * rate);
        free_ns = start_ns + u64::try_from(span.div_ceil(rate * full)).expect("it is short");
        departures.extend(waiting[next..end].iter().map(|one| (one.0, one.1, free_ns)));
        next = end;
    }
    departures
}

fn arrivals_of(events: &[Event]) -> Vec<Run> {
    let arrival = |event: &Event| match event {
        Event::Arrival(run) => Some(*run),
        _ => None,
    };
    events.iter().filter_map(arrival).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn without_errors_aggregates_follow_from_the_arrivals(
        events in events(),
        rate_bps in 500_000_000u64..10_000_000_000,
        aggregate_bytes in 1550u32..30_000,
        aggregate_frames in 1usize..20,
        overhead_ns in 0u64..1000,
        overhead_bytes in 0u32..50,
    ) {
        let settings = WifiSettings {
            aggregate_bytes, aggregate_frames, overhead_ns, retries: 0, overhead_bytes, mtu_bytes: 1500,
        };
        let arrivals = arrivals_of(&events);
        let (outcome, _) = run(constant(settings, rate_bps, 0.0, 1), &arrive(arrivals.clone()));
        prop_assert_eq!(outcome.departures(), expected(&settings, rate_bps, &arrivals));
    }

    #[test]
    fn a_superpacket_and_its_segments_are_treated_alike(stage in wifis(), events in events(), seed in any::<u64>()) {
        let mut singly = Vec::new();
        for event in &events {
            if let Event::Arrival(run) = event {
                let mut rest = *run;
                while rest.count > 1 {
                    singly.push(Event::Arrival(rest.split_front(1)));
                }
                singly.push(Event::Arrival(rest));
            } else {
                singly.push(event.clone());
            }
        }
        let stages = [stage];
        let whole = drive(&mut link(&stages, seed), &events, 2_000_000, false);
        let parts = drive(&mut link(&stages, seed), &singly, 2_000_000, false);
        prop_assert_eq!(whole.departures(), parts.departures());
    }

    #[test]
    fn delivery_is_in_order_whatever_fails(
        events in events(),
        bler in 0.0..0.9,
        aggregate_frames in 1usize..20,
        retries in 0u32..5,
        seed in any::<u64>(),
    ) {
        let settings = WifiSettings { aggregate_frames, retries, ..SMALL };
        let (outcome, link) = run(constant(settings, RATE_BPS, bler, seed), &events);
        let order = |run: &Run| (run.packet, run.first);
        prop_assert!(outcome.delivered.is_sorted_by_key(order));
        let held = i128::from(link.backlog().segments);
        prop_assert_eq!(link.counters().total().unaccounted_segments(), held);
    }
}
