//! Packets of several flows that arrive together and are written as super-packets.

use std::collections::HashMap;

use proptest::prelude::*;
use wavebed_edge::tunnel::CoalesceTable;
use wavebed_packet::checksum::checksum;
use wavebed_packet::{Coalesced, VnetHeader, complete_segment, inspect};

use crate::tunnel::recipes::{Recipe, Sum, example, example_v6};

/// One write to the device, as wire segments.
type Write = Vec<Vec<u8>>;

fn cut(all: &Coalesced<'_, Vec<u8>>) -> Write {
    let payloads: Vec<&[u8]> = all.payloads().collect();
    let packet = [all.header, &payloads.concat()].concat();
    let shape = inspect(&all.vnet, &packet).expect("what the kernel takes");
    let segment = |index| {
        let mut segment = Vec::new();
        complete_segment(&all.vnet, &packet, &shape, index, false, &mut segment);
        segment
    };
    (0..shape.segments).map(segment).collect()
}

/// Passes batches through a table.
fn pass(udp: bool, batches: &[&[Vec<u8>]]) -> Vec<Write> {
    let mut table = CoalesceTable::new(udp);
    let mut writes = Vec::new();
    for batch in batches {
        for packet in *batch {
            let mut write = |all: &Coalesced<'_, Vec<u8>>| writes.push(cut(all));
            table.take(packet.clone(), &mut write);
        }
        table.flush(&mut |all| writes.push(cut(all)));
    }
    writes
}

fn lengths(writes: &[Write]) -> Vec<usize> {
    writes.iter().map(Vec::len).collect()
}

/// A flow with its number in the port, whose packets have 100 bytes of payload and no PSH.
fn flow(number: u8, segments: usize) -> Recipe {
    let base = if number.is_multiple_of(2) {
        example()
    } else {
        example_v6()
    };
    let mut recipe = Recipe {
        size: 100,
        payload: (0..segments * 100)
            .map(|place| place.to_le_bytes()[0] ^ number)
            .collect(),
        ..base
    };
    recipe.ports[3] = number;
    recipe
}

fn segment(recipe: &Recipe, index: usize) -> Vec<u8> {
    recipe.segment(index, false, Sum::Complete)
}

fn segments(recipe: &Recipe) -> Vec<Vec<u8>> {
    (0..recipe.segments())
        .map(|index| segment(recipe, index))
        .collect()
}

/// An echo request.
fn ping() -> Vec<u8> {
    let mut packet = segment(&flow(0, 1), 0);
    packet[9] = 1;
    packet[10..12].fill(0);
    let sum = checksum(&packet[..20]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet
}

#[test]
fn packets_of_interleaved_flows_become_one_super_packet_each() {
    let flows = [flow(0, 5), flow(1, 5), flow(2, 5)];
    let mut batch = Vec::new();
    for index in 0..5 {
        batch.extend(flows.iter().map(|flow| segment(flow, index)));
    }
    let writes = pass(true, &[&batch]);
    assert_eq!(writes, flows.map(|flow| segments(&flow)));
}

#[test]
fn nothing_is_held_beyond_the_end_of_a_batch() {
    let all = segments(&flow(0, 6));
    let writes = pass(true, &[&all[..1], &all[1..4], &[], &all[4..]]);
    assert_eq!(lengths(&writes), [1, 3, 2]);
    assert_eq!(writes.concat(), all);
}

#[test]
fn a_packet_with_push_is_written_before_the_end_of_a_batch() {
    let pushed = Recipe {
        flags: 0x18,
        ..flow(0, 3)
    };
    let mut table = CoalesceTable::new(true);
    let mut writes = 0;
    for packet in segments(&pushed) {
        table.take(packet, &mut |_| writes += 1);
    }
    assert_eq!(writes, 1);
}

#[test]
fn udp_is_coalesced_only_if_the_device_takes_it() {
    let datagrams = segments(&Recipe {
        udp: true,
        ..flow(0, 4)
    });
    assert_eq!(lengths(&pass(true, &[&datagrams])), [4]);
    assert_eq!(lengths(&pass(false, &[&datagrams])), [1, 1, 1, 1]);
}

#[test]
fn what_has_no_ports_comes_after_all_before_it() {
    let all = segments(&flow(0, 4));
    let batch = [&all[..2], &[ping()], &all[2..]].concat();
    let writes = pass(true, &[&batch]);
    assert_eq!(lengths(&writes), [2, 1, 2]);
    assert_eq!(writes.concat(), batch);
}

#[test]
fn more_flows_than_are_held_keep_their_packets() {
    let flows: Vec<Recipe> = (0..20).map(|number| flow(number, 2)).collect();
    let mut batch = Vec::new();
    for index in 0..2 {
        batch.extend(flows.iter().map(|flow| segment(flow, index)));
    }
    let writes = pass(true, &[&batch]);
    let mut written = writes.concat();
    written.sort_unstable();
    batch.sort_unstable();
    assert_eq!(written, batch);
}

/// What of a segment has a meaning: not the IPv4 ID of one that must not be fragmented, nor its part of the checksum.
fn meaning(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    if packet[0] >> 4 == 4 && packet[6] & 0x40 != 0 {
        assert_eq!(checksum(&packet[..20]), 0);
        packet[4..6].fill(0);
        packet[10..12].fill(0);
    }
    packet
}

/// Packets by flow, in their order.
fn by_flow(packets: &[Vec<u8>]) -> HashMap<u32, Vec<Vec<u8>>> {
    let mut flows: HashMap<u32, Vec<Vec<u8>>> = HashMap::new();
    for packet in packets {
        let shape = inspect(&VnetHeader::default(), packet).expect("IP");
        flows.entry(shape.flow).or_default().push(meaning(packet));
    }
    flows
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn packets_of_a_flow_stay_the_same_and_in_order(
        kinds in prop::collection::vec((any::<bool>(), 0u8..4), 1..12),
        order in prop::collection::vec((any::<prop::sample::Index>(), 0u8..24), 1..150),
        batch in 1usize..70,
        udp in any::<bool>(),
    ) {
        let flows: Vec<Recipe> = kinds
            .iter()
            .zip(0u8..)
            .map(|((is_udp, kind), number)| {
                let flags = [0x10, 0x18, 0x11, 0x90][usize::from(*kind)];
                Recipe { udp: *is_udp, flags, ..flow(number, 12) }
            })
            .collect();
        let mut sent = vec![0_usize; flows.len()];
        let mut packets = Vec::new();
        for (choice, event) in order {
            let number = choice.index(flows.len());
            let (flow, next) = (&flows[number], &mut sent[number]);
            match event {
                // A loss, a repetition, a mark, no payload, a packet out of order, something else.
                0 => *next += 1,
                1 => *next = next.saturating_sub(1),
                2 => packets.push(flow.segment(*next % 12, true, Sum::Complete)),
                3 => packets.push(segment(&Recipe { payload: Vec::new(), ..flow.clone() }, 0)),
                4 => packets.push(segment(flow, (*next + 1) % 12)),
                5 => packets.push(ping()),
                _ => {
                    packets.push(segment(flow, *next % 12));
                    *next += 1;
                }
            }
        }
        let batches: Vec<&[Vec<u8>]> = packets.chunks(batch).collect();
        let written = pass(udp, &batches).concat();
        prop_assert_eq!(by_flow(&written), by_flow(&packets));
    }
}
