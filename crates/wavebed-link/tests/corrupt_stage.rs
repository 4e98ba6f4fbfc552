//! Corruption: one flipped bit in segments chosen by the luck of their index.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "test figures are small"
)]

mod loss_support;

use loss_support::{Bench, assert_share, control, groupings, run, segments};
use proptest::prelude::*;
use wavebed_link::corrupt::Corrupt;
use wavebed_link::{Luck, Run};

fn pass(probability: f64, seed: u64, runs: &[Run]) -> Bench {
    let mut bench = Bench::new(Corrupt::new(probability, Luck::new(seed, 9)));
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
    let corrupted = bench.doors.books.total().corrupted.segments;
    assert_share(corrupted, 1_000_000, 0.2, 1.0);
    let flips: Vec<u32> = bench
        .doors
        .forward
        .iter()
        .map(|run| run.flip)
        .filter(|&flip| flip != 0)
        .collect();
    assert_eq!(flips.len() as u64, corrupted);
    // The word picks the bit by its remainder: each of 8000 bits is as likely, seen in 16 bins of 500.
    for bin in 0..16 {
        let count = flips
            .iter()
            .filter(|&&flip| flip % 8000 / 500 == bin)
            .count() as u64;
        assert_share(count, corrupted, 1.0 / 16.0, 1.0);
    }
}

#[test]
fn corrupted_segments_are_runs_of_one() {
    let bench = pass(1.0, 2, &[run(0, 0, 0, 44), control(run(1, 1, 0, 2))]);
    assert_eq!(bench.doors.forward.len(), 45);
    assert!(
        bench.doors.forward[..44]
            .iter()
            .all(|run| run.count == 1 && run.flip != 0)
    );
    assert_eq!(bench.doors.forward[44], control(run(1, 1, 0, 2)));
    assert_eq!(bench.doors.books.total().corrupted.segments, 44);
}

#[test]
fn a_corrupted_segment_is_not_corrupted_twice() {
    let before = Run {
        flip: 77,
        ..run(0, 0, 0, 1)
    };
    let bench = pass(1.0, 3, &[before]);
    assert_eq!(bench.doors.forward, [before]);
    assert_eq!(bench.doors.books.total().corrupted.segments, 0);
}

proptest! {
    #[test]
    fn the_same_bits_flip_whatever_the_grouping((single, grouped) in groupings(), seed: u64) {
        let flips = |bench: &Bench| -> Vec<_> {
            let forward = &bench.doors.forward;
            forward.iter().filter(|run| run.flip != 0).map(|run| (run.packet, run.first, run.flip)).collect()
        };
        let (one, other) = (pass(0.3, seed, &single), pass(0.3, seed, &grouped));
        prop_assert_eq!(flips(&one), flips(&other));
        prop_assert_eq!(segments(&other.doors.forward), segments(&grouped));
    }
}
