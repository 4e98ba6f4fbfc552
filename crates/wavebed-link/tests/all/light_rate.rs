//! The rate of the first bytes after an idle time, with numbers that can be checked by hand.
//!
//! Where nothing else is said, 1500 bytes take 1 ms at the full rate and 2 ms at the light rate, which 3000 bytes after
//! 10 ms without packets get.

use std::sync::Arc;

use crate::link_support::{Event, Outcome, drive, segment, super_packet};
use proptest::prelude::*;
use wavebed_link::bottleneck::{Bottleneck, BottleneckConfig, Outage};
use wavebed_link::pattern::{End, Pattern};
use wavebed_link::queue::{DropTail, Infinite, Limit, Queue};
use wavebed_link::rate::{Profile, Sampled, SampledConfig, Server, TokenBucket, at_rate};
use wavebed_link::{Backlog, Change, Link, Outlet, Reason, Run, Stage, Unit};

const MS: u64 = 1_000_000;
const FAR_NS: u64 = 1 << 40;

fn with_light(rows: &str, duration: &str) -> Arc<Pattern> {
    let text = format!(
        "# wavebed pattern 1\n# kind = steps\n# duration_s = {duration}\n# light_bytes = 3000\n# light_idle_s = 0.01\n\
         time_s,rate_bps,light_rate_bps\n{rows}\n"
    );
    Arc::new(Pattern::parse(&text).expect("the test's pattern is valid"))
}

fn usual() -> Arc<Pattern> {
    with_light("0,12000000,6000000", "1")
}

fn played(pattern: Arc<Pattern>, end: End) -> Box<dyn Server> {
    at_rate(Profile::pattern(pattern, end, 0, 0).expect("it has rates"))
}

fn link_of(config: BottleneckConfig, queue: impl Queue + 'static, server: Box<dyn Server>) -> Link {
    Link::new(vec![Box::new(Bottleneck::new(config, queue, server))], true)
}

fn unlimited(server: Box<dyn Server>) -> Link {
    link_of(
        BottleneckConfig::default(),
        Infinite::new(Unit::Packet),
        server,
    )
}

fn arrivals(runs: &[Run]) -> Vec<Event> {
    runs.iter().map(|&run| Event::Arrival(run)).collect()
}

/// Drives a link of the usual pattern.
fn over_the_usual(events: &[Event]) -> Outcome {
    drive(
        &mut unlimited(played(usual(), End::Repeat)),
        events,
        FAR_NS,
        false,
    )
}

#[test]
fn first_bytes_after_idle_get_the_light_rate() {
    let out = over_the_usual(&arrivals(&[
        super_packet(0, 1, 4, 1500, 1500),
        super_packet(100 * MS, 2, 4, 1500, 1500),
    ]));
    let times: Vec<u64> = out
        .departures()
        .iter()
        .map(|departure| departure.2)
        .collect();
    let after = |at_ns: u64| [2, 4, 5, 6].map(|ms| at_ns + ms * MS);
    assert_eq!(times, [after(0), after(100 * MS)].concat());
}

#[test]
fn a_link_that_has_carried_nothing_is_idle() {
    let out = over_the_usual(&arrivals(&[segment(1, 1, 1500)]));
    assert_eq!(out.departures(), [(1, 0, 2 * MS + 1)]);
}

#[test]
fn a_segment_in_which_the_light_bytes_end_is_served_partly_at_each_rate() {
    // 1000 of its 1500 bytes at the light rate, 500 at the full rate.
    let out = over_the_usual(&arrivals(&[
        segment(0, 1, 1000),
        segment(0, 2, 1000),
        segment(0, 3, 1500),
        segment(0, 4, 1500),
    ]));
    let (first, second) = (1_333_334, 2_666_667);
    assert_eq!(
        out.departures(),
        [
            (1, 0, first),
            (2, 0, second),
            (3, 0, 4 * MS + 333_334),
            (4, 0, 5 * MS + 333_334)
        ]
    );
}

#[test]
fn the_nanosecond_in_which_the_light_bytes_end_is_divided() {
    // 1 byte takes 2.67 ns at 3 Gbit/s; a third of a nanosecond is left, which does 5 of 15 nanobits. The next byte
    // takes 8/15 of a nanosecond: a fifth of one is left to do in the fourth nanosecond, of the five that follow it.
    let text = "# wavebed pattern 1\n# kind = steps\n# duration_s = 1\n# light_bytes = 1\n# light_idle_s = 0.01\n\
                time_s,rate_bps,light_rate_bps\n0,15000000000,3000000000\n";
    let pattern = Arc::new(Pattern::parse(text).expect("it is valid"));
    let events = arrivals(&[super_packet(0, 1, 4, 1, 1)]);
    let out = drive(
        &mut unlimited(played(pattern, End::Repeat)),
        &events,
        FAR_NS,
        false,
    );
    // In fifteenths of a nanosecond: 40, 48, 56, 64.
    assert_eq!(
        out.departures(),
        [(1, 0, 3), (1, 1, 4), (1, 2, 4), (1, 3, 5)]
    );
}

#[test]
fn a_busy_link_never_returns_to_the_light_rate() {
    // One segment each millisecond: after the first three, the link has always one in service.
    let runs: Vec<Run> = (0..200)
        .map(|packet| segment(u64::from(packet) * MS, packet, 1500))
        .collect();
    let times: Vec<u64> = over_the_usual(&arrivals(&runs))
        .departures()
        .iter()
        .map(|out| out.2)
        .collect();
    let expected: Vec<u64> = (0..200)
        .map(|packet| {
            if packet == 0 {
                2 * MS
            } else {
                (packet + 3) * MS
            }
        })
        .collect();
    assert_eq!(times, expected);
}

#[test]
fn an_idle_time_shorter_than_the_limit_changes_nothing() {
    let free_ns = 4 * MS;
    for (gap_ns, takes_ns) in [
        (1, MS),
        (10 * MS - 1, MS),
        (10 * MS, 2 * MS),
        (10 * MS + 1, 2 * MS),
    ] {
        let at_ns = free_ns + gap_ns;
        let out = over_the_usual(&arrivals(&[
            super_packet(0, 1, 2, 1500, 1500),
            segment(at_ns, 2, 1500),
        ]));
        assert_eq!(
            out.departures()[2],
            (2, 0, at_ns + takes_ns),
            "after {gap_ns} ns"
        );
    }
}

#[test]
fn idle_times_that_are_too_short_do_not_add_up() {
    // Pauses of 9 ms: the link is idle for nine tenths of the time, and at the full rate once 3000 bytes have passed.
    let mut runs = vec![super_packet(0, 0, 2, 1500, 1500)];
    runs.extend((1..50).map(|packet| segment(u64::from(packet) * 10 * MS + 3 * MS, packet, 1500)));
    let out = over_the_usual(&arrivals(&runs));
    for &(packet, _, at_ns) in &out.departures()[2..] {
        assert_eq!(at_ns, u64::from(packet) * 10 * MS + 4 * MS);
    }
}

#[test]
fn light_bytes_that_are_left_serve_the_packets_after_a_short_pause() {
    let out = over_the_usual(&arrivals(&[
        segment(0, 1, 1500),
        segment(5 * MS, 2, 750),
        segment(10 * MS, 3, 1500),
        segment(20 * MS, 4, 1500),
    ]));
    // The third has 750 bytes at each rate.
    assert_eq!(
        out.departures(),
        [
            (1, 0, 2 * MS),
            (2, 0, 6 * MS),
            (3, 0, 11_500_000),
            (4, 0, 21 * MS)
        ]
    );
}

#[test]
fn light_bytes_that_are_left_are_not_added_to_those_of_the_next_idle_time() {
    let out = over_the_usual(&arrivals(&[
        segment(0, 1, 1500),
        super_packet(50 * MS, 2, 3, 1500, 1500),
    ]));
    assert_eq!(
        out.departures()[1..],
        [(2, 0, 52 * MS), (2, 1, 54 * MS), (2, 2, 55 * MS)]
    );
}

#[test]
fn a_light_rate_above_the_full_rate_is_served_too() {
    let pattern = with_light("0,6000000,12000000", "1");
    let events = arrivals(&[super_packet(0, 1, 3, 1500, 1500)]);
    let out = drive(
        &mut unlimited(played(pattern, End::Repeat)),
        &events,
        FAR_NS,
        false,
    );
    assert_eq!(
        out.departures(),
        [(1, 0, MS), (1, 1, 2 * MS), (1, 2, 4 * MS)]
    );
}

#[test]
fn the_light_rate_changes_with_the_rows_of_the_pattern() {
    // 1 ms at 6 Mbit/s, then 3 Mbit/s, and from 4 ms on the rates are 24 and 12 Mbit/s.
    let pattern = with_light(
        "0,12000000,6000000\n0.001,9000000,3000000\n0.004,24000000,12000000",
        "1",
    );
    let events = arrivals(&[super_packet(0, 1, 3, 1500, 1500)]);
    let out = drive(
        &mut unlimited(played(pattern, End::Repeat)),
        &events,
        FAR_NS,
        false,
    );
    // 6000 bits by 1 ms, 6000 by 3 ms; 3000 by 4 ms, 9000 by 4.75 ms; 12000 at 24 Mbit/s by 5.25 ms.
    assert_eq!(
        out.departures(),
        [(1, 0, 3 * MS), (1, 1, 4_750_000), (1, 2, 5_250_000)]
    );
}

#[test]
fn the_pattern_begins_where_it_is_told_to() {
    let pattern = with_light("0,12000000,6000000\n0.5,24000000,3000000", "1");
    let profile = Profile::pattern(pattern, End::Repeat, 499 * MS, 0).expect("it has rates");
    let events = arrivals(&[super_packet(0, 1, 3, 1500, 1500)]);
    let out = drive(&mut unlimited(at_rate(profile)), &events, FAR_NS, false);
    // 6000 bits by 1 ms, then 3 Mbit/s for 18000, then 24 Mbit/s.
    assert_eq!(
        out.departures(),
        [(1, 0, 3 * MS), (1, 1, 7 * MS), (1, 2, 7_500_000)]
    );
}

#[test]
fn overhead_takes_light_bytes() {
    let config = BottleneckConfig {
        overhead_bytes: 500,
        ..BottleneckConfig::default()
    };
    let mut link = link_of(
        config,
        Infinite::new(Unit::Packet),
        played(usual(), End::Repeat),
    );
    let out = drive(
        &mut link,
        &arrivals(&[super_packet(0, 1, 3, 1000, 1000)]),
        FAR_NS,
        false,
    );
    assert_eq!(
        out.departures(),
        [(1, 0, 2 * MS), (1, 1, 4 * MS), (1, 2, 5 * MS)]
    );
}

#[test]
fn a_rate_of_zero_is_an_outage_of_the_light_bytes_too() {
    let pattern = with_light("0,0,6000000\n0.02,12000000,6000000", "1");
    let events = arrivals(&[super_packet(MS, 1, 3, 1500, 1500)]);
    let out = drive(
        &mut unlimited(played(pattern, End::Repeat)),
        &events,
        500 * MS,
        false,
    );
    assert_eq!(
        out.departures(),
        [(1, 0, 22 * MS), (1, 1, 24 * MS), (1, 2, 25 * MS)]
    );
}

#[test]
fn a_light_rate_of_zero_makes_the_first_bytes_wait_and_no_others() {
    let rows = "0,12000000,6000000\n0.005,12000000,0\n0.05,12000000,6000000";
    let events = arrivals(&[
        segment(0, 1, 1500),
        // Half of its bytes are light ones: 3 ms at that rate, and then it waits.
        segment(4 * MS, 2, 1500),
        segment(6 * MS, 3, 1500),
    ]);
    let link = || unlimited(played(with_light(rows, "1"), End::Repeat));
    let out = drive(&mut link(), &events, 500 * MS, false);
    assert_eq!(
        out.departures(),
        [(1, 0, 2 * MS), (2, 0, 51 * MS), (3, 0, 52 * MS)]
    );
    let busy = arrivals(&[super_packet(0, 1, 7, 1500, 1500)]);
    let out = drive(&mut link(), &busy, 500 * MS, false);
    assert_eq!(out.departures()[6], (1, 6, 9 * MS));
}

#[test]
fn an_outage_that_drops_ends_the_idle_time_with_its_packets() {
    let config = BottleneckConfig {
        outage: Outage::Drop,
        ..BottleneckConfig::default()
    };
    let rows = "0,12000000,6000000\n0.02,0,0\n0.025,12000000,6000000";
    let link = || {
        link_of(
            config,
            Infinite::new(Unit::Packet),
            played(with_light(rows, "1"), End::Hold),
        )
    };
    // Packets are in the link up to 20 ms, the last one that leaves it does so before; 9.9 ms later it has not been idle long enough, 10 ms later it has. Of those
    // that arrive during the outage, none is in the link.
    for (at_ns, takes_ns) in [(30 * MS - 100_000, MS), (30 * MS, 2 * MS)] {
        let events = arrivals(&[
            super_packet(500_000, 1, 40, 1500, 1500),
            segment(22 * MS, 2, 1500),
            segment(at_ns, 3, 1500),
        ]);
        let out = drive(&mut link(), &events, FAR_NS, false);
        assert_eq!(out.departures().last(), Some(&(3, 0, at_ns + takes_ns)));
        assert_eq!(out.losses().last(), Some(&(2, 0, 22 * MS)));
    }
}

#[test]
fn a_packet_dropped_in_service_has_used_light_bytes() {
    let config = BottleneckConfig {
        outage: Outage::Drop,
        ..BottleneckConfig::default()
    };
    let rows = "0,12000000,6000000\n0.001,0,0\n0.002,12000000,6000000";
    let mut link = link_of(
        config,
        Infinite::new(Unit::Packet),
        played(with_light(rows, "1"), End::Hold),
    );
    let events = arrivals(&[segment(0, 1, 1500), super_packet(3 * MS, 2, 3, 1500, 1500)]);
    let out = drive(&mut link, &events, FAR_NS, false);
    // 750 of 3000 bytes are used at 1 ms.
    assert_eq!(out.losses(), [(1, 0, MS)]);
    assert_eq!(
        out.departures(),
        [(2, 0, 5 * MS), (2, 1, 6_500_000), (2, 2, 7_500_000)]
    );
}

/// A queue that drops what waits when it is asked for a packet before `until_ns`.
struct Emptied {
    queue: Infinite,
    until_ns: u64,
}

impl Queue for Emptied {
    fn enqueue(&mut self, run: Run, out: &mut Outlet<'_>) {
        self.queue.enqueue(run, out);
    }

    fn dequeue(&mut self, now_ns: u64, out: &mut Outlet<'_>) -> Option<Run> {
        if now_ns < self.until_ns {
            self.queue.clear(now_ns, Reason::Overflow, out);
        }
        self.queue.dequeue(now_ns, out)
    }

    fn head_bytes(&self) -> Option<u32> {
        self.queue.head_bytes()
    }

    fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }
}

#[test]
fn the_idle_time_begins_when_the_queue_drops_the_last_packet() {
    for (at_ns, takes_ns) in [(30 * MS - 1, MS), (30 * MS, 2 * MS)] {
        let queue = Emptied {
            queue: Infinite::new(Unit::Packet),
            until_ns: 25 * MS,
        };
        // The packet waits while the rate is 0, until 20 ms, and is dropped then.
        let stopped = at_rate(Profile::constant(0));
        let mut link = link_of(BottleneckConfig::default(), queue, stopped);
        let events = [
            Event::Arrival(segment(0, 1, 1500)),
            Event::Change(20 * MS, Change::Pattern(usual())),
            Event::Arrival(segment(at_ns, 2, 1500)),
        ];
        let out = drive(&mut link, &events, 500 * MS, false);
        assert_eq!(out.losses(), [(1, 0, 20 * MS)]);
        assert_eq!(out.departures(), [(2, 0, at_ns + takes_ns)]);
    }
}

#[test]
fn a_packet_that_an_outage_holds_keeps_the_link_busy() {
    let rows = "0,12000000,6000000\n0.005,0,0\n0.5,12000000,6000000";
    let events = arrivals(&[
        super_packet(0, 1, 2, 1500, 1500),
        segment(4 * MS, 2, 1500),
        segment(500 * MS, 3, 1500),
    ]);
    let mut link = unlimited(played(with_light(rows, "1"), End::Repeat));
    let out = drive(&mut link, &events, FAR_NS, false);
    // The one at 4 ms ends at the very beginning of the outage.
    assert_eq!(out.departures()[2..], [(2, 0, 5 * MS), (3, 0, 502 * MS)]);
    let events = arrivals(&[
        super_packet(0, 1, 2, 1500, 1500),
        super_packet(4 * MS, 2, 2, 1500, 1500),
        segment(500 * MS, 3, 1500),
    ]);
    let mut link = unlimited(played(with_light(rows, "1"), End::Repeat));
    let out = drive(&mut link, &events, FAR_NS, false);
    assert_eq!(
        out.departures()[2..],
        [(2, 0, 5 * MS), (2, 1, 501 * MS), (3, 0, 502 * MS)]
    );
}

#[test]
fn a_live_rate_ends_the_light_rate() {
    let events = [
        Event::Arrival(super_packet(0, 1, 2, 1500, 1500)),
        // 6000 bits are out.
        Event::Change(MS, Change::RateBps(24 * MS)),
        Event::Arrival(segment(100 * MS, 2, 1500)),
    ];
    let out = over_the_usual(&events);
    assert_eq!(
        out.departures(),
        [(1, 0, 1_250_000), (1, 1, 1_750_000), (2, 0, 100_500_000)]
    );
}

#[test]
fn a_live_pattern_serves_at_the_full_rate_until_the_next_idle_time() {
    let before = [
        Event::Arrival(super_packet(0, 1, 2, 1500, 1500)),
        Event::Change(MS, Change::Pattern(with_light("0,24000000,3000000", "1"))),
    ];
    let out = over_the_usual(&before);
    assert_eq!(out.departures(), [(1, 0, 1_250_000), (1, 1, 1_750_000)]);
    // From a rate without a light rate to one with it: the idle time before the change counts.
    for (at_ns, takes_ns) in [(8 * MS, MS), (12 * MS, 2 * MS)] {
        let events = [
            Event::Arrival(segment(0, 1, 1500)),
            Event::Change(5 * MS, Change::Pattern(usual())),
            Event::Arrival(segment(at_ns, 2, 1500)),
        ];
        let constant = at_rate(Profile::constant(12 * MS));
        let out = drive(&mut unlimited(constant), &events, FAR_NS, false);
        assert_eq!(out.departures(), [(1, 0, MS), (2, 0, at_ns + takes_ns)]);
    }
}

#[test]
fn a_live_pattern_on_a_link_that_has_carried_nothing_begins_with_the_light_rate() {
    let events = [
        Event::Change(MS, Change::Pattern(usual())),
        Event::Arrival(segment(2 * MS, 1, 1500)),
    ];
    let out = drive(
        &mut unlimited(at_rate(Profile::constant(1))),
        &events,
        FAR_NS,
        false,
    );
    assert_eq!(out.departures(), [(1, 0, 4 * MS)]);
}

#[test]
fn a_limit_in_time_is_that_of_the_full_rate() {
    // 2 ms at 12 Mbit/s are 3000 bytes; at 6 Mbit/s they would be 1500.
    let queue = DropTail::new(Limit::TimeNs(2 * MS), Unit::Packet);
    let mut link = link_of(
        BottleneckConfig::default(),
        queue,
        played(usual(), End::Repeat),
    );
    let out = drive(
        &mut link,
        &arrivals(&[super_packet(0, 1, 5, 1500, 1500)]),
        FAR_NS,
        false,
    );
    assert_eq!(out.losses(), [(1, 3, 0), (1, 4, 0)]);
    assert_eq!(
        out.departures(),
        [(1, 0, 2 * MS), (1, 1, 4 * MS), (1, 2, 5 * MS)]
    );
}

#[test]
fn a_display_shows_the_full_rate() {
    let mut link = unlimited(played(usual(), End::Repeat));
    link.accept(segment(0, 1, 1500));
    link.poll(MS, &mut Vec::new());
    assert_eq!(link.conditions(MS).rate_bps, Some(12 * MS));
}

#[test]
fn the_end_of_the_pattern_ends_the_light_rate() {
    let pattern = with_light("0,12000000,6000000", "0.003");
    let events = arrivals(&[super_packet(0, 1, 2, 1500, 1500), segment(20 * MS, 2, 1500)]);
    let out = drive(
        &mut unlimited(played(pattern, End::Stop)),
        &events,
        FAR_NS,
        false,
    );
    assert_eq!(out.departures(), [(1, 0, 2 * MS)]);
    assert_eq!(out.losses(), [(1, 1, 3 * MS), (2, 0, 20 * MS)]);
}

#[test]
fn a_token_bucket_and_a_sampled_rate_use_the_full_rate_only() {
    let profile = || Profile::pattern(usual(), End::Repeat, 0, 0).expect("it has rates");
    let bucket = Box::new(TokenBucket::new(profile(), 1500));
    let events = arrivals(&[super_packet(0, 1, 3, 1500, 1500)]);
    let out = drive(&mut unlimited(bucket), &events, FAR_NS, false);
    assert_eq!(out.departures(), [(1, 0, 0), (1, 1, MS), (1, 2, 2 * MS)]);
    let config = SampledConfig {
        limit: None,
        overhead_bytes: 0,
        unit: Unit::Packet,
        drop_in_outage: false,
    };
    let sampled: Box<dyn Stage> = Box::new(Sampled::new(config, profile()));
    let out = drive(&mut Link::new(vec![sampled], true), &events, FAR_NS, false);
    assert_eq!(
        out.departures(),
        [(1, 0, MS), (1, 1, 2 * MS), (1, 2, 3 * MS)]
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_light_rate_equal_to_the_full_rate_changes_nothing(
        gaps in prop::collection::vec((0u64..30 * MS, 1u16..5, 40u16..1500), 1..40),
        rate in 1_000_000u64..100_000_000,
    ) {
        let mut at_ns = 0;
        let mut events = Vec::new();
        for (packet, (gap_ns, count, bytes)) in (0u32..).zip(gaps) {
            at_ns += gap_ns;
            events.push(Event::Arrival(super_packet(at_ns, packet, count, bytes, bytes)));
        }
        let rows = format!("0,{rate},{rate}\n0.02,{0},{0}", rate / 3);
        let plain = format!("# wavebed pattern 1\n# kind = steps\n# duration_s = 0.05\ntime_s,rate_bps\n0,{rate}\n0.02,{}\n", rate / 3);
        let plain = Arc::new(Pattern::parse(&plain).expect("it is valid"));
        let with = drive(&mut unlimited(played(with_light(&rows, "0.05"), End::Repeat)), &events, FAR_NS, false);
        let without = drive(&mut unlimited(played(plain, End::Repeat)), &events, FAR_NS, false);
        prop_assert_eq!(with.departures(), without.departures());
    }
}
