//! Segmentation, against segments that were built one by one.

#![allow(
    clippy::cast_possible_truncation,
    reason = "lengths of test packets are known to fit"
)]

use crate::common::{self, Recipe, Sum, assemble, example, example_v6, plain_sum, recipe};
use proptest::prelude::*;
use wavebed_packet::{
    HeaderBuf, Malformed, Network, Transport, VnetHeader, complete_segment, flip_bit, inspect,
    piece,
};

/// Compares segments `first..first + count`, taken as one piece, with the plain ones.
fn check_range(recipe: &Recipe, first: usize, count: usize, ce: bool) {
    let (vnet, packet) = recipe.packet();
    let shape = inspect(&vnet, &packet).unwrap();
    let mut out = HeaderBuf::new();
    let part = piece(
        &vnet,
        &packet,
        &shape,
        first as u16,
        count as u16,
        ce,
        &mut out,
    );
    let bytes = assemble(&part, &packet);
    assert_eq!(part.bytes(), bytes.len());
    assert_eq!(part.header.len(), recipe.header_len());
    let sub = inspect(&part.vnet, &bytes).unwrap();
    assert_eq!(usize::from(sub.segments), count);
    assert_eq!(sub.flow, shape.flow);
    if count == 1 {
        assert_eq!(bytes, recipe.segment(first, ce, Sum::Partial));
    }
    let (mut again, mut full) = (HeaderBuf::new(), Vec::new());
    for index in 0..count {
        let one = piece(&part.vnet, &bytes, &sub, index as u16, 1, false, &mut again);
        assert!(!one.vnet.is_gso() || recipe.segments() == 1);
        assert_eq!(
            assemble(&one, &bytes),
            recipe.segment(first + index, ce, Sum::Partial)
        );
        complete_segment(&part.vnet, &bytes, &sub, index as u16, false, &mut full);
        assert_eq!(full, recipe.segment(first + index, ce, Sum::Complete));
        assert_eq!(full.len(), usize::from(sub.bytes_of(index as u16)));
    }
}

fn check_all_ranges(recipe: &Recipe) {
    for first in 0..recipe.segments() {
        for count in 1..=recipe.segments() - first {
            check_range(recipe, first, count, false);
            check_range(recipe, first, count, true);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_range_of_segments_equals_the_plain_ones(recipe in recipe(1..9, 1..300)) {
        check_all_ranges(&recipe);
    }

    #[test]
    fn the_shape_is_that_of_the_plain_segments(recipe in recipe(1..40, 1..1500)) {
        let (vnet, packet) = recipe.packet();
        let shape = inspect(&vnet, &packet).unwrap();
        prop_assert_eq!(usize::from(shape.segments), recipe.segments());
        prop_assert_eq!(usize::from(shape.header_len), recipe.header_len());
        prop_assert_eq!(usize::from(shape.l4_offset), recipe.l4_offset());
        prop_assert_eq!(shape.ecn, recipe.tos & 3);
        prop_assert_eq!(shape.network == Network::V6, recipe.v6);
        prop_assert_eq!(shape.transport == Transport::Udp, recipe.udp);
        let mut total = 0;
        for index in 0..recipe.segments() {
            let len = recipe.segment(index, false, Sum::Complete).len();
            prop_assert_eq!(usize::from(shape.bytes_of(index as u16)), len);
            total += len as u64;
        }
        prop_assert_eq!(shape.wire_bytes(), total);
        if shape.segments > 1 {
            prop_assert_eq!(usize::from(shape.payload_per_segment), recipe.size);
        }
    }

    #[test]
    fn a_tcp_super_packet_with_a_complete_checksum_is_cut_alike(recipe in recipe(2..6, 1..300)) {
        prop_assume!(!recipe.udp);
        let (vnet, mut packet) = recipe.packet();
        let vnet = VnetHeader { flags: VnetHeader::DATA_VALID, csum_start: 0, csum_offset: 0, ..vnet };
        let field = recipe.l4_offset() + 16;
        packet[field..field + 2].copy_from_slice(&[0x12, 0x34]);
        let shape = inspect(&vnet, &packet).unwrap();
        let mut full = Vec::new();
        for index in 0..recipe.segments() {
            complete_segment(&vnet, &packet, &shape, index as u16, false, &mut full);
            prop_assert_eq!(&full, &recipe.segment(index, false, Sum::Complete));
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic_and_keep_their_payload(
        mut bytes in prop::collection::vec(any::<u8>(), 0..200),
        head in any::<[u8; 10]>(),
        version in prop::sample::select(vec![0x45u8, 0x46, 0x60, 0x00]),
        gso in prop::sample::select(vec![0u8, 1, 4, 5, 0x81]),
        ce in any::<bool>(),
    ) {
        if let Some(byte) = bytes.first_mut() {
            *byte = version;
        }
        let vnet = VnetHeader { gso_type: gso, ..VnetHeader::parse(&head) };
        if let Ok(shape) = inspect(&vnet, &bytes) {
            let mut payload = Vec::new();
            let mut full = Vec::new();
            for index in 0..shape.segments {
                let mut out = HeaderBuf::new();
                let part = piece(&vnet, &bytes, &shape, index, 1, ce, &mut out);
                payload.extend_from_slice(&bytes[part.payload.clone()]);
                complete_segment(&vnet, &bytes, &shape, index, ce, &mut full);
            }
            prop_assert_eq!(&payload, &bytes[usize::from(shape.header_len)..]);
        }
    }
}

#[test]
fn the_largest_packets_are_cut_right() {
    for (udp, v6) in [(false, false), (false, true), (true, false), (true, true)] {
        let base = if v6 { example_v6() } else { example() };
        let mut recipe = Recipe {
            udp,
            flags: 0xd9,
            ..base
        };
        let room = 65_535 - recipe.header_len();
        recipe.payload = (0..room as u32).map(|i| (i * 31 + i / 253) as u8).collect();
        for size in [536, 1448, 8948] {
            recipe.size = size;
            let n = recipe.segments();
            for (first, count) in [
                (0, 1),
                (0, n),
                (0, n - 1),
                (1, n - 1),
                (n / 2, n - n / 2),
                (n - 1, 1),
            ] {
                check_range(&recipe, first, count, false);
                check_range(&recipe, first, count, true);
            }
        }
    }
}

#[test]
fn one_byte_segments_are_counted_to_the_last() {
    let recipe = Recipe {
        udp: true,
        size: 1,
        payload: vec![7; 60_000],
        ..example()
    };
    let (vnet, packet) = recipe.packet();
    let shape = inspect(&vnet, &packet).unwrap();
    assert_eq!(
        (shape.segments, shape.segment_bytes, shape.last_bytes),
        (60_000, 29, 29)
    );
    check_range(&recipe, 59_990, 10, false);
}

#[test]
fn the_whole_packet_is_returned_unchanged() {
    let (vnet, packet) = example().packet();
    let shape = inspect(&vnet, &packet).unwrap();
    let mut out = HeaderBuf::new();
    let whole = piece(&vnet, &packet, &shape, 0, shape.segments, false, &mut out);
    assert_eq!(whole.vnet, vnet);
    assert!(std::ptr::eq(whole.header.as_ptr(), packet.as_ptr()));
    assert_eq!((whole.header.len(), whole.payload), (52, 52..packet.len()));
    let mut marked = packet.clone();
    marked[1] |= 3;
    let shape = inspect(&vnet, &marked).unwrap();
    let whole = piece(&vnet, &marked, &shape, 0, shape.segments, true, &mut out);
    assert!(
        std::ptr::eq(whole.header.as_ptr(), marked.as_ptr()),
        "it carries CE already"
    );
}

#[test]
fn a_packet_that_is_no_super_packet_is_one_segment_whatever_it_is() {
    let mut icmp = example().segment(0, false, Sum::Complete);
    icmp[9] = 1;
    let mut fragment = example().segment(0, false, Sum::Complete);
    fragment[6] = 0x20;
    let mut truncated = example_v6().segment(0, false, Sum::Complete);
    truncated.truncate(50);
    let garbage = vec![0xa5; 333];
    for packet in [
        icmp,
        fragment,
        truncated,
        garbage,
        Vec::new(),
        vec![0x45],
        vec![0x60; 39],
    ] {
        let vnet = VnetHeader::default();
        let shape = inspect(&vnet, &packet).unwrap();
        assert_eq!(
            (shape.segments, usize::from(shape.last_bytes)),
            (1, packet.len())
        );
        assert_eq!(shape.transport, Transport::Other);
        let mut out = HeaderBuf::new();
        let whole = piece(&vnet, &packet, &shape, 0, 1, false, &mut out);
        assert_eq!(assemble(&whole, &packet), packet);
        let mut full = Vec::new();
        complete_segment(&vnet, &packet, &shape, 0, false, &mut full);
        assert_eq!(full, packet);
    }
}

#[test]
fn a_mark_on_a_single_packet_keeps_every_checksum_right() {
    for (recipe, checked) in [(example(), 20), (example_v6(), 0)] {
        let packet = recipe.segment(3, false, Sum::Complete);
        let vnet = VnetHeader::default();
        let shape = inspect(&vnet, &packet).unwrap();
        let mut out = HeaderBuf::new();
        let marked = piece(&vnet, &packet, &shape, 0, 1, true, &mut out);
        let bytes = assemble(&marked, &packet);
        assert_eq!(marked.vnet, vnet);
        assert_eq!(bytes, recipe.segment(3, true, Sum::Complete));
        assert_eq!(inspect(&vnet, &bytes).unwrap().ecn, 3);
        assert!(checked == 0 || plain_sum(&[&bytes[..checked]]) == 0xffff);
    }
    let garbage = [0x12, 0x34, 0x56];
    let shape = inspect(&VnetHeader::default(), &garbage).unwrap();
    let mut out = HeaderBuf::new();
    let same = piece(
        &VnetHeader::default(),
        &garbage,
        &shape,
        0,
        1,
        true,
        &mut out,
    );
    assert_eq!(
        assemble(&same, &garbage),
        garbage,
        "there is nothing to mark without IP"
    );
}

#[test]
fn extension_headers_beyond_the_limit_pass_when_there_is_nothing_to_cut() {
    let mut recipe = example_v6();
    let mut body = vec![89];
    body.extend([0; 718]);
    recipe.extensions = vec![common::Extension {
        number: 60,
        body,
        final_at: None,
    }];
    let single = recipe.segment(0, false, Sum::Partial);
    let (vnet, packet) = recipe.packet();
    let alone = VnetHeader {
        gso_type: 0,
        gso_size: 0,
        ..vnet
    };
    let shape = inspect(&alone, &single).unwrap();
    let mut full = Vec::new();
    complete_segment(&alone, &single, &shape, 0, true, &mut full);
    assert_eq!(full, recipe.segment(0, true, Sum::Complete));
    assert_eq!(
        inspect(&vnet, &packet),
        Err(Malformed::LongHeaders(40 + 720 + 32))
    );
}

#[test]
fn a_udp_checksum_of_zero_is_sent_as_ffff_and_no_checksum_stays_none() {
    let mut recipe = Recipe {
        udp: true,
        size: 4,
        payload: vec![0; 8],
        ..example()
    };
    let sum = recipe.segment(0, false, Sum::Complete);
    // Put the checksum into the payload of the first segment: its own checksum then is zero.
    let check = [sum[26], sum[27]];
    recipe.payload[..2].copy_from_slice(&check);
    let (vnet, packet) = recipe.packet();
    let shape = inspect(&vnet, &packet).unwrap();
    let mut full = Vec::new();
    complete_segment(&vnet, &packet, &shape, 0, false, &mut full);
    assert_eq!(full[26..28], [0xff, 0xff]);
    let mut none = recipe.segment(1, false, Sum::Complete);
    none[26..28].copy_from_slice(&[0, 0]);
    let shape = inspect(&VnetHeader::default(), &none).unwrap();
    complete_segment(&VnetHeader::default(), &none, &shape, 0, false, &mut full);
    assert_eq!(full, none);
}

#[test]
fn control_traffic_is_recognised() {
    let icmpv6 = |kind: u8, destination: u8| {
        let mut packet = vec![0x60, 0, 0, 0, 0, 8, 58, 255];
        packet.extend([0xfd; 16]);
        packet.extend([destination, if destination == 0xff { 0x02 } else { 0xfd }]);
        packet.extend([0; 14]);
        packet.extend([kind, 0, 0, 0, 0, 0, 0, 0]);
        packet
    };
    let is_control = |packet: &[u8]| inspect(&VnetHeader::default(), packet).unwrap().control;
    for kind in 0..=255 {
        assert_eq!(
            is_control(&icmpv6(kind, 0xfd)),
            matches!(kind, 130..=137 | 143),
            "type {kind}"
        );
    }
    assert!(is_control(&icmpv6(128, 0xff)), "anything to ff02::/16");
    let mut transient = icmpv6(128, 0xff);
    transient[25] = 0x12;
    assert!(is_control(&transient), "a group that nobody assigned");
    transient[25] = 0x05;
    assert!(!is_control(&transient), "a group beyond the link");
    let mut report = icmpv6(0, 0xfd);
    report[6] = 0;
    report.splice(40..40, [58, 0, 5, 2, 0, 0, 1, 0]);
    report[48] = 143;
    assert!(is_control(&report), "MLD behind a router alert");
    let mut igmp = example().segment(0, false, Sum::Complete);
    assert!(!is_control(&igmp));
    igmp[9] = 2;
    assert!(is_control(&igmp));
    igmp[9] = 17;
    igmp[16..20].copy_from_slice(&[224, 0, 0, 251]);
    assert!(is_control(&igmp));
    igmp[18] = 1;
    assert!(!is_control(&igmp));
}

#[test]
fn inconsistent_super_packets_are_refused() {
    let (vnet, packet) = example().packet();
    let kind = |gso_type| VnetHeader { gso_type, ..vnet };
    let refusal = |vnet| inspect(&vnet, &packet).unwrap_err();
    assert_eq!(refusal(kind(3)), Malformed::GsoType(3));
    assert_eq!(refusal(kind(4)), Malformed::Headers(4));
    assert_eq!(refusal(kind(5)), Malformed::Headers(5));
    assert_eq!(
        refusal(VnetHeader {
            gso_size: 0,
            ..vnet
        }),
        Malformed::GsoSize
    );
    let wrong = VnetHeader {
        csum_offset: 6,
        ..vnet
    };
    assert_eq!(
        refusal(wrong),
        Malformed::Checksum {
            start: 20,
            offset: 6
        }
    );
    let wrong = VnetHeader {
        gso_type: 0,
        csum_start: 14_051,
        csum_offset: 0,
        ..vnet
    };
    assert_eq!(
        refusal(wrong),
        Malformed::Checksum {
            start: 14_051,
            offset: 0
        }
    );
    let length = Malformed::Length {
        header: 14_053,
        found: 14_052,
    };
    let headers = Malformed::Headers(1);
    // UDP instead of TCP, header length 4, a fragment, data offset 4, one byte too many.
    let changes = [
        (9, 17),
        (0, 0x44),
        (6, 0x20),
        (32, 0x40),
        (3, packet[3] + 1),
    ];
    for ((at, byte), refusal) in changes
        .into_iter()
        .zip([headers, headers, headers, headers, length])
    {
        let mut packet = packet.clone();
        packet[at] = byte;
        assert_eq!(inspect(&vnet, &packet), Err(refusal), "byte {at}");
    }
    assert_eq!(
        inspect(&VnetHeader::default(), &vec![0; 65_536]),
        Err(Malformed::TooLong(65_536))
    );
}

#[test]
fn udp_super_packets_need_a_partial_checksum_and_the_right_length() {
    let (vnet, mut packet) = Recipe {
        udp: true,
        ..example()
    }
    .packet();
    assert_eq!(
        inspect(&VnetHeader { flags: 0, ..vnet }, &packet),
        Err(Malformed::Headers(5))
    );
    packet[25] ^= 1;
    assert!(matches!(
        inspect(&vnet, &packet),
        Err(Malformed::Length { .. })
    ));
}

#[test]
fn flipping_a_bit_makes_the_checksum_wrong_and_flipping_it_again_right() {
    let (vnet, packet) = example().packet();
    let shape = inspect(&vnet, &packet).unwrap();
    let mut full = Vec::new();
    complete_segment(&vnet, &packet, &shape, 2, false, &mut full);
    let before = full.clone();
    let bits = u32::try_from(before.len() * 8).unwrap();
    for at in [0, 7, 8, bits - 1] {
        flip_bit(&mut full, at);
        let bit = at as usize;
        let changed: Vec<usize> = (0..full.len()).filter(|&i| full[i] != before[i]).collect();
        assert_eq!(changed, [bit / 8]);
        assert_eq!(full[bit / 8] ^ before[bit / 8], 1 << (7 - bit % 8));
        flip_bit(&mut full, at);
        assert_eq!(full, before);
    }
    flip_bit(&mut full, bits);
    assert_eq!(full, before);
}

#[test]
fn the_flow_hash_separates_flows_and_keeps_fragments_together() {
    let flow = |packet: &[u8]| inspect(&VnetHeader::default(), packet).unwrap().flow;
    let first = example().segment(0, false, Sum::Complete);
    assert_eq!(
        flow(&first),
        flow(&example().segment(5, true, Sum::Complete))
    );
    let other = Recipe {
        ports: [0, 1, 0, 2],
        ..example()
    };
    assert_ne!(flow(&first), flow(&other.segment(0, false, Sum::Complete)));
    let (mut head, mut tail) = (first.clone(), first);
    head[6] = 0x20;
    tail[7] = 10;
    tail[20..24].copy_from_slice(&[9; 4]);
    assert_eq!(flow(&head), flow(&tail));
}

#[test]
#[should_panic(expected = "segments 9+2 of a packet of 10")]
fn a_range_beyond_the_packet_is_a_bug_of_the_caller() {
    let (vnet, packet) = example().packet();
    let shape = inspect(&vnet, &packet).unwrap();
    let mut out = HeaderBuf::new();
    let _ = piece(&vnet, &packet, &shape, 9, 2, false, &mut out);
}
