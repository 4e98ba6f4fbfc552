//! The processor time of the bottleneck. Run with
//! `cargo test --release -p wavebed-link --test all bottleneck_cost -- --ignored --nocapture`.

use std::time::Instant;

use crate::link_support::super_packet;
use wavebed_link::bottleneck::{Bottleneck, BottleneckConfig};
use wavebed_link::delay::Delay;
use wavebed_link::queue::{DropTail, Limit};
use wavebed_link::rate::{Fluid, Profile};
use wavebed_link::{Link, Stage, Unit};

/// Sends super-packets of 44 segments at 90 % of the rate through a link, polled every 20 µs. Returns
/// nanoseconds of real time for each segment.
fn cost(link: &mut Link, rate: u64, packets: u32) -> f64 {
    let gap_ns = 44 * 1500 * 8 * 1_000_000_000 / (rate * 9 / 10);
    let mut delivered = Vec::new();
    let mut segments = 0u64;
    let mut polled_ns = 0;
    let begin = Instant::now();
    for packet in 0..packets {
        let at_ns = u64::from(packet) * gap_ns;
        link.accept(super_packet(at_ns, packet, 44, 1500, 1500));
        if at_ns >= polled_ns + 20_000 {
            polled_ns = at_ns;
            link.poll(at_ns, &mut delivered);
            segments += delivered
                .drain(..)
                .map(|run| u64::from(run.count))
                .sum::<u64>();
        }
    }
    link.poll(u64::MAX / 2, &mut delivered);
    segments += delivered
        .drain(..)
        .map(|run| u64::from(run.count))
        .sum::<u64>();
    assert_eq!(
        segments,
        u64::from(packets) * 44,
        "nothing is dropped below the rate"
    );
    begin.elapsed().as_secs_f64() * 1e9 / f64::from(packets) / 44.0
}

#[test]
#[ignore = "a measurement"]
fn nanoseconds_for_each_segment() {
    let rate = 20_000_000_000;
    let bottleneck = || -> Box<dyn Stage> {
        let queue = DropTail::new(Limit::Bytes(10_000_000), Unit::Packet);
        let server = Box::new(Fluid::new(Profile::constant(rate)));
        Box::new(Bottleneck::new(BottleneckConfig::default(), queue, server))
    };
    for series in [false, true] {
        let alone = cost(&mut Link::new(vec![bottleneck()], series), rate, 400_000);
        let stages: Vec<Box<dyn Stage>> =
            vec![bottleneck(), Box::new(Delay::constant(5_000_000, false))];
        let both = cost(&mut Link::new(stages, series), rate, 400_000);
        println!(
            "series {series}: bottleneck {alone:.1} ns, bottleneck and delay {both:.1} ns for each segment"
        );
    }
}
