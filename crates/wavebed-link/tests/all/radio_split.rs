//! The split bearer against timelines computed by hand.

use std::sync::Arc;

use crate::radio_support::{
    DECODE_NS, Outcome, SLOT_NS, burst, decoded, pattern, plain, played, run, segment, slots,
};
use wavebed_link::config::{StageConfig, build};
use wavebed_link::pattern::Pattern;
use wavebed_link::queue::{DropTail, Infinite, Limit, Queue};
use wavebed_link::radio::{
    Acknowledged, Carriers, Direction, Grants, Handover, Radio, RadioConfig, Rlc, Slots,
    SplitBearer, SplitConfig,
};
use wavebed_link::{
    Backlog, Change, Link, LinkCounters, Outlet, RandomStream, Reason, Run, Stage, Unit,
};

const MS: u64 = 1_000_000;
/// One segment of 1500 bytes fills a slot of 125 µs.
const COLUMNS: &str = "rate_bps,state,fallback_rate_bps";
const STEADY: &[&str] = &["0,96000000,los,12000000"];
/// The carrier is lost at 0.6 ms, given up at 2.6 ms, and back at 9 ms.
const FAILURE: &[&str] = &[
    "0,96000000,los,12000000",
    "0.0006,0,handover,12000000",
    "0.0026,12000000,fallback,12000000",
    "0.008,0,handover,12000000",
    "0.009,96000000,los,12000000",
];

const AM: Rlc = Rlc::Acknowledged(Acknowledged {
    reassembly_ns: 2_000_000,
    poll_ns: 5_000_000,
    status_ns: 300_000,
    retransmissions: 1,
    reestablish_ns: 20_000_000,
    status_loss: 0.0,
    window: None,
});

/// FDD slots of 1 ms, decoded 0.5 ms later: 1500 bytes at 12 Mbit/s.
fn lte() -> Slots {
    Slots {
        slot_ns: MS,
        decode_ns: MS / 2,
        ..slots()
    }
}

/// The end of subframe `index`, decoded.
const fn decoded_lte(index: u64) -> u64 {
    (index + 1) * MS + MS / 2
}

fn settings() -> SplitConfig {
    SplitConfig {
        direction: Direction::Down,
        overhead_bytes: 0,
        discard_ns: None,
        reordering: Some(Some(20 * MS)),
        target_ns: MS,
        threshold_bytes: Some(0),
    }
}

fn acknowledged() -> RadioConfig {
    RadioConfig { rlc: AM, ..plain() }
}

fn with_queue(
    config: SplitConfig,
    leg: &RadioConfig,
    pattern: &Pattern,
    queue: Box<dyn Queue>,
) -> SplitBearer {
    let radio = |leg: RadioConfig, pattern: Pattern, stage| {
        let queue = Box::new(Infinite::new(Unit::Packet));
        let air = played(Arc::new(pattern), None);
        Radio::new(leg, air, queue, None, RandomStream::new(1, stage))
    };
    let fallback = RadioConfig {
        carriers: Carriers {
            primary: lte(),
            fallback: Some(lte()),
        },
        ..leg.clone()
    };
    let second = pattern.fallback_leg().expect("it has the column");
    let primary = radio(leg.clone(), pattern.primary_leg(), 0);
    SplitBearer::new(config, queue, None, primary, radio(fallback, second, 1))
}

fn bearer(config: SplitConfig, leg: &RadioConfig, rows: &[&str]) -> SplitBearer {
    let queue = Box::new(Infinite::new(Unit::Packet));
    with_queue(config, leg, &pattern("100", COLUMNS, rows), queue)
}

/// The outcome of a bearer, with its blocks.
fn outcome(mut bearer: SplitBearer, arrivals: &[Run]) -> Outcome {
    bearer.log_blocks();
    let outcome = run(&mut bearer, arrivals, 80 * MS);
    let blocks = bearer.take_blocks();
    assert_eq!(bearer.backlog(), Backlog::default());
    Outcome { blocks, ..outcome }
}

fn sent_at(rows: &[(u64, u32)]) -> Vec<Run> {
    let segments = rows.iter();
    segments
        .map(|&(at_ns, packet)| segment(at_ns, packet))
        .collect()
}

#[test]
fn what_the_carrier_has_no_room_for_goes_over_the_fallback_carrier_and_the_order_is_kept() {
    // 1 ms of 96 Mbit/s are packets 0 to 7, 1 ms of 12 Mbit/s is packet 8. The others go to the carrier as it empties.
    let outcome = outcome(bearer(settings(), &acknowledged(), STEADY), &burst(10, 12));
    let mut expected: Vec<(u32, u64)> = (0..8).map(|n| (n, decoded(u64::from(n) + 1))).collect();
    expected.extend((8..12).map(|packet| (packet, decoded_lte(1))));
    assert_eq!(outcome.delivered, expected);
    let on_fallback = outcome.blocks.iter().filter(|block| block.slot.fallback);
    assert_eq!(on_fallback.count(), 1);
    assert_eq!(decoded(11), 1_525_000, "packet 11 has been held since then");
}

/// Eight packets before the failure, two in it, one after the return.
fn across_the_failure() -> Vec<Run> {
    let mut arrivals = burst(10, 8);
    arrivals.extend(sent_at(&[(700_000, 8), (1_700_000, 9), (9_200_000, 10)]));
    arrivals
}

#[test]
fn what_the_failed_carrier_held_is_sent_again_by_the_other() {
    let outcome = outcome(
        bearer(settings(), &acknowledged(), FAILURE),
        &across_the_failure(),
    );
    // 3 was on air at 0.6 ms. At 2.6 ms 3 to 7 are recovered: subframes 3 to 7. 8 and 9 came in subframes 1 and 2.
    let mut expected: Vec<(u32, u64)> = (0..3).map(|n| (n, decoded(u64::from(n) + 1))).collect();
    expected.extend((3..8).map(|n| (n, decoded_lte(u64::from(n)))));
    expected.extend([(8, decoded_lte(7)), (9, decoded_lte(7)), (10, decoded(74))]);
    assert_eq!(outcome.delivered, expected);
    assert_eq!(
        (decoded_lte(3), decoded_lte(7), decoded(74)),
        (4_500_000, 8_500_000, 9_400_000)
    );
}

#[test]
fn the_other_leg_carries_new_data_during_the_failure() {
    let config = SplitConfig {
        reordering: None,
        ..settings()
    };
    let outcome = outcome(
        bearer(config, &acknowledged(), FAILURE),
        &across_the_failure(),
    );
    assert_eq!(outcome.of(8), decoded_lte(1));
    assert_eq!(outcome.of(9), decoded_lte(2));
}

#[test]
fn a_switched_bearer_stands_still_during_the_failure() {
    let config = RadioConfig {
        carriers: Carriers {
            primary: slots(),
            fallback: Some(lte()),
        },
        reordering: Some(Some(20 * MS)),
        ..acknowledged()
    };
    let air = played(pattern("100", COLUMNS, FAILURE), None);
    let queue = Box::new(Infinite::new(Unit::Packet));
    let mut radio = Radio::new(config, air, queue, None, RandomStream::new(1, 0));
    let outcome = run(&mut radio, &across_the_failure(), 80 * MS);
    // From 2.6 to 8 ms five subframes begin. Subframe 7 is on air when the link goes back.
    assert_eq!(outcome.of(3), decoded_lte(3));
    assert_eq!(outcome.of(6), decoded_lte(6));
    assert!(outcome.of(8) > 9 * MS, "{outcome:?}");
}

#[test]
fn the_bearer_goes_on_without_a_gap_when_the_carrier_is_back() {
    // A packet each ms, which is what the fallback carrier takes.
    let arrivals: Vec<Run> = (0..30u32)
        .map(|packet| segment(u64::from(packet) * MS + 10, packet))
        .collect();
    let outcome = outcome(bearer(settings(), &acknowledged(), FAILURE), &arrivals);
    let times: Vec<u64> = outcome.delivered.iter().map(|&(_, at_ns)| at_ns).collect();
    assert_eq!(outcome.delivered.len(), 30);
    let gaps = times.windows(2).map(|pair| pair[1] - pair[0]);
    assert_eq!(gaps.max(), Some(decoded_lte(2) - decoded(1)));
    // 8 comes in the return, 9 after it.
    assert_eq!(outcome.of(8), decoded_lte(9));
    assert_eq!(outcome.of(9), decoded_lte(9), "held since decoded(73)");
}

#[test]
fn without_recovery_t_reordering_ends_the_wait() {
    let rows: Vec<&str> = FAILURE[..2].to_vec();
    let config = SplitConfig {
        reordering: Some(Some(3 * MS)),
        ..settings()
    };
    let mut bearer = bearer(config, &acknowledged(), &rows);
    let outcome = run(&mut bearer, &across_the_failure(), 80 * MS);
    let expired = decoded_lte(1) + 3 * MS;
    assert_eq!((outcome.of(8), outcome.of(9)), (expired, expired));
    assert_eq!(bearer.backlog().segments, 5, "3 to 7 are in the leg");
}

#[test]
fn what_is_recovered_too_late_is_dropped() {
    let config = SplitConfig {
        reordering: Some(Some(MS)),
        ..settings()
    };
    let outcome = outcome(
        bearer(config, &acknowledged(), FAILURE),
        &across_the_failure(),
    );
    // The timer starts with 8 at 2.5 ms and ends at 3.5 ms; 3 to 7 are recovered from 4.5 ms on.
    assert_eq!(outcome.of(8), decoded_lte(1) + MS);
    assert_eq!(outcome.dropped(Reason::Late), 5);
}

#[test]
fn what_the_receiver_gave_up_before_the_recovery_is_not_sent_again() {
    let config = SplitConfig {
        reordering: Some(Some(MS / 20)),
        ..settings()
    };
    let outcome = outcome(
        bearer(config, &acknowledged(), FAILURE),
        &across_the_failure(),
    );
    // The timer ends at 2.55 ms.
    let late: Vec<(u32, u64)> = (3..8).map(|packet| (packet, 2_600_000)).collect();
    assert_eq!(outcome.lost, late);
    assert_eq!(outcome.dropped(Reason::Late), 5);
    assert_eq!(on_fallback(&outcome), 2);
}

#[test]
fn a_lost_buffer_is_not_recovered() {
    let leg = RadioConfig {
        handover: Handover::Lose,
        ..acknowledged()
    };
    let outcome = outcome(bearer(settings(), &leg, FAILURE), &across_the_failure());
    assert_eq!(outcome.dropped(Reason::Handover), 5);
    assert!(
        outcome
            .lost
            .iter()
            .all(|&(packet, at_ns)| (3..8).contains(&packet) && at_ns == 600_000)
    );
    assert_eq!(outcome.delivered.len(), 6);
}

#[test]
fn unacknowledged_mode_recovers_what_was_not_sent() {
    let outcome = outcome(bearer(settings(), &plain(), FAILURE), &across_the_failure());
    assert_eq!(outcome.lost, [(3, 600_000)]);
    assert_eq!(outcome.of(4), decoded_lte(1) + 20 * MS);
}

#[test]
fn a_segment_of_which_a_piece_arrived_is_recovered_whole() {
    // 2000 bytes a slot: 0 and a third of 1 in slot 1, the rest of 1 is never sent by the carrier.
    let rows = [
        "0,128000000,los,12000000",
        "0.00025,0,handover,12000000",
        "0.001,12000000,fallback,12000000",
    ];
    let outcome = outcome(bearer(settings(), &acknowledged(), &rows), &burst(10, 2));
    assert_eq!(outcome.delivered.len(), 2);
    // The block of slot 1 ends at 0.25 ms, and is decoded after that: all of it is on air.
    assert_eq!(
        outcome.delivered,
        [(0, decoded_lte(2)), (1, decoded_lte(3))]
    );
    let rows = [
        "0,128000000,los,12000000",
        "0.0003,0,handover,12000000",
        "0.001,12000000,fallback,12000000",
    ];
    let outcome = self::outcome(bearer(settings(), &acknowledged(), &rows), &burst(10, 2));
    assert_eq!(outcome.delivered, [(0, decoded(1)), (1, decoded_lte(2))]);
}

#[test]
fn the_leg_recovers_too_when_rlc_gives_up() {
    // The blocks of slots 2 and 23 fail, both with packet 1: the radio link fails at decoded(23), 3.025 ms, for 20 ms.
    let rows = [
        "0,96000000,0,los,12000000",
        "0.00025,96000000,1,los,12000000",
        "0.000375,96000000,0,los,12000000",
        "0.0026,96000000,1,los,12000000",
        "0.003,96000000,0,los,12000000",
    ];
    let pattern = pattern("1", "rate_bps,bler,state,fallback_rate_bps", &rows);
    let queue = Box::new(Infinite::new(Unit::Packet));
    let bearer = with_queue(settings(), &acknowledged(), &pattern, queue);
    let mut arrivals = burst(10, 3);
    arrivals.extend(sent_at(&[(4 * MS, 3), (24 * MS, 4)]));
    let outcome = outcome(bearer, &arrivals);
    assert_eq!(outcome.counters.total().link_failures, 1);
    assert_eq!(
        outcome.delivered,
        [
            (0, decoded(1)),
            (1, decoded_lte(4)),
            (2, decoded_lte(4)),
            (3, decoded_lte(5)),
            (4, decoded(193)),
        ]
    );
    assert_eq!(decoded(193) - SLOT_NS - DECODE_NS, 24 * MS + SLOT_NS);
}

fn uplink(threshold_bytes: Option<u64>) -> SplitConfig {
    SplitConfig {
        direction: Direction::Up,
        target_ns: MS / 4,
        threshold_bytes,
        ..settings()
    }
}

fn on_fallback(outcome: &Outcome) -> usize {
    let blocks = outcome.blocks.iter();
    blocks.filter(|block| block.slot.fallback).count()
}

#[test]
fn below_the_threshold_the_uplink_has_one_leg_only() {
    for (threshold, packets, expected) in [
        (None, 40, 0),
        (Some(6000), 3, 0),
        (Some(6000), 4, 1),
        (Some(0), 3, 1),
    ] {
        let bearer = bearer(uplink(threshold), &acknowledged(), STEADY);
        let outcome = outcome(bearer, &burst(10, packets));
        assert_eq!(on_fallback(&outcome), expected, "{threshold:?} {packets}");
        assert_eq!(outcome.delivered.len(), packets as usize);
    }
}

#[test]
fn the_leg_of_the_uplink_changes_with_the_failure_and_the_return() {
    let bearer = bearer(uplink(None), &acknowledged(), FAILURE);
    let arrivals = sent_at(&[(700_000, 0), (2_700_000, 1), (8_200_000, 2), (9_200_000, 3)]);
    let outcome = outcome(bearer, &arrivals);
    // 0 waits for the end of the interruption; 2 comes during the return.
    assert_eq!(
        outcome.delivered[..2],
        [(0, decoded_lte(3)), (1, decoded_lte(4))]
    );
    assert_eq!(outcome.of(2), decoded_lte(9));
    assert_eq!(outcome.of(3), decoded_lte(9), "held since decoded(74)");
}

/// Bytes that a bearer with waiting data delivers in a second, of what both legs carry.
fn used(config: SplitConfig, leg: &RadioConfig) -> f64 {
    let mut bearer = bearer(config, leg, STEADY);
    let arrivals: Vec<Run> = (0..20_000).map(|packet| segment(10, packet)).collect();
    let outcome = run(&mut bearer, &arrivals, 1_100 * MS);
    let late = outcome.delivered.iter();
    let late = late.filter(|&&(_, at_ns)| at_ns >= 100 * MS);
    late.count() as f64 * 1500.0 * 8.0 / 108e6
}

#[test]
fn both_legs_are_full() {
    let used = used(settings(), &acknowledged());
    assert!((0.998..=1.002).contains(&used), "{used}");
}

#[test]
fn both_legs_of_the_uplink_are_full_with_grants() {
    let leg = RadioConfig {
        direction: Direction::Up,
        grants: Some(Grants {
            request_slots: 10,
            schedule_slots: 4,
            prepare_slots: 4,
            first_bytes: 512,
            configured: None,
            losses: None,
        }),
        ..acknowledged()
    };
    let config = SplitConfig {
        target_ns: 10 * MS,
        ..uplink(Some(0))
    };
    let used = used(config, &leg);
    assert!((0.998..=1.002).contains(&used), "{used}");
}

#[test]
fn a_limit_in_time_counts_both_legs() {
    // Eight segments and one in the legs, and 1 ms of 108 Mbit/s in the buffer.
    let queue = Box::new(DropTail::new(Limit::TimeNs(MS), Unit::Packet));
    let bearer = with_queue(
        settings(),
        &acknowledged(),
        &pattern("100", COLUMNS, STEADY),
        queue,
    );
    let outcome = outcome(bearer, &burst(10, 40));
    assert_eq!(outcome.delivered.len(), 8 + 1 + 9);
    assert_eq!(outcome.dropped(Reason::Overflow), 22);
}

#[test]
fn segments_discard_while_they_wait_for_a_leg() {
    let config = SplitConfig {
        discard_ns: Some(200_000),
        ..settings()
    };
    let outcome = outcome(bearer(config, &acknowledged(), STEADY), &burst(10, 12));
    // At 0.2 ms one of the three that waited has gone to the carrier.
    assert_eq!(outcome.dropped(Reason::Discard), 2);
    assert_eq!(outcome.delivered.len(), 10);
}

#[test]
fn a_live_rate_is_that_of_the_carrier() {
    let mut bearer = bearer(settings(), &acknowledged(), FAILURE);
    let (mut delivered, mut lost, mut copied) = (Vec::new(), Vec::new(), Vec::new());
    let mut counters = LinkCounters::new(false);
    let mut out = Outlet::new(&mut delivered, &mut lost, &mut copied, &mut counters);
    assert!(bearer.apply(0, &Change::RateBps(48_000_000)));
    assert!(!bearer.apply(0, &Change::DelayNs(1)));
    assert!(!bearer.apply(0, &Change::Pattern(pattern("1", "rate_bps", &["0,1"]))));
    for run in burst(10, 20_000) {
        bearer.accept(run, &mut out);
    }
    bearer.poll(1_000 * MS, &mut out);
    let bytes: u64 = delivered.iter().map(Run::bytes).sum();
    let used = bytes as f64 * 8.0 / 60e6;
    assert!((0.995..=1.0).contains(&used), "{used}");
}

/// The downlink of `nr-120khz` at 300 Mbit/s with `lte` at 50 Mbit/s beside it, which fails from 1 to 2 s.
const PRESETS: &str = r#"{
    "stage": "radio", "direction": "down", "rate": {"kind": "pattern", "file": "x", "end": "hold", "start_ns": 0},
    "slots": {"slot_ns": 125000, "frame": "DDDSU", "special_symbols": [10, 2, 2], "prepare_ns": 250000,
        "decode_ns": 100000, "harq": {"processes": 16, "feedback_slots": 2, "schedule_slots": 2, "limit": 4,
        "combining_gain_db": 3.0, "slope_per_db": 3.8}},
    "fallback": {"slot_ns": 1000000, "frame": "", "special_symbols": [10, 2, 2], "prepare_ns": 2000000,
        "decode_ns": 1500000, "harq": {"processes": 8, "feedback_slots": 4, "schedule_slots": 4, "limit": 4,
        "combining_gain_db": 3.0, "slope_per_db": 3.8}, "code": "turbo"},
    "queue": {"kind": "droptail", "limit": {"bytes": 20971520}}, "overhead_bytes": 10,
    "rlc": {"mode": "am", "reassembly_ns": 35000000, "poll_ns": 45000000, "status_ns": 750000,
        "retransmissions": 8}, "reordering": {"timer_ns": 100000000}, "split": SPLIT}"#;
const SPLIT: &str = r#"{"target_ns": 10000000, "threshold_bytes": 0, "rlc": {"mode": "am", "reassembly_ns": 35000000,
    "poll_ns": 45000000, "status_ns": 9000000, "retransmissions": 4}}"#;

/// Longest times without a delivery, ms: around the failure and around the return; and Mbit/s of 3 s.
fn around_a_failure(split: &str, reordering: &str, every_ns: u64) -> [f64; 3] {
    let rows = [
        "0,300000000,los,50000000",
        "1,0,handover,50000000",
        "1.07,50000000,fallback,50000000",
        "2,0,handover,50000000",
        "2.076,300000000,los,50000000",
    ];
    let pattern = pattern("3", COLUMNS, &rows);
    let text = PRESETS.replace("SPLIT", split);
    let text = text.replace(r#"{"timer_ns": 100000000}"#, reordering);
    let config: StageConfig = serde_json::from_str(&text).expect("it is valid");
    let random = RandomStream::new(1, 0);
    let stage = build(&config, random, &mut |_| Ok(pattern.clone())).expect("it is valid");
    let mut link = Link::new(vec![stage], false);
    let mut delivered = Vec::new();
    for packet in 0..3_000 * MS / every_ns {
        let at_ns = packet * every_ns;
        link.poll(at_ns, &mut delivered);
        link.accept(segment(at_ns, u32::try_from(packet).expect("few")));
    }
    link.poll(3_000 * MS, &mut delivered);
    let bytes: u64 = delivered.iter().map(Run::bytes).sum();
    let longest = |from_ms: u64, to_ms: u64| {
        let times = delivered.iter().map(|run| run.at_ns);
        let times: Vec<u64> = times
            .filter(|at_ns| (from_ms * MS..to_ms * MS).contains(at_ns))
            .collect();
        let gaps = times.windows(2).map(|pair| pair[1] - pair[0]);
        gaps.max().unwrap_or(u64::MAX) as f64 / 1e6
    };
    [
        longest(950, 1300),
        longest(1950, 2300),
        bytes as f64 * 8.0 / 3e6,
    ]
}

#[test]
fn the_presets_stand_still_less_with_a_split_bearer() {
    let (patient, hasty) = (r#"{"timer_ns": 100000000}"#, r#"{"timer_ns": 20000000}"#);
    // A packet each 0.4 ms is 30 Mbit/s, each 25 µs more than both carry.
    for (every_ns, split, reordering, failure_ms, return_ms, mbps) in [
        (400_000, "null", patient, 72.775, 76.725, 30.0),
        (400_000, SPLIT, patient, 74.775, 1.0, 30.0),
        (400_000, SPLIT, hasty, 25.775, 1.0, 30.0),
        (400_000, SPLIT, "null", 5.775, 1.0, 30.0),
        (25_000, "null", patient, 72.525, 76.725, 206.4),
        (25_000, SPLIT, patient, 70.0, 1.0, 239.9),
        (25_000, SPLIT, "null", 1.0, 1.0, 240.3),
    ] {
        let found = around_a_failure(split, reordering, every_ns);
        let gaps = [failure_ms, return_ms];
        assert_eq!(found[..2], gaps, "{every_ns} {split} {reordering}");
        assert!(
            (found[2] - mbps).abs() < 0.1,
            "{every_ns} {split} {reordering}: {found:?}"
        );
    }
}

#[test]
fn a_split_bearer_that_breaks_a_rule_is_refused_by_key() {
    let whole = PRESETS.replace("SPLIT", SPLIT);
    let own_fallback = whole.replacen(r#""fallback""#, r#""ignored""#, 1);
    let start = own_fallback.find(r#""ignored""#).expect("it is there");
    let end = own_fallback.find(r#""queue""#).expect("it is there");
    let alone = format!("{}{}", &own_fallback[..start], &own_fallback[end..]);
    let pattern = r#"{"kind": "pattern", "file": "x", "end": "hold", "start_ns": 0}"#;
    let constant = r#"{"kind": "constant", "rate_bps": 9}"#;
    let threshold = r#""threshold_bytes": 0"#;
    let with = |from: &str, to: &str| whole.replace(from, to);
    let columns = "rate_bps,fallback_rate_bps";
    for (text, columns, wanted) in [
        (alone, columns, "split: has no second carrier: add fallback"),
        (
            with(pattern, constant),
            columns,
            "rate.kind: does not fit a split bearer",
        ),
        (
            whole.clone(),
            "rate_bps,bler",
            "rate.file: x: this pattern of kind steps cannot",
        ),
        (
            with("10000000,", "0,"),
            columns,
            "split.target_ns: use at least 1",
        ),
        (
            with(threshold, r#""threshold_bytes": 1000000000001"#),
            columns,
            "split.threshold_bytes: use at most 1000000000000",
        ),
        (
            with(
                r#""retransmissions": 4"#,
                r#""retransmissions": 4, "sn_bits": 11"#,
            ),
            columns,
            "split.rlc.sn_bits: is 11",
        ),
    ] {
        let config: StageConfig = serde_json::from_str(&text).expect("it can be read");
        let pattern = self::pattern("1", columns, &["0,1,1"]);
        let built = build(&config, RandomStream::new(1, 0), &mut |_| {
            Ok(pattern.clone())
        });
        let message = built.err().expect(wanted).to_string();
        assert!(message.starts_with(wanted), "{message}");
    }
}
