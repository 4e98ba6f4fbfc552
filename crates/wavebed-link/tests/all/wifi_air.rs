//! The air of a wifi hop: one station sends at a time.

use crate::link_support::{Event, Outcome, segment, super_packet};
use proptest::prelude::*;
use std::sync::Arc;
use wavebed_link::pattern::{End, Pattern};
use wavebed_link::queue::{Codel, CodelSettings, Infinite, Limit, Queue};
use wavebed_link::rate::Profile;
use wavebed_link::wifi::{Bler, WifiSettings};
use wavebed_link::wifi::{SharedAir, Wifi};
use wavebed_link::{Backlog, Change, Link, RandomStream, Run, Unit};

/// Four frames of 1000 bytes are full. At 1.6 Gbit/s they take 20 µs: 10 µs of overhead and 2.5 ns for each byte.
const SMALL: WifiSettings = WifiSettings {
    aggregate_bytes: 4000,
    aggregate_frames: 4,
    overhead_ns: 10_000,
    retries: 2,
    overhead_bytes: 0,
    mtu_bytes: 1000,
};
const RATE_BPS: u64 = 1_600_000_000;
const END_NS: u64 = 100_000_000;
const DOWN: usize = 0;
const UP: usize = 1;

fn infinite() -> Box<dyn Queue> {
    Box::new(Infinite::new(Unit::Packet))
}

fn steady() -> (Profile, Bler) {
    (Profile::constant(RATE_BPS), Bler::Constant(0.0))
}

/// The links of both directions, of one stage each.
fn hop(airs: [(Profile, Bler); 2]) -> [Link; 2] {
    queued(airs, [infinite(), infinite()])
}

fn queued(airs: [(Profile, Bler); 2], queues: [Box<dyn Queue>; 2]) -> [Link; 2] {
    let air = SharedAir::default();
    let mut number = 0;
    let mut queues = queues.into_iter();
    airs.map(|(rate, bler)| {
        number += 1;
        let queue = queues.next().expect("one for each");
        let random = RandomStream::new(7, number);
        let stage = Wifi::sharing(air.clone(), SMALL, queue, rate, bler, random);
        Link::new(vec![Box::new(stage)], true)
    })
}

/// Drives both links through events in order of time. `eager`: each is polled at its own events too.
fn drive(links: &mut [Link; 2], events: &[(usize, Event)], eager: bool) -> [Outcome; 2] {
    let mut outcomes: [Outcome; 2] = Default::default();
    for (side, event) in events {
        if eager {
            poll_events(links, event.at_ns(), &mut outcomes);
        }
        match event {
            Event::Arrival(run) => links[*side].accept(*run),
            Event::Poll(at_ns) => links[*side].poll(*at_ns, &mut outcomes[*side].delivered),
            Event::Change(at_ns, change) => {
                links[*side].poll(*at_ns, &mut outcomes[*side].delivered);
                links[*side].apply(*at_ns, change);
            }
        }
    }
    if eager {
        poll_events(links, END_NS, &mut outcomes);
    }
    for (link, outcome) in links.iter_mut().zip(&mut outcomes) {
        link.poll(END_NS, &mut outcome.delivered);
        outcome.lost.extend(link.take_lost());
    }
    outcomes
}

/// Polls each link at its next event, the earliest first, before `until_ns`.
fn poll_events(links: &mut [Link; 2], until_ns: u64, outcomes: &mut [Outcome; 2]) {
    let next = |links: &[Link; 2]| {
        let each = links.iter().enumerate();
        each.filter_map(|(side, link)| Some((link.next_event_ns()?, side)))
            .min()
            .filter(|&(at_ns, _)| at_ns < until_ns)
    };
    while let Some((at_ns, side)) = next(links) {
        links[side].poll(at_ns, &mut outcomes[side].delivered);
    }
}

fn arrive(side: usize, runs: impl IntoIterator<Item = Run>) -> Vec<(usize, Event)> {
    let event = |run| (side, Event::Arrival(run));
    runs.into_iter().map(event).collect()
}

/// When each run was delivered, and how many segments it has.
fn times(outcome: &Outcome) -> Vec<(u64, u16)> {
    let each = |run: &Run| (run.at_ns, run.count);
    outcome.delivered.iter().map(each).collect()
}

#[test]
fn one_direction_waits_while_the_other_is_on_the_air() {
    let mut links = hop([steady(), steady()]);
    let mut events = arrive(DOWN, [super_packet(0, 0, 4, 1000, 1000)]);
    events.extend(arrive(UP, [segment(5_000, 0, 1000)]));
    let [down, up] = drive(&mut links, &events, false);
    assert_eq!(times(&down), [(20_001, 4)]);
    // 12.5 µs after the end of the other's aggregate.
    assert_eq!(times(&up), [(32_501, 1)]);
}

#[test]
fn alone_a_direction_is_as_quick_as_without_the_other() {
    let arrivals = [super_packet(0, 0, 12, 1000, 1000)];
    let mut links = hop([steady(), steady()]);
    let [down, up] = drive(&mut links, &arrive(DOWN, arrivals), false);
    assert_eq!(times(&down), [(20_001, 4), (40_001, 4), (60_001, 4)]);
    assert_eq!(times(&up), []);
}

#[test]
fn two_that_always_have_data_take_turns() {
    let mut links = hop([steady(), steady()]);
    let mut events = arrive(DOWN, [super_packet(0, 0, 16, 1000, 1000)]);
    events.extend(arrive(UP, [super_packet(0, 0, 8, 1000, 500)]));
    let [down, up] = drive(&mut links, &events, false);
    assert_eq!(
        times(&down),
        [(20_001, 4), (60_001, 4), (98_751, 4), (118_751, 4)]
    );
    // The last frame of the second aggregate is shorter.
    assert_eq!(times(&up), [(40_001, 4), (78_751, 4)]);
}

#[test]
fn the_one_that_waits_longer_goes_first() {
    let mut links = hop([steady(), steady()]);
    let mut events = arrive(UP, [segment(0, 0, 1000)]);
    events.extend(arrive(UP, [segment(1_000, 1, 1000)]));
    events.extend(arrive(DOWN, [segment(2_000, 0, 1000)]));
    // The sender of an aggregate contends anew at its end.
    let [down, up] = drive(&mut links, &events, false);
    assert_eq!(times(&up), [(12_501, 1), (37_501, 1)]);
    assert_eq!(times(&down), [(25_001, 1)]);
}

#[test]
fn one_without_a_rate_leaves_the_air_to_the_other() {
    let text = "# wavebed pattern 1\n# kind = steps\n# duration_s = 0.001\ntime_s,rate_bps\n0,0\n0.000065,1600000000\n";
    let pattern = Arc::new(Pattern::parse(text).expect("the test's pattern is valid"));
    let dark = Profile::pattern(pattern, End::Hold, 0, 0).expect("it has rates");
    let mut links = hop([(dark, Bler::Constant(0.0)), steady()]);
    let mut events = arrive(DOWN, [segment(0, 0, 1000)]);
    events.extend(arrive(UP, [super_packet(0, 0, 16, 1000, 1000)]));
    let [down, up] = drive(&mut links, &events, false);
    // At 65 µs the fourth aggregate is on the air.
    assert_eq!(
        times(&up),
        [(20_001, 4), (40_001, 4), (60_001, 4), (80_001, 4)]
    );
    assert_eq!(times(&down), [(92_501, 1)]);
}

#[test]
fn a_direction_that_is_polled_late_keeps_its_turn() {
    // The uplink asks at 1 µs and is polled at the end only; the downlink is polled far beyond.
    let mut links = hop([steady(), steady()]);
    let mut events = arrive(UP, [segment(1_000, 0, 1000)]);
    events.extend(arrive(DOWN, [super_packet(1_500, 0, 8, 1000, 1000)]));
    events.push((DOWN, Event::Poll(1_000_000)));
    let [down, up] = drive(&mut links, &events, false);
    assert_eq!(times(&up), [(13_501, 1)]);
    assert_eq!(times(&down), [(33_501, 4), (53_501, 4)]);
}

#[test]
fn what_a_link_was_not_told_is_its_backlog() {
    let mut links = hop([steady(), steady()]);
    let mut outcome = Outcome::default();
    links[UP].accept(segment(1_000, 0, 1000));
    links[DOWN].poll(1_000_000, &mut outcome.delivered);
    assert_eq!(links[UP].backlog().segments, 1);
    assert_eq!(links[UP].next_event_ns(), Some(1_001));
    links[UP].poll(13_000, &mut outcome.delivered);
    assert_eq!(outcome.delivered.len(), 0, "it ends at 13 501 ns");
    assert_eq!(links[UP].next_event_ns(), Some(13_501));
    links[UP].poll(13_501, &mut outcome.delivered);
    assert_eq!(outcome.delivered.len(), 1);
    assert_eq!(links[UP].backlog(), Backlog::default());
    assert_eq!(links[UP].counters().total().blocks_sent, 1);
}

#[test]
fn acknowledgements_take_their_part_of_the_air() {
    // 400 µs of data without end, and 40 bytes in the other direction for each aggregate.
    let data = || arrive(DOWN, [super_packet(0, 0, 80, 1000, 1000)]);
    let [alone, _] = drive(&mut hop([steady(), steady()]), &data(), false);
    assert_eq!(alone.delivered.last().map(|run| run.at_ns), Some(400_001));
    let mut events = data();
    events.extend(arrive(
        UP,
        (0..20).map(|packet| segment(u64::from(packet) * 30_000 + 10, packet, 40)),
    ));
    let [down, up] = drive(&mut hop([steady(), steady()]), &events, false);
    assert_eq!(up.delivered.len(), 20);
    // Each takes 10.1 µs.
    let last = down.delivered.last().map(|run| run.at_ns);
    assert_eq!(last, Some(400_001 + 19 * 10_100));
}

/// The preset of 802.11ad, with 2502.5 Mbit/s.
const PRESET: WifiSettings = WifiSettings {
    aggregate_bytes: 262_143,
    aggregate_frames: 64,
    overhead_ns: 30_000,
    retries: 7,
    overhead_bytes: 42,
    mtu_bytes: 1500,
};

/// Packets of 1500 bytes in 0.2 s of a transfer with a window of 256, and one acknowledgement of 52 bytes for each `every`
/// of them; `shared`: both directions have one air.
fn transferred(shared: bool, every: u64) -> u64 {
    let air = SharedAir::default();
    let mut links = [DOWN, UP].map(|side| {
        let air = if shared {
            air.clone()
        } else {
            SharedAir::default()
        };
        let random = RandomStream::new(7, side as u64);
        let rate = Profile::constant(2_502_500_000);
        let stage = Wifi::sharing(air, PRESET, infinite(), rate, Bler::Constant(0.0), random);
        Link::new(vec![Box::new(stage)], false)
    });
    let (mut sent, mut received, mut acknowledged) = (256, 0, 0);
    for packet in 0..sent {
        links[DOWN].accept(segment(0, packet as u32, 1500));
    }
    let mut arrived = Vec::new();
    loop {
        let each = links.iter().enumerate();
        let next = each.filter_map(|(side, link)| Some((link.next_event_ns()?, side)));
        let Some((at_ns, side)) = next.min().filter(|next| next.0 <= 200_000_000) else {
            return received;
        };
        links[side].poll(at_ns, &mut arrived);
        for run in arrived.drain(..) {
            if side == UP {
                for _ in 0..every {
                    links[DOWN].accept(segment(at_ns, sent as u32, 1500));
                    sent += 1;
                }
                continue;
            }
            received += u64::from(run.count);
            while received >= acknowledged + every {
                acknowledged += every;
                links[UP].accept(segment(at_ns, acknowledged as u32, 52));
            }
        }
    }
}

#[test]
fn a_transfer_pays_for_the_air_of_its_acknowledgements() {
    // 64 packets take 315.485 µs. Their 32 acknowledgements take 30 µs and 2.893 ns for each of 32 · 94 bytes, 38.702 µs;
    // one for all takes 30.272 µs. So 633 aggregates end within 0.2 s, 564 or 578.
    let found = [
        transferred(false, 2),
        transferred(true, 2),
        transferred(true, 64),
    ];
    assert_eq!(found, [633, 564, 578].map(|aggregates| aggregates * 64));
}

fn arrivals() -> impl Strategy<Value = Vec<(usize, Event)>> {
    let change = prop_oneof![Just(0), Just(RATE_BPS), Just(RATE_BPS / 3)];
    let one = (
        any::<bool>(),
        prop_oneof![Just(0u64), 0u64..40_000],
        (1u16..20, 40u16..1000),
        prop::option::weighted(0.03, change),
    );
    prop::collection::vec(one, 1..60).prop_map(|list| {
        let mut at_ns = 0;
        let events = (0u32..).zip(list);
        events
            .map(|(packet, (up, gap_ns, (count, bytes), change))| {
                at_ns += gap_ns;
                let event = match change {
                    Some(rate_bps) => Event::Change(at_ns, Change::RateBps(rate_bps)),
                    None => Event::Arrival(super_packet(at_ns, packet, count, bytes, bytes)),
                };
                (usize::from(up), event)
            })
            .collect()
    })
}

/// `events` with polls of either link between them.
fn with_polls(events: &[(usize, Event)], seed: u64) -> Vec<(usize, Event)> {
    let random = RandomStream::new(seed, 0);
    let mut polled = Vec::new();
    let mut last_ns = 0;
    for (index, (side, event)) in (0u64..).zip(events) {
        let span_ns = event.at_ns() - last_ns;
        let count = random.word(index) % 4;
        let word = |poll: u64| random.word(index * 8 + poll + 1000);
        let mut polls: Vec<(u64, usize)> = (0..count)
            .map(|poll| {
                (
                    last_ns + word(poll) % (span_ns + 1),
                    (word(poll) >> 60) as usize & 1,
                )
            })
            .collect();
        polls.sort_unstable();
        polled.extend(
            polls
                .into_iter()
                .map(|(at_ns, side)| (side, Event::Poll(at_ns))),
        );
        polled.push((*side, event.clone()));
        last_ns = event.at_ns();
    }
    polled
}

fn lossy() -> [Link; 2] {
    let settings = CodelSettings {
        target_ns: 20_000,
        interval_ns: 60_000,
        ecn: true,
        ..CodelSettings::default()
    };
    let codel = Codel::new(settings, Limit::Bytes(60_000), Unit::Packet);
    let air = || (Profile::constant(RATE_BPS), Bler::Constant(0.3));
    queued([air(), air()], [Box::new(codel), infinite()])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn who_is_polled_when_changes_nothing(events in arrivals(), seed in any::<u64>()) {
        let lazy = drive(&mut lossy(), &events, false);
        let others = [(with_polls(&events, seed), false), (events.clone(), true)];
        for (polled, eager) in others {
            let mut links = lossy();
            let other = drive(&mut links, &polled, eager);
            for side in [DOWN, UP] {
                prop_assert_eq!(&lazy[side].delivered, &other[side].delivered);
                prop_assert_eq!(lazy[side].losses(), other[side].losses());
            }
        }
    }

    #[test]
    fn one_station_sends_at_a_time_and_all_is_accounted_for(events in arrivals()) {
        let mut links = lossy();
        let outcomes = drive(&mut links, &events, true);
        for (link, outcome) in links.iter().zip(&outcomes) {
            let total = link.counters().total();
            prop_assert_eq!(total.unaccounted_segments(), i128::from(link.backlog().segments));
            prop_assert!(outcome.delivered.is_sorted_by_key(|run| run.at_ns));
        }
        // An aggregate takes at least its overhead: ends of both together are that far apart.
        let ends = outcomes.iter().flat_map(|outcome| &outcome.delivered);
        let mut ends: Vec<u64> = ends.map(|run| run.at_ns).collect();
        ends.sort_unstable();
        ends.dedup();
        prop_assert!(ends.windows(2).all(|pair| pair[1] - pair[0] >= SMALL.overhead_ns));
    }
}
