//! Uplink grants against slot diagrams, and sleep.

use std::sync::Arc;

use crate::radio_support::{
    DECODE_NS, RATE_BPS, SLOT_NS, burst, decoded, drive, plain, segment, slots,
};
use wavebed_link::queue::Infinite;
use wavebed_link::radio::{
    Air, Carriers, Configured, Connection, Direction, Drx, Grants, Radio, RadioConfig, Rrc, Slots,
};
use wavebed_link::{RandomStream, Run, Unit};

const GRANTS: Grants = Grants {
    request_slots: 4,
    schedule_slots: 2,
    prepare_slots: 2,
    first_bytes: 2000,
    configured: None,
    losses: None,
};

const STEADY: Air = Air::constant(RATE_BPS, 0.0);

fn uplink(grants: Grants) -> RadioConfig {
    RadioConfig {
        direction: Direction::Up,
        grants: Some(grants),
        ..plain()
    }
}

fn radio(config: RadioConfig, connection: Option<Arc<Connection>>) -> Radio {
    let queue = Box::new(Infinite::new(Unit::Packet));
    let mut radio = Radio::new(config, STEADY, queue, connection, RandomStream::new(1, 0));
    radio.log_blocks();
    radio
}

fn used(outcome: &crate::radio_support::Outcome) -> Vec<(u64, u64)> {
    outcome
        .blocks
        .iter()
        .map(|block| (block.slot.index, block.bytes))
        .collect()
}

#[test]
fn a_packet_waits_for_request_grant_and_preparation() {
    // Slot  0 1 2 3 4 5 6 7 8
    //       a       R   g   D     a: arrival, R: request, g: grant, D: data
    let outcome = drive(
        &mut radio(uplink(GRANTS), None),
        &[segment(10, 0)],
        10_000_000,
    );
    assert_eq!(used(&outcome), [(8, 1500)]);
    assert_eq!(outcome.delivered, [(0, decoded(8))]);
}

#[test]
fn the_first_grant_is_small_and_brings_a_report_that_brings_the_rest() {
    // The request in slot 4 is granted 2000 bytes in slot 8; the report in slot 8 brings grants from slot 12 on.
    let outcome = drive(&mut radio(uplink(GRANTS), None), &burst(10, 20), 10_000_000);
    assert_eq!(
        used(&outcome),
        [(8, 2000), (12, 12_000), (13, 12_000), (14, 4000)]
    );
}

#[test]
fn data_that_comes_while_granted_slots_run_is_reported_in_them() {
    let mut arrivals = burst(10, 20);
    // It comes in slot 12, and is reported in slot 13: grants come four slots later.
    arrivals.push(segment(12 * SLOT_NS + 10, 20));
    let outcome = drive(&mut radio(uplink(GRANTS), None), &arrivals, 10_000_000);
    assert_eq!(
        used(&outcome),
        [
            (8, 2000),
            (12, 12_000),
            (13, 12_000),
            (14, 4000),
            (17, 1500)
        ]
    );
}

#[test]
fn the_unused_rest_of_a_grant_is_padding() {
    // The answer to the request has room for 2000 bytes; the next packet asks again.
    let arrivals = [segment(10, 0), segment(9 * SLOT_NS + 10, 1)];
    let outcome = drive(&mut radio(uplink(GRANTS), None), &arrivals, 10_000_000);
    assert_eq!(used(&outcome), [(8, 1500), (16, 1500)]);
}

#[test]
fn preparation_does_not_delay_the_request() {
    let config = RadioConfig {
        carriers: Carriers {
            primary: Slots {
                prepare_ns: 4 * SLOT_NS,
                ..slots()
            },
            fallback: None,
        },
        ..uplink(GRANTS)
    };
    let outcome = drive(&mut radio(config, None), &[segment(10, 0)], 10_000_000);
    assert_eq!(used(&outcome), [(8, 1500)]);
}

#[test]
fn in_a_duplex_frame_requests_grants_and_data_wait_for_their_slots() {
    // Slot   0 1 2 3 4 5 6 7 8 9 10 11 12 13 14
    //        D D D S U D D D S U D  D  D  S  U
    //        a       R   g             without the 2 uplink symbols of S: request in 4, grant in 6, data in 9
    let frame = Slots {
        own_symbols: vec![0, 0, 0, 0, 14],
        other_symbols: vec![14, 14, 14, 10, 0],
        ..slots()
    };
    let config = RadioConfig {
        carriers: Carriers {
            primary: frame,
            fallback: None,
        },
        ..uplink(GRANTS)
    };
    let outcome = drive(&mut radio(config, None), &[segment(10, 0)], 10_000_000);
    assert_eq!(used(&outcome), [(9, 1500)]);
}

#[test]
fn at_120_khz_a_packet_waits_for_the_request_of_its_frame_or_of_the_next_but_one() {
    // Slot   0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18
    //        D D D S U D D D S U  D  D  D  S  U  D  D  D  S
    //            a R   g     D                                 a: just after slot 2 begins
    //              b                      R     g        D     b: just when slot 3 begins
    let frame = Slots {
        own_symbols: vec![0, 0, 0, 2, 14],
        other_symbols: vec![14, 14, 14, 10, 0],
        prepare_ns: 2 * SLOT_NS,
        decode_ns: 100_000,
        ..slots()
    };
    let config = RadioConfig {
        carriers: Carriers {
            primary: frame,
            fallback: None,
        },
        ..uplink(Grants {
            request_slots: 10,
            prepare_slots: 3,
            first_bytes: 512,
            ..GRANTS
        })
    };
    for (at_ns, slot) in [(2 * SLOT_NS + 1, 8), (3 * SLOT_NS, 18)] {
        let arrivals = [crate::radio_support::sized(at_ns, 0, 94)];
        let outcome = drive(&mut radio(config.clone(), None), &arrivals, 10_000_000);
        assert_eq!(used(&outcome), [(slot, 94)]);
        assert_eq!(outcome.delivered, [(0, (slot + 1) * SLOT_NS + 100_000)]);
    }
}

#[test]
fn a_configured_grant_needs_no_request() {
    let grants = Grants {
        configured: Some(Configured {
            slots: 5,
            bytes: 1000,
        }),
        ..GRANTS
    };
    let outcome = drive(
        &mut radio(uplink(grants), None),
        &[segment(10, 0)],
        10_000_000,
    );
    // Slot 5 carries 1000 bytes; the request of slot 4 was answered for slot 8 at the latest.
    assert_eq!(used(&outcome), [(5, 1000), (8, 500)]);
}

#[test]
fn without_grants_the_uplink_is_as_quick_as_the_downlink() {
    let config = RadioConfig {
        grants: None,
        ..uplink(GRANTS)
    };
    let outcome = drive(&mut radio(config, None), &[segment(10, 0)], 10_000_000);
    assert_eq!(outcome.delivered, [(0, decoded(1))]);
}

#[test]
fn reports_of_what_has_been_sent_do_not_keep_a_request_back() {
    // The reports of slots 12 and 13 listed the data of slots 13 and 14: they yield no grant, and a packet that comes
    // in slot 15 has its request in slot 16, and its data in slot 20.
    let mut arrivals = burst(10, 20);
    arrivals.push(segment(15 * SLOT_NS + 10, 20));
    let outcome = drive(&mut radio(uplink(GRANTS), None), &arrivals, 10_000_000);
    assert_eq!(
        used(&outcome),
        [
            (8, 2000),
            (12, 12_000),
            (13, 12_000),
            (14, 4000),
            (20, 1500)
        ]
    );
}

#[test]
fn data_must_be_prepared_for_a_slot_that_is_granted_in_advance() {
    let mut config = uplink(Grants {
        configured: Some(Configured {
            slots: 5,
            bytes: 2000,
        }),
        ..GRANTS
    });
    config.carriers.primary.prepare_ns = 2 * SLOT_NS;
    // Slot 5 begins less than two slots later; the request of slot 4 is answered for slot 8.
    let arrivals = [segment(3 * SLOT_NS + 10, 0)];
    let outcome = drive(&mut radio(config, None), &arrivals, 10_000_000);
    assert_eq!(used(&outcome), [(8, 1500)]);
}

#[test]
fn a_request_takes_the_slot_that_its_period_moved_into() {
    // DDDSU without uplink symbols in S, a request every 10 slots: after slot 10 the first uplink slot is 14. A packet
    // of slot 12 still takes it, is granted in slot 16, and sent in slot 19.
    let config = RadioConfig {
        carriers: Carriers {
            primary: Slots {
                own_symbols: vec![0, 0, 0, 0, 14],
                other_symbols: vec![14, 14, 14, 10, 0],
                ..slots()
            },
            fallback: None,
        },
        ..uplink(Grants {
            request_slots: 10,
            ..GRANTS
        })
    };
    let arrivals = [segment(12 * SLOT_NS + 10, 0)];
    let outcome = drive(&mut radio(config, None), &arrivals, 10_000_000);
    assert_eq!(used(&outcome), [(19, 1500)]);
}

const DRX: Drx = Drx {
    inactivity_ns: 10_000_000,
    short: Some((20_000_000, 3)),
    long_cycle_ns: 160_000_000,
    on_ns: 4_000_000,
};
const RRC: Rrc = Rrc {
    inactivity_ns: 1_000_000_000,
    promotion_ns: 100_000_000,
    paging_ns: 320_000_000,
};

fn sleeper(drx: Option<Drx>, rrc: Option<Rrc>) -> Arc<Connection> {
    Arc::new(Connection::new(drx, rrc))
}

/// Delay of a segment that comes at `at_ns` to a downlink whose last activity was at time 0.
fn delay_ns(connection: Arc<Connection>, direction: Direction, at_ns: u64) -> u64 {
    let config = RadioConfig {
        direction,
        ..plain()
    };
    let outcome = drive(
        &mut radio(config, Some(connection)),
        &[segment(at_ns, 0)],
        1 << 45,
    );
    outcome.of(0) - at_ns
}

#[test]
fn an_active_device_hears_at_once_and_a_sleeping_one_at_its_next_cycle() {
    let awake = delay_ns(sleeper(Some(DRX), None), Direction::Down, 9_000_010);
    assert!(awake <= 2 * SLOT_NS + DECODE_NS, "{awake}");
    // 30 ms are in the short cycles, which begin at 40 ms: the first slot after that begins 125 µs later.
    let short = delay_ns(sleeper(Some(DRX), None), Direction::Down, 30_000_000);
    assert_eq!(short, 10_000_000 + 2 * SLOT_NS + DECODE_NS);
    // 41 ms are within the time in which it listens.
    let on = delay_ns(sleeper(Some(DRX), None), Direction::Down, 41_000_010);
    assert!(on <= 2 * SLOT_NS + DECODE_NS, "{on}");
    // 100 ms are in the long cycles, which begin at 160 ms.
    let long = delay_ns(sleeper(Some(DRX), None), Direction::Down, 100_000_000);
    assert_eq!(long, 60_000_000 + 2 * SLOT_NS + DECODE_NS);
}

#[test]
fn a_short_cycle_that_would_begin_after_the_last_one_is_none() {
    // Asleep from 10 ms, with three short cycles until 70 ms: after 65 ms the cycle at 80 ms is a long one's, which
    // begin at 160 ms.
    let delay = delay_ns(sleeper(Some(DRX), None), Direction::Down, 65_000_000);
    assert_eq!(delay, 95_000_000 + 2 * SLOT_NS + DECODE_NS);
}

#[test]
fn a_sleeping_device_may_send_at_once() {
    let delay = delay_ns(sleeper(Some(DRX), None), Direction::Up, 100_000_010);
    assert!(delay <= 2 * SLOT_NS + DECODE_NS, "{delay}");
}

#[test]
fn a_released_device_is_paged_and_promoted() {
    // The paging occasion after 1.5 s is at 1.6 s.
    let down = delay_ns(
        sleeper(Some(DRX), Some(RRC)),
        Direction::Down,
        1_500_000_000,
    );
    assert_eq!(down, 100_000_000 + 100_000_000 + 2 * SLOT_NS + DECODE_NS);
    let up = delay_ns(sleeper(Some(DRX), Some(RRC)), Direction::Up, 1_500_000_000);
    assert_eq!(up, 100_000_000 + 2 * SLOT_NS + DECODE_NS);
}

#[test]
fn the_uplink_wakes_the_downlink_too() {
    let connection = sleeper(Some(DRX), Some(RRC));
    let up = RadioConfig {
        direction: Direction::Up,
        ..plain()
    };
    let first = 5_000_000_000;
    let asked = drive(
        &mut radio(up, Some(Arc::clone(&connection))),
        &[segment(first, 0)],
        first + 200_000_000,
    );
    let answer: Vec<Run> = vec![segment(asked.of(0) + 10, 1)];
    let answered = drive(
        &mut radio(plain(), Some(connection)),
        &answer,
        first + 300_000_000,
    );
    let delay = answered.of(1) - asked.of(0);
    assert!(delay <= 2 * SLOT_NS + DECODE_NS + 10, "{delay}");
}

#[test]
fn packets_that_come_while_it_wakes_wait_for_the_same_moment() {
    let connection = sleeper(None, Some(RRC));
    let arrivals = [segment(1_500_000_000, 0), segment(1_550_000_000, 1)];
    let outcome = drive(&mut radio(plain(), Some(connection)), &arrivals, 1 << 45);
    assert_eq!(outcome.of(0), outcome.of(1));
}

#[test]
fn the_uplink_does_not_wait_with_the_downlink_for_a_cycle() {
    // The downlink's packet waits from 100 ms for the long cycle at 160 ms; a request may be sent at any time.
    let connection = sleeper(Some(DRX), None);
    let mut down = radio(plain(), Some(Arc::clone(&connection)));
    drive(&mut down, &[segment(100_000_000, 0)], 101_000_000);
    let delay = delay_ns(Arc::clone(&connection), Direction::Up, 110_000_010);
    assert!(delay <= 2 * SLOT_NS + DECODE_NS, "{delay}");
    let outcome = drive(&mut down, &[], 1_000_000_000);
    assert!(outcome.of(0) > 160_000_000);
}
