//! The conditions of a link, which a display shows while it runs.

use std::sync::Arc;

use crate::link_support::{Event, drive, segment};
use crate::radio_support::{air, plain, radio, sinr_air};
use wavebed_link::bottleneck::{Bottleneck, BottleneckConfig};
use wavebed_link::delay::Delay;
use wavebed_link::loss::Loss;
use wavebed_link::pattern::{End, Pattern, State};
use wavebed_link::queue::Infinite;
use wavebed_link::rate::{Fluid, Opportunities, Profile, Server};
use wavebed_link::{Change, Link, RandomStream, Stage, TimeSum, Unit};

const MS: u64 = 1_000_000;

fn pattern(kind: &str, header: &str, rows: &str) -> Arc<Pattern> {
    let text = format!("# wavebed pattern 1\n# kind = {kind}\n# {header}\n{rows}\n");
    Arc::new(Pattern::parse(&text).expect("the test's pattern is valid"))
}

fn bottleneck(server: impl Server + 'static) -> Box<dyn Stage> {
    let queue = Infinite::new(Unit::Packet);
    Box::new(Bottleneck::new(
        BottleneckConfig::default(),
        queue,
        Box::new(server),
    ))
}

fn steps(rows: &str, end: End) -> Box<dyn Stage> {
    let rows = format!("time_s,rate_bps\n{rows}");
    let pattern = pattern("steps", "duration_s = 0.1", &rows);
    bottleneck(Fluid::new(
        Profile::pattern(pattern, end, 0, 0).expect("it has rates"),
    ))
}

fn link(stages: Vec<Box<dyn Stage>>) -> Link {
    Link::new(stages, false)
}

#[test]
fn a_rate_over_time_is_shown_at_its_time_also_while_a_packet_is_served_across_an_outage() {
    let mut link = link(vec![steps(
        "0,12000000\n0.01,0\n0.06,24000000",
        End::Repeat,
    )]);
    // 1500 bytes take 1 ms: the service begins half a millisecond before the outage, and ends after it.
    let arrivals = [Event::Arrival(segment(9_500_000, 1, 1500))];
    drive(&mut link, &arrivals, 20 * MS, false);
    let rate = |at_ms: u64| link.conditions(at_ms * MS).rate_bps;
    assert_eq!(
        [9, 10, 59, 60, 99].map(rate),
        [12_000_000, 0, 0, 24_000_000, 24_000_000].map(Some)
    );
    assert_eq!(rate(105), Some(12_000_000), "the pattern repeats");
}

#[test]
fn the_end_of_a_pattern_is_shown_as_it_acts() {
    let rate = |end, at_ms: u64| {
        link(vec![steps("0,1000\n0.05,2000", end)])
            .conditions(at_ms * MS)
            .rate_bps
    };
    assert_eq!(rate(End::Hold, 500), Some(2000));
    assert_eq!(rate(End::Stop, 99), Some(2000));
    assert_eq!(rate(End::Stop, 100), Some(0));
}

#[test]
fn delivery_opportunities_have_no_rate_at_a_time() {
    let pattern = pattern("opportunities", "duration_s = 1", "time_s,bytes\n0.5,1500");
    let server = Opportunities::new(pattern, End::Repeat, 0, 0).expect("it has opportunities");
    assert_eq!(link(vec![bottleneck(server)]).conditions(0).rate_bps, None);
}

#[test]
fn stages_in_a_row_are_shown_as_one_link_and_changes_at_once() {
    let random = RandomStream::new(1, 1);
    let mut link = link(vec![
        bottleneck(Fluid::new(Profile::constant(5_000))),
        bottleneck(Fluid::new(Profile::constant(3_000))),
        Box::new(Delay::constant(2 * MS, false)),
        Box::new(Delay::constant(3 * MS, false)),
        Box::new(Loss::independent(0.5, Unit::Packet, random)),
        Box::new(Loss::independent(0.5, Unit::Packet, random)),
    ]);
    let shown = link.conditions(MS);
    assert_eq!(
        (shown.rate_bps, shown.delay_ns),
        (Some(3_000), Some(5 * MS))
    );
    assert_eq!((shown.loss, shown.state), (Some(0.75), None));
    assert_eq!(link.takes(), Link::CHANGES[..4]);
    for change in [
        Change::RateBps(7_000),
        Change::DelayNs(MS),
        Change::Loss(0.0),
    ] {
        assert!(link.apply(MS, &change));
    }
    link.poll(MS, &mut Vec::new());
    let shown = link.conditions(MS);
    assert_eq!(
        (shown.rate_bps, shown.delay_ns),
        (Some(7_000), Some(2 * MS))
    );
    assert_eq!(shown.loss, Some(0.0));
}

#[test]
fn a_link_takes_the_changes_that_it_says_it_takes() {
    let text = pattern(
        "steps",
        "duration_s = 1",
        "time_s,rate_bps,delay_s,loss\n0,1000,0.001,0",
    );
    let of_key = |key| match key {
        "rate" => Change::RateBps(1_000),
        "delay" => Change::DelayNs(MS),
        "loss" => Change::Loss(0.1),
        "handover" => Change::Handover {
            for_ns: MS,
            handling: None,
        },
        _ => Change::Pattern(text.clone()),
    };
    let random = RandomStream::new(1, 1);
    let stages: [fn(RandomStream) -> Box<dyn Stage>; 4] = [
        |_| bottleneck(Fluid::new(Profile::constant(1_000))),
        |_| Box::new(Delay::constant(MS, false)),
        |random| Box::new(Loss::independent(0.0, Unit::Packet, random)),
        |_| Box::new(radio(plain(), air("1", &["0,768000000,0,los"]))),
    ];
    for stage in stages {
        for key in Link::CHANGES {
            let mut link = link(vec![stage(random)]);
            let says = link.takes().contains(&key);
            assert_eq!(link.apply(0, &of_key(key)), says, "{key}");
        }
    }
}

#[test]
fn a_radio_shows_the_state_and_the_sinr_of_its_pattern() {
    let states = air("1", &["0,768000000,0,los", "0.5,0,1,outage"]);
    let link_of = |air| link(vec![Box::new(radio(plain(), air))]);
    let radio = link_of(states);
    assert_eq!(radio.conditions(0).state, Some(State::Los));
    let shown = radio.conditions(600 * MS);
    assert_eq!(
        (shown.state, shown.rate_bps),
        (Some(State::Outage), Some(0))
    );
    assert_eq!(radio.conditions(0).state, Some(State::Los), "nothing moved");
    let shown = link_of(sinr_air("1", &["0,768000000,12.5,10"])).conditions(0);
    assert_eq!((shown.sinr_db, shown.state), (Some(12.5), None));
}

#[test]
fn the_times_in_the_queue_add_up_by_segment() {
    // 1500 bytes take 1 ms: the second of two that come at once waits 1 ms, the third 2 ms.
    let mut link = link(vec![bottleneck(Fluid::new(Profile::constant(12_000_000)))]);
    let arrivals = [1, 2, 3].map(|packet| Event::Arrival(segment(0, packet, 1500)));
    drive(&mut link, &arrivals, 10 * MS, true);
    let expected = TimeSum {
        sum_ns: 3 * MS,
        segments: 3,
    };
    assert_eq!(link.counters().waited(), expected);
}
