//! CoDel against the pseudo-code of RFC 8289 and against the behaviour described in the RFC.

use crate::codel_support::{Decision, Packet, Rfc8289};
use crate::loss_support::{QueueBench, run};
use proptest::prelude::*;
use wavebed_link::queue::{Codel, CodelSettings, Limit, Queue};
use wavebed_link::{Ecn, RandomStream, Reason, Run, Unit};

const MS: u64 = 1_000_000;

fn settings(ecn: bool) -> CodelSettings {
    CodelSettings {
        target_ns: 5 * MS,
        interval_ns: 100 * MS,
        ecn,
        ce_threshold_ns: None,
        mtu_bytes: 1500,
    }
}

fn queue(ecn: bool, limit: Limit) -> QueueBench<Codel> {
    QueueBench::new(Codel::new(settings(ecn), limit, Unit::Packet))
}

/// Both models with the same input.
struct Pair {
    engine: QueueBench<Codel>,
    rfc: Rfc8289,
    next_id: u32,
    marks: u64,
    log: Vec<Decision>,
}

impl Pair {
    fn new(ecn: bool) -> Self {
        let rfc = Rfc8289::new(5 * MS as i64, 100 * MS as i64, 1500, ecn);
        Self {
            engine: queue(ecn, Limit::Packets(1_000_000)),
            rfc,
            next_id: 0,
            marks: 0,
            log: Vec::new(),
        }
    }

    /// A super-packet of `count` segments; the engine sees one run, the RFC single packets.
    fn arrive(&mut self, at_ns: u64, count: u16, bytes: u16, ecn: Ecn) {
        let packet = self.next_id / 1000 + 1;
        self.next_id = packet * 1000;
        let sizes = Run {
            segment_bytes: bytes,
            last_bytes: bytes / 2 + 20,
            ecn,
            ..run(at_ns, packet, 0, count)
        };
        self.engine.enqueue(sizes);
        for index in 0..count {
            let bytes = if index + 1 == count {
                sizes.last_bytes
            } else {
                bytes
            };
            let id = packet * 1000 + u32::from(index);
            self.rfc.packets.push(Packet {
                id,
                bytes: bytes.into(),
                tstamp: at_ns as i64,
                ecn,
                flow: 0,
            });
        }
    }

    /// Serves one segment and compares every decision.
    fn serve(&mut self, now_ns: u64) -> Option<Run> {
        let served = self.engine.dequeue(now_ns);
        let mut expected = Vec::new();
        let reference = self.rfc.deque(now_ns as i64, &mut expected);
        let id = |run: &Run| run.packet * 1000 + u32::from(run.first);
        let exits = &mut self.engine.exits;
        let dropped: Vec<Decision> = exits
            .lost
            .drain(..)
            .map(|run| Decision::Dropped(id(&run)))
            .collect();
        let marks = expected
            .iter()
            .filter(|decision| matches!(decision, Decision::Marked(_)))
            .count() as u64;
        self.marks += marks;
        assert_eq!(
            exits.counters.total().marked.segments,
            self.marks,
            "marks at {now_ns}"
        );
        let drops: Vec<Decision> = expected
            .iter()
            .copied()
            .filter(|decision| matches!(decision, Decision::Dropped(_)))
            .collect();
        assert_eq!(dropped, drops, "drops at {now_ns}");
        assert_eq!(
            served.map(|run| (
                id(&run),
                i64::from(run.last_bytes),
                run.at_ns as i64,
                run.ecn,
                run.count
            )),
            reference.map(|p| (p.id, p.bytes, p.tstamp, p.ecn, 1)),
            "served at {now_ns}"
        );
        assert_eq!(
            self.engine.queue.backlog().segments,
            self.rfc.packets.len() as u64
        );
        assert_eq!(self.engine.queue.backlog().bytes, self.rfc.bytes() as u64);
        self.log.extend(expected);
        served
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn every_decision_is_that_of_the_rfc(
        steps in prop::collection::vec((0u64..4, 0u16..12, 40u16..1500, 0u8..4, 0u32..9), 200..900),
        ecn: bool,
    ) {
        let mut pair = Pair::new(ecn);
        let mut now_ns = 0;
        for (gap, count, bytes, bits, serve) in steps {
            now_ns += gap * gap * gap * 300_000;
            if count > 0 {
                pair.arrive(now_ns, count, bytes, Ecn::from_bits(bits));
            }
            for _ in 0..serve {
                now_ns += 250_000;
                pair.serve(now_ns);
            }
        }
    }
}

/// Phases of overload and of rest, long enough to enter, leave and resume the drop state many times.
fn long_run(ecn: bool, seed: u64) -> Pair {
    let random = RandomStream::new(seed, 0);
    let mut pair = Pair::new(ecn);
    let mut now_ns = 0;
    for step in 0..150_000u64 {
        now_ns += 500_000;
        let load = [0.9, 1.3, 0.4, 1.05][(random.unit(step / 700) * 4.0) as usize];
        if random.process(1).unit(step) < load * 0.5 {
            let bits = (random.process(2).word(step) & 3) as u8;
            pair.arrive(
                now_ns,
                2,
                400 + (random.process(3).word(step) % 1000) as u16,
                Ecn::from_bits(bits),
            );
        }
        pair.serve(now_ns);
    }
    pair
}

#[test]
fn long_runs_through_many_drop_states_agree() {
    for ecn in [false, true] {
        let pair = long_run(ecn, 11);
        let drops = pair
            .log
            .iter()
            .filter(|decision| matches!(decision, Decision::Dropped(_)))
            .count();
        let marks = pair
            .log
            .iter()
            .filter(|decision| matches!(decision, Decision::Marked(_)))
            .count();
        // The comparison is valid only if the states were visited.
        assert!(
            pair.rfc.times_entered > 20,
            "{} drop states",
            pair.rfc.times_entered
        );
        assert!(
            pair.rfc.times_resumed > 3,
            "{} resumed",
            pair.rfc.times_resumed
        );
        assert!(drops > 50, "{drops} drops");
        assert_eq!(marks > 20, ecn, "{marks} marks");
    }
}

/// Serves a queue that never empties, one segment each `service_ns`, and gives the times of the drops or marks.
fn steady_overload(ecn: bool, service_ns: u64, until_ns: u64) -> Vec<u64> {
    let mut bench = queue(ecn, Limit::Packets(1_000_000));
    let field = if ecn { Ecn::Ect0 } else { Ecn::NotEct };
    let mut times = Vec::new();
    for step in 0..until_ns / service_ns {
        let now_ns = step * service_ns;
        bench.enqueue(Run {
            ecn: field,
            ..run(now_ns, step as u32, 0, 2)
        });
        let served = bench.dequeue(now_ns);
        for lost in bench.exits.lost.drain(..) {
            assert_eq!(lost.at_ns, now_ns, "a drop is stamped with its own time");
            times.push(now_ns);
        }
        if served.is_some_and(|run| run.ecn == Ecn::Ce) {
            times.push(now_ns);
        }
    }
    times
}

#[test]
fn a_persistent_queue_drops_after_an_interval_and_then_by_the_square_root_law() {
    for ecn in [false, true] {
        let times = steady_overload(ecn, 100_000, 3_000 * MS);
        // The first sojourn of 5 ms is served at 10 ms: from then on the queue stays above the target.
        let first = times[0];
        assert!(first.abs_diff(110 * MS) <= 200_000, "first at {first}");
        let mut due = first as f64;
        for (count, &time) in (1..).zip(&times) {
            assert!(
                time as f64 - due < 100_001.0 && time as f64 >= due - f64::from(count),
                "drop {count} at {time}, due {due}"
            );
            due += 100e6 / f64::from(count).sqrt();
        }
        assert!(times.len() > 200, "{} drops", times.len());
    }
}

#[test]
fn a_queue_of_one_mtu_is_never_too_long() {
    // The head is always 10 ms old, with two segments of half the given bytes behind it.
    for (bytes, drops) in [(1000, false), (1500, false), (1502, true)] {
        let mut bench = queue(false, Limit::Packets(100));
        for step in 0..10_000u32 {
            let now_ns = u64::from(step) * 5 * MS;
            bench.enqueue(Run {
                last_bytes: bytes / 2,
                ..run(now_ns, step, 0, 1)
            });
            if step > 1 && bench.dequeue(now_ns).is_none() {
                break;
            }
        }
        assert_eq!(!bench.exits.lost.is_empty(), drops, "{bytes} bytes");
    }
}

#[test]
fn ce_is_kept_and_not_counted_twice() {
    let mut bench = queue(true, Limit::Packets(100_000));
    for step in 0..20_000u32 {
        let at_ns = u64::from(step) * 100_000;
        bench.enqueue(Run {
            ecn: Ecn::Ce,
            ..run(at_ns, step, 0, 2)
        });
        assert_eq!(bench.dequeue(at_ns).map(|run| run.ecn), Some(Ecn::Ce));
    }
    assert_eq!(
        (
            bench.exits.lost.len(),
            bench.exits.counters.total().marked.segments
        ),
        (0, 0)
    );
}

#[test]
fn the_hard_limit_drops_arrivals_segment_by_segment() {
    let mut bench = queue(false, Limit::Packets(10));
    bench.enqueue(run(0, 1, 0, 7));
    bench.enqueue(run(5, 2, 0, 7));
    assert_eq!(
        crate::loss_support::segments(&bench.exits.lost),
        [(2, 3), (2, 4), (2, 5), (2, 6)]
    );
    assert_eq!(bench.exits.dropped(Reason::Overflow), 4);
    let mut bench = queue(false, Limit::Bytes(3100));
    bench.enqueue(Run {
        last_bytes: 100,
        ..run(0, 1, 0, 6)
    });
    assert_eq!(
        crate::loss_support::segments(&bench.exits.lost),
        [(1, 3), (1, 4)]
    );
    let mut bench = queue(false, Limit::TimeNs(8 * MS));
    bench.queue.service_rate(4_000_000);
    bench.enqueue(run(0, 1, 0, 6));
    assert_eq!(bench.queue.backlog().bytes, 4000);
}

#[test]
fn superpackets_are_served_and_dropped_whole() {
    let mut bench = QueueBench::new(Codel::new(
        settings(false),
        Limit::Packets(3),
        Unit::Superpacket,
    ));
    for packet in 0..4 {
        bench.enqueue(run(0, packet, 0, 40));
    }
    assert_eq!(bench.exits.dropped(Reason::Overflow), 40);
    assert_eq!(bench.queue.head_bytes(), Some(40_000));
    assert_eq!(bench.dequeue(0).map(|run| run.count), Some(40));
}

/// Reno flows over a 12 Mbit/s bottleneck with 50 ms of base RTT; gives mean sojourn (ns) and utilisation.
fn responsive_flows(mut bench: QueueBench<Codel>, flows: usize) -> (f64, f64) {
    const SERVICE_NS: u64 = MS;
    const BASE_NS: u64 = 50 * MS;
    let mut window = vec![2.0f64; flows];
    let mut sent = vec![0u64; flows];
    let mut cut_at = vec![0u64; flows];
    // Feedback to the senders by time: (flow, delivered or not, sent at).
    let mut news: std::collections::VecDeque<(u64, usize, bool, u64)> =
        std::collections::VecDeque::new();
    let (mut sojourns, mut served, mut slots) = (0.0, 0u64, 0u64);
    for slot in 0..60_000u64 {
        let now_ns = slot * SERVICE_NS;
        while news.front().is_some_and(|&(at_ns, ..)| at_ns <= now_ns) {
            let (_, flow, delivered, sent_ns) = news.pop_front().unwrap();
            sent[flow] -= 1;
            if delivered {
                window[flow] += 1.0 / window[flow];
            } else if sent_ns >= cut_at[flow] {
                window[flow] = (window[flow] / 2.0).max(1.0);
                cut_at[flow] = now_ns;
            }
        }
        for flow in 0..flows {
            while sent[flow] < window[flow] as u64 {
                sent[flow] += 1;
                bench.enqueue(Run {
                    flow: flow as u32,
                    last_bytes: 1500,
                    ..run(now_ns, 0, 0, 1)
                });
            }
        }
        let next = bench.dequeue(now_ns);
        for lost in bench.exits.lost.drain(..) {
            news.push_back((now_ns + BASE_NS, lost.flow as usize, false, now_ns));
        }
        if slot >= 10_000 {
            slots += 1;
        }
        if let Some(run) = next {
            news.push_back((now_ns + BASE_NS, run.flow as usize, true, run.at_ns));
            if slot >= 10_000 {
                served += 1;
                sojourns += (now_ns - run.at_ns) as f64;
            }
        }
    }
    (sojourns / served as f64, served as f64 / slots as f64)
}

#[test]
fn responsive_flows_settle_near_the_target_and_keep_the_link_busy() {
    let (sojourn, busy) = responsive_flows(queue(false, Limit::Packets(1000)), 4);
    assert!(
        (2e6..10e6).contains(&sojourn),
        "mean sojourn {sojourn} ns against a target of 5 ms"
    );
    assert!(busy > 0.9, "busy {busy}");
    // The same flows fill a queue without CoDel to its limit.
    let tail = Codel::new(
        CodelSettings {
            target_ns: u64::MAX,
            ..settings(false)
        },
        Limit::Packets(200),
        Unit::Packet,
    );
    let (sojourn, _) = responsive_flows(QueueBench::new(tail), 4);
    assert!(sojourn > 100e6, "mean sojourn {sojourn} ns in drop-tail");
}

#[test]
fn a_threshold_marks_ect1_at_once_and_leaves_the_law_to_the_others() {
    let with = CodelSettings {
        ce_threshold_ns: Some(MS),
        ..settings(true)
    };
    let mut bench = QueueBench::new(Codel::new(with, Limit::Packets(1000), Unit::Packet));
    let fields = [Ecn::Ect1, Ecn::Ect0, Ecn::Ect1, Ecn::NotEct];
    let of = |bench: &mut QueueBench<Codel>, now_ns: u64| {
        bench.dequeue(now_ns).map(|run| (run.packet, run.ecn))
    };
    for packet in 0..400u32 {
        let ecn = fields[packet as usize % 4];
        bench.enqueue(Run {
            ecn,
            ..run(0, packet, 0, 1)
        });
    }
    assert_eq!(of(&mut bench, MS), Some((0, Ecn::Ect1)), "not above it");
    assert_eq!(
        of(&mut bench, 2 * MS),
        Some((1, Ecn::Ect0)),
        "not the target"
    );
    assert_eq!(of(&mut bench, 2 * MS), Some((2, Ecn::Ce)));
    assert_eq!(of(&mut bench, 7 * MS), Some((3, Ecn::NotEct)), "begins");
    // The interval has passed: ECT(1) is not what the law acts on, the next segment is.
    assert_eq!(of(&mut bench, 108 * MS), Some((4, Ecn::Ce)));
    assert_eq!(of(&mut bench, 108 * MS), Some((5, Ecn::Ce)));
    assert_eq!(of(&mut bench, 108 * MS), Some((6, Ecn::Ce)));
    assert_eq!(of(&mut bench, 108 * MS), Some((7, Ecn::NotEct)));
    // The next is due 100 ms later: segment 9 is marked, then 11 is dropped after another 100/√2 ms.
    assert_eq!(of(&mut bench, 209 * MS), Some((8, Ecn::Ce)));
    assert_eq!(of(&mut bench, 209 * MS), Some((9, Ecn::Ce)));
    assert_eq!(of(&mut bench, 280 * MS), Some((10, Ecn::Ce)));
    assert_eq!(of(&mut bench, 280 * MS), Some((12, Ecn::Ce)));
    let total = bench.exits.counters.total();
    assert_eq!((total.marked.segments, total.l4s_marked.segments), (8, 6));
    assert_eq!(bench.exits.dropped(Reason::Aqm), 1);
}
