//! FQ-CoDel against the text of RFC 8290, and its fairness.

use crate::codel_support::{Decision, Packet, Rfc8289, Rfc8290};
use crate::loss_support::{QueueBench, run};
use proptest::prelude::*;
use wavebed_link::queue::{CodelSettings, FqCodel, FqCodelSettings, Limit, Queue};
use wavebed_link::{Ecn, RandomStream, Reason, Run, Unit};

const MS: u64 = 1_000_000;

fn settings(flows: u32, ecn: bool) -> FqCodelSettings {
    let codel = CodelSettings {
        target_ns: 5 * MS,
        interval_ns: 100 * MS,
        ecn,
        ce_threshold_ns: None,
        mtu_bytes: 1500,
    };
    FqCodelSettings {
        codel,
        flows,
        quantum_bytes: 1514,
    }
}

struct Pair {
    engine: QueueBench<FqCodel>,
    rfc: Rfc8290,
    packet: u32,
    marks: u64,
    drops: u64,
}

impl Pair {
    fn new(flows: u32, limit: u64, ecn: bool, seed: u64) -> Self {
        let random = RandomStream::new(seed, 0);
        let engine = QueueBench::new(FqCodel::new(
            settings(flows, ecn),
            Limit::Packets(limit),
            Unit::Packet,
            random,
        ));
        let queues = (0..flows)
            .map(|_| Rfc8289::new(5 * MS as i64, 100 * MS as i64, 1500, ecn))
            .collect();
        Self {
            engine,
            rfc: Rfc8290::new(queues, 1514, limit as usize),
            packet: 0,
            marks: 0,
            drops: 0,
        }
    }

    fn lost(&mut self) -> Vec<u32> {
        self.engine
            .exits
            .lost
            .drain(..)
            .flat_map(|run| (run.first..run.end()).map(move |i| id(run.packet, i)))
            .collect()
    }

    fn arrive(&mut self, at_ns: u64, flow: u32, count: u16, bytes: u16, ecn: Ecn) {
        self.packet += 1;
        let sizes = Run {
            flow,
            segment_bytes: bytes,
            last_bytes: bytes,
            ecn,
            ..run(at_ns, self.packet, 0, count)
        };
        self.engine.enqueue(sizes);
        let queue = self.engine.queue.flow_queue(flow) as usize;
        let mut log = Vec::new();
        for index in 0..count {
            let id = id(self.packet, index);
            self.rfc.enqueue(
                Packet {
                    id,
                    bytes: bytes.into(),
                    tstamp: at_ns as i64,
                    ecn,
                    flow,
                },
                queue,
                &mut log,
            );
        }
        let lost: Vec<Decision> = self.lost().into_iter().map(Decision::Overflowed).collect();
        assert_eq!(lost, log, "overflow at {at_ns}");
        self.check_backlog();
    }

    fn serve(&mut self, now_ns: u64) {
        let served = self.engine.dequeue(now_ns);
        let mut log = Vec::new();
        let expected = self.rfc.dequeue(now_ns as i64, &mut log);
        let dropped: Vec<Decision> = self.lost().into_iter().map(Decision::Dropped).collect();
        let (drops, marks): (Vec<_>, Vec<_>) = log
            .into_iter()
            .partition(|decision| matches!(decision, Decision::Dropped(_)));
        assert_eq!(dropped, drops, "drops at {now_ns}");
        self.marks += marks.len() as u64;
        self.drops += drops.len() as u64;
        assert_eq!(
            self.engine.exits.counters.total().marked.segments,
            self.marks,
            "marks at {now_ns}"
        );
        assert_eq!(
            served.map(|run| (
                id(run.packet, run.first),
                run.at_ns as i64,
                run.ecn,
                run.count
            )),
            expected.map(|p| (p.id, p.tstamp, p.ecn, 1)),
            "served at {now_ns}"
        );
        self.check_backlog();
    }

    fn check_backlog(&self) {
        let backlog = self.engine.queue.backlog();
        assert_eq!(backlog.segments, self.rfc.length as u64);
        assert_eq!(backlog.bytes as i64, self.rfc.bytes);
    }
}

fn id(packet: u32, index: u16) -> u32 {
    packet * 1000 + u32::from(index)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn every_decision_is_that_of_the_rfc(
        steps in prop::collection::vec((0u64..4, 0u32..9, 0u16..12, 40u16..1500, 0u8..4, 0u32..9), 200..700),
        ecn: bool,
        limit in prop::sample::select(vec![1u64, 7, 60, 1000]),
        flows in prop::sample::select(vec![1u32, 4, 1024]),
        seed: u64,
    ) {
        let mut pair = Pair::new(flows, limit, ecn, seed);
        let mut now_ns = 0;
        for (gap, flow, count, bytes, bits, serve) in steps {
            now_ns += gap * gap * gap * 300_000;
            if count > 0 {
                pair.arrive(now_ns, flow, count, bytes, Ecn::from_bits(bits));
            }
            for _ in 0..serve {
                now_ns += 250_000;
                pair.serve(now_ns);
            }
        }
    }
}

#[test]
fn long_runs_with_overflow_drops_and_marks_agree() {
    for ecn in [false, true] {
        let random = RandomStream::new(5, 5);
        let mut pair = Pair::new(1024, 600, ecn, 3);
        for step in 0..60_000u64 {
            let now_ns = step * 500_000;
            let load = [0.8, 1.4, 0.3, 2.5][(random.unit(step / 900) * 4.0) as usize];
            if random.process(1).unit(step) < load / 3.0 {
                let flow = (random.process(4).unit(step).powi(3) * 30.0) as u32;
                let bits = (random.process(2).word(step) & 3) as u8;
                pair.arrive(
                    now_ns,
                    flow,
                    3,
                    100 + (random.process(3).word(step) % 1400) as u16,
                    Ecn::from_bits(bits),
                );
            }
            pair.serve(now_ns);
        }
        // The comparison is valid only if every event occurred.
        assert!(pair.rfc.batches > 10, "{} batches", pair.rfc.batches);
        assert!(pair.drops > 100, "{} drops", pair.drops);
        assert_eq!(pair.marks > 100, ecn, "{} marks", pair.marks);
    }
}

fn no_aqm(limit: Limit) -> QueueBench<FqCodel> {
    let mut settings = settings(1024, false);
    settings.codel.target_ns = u64::MAX;
    QueueBench::new(FqCodel::new(
        settings,
        limit,
        Unit::Packet,
        RandomStream::new(1, 1),
    ))
}

proptest! {
    #[test]
    fn the_head_is_what_is_served_next_unless_codel_drops(
        arrivals in prop::collection::vec((0u32..6, 1u16..9, 40u16..9000), 1..60),
        pauses in prop::collection::vec(0usize..12, 60),
    ) {
        let mut bench = no_aqm(Limit::Packets(10_000));
        let check = |bench: &mut QueueBench<FqCodel>, times: usize| {
            for _ in 0..times {
                let head = bench.queue.head_bytes();
                let served = bench.dequeue(0);
                assert_eq!(head, served.map(|run| run.head_bytes()));
            }
        };
        for (packet, ((flow, count, bytes), pause)) in (0..).zip(arrivals.into_iter().zip(pauses)) {
            bench.enqueue(Run { flow, segment_bytes: bytes, last_bytes: bytes, ..run(0, packet, 0, count) });
            check(&mut bench, pause);
        }
        check(&mut bench, 1000);
        prop_assert_eq!(bench.queue.backlog().segments, 0);
    }
}

/// Two flow hashes that do not share a queue.
fn two_flows(queue: &FqCodel) -> (u32, u32) {
    let other = (1..5000)
        .find(|&flow| queue.flow_queue(flow) != queue.flow_queue(0))
        .expect("there are 1024 queues");
    (0, other)
}

#[test]
fn greedy_flows_share_bytes_whatever_their_segment_sizes() {
    let mut bench = no_aqm(Limit::Packets(1_000_000));
    let (small, large) = two_flows(&bench.queue);
    for packet in 0..20_000 {
        bench.enqueue(Run {
            flow: small,
            last_bytes: 200,
            ..run(0, packet, 0, 1)
        });
        bench.enqueue(Run {
            flow: large,
            last_bytes: 1500,
            ..run(0, packet, 0, 1)
        });
    }
    let mut bytes = [0u64; 2];
    for _ in 0..15_000 {
        let run = bench.dequeue(0).expect("backlogged");
        bytes[usize::from(run.flow == large)] += run.bytes();
        // DRR: never further apart than a quantum and a segment each.
        assert!(
            bytes[0].abs_diff(bytes[1]) <= 2 * (1514 + 1500),
            "{bytes:?}"
        );
    }
}

#[test]
fn a_sparse_flow_passes_a_queue_that_a_greedy_one_fills() {
    let mut bench = no_aqm(Limit::Packets(1_000_000));
    let (greedy, sparse) = two_flows(&bench.queue);
    let mut worst = 0;
    for step in 0..20_000u32 {
        let now_ns = u64::from(step) * MS;
        bench.enqueue(Run {
            flow: greedy,
            last_bytes: 1500,
            ..run(now_ns, step, 0, 2)
        });
        if step % 50 == 0 {
            bench.enqueue(Run {
                flow: sparse,
                last_bytes: 100,
                ..run(now_ns, step, 0, 1)
            });
        }
        let served = bench.dequeue(now_ns).expect("backlogged");
        if served.flow == sparse {
            worst = worst.max(now_ns - served.at_ns);
        }
    }
    assert!(worst <= 2 * MS, "a sparse segment waited {worst} ns");
    assert!(bench.queue.backlog().segments > 15_000);
}

#[test]
fn overflow_drops_half_of_the_fattest_queue_but_at_most_64() {
    let mut bench = no_aqm(Limit::Packets(100));
    let (fat, thin) = two_flows(&bench.queue);
    bench.enqueue(Run {
        flow: thin,
        last_bytes: 100,
        ..run(0, 1, 0, 1)
    });
    bench.enqueue(Run {
        flow: fat,
        ..run(0, 2, 0, 40)
    });
    bench.enqueue(Run {
        flow: fat,
        ..run(0, 3, 0, 40)
    });
    bench.enqueue(Run {
        flow: fat,
        ..run(9, 4, 0, 20)
    });
    // 101 segments: 50 of the fat flow's 100 go, from its head.
    assert_eq!(bench.exits.dropped(Reason::Overflow), 50);
    assert!(
        bench
            .exits
            .lost
            .iter()
            .all(|run| run.flow == fat && run.packet != 4 && run.at_ns == 9)
    );
    let mut bench = no_aqm(Limit::Packets(300));
    bench.enqueue(run(0, 1, 0, 301));
    assert_eq!(bench.exits.dropped(Reason::Overflow), 64);
}

#[test]
fn a_limit_in_bytes_holds_even_for_one_large_segment() {
    let mut bench = no_aqm(Limit::Bytes(2500));
    for packet in 0..50 {
        bench.enqueue(Run {
            last_bytes: 40 + 60 * (packet as u16 % 40),
            ..run(0, packet, 0, 1)
        });
        assert!(bench.queue.backlog().bytes <= 2500);
    }
    bench.enqueue(Run {
        last_bytes: 9000,
        ..run(0, 99, 0, 1)
    });
    assert!(bench.queue.backlog().bytes <= 2500);
}

#[test]
fn flows_spread_over_the_queues_by_random() {
    let queue = |seed| {
        FqCodel::new(
            settings(1024, true),
            Limit::Packets(10),
            Unit::Packet,
            RandomStream::new(seed, 0),
        )
    };
    let (one, other) = (queue(1), queue(2));
    let mut counts = vec![0u32; 1024];
    for flow in 0..102_400 {
        counts[one.flow_queue(flow) as usize] += 1;
    }
    // Poisson with mean 100: six standard deviations.
    assert!(counts.iter().all(|&count| (40..160).contains(&count)));
    let moved = (0..1000)
        .filter(|&flow| one.flow_queue(flow) != other.flow_queue(flow))
        .count();
    assert!(moved > 980, "the seed moves flows to other queues: {moved}");
}
