//! Reordering: held segments are overtaken, nothing is lost.

use crate::loss_support::{Bench, assert_fraction, control, groupings, run, segments};
use proptest::prelude::*;
use wavebed_link::impairment::Reorder;
use wavebed_link::{RandomStream, Run};

#[test]
fn each_segment_is_held_with_its_probability() {
    let mut bench = Bench::new(Reorder::new(0.05, 10, RandomStream::new(2, 6)));
    for packet in 0..25_000 {
        bench.accept(run(0, packet, 0, 40));
    }
    assert_fraction(bench.stage.backlog().segments, 1_000_000, 0.05, 1.0);
    assert_eq!(
        bench.stage.backlog().bytes,
        1000 * bench.stage.backlog().segments
    );
    bench.check();
    bench.poll(10);
    assert_eq!(bench.stage.backlog().segments, 0);
    bench.check();
}

#[test]
fn a_held_segment_leaves_at_its_time_behind_those_that_overtook_it() {
    let mut bench = Bench::new(Reorder::new(1.0, 1_000, RandomStream::new(2, 6)));
    bench.accept(run(0, 0, 0, 40));
    bench.accept(control(run(5, 1, 0, 1)));
    assert_eq!(bench.stage.next_event_ns(), Some(1_000));
    bench.poll(999);
    assert_eq!(segments(&bench.exits.forward), [(1, 0)]);
    bench.poll(1_500);
    assert_eq!(bench.exits.forward[1], run(1_000, 0, 0, 40));
    bench.check();
}

proptest! {
    #[test]
    fn the_same_segments_are_held_whatever_the_grouping((single, grouped) in groupings(), seed: u64, delay_ns in 0u64..5_000) {
        let random = RandomStream::new(seed, 6);
        let held = |runs: &[Run]| {
            let mut bench = Bench::new(Reorder::new(0.3, delay_ns, random));
            let mut arrivals = std::collections::HashMap::new();
            for &run in runs {
                arrivals.extend(segments(&[run]).into_iter().map(|segment| (segment, run.at_ns)));
                bench.accept(run);
            }
            bench.poll(u64::MAX);
            bench.check();
            let mut all = segments(&bench.exits.forward);
            all.sort_unstable();
            let mut offered = segments(runs);
            offered.sort_unstable();
            assert_eq!(all, offered);
            let late: std::collections::BTreeSet<_> = bench.exits.forward.iter().flat_map(|run| {
                segments(&[*run]).into_iter().map(|segment| (segment, run.at_ns))
            }).filter(|(segment, at_ns)| {
                let late = at_ns - arrivals[segment];
                assert!(late == 0 || late == delay_ns);
                late > 0
            }).map(|(segment, _)| segment).collect();
            late
        };
        prop_assert_eq!(held(&single), held(&grouped));
    }
}
