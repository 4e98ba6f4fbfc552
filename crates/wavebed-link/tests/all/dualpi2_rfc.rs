//! The dual queue against the pseudo-code of RFC 9332, appendix A, and against the behaviour described in the RFC.

use std::collections::VecDeque;

use crate::loss_support::{QueueBench, run};
use proptest::prelude::*;
use wavebed_link::queue::{DelayEstimate, DualPi2, DualPi2Settings, Limit, Queue};
use wavebed_link::{Ecn, Reason, Run, Unit};

const MS: u64 = 1_000_000;

fn bench(settings: DualPi2Settings) -> QueueBench<DualPi2> {
    QueueBench::new(DualPi2::new(
        settings,
        Limit::Packets(1_000_000),
        Unit::Packet,
    ))
}

/// A packet of 1000 bytes.
fn packet(at_ns: u64, number: u32, ecn: Ecn) -> Run {
    Run {
        ecn,
        ..run(at_ns, number, 0, 1)
    }
}

/// The pseudo-code of appendix A.1 and A.2, packet by packet, in seconds, with the weighted round robin of the engine.
/// It shares no code with the engine.
#[derive(Default)]
struct Rfc9332 {
    lq: VecDeque<(u32, Ecn, f64)>,
    cq: VecDeque<(u32, Ecn, f64)>,
    l_count: f64,
    c_count: f64,
    p: f64,
    prevq: f64,
    updates: u64,
    owed: f64,
}

const TARGET: f64 = 0.015;
const T_UPDATE: f64 = 0.015;
const RTT_MAX: f64 = 0.1;

impl Rfc9332 {
    fn update_to(&mut self, now_ns: u64) {
        while (self.updates + 1) * 15 * MS <= now_ns {
            self.updates += 1;
            let at = (self.updates * 15) as f64 / 1e3;
            let time =
                |q: &VecDeque<(u32, Ecn, f64)>| q.front().map_or(0.0, |&(_, _, from)| at - from);
            let curq = time(&self.lq).max(time(&self.cq));
            let alpha = 0.1 * T_UPDATE / RTT_MAX.powi(2);
            let beta = 0.3 / RTT_MAX;
            self.p += alpha * (curq - TARGET) + beta * (curq - self.prevq);
            self.p = self.p.clamp(0.0, 1.0);
            self.prevq = curq;
        }
    }

    fn enqueue(&mut self, at_ns: u64, id: u32, ecn: Ecn) {
        self.update_to(at_ns);
        let q = if matches!(ecn, Ecn::Ect1 | Ecn::Ce) {
            &mut self.lq
        } else {
            &mut self.cq
        };
        q.push_back((id, ecn, at_ns as f64 / 1e9));
    }

    fn recur(count: &mut f64, likelihood: f64) -> bool {
        *count += likelihood;
        if *count > 1.0 {
            *count -= 1.0;
            return true;
        }
        false
    }

    /// The packet served and its field, and those dropped.
    fn dequeue(&mut self, now_ns: u64, dropped: &mut Vec<u32>) -> Option<(u32, Ecn)> {
        self.update_to(now_ns);
        let now = now_ns as f64 / 1e9;
        let coupled = 2.0 * self.p;
        let p_c = self.p * self.p;
        loop {
            let both = !self.lq.is_empty() && !self.cq.is_empty();
            if self.lq.is_empty() && self.cq.is_empty() {
                return None;
            }
            if !(self.lq.is_empty() || both && self.owed >= 15.0) {
                let (id, ecn, from) = self.lq.pop_front()?;
                if both {
                    self.owed += 1.0;
                }
                let mut mark = false;
                if coupled < 1.0 {
                    let qdelay = now - from;
                    let ramp = ((qdelay - 0.0008) / 0.0004).clamp(0.0, 1.0);
                    let l_prob = if self.lq.is_empty() { 0.0 } else { ramp };
                    mark |= Self::recur(&mut self.l_count, l_prob.max(coupled));
                } else {
                    if Self::recur(&mut self.l_count, p_c) {
                        dropped.push(id);
                        continue;
                    }
                    mark |= Self::recur(&mut self.l_count, 1.0);
                }
                return Some((id, if mark { Ecn::Ce } else { ecn }));
            }
            let (id, ecn, _) = self.cq.pop_front()?;
            self.owed = if both && !self.cq.is_empty() {
                (self.owed - 15.0).max(0.0)
            } else {
                0.0
            };
            if Self::recur(&mut self.c_count, p_c) {
                if ecn == Ecn::NotEct || p_c >= 0.25 {
                    dropped.push(id);
                    continue;
                }
                return Some((id, Ecn::Ce));
            }
            return Some((id, ecn));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn every_decision_is_that_of_the_rfc(
        steps in prop::collection::vec((0u64..5, 0u32..6, 0u8..4, 0u32..5), 300..1500),
    ) {
        let mut engine = bench(DualPi2Settings::default());
        let mut rfc = Rfc9332::default();
        let mut id = 0;
        let mut now_ns = 0;
        for (gap, count, bits, serve) in steps {
            // Never at a time of an update or a threshold, where the units would decide.
            now_ns += gap * 700_003 + 13;
            for _ in 0..count {
                id += 1;
                engine.enqueue(packet(now_ns, id, Ecn::from_bits(bits)));
                rfc.enqueue(now_ns, id, Ecn::from_bits(bits));
            }
            for _ in 0..serve {
                now_ns += 300_001;
                let mut dropped = Vec::new();
                let expected = rfc.dequeue(now_ns, &mut dropped);
                let served = engine.dequeue(now_ns).map(|run| (run.packet, run.ecn));
                prop_assert_eq!(served, expected, "at {}", now_ns);
                let lost: Vec<u32> = engine.exits.lost.drain(..).map(|run| run.packet).collect();
                prop_assert_eq!(lost, dropped, "at {}", now_ns);
            }
        }
    }
}

/// Fills a queue with this field and serves it at 1 packet per ms for `ms`, with `per_ms` arrivals.
fn persist(bench: &mut QueueBench<DualPi2>, ms: u64, per_ms: u32, ecn: Ecn) -> Vec<Run> {
    let mut served = Vec::new();
    for step in 0..ms {
        for number in 0..per_ms {
            bench.enqueue(packet(step * MS, step as u32 * per_ms + number, ecn));
        }
        served.extend(bench.dequeue(step * MS + MS / 2));
    }
    served
}

#[test]
fn the_ramp_marks_none_below_its_start_and_all_above_its_end() {
    for (waited_ns, range_ns, expected) in [
        (800_000, 400_000, 0),
        (900_000, 400_000, 25),
        (1_000_000, 400_000, 50),
        (1_200_000, 400_000, 100),
        (800_001, 0, 100),
        (800_000, 0, 0),
    ] {
        let mut bench = bench(DualPi2Settings {
            range_ns,
            ..DualPi2Settings::default()
        });
        for number in 0..=101 {
            bench.enqueue(packet(0, number, Ecn::Ect1));
        }
        let marked = (0..101).filter(|_| bench.dequeue(waited_ns).unwrap().ecn == Ecn::Ce);
        let marked = marked.count() as i64;
        assert!(
            (marked - expected).abs() <= 1,
            "{waited_ns} {range_ns}: {marked}"
        );
    }
}

#[test]
fn a_single_packet_is_no_queue() {
    let mut bench = bench(DualPi2Settings::default());
    bench.enqueue(packet(0, 0, Ecn::Ect1));
    assert_eq!(bench.dequeue(10 * MS).unwrap().ecn, Ecn::Ect1);
}

#[test]
fn classic_packets_are_marked_or_dropped_by_their_field_and_l4s_packets_are_marked() {
    let drops = |bench: &QueueBench<DualPi2>| bench.exits.dropped(Reason::Aqm);
    let mut not_ect = bench(DualPi2Settings::default());
    let served = persist(&mut not_ect, 200, 2, Ecn::NotEct);
    assert!(served.iter().all(|run| run.ecn == Ecn::NotEct));
    assert!(drops(&not_ect) > 0);
    let mut ect0 = bench(DualPi2Settings::default());
    let served = persist(&mut ect0, 200, 2, Ecn::Ect0);
    let marked = served.iter().filter(|run| run.ecn == Ecn::Ce).count() as u64;
    let total = *ect0.exits.counters.total();
    assert_eq!((drops(&ect0), total.marked.segments), (0, marked));
    assert!(marked > 0 && total.l4s_marked.segments == 0);
    let mut ect1 = bench(DualPi2Settings::default());
    let served = persist(&mut ect1, 200, 2, Ecn::Ect1);
    let marked = served.iter().filter(|run| run.ecn == Ecn::Ce).count() as u64;
    let total = *ect1.exits.counters.total();
    assert_eq!((drops(&ect1), total.l4s_marked.segments), (0, marked));
    assert!(marked > 190, "{marked}");
}

#[test]
fn overload_drops_both_kinds() {
    let mut bench = bench(DualPi2Settings::default());
    for step in 0..3000u64 {
        for number in 0..6 {
            let ecn = if number % 2 == 0 {
                Ecn::Ect1
            } else {
                Ecn::Ect0
            };
            bench.enqueue(packet(step * MS, step as u32 * 6 + number, ecn));
        }
        bench.dequeue(step * MS + MS / 2);
    }
    let lost = |l4s: bool| {
        let lost = bench.exits.lost.iter();
        lost.filter(|run| run.ecn.is_l4s() == l4s).count()
    };
    assert!(lost(true) > 100 && lost(false) > 100);
    let total = bench.exits.counters.total();
    assert_eq!(total.l4s_dropped.segments, lost(true) as u64);
}

#[test]
fn the_coupling_marks_twice_the_root_of_the_classic_probability() {
    let mut bench = bench(DualPi2Settings::default());
    // One L4S packet for each classic one, and a classic queue that does not fall.
    let (mut l4s, mut l4s_marks, mut classic, mut classic_marks) = (0, 0, 0, 0);
    for number in 0..20u32 {
        bench.enqueue(packet(0, number, Ecn::Ect0));
    }
    for step in 0..2800u64 {
        let at_ns = step * MS;
        bench.enqueue(packet(at_ns, 100 + 2 * step as u32, Ecn::Ect1));
        let served = bench.dequeue(at_ns).unwrap();
        assert!(served.ecn.is_l4s());
        bench.enqueue(packet(at_ns, 101 + 2 * step as u32, Ecn::Ect0));
        let other = bench.dequeue(at_ns + MS / 2).unwrap();
        if step >= 2000 {
            l4s += 1;
            l4s_marks += u32::from(served.ecn == Ecn::Ce);
            classic += 1;
            classic_marks += u32::from(other.ecn == Ecn::Ce);
        }
    }
    // A standing queue of 20 ms raises p' by alpha * 5 ms every 15 ms: by 0.05 a second.
    let l4s = f64::from(l4s_marks) / f64::from(l4s);
    let classic = f64::from(classic_marks) / f64::from(classic);
    assert!((l4s - 2.0 * classic.sqrt()).abs() < 0.02, "{l4s} {classic}");
    assert!((0.15..0.45).contains(&l4s), "{l4s}");
}

#[test]
fn classic_packets_have_a_sixteenth_while_both_wait() {
    let mut bench = bench(DualPi2Settings::default());
    for number in 0..1000u32 {
        let ecn = if number % 2 == 0 {
            Ecn::Ect1
        } else {
            Ecn::Ect0
        };
        bench.enqueue(packet(0, number, ecn));
    }
    let classic = (0..320).filter(|_| bench.dequeue(1).unwrap().packet % 2 == 1);
    assert_eq!(classic.count(), 20);
}

#[test]
fn a_predicted_delay_is_the_bytes_ahead_over_the_rate_of_their_queue() {
    let settings = DualPi2Settings {
        delay: DelayEstimate::Predicted(10 * MS),
        ..DualPi2Settings::default()
    };
    let mut bench = bench(settings);
    // Ten windows at one packet per millisecond, with one packet waiting behind each.
    let mut now_ns = 0;
    for number in 0..100 {
        bench.enqueue(packet(now_ns, number, Ecn::Ect1));
        now_ns += MS;
        if number > 0 {
            bench.dequeue(now_ns);
        }
    }
    while bench.dequeue(now_ns).is_some() {}
    // Two arrive at once: the second would wait 1 ms, half of the ramp. Their heads have not waited at all.
    let mut marks = 0;
    for number in 0..40 {
        now_ns += 10 * MS;
        for place in 0..3 {
            bench.enqueue(packet(now_ns, 1000 + number * 3 + place, Ecn::Ect1));
        }
        let served: Vec<Ecn> = (0..3).map(|_| bench.dequeue(now_ns).unwrap().ecn).collect();
        assert_eq!((served[0], served[2]), (Ecn::Ce, Ecn::Ect1));
        marks += u32::from(served[1] == Ecn::Ce);
        if number == 0 {
            assert_eq!(bench.exits.dropped(Reason::Aqm), 0);
        }
    }
    assert!((19..=21).contains(&marks), "{marks}");
}

#[test]
fn what_waits_is_cleared_and_expires_from_the_oldest_without_marks() {
    let mut bench = bench(DualPi2Settings::default());
    for (at_ns, ecn) in [
        (0, Ecn::Ect0),
        (1, Ecn::Ect1),
        (2, Ecn::NotEct),
        (3, Ecn::Ce),
    ] {
        bench.enqueue(packet(at_ns, at_ns as u32, ecn));
    }
    assert_eq!(bench.queue.head_at_ns(), Some(0));
    let expired: Vec<u32> = std::iter::from_fn(|| bench.queue.expire(1))
        .map(|run| run.packet)
        .collect();
    assert_eq!(expired, [0, 1]);
    let exits = &mut bench.exits;
    bench.queue.clear(9, Reason::Ended, &mut exits.outlet());
    let lost: Vec<(u32, Ecn)> = exits.lost.iter().map(|run| (run.packet, run.ecn)).collect();
    assert_eq!(lost, [(2, Ecn::NotEct), (3, Ecn::Ce)]);
    assert_eq!(exits.counters.total().marked.segments, 0);
    assert_eq!(bench.queue.backlog().segments, 0);
}
