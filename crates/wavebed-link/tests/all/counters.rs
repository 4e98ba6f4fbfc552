//! The series of a link's counters.

use wavebed_link::{Backlog, LinkCounters};

#[test]
fn a_block_recorded_before_its_slot_does_not_fix_the_queue_of_that_millisecond() {
    let level = |bytes| Backlog { segments: 1, bytes };
    let mut counters = LinkCounters::new(true);
    counters.queue_level(800_000, 0, level(100));
    counters.block(1_100_000, true);
    counters.queue_level(900_000, 0, level(700));
    let rows = counters.finished_rows(3_000_000);
    let queue: Vec<u64> = rows.iter().map(|row| row.queue_bytes).collect();
    assert_eq!(queue, [700, 700, 700]);
    assert_eq!(rows[1].queue_peak_bytes, 700);
    let blocks: Vec<(u64, u64)> = rows
        .iter()
        .map(|row| (row.counts.blocks_sent, row.counts.blocks_failed))
        .collect();
    assert_eq!(blocks, [(0, 0), (1, 1), (0, 0)]);
}

#[test]
fn a_block_far_ahead_takes_no_rows() {
    let mut counters = LinkCounters::new(true);
    counters.block(1 << 59, false);
    assert_eq!(counters.finished_rows(2_000_000).len(), 2);
    assert_eq!(counters.total().blocks_sent, 1);
}

#[test]
fn a_failure_of_the_link_stands_in_its_millisecond() {
    let mut counters = LinkCounters::new(true);
    counters.link_failed(1_900_000);
    let rows = counters.finished_rows(3_000_000);
    let failures: Vec<u64> = rows.iter().map(|row| row.counts.link_failures).collect();
    assert_eq!(failures, [0, 1, 0]);
    assert_eq!(counters.total().link_failures, 1);
}

#[test]
fn the_queues_of_two_stages_add_up() {
    let level = |bytes| Backlog { segments: 1, bytes };
    let mut counters = LinkCounters::new(true);
    counters.queue_level(100_000, 0, level(5000));
    counters.queue_level(200_000, 1, level(300));
    counters.queue_level(300_000, 0, level(4000));
    let rows = counters.finished_rows(1_000_000);
    assert_eq!(
        (rows[0].queue_bytes, rows[0].queue_peak_bytes),
        (4300, 5300)
    );
}

fn air_by_millisecond(counters: &mut LinkCounters, now_ns: u64) -> Vec<u64> {
    let rows = counters.finished_rows(now_ns);
    rows.iter().map(|row| row.counts.air_ns).collect()
}

#[test]
fn the_air_time_of_a_block_stands_in_the_millisecond_of_its_slot() {
    let mut counters = LinkCounters::new(true);
    counters.air(1_875_000, 125_000, 125_000);
    counters.air(1_750_000, 125_000, 30_000);
    assert_eq!(
        air_by_millisecond(&mut counters, 3_000_000),
        [0, 155_000, 0]
    );
    assert_eq!(counters.total().air_ns, 155_000);
}

#[test]
fn a_slot_in_several_milliseconds_has_a_part_of_its_air_time_in_each() {
    let mut counters = LinkCounters::new(true);
    counters.air(500_000, 2_500_000, 1_000_000);
    let rows = air_by_millisecond(&mut counters, 4_000_000);
    assert_eq!(rows, [200_000, 400_000, 400_000, 0]);
    counters.air(4_999_999, 3, 2);
    let rows = air_by_millisecond(&mut counters, 7_000_000);
    assert_eq!(rows, [0, 2, 0], "nothing is lost by rounding");
}
