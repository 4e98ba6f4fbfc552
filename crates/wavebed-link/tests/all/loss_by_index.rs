//! Loss is keyed by the index of the decision, independent of arrival times and grouping.

use std::sync::Arc;

use crate::loss_support::{Bench, control, groupings, run, segments};
use proptest::prelude::*;
use wavebed_link::loss::{FourState, GilbertElliott, Loss};
use wavebed_link::pattern::{End, Pattern};
use wavebed_link::{Change, RandomStream, Reason, Run, Unit};

fn pattern(text: &str) -> Arc<Pattern> {
    Arc::new(Pattern::parse(text).expect("a valid pattern"))
}

fn by_index(rows: &str, packets: u64) -> Arc<Pattern> {
    pattern(&format!(
        "# wavebed pattern 1\n# kind = packets\n# packets = {packets}\npacket,loss\n{rows}"
    ))
}

fn over_time(rows: &str, duration_s: &str) -> Arc<Pattern> {
    pattern(&format!(
        "# wavebed pattern 1\n# kind = steps\n# duration_s = {duration_s}\ntime_s,loss\n{rows}"
    ))
}

fn every_model(seed: u64) -> Vec<Loss> {
    let random = RandomStream::new(seed, 1);
    let unit = Unit::Packet;
    let bursts = GilbertElliott {
        p: 0.1,
        r: 0.3,
        good_loss: 0.05,
        bad_loss: 0.7,
    };
    let four = FourState {
        p13: 0.1,
        p31: 0.2,
        p32: 0.3,
        p23: 0.4,
        p14: 0.1,
    };
    vec![
        Loss::independent(0.2, unit, random),
        Loss::gilbert_elliott(bursts, unit, random),
        Loss::four_state(four, unit, random),
        Loss::pattern(
            by_index("0,0\n3,1\n5,0.5\n20,0\n", 31),
            End::Repeat,
            2,
            unit,
            random,
        ),
        Loss::pattern(over_time("0,0.3\n", "1"), End::Repeat, 0, unit, random),
    ]
}

fn pass(stage: Loss, runs: &[Run]) -> Bench {
    let mut bench = Bench::new(stage);
    for &run in runs {
        bench.accept(run);
    }
    bench.check();
    bench
}

proptest! {
    #[test]
    fn the_same_segments_have_the_same_outcomes_however_they_are_grouped((single, grouped) in groupings(), seed: u64) {
        for (one, other) in every_model(seed).into_iter().zip(every_model(seed)) {
            let (one, other) = (pass(one, &single), pass(other, &grouped));
            prop_assert_eq!(segments(&one.exits.lost), segments(&other.exits.lost));
        }
    }

    #[test]
    fn segments_with_one_outcome_stay_in_one_run((_, grouped) in groupings(), seed: u64) {
        for model in every_model(seed) {
            let bench = pass(model, &grouped);
            for runs in [&bench.exits.forward, &bench.exits.lost] {
                for pair in runs.windows(2) {
                    let joined = grouped.iter().any(|run| {
                        run.packet == pair[0].packet && run.first <= pair[0].first && run.end() >= pair[1].end()
                    });
                    let touching = pair[0].packet == pair[1].packet && pair[0].end() == pair[1].first;
                    prop_assert!(!(joined && touching), "{pair:?} were split without need");
                }
            }
        }
    }

    #[test]
    fn a_superpacket_is_lost_or_kept_whole_even_when_split_before((single, grouped) in groupings(), seed: u64) {
        let stage = || Loss::independent(0.4, Unit::Superpacket, RandomStream::new(seed, 2));
        let (one, other) = (pass(stage(), &single), pass(stage(), &grouped));
        prop_assert_eq!(segments(&one.exits.lost), segments(&other.exits.lost));
        for run in &one.exits.lost {
            prop_assert!(one.exits.forward.iter().all(|other| other.packet != run.packet));
        }
    }
}

#[test]
fn superpackets_use_one_index_each() {
    let random = RandomStream::new(3, 3);
    let whole: Vec<Run> = (0..1000).map(|packet| run(0, packet, 0, 40)).collect();
    let bench = pass(Loss::independent(0.3, Unit::Superpacket, random), &whole);
    let expected: Vec<u32> = (0..1000)
        .filter(|&packet| random.unit(packet.into()) < 0.3)
        .collect();
    assert_eq!(
        bench
            .exits
            .lost
            .iter()
            .map(|run| run.packet)
            .collect::<Vec<_>>(),
        expected
    );
}

#[test]
fn a_key_that_is_used_again_is_a_new_superpacket() {
    let random = RandomStream::new(3, 4);
    let same_key: Vec<Run> = (0..1000).map(|_| run(0, 7, 0, 3)).collect();
    let bench = pass(Loss::independent(0.5, Unit::Superpacket, random), &same_key);
    let expected = (0..1000).filter(|&index| random.unit(index) < 0.5).count();
    assert_eq!(bench.exits.lost.len(), expected);
}

#[test]
fn a_pattern_of_zeros_and_ones_loses_exactly_the_named_packets() {
    let model = Loss::pattern(
        by_index("0,0\n3,1\n5,0\n9,1\n", 10),
        End::Repeat,
        0,
        Unit::Packet,
        RandomStream::new(1, 1),
    );
    let bench = pass(
        model,
        &[run(0, 0, 0, 4), control(run(1, 9, 0, 5)), run(2, 0, 4, 16)],
    );
    assert_eq!(
        segments(&bench.exits.lost),
        [(0, 3), (0, 4), (0, 9), (0, 13), (0, 14), (0, 19)]
    );
    assert_eq!(bench.exits.dropped(Reason::Loss), 6);
}

#[test]
fn a_pattern_by_index_holds_or_stops_at_its_end() {
    let rows = "0,0\n4,1\n5,0\n";
    let hold = Loss::pattern(
        by_index(rows, 6),
        End::Hold,
        0,
        Unit::Packet,
        RandomStream::new(1, 1),
    );
    assert_eq!(
        segments(&pass(hold, &[run(0, 0, 0, 30)]).exits.lost),
        [(0, 4)]
    );
    let stop = Loss::pattern(
        by_index(rows, 6),
        End::Stop,
        0,
        Unit::Packet,
        RandomStream::new(1, 1),
    );
    let bench = pass(stop, &[run(0, 0, 0, 8)]);
    assert_eq!(segments(&bench.exits.lost), [(0, 4), (0, 6), (0, 7)]);
    assert_eq!(
        (
            bench.exits.dropped(Reason::Loss),
            bench.exits.dropped(Reason::Ended)
        ),
        (1, 2)
    );
}

#[test]
fn a_pattern_over_time_changes_to_the_nanosecond() {
    let rows = "0,0\n0.001,1\n0.002,0\n";
    for (start, shift) in [(0, 0), (500_000, 500_000)] {
        let mut bench = Bench::new(Loss::pattern(
            over_time(rows, "0.003"),
            End::Repeat,
            start,
            Unit::Packet,
            RandomStream::new(1, 1),
        ));
        let times = [
            999_999, 1_000_000, 1_999_999, 2_000_000, 3_999_999, 4_000_000,
        ]
        .map(|at| at - shift);
        for (packet, at_ns) in (0..).zip(times) {
            bench.accept(run(at_ns, packet, 0, 2));
        }
        bench.check();
        assert_eq!(
            bench
                .exits
                .lost
                .iter()
                .map(|run| run.packet)
                .collect::<Vec<_>>(),
            [1, 2, 5]
        );
    }
}

#[test]
fn a_live_change_replaces_the_model_and_keeps_counting() {
    let random = RandomStream::new(8, 8);
    let mut bench = Bench::new(Loss::independent(0.0, Unit::Packet, random));
    bench.accept(run(0, 0, 0, 100));
    assert!(bench.apply(1, &Change::Loss(0.5)));
    bench.accept(run(2, 1, 0, 100));
    let expected: Vec<(u32, u16)> = (0..100)
        .filter(|&first| random.unit(100 + u64::from(first)) < 0.5)
        .map(|first| (1, first))
        .collect();
    assert_eq!(segments(&bench.exits.lost), expected);
    assert!(bench.apply(3, &Change::Pattern(by_index("0,1\n2,0\n", 1000))));
    bench.exits.lost.clear();
    bench.accept(run(4, 2, 0, 100));
    assert_eq!(segments(&bench.exits.lost), [(2, 0), (2, 1)]);
    bench.exits.lost.clear();
    assert!(bench.apply(
        1_000_000,
        &Change::Pattern(over_time("0,0\n0.001,1\n", "1"))
    ));
    bench.accept(run(1_999_999, 3, 0, 1));
    bench.accept(run(2_000_000, 4, 0, 1));
    assert_eq!(segments(&bench.exits.lost), [(4, 0)]);
}

#[test]
fn changes_that_do_not_concern_loss_are_refused() {
    let mut bench = Bench::new(Loss::independent(
        0.1,
        Unit::Packet,
        RandomStream::new(1, 1),
    ));
    let no_loss =
        pattern("# wavebed pattern 1\n# kind = steps\n# duration_s = 1\ntime_s,delay_s\n0,0.1\n");
    for change in [
        Change::RateBps(1),
        Change::DelayNs(1),
        Change::Loss(1.5),
        Change::Pattern(no_loss),
    ] {
        assert!(!bench.apply(0, &change), "{change:?}");
    }
}
