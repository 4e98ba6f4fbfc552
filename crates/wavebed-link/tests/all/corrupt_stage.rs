//! Corruption: one flipped bit in segments that the random number of their index chooses.

use crate::loss_support::{Bench, assert_fraction, control, groupings, run, segments};
use proptest::prelude::*;
use wavebed_link::impairment::Corrupt;
use wavebed_link::{RandomStream, Reason, Run};

fn pass(probability: f64, seed: u64, runs: &[Run]) -> Bench {
    let mut bench = Bench::new(Corrupt::new(probability, RandomStream::new(seed, 9)));
    for &run in runs {
        bench.accept(run);
    }
    bench.check();
    bench
}

#[test]
fn each_segment_is_corrupted_with_its_probability_anywhere_in_it() {
    let runs: Vec<Run> = (0..25_000).map(|packet| run(0, packet, 0, 40)).collect();
    let bench = pass(0.2, 1, &runs);
    let corrupted = bench.exits.counters.total().corrupted.segments;
    assert_fraction(corrupted, 1_000_000, 0.2, 1.0);
    let came = bench.exits.forward.iter().chain(&bench.exits.lost);
    let flips: Vec<u32> = came.filter_map(Run::flipped_bit).collect();
    assert_eq!(flips.len() as u64, corrupted);
    // Each of 8000 bits is as likely, seen in 16 bins of 500.
    for bin in 0..16 {
        let count = flips.iter().filter(|&&flip| flip / 500 == bin).count() as u64;
        assert_fraction(count, corrupted, 1.0 / 16.0, 1.0);
    }
}

#[test]
fn a_flip_that_leaves_no_version_of_ip_ends_the_segment() {
    let short = |packet| Run {
        segment_bytes: 20,
        last_bytes: 20,
        ..run(0, packet, 0, 1)
    };
    let runs: Vec<Run> = (0..20_000).map(short).collect();
    let bench = pass(1.0, 4, &runs);
    let bit = |run: &Run| run.flipped_bit().unwrap();
    assert!(
        bench
            .exits
            .lost
            .iter()
            .all(|run| [0, 1, 3].contains(&bit(run)))
    );
    assert!(
        bench
            .exits
            .forward
            .iter()
            .all(|run| ![0, 1, 3].contains(&bit(run)))
    );
    let dropped = bench.exits.dropped(Reason::CorruptedHeader);
    assert_fraction(dropped, 20_000, 3.0 / 160.0, 1.0);
    assert_eq!(bench.exits.counters.total().corrupted.segments, 20_000);
}

#[test]
fn corrupted_segments_are_runs_of_one() {
    let bench = pass(1.0, 2, &[run(0, 0, 0, 44), control(run(1, 1, 0, 2))]);
    let (last, corrupted) = bench.exits.forward.split_last().unwrap();
    assert_eq!(corrupted.len() + bench.exits.lost.len(), 44);
    assert!(
        corrupted
            .iter()
            .chain(&bench.exits.lost)
            .all(|run| run.count == 1 && run.flip != 0)
    );
    assert_eq!(*last, control(run(1, 1, 0, 2)));
    assert_eq!(bench.exits.counters.total().corrupted.segments, 44);
}

#[test]
fn a_corrupted_segment_is_not_corrupted_twice() {
    let before = Run {
        flip: 77,
        ..run(0, 0, 0, 1)
    };
    let bench = pass(1.0, 3, &[before]);
    assert_eq!(bench.exits.forward, [before]);
    assert_eq!(bench.exits.counters.total().corrupted.segments, 0);
}

proptest! {
    #[test]
    fn the_same_bits_flip_whatever_the_grouping((single, grouped) in groupings(), seed: u64) {
        let flips = |bench: &Bench| -> Vec<_> {
            let came = bench.exits.forward.iter().chain(&bench.exits.lost);
            came.filter(|run| run.flip != 0).map(|run| (run.packet, run.first, run.flip)).collect()
        };
        let (one, other) = (pass(0.3, seed, &single), pass(0.3, seed, &grouped));
        prop_assert_eq!(flips(&one), flips(&other));
        let lost = segments(&other.exits.lost);
        let kept: Vec<_> = segments(&grouped).into_iter().filter(|each| !lost.contains(each)).collect();
        prop_assert_eq!(segments(&other.exits.forward), kept);
    }
}
