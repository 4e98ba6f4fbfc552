//! The rules of a bottleneck, with numbers that can be checked by hand.

use std::sync::Arc;

use crate::link_support::{Event, Outcome, drive, segment, super_packet, through};
use wavebed_link::bottleneck::{Bottleneck, BottleneckConfig, Outage};
use wavebed_link::pattern::{End, Pattern};
use wavebed_link::queue::{DropHead, DropTail, Infinite, Limit, Queue};
use wavebed_link::rate::{
    Fluid, Opportunities, Profile, Sampled, SampledConfig, Server, TokenBucket,
};
use wavebed_link::{Change, Link, Reason, Run, Stage, Unit};

const MBPS: u64 = 1_000_000;

fn pattern(kind: &str, header: &str, rows: &str) -> Arc<Pattern> {
    let text = format!("# wavebed pattern 1\n# kind = {kind}\n# {header}\n{rows}\n");
    Arc::new(Pattern::parse(&text).expect("the test's pattern is valid"))
}

fn constant(rate_bps: u64) -> Fluid {
    Fluid::new(Profile::constant(rate_bps))
}

fn steps(rows: &str, duration: &str, end: End) -> Fluid {
    let pattern = pattern(
        "steps",
        &format!("duration_s = {duration}"),
        &format!("time_s,rate_bps\n{rows}"),
    );
    Fluid::new(Profile::pattern(pattern, end, 0, 0).expect("it has rates"))
}

fn with(queue: impl Queue + 'static, server: impl Server + 'static) -> Bottleneck<Box<dyn Queue>> {
    Bottleneck::new(
        BottleneckConfig::default(),
        Box::new(queue),
        Box::new(server),
    )
}

fn unlimited(server: impl Server + 'static) -> Bottleneck<Box<dyn Queue>> {
    with(Infinite::new(Unit::Packet), server)
}

fn dropping(server: impl Server + 'static) -> Bottleneck<Infinite> {
    let config = BottleneckConfig {
        outage: Outage::Drop,
        ..BottleneckConfig::default()
    };
    Bottleneck::new(config, Infinite::new(Unit::Packet), Box::new(server))
}

/// Drives one stage; returns its output and the link, for its counters.
fn run(stage: impl Stage + 'static, events: &[Event], until_ns: u64) -> (Outcome, Link) {
    let mut link = Link::new(vec![Box::new(stage)], true);
    let outcome = drive(&mut link, events, until_ns, false);
    (outcome, link)
}

fn arrivals(runs: &[Run]) -> Vec<Event> {
    runs.iter().map(|&run| Event::Arrival(run)).collect()
}

fn dropped(link: &Link, reason: Reason) -> u64 {
    link.counters().total().dropped[reason as usize].segments
}

#[test]
fn a_segment_takes_its_bits_over_the_rate_and_the_next_one_waits() {
    let out = through(
        unlimited(constant(12 * MBPS)),
        &[super_packet(10, 1, 2, 1500, 750)],
        1 << 40,
    );
    assert_eq!(out.departures(), [(1, 0, 1_000_010), (1, 1, 1_500_010)]);
}

#[test]
fn overhead_counts_for_each_wire_segment() {
    for (unit, departures) in [
        (Unit::Packet, vec![(1, 0, 1_000_000), (1, 1, 2_000_000)]),
        (
            Unit::Superpacket,
            vec![(1, 0, 2_000_000), (1, 1, 2_000_000)],
        ),
    ] {
        let config = BottleneckConfig {
            overhead_bytes: 100,
            unit,
            ..BottleneckConfig::default()
        };
        let stage = Bottleneck::new(config, Infinite::new(unit), Box::new(constant(12 * MBPS)));
        let out = through(stage, &[super_packet(0, 1, 2, 1400, 1400)], 1 << 40);
        assert_eq!(out.departures(), departures);
    }
}

#[test]
fn a_new_rate_revises_the_segment_in_service() {
    // 12000 bits at 12 Mbit/s: half of them are out at 0.5 ms, the rest takes 0.25 ms at 24 Mbit/s.
    let events = [
        Event::Arrival(segment(0, 1, 1500)),
        Event::Change(500_000, Change::RateBps(24 * MBPS)),
        Event::Change(600_000, Change::RateBps(0)),
        Event::Change(10_000_000, Change::RateBps(36 * MBPS)),
    ];
    let (out, _) = run(unlimited(constant(12 * MBPS)), &events[..2], 1 << 40);
    assert_eq!(out.departures(), [(1, 0, 750_000)]);
    // 6000 + 2400 bits are out at 0.6 ms; 3600 are left at 10 ms.
    let (out, _) = run(unlimited(constant(12 * MBPS)), &events, 1 << 40);
    assert_eq!(out.departures(), [(1, 0, 10_100_000)]);
}

#[test]
fn a_live_pattern_starts_at_the_change() {
    let rates = pattern(
        "steps",
        "duration_s = 0.002",
        "time_s,rate_bps\n0,12000000\n0.001,6000000",
    );
    let opportunities = pattern(
        "opportunities",
        "duration_s = 0.001",
        "time_s,bytes\n0.0002,1000\n0.001,1000",
    );
    let arrival = Event::Arrival(super_packet(0, 1, 3, 1500, 1500));
    let events = [
        arrival.clone(),
        Event::Change(500_000, Change::Pattern(rates)),
    ];
    let (out, _) = run(unlimited(constant(12 * MBPS)), &events, 1 << 40);
    assert_eq!(
        out.departures(),
        [(1, 0, 1_000_000), (1, 1, 2_500_000), (1, 2, 3_500_000)]
    );
    // 750 bytes are left at 0.5 ms: opportunities at 0.7 and 1.5 ms, then each 0.2 and 1 ms after 1.5, 2.5, ...
    let events = [
        arrival,
        Event::Change(500_000, Change::Pattern(opportunities)),
    ];
    let (out, _) = run(unlimited(constant(12 * MBPS)), &events, 1 << 40);
    assert_eq!(
        out.departures(),
        [(1, 0, 700_000), (1, 1, 1_700_000), (1, 2, 2_500_000)]
    );
}

#[test]
fn a_constant_rate_replaces_opportunities_live() {
    let list = pattern(
        "opportunities",
        "duration_s = 1",
        "time_s,bytes\n0.001,1000\n1,1000",
    );
    let server = Opportunities::new(list, End::Repeat, 0, 0).expect("it has opportunities");
    let events = [
        Event::Arrival(segment(0, 1, 1500)),
        Event::Change(2_000_000, Change::RateBps(4 * MBPS)),
    ];
    let (out, _) = run(unlimited(server), &events, 1 << 40);
    assert_eq!(out.departures(), [(1, 0, 3_000_000)]);
}

#[test]
fn held_packets_survive_an_outage_and_the_one_in_service_goes_on() {
    // 12 Mbit/s, nothing from 1.5 ms to 10 ms, 24 Mbit/s afterwards.
    let server = steps("0,12000000\n0.0015,0\n0.01,24000000", "1", End::Hold);
    let (out, link) = run(
        unlimited(server),
        &arrivals(&[super_packet(0, 1, 3, 1500, 1500)]),
        1 << 40,
    );
    assert_eq!(
        out.departures(),
        [(1, 0, 1_000_000), (1, 1, 10_250_000), (1, 2, 10_750_000)]
    );
    assert_eq!(link.counters().total().dropped_total().segments, 0);
}

#[test]
fn an_arrival_during_an_outage_waits_for_the_rate_to_rise() {
    let server = steps("0,0\n0.01,12000000", "1", End::Repeat);
    let events = arrivals(&[segment(0, 1, 1500), segment(5_000_000, 2, 1500)]);
    let (out, _) = run(unlimited(server), &events, 900_000_000);
    assert_eq!(out.departures(), [(1, 0, 11_000_000), (2, 0, 12_000_000)]);
}

#[test]
fn an_outage_that_drops_takes_what_waits_and_what_arrives() {
    let server = steps("0,12000000\n0.0015,0\n0.01,24000000", "1", End::Hold);
    let events = arrivals(&[
        super_packet(0, 1, 3, 1500, 1500),
        segment(1_500_000, 2, 1500),
        segment(9_999_999, 3, 1500),
        segment(10_000_000, 4, 1500),
    ]);
    let (out, link) = run(dropping(server), &events, 1 << 40);
    assert_eq!(out.departures(), [(1, 0, 1_000_000), (4, 0, 10_500_000)]);
    assert_eq!(
        out.losses(),
        [
            (1, 1, 1_500_000),
            (1, 2, 1_500_000),
            (2, 0, 1_500_000),
            (3, 0, 9_999_999)
        ]
    );
    assert_eq!(dropped(&link, Reason::Outage), 4);
}

#[test]
fn a_segment_dropped_by_an_outage_leaves_no_trace_on_the_next_one() {
    // The dropped segment would have ended at 24 Mbit/s; the next one has 0.25 ms of 12 Mbit/s before that.
    let rows = "0,12000000\n0.0005,0\n0.001,12000000\n0.00125,24000000";
    let events = arrivals(&[segment(0, 1, 1500), segment(1_000_000, 2, 1500)]);
    let (out, _) = run(dropping(steps(rows, "1", End::Hold)), &events, 1 << 40);
    assert_eq!(out.losses(), [(1, 0, 500_000)]);
    assert_eq!(out.departures(), [(2, 0, 1_625_000)]);
}

#[test]
fn a_live_rate_of_zero_is_an_outage_too() {
    let events = [
        Event::Arrival(super_packet(0, 1, 2, 1500, 1500)),
        Event::Change(250_000, Change::RateBps(0)),
        Event::Arrival(segment(300_000, 2, 1500)),
        Event::Change(400_000, Change::RateBps(12 * MBPS)),
        Event::Arrival(segment(500_000, 3, 1500)),
    ];
    let (out, link) = run(dropping(constant(12 * MBPS)), &events, 1 << 40);
    assert_eq!(out.departures(), [(3, 0, 1_500_000)]);
    assert_eq!(
        out.losses(),
        [(1, 0, 250_000), (1, 1, 250_000), (2, 0, 300_000)]
    );
    assert_eq!(dropped(&link, Reason::Outage), 3);
}

#[test]
fn a_pattern_that_stops_ends_everything_at_its_duration() {
    let server = steps("0,12000000", "0.0025", End::Stop);
    let events = arrivals(&[
        super_packet(0, 1, 3, 1500, 1500),
        segment(2_500_000, 2, 1500),
    ]);
    let (out, link) = run(unlimited(server), &events, 1 << 40);
    assert_eq!(out.departures(), [(1, 0, 1_000_000), (1, 1, 2_000_000)]);
    assert_eq!(out.losses(), [(1, 2, 2_500_000), (2, 0, 2_500_000)]);
    assert_eq!(dropped(&link, Reason::Ended), 2);
}

#[test]
fn a_live_rate_revives_a_link_that_has_ended() {
    let list = pattern(
        "opportunities",
        "duration_s = 0.001",
        "time_s,bytes\n0.001,2000",
    );
    let server = Opportunities::new(list, End::Stop, 0, 0).expect("it has opportunities");
    let events = [
        Event::Arrival(super_packet(0, 1, 2, 1500, 1500)),
        Event::Arrival(segment(2_000_000, 2, 1500)),
        Event::Change(3_000_000, Change::RateBps(12 * MBPS)),
        Event::Arrival(segment(3_000_000, 3, 1500)),
    ];
    let (out, link) = run(unlimited(server), &events, 1 << 40);
    assert_eq!(out.departures(), [(1, 0, 1_000_000), (3, 0, 4_000_000)]);
    assert_eq!(dropped(&link, Reason::Ended), 2);
}

#[test]
fn an_unused_opportunity_is_lost_and_so_is_one_at_the_time_of_arrival() {
    let list = pattern(
        "opportunities",
        "duration_s = 0.004",
        "time_s,bytes\n0.001,1500\n0.002,1500\n0.003,4000",
    );
    let server = Opportunities::new(list, End::Repeat, 0, 0).expect("it has opportunities");
    let runs = [
        segment(2_000_000, 1, 1500),
        segment(2_500_000, 2, 1500),
        segment(3_000_000, 3, 1000),
    ];
    let out = through(unlimited(server), &runs, 1 << 40);
    assert_eq!(
        out.departures(),
        [(1, 0, 3_000_000), (2, 0, 3_000_000), (3, 0, 5_000_000)]
    );
}

#[test]
fn a_packet_occupies_its_limit_until_an_opportunity_takes_it() {
    let list = pattern(
        "opportunities",
        "duration_s = 0.001",
        "time_s,bytes\n0.001,500",
    );
    let server = Opportunities::new(list, End::Repeat, 0, 0).expect("it has opportunities");
    let stage = with(DropTail::new(Limit::Packets(2), Unit::Packet), server);
    // The first opportunity takes a third of segment 0, which makes room for packet 2.
    let runs = [
        super_packet(0, 1, 3, 1500, 1500),
        segment(1_000_000, 2, 1500),
        segment(1_000_001, 3, 1500),
    ];
    let out = through(stage, &runs, 1 << 40);
    assert_eq!(out.losses(), [(1, 2, 0), (3, 0, 1_000_001)]);
    assert_eq!(
        out.departures(),
        [(1, 0, 3_000_000), (1, 1, 6_000_000), (2, 0, 9_000_000)]
    );
}

#[test]
fn a_burst_passes_a_full_bucket_at_once_and_the_rest_keeps_to_the_rate() {
    let server = TokenBucket::new(Profile::constant(12 * MBPS), 3000);
    let out = through(
        unlimited(server),
        &[super_packet(7, 1, 4, 1500, 1500)],
        1 << 40,
    );
    assert_eq!(
        out.departures(),
        [(1, 0, 7), (1, 1, 7), (1, 2, 1_000_007), (1, 3, 2_000_007)]
    );
}

#[test]
fn a_segment_larger_than_the_bucket_leaves_it_in_debt() {
    let server = TokenBucket::new(Profile::constant(8 * MBPS), 1000);
    let out = through(
        unlimited(server),
        &[segment(0, 1, 1500), segment(0, 2, 1000)],
        1 << 40,
    );
    assert_eq!(out.departures(), [(1, 0, 0), (2, 0, 1_500_000)]);
}

#[test]
fn a_bucket_keeps_its_tokens_when_the_rate_changes() {
    let events = [
        Event::Arrival(super_packet(0, 1, 2, 1500, 1500)),
        Event::Change(500_000, Change::RateBps(6 * MBPS)),
    ];
    let server = TokenBucket::new(Profile::constant(12 * MBPS), 1500);
    let (out, _) = run(unlimited(server), &events, 1 << 40);
    assert_eq!(out.departures(), [(1, 0, 0), (1, 1, 1_500_000)]);
}

fn sampled(limit: Option<Limit>, unit: Unit, server: Profile) -> Sampled {
    Sampled::new(
        SampledConfig {
            limit,
            overhead_bytes: 0,
            unit,
            drop_in_outage: false,
        },
        server,
    )
}

#[test]
fn a_sampled_departure_is_fixed_on_arrival() {
    // Both segments of packet 1 are timed at 12 Mbit/s, though the rate doubles before they leave.
    let events = [
        Event::Arrival(super_packet(0, 1, 2, 1500, 1500)),
        Event::Change(100_000, Change::RateBps(24 * MBPS)),
        Event::Arrival(segment(200_000, 2, 1500)),
    ];
    let stage = sampled(None, Unit::Packet, Profile::constant(12 * MBPS));
    let (out, _) = run(stage, &events, 1 << 40);
    assert_eq!(
        out.departures(),
        [(1, 0, 1_000_000), (1, 1, 2_000_000), (2, 0, 2_500_000)]
    );
}

#[test]
fn the_limit_of_a_sampled_rate_counts_what_has_not_left() {
    let runs = [
        super_packet(0, 1, 3, 1500, 1500),
        segment(999_999, 2, 1500),
        segment(1_000_000, 3, 1500),
    ];
    let stage = sampled(
        Some(Limit::Packets(2)),
        Unit::Packet,
        Profile::constant(12 * MBPS),
    );
    let out = through(stage, &runs, 1 << 40);
    assert_eq!(out.losses(), [(1, 2, 0), (2, 0, 999_999)]);
    assert_eq!(
        out.departures(),
        [(1, 0, 1_000_000), (1, 1, 2_000_000), (3, 0, 3_000_000)]
    );
    let stage = sampled(
        Some(Limit::Packets(2)),
        Unit::Superpacket,
        Profile::constant(12 * MBPS),
    );
    let out = through(stage, &runs, 1 << 40);
    assert_eq!(out.losses(), [(3, 0, 1_000_000)]);
    assert_eq!(
        out.departures()[..3],
        [(1, 0, 3_000_000), (1, 1, 3_000_000), (1, 2, 3_000_000)]
    );
}

#[test]
fn what_arrives_at_a_sampled_rate_of_zero_gets_the_next_rate() {
    let stage = sampled(None, Unit::Packet, Profile::constant(0));
    let events = [
        Event::Arrival(segment(0, 1, 1500)),
        Event::Change(2_000_000, Change::RateBps(12 * MBPS)),
        Event::Arrival(segment(2_500_000, 2, 1500)),
    ];
    let (out, _) = run(stage, &events, 1 << 40);
    assert_eq!(out.departures(), [(1, 0, 3_000_000), (2, 0, 4_000_000)]);
}

#[test]
fn droptail_drops_arrivals_and_drophead_what_waited_longest() {
    // The first segment goes straight into service.
    let runs = [super_packet(0, 1, 4, 1000, 1000), segment(10, 2, 500)];
    let server = || constant(8 * MBPS);
    for (limit, tail, head) in [
        (
            Limit::Packets(2),
            vec![(1, 3, 0), (2, 0, 10)],
            vec![(1, 1, 0), (1, 2, 10)],
        ),
        (
            Limit::Bytes(2400),
            vec![(1, 3, 0), (2, 0, 10)],
            vec![(1, 1, 0), (1, 2, 10)],
        ),
        (Limit::Bytes(2500), vec![(1, 3, 0)], vec![(1, 1, 0)]),
        // 2.5 ms at 8 Mbit/s are 2500 bytes.
        (Limit::TimeNs(2_500_000), vec![(1, 3, 0)], vec![(1, 1, 0)]),
        (
            Limit::TimeNs(2_499_999),
            vec![(1, 3, 0), (2, 0, 10)],
            vec![(1, 1, 0), (1, 2, 10)],
        ),
    ] {
        let out = through(
            with(DropTail::new(limit, Unit::Packet), server()),
            &runs,
            1 << 40,
        );
        assert_eq!(out.losses(), tail, "drop-tail, {limit:?}");
        let out = through(
            with(DropHead::new(limit, Unit::Packet), server()),
            &runs,
            1 << 40,
        );
        assert_eq!(out.losses(), head, "drop-head, {limit:?}");
    }
}

#[test]
fn a_limit_in_time_follows_the_rate_and_keeps_the_last_one_in_an_outage() {
    // 1 ms is 1000 bytes at first, 2000 from 10 ms on, and still 2000 during the outage from 20 ms on.
    let server = steps("0,8000000\n0.01,16000000\n0.02,0", "1", End::Hold);
    let burst = |at_ns, packet| super_packet(at_ns, packet, 4, 1000, 1000);
    let runs = [burst(0, 1), burst(10_000_000, 2), burst(20_000_000, 3)];
    let out = through(
        with(
            DropTail::new(Limit::TimeNs(1_000_000), Unit::Packet),
            server,
        ),
        &runs,
        1 << 40,
    );
    let lost = |packet| out.losses().iter().filter(|loss| loss.0 == packet).count();
    assert_eq!([lost(1), lost(2), lost(3)], [2, 1, 2]);
}

#[test]
fn superpackets_are_let_in_and_served_whole() {
    let config = BottleneckConfig {
        unit: Unit::Superpacket,
        ..BottleneckConfig::default()
    };
    let queue = DropTail::new(Limit::Bytes(3000), Unit::Superpacket);
    let stage = Bottleneck::new(config, queue, Box::new(constant(12 * MBPS)));
    let big = |packet| super_packet(0, packet, 2, 1500, 1500);
    let out = through(
        stage,
        &[big(1), big(2), big(3), segment(0, 4, 100)],
        1 << 40,
    );
    assert_eq!(
        out.departures(),
        [
            (1, 0, 2_000_000),
            (1, 1, 2_000_000),
            (2, 0, 4_000_000),
            (2, 1, 4_000_000)
        ]
    );
    assert_eq!(out.losses(), [(3, 0, 0), (3, 1, 0), (4, 0, 0)]);
}

#[test]
fn the_series_has_queue_levels_and_sojourn_times() {
    let events = arrivals(&[super_packet(0, 1, 3, 1500, 1500)]);
    let (_, mut link) = run(unlimited(constant(12 * MBPS)), &events, 4_000_000);
    let rows = link.counters_mut().finished_rows(4_000_000);
    let levels: Vec<(u64, u64)> = rows
        .iter()
        .map(|row| (row.queue_bytes, row.queue_peak_bytes))
        .collect();
    assert_eq!(levels, [(3000, 3000), (1500, 3000), (0, 1500), (0, 0)]);
    let sojourns: Vec<u64> = rows.iter().map(|row| row.sojourn.max_ns).collect();
    assert_eq!(sojourns, [0, 1_000_000, 2_000_000, 0]);
}
