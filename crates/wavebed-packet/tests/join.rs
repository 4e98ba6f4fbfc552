//! Joining: whatever is joined must give back the very bytes when it is cut.

#![allow(
    clippy::cast_possible_truncation,
    reason = "lengths of test packets are known to fit"
)]

mod common;

use common::{CWR, FIN, PSH, Recipe, SYN, Sum, assemble, example, example_v6, recipe};
use proptest::prelude::*;
use wavebed_packet::{
    HeaderBuf, Joiner, MAX_JOINED_BYTES, MAX_TCP_SEGMENTS, MAX_UDP_SEGMENTS, VnetHeader,
    complete_segment, inspect, piece,
};

/// A packet in two parts, as a piece is.
#[derive(Clone, Debug)]
struct Part {
    vnet: VnetHeader,
    header: Vec<u8>,
    payload: Vec<u8>,
}

impl Part {
    fn bytes(&self) -> Vec<u8> {
        [&self.header[..], &self.payload].concat()
    }

    /// Cuts `first..first + count` out of a recipe's packet.
    fn cut(recipe: &Recipe, first: usize, count: usize) -> Self {
        let (vnet, packet) = recipe.packet();
        let shape = inspect(&vnet, &packet).unwrap();
        let mut out = HeaderBuf::new();
        let part = piece(
            &vnet,
            &packet,
            &shape,
            first as u16,
            count as u16,
            false,
            &mut out,
        );
        let payload = packet[part.payload.clone()].to_vec();
        Self {
            vnet: part.vnet,
            header: part.header.to_vec(),
            payload,
        }
    }

    /// Every wire segment: as it waits for its checksum, and complete.
    fn segments(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let bytes = self.bytes();
        let shape = inspect(&self.vnet, &bytes).unwrap();
        let segment = |index| {
            let mut out = HeaderBuf::new();
            let one = assemble(
                &piece(&self.vnet, &bytes, &shape, index, 1, false, &mut out),
                &bytes,
            );
            let mut full = Vec::new();
            complete_segment(&self.vnet, &bytes, &shape, index, false, &mut full);
            (one, full)
        };
        (0..shape.segments).map(segment).collect()
    }
}

/// Joins whatever may be joined, in order.
fn join(parts: &[Part]) -> Vec<Part> {
    let mut joined = Vec::new();
    let mut engine = Joiner::new();
    let mut payload: Vec<u8> = Vec::new();
    for part in parts {
        if engine.units() > 0 && engine.add(&part.vnet, &part.header, part.payload.len()) {
            payload.extend(&part.payload);
            continue;
        }
        if engine.units() > 0 {
            let (vnet, header) = engine.finish();
            joined.push(Part {
                vnet,
                header: header.to_vec(),
                payload: std::mem::take(&mut payload),
            });
        }
        engine.start(&part.vnet, &part.header, part.payload.len());
        payload.clone_from(&part.payload);
    }
    if engine.units() > 0 {
        let (vnet, header) = engine.finish();
        joined.push(Part {
            vnet,
            header: header.to_vec(),
            payload,
        });
    }
    joined
}

/// Joins and checks that cutting gives back every segment. Returns how many packets were left.
fn check(parts: &[Part]) -> usize {
    let joins = join(parts);
    let before: Vec<_> = parts.iter().flat_map(Part::segments).collect();
    let after: Vec<_> = joins.iter().flat_map(Part::segments).collect();
    assert_eq!(after.len(), before.len());
    for (index, (after, before)) in after.iter().zip(&before).enumerate() {
        assert_eq!(after, before, "segment {index}");
    }
    for part in &joins {
        assert!(part.header.len() + part.payload.len() <= MAX_JOINED_BYTES);
    }
    joins.len()
}

/// The pieces between these places.
fn split(recipe: &Recipe, places: &[usize]) -> Vec<Part> {
    let mut edges: Vec<usize> = places
        .iter()
        .map(|place| place % recipe.segments())
        .collect();
    edges.extend([0, recipe.segments()]);
    edges.sort_unstable();
    edges.dedup();
    edges
        .windows(2)
        .map(|pair| Part::cut(recipe, pair[0], pair[1] - pair[0]))
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

/// Single segments of one flow, without flags.
fn singles(recipe: &Recipe) -> Vec<Part> {
    (0..recipe.segments())
        .map(|index| Part::cut(recipe, index, 1))
        .collect()
}

/// A recipe whose packets may be joined.
fn joinable(recipe: Recipe) -> Recipe {
    Recipe {
        flags: recipe.flags & !0x26,
        ..recipe
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn the_pieces_of_a_packet_become_that_packet_again(
        recipe in recipe(2..30, 1..300),
        places in prop::collection::vec(any::<usize>(), 0..12),
    ) {
        let recipe = joinable(recipe);
        let parts = split(&recipe, &places);
        prop_assert_eq!(check(&parts), 1);
        let joined = join(&parts).remove(0);
        let (vnet, packet) = recipe.packet();
        prop_assert_eq!(joined.bytes(), packet);
        prop_assert_eq!(joined.vnet, vnet);
    }

    #[test]
    fn packets_that_follow_each_other_are_joined(
        recipe in recipe(2..20, 1..300),
        tail in prop::collection::vec(any::<u8>(), 1..2000),
        places in prop::collection::vec(any::<usize>(), 0..8),
    ) {
        let mut first = joinable(recipe);
        first.flags &= !(FIN | PSH | CWR);
        let full = first.payload.len() / first.size * first.size;
        first.payload.truncate(full);
        let second = next(&first, tail);
        let mut parts = split(&first, &places);
        parts.extend(split(&second, &places));
        let most = if first.udp { MAX_UDP_SEGMENTS } else { MAX_TCP_SEGMENTS };
        let left = check(&parts);
        if first.segments() + second.segments() <= usize::from(most) {
            prop_assert_eq!(left, 1);
        }
    }

    #[test]
    fn whatever_is_joined_gives_back_the_same_bytes(
        recipe in recipe(1..12, 1..200),
        places in prop::collection::vec(any::<usize>(), 0..8),
        spoilt in prop::collection::vec((any::<usize>(), any::<usize>(), any::<u8>()), 0..4),
        swaps in prop::collection::vec((any::<usize>(), any::<usize>()), 0..2),
    ) {
        let mut parts = split(&recipe, &places);
        parts.extend(split(&next(&recipe, recipe.payload.clone()), &places));
        for (part, at, byte) in spoilt {
            let index = part % parts.len();
            let header = &mut parts[index].header;
            let at = at % header.len();
            header[at] = byte;
        }
        for (a, b) in swaps {
            let len = parts.len();
            parts.swap(a % len, b % len);
        }
        parts.retain(|part| inspect(&part.vnet, &part.bytes()).is_ok());
        check(&parts);
    }
}

/// Each single change of one header bit of the second of two joinable segments.
#[test]
fn a_segment_that_differs_in_any_bit_stays_alone_or_comes_back_with_it() {
    for (udp, v6) in [(false, false), (false, true), (true, false), (true, true)] {
        let base = if v6 { example_v6() } else { example() };
        let recipe = Recipe {
            udp,
            size: 100,
            payload: vec![3; 200],
            ..base
        };
        let parts = singles(&recipe);
        assert_eq!(check(&parts), 1);
        let mut alone = 0;
        for bit in 0..parts[1].header.len() * 8 {
            let mut parts = parts.clone();
            parts[1].header[bit / 8] ^= 1 << (bit % 8);
            alone += check(&parts) - 1;
        }
        // TCP: FIN and PSH may differ in the last segment; nothing else may.
        let free = if udp { 0 } else { 2 };
        assert_eq!(
            alone,
            parts[1].header.len() * 8 - free,
            "udp {udp}, v6 {v6}"
        );
    }
}

#[test]
fn a_sound_segment_with_other_headers_stays_alone() {
    let recipe = Recipe {
        size: 100,
        payload: vec![1; 100],
        v4_options: vec![1; 4],
        ..example()
    };
    let first = Part::cut(&recipe, 0, 1);
    let follows = next(&recipe, vec![2; 100]);
    assert_eq!(check(&[first.clone(), Part::cut(&follows, 0, 1)]), 1);
    let mut addresses = recipe.addresses;
    addresses.swap(2, 3);
    let others = [
        Recipe {
            tos: 3,
            ..follows.clone()
        },
        Recipe {
            ttl: 63,
            ..follows.clone()
        },
        Recipe {
            dont_fragment: false,
            ..follows.clone()
        },
        Recipe {
            addresses,
            ..follows.clone()
        },
        Recipe {
            v4_options: vec![1, 1, 1, 0],
            ..follows.clone()
        },
        Recipe {
            v4_options: vec![1; 8],
            ..follows.clone()
        },
        Recipe {
            id: 5,
            ..follows.clone()
        },
        Recipe {
            udp: true,
            tcp_options: Vec::new(),
            ..follows.clone()
        },
        Recipe {
            v6: true,
            ..follows
        },
    ];
    for other in others {
        assert_eq!(
            check(&[first.clone(), Part::cut(&other, 0, 1)]),
            2,
            "{other:?}"
        );
    }
}

/// Ones' complement has two zeros; a segment with the one that cutting does not write stays alone.
#[test]
fn a_segment_with_the_other_zero_in_a_checksum_stays_alone() {
    let base = Recipe {
        size: 100,
        payload: vec![1; 200],
        id: 1,
        ..example()
    };
    // Choose the last word of the source address, and then the ID, so that the field in question is a zero.
    let with = |word: u16, id: u16| {
        let mut recipe = Recipe { id, ..base.clone() };
        recipe.addresses[2..4].copy_from_slice(&word.to_be_bytes());
        singles(&recipe)
    };
    let partial = (0..=u16::MAX)
        .map(|word| with(word, 1))
        .find(|parts| parts[1].header[36..38] == [0xff, 0xff])
        .unwrap();
    let header = (0..=u16::MAX)
        .map(|id| with(1, id))
        .find(|parts| parts[1].header[10..12] == [0, 0])
        .unwrap();
    for (mut parts, at, other) in [(partial, 36, [0, 0]), (header, 10, [0xff, 0xff])] {
        assert_eq!(check(&parts), 1);
        parts[1].header[at..at + 2].copy_from_slice(&other);
        assert_eq!(check(&parts), 2);
    }
}

#[test]
fn push_fin_and_a_short_segment_end_a_packet() {
    let recipe = Recipe {
        flags: 0x10,
        size: 100,
        payload: vec![1; 300],
        ..example()
    };
    for flag in [FIN, PSH] {
        let first = Recipe {
            flags: 0x10 | flag,
            ..recipe.clone()
        };
        let mut parts = singles(&first);
        parts.extend(singles(&next(&recipe, vec![2; 100])));
        assert_eq!(check(&parts), 2);
        assert_eq!(join(&parts)[0].header[33], 0x10 | flag);
    }
    let short = Recipe {
        payload: vec![1; 250],
        ..recipe.clone()
    };
    let mut parts = singles(&short);
    parts.extend(singles(&next(&short, vec![2; 50])));
    assert_eq!(check(&parts), 2);
    let mut parts = singles(&Recipe {
        payload: vec![1; 100],
        ..recipe.clone()
    });
    parts.push(Part::cut(
        &Recipe {
            size: 101,
            ..next(
                &Recipe {
                    payload: vec![1; 100],
                    ..recipe
                },
                vec![2; 101],
            )
        },
        0,
        1,
    ));
    assert_eq!(check(&parts), 2, "a larger segment after a smaller one");
}

#[test]
fn cwr_is_joined_at_the_beginning_only() {
    let first = Recipe {
        flags: 0x10 | CWR,
        size: 100,
        payload: vec![1; 300],
        ..example()
    };
    let parts = singles(&first);
    assert_eq!(check(&parts), 1);
    assert_eq!(
        join(&parts)[0].vnet.gso_type,
        VnetHeader::GSO_TCPV4 | VnetHeader::GSO_ECN
    );
    let mut parts = singles(&Recipe {
        flags: 0x10,
        ..first.clone()
    });
    parts.extend(singles(&next(&first, vec![2; 200])));
    assert_eq!(check(&parts), 2);
}

#[test]
fn segments_with_different_marks_stay_apart() {
    let recipe = Recipe {
        size: 100,
        payload: vec![1; 400],
        ..example()
    };
    let (vnet, packet) = recipe.packet();
    let shape = inspect(&vnet, &packet).unwrap();
    let part = |first, count, ce| {
        let mut out = HeaderBuf::new();
        let part = piece(&vnet, &packet, &shape, first, count, ce, &mut out);
        Part {
            vnet: part.vnet,
            header: part.header.to_vec(),
            payload: packet[part.payload.clone()].to_vec(),
        }
    };
    assert_eq!(
        check(&[part(0, 2, false), part(2, 1, true), part(3, 1, true)]),
        2
    );
}

#[test]
fn what_cannot_be_made_again_stays_alone() {
    let recipe = Recipe {
        size: 100,
        payload: vec![1; 200],
        ..example()
    };
    let syn = Recipe {
        flags: SYN,
        ..recipe.clone()
    };
    assert_eq!(check(&singles(&syn)), 2);
    let complete: Vec<Part> = (0..2)
        .map(|index| {
            let bytes = recipe.segment(index, false, Sum::Complete);
            let (header, payload) = bytes.split_at(recipe.header_len());
            Part {
                vnet: VnetHeader::default(),
                header: header.to_vec(),
                payload: payload.to_vec(),
            }
        })
        .collect();
    assert_eq!(check(&complete), 2, "the checksums are complete already");
    let mut parts = singles(&recipe);
    parts.swap(0, 1);
    assert_eq!(check(&parts), 2, "out of order");
    let ping = Part {
        vnet: VnetHeader::default(),
        header: vec![0x45; 20],
        payload: vec![1; 8],
    };
    assert_eq!(check(&[ping.clone(), ping]), 2);
    for udp in [false, true] {
        let empty = Recipe {
            udp,
            payload: Vec::new(),
            ..recipe.clone()
        };
        let parts = [
            Part::cut(&empty, 0, 1),
            Part::cut(&next(&empty, Vec::new()), 0, 1),
        ];
        assert_eq!(check(&parts), 2, "nothing but headers");
    }
}

#[test]
fn segments_that_ask_for_no_checksum_or_for_one_elsewhere_stay_alone() {
    let parts = singles(&Recipe {
        size: 100,
        payload: vec![1; 200],
        ..example()
    });
    let changes: [fn(&mut VnetHeader); 4] = [
        |vnet| vnet.flags = 0,
        |vnet| vnet.flags = VnetHeader::DATA_VALID,
        |vnet| vnet.csum_start = 24,
        |vnet| vnet.csum_offset = 6,
    ];
    for change in changes {
        let mut parts = parts.clone();
        for part in &mut parts {
            change(&mut part.vnet);
        }
        assert_eq!(join(&parts).len(), 2);
    }
}

#[test]
fn joined_packets_stay_within_their_limits() {
    for (udp, most) in [(false, MAX_TCP_SEGMENTS), (true, MAX_UDP_SEGMENTS)] {
        let recipe = Recipe {
            udp,
            size: 10,
            payload: vec![1; 3000],
            ..example()
        };
        let parts = singles(&recipe);
        assert_eq!(check(&parts), 300usize.div_ceil(usize::from(most)));
        assert_eq!(join(&parts)[0].payload.len(), usize::from(most) * 10);
        let recipe = Recipe {
            udp,
            size: 1448,
            payload: vec![1; 1448 * 45],
            ..example_v6()
        };
        assert_eq!(check(&singles(&recipe)), 1);
        let mut parts = singles(&recipe);
        parts.extend(singles(&next(&recipe, vec![2; 1448])));
        assert_eq!(check(&parts), 2);
    }
}

#[test]
fn one_piece_alone_comes_back_as_it_was() {
    let part = Part::cut(&example(), 0, 10);
    let mut joiner = Joiner::new();
    assert!(
        !joiner.start(&part.vnet, &part.header, part.payload.len()),
        "its last segment is short"
    );
    let (vnet, header) = joiner.finish();
    assert_eq!((vnet, header), (part.vnet, &part.header[..]));
    assert!(
        !joiner.add(&part.vnet, &part.header, part.payload.len()),
        "it was finished"
    );
}
