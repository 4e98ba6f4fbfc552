//! Behaviour of the flow queues.

use std::collections::BTreeMap;

use proptest::prelude::*;
use wavebed_edge::tunnel::queue::{FlowQueues, FlowQueuesSettings, HostAddress};

use crate::tunnel::packets::{Flow, ecn, flow_of, number, packet};

const MS: u64 = 1_000_000;

fn udp(destination: u8, port: u16) -> Flow {
    Flow {
        source: 1,
        destination,
        protocol: 17,
        port,
    }
}

fn queues(settings: FlowQueuesSettings) -> FlowQueues {
    FlowQueues::new(settings, 7)
}

/// Serves `count` packets at `now_ns`; returns how many of each flow.
fn serve(queues: &mut FlowQueues, count: usize, now_ns: u64) -> BTreeMap<Flow, usize> {
    let mut served = BTreeMap::new();
    for _ in 0..count {
        let packet = queues.dequeue(now_ns).expect("a packet waits");
        *served.entry(flow_of(&packet.bytes)).or_default() += 1;
    }
    served
}

#[test]
fn hosts_share_the_link_equally_whatever_their_flows_and_flows_share_their_host() {
    let mut queues = queues(FlowQueuesSettings::default());
    for number in 0..200 {
        for port in 0..9 {
            queues.enqueue(packet(udp(1, port), 0, 1500, number), 0);
        }
        queues.enqueue(packet(udp(2, 0), 0, 1500, number), 0);
    }
    let served = serve(&mut queues, 360, MS);
    assert!(served[&udp(2, 0)].abs_diff(180) <= 2, "{served:?}");
    for port in 0..9 {
        assert!(served[&udp(1, port)].abs_diff(20) <= 2, "{served:?}");
    }
}

#[test]
fn hosts_are_told_apart_by_the_chosen_address() {
    let mut queues = queues(FlowQueuesSettings {
        host: HostAddress::Source,
        ..FlowQueuesSettings::default()
    });
    let from = |source, destination, port| Flow {
        source,
        ..udp(destination, port)
    };
    for number in 0..200 {
        for port in 0..9 {
            queues.enqueue(packet(from(1, 2, port), 0, 1500, number), 0);
        }
        queues.enqueue(packet(from(3, 2, 0), 0, 1500, number), 0);
    }
    let served = serve(&mut queues, 100, MS);
    assert!(served[&from(3, 2, 0)].abs_diff(50) <= 2, "{served:?}");
}

#[test]
fn a_share_is_in_bytes_not_in_packets() {
    let mut queues = queues(FlowQueuesSettings::default());
    for number in 0..2000 {
        queues.enqueue(packet(udp(1, 0), 0, 150, number), 0);
        queues.enqueue(packet(udp(1, 1), 0, 1500, number), 0);
    }
    let served = serve(&mut queues, 1100, MS);
    assert!(served[&udp(1, 0)].abs_diff(1000) <= 20, "{served:?}");
}

#[test]
fn a_sparse_flow_passes_a_queue_that_another_fills() {
    let mut queues = queues(FlowQueuesSettings::default());
    for number in 0..500 {
        queues.enqueue(packet(udp(1, 0), 0, 1500, number), 0);
    }
    serve(&mut queues, 10, MS);
    let ping = udp(1, 9);
    queues.enqueue(packet(ping, 0, 64, 0), MS);
    let served = serve(&mut queues, 2, MS);
    assert_eq!(served.get(&ping), Some(&1));
}

#[test]
fn full_queues_cost_the_fattest_flow_only() {
    let settings = FlowQueuesSettings {
        limit_bytes: 300_000,
        ..FlowQueuesSettings::default()
    };
    let mut queues = queues(settings);
    for number in 0..50 {
        queues.enqueue(packet(udp(1, 1), 0, 1000, number), 0);
    }
    for number in 0..2000 {
        queues.enqueue(packet(udp(1, 2), 0, 1500, number), 0);
        assert!(queues.backlog().bytes <= settings.limit_bytes);
    }
    assert!(queues.counters().dropped_overflow > 1700);
    let mut mine = 0;
    while let Some(packet) = queues.dequeue(0) {
        mine += usize::from(flow_of(&packet.bytes) == udp(1, 1));
    }
    assert_eq!(mine, 50);
}

/// A flow that sends twice what it gets, for 20 s. Returned are the sojourn times of the last 5 s.
fn overload(ecn_field: u8, limit_bytes: u64) -> (FlowQueues, Vec<u64>) {
    let mut queues = queues(FlowQueuesSettings {
        limit_bytes,
        ..FlowQueuesSettings::default()
    });
    let mut sojourn = Vec::new();
    for step in 0..20_000 {
        let now_ns = step * MS;
        for part in 0..2 {
            queues.enqueue(
                packet(udp(1, 1), ecn_field, 1500, 2 * step + part),
                now_ns + part * MS / 2,
            );
        }
        let served = queues.dequeue(now_ns + MS / 2);
        if let Some(packet) = served.filter(|_| step >= 15_000) {
            sojourn.push(now_ns + MS / 2 - packet.arrived_ns);
        }
    }
    (queues, sojourn)
}

#[test]
fn blue_empties_the_queue_of_a_flow_that_does_not_respond() {
    let (queues, mut sojourn) = overload(0, 200_000);
    sojourn.sort_unstable();
    let median = sojourn[sojourn.len() / 2];
    assert!(
        queues.counters().dropped_blue > 1000,
        "{:?}",
        queues.counters()
    );
    assert!(median < 50 * MS, "{} ms", median / MS);
}

#[test]
fn ecn_capable_packets_are_marked_before_any_is_dropped() {
    let mut queues = queues(FlowQueuesSettings::default());
    let mut marked = 0;
    for step in 0..1000 {
        let now_ns = step * MS;
        queues.enqueue(packet(udp(1, 1), 2, 1500, step), now_ns);
        if step >= 40 {
            let served = queues.dequeue(now_ns).expect("40 wait");
            marked += u64::from(ecn(&served.bytes) == 3);
        }
    }
    assert!(marked > 5, "{marked}");
    assert_eq!(
        (queues.counters().marked, queues.counters().dropped()),
        (marked, 0)
    );
}

#[test]
fn many_flows_share_a_bounded_table() {
    let mut queues = queues(FlowQueuesSettings::default());
    for number in 0..20_000u64 {
        let [high, low] = u16::try_from(number).expect("small").to_be_bytes();
        queues.enqueue(
            packet(udp(high, u16::from(low)), 0, 100, number),
            number * 100,
        );
    }
    assert_eq!(queues.backlog().segments, 20_000);
    let mut seen = vec![false; 20_000];
    while let Some(packet) = queues.dequeue(2 * MS) {
        let place = usize::try_from(number(&packet.bytes)).expect("small");
        assert!(!std::mem::replace(&mut seen[place], true), "served twice");
    }
    assert!(seen.iter().all(|seen| *seen));
}

proptest! {
    #[test]
    fn every_packet_is_sent_dropped_or_waits_and_flows_keep_their_order(
        limit_bytes in 2_000u64..100_000,
        seed: u64,
        steps in proptest::collection::vec((0u8..4, 0u16..6, 0u8..4, 48usize..1500, 0u64..30), 1..400),
    ) {
        let mut queues = FlowQueues::new(
            FlowQueuesSettings { limit_bytes, ..FlowQueuesSettings::default() },
            seed,
        );
        let mut last = BTreeMap::new();
        let mut now_ns = 0;
        for (order, (destination, port, ecn, bytes, wait_ms)) in (1u64..).zip(steps) {
            now_ns += wait_ms * MS;
            queues.enqueue(packet(udp(destination, port), ecn, bytes, order), now_ns);
            if wait_ms % 3 > 0 && let Some(served) = queues.dequeue(now_ns) {
                let before = last.insert(flow_of(&served.bytes), number(&served.bytes));
                prop_assert!(before.is_none_or(|before| before < number(&served.bytes)));
            }
            let counters = *queues.counters();
            let backlog = queues.backlog();
            prop_assert_eq!(counters.arrived, order);
            prop_assert_eq!(counters.arrived, counters.sent + counters.dropped() + backlog.segments);
            prop_assert!(backlog.bytes <= limit_bytes);
            prop_assert_eq!(backlog.bytes == 0, backlog.segments == 0);
        }
    }

    #[test]
    fn any_bytes_are_served_as_they_came(bytes in proptest::collection::vec(any::<u8>(), 1..200)) {
        let mut queues = queues(FlowQueuesSettings::default());
        queues.enqueue(bytes.clone(), 0);
        prop_assert_eq!(queues.dequeue(1).map(|packet| packet.bytes), Some(bytes));
    }
}

#[test]
fn dscp_and_ecn_stay_as_they_are_where_no_queue_stands() {
    let mut queues = FlowQueues::new(FlowQueuesSettings::default(), 1);
    for class in [0x00, 0x01, 0x02, 0x03, 0xb8, 0xb9, 0xba, 0xbb, 0x28, 0x89] {
        let sent = packet(udp(1, 1), class, 200, 1);
        queues.enqueue(sent.clone(), 0);
        let served = queues.dequeue(0).expect("it waits");
        assert_eq!(served.bytes, sent, "{class:#04x}");
    }
}
