//! Lost signalling: acknowledgements, scheduling requests, buffer reports and status reports; and the window of RLC.

use crate::radio_support::{
    Outcome, RATE_BPS, SLOT_NS, burst, decoded, drive, harq, plain, radio, segment, slots,
};
use wavebed_link::Reason;
use wavebed_link::radio::{
    Acknowledged, Air, Carriers, Direction, GrantLosses, Grants, Harq, RadioConfig, Rlc, Slots,
};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

fn with_harq(harq: Harq) -> RadioConfig {
    RadioConfig {
        carriers: Carriers {
            primary: Slots {
                harq: Some(harq),
                ..slots()
            },
            fallback: None,
        },
        ..plain()
    }
}

fn am(timers: Acknowledged) -> RadioConfig {
    RadioConfig {
        rlc: Rlc::Acknowledged(timers),
        ..plain()
    }
}

const TIMERS: Acknowledged = Acknowledged {
    reassembly_ns: 2 * MS,
    poll_ns: 5 * MS,
    status_ns: 300_000,
    retransmissions: 200,
    reestablish_ns: 20 * MS,
    status_loss: 0.0,
    window: None,
};

#[test]
fn a_lost_acknowledgement_repeats_a_block_that_is_delivered_once() {
    let config = with_harq(Harq {
        ack_loss: 1.0,
        ..harq()
    });
    let outcome = drive(
        &mut radio(config, Air::constant(RATE_BPS, 0.0)),
        &[segment(10, 0)],
        SECOND,
    );
    assert_eq!(outcome.delivered, [(0, decoded(1))]);
    // Three transmissions are the limit; each is four slots after the one before.
    let sent: Vec<(u64, u32)> = outcome
        .blocks
        .iter()
        .map(|block| (block.slot.index, block.attempt))
        .collect();
    assert_eq!(sent, [(1, 1), (5, 2), (9, 3)]);
    assert!(outcome.lost.is_empty());
}

#[test]
fn one_acknowledgement_in_ten_lost_costs_one_slot_in_ten() {
    let config = with_harq(Harq {
        ack_loss: 0.1,
        ..harq()
    });
    let air = Air::constant(RATE_BPS, 0.0);
    let outcome = drive(&mut radio(config, air), &burst(10, 80_000), 100 * SECOND);
    let again = outcome.blocks.iter().filter(|block| block.attempt > 1);
    let (again, all) = (again.count() as f64, outcome.blocks.len() as f64);
    assert_eq!(outcome.delivered.len(), 80_000);
    // 0.1 + 0.01 of 10 000 blocks are sent again: 1100, standard deviation 33.
    assert!((again - 1100.0).abs() < 165.0, "{again} of {all}");
}

#[test]
fn a_misheard_negative_acknowledgement_leaves_the_block_to_rlc() {
    let config = with_harq(Harq {
        nack_loss: 1.0,
        ..harq()
    });
    let air = Air::constant(RATE_BPS, 1.0);
    let outcome = drive(&mut radio(config, air), &[segment(10, 0)], SECOND);
    assert_eq!(outcome.blocks.len(), 1, "HARQ does not send it again");
    assert_eq!(outcome.dropped(Reason::Block), 1);
}

const GRANTS: Grants = Grants {
    request_slots: 4,
    schedule_slots: 2,
    prepare_slots: 2,
    first_bytes: 2000,
    configured: None,
    losses: None,
};

const LOSSES: GrantLosses = GrantLosses {
    request: 0.0,
    report: 0.0,
    prohibit_ns: 0,
    most_requests: 64,
    access_ns: 20 * MS,
    retry_ns: 80 * MS,
};

fn uplink(losses: GrantLosses) -> RadioConfig {
    RadioConfig {
        direction: Direction::Up,
        grants: Some(Grants {
            losses: Some(losses),
            ..GRANTS
        }),
        ..plain()
    }
}

fn sent(config: RadioConfig, count: u32) -> Outcome {
    let air = Air::constant(RATE_BPS, 0.0);
    drive(&mut radio(config, air), &burst(10, count), SECOND)
}

#[test]
fn requests_that_are_all_lost_end_in_random_access() {
    let losses = GrantLosses {
        request: 1.0,
        prohibit_ns: 6 * SLOT_NS,
        most_requests: 3,
        ..LOSSES
    };
    let outcome = sent(uplink(losses), 1);
    // Requests in slots 4, 12 and 20: the timer of six slots ends between two opportunities. Then 20 ms, 160 slots.
    assert_eq!(outcome.blocks[0].slot.index, 20 + 160);
    assert_eq!(outcome.delivered, [(0, decoded(180))]);
}

#[test]
fn lost_requests_come_back_at_the_next_opportunity() {
    let losses = GrantLosses {
        request: 0.5,
        ..LOSSES
    };
    let mut waits = Vec::new();
    for start in 0..400u64 {
        let air = Air::constant(RATE_BPS, 0.0);
        // One request each: at slots that differ, since a request's loss depends on its slot.
        let at_ns = 10 + start * 4 * SLOT_NS;
        let arrivals = [segment(at_ns, 0)];
        let outcome = drive(&mut radio(uplink(losses), air), &arrivals, 2 * SECOND);
        let slot = outcome.blocks[0].slot.index - start * 4;
        assert!(slot >= 8 && (slot - 8).is_multiple_of(4), "{slot}");
        waits.push((slot - 8) / 4);
    }
    // The number of losses before a success is geometric: mean 1, standard deviation of the mean 0.07.
    let mean = waits.iter().sum::<u64>() as f64 / waits.len() as f64;
    assert!((mean - 1.0).abs() < 0.4, "{mean}");
}

#[test]
fn a_lost_report_is_retried_by_a_request() {
    let losses = GrantLosses {
        report: 1.0,
        ..LOSSES
    };
    // The first grant takes 2000 bytes of the ten packets in slot 8, and its report is lost. 80 ms, 640 slots, later a
    // request is due, in slot 648, and its grant four slots later.
    let outcome = sent(uplink(losses), 10);
    let slots: Vec<u64> = outcome
        .blocks
        .iter()
        .map(|block| block.slot.index)
        .collect();
    assert_eq!(slots[..3], [8, 652, 1296]);
    let all = sent(uplink(LOSSES), 10);
    let slots: Vec<u64> = all.blocks.iter().map(|block| block.slot.index).collect();
    assert_eq!(slots, [8, 12, 13]);
}

#[test]
fn a_lost_status_report_costs_a_poll() {
    let waits = |status_loss: f64| {
        let air = Air::constant(RATE_BPS, 0.0);
        let timers = Acknowledged {
            status_loss,
            ..TIMERS
        };
        let mut config = am(timers);
        config.reordering = None;
        let mut failing = radio(config, air.with_fixed_bler(0.5));
        let arrivals: Vec<_> = (0..400u32)
            .map(|packet| segment(u64::from(packet) * 100 * MS + 10, packet))
            .collect();
        let outcome = drive(&mut failing, &arrivals, 100 * SECOND);
        assert_eq!(outcome.delivered.len(), 400);
        let waits = outcome.delivered.iter();
        waits
            .map(|&(packet, at_ns)| at_ns - u64::from(packet) * 100 * MS - 10)
            .collect::<Vec<u64>>()
    };
    let mean = |waits: &[u64]| waits.iter().sum::<u64>() as f64 / waits.len() as f64 / 1e6;
    let (without, with) = (mean(&waits(0.0)), mean(&waits(0.5)));
    // Without: one failure on the average, a poll of 5 ms and a status each. With: one lost status, 5 ms, for each.
    assert!((5.0..7.0).contains(&without), "{without}");
    assert!((9.0..14.0).contains(&with), "{with}");
}

#[test]
fn the_window_of_rlc_stops_new_data_until_the_oldest_is_received() {
    // The first block fails, and is sent again after 2.325 ms: 18 slots of 8 segments would have gone by then.
    let air = crate::radio_support::air("1", &["0,768000000,1,los", "0.0002,768000000,0,los"]);
    let of = |window: Option<u64>| {
        let config = am(Acknowledged { window, ..TIMERS });
        let outcome = drive(&mut radio(config, air.clone()), &burst(10, 400), SECOND);
        assert_eq!(outcome.delivered.len(), 400);
        let before = outcome
            .blocks
            .iter()
            .take_while(|block| block.slot.index < 20);
        before.map(|block| block.bytes).sum::<u64>() / 1500
    };
    assert_eq!(of(Some(32)), 32);
    assert_eq!(of(Some(64)), 64);
    assert!(of(None) > 140);
}
