//! Duplication: copies follow their originals, by the random number of the index.

use crate::loss_support::{Bench, assert_fraction, control, groupings, run, segments};
use proptest::prelude::*;
use wavebed_link::impairment::Duplicate;
use wavebed_link::{RandomStream, RunFlags};

#[test]
fn each_segment_is_copied_with_its_probability() {
    let mut bench = Bench::new(Duplicate::new(0.03, RandomStream::new(1, 5)));
    for packet in 0..25_000 {
        bench.accept(run(packet.into(), packet, 0, 40));
    }
    bench.check();
    let copies = bench.exits.counters.total().duplicated;
    assert_fraction(copies.segments, 1_000_000, 0.03, 1.0);
    assert_eq!(copies.bytes, 1000 * copies.segments);
}

#[test]
fn never_and_always_are_exact() {
    let mut bench = Bench::new(Duplicate::new(0.0, RandomStream::new(1, 5)));
    bench.accept(run(0, 0, 0, 44));
    assert_eq!(bench.exits.forward, [run(0, 0, 0, 44)]);
    let mut bench = Bench::new(Duplicate::new(1.0, RandomStream::new(1, 5)));
    bench.accept(run(3, 0, 0, 3));
    assert_eq!(
        segments(&bench.exits.forward),
        [(0, 0), (0, 0), (0, 1), (0, 1), (0, 2), (0, 2)]
    );
    bench.check();
}

proptest! {
    #[test]
    fn a_copy_follows_its_original_whatever_the_grouping((single, grouped) in groupings(), seed: u64) {
        let random = RandomStream::new(seed, 5);
        let pass = |runs: &[wavebed_link::Run]| {
            let mut bench = Bench::new(Duplicate::new(0.2, random));
            for &run in runs {
        bench.accept(run);
    }
            bench.check();
            bench
        };
        let (one, other) = (pass(&single), pass(&grouped));
        prop_assert_eq!(segments(&one.exits.copied), segments(&other.exits.copied));
        let runs = &other.exits.forward;
        for (place, copy) in runs.iter().enumerate().filter(|(_, run)| run.flags.has(RunFlags::COPY)) {
            let original = runs[place - 1];
            prop_assert_eq!((original.packet, original.end(), original.at_ns), (copy.packet, copy.end(), copy.at_ns));
            prop_assert_eq!((copy.count, copy.bytes()), (1, 1000));
            prop_assert!(!original.flags.has(RunFlags::COPY));
        }
        let originals: Vec<_> = runs.iter().copied().filter(|run| !run.flags.has(RunFlags::COPY)).collect();
        prop_assert_eq!(segments(&originals), segments(&grouped));
        // Nothing is cut but at a copy.
        prop_assert!(originals.len() <= grouped.len() + other.exits.copied.len());
    }
}

#[test]
fn the_last_segment_keeps_its_size() {
    let mut bench = Bench::new(Duplicate::new(1.0, RandomStream::new(1, 5)));
    bench.accept(wavebed_link::Run {
        last_bytes: 77,
        ..run(0, 0, 0, 2)
    });
    let sizes: Vec<u64> = bench
        .exits
        .forward
        .iter()
        .map(wavebed_link::Run::bytes)
        .collect();
    assert_eq!(sizes, [1000, 1000, 77, 77]);
}

#[test]
fn control_traffic_is_never_copied() {
    let mut bench = Bench::new(Duplicate::new(1.0, RandomStream::new(1, 5)));
    bench.accept(control(run(0, 0, 0, 1)));
    assert!(bench.exits.copied.is_empty());
    bench.check();
}
