//! Patterns that are played by a clock of their own, and handovers on command.

use std::sync::Arc;

use crate::radio_support::{
    Outcome, RATE_BPS, SLOT_NS, air, drive, harq, pattern, plain, radio, run, segment,
};
use wavebed_link::bottleneck::{Bottleneck, BottleneckConfig};
use wavebed_link::delay::Delay;
use wavebed_link::loss::Loss;
use wavebed_link::pattern::{Clock, Cursor, End, Pattern, Playback, State};
use wavebed_link::queue::Infinite;
use wavebed_link::radio::{Air, Handover, Harq, Radio, RadioConfig};
use wavebed_link::rate::{Fluid, Profile};
use wavebed_link::{Change, RandomStream, Reason, Stage, Unit};

const MS: u64 = 1_000_000;

fn play(pattern: &Arc<Pattern>, end: End, clock: Clock) -> Change {
    Change::Play(Playback {
        pattern: Arc::clone(pattern),
        end,
        clock,
    })
}

/// A radio with half of its blocks failing and HARQ.
fn noisy() -> (Radio, Arc<Pattern>) {
    let rows = ["0,768000000,0.5,los", "0.3,400000000,0.3,nlos"];
    let mut config = plain();
    config.carriers.primary.harq = Some(harq());
    (
        radio(config, air("1", &rows)),
        pattern("1", "rate_bps,bler,state", &rows),
    )
}

/// Packets and times of what was delivered and lost, and times and failures of blocks.
type Course = (Vec<(u32, u64)>, Vec<(u32, u64)>, Vec<(u64, bool)>);

/// Two hundred segments, one each 700 µs, from `at_ns` on: when each was delivered since then, what was lost, and the
/// blocks.
fn course(radio: &mut Radio, at_ns: u64) -> Course {
    let sent: Vec<_> = (0..200)
        .map(|packet| segment(at_ns + u64::from(packet) * 700_000, packet))
        .collect();
    let Outcome {
        delivered,
        lost,
        blocks,
        ..
    } = drive(radio, &sent, at_ns + 200 * MS);
    let since = |all: Vec<(u32, u64)>| all.into_iter().map(|(id, at)| (id, at - at_ns)).collect();
    let blocks = blocks.into_iter();
    let blocks = blocks.map(|block| (block.slot.start_ns - at_ns, block.failed));
    (since(delivered), since(lost), blocks.collect())
}

#[test]
fn a_position_that_is_sought_has_the_same_blocks_as_before() {
    let (mut radio, pattern) = noisy();
    let first = course(&mut radio, 200 * MS);
    let failed = first.2.iter().filter(|(_, failed)| *failed).count();
    assert!(failed > 20 && failed < first.2.len() - 20, "{failed}");
    // Another position has others.
    assert_ne!(course(&mut radio, 1_250 * MS).2, first.2);
    for now_ns in [2_000 * MS, 5_000 * MS + 8 * SLOT_NS, 7_000 * MS] {
        drive(&mut radio, &[], now_ns);
        let change = play(&pattern, End::Repeat, Clock::new(200 * MS, now_ns));
        assert!(radio.apply(now_ns, &change));
        assert_eq!(course(&mut radio, now_ns), first);
    }
}

#[test]
fn a_seek_by_whole_radio_frames_has_the_same_blocks_in_a_duplex_frame_too() {
    // Fractions of bytes in each slot, DDDSU, as many processes as NR has.
    let rows = ["0,333333333,0.4,los", "0.25,123456789,0.2,nlos"];
    let mut config = plain();
    config.carriers.primary.own_symbols = vec![14, 14, 14, 10, 0];
    config.carriers.primary.other_symbols = vec![0, 0, 0, 2, 14];
    config.carriers.primary.harq = Some(Harq {
        processes: 16,
        ..harq()
    });
    let mut radio = radio(config, air("1", &rows));
    let pattern = pattern("1", "rate_bps,bler,state", &rows);
    let first = course(&mut radio, 170 * MS);
    assert!(first.2.iter().any(|(_, failed)| *failed));
    for now_ns in [1_990 * MS, 3_010 * MS, 7_000 * MS] {
        drive(&mut radio, &[], now_ns);
        let clock = Clock::new(170 * MS, now_ns);
        assert!(radio.apply(now_ns, &play(&pattern, End::Repeat, clock)));
        assert_eq!(course(&mut radio, now_ns), first, "{now_ns}");
    }
}

#[test]
fn a_seek_counts_from_its_own_time_however_late_it_is_applied() {
    let (mut radio, pattern) = noisy();
    let first = course(&mut radio, 200 * MS);
    drive(&mut radio, &[], 1_999 * MS);
    let change = play(&pattern, End::Repeat, Clock::new(200 * MS, 2_000 * MS));
    // Ordered for 2 s, applied in the nanosecond before and 30 ms after.
    assert!(radio.apply(2_000 * MS - 1, &change));
    assert_eq!(course(&mut radio, 2_000 * MS), first);
    let change = play(&pattern, End::Repeat, Clock::new(170 * MS, 2_970 * MS));
    drive(&mut radio, &[], 3_000 * MS);
    assert!(radio.apply(3_000 * MS, &change));
    assert_eq!(course(&mut radio, 3_000 * MS), first);
}

#[test]
fn a_pattern_stands_still_and_runs_at_any_speed() {
    let text = pattern("1", "delay_s", &["0,0.001", "0.4,0.002", "0.8,0.003"]);
    let change = |permille| {
        play(
            &text,
            End::Repeat,
            Clock::new(300 * MS, 10_000 * MS).at_speed(permille),
        )
    };
    let delay_at = |permille, passed_ms: u64| {
        let mut stage = Delay::constant(9 * MS, false);
        assert!(stage.apply(10_000 * MS, &change(permille)));
        stage.conditions((10_000 + passed_ms) * MS).delay_ns
    };
    for (permille, passed_ms, delay_ms) in [
        (0, 1_000_000, 1),
        (1000, 99, 1),
        (1000, 100, 2),
        (2000, 49, 1),
        (2000, 50, 2),
        (2000, 250, 3),
        (2000, 350, 1),
        (100, 999, 1),
        (100, 1000, 2),
    ] {
        assert_eq!(
            delay_at(permille, passed_ms),
            Some(delay_ms * MS),
            "{permille} {passed_ms}"
        );
    }
}

#[test]
fn every_row_begins_at_its_time_at_any_speed() {
    let rows: Vec<String> = (0..50)
        .map(|row| format!("{},0.00{}", f64::from(row) / 50.0, row % 10))
        .collect();
    let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
    let text = pattern("1", "delay_s", &rows);
    for permille in [333, 1000, 2500] {
        let clock = Clock::new(110 * MS, 7).at_speed(permille);
        let mut cursor = Cursor::of(Playback {
            pattern: Arc::clone(&text),
            end: End::Repeat,
            clock,
        });
        let mut at = 7;
        for _ in 0..200 {
            let row = cursor.seek(at).expect("it repeats");
            assert_eq!(cursor.row_at(at), Some(row));
            let until = cursor.until();
            assert_eq!(cursor.seek(until - 1), Some(row));
            assert_ne!(cursor.row_at(until), Some(row));
            at = until;
        }
    }
}

#[test]
fn a_bottleneck_and_losses_follow_the_clock() {
    let text = pattern("10", "rate_bps,loss", &["0,12000000,0", "5,24000000,1"]);
    let fluid = Box::new(Fluid::new(Profile::constant(1_000)));
    let queue = Infinite::new(Unit::Packet);
    let mut bottleneck = Bottleneck::new(BottleneckConfig::default(), queue, fluid);
    let seek = play(&text, End::Hold, Clock::new(4_999 * MS, 100 * MS));
    assert!(bottleneck.apply(100 * MS, &seek));
    // 1 ms at 12 Mbit/s, then each in half a millisecond.
    let sent: Vec<_> = (0..3).map(|packet| segment(100 * MS, packet)).collect();
    let outcome = run(&mut bottleneck, &sent, 200 * MS);
    let times: Vec<u64> = outcome.delivered.iter().map(|(_, at)| *at).collect();
    assert_eq!(times, [101 * MS, 101 * MS + MS / 2, 102 * MS]);
    let mut losses = Loss::independent(0.0, Unit::Packet, RandomStream::new(1, 1));
    assert!(losses.apply(100 * MS, &seek));
    let outcome = run(
        &mut losses,
        &[segment(100 * MS, 0), segment(102 * MS, 1)],
        0,
    );
    assert_eq!((outcome.delivered.len(), outcome.lost.len()), (1, 1));
    // A pattern over packets has no time.
    let packets = "# wavebed pattern 1\n# kind = packets\n# packets = 2\npacket,loss\n0,1\n";
    let packets = Arc::new(Pattern::parse(packets).expect("it is valid"));
    assert!(!losses.apply(
        200 * MS,
        &play(&packets, End::Hold, Clock::new(0, 200 * MS))
    ));
}

/// A radio that is full of data, and its outcome around a handover of 50 ms at 10 ms.
fn handed_over(config: RadioConfig, air: Air, handling: Option<Handover>) -> Outcome {
    let mut radio = radio(config, air);
    // 800 segments: 100 slots of 125 µs.
    let sent: Vec<_> = (0..800).map(|packet| segment(0, packet)).collect();
    let before = drive(&mut radio, &sent, 10 * MS);
    assert!((600..=640).contains(&before.delivered.len()));
    let for_ns = 50 * MS;
    assert!(radio.apply(10 * MS, &Change::Handover { for_ns, handling }));
    let after = drive(&mut radio, &[segment(30 * MS, 800)], 200 * MS);
    // What was decoded at that moment may still arrive.
    assert!(
        after
            .delivered
            .iter()
            .all(|(_, at)| *at >= 60 * MS || *at <= 10 * MS),
        "{after:?}"
    );
    let mut all = after;
    all.delivered.splice(0..0, before.delivered);
    all
}

#[test]
fn a_handover_on_command_interrupts_the_radio_and_keeps_or_loses_what_waits() {
    let rlc = wavebed_link::radio::Rlc::Acknowledged(wavebed_link::radio::Acknowledged {
        reassembly_ns: 5 * MS,
        poll_ns: 20 * MS,
        status_ns: MS,
        retransmissions: 8,
        reestablish_ns: 100 * MS,
        status_loss: 0.0,
        window: None,
    });
    let forward = RadioConfig { rlc, ..plain() };
    let lose = RadioConfig {
        handover: Handover::Lose,
        ..forward.clone()
    };
    for (config, handling, loses) in [
        (&forward, None, false),
        (&forward, Some(Handover::Lose), true),
        (&lose, None, true),
        (&lose, Some(Handover::Forward), false),
    ] {
        for air in [
            air("1", &["0,768000000,0,los"]),
            Air::constant(RATE_BPS, 0.0),
        ] {
            let outcome = handed_over(config.clone(), air, handling);
            let dropped = outcome.dropped(Reason::Handover);
            assert_eq!(outcome.delivered.len() as u64 + dropped, 801);
            assert_eq!(dropped > 100, loses, "{handling:?}: {dropped}");
            assert!(loses || dropped == 0);
            // What comes during the interruption waits for its end.
            assert!(outcome.of(800) >= 60 * MS && outcome.of(800) < 90 * MS);
        }
    }
}

#[test]
fn a_link_without_a_radio_takes_no_handover() {
    let handover = Change::Handover {
        for_ns: MS,
        handling: None,
    };
    assert!(!Delay::constant(0, false).apply(0, &handover));
    let fluid = Box::new(Fluid::new(Profile::constant(RATE_BPS)));
    let queue = Infinite::new(Unit::Packet);
    assert!(!Bottleneck::new(BottleneckConfig::default(), queue, fluid).apply(0, &handover));
}

#[test]
fn the_next_handover_is_that_of_a_search_row_by_row() {
    let random = RandomStream::new(3, 3);
    let states = ["los", "los", "los", "nlos", "outage", "handover"];
    let rows: Vec<String> = (0..300)
        .map(|row| {
            let state = states[random.word(row) as usize % states.len()];
            format!("0.{row:03},1000000,{state}")
        })
        .collect();
    let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
    let text = pattern("0.3", "rate_bps,state", &rows);
    for (end, permille) in [
        (End::Repeat, 1000),
        (End::Hold, 1000),
        (End::Repeat, 400),
        (End::Hold, 2500),
    ] {
        let mut air = Air::play(
            Playback {
                pattern: Arc::clone(&text),
                end,
                clock: Clock::new(100 * MS, 7 * MS).at_speed(permille),
            },
            None,
        )
        .expect("it has rates");
        for at_ms in (7..900).step_by(13) {
            let from_ns = at_ms * MS;
            let mut was = (from_ns > 7 * MS).then(|| air.at(from_ns - 1).state);
            let mut at_ns = from_ns;
            let wanted = loop {
                let now = air.at(at_ns);
                if now.state == State::Handover && was != Some(State::Handover) {
                    break Some(at_ns);
                }
                if now.until_ns == u64::MAX {
                    break None;
                }
                (was, at_ns) = (Some(now.state), now.until_ns);
            };
            assert_eq!(
                air.next_handover(from_ns),
                wanted,
                "{end:?} {permille} {at_ms}"
            );
        }
    }
}
