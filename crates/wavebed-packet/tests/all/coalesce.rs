//! Coalescing: cutting what was coalesced must give the same segments again.

#![allow(
    clippy::cast_possible_truncation,
    reason = "lengths of test packets are known to fit"
)]

use crate::common::{CWR, FIN, PSH, Recipe, SYN, Sum, example, example_v6, recipe};
use proptest::prelude::*;
use wavebed_packet::checksum::checksum;
use wavebed_packet::{Coalescer, HeaderBuf, MAX_COALESCED, VnetHeader, complete_segment, inspect};

/// A packet for the kernel.
#[derive(Clone, Debug, PartialEq)]
struct Written {
    vnet: VnetHeader,
    packet: Vec<u8>,
}

/// Coalesces what may be, in order.
fn coalesce(segments: &[Vec<u8>]) -> Vec<Written> {
    coalesce_by(Coalescer::default(), segments)
}

fn coalesce_by<'a>(mut coalescer: Coalescer<&'a [u8]>, segments: &'a [Vec<u8>]) -> Vec<Written> {
    let mut written = Vec::new();
    let mut out = HeaderBuf::new();
    let mut write = |coalescer: &Coalescer<&[u8]>| {
        let all = coalescer.coalesced(&mut out);
        if !all.packets.is_empty() {
            let payloads: Vec<&[u8]> = all.payloads().collect();
            let packet = [all.header, &payloads.concat()].concat();
            let vnet = all.vnet;
            written.push(Written { vnet, packet });
        }
    };
    for segment in segments {
        let shape = inspect(&VnetHeader::default(), segment).unwrap();
        if coalescer.add(segment, &shape).is_err() {
            write(&coalescer);
            coalescer.start(segment, &shape);
        }
    }
    write(&coalescer);
    written
}

/// The wire segments of a packet.
fn cut(written: &Written) -> Vec<Vec<u8>> {
    let shape = inspect(&written.vnet, &written.packet).unwrap();
    let segment = |index| {
        let mut full = Vec::new();
        complete_segment(
            &written.vnet,
            &written.packet,
            &shape,
            index,
            false,
            &mut full,
        );
        full
    };
    (0..shape.segments).map(segment).collect()
}

/// A segment without what has no meaning: the IPv4 ID where the packet must not be fragmented, and its part of the
/// checksum, which has to be right.
fn meaning(segment: &[u8]) -> Vec<u8> {
    let mut segment = segment.to_vec();
    let header_len = usize::from(segment[0] & 15) * 4;
    if segment[0] >> 4 == 4
        && segment.len() >= header_len.max(20)
        && segment[6] & 0x40 != 0
        && checksum(&segment[..header_len]) == 0
    {
        segment[4..6].fill(0);
        segment[10..12].fill(0);
    }
    segment
}

/// Coalesces, and checks that cutting gives the segments again. Returns how many packets there are.
fn check(segments: &[Vec<u8>]) -> usize {
    let written = coalesce(segments);
    let after: Vec<_> = written.iter().flat_map(cut).collect();
    assert_eq!(after.len(), segments.len());
    for (index, (after, before)) in after.iter().zip(segments).enumerate() {
        assert_eq!(meaning(after), meaning(before), "segment {index}");
    }
    let exact = coalesce_by(Coalescer::exact(), segments);
    let after: Vec<_> = exact.iter().flat_map(cut).collect();
    assert_eq!(after, segments, "every byte");
    written.len()
}

/// The wire segments of a packet as they arrive.
fn segments(recipe: &Recipe) -> Vec<Vec<u8>> {
    (0..recipe.segments())
        .map(|index| recipe.segment(index, false, Sum::Complete))
        .collect()
}

/// What the sender would send next, with `payload`.
fn next(recipe: &Recipe, payload: Vec<u8>) -> Recipe {
    Recipe {
        id: recipe.id.wrapping_add(recipe.segments() as u16),
        sequence: recipe.sequence.wrapping_add(recipe.payload.len() as u32),
        payload,
        ..recipe.clone()
    }
}

/// Whose packets may be coalesced.
fn plain(recipe: Recipe) -> Recipe {
    Recipe {
        flags: recipe.flags & !0x26,
        ..recipe
    }
}

/// Three segments of 100 bytes without PSH.
fn three() -> Recipe {
    Recipe {
        flags: 0x10,
        size: 100,
        payload: vec![1; 300],
        ..example()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn the_segments_of_a_packet_become_that_packet_again(recipe in recipe(2..30, 1..300)) {
        let recipe = plain(recipe);
        let (vnet, packet) = recipe.packet();
        prop_assert_eq!(coalesce(&segments(&recipe)), vec![Written { vnet, packet }]);
    }

    #[test]
    fn segments_whose_checksums_the_kernel_completes_become_that_packet_again(recipe in recipe(2..30, 1..300)) {
        let recipe = plain(recipe);
        let (vnet, packet) = recipe.packet();
        let of_one = VnetHeader { gso_type: VnetHeader::GSO_NONE, gso_size: 0, ..vnet };
        let segments: Vec<_> = (0..recipe.segments())
            .map(|index| recipe.segment(index, false, Sum::Partial))
            .collect();
        let mut coalescer: Coalescer<&[u8]> = Coalescer::default();
        let shape = |segment: &Vec<u8>| inspect(&of_one, segment).unwrap();
        coalescer.start_after(&of_one, &segments[0], &shape(&segments[0]));
        let complete = recipe.segment(1, false, Sum::Complete);
        let plain_shape = inspect(&VnetHeader::default(), &complete).unwrap();
        prop_assert!(coalescer.add(&complete, &plain_shape).is_err());
        for segment in &segments[1..] {
            prop_assert!(coalescer.add_after(&of_one, segment, &shape(segment)).is_ok());
        }
        let mut out = HeaderBuf::new();
        let all = coalescer.coalesced(&mut out);
        let payloads: Vec<&[u8]> = all.payloads().collect();
        prop_assert_eq!((all.vnet, [all.header, &payloads.concat()].concat()), (vnet, packet));
    }

    #[test]
    fn packets_that_follow_each_other_are_coalesced(
        recipe in recipe(2..20, 1..300),
        tail in prop::collection::vec(any::<u8>(), 1..2000),
    ) {
        let mut first = plain(recipe);
        first.flags &= !(FIN | PSH | CWR);
        let full = first.payload.len() / first.size * first.size;
        first.payload.truncate(full);
        let second = next(&first, tail);
        let all = [segments(&first), segments(&second)].concat();
        let left = check(&all);
        if all.len() <= MAX_COALESCED {
            prop_assert_eq!(left, 1);
        }
    }

    #[test]
    fn whatever_is_coalesced_gives_the_same_segments(
        recipe in recipe(1..12, 1..200),
        marks in prop::collection::vec(any::<usize>(), 0..3),
        spoilt in prop::collection::vec((any::<usize>(), any::<usize>(), any::<u8>()), 0..4),
        swaps in prop::collection::vec((any::<usize>(), any::<usize>()), 0..3),
        gaps in prop::collection::vec(any::<usize>(), 0..3),
    ) {
        let mut all = segments(&recipe);
        all.extend(segments(&next(&recipe, recipe.payload.clone())));
        for place in marks {
            let index = place % recipe.segments();
            all[index] = recipe.segment(index, true, Sum::Complete);
        }
        let count = all.len();
        for (index, at, byte) in spoilt {
            let segment = &mut all[index % count];
            let at = at % segment.len();
            segment[at] = byte;
        }
        for (a, b) in swaps {
            all.swap(a % count, b % count);
        }
        for place in gaps {
            all.remove(place % all.len());
            if all.is_empty() {
                return Ok(());
            }
        }
        check(&all);
    }

    #[test]
    fn arbitrary_bytes_stay_as_they_are(
        mut packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..120), 1..6),
        version in prop::sample::select(vec![0x45u8, 0x46, 0x60, 0x00]),
    ) {
        for packet in &mut packets {
            packet[0] = version;
        }
        prop_assert_eq!(check(&packets), packets.len());
    }
}

#[test]
fn a_segment_that_differs_in_any_bit_stays_alone() {
    for (udp, v6) in [(false, false), (false, true), (true, false), (true, true)] {
        let base = if v6 { example_v6() } else { example() };
        let recipe = Recipe {
            udp,
            size: 100,
            payload: vec![3; 200],
            ..base
        };
        let all = segments(&recipe);
        assert_eq!(check(&all), 1);
        for bit in 0..all[1].len() * 8 {
            let mut all = all.clone();
            all[1][bit / 8] ^= 1 << (bit % 8);
            assert_eq!(check(&all), 2, "bit {bit}, udp {udp}, v6 {v6}");
            let mut all = segments(&recipe);
            all[0][bit / 8] ^= 1 << (bit % 8);
            assert_eq!(check(&all), 2, "bit {bit} of the first");
        }
    }
}

#[test]
fn an_identification_that_does_not_count_on_stays_where_every_byte_has_to() {
    let recipe = Recipe {
        dont_fragment: true,
        ..three()
    };
    let follows = next(&recipe, vec![1; 100]);
    let skips = Recipe {
        id: follows.id.wrapping_add(1),
        ..follows.clone()
    };
    for (second, exact) in [(follows, 1), (skips, 2)] {
        let all = [segments(&recipe), segments(&second)].concat();
        assert_eq!(check(&all), 1);
        assert_eq!(coalesce_by(Coalescer::exact(), &all).len(), exact);
    }
}

#[test]
fn a_sound_segment_with_other_headers_stays_alone() {
    let recipe = Recipe {
        size: 100,
        payload: vec![1; 100],
        v4_options: vec![1; 4],
        dont_fragment: false,
        ..example()
    };
    let first = recipe.segment(0, false, Sum::Complete);
    let follows = next(&recipe, vec![2; 100]);
    let with = |other: &Recipe| [first.clone(), other.segment(0, false, Sum::Complete)];
    assert_eq!(check(&with(&follows)), 1);
    let mut addresses = recipe.addresses;
    addresses.swap(2, 3);
    let changes: [fn(&mut Recipe); 15] = [
        |other| other.tos = 3,
        |other| other.tos = 0x2a,
        |other| other.ttl = 63,
        |other| other.dont_fragment = true,
        |other| other.v4_options = vec![1, 1, 1, 0],
        |other| other.v4_options = vec![1; 8],
        |other| other.id = 5,
        |other| other.ports[3] += 1,
        |other| other.acknowledgement += 1,
        |other| other.window += 1,
        |other| other.tcp_options[7] += 1,
        |other| other.tcp_options.truncate(8),
        |other| other.flags ^= 0x40,
        |other| {
            other.udp = true;
            other.tcp_options = Vec::new();
        },
        |other| other.v6 = true,
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut other = follows.clone();
        change(&mut other);
        assert_eq!(check(&with(&other)), 2, "change {number}");
    }
    let other = Recipe {
        addresses,
        ..follows
    };
    assert_eq!(check(&with(&other)), 2);
}

#[test]
fn packets_that_must_not_be_fragmented_may_have_any_ipv4_id() {
    let recipe = three();
    let follows = Recipe {
        id: 5,
        ..next(&recipe, vec![2; 100])
    };
    let all = [segments(&recipe), segments(&follows)].concat();
    assert_eq!(check(&all), 1);
}

#[test]
fn push_fin_and_a_short_segment_end_a_packet() {
    for flag in [FIN, PSH] {
        let first = Recipe {
            flags: 0x10 | flag,
            ..three()
        };
        let all = [segments(&first), segments(&next(&three(), vec![2; 100]))].concat();
        assert_eq!(check(&all), 2);
        assert_eq!(coalesce(&all)[0].packet[33], 0x10 | flag);
    }
    let short = Recipe {
        payload: vec![1; 250],
        ..three()
    };
    let all = [segments(&short), segments(&next(&short, vec![2; 50]))].concat();
    assert_eq!(check(&all), 2);
    let larger = Recipe {
        size: 101,
        ..next(&three(), vec![2; 101])
    };
    let all = [segments(&three()), segments(&larger)].concat();
    assert_eq!(check(&all), 2, "a larger segment after a smaller one");
}

#[test]
fn cwr_begins_a_packet() {
    let first = Recipe {
        flags: 0x10 | CWR,
        ..three()
    };
    let all = segments(&first);
    assert_eq!(check(&all), 1);
    let kind = VnetHeader::GSO_TCPV4 | VnetHeader::GSO_ECN;
    assert_eq!(coalesce(&all)[0].vnet.gso_type, kind);
    let all = [segments(&three()), segments(&next(&first, vec![2; 200]))].concat();
    assert_eq!(check(&all), 2);
}

#[test]
fn segments_with_and_without_a_mark_stay_apart() {
    let recipe = Recipe {
        payload: vec![1; 500],
        ..three()
    };
    let all: Vec<_> = [false, false, true, true, false]
        .into_iter()
        .enumerate()
        .map(|(index, ce)| recipe.segment(index, ce, Sum::Complete))
        .collect();
    assert_eq!(check(&all), 3);
}

#[test]
fn segments_after_a_gap_again_or_out_of_order_stay_apart() {
    let recipe = Recipe {
        payload: vec![1; 500],
        ..three()
    };
    let all = segments(&recipe);
    let chosen = |places: &[usize]| -> Vec<_> { places.iter().map(|p| all[*p].clone()).collect() };
    assert_eq!(check(&chosen(&[0, 1, 3, 4])), 2, "a gap");
    assert_eq!(check(&chosen(&[0, 1, 1, 2])), 2, "one twice");
    assert_eq!(check(&chosen(&[1, 0])), 2, "out of order");
    assert_eq!(check(&chosen(&[0, 1, 4, 2, 3])), 3, "one too early");
}

#[test]
fn segments_with_syn_rst_or_urg_and_those_without_payload_stay_alone() {
    for flag in [SYN, 0x04, 0x20] {
        let recipe = Recipe {
            flags: 0x10 | flag,
            ..three()
        };
        assert_eq!(check(&segments(&recipe)), 3);
    }
    for udp in [false, true] {
        let empty = Recipe {
            udp,
            payload: Vec::new(),
            ..three()
        };
        let all = [segments(&empty), segments(&next(&empty, Vec::new()))].concat();
        assert_eq!(check(&all), 2);
    }
}

#[test]
fn datagrams_without_a_checksum_and_fragments_stay_alone() {
    let recipe = Recipe {
        udp: true,
        ..three()
    };
    let mut all = segments(&recipe);
    assert_eq!(check(&all), 1);
    for datagram in &mut all {
        datagram[26..28].fill(0);
    }
    assert_eq!(check(&all), 3);
    let mut all = segments(&recipe);
    for datagram in &mut all {
        datagram[6] = 0x20;
        datagram[10..12].fill(0);
        let sum = checksum(&datagram[..20]);
        datagram[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    assert_eq!(check(&all), 3);
}

#[test]
fn coalesced_packets_stay_within_their_limits() {
    for udp in [false, true] {
        let recipe = Recipe {
            udp,
            size: 10,
            payload: vec![1; 3000],
            ..example()
        };
        let all = segments(&recipe);
        assert_eq!(check(&all), 300usize.div_ceil(MAX_COALESCED));
        let recipe = Recipe {
            udp,
            size: 1448,
            payload: vec![1; 1448 * 45],
            ..example_v6()
        };
        let first = segments(&recipe);
        assert_eq!(check(&first), 1);
        let all = [first, segments(&next(&recipe, vec![2; 1448]))].concat();
        assert_eq!(check(&all), 2, "65,535 bytes");
    }
}

#[test]
fn one_packet_comes_back_as_it_was_and_none_after_clear() {
    let packet = example().segment(0, false, Sum::Complete);
    let shape = inspect(&VnetHeader::default(), &packet).unwrap();
    let mut coalescer = Coalescer::default();
    assert!(coalescer.start(&packet, &shape));
    let mut out = HeaderBuf::new();
    let alone = coalescer.coalesced(&mut out);
    assert_eq!((alone.vnet, alone.header), (VnetHeader::default(), &[][..]));
    assert_eq!(alone.payloads().collect::<Vec<_>>(), [&packet]);
    coalescer.clear();
    assert!(coalescer.coalesced(&mut out).packets.is_empty());
    let follows = example().segment(1, false, Sum::Complete);
    assert!(coalescer.add(&follows, &shape).is_err());
}
