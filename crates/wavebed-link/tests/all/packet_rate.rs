//! A server with a rate in packets, independent of their size.

use crate::link_support::{Event, drive, segment, super_packet, through};
use proptest::prelude::*;
use wavebed_link::bottleneck::{Bottleneck, BottleneckConfig};
use wavebed_link::queue::Infinite;
use wavebed_link::rate::{Fluid, Packets, Profile};
use wavebed_link::{Change, Link, Run, Stage, Unit};

const SECOND_NS: u64 = 1_000_000_000;

fn device(packets_per_s: u64, unit: Unit) -> Bottleneck<Infinite> {
    let config = BottleneckConfig {
        unit,
        overhead_bytes: 1000,
        ..BottleneckConfig::default()
    };
    let server = Box::new(Packets::new(packets_per_s));
    Bottleneck::new(config, Infinite::new(unit), server)
}

fn times(packets_per_s: u64, arrivals: &[Run]) -> Vec<u64> {
    let outcome = through(
        device(packets_per_s, Unit::Packet),
        arrivals,
        20_000 * SECOND_NS,
    );
    outcome
        .departures()
        .iter()
        .map(|&(_, _, at_ns)| at_ns)
        .collect()
}

#[test]
fn small_and_large_packets_take_the_same_time() {
    let arrivals = [segment(5, 0, 1500), segment(5, 1, 40), segment(5, 2, 900)];
    assert_eq!(times(1_000_000, &arrivals), [1005, 2005, 3005]);
}

#[test]
fn a_million_packets_leave_in_the_nanosecond_that_arithmetic_says() {
    let arrivals: Vec<Run> = (0..20_000)
        .map(|packet| super_packet(7, packet, 50, 1500, 40))
        .collect();
    let times = times(70_001, &arrivals);
    assert_eq!(times.len(), 1_000_000);
    for (count, at_ns) in (1u64..).zip(times) {
        assert_eq!(
            at_ns,
            7 + (count * SECOND_NS).div_ceil(70_001),
            "packet {count}"
        );
    }
}

#[test]
fn a_pause_starts_a_new_busy_period() {
    // A third of a second each: 333 333 334 ns, then 666 666 667 ns. The rest of that nanosecond is not kept.
    let arrivals = [segment(0, 0, 9), segment(0, 1, 9), segment(SECOND_NS, 2, 9)];
    assert_eq!(
        times(3, &arrivals),
        [333_333_334, 666_666_667, 1_333_333_334]
    );
}

#[test]
fn a_superpacket_that_is_the_unit_counts_as_one() {
    let arrivals = [
        super_packet(0, 0, 40, 1500, 1500),
        super_packet(0, 1, 2, 1500, 9),
    ];
    let outcome = through(device(1000, Unit::Superpacket), &arrivals, SECOND_NS);
    let times: Vec<u64> = outcome.delivered.iter().map(|run| run.at_ns).collect();
    assert_eq!(times, [1_000_000, 2_000_000]);
}

#[test]
fn a_live_rate_is_for_the_other_stages() {
    let rate = Fluid::new(Profile::constant(8_000_000_000));
    let radio = Bottleneck::new(
        BottleneckConfig::default(),
        Infinite::new(Unit::Packet),
        Box::new(rate),
    );
    let mut alone = device(1000, Unit::Packet);
    assert!(!alone.apply(0, &Change::RateBps(1)));
    let mut link = Link::new(
        vec![Box::new(radio), Box::new(device(1000, Unit::Packet))],
        false,
    );
    let events = [
        Event::Change(0, Change::RateBps(8_000_000)),
        Event::Arrival(segment(1, 0, 500)),
        Event::Arrival(segment(1, 1, 500)),
    ];
    // 0.5 ms each in the first stage, then 1 ms each in the device.
    let outcome = drive(&mut link, &events, SECOND_NS, true);
    assert_eq!(outcome.departures(), [(0, 0, 1_500_001), (1, 0, 2_500_001)]);
}

/// Arrivals of super-packets with gaps; some come together.
fn arrivals() -> impl Strategy<Value = Vec<Run>> {
    let one = (
        prop_oneof![Just(0u64), 0u64..400_000_000],
        1u16..12,
        40u16..1500,
    );
    prop::collection::vec(one, 1..60).prop_map(|list| {
        let mut at_ns = 0;
        let run = |(packet, (gap_ns, count, bytes)): (u32, (u64, u16, u16))| {
            at_ns += gap_ns;
            super_packet(at_ns, packet, count, bytes, bytes)
        };
        (0u32..).zip(list).map(run).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_second_sees_more_packets_than_the_rate_and_one(rate in 1u64..200, arrivals in arrivals()) {
        let times = times(rate, &arrivals);
        for (index, &from_ns) in times.iter().enumerate() {
            let within = times[index..].iter().take_while(|&&at_ns| at_ns < from_ns + SECOND_NS).count();
            prop_assert!(within as u64 <= rate + 1, "{within} packets in the second from {from_ns}");
        }
    }

    /// Lindley's recursion in nanopackets: a packet that finds the server free is served at once, others after the
    /// previous one, to the exact fraction of a nanosecond.
    #[test]
    fn the_server_never_rests_while_a_packet_waits(rate in 1u64..3_000_000_000, arrivals in arrivals()) {
        let arrived: Vec<u64> = arrivals
            .iter()
            .flat_map(|run| std::iter::repeat_n(run.at_ns, usize::from(run.count)))
            .collect();
        let (mut busy_from_ns, mut served, mut last_ns) = (0u64, 0u64, 0u64);
        let mut expected = Vec::new();
        for at_ns in arrived {
            if at_ns >= last_ns {
                (busy_from_ns, served) = (at_ns, 0);
            }
            served += 1;
            last_ns = busy_from_ns + (served * SECOND_NS).div_ceil(rate);
            expected.push(last_ns);
        }
        prop_assert_eq!(times(rate, &arrivals), expected);
    }
}
