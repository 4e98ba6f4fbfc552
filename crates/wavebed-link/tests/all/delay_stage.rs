//! Delay to the nanosecond, with and without reordering.

use std::sync::Arc;

use crate::loss_support::{Bench, control, groupings, run, segments};
use proptest::prelude::*;
use wavebed_link::delay::{Delay, Distribution, Shape};
use wavebed_link::pattern::{End, Pattern};
use wavebed_link::{Change, RandomStream, Reason, Run, Stage};

const MS: u64 = 1_000_000;

fn pattern(text: &str) -> Arc<Pattern> {
    Arc::new(Pattern::parse(text).expect("a valid pattern"))
}

fn over_time(rows: &str, duration_s: &str) -> Arc<Pattern> {
    pattern(&format!(
        "# wavebed pattern 1\n# kind = steps\n# duration_s = {duration_s}\ntime_s,delay_s\n{rows}"
    ))
}

fn by_index(rows: &str, packets: u64) -> Arc<Pattern> {
    pattern(&format!(
        "# wavebed pattern 1\n# kind = packets\n# packets = {packets}\npacket,delay_s\n{rows}"
    ))
}

fn normal(correlation: f64) -> Distribution {
    Distribution {
        shape: Shape::Normal,
        mean_ns: 10 * MS,
        spread_ns: 3 * MS,
        correlation,
    }
}

/// When each segment leaves, by packet and index.
fn departures(runs: &[Run]) -> Vec<((u32, u16), u64)> {
    runs.iter()
        .flat_map(|run| (run.first..run.end()).map(|index| ((run.packet, index), run.at_ns)))
        .collect()
}

#[test]
fn a_limited_delay_drops_what_finds_no_room() {
    for reorder in [false, true] {
        let mut bench = Bench::new(Delay::constant(11 * MS, reorder).limited(10));
        bench.accept(run(0, 0, 0, 8));
        bench.accept(run(1, 1, 0, 5));
        bench.accept(run(2, 2, 0, 1));
        assert_eq!(bench.stage.backlog().segments, 10);
        assert_eq!(bench.exits.dropped(Reason::Overflow), 4);
        // The first eight have left, the other two leave a nanosecond later.
        bench.poll(11 * MS);
        bench.accept(run(11 * MS, 3, 0, 9));
        assert_eq!(bench.stage.backlog().segments, 10);
        assert_eq!(segments(&bench.exits.forward).len(), 8);
        assert_eq!(bench.exits.dropped(Reason::Overflow), 5);
        bench.check();
    }
}

#[test]
fn constant_delay_is_exact_and_keeps_runs_whole() {
    for reorder in [false, true] {
        let mut bench = Bench::new(Delay::constant(11 * MS, reorder));
        let arrivals = [
            run(0, 0, 0, 44),
            run(0, 1, 0, 3),
            run(7, 2, 5, 1),
            control(run(7, 3, 0, 1)),
        ];
        for run in arrivals {
            bench.accept(run);
        }
        assert_eq!(bench.stage.backlog().segments, 49);
        assert_eq!(bench.stage.backlog().bytes, 49_000);
        assert_eq!(bench.stage.next_event_ns(), Some(11 * MS));
        bench.poll(11 * MS - 1);
        assert!(bench.exits.forward.is_empty());
        bench.poll(11 * MS);
        assert_eq!(bench.exits.forward.len(), 2);
        // A late caller changes nothing.
        bench.poll(500 * MS);
        let expected: Vec<Run> = arrivals
            .iter()
            .map(|run| Run {
                at_ns: run.at_ns + 11 * MS,
                ..*run
            })
            .collect();
        assert_eq!(bench.exits.forward, expected);
        assert_eq!(bench.stage.next_event_ns(), None);
        bench.check();
    }
}

#[test]
fn a_shorter_delay_waits_for_what_is_on_its_way() {
    let mut bench = Bench::new(Delay::constant(10 * MS, false));
    bench.accept(run(0, 0, 0, 2));
    assert!(bench.apply(MS, &Change::DelayNs(2 * MS)));
    bench.accept(run(MS, 1, 0, 1));
    bench.accept(run(9 * MS, 2, 0, 1));
    bench.poll(100 * MS);
    assert_eq!(
        departures(&bench.exits.forward),
        [
            ((0, 0), 10 * MS),
            ((0, 1), 10 * MS),
            ((1, 0), 10 * MS),
            ((2, 0), 11 * MS)
        ]
    );
    bench.check();
}

#[test]
fn what_is_settled_on_arrival_is_what_leaves_later() {
    let jitter = Delay::distribution(normal(0.0), false, RandomStream::new(7, 1));
    for delay in [Delay::constant(10 * MS, false), jitter] {
        let mut bench = Bench::new(delay);
        assert!(bench.stage.keep_settled());
        let mut settled = Vec::new();
        for (at_ns, packet) in [(0, 0), (MS, 1), (9 * MS, 2)] {
            bench.accept(run(at_ns, packet, 0, 2));
            bench.stage.take_settled(&mut settled);
        }
        assert!(bench.apply(9 * MS, &Change::DelayNs(2 * MS)));
        assert_eq!(bench.stage.least_stay_ns(), 2 * MS);
        bench.accept(run(10 * MS, 3, 0, 1));
        bench.stage.take_settled(&mut settled);
        bench.poll(1_000 * MS);
        assert_eq!(departures(&settled), departures(&bench.exits.forward));
        bench.check();
    }
    assert!(!Delay::constant(10 * MS, true).keep_settled());
}

#[test]
fn with_reorder_a_shorter_delay_overtakes() {
    let mut bench = Bench::new(Delay::constant(10 * MS, true));
    bench.accept(run(0, 0, 0, 1));
    assert!(bench.apply(MS, &Change::DelayNs(2 * MS)));
    bench.accept(run(MS, 1, 0, 1));
    bench.accept(run(8 * MS, 2, 0, 1));
    bench.accept(run(8 * MS, 3, 0, 1));
    bench.poll(100 * MS);
    // Equal times leave in the order of arrival.
    let expected = [
        ((1, 0), 3 * MS),
        ((0, 0), 10 * MS),
        ((2, 0), 10 * MS),
        ((3, 0), 10 * MS),
    ];
    assert_eq!(departures(&bench.exits.forward), expected);
    bench.check();
}

#[test]
fn a_pattern_over_time_sets_the_delay_of_each_arrival() {
    let rows = "0,0.010\n0.005,0.001\n";
    for (reorder, expected) in [(false, [10, 10, 10, 22]), (true, [6, 10, 10, 22])] {
        let mut bench = Bench::new(Delay::pattern(
            over_time(rows, "0.012"),
            End::Repeat,
            0,
            reorder,
        ));
        for (packet, at_ms) in (0..).zip([0, 5, 9, 12]) {
            bench.accept(run(at_ms * MS, packet, 0, 3));
        }
        bench.poll(u64::MAX);
        let times: Vec<u64> = bench
            .exits
            .forward
            .iter()
            .map(|run| run.at_ns / MS)
            .collect();
        assert_eq!(times, expected);
        bench.check();
    }
}

#[test]
fn a_pattern_by_index_names_the_delay_of_each_segment() {
    let rows = "0,0.010\n2,0.020\n3,0.005\n";
    let mut bench = Bench::new(Delay::pattern(by_index(rows, 5), End::Repeat, 0, false));
    bench.accept(run(0, 0, 0, 4));
    // Control traffic uses no index; it gets the delay of the next segment.
    bench.accept(control(run(0, 9, 0, 1)));
    bench.accept(run(30 * MS, 1, 0, 3));
    bench.poll(u64::MAX);
    // In order: segment 3 waits for segment 2.
    let times: Vec<_> = bench
        .exits
        .forward
        .iter()
        .map(|run| (run.packet, run.first, run.count, run.at_ns / MS))
        .collect();
    assert_eq!(
        times,
        [
            (0, 0, 2, 10),
            (0, 2, 2, 20),
            (9, 0, 1, 20),
            (1, 0, 1, 35),
            (1, 1, 2, 40)
        ]
    );
    bench.check();

    let mut bench = Bench::new(Delay::pattern(by_index(rows, 5), End::Repeat, 0, true));
    bench.accept(run(0, 0, 0, 4));
    bench.poll(u64::MAX);
    assert_eq!(
        segments(&bench.exits.forward),
        [(0, 3), (0, 0), (0, 1), (0, 2)]
    );
}

#[test]
fn a_pattern_that_stops_drops_what_comes_after_it() {
    let mut bench = Bench::new(Delay::pattern(
        over_time("0,0.001\n", "0.01"),
        End::Stop,
        0,
        false,
    ));
    bench.accept(run(10 * MS - 1, 0, 0, 2));
    bench.accept(run(10 * MS, 1, 0, 2));
    bench.poll(u64::MAX);
    assert_eq!(
        (
            bench.exits.forward.len(),
            bench.exits.dropped(Reason::Ended)
        ),
        (1, 2)
    );
    bench.check();
    let mut bench = Bench::new(Delay::pattern(
        by_index("0,0.001\n", 3),
        End::Stop,
        0,
        false,
    ));
    bench.accept(run(0, 0, 0, 5));
    bench.poll(u64::MAX);
    assert_eq!(
        (
            bench.exits.forward.len(),
            bench.exits.dropped(Reason::Ended)
        ),
        (1, 2)
    );
    bench.check();
}

#[test]
fn a_live_pattern_starts_when_it_is_given() {
    let mut bench = Bench::new(Delay::constant(MS, false));
    assert!(bench.apply(
        100 * MS,
        &Change::Pattern(over_time("0,0.002\n0.001,0.003\n", "1"))
    ));
    bench.accept(run(100 * MS, 0, 0, 1));
    bench.accept(run(101 * MS, 1, 0, 1));
    bench.poll(u64::MAX);
    assert_eq!(
        departures(&bench.exits.forward),
        [((0, 0), 102 * MS), ((1, 0), 104 * MS)]
    );
    let no_delay =
        pattern("# wavebed pattern 1\n# kind = steps\n# duration_s = 1\ntime_s,loss\n0,0.1\n");
    for change in [
        Change::RateBps(1),
        Change::Loss(0.1),
        Change::Pattern(no_delay),
    ] {
        assert!(!bench.apply(200 * MS, &change), "{change:?}");
    }
}

#[test]
fn a_delay_beyond_all_time_stays() {
    let mut bench = Bench::new(Delay::constant(u64::MAX, false));
    bench.accept(run(5, 0, 0, 1));
    bench.poll(u64::MAX - 1);
    assert!(bench.exits.forward.is_empty());
    bench.check();
}

proptest! {
    #[test]
    fn in_order_departures_are_the_running_maximum((_, grouped) in groupings(), seed: u64, correlation in 0.0..1.0) {
        let random = RandomStream::new(seed, 1);
        let mut bench = Bench::new(Delay::distribution(normal(correlation), false, random));
        let mut free = Bench::new(Delay::distribution(normal(correlation), true, random));
        for &run in &grouped {
            bench.accept(run);
            free.accept(run);
        }
        bench.poll(u64::MAX);
        free.poll(u64::MAX);
        bench.check();
        free.check();
        // The same draws without order, put back into the order of arrival.
        let free = departures(&free.exits.forward);
        let mut latest = 0;
        for (segment, at_ns) in departures(&bench.exits.forward) {
            let own = free.iter().find(|(other, _)| *other == segment).expect("nothing is lost").1;
            latest = latest.max(own);
            prop_assert_eq!(at_ns, latest);
        }
        prop_assert_eq!(segments(&bench.exits.forward), segments(&grouped));
        for pair in bench.exits.forward.windows(2) {
            let touching = pair[0].packet == pair[1].packet && pair[0].end() == pair[1].first;
            let joined = grouped.iter().any(|run| {
                run.packet == pair[0].packet && run.first <= pair[0].first && run.end() >= pair[1].end()
            });
            prop_assert!(!(touching && joined && pair[0].at_ns == pair[1].at_ns), "split without need: {pair:?}");
        }
    }

    #[test]
    fn the_delay_of_a_segment_depends_on_its_index_only((single, grouped) in groupings(), seed: u64) {
        let delays = |runs: &[Run]| {
            let mut bench =
                Bench::new(Delay::distribution(normal(0.5), true, RandomStream::new(seed, 1)));
            let mut arrivals = std::collections::HashMap::new();
            for &run in runs {
                arrivals.extend(segments(&[run]).into_iter().map(|segment| (segment, run.at_ns)));
                bench.accept(run);
            }
            bench.poll(u64::MAX);
            let mut delays: Vec<_> = departures(&bench.exits.forward)
                .into_iter()
                .filter(|(segment, _)| segment.0 < 1_000_000)
                .map(|(segment, at_ns)| (segment, at_ns - arrivals[&segment]))
                .collect();
            delays.sort_unstable();
            delays
        };
        prop_assert_eq!(delays(&single), delays(&grouped));
    }
}
