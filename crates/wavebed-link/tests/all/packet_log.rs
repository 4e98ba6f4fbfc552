//! The packet log of a link against what the link did.

use std::collections::{BTreeMap, BTreeSet};

use crate::link_support::random::{events, link, radios, split_radios, stages};
use crate::link_support::{Event, Outcome, drive, each, segment, super_packet};
use crate::radio_support::{SLOT_BYTES, SLOT_NS, air, decoded, harq, plain, radio, slots};
use proptest::prelude::*;
use wavebed_link::counters::{Entry, Event as Logged};
use wavebed_link::radio::{
    Acknowledged, BlockRecord, Carriers, Direction, Grants, Load, RadioConfig, Rlc, Slots,
};
use wavebed_link::{Link, Reason, Run, RunFlags, Stage};

const END_NS: u64 = 2_000_000;
const STEADY: &str = "0,768000000,0,los";

fn logged(link: &mut Link) -> (Vec<Entry>, Vec<BlockRecord>) {
    let log = link.packet_log().expect("it was asked for");
    let entries = log.take_entries().collect();
    (entries, log.take_blocks().collect())
}

/// Packet, segment and time of the segments of one kind of event.
fn of(entries: &[Entry], kind: impl Fn(Logged) -> bool) -> Vec<(u32, u16, u64)> {
    let runs = entries.iter().filter(|entry| kind(entry.event));
    let mut found = each(&runs.map(|entry| entry.run).collect::<Vec<Run>>());
    found.sort_unstable();
    found
}

fn sorted(runs: &[Run]) -> Vec<(u32, u16, u64)> {
    let mut found = each(runs);
    found.sort_unstable();
    found
}

fn with_log(stages: &[String], events: &[Event], seed: u64) -> (Outcome, Link) {
    let mut link = link(stages, seed);
    link.log_packets();
    let outcome = drive(&mut link, events, END_NS, false);
    (outcome, link)
}

/// Whether the stage, as the laboratory file writes it, is of this kind.
fn is(stage: &str, kind: &str) -> bool {
    let stage: serde_json::Value = serde_json::from_str(stage).expect("it is JSON");
    stage["stage"] == kind
}

/// The log without the copies.
fn logged_originals(link: &mut Link) -> (Vec<Entry>, Vec<BlockRecord>) {
    let (mut entries, blocks) = logged(link);
    entries.retain(|entry| !entry.run.flags.has(RunFlags::COPY));
    (entries, blocks)
}

const fn is_dropped(event: Logged) -> bool {
    matches!(event, Logged::Dropped(_))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_log_has_the_fate_of_every_segment_and_changes_none(
        stages in prop_oneof![stages(), radios().prop_map(|radio| vec![radio]), split_radios().prop_map(|radio| vec![radio])],
        events in events(),
        seed in any::<u64>(),
    ) {
        let without = drive(&mut link(&stages, seed), &events, END_NS, false);
        let (outcome, mut link) = with_log(&stages, &events, seed);
        prop_assert_eq!(&without, &outcome);
        let total = *link.counters().total();
        let (entries, blocks) = logged(&mut link);
        prop_assert_eq!(of(&entries, |event| event == Logged::Delivered), sorted(&outcome.delivered));
        prop_assert_eq!(of(&entries, is_dropped), sorted(&outcome.lost));
        let entered = of(&entries, |event| event == Logged::Entered);
        prop_assert_eq!(entered.len() as u64, total.offered.segments + total.duplicated.segments);
        for reason in Reason::ALL {
            let dropped = of(&entries, |event| event == Logged::Dropped(reason));
            prop_assert_eq!(dropped.len() as u64, total.dropped[reason as usize].segments);
        }
        // Everything that is named has entered: the legs of a split bearer number its packets again.
        let known: BTreeSet<(u32, u16)> = entered.iter().map(|&(packet, index, _)| (packet, index)).collect();
        for (packet, index, _) in of(&entries, |_| true) {
            prop_assert!(known.contains(&(packet, index)), "{} {}", packet, index);
        }
        // The frames of 802.11ad are counted as blocks, but are not recorded.
        if stages.iter().any(|stage| stage.contains("wifi")) {
            return Ok(());
        }
        prop_assert_eq!(blocks.len() as u64, total.blocks_sent);
        prop_assert_eq!(blocks.iter().filter(|block| block.failed).count() as u64, total.blocks_failed);
    }

    #[test]
    fn a_delivered_segment_has_its_times_at_every_stage_that_takes_time_in_order(
        stages in prop_oneof![stages(), radios().prop_map(|radio| vec![radio]), split_radios().prop_map(|radio| vec![radio])],
        events in events(),
        seed in any::<u64>(),
    ) {
        // The log has the times of one radio, and links have no second one.
        prop_assume!(stages.iter().filter(|stage| is(stage, "radio")).count() < 2);
        let takes_time = |stage: &&String| !["loss", "duplicate", "corrupt"].iter().any(|kind| is(stage, kind));
        let timed: Vec<(usize, &String)> = stages.iter().enumerate().filter(|(_, stage)| takes_time(stage)).collect();
        let place = |kinds: &[&str]| timed.iter().find(|(_, stage)| kinds.iter().any(|kind| is(stage, kind)));
        let radio = place(&["radio"]).copied();
        let logged = radio.or_else(|| place(&["bottleneck", "wifi"]).copied()).map(|(number, _)| number);
        let last = timed.last().map(|&(number, _)| number);
        let (outcome, mut link) = with_log(&stages, &events, seed);
        let (entries, _) = logged_originals(&mut link);
        for (packet, index, _) in each(&outcome.delivered) {
            let times = times(&entries, packet, index);
            let first = |event: Logged| times.iter().filter(|(kind, _)| *kind == event).map(|&(_, at)| at).min();
            // A copy may be delivered before the original, or in its place.
            let Some(delivered_ns) = first(Logged::Delivered) else {
                continue;
            };
            let mut at_ns = first(Logged::Entered).expect("it entered");
            for &(number, _) in &timed {
                let mut marks = Vec::new();
                if Some(number) == logged {
                    marks.push(first(Logged::Dequeued));
                    if radio.is_some() {
                        let sent = times.iter().filter(|(kind, _)| matches!(kind, Logged::Sent(_)));
                        marks.push(sent.map(|&(_, at)| at).min());
                    }
                    marks.push(first(Logged::Left));
                } else if Some(number) != last {
                    marks.push(first(Logged::Passed(number)));
                }
                for mark in marks {
                    prop_assert!(mark.is_some_and(|mark| mark >= at_ns), "{} {}: {:?}", packet, index, &times);
                    at_ns = mark.unwrap_or(at_ns);
                }
            }
            prop_assert!(at_ns <= delivered_ns, "{} {}: {:?}", packet, index, &times);
        }
    }

    #[test]
    fn the_air_time_of_a_radio_is_that_of_the_slots_of_its_blocks(
        stage in prop_oneof![radios(), split_radios()],
        events in events(),
        seed in any::<u64>(),
    ) {
        let keys: serde_json::Value = serde_json::from_str(&stage).expect("it is JSON");
        let split = !keys["split"].is_null();
        let is_fallback = |block: &BlockRecord| if split { block.number % 2 == 1 } else { block.slot.fallback };
        let slot_ns = |block: &BlockRecord| {
            let slots = if is_fallback(block) { &keys["fallback"] } else { &keys["slots"] };
            slots["slot_ns"].as_u64().expect("it has slots")
        };
        let (_, mut link) = with_log(&[stage], &events, seed);
        let (_, blocks) = logged(&mut link);
        let total = *link.counters().total();
        prop_assert_eq!(total.air_ns, blocks.iter().map(slot_ns).sum::<u64>());
        // A slot of a carrier has one block.
        let slots: BTreeSet<(bool, u32, u64)> = blocks
            .iter()
            .map(|block| (is_fallback(block), block.slot.carrier, block.slot.index))
            .collect();
        prop_assert_eq!(slots.len(), blocks.len());
        for block in &blocks {
            prop_assert_eq!(block.turn_of, None, "other users are no devices");
            // Another carrier may have the slot that begins at the same time.
            let (first_ns, last_ns) = (block.turn_ns, block.turn_last_ns);
            prop_assert!(first_ns <= last_ns && last_ns <= block.slot.start_ns, "{:?}", block);
            prop_assert!(first_ns == 0 || (block.attempt == 1 && !keys["load"].is_null()), "{:?}", block);
        }
    }

    #[test]
    fn every_segment_that_a_radio_delivers_was_in_a_block_that_was_decoded(
        stage in prop_oneof![radios(), split_radios()],
        events in events(),
        seed in any::<u64>(),
    ) {
        let (outcome, mut link) = with_log(&[stage], &events, seed);
        let (entries, blocks) = logged(&mut link);
        let good: BTreeMap<u64, u64> = blocks
            .iter()
            .rev()
            .filter(|block| !block.failed)
            .map(|block| (block.number, block.decoded_ns))
            .collect();
        let mut arrived: BTreeMap<(u32, u16), u64> = BTreeMap::new();
        for entry in &entries {
            if let Logged::Sent(number) = entry.event
                && let Some(&decoded_ns) = good.get(&number)
            {
                for (packet, index, _) in each(&[entry.run]) {
                    let first = arrived.entry((packet, index)).or_insert(decoded_ns);
                    *first = (*first).min(decoded_ns);
                }
            }
        }
        for (packet, index, at_ns) in each(&outcome.delivered) {
            let decoded_ns = arrived.get(&(packet, index));
            prop_assert!(decoded_ns.is_some_and(|&decoded_ns| decoded_ns <= at_ns), "{} {}", packet, index);
        }
    }
}

fn logging(stage: impl Stage + 'static) -> Link {
    let mut link = Link::new(vec![Box::new(stage)], false);
    link.log_packets();
    link
}

fn times(entries: &[Entry], packet: u32, index: u16) -> Vec<(Logged, u64)> {
    let covers = |run: &Run| run.packet == packet && (run.first..run.end()).contains(&index);
    let of = entries.iter().filter(|entry| covers(&entry.run));
    of.map(|entry| (entry.event, entry.run.at_ns)).collect()
}

#[test]
fn a_segment_in_two_blocks_is_sent_twice_and_delivered_with_the_second() {
    let mut link = logging(radio(plain(), air("1", &[STEADY])));
    // 8 segments of 1500 bytes fill a slot; of 1600 bytes, 7 and a half.
    let arrivals = [Event::Arrival(super_packet(10, 5, 10, 1600, 1600))];
    drive(&mut link, &arrivals, END_NS, false);
    let (entries, blocks) = logged(&mut link);
    assert_eq!(
        blocks.iter().map(|block| block.bytes).collect::<Vec<_>>(),
        [SLOT_BYTES, 4000]
    );
    let expected = [
        (Logged::Entered, 10),
        (Logged::Left, decoded(2)),
        (Logged::Delivered, decoded(2)),
        (Logged::Dequeued, SLOT_NS),
        (Logged::Sent(0), SLOT_NS),
        (Logged::Dequeued, 2 * SLOT_NS),
        (Logged::Sent(1), 2 * SLOT_NS),
    ];
    assert_eq!(times(&entries, 5, 7), expected);
    let first: u64 = blocks[0]
        .contents
        .iter()
        .map(|run| u64::from(run.count))
        .sum();
    assert_eq!(first, 8, "seven and a piece");
}

#[test]
fn repetitions_are_records_of_the_same_block_without_its_contents() {
    let config = RadioConfig {
        carriers: Carriers {
            primary: Slots {
                harq: Some(harq()),
                ..slots()
            },
            fallback: None,
        },
        rlc: Rlc::Acknowledged(Acknowledged {
            reassembly_ns: 2_000_000,
            poll_ns: 5_000_000,
            status_ns: 300_000,
            retransmissions: 4,
            reestablish_ns: 20_000_000,
            status_loss: 0.0,
            window: None,
        }),
        ..plain()
    };
    // Everything fails up to 1 ms: three transmissions of block 0, then RLC sends its segment again in block 1.
    let mut link = logging(radio(
        config,
        air("100", &["0,768000000,1,los", "0.003,768000000,0,los"]),
    ));
    drive(
        &mut link,
        &[Event::Arrival(segment(10, 3, 1500))],
        50_000_000,
        false,
    );
    let (entries, blocks) = logged(&mut link);
    let rounds: Vec<(u64, u32, bool, usize)> = blocks
        .iter()
        .map(|block| {
            (
                block.number,
                block.attempt,
                block.failed,
                block.contents.len(),
            )
        })
        .collect();
    assert_eq!(
        rounds[..3],
        [(0, 1, true, 1), (0, 2, true, 0), (0, 3, true, 0)]
    );
    assert_eq!(rounds[3..], [(1, 1, false, 1)]);
    let sent = of(&entries, |event| matches!(event, Logged::Sent(_)));
    assert_eq!(
        sent,
        [
            (3, 0, blocks[0].slot.start_ns),
            (3, 0, blocks[3].slot.start_ns)
        ]
    );
}

#[test]
fn a_block_has_the_end_of_sleep_and_the_slot_of_the_grant_that_its_data_waited_for() {
    // Slot 4 carries the request, slot 8 the data (`radio_uplink` has the diagram).
    let grants = Grants {
        request_slots: 4,
        schedule_slots: 2,
        prepare_slots: 2,
        first_bytes: 2000,
        configured: None,
        losses: None,
    };
    let config = RadioConfig {
        direction: Direction::Up,
        grants: Some(grants),
        ..plain()
    };
    let mut link = logging(radio(config, air("1", &[STEADY])));
    let late = 20 * SLOT_NS + 10;
    let arrivals = [segment(10, 1, 1500), segment(late, 2, 1500)].map(Event::Arrival);
    drive(&mut link, &arrivals, 10_000_000, false);
    let (_, blocks) = logged(&mut link);
    let waits: Vec<(u64, u64, u64)> = blocks
        .iter()
        .map(|block| (block.awake_ns, block.granted_ns, block.slot.start_ns))
        .collect();
    assert_eq!(
        waits,
        [
            (10, 8 * SLOT_NS, 8 * SLOT_NS),
            (late, 28 * SLOT_NS, 28 * SLOT_NS)
        ]
    );
}

#[test]
fn a_block_has_the_slots_that_other_users_got_before_it() {
    let load = Load {
        mean: 0.8,
        burst_ns: 2_000_000,
    };
    let config = RadioConfig {
        load: Some(load),
        ..plain()
    };
    let mut link = logging(radio(config, air("1", &[STEADY])));
    let arrivals: Vec<Event> = (0..400)
        .map(|packet| Event::Arrival(super_packet(10, packet, 8, 1500, 1500)))
        .collect();
    drive(&mut link, &arrivals, 1_000_000_000, false);
    let (_, blocks) = logged(&mut link);
    // Each slot that is not used between two blocks went to others, as data waits all the time.
    let mut next = 1;
    let mut waited = 0;
    for block in &blocks {
        let missed = next..block.slot.index;
        let expected = if missed.is_empty() {
            (0, 0)
        } else {
            waited += 1;
            (missed.start * SLOT_NS, (missed.end - 1) * SLOT_NS)
        };
        assert_eq!((block.turn_ns, block.turn_last_ns), expected);
        next = block.slot.index + 1;
    }
    assert_eq!(blocks.len(), 400);
    assert!(waited > 20, "{waited}");
}

#[test]
fn a_copy_enters_where_it_is_made() {
    let (_, mut link) = with_log(
        &[r#"{"stage": "duplicate", "probability": 1.0}"#.into()],
        &[Event::Arrival(segment(10, 3, 100))],
        1,
    );
    let (entries, _) = logged(&mut link);
    let entered: Vec<bool> = entries
        .iter()
        .filter(|entry| entry.event == Logged::Entered)
        .map(|entry| entry.run.flags.has(RunFlags::COPY))
        .collect();
    assert_eq!(entered, [false, true]);
}

#[test]
fn without_a_log_nothing_is_recorded() {
    let mut link = Link::new(vec![Box::new(radio(plain(), air("1", &[STEADY])))], false);
    drive(
        &mut link,
        &[Event::Arrival(segment(10, 3, 100))],
        END_NS,
        false,
    );
    assert!(link.packet_log().is_none());
}
