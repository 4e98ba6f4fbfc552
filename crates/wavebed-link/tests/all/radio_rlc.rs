//! RLC and in-order delivery against timelines computed by hand.

use crate::radio_support::{
    DECODE_NS, RATE_BPS, SLOT_NS, air, burst, decoded, drive, plain, radio, segment, slots,
};
use wavebed_link::radio::{
    Acknowledged, Air, Carriers, Direction, Grants, Handover, Harq, RadioConfig, Rlc, Slots,
};
use wavebed_link::{Reason, Run, Stage};

const AM: Rlc = Rlc::Acknowledged(Acknowledged {
    reassembly_ns: 2_000_000,
    poll_ns: 5_000_000,
    status_ns: 300_000,
    retransmissions: 2,
    reestablish_ns: 20_000_000,
    status_loss: 0.0,
    window: None,
});

/// One segment fills a slot of 1500 bytes; the block of slot 2 fails, the others do not.
fn slot_two_fails() -> Air {
    air(
        "1",
        &[
            "0,96000000,0,los",
            "0.00025,96000000,1,los",
            "0.000375,96000000,0,los",
        ],
    )
}

fn sent_at(rows: &[(u64, u32)]) -> Vec<Run> {
    rows.iter()
        .map(|&(at_ns, packet)| segment(at_ns, packet))
        .collect()
}

#[test]
fn unacknowledged_mode_loses_the_block_and_nr_delivers_the_others_at_once() {
    let outcome = drive(
        &mut radio(plain(), slot_two_fails()),
        &burst(10, 4),
        50_000_000,
    );
    assert_eq!(
        outcome.delivered,
        [(0, decoded(1)), (2, decoded(3)), (3, decoded(4))]
    );
    assert_eq!(outcome.lost, [(1, decoded(2))]);
}

#[test]
fn acknowledged_mode_sends_again_after_reassembly_and_status() {
    // Packet 2 reveals at decoded(3) that packet 1 is missing; 2 ms later the receiver reports it; 0.3 ms later the
    // sender knows. That is 2.825 ms, so slot 23, which begins at 2.875 ms.
    let config = RadioConfig { rlc: AM, ..plain() };
    let outcome = drive(
        &mut radio(config, slot_two_fails()),
        &burst(10, 4),
        50_000_000,
    );
    assert_eq!(decoded(3) + 2_300_000, 2_825_000);
    assert_eq!(
        outcome.delivered,
        [
            (0, decoded(1)),
            (2, decoded(3)),
            (3, decoded(4)),
            (1, decoded(23))
        ]
    );
}

#[test]
fn with_nothing_behind_it_the_poll_timer_finds_the_loss() {
    // The last block, sent in slot 2 at 0.25 ms: 5 ms until the poll, 0.3 ms for the answer, so slot 45 at 5.625 ms.
    let config = RadioConfig { rlc: AM, ..plain() };
    let outcome = drive(
        &mut radio(config, slot_two_fails()),
        &burst(10, 2),
        50_000_000,
    );
    assert_eq!(outcome.delivered, [(0, decoded(1)), (1, decoded(45))]);
}

#[test]
fn pdcp_holds_back_what_follows_a_gap_until_it_is_filled() {
    let config = RadioConfig {
        rlc: AM,
        reordering: Some(Some(20_000_000)),
        ..plain()
    };
    let outcome = drive(
        &mut radio(config, slot_two_fails()),
        &burst(10, 4),
        50_000_000,
    );
    let filled = decoded(23);
    assert_eq!(
        outcome.delivered,
        [(0, decoded(1)), (1, filled), (2, filled), (3, filled)]
    );
}

#[test]
fn t_reordering_ends_the_wait_and_what_comes_later_is_too_late() {
    let config = RadioConfig {
        rlc: AM,
        reordering: Some(Some(1_000_000)),
        ..plain()
    };
    let outcome = drive(
        &mut radio(config, slot_two_fails()),
        &burst(10, 4),
        50_000_000,
    );
    let expired = decoded(3) + 1_000_000;
    assert_eq!(
        outcome.delivered,
        [(0, decoded(1)), (2, expired), (3, expired)]
    );
    assert_eq!(outcome.lost, [(1, decoded(23))]);
    assert_eq!(outcome.dropped(Reason::Late), 1);
}

#[test]
fn t_reordering_starts_again_for_a_second_gap() {
    // Slots 2 and 4 fail. The first gap is seen with packet 2 and skipped 1 ms later; then packet 4 waits for packet
    // 3, from that moment for another millisecond.
    let air = air(
        "1",
        &[
            "0,96000000,0,los",
            "0.00025,96000000,1,los",
            "0.000375,96000000,0,los",
            "0.0005,96000000,1,los",
            "0.000625,96000000,0,los",
        ],
    );
    let config = RadioConfig {
        reordering: Some(Some(1_000_000)),
        ..plain()
    };
    let outcome = drive(&mut radio(config, air), &burst(10, 5), 50_000_000);
    let expired = decoded(3) + 1_000_000;
    assert_eq!(
        outcome.delivered,
        [(0, decoded(1)), (2, expired), (4, expired + 1_000_000)]
    );
}

/// The block of slot 2 fails, and its retransmission in slot 23 too: with one retransmission the link fails then.
fn slot_two_fails_twice() -> Air {
    air(
        "1",
        &[
            "0,96000000,0,los",
            "0.00025,96000000,1,los",
            "0.000375,96000000,0,los",
            "0.0026,96000000,1,los",
            "0.003,96000000,0,los",
        ],
    )
}

const ONCE: Rlc = Rlc::Acknowledged(Acknowledged {
    reassembly_ns: 2_000_000,
    poll_ns: 5_000_000,
    status_ns: 300_000,
    retransmissions: 1,
    reestablish_ns: 20_000_000,
    status_loss: 0.0,
    window: None,
});

#[test]
fn the_link_fails_at_the_limit_of_rlc_and_is_re_established_with_all_data() {
    // Packet 1 fails for the second time at decoded(23), 3.025 ms. At 23.025 ms the link is there again: slot 185, at
    // 23.125 ms, is the first that a block can be built for. What came in between follows in order.
    let config = RadioConfig {
        rlc: ONCE,
        reordering: Some(None),
        ..plain()
    };
    let mut arrivals = burst(10, 4);
    arrivals.extend(sent_at(&[(4_000_000, 4), (22_000_000, 5)]));
    let outcome = drive(
        &mut radio(config, slot_two_fails_twice()),
        &arrivals,
        50_000_000,
    );
    assert_eq!(decoded(23) + 20_000_000, 23_025_000);
    let (first, second, third) = (decoded(185), decoded(186), decoded(187));
    assert_eq!(
        outcome.delivered,
        [
            (0, decoded(1)),
            (1, first),
            (2, first),
            (3, first),
            (4, second),
            (5, third)
        ]
    );
    assert!(outcome.lost.is_empty());
    assert_eq!(outcome.counters.total().link_failures, 1);
    // RLC counts anew after that.
    let retried = outcome.blocks.iter().filter(|block| block.slot.index > 23);
    assert_eq!(retried.count(), 3);
}

#[test]
fn a_failed_link_sends_what_was_on_air_again_in_order() {
    // Slots of 1000 bytes: packet 1 is split. Blocks that are in the air at decoded(23), and those that HARQ would
    // repeat, are lost with the old connection; half a packet that waits is not sent before them.
    let air = air(
        "1",
        &[
            "0,64000000,0,los",
            "0.00025,64000000,1,los",
            "0.000375,64000000,0,los",
            "0.0026,64000000,1,los",
            "0.003,64000000,0,los",
        ],
    );
    let config = RadioConfig {
        rlc: ONCE,
        ..plain()
    };
    let mut arrivals = burst(10, 3);
    arrivals.extend(sent_at(&[(2_600_000, 3), (2_600_000, 4), (2_600_000, 5)]));
    let mut link = radio(config, air);
    let outcome = drive(&mut link, &arrivals, 60_000_000);
    assert_eq!(outcome.counters.total().link_failures, 1);
    assert!(outcome.lost.is_empty());
    let after: Vec<u32> = outcome
        .delivered
        .iter()
        .filter(|&&(_, at_ns)| at_ns > 20_000_000)
        .map(|&(packet, _)| packet)
        .collect();
    assert!(after.len() >= 4, "{after:?}");
    assert!(after.is_sorted(), "{after:?}");
    assert_eq!(outcome.delivered.len(), 6);
    assert_eq!(link.backlog(), wavebed_link::Backlog::default());
}

#[test]
fn a_failed_link_loses_its_data_where_a_handover_does() {
    let config = RadioConfig {
        rlc: ONCE,
        reordering: Some(None),
        handover: Handover::Lose,
        ..plain()
    };
    let mut arrivals = burst(10, 4);
    arrivals.extend(sent_at(&[(4_000_000, 4)]));
    let outcome = drive(
        &mut radio(config, slot_two_fails_twice()),
        &arrivals,
        50_000_000,
    );
    let failed = decoded(23);
    assert_eq!(outcome.lost, [(1, failed)]);
    assert_eq!(outcome.dropped(Reason::Block), 1);
    assert_eq!(
        outcome.delivered,
        [(0, decoded(1)), (2, failed), (3, failed), (4, decoded(185))],
        "what comes while the link is down waits"
    );
    assert_eq!(outcome.counters.total().link_failures, 1);
}

#[test]
fn an_uplink_asks_for_a_grant_again_when_its_link_is_re_established() {
    let grants = Grants {
        request_slots: 4,
        schedule_slots: 2,
        prepare_slots: 2,
        first_bytes: 1500,
        configured: None,
        losses: None,
    };
    let config = RadioConfig {
        direction: Direction::Up,
        rlc: ONCE,
        grants: Some(grants),
        ..plain()
    };
    let air = air("1", &["0,96000000,1,los", "0.02,96000000,0,los"]);
    let outcome = drive(&mut radio(config, air), &burst(10, 1), 60_000_000);
    assert_eq!(outcome.counters.total().link_failures, 1);
    let sent: Vec<u64> = outcome
        .blocks
        .iter()
        .map(|block| block.slot.index)
        .collect();
    let [.., last, again] = sent[..] else {
        panic!("{sent:?}")
    };
    // The request can go out in the first fourth slot after the link is there, and its grant four slots later.
    let restored_ns = decoded(last) + 20_000_000;
    let request = (restored_ns + 1).div_ceil(SLOT_NS).next_multiple_of(4);
    assert_eq!(again, request + 4);
    assert_eq!(outcome.of(0), decoded(again));
}

#[test]
fn rlc_sends_again_before_new_data() {
    let config = RadioConfig { rlc: AM, ..plain() };
    let mut arrivals = burst(10, 3);
    arrivals.extend(sent_at(&[(2_800_000, 3), (2_800_000, 4)]));
    let outcome = drive(&mut radio(config, slot_two_fails()), &arrivals, 50_000_000);
    assert_eq!(outcome.of(1), decoded(23));
    assert_eq!(outcome.of(3), decoded(24));
}

#[test]
fn new_data_does_not_wait_for_what_is_not_known_to_be_lost_yet() {
    // The poll would find the loss of packet 1 after slot 44. Packet 2 comes in slot 8, takes slot 9 and reveals the
    // gap at decoded(9), 1.275 ms; 2.3 ms later, from 3.575 ms on, packet 1 is sent again: slot 29, at 3.625 ms.
    let config = RadioConfig { rlc: AM, ..plain() };
    let mut arrivals = burst(10, 2);
    arrivals.push(segment(8 * SLOT_NS + 10, 2));
    let outcome = drive(&mut radio(config, slot_two_fails()), &arrivals, 50_000_000);
    assert_eq!(
        outcome.delivered,
        [(0, decoded(1)), (2, decoded(9)), (1, decoded(29))]
    );
}

#[test]
fn what_is_sent_again_is_cut_to_a_smaller_slot() {
    // The lost block was 1500 bytes; slots carry 600 when it is sent again.
    let air = air(
        "1",
        &[
            "0,96000000,0,los",
            "0.00025,96000000,1,los",
            "0.000375,38400000,0,los",
        ],
    );
    let config = RadioConfig { rlc: AM, ..plain() };
    let outcome = drive(&mut radio(config, air), &burst(10, 2), 50_000_000);
    assert_eq!(outcome.delivered, [(0, decoded(1)), (1, decoded(47))]);
}

#[test]
fn discarding_ends_what_waits_too_long_in_an_outage() {
    let air = air("1", &["0,0,0,outage", "0.5,96000000,0,los"]);
    let config = RadioConfig {
        discard_ns: Some(100_000_000),
        ..plain()
    };
    let arrivals = sent_at(&[(10, 0), (450_000_000, 1)]);
    let outcome = drive(&mut radio(config, air), &arrivals, 900_000_000);
    assert_eq!(outcome.lost, [(0, 100_000_010)]);
    assert_eq!(outcome.dropped(Reason::Discard), 1);
    assert_eq!(outcome.delivered, [(1, 500_000_000 + SLOT_NS + DECODE_NS)]);
}

/// A handover from 1 ms to 3 ms.
fn handover() -> Air {
    air(
        "1",
        &[
            "0,96000000,0,los",
            "0.001,96000000,0,handover",
            "0.003,96000000,0,los",
        ],
    )
}

#[test]
fn a_handover_forwards_the_buffer_and_acknowledged_mode_repeats_what_was_on_air() {
    let config = RadioConfig { rlc: AM, ..plain() };
    let outcome = drive(&mut radio(config, handover()), &burst(10, 9), 20_000_000);
    // Slot 7 ends with the gap, so its block, packet 6, has not been decoded: it is sent again.
    assert_eq!(outcome.of(5), decoded(6));
    assert_eq!(outcome.of(6), 3_000_000 + SLOT_NS + DECODE_NS);
    assert_eq!(outcome.of(7), 3_000_000 + 2 * SLOT_NS + DECODE_NS);
    assert!(outcome.lost.is_empty());
}

#[test]
fn in_unacknowledged_mode_a_handover_loses_what_was_on_air() {
    let outcome = drive(&mut radio(plain(), handover()), &burst(10, 9), 20_000_000);
    assert_eq!(outcome.lost, [(6, 1_000_000)]);
    assert_eq!(outcome.dropped(Reason::Handover), 1);
    assert_eq!(outcome.of(7), 3_000_000 + SLOT_NS + DECODE_NS);
}

#[test]
fn without_forwarding_a_handover_loses_the_buffer() {
    let config = RadioConfig {
        rlc: AM,
        handover: Handover::Lose,
        ..plain()
    };
    let mut arrivals = burst(10, 9);
    arrivals.extend(sent_at(&[(2_000_000, 9)]));
    let outcome = drive(&mut radio(config, handover()), &arrivals, 20_000_000);
    assert_eq!(outcome.dropped(Reason::Handover), 3);
    assert_eq!(
        outcome.of(9),
        3_000_000 + SLOT_NS + DECODE_NS,
        "what comes in the gap waits"
    );
}

#[test]
fn rlc_retransmits_after_harq_gives_up() {
    let harq = Harq {
        processes: 8,
        feedback_slots: 2,
        schedule_slots: 2,
        limit: 2,
        combining_gain_db: 0.0,
        slope_per_db: 0.0,
        ack_loss: 0.0,
        nack_loss: 0.0,
    };
    let config = RadioConfig {
        rlc: AM,
        carriers: Carriers {
            primary: Slots {
                harq: Some(harq),
                ..slots()
            },
            fallback: None,
        },
        ..plain()
    };
    // Packet 1 fails in slot 2 for sure, and its repetition in slot 6 as well: its block was made for that channel.
    let outcome = drive(
        &mut radio(config, slot_two_fails()),
        &burst(10, 4),
        50_000_000,
    );
    // Packet 2 revealed the gap at decoded(3), before HARQ gave up at decoded(6).
    assert_eq!(outcome.of(1), decoded(23));
    let attempts: Vec<(u64, u32)> = outcome
        .blocks
        .iter()
        .map(|block| (block.slot.index, block.attempt))
        .collect();
    assert_eq!(attempts, [(1, 1), (2, 1), (3, 1), (4, 1), (6, 2), (23, 1)]);
    let _ = RATE_BPS;
}

#[test]
fn discarding_in_an_outage_of_many_rows_costs_little() {
    // Searched anew for each of 4000 packets, 20 000 rows take many seconds.
    let mut rows: Vec<String> = (0..20_000)
        .map(|row| format!("0.{row:06},0,1,outage"))
        .collect();
    rows.push("0.02,96000000,0,los".into());
    let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
    let config = RadioConfig {
        discard_ns: Some(1_000_000),
        ..plain()
    };
    let arrivals: Vec<Run> = (0..4000)
        .map(|packet| segment(u64::from(packet) * 4000, packet))
        .collect();
    let begin_ns = processor_ns();
    let outcome = drive(&mut radio(config, air("1", &rows)), &arrivals, 30_000_000);
    assert_eq!(outcome.dropped(Reason::Discard), 4000);
    let took_s = (processor_ns() - begin_ns) as f64 / 1e9;
    assert!(took_s < 1.0, "{took_s} s of the processor");
}

/// Time that this thread had a processor: what other programs take does not count.
fn processor_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells");
    let first = text.split_whitespace().next().expect("three numbers");
    first.parse().expect("nanoseconds")
}
