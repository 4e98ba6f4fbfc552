//! Random packets for the tests, and a plain reference for them.

#![allow(dead_code, reason = "each test binary uses a part")]
#![allow(
    clippy::cast_possible_truncation,
    reason = "lengths of test packets are known to fit"
)]

mod plain;

pub use plain::*;
use proptest::collection::vec;
use proptest::prelude::*;

fn extension() -> impl Strategy<Value = Extension> {
    let options = (any::<bool>(), 1..5usize).prop_flat_map(|(first, units)| {
        vec(any::<u8>(), units * 8 - 2).prop_map(move |rest| {
            let mut body = vec![(units - 1) as u8];
            body.extend(rest);
            Extension {
                number: if first { 0 } else { 60 },
                body,
                final_at: None,
            }
        })
    });
    let routing = (prop::sample::select(vec![0u8, 2, 4]), 1..4usize, 0..3u8).prop_flat_map(
        |(kind, hops, left)| {
            vec(any::<u8>(), hops * 16).prop_map(move |list| {
                let mut body = vec![(hops * 2) as u8, kind, left, 0, 0, 0, 0];
                body.extend(list);
                let at = if kind == 4 { 7 } else { 7 + (hops - 1) * 16 };
                Extension {
                    number: 43,
                    body,
                    final_at: (left > 0).then_some(at),
                }
            })
        },
    );
    prop_oneof![2 => options, 1 => routing]
}

fn extensions() -> impl Strategy<Value = Vec<Extension>> {
    vec(extension(), 0..4).prop_map(|mut list| {
        // One routing header at most: two would need a rule of their own.
        let mut seen = false;
        list.retain(|e| e.number != 43 || !std::mem::replace(&mut seen, true));
        list
    })
}

/// Packets of `segments` segments of TCP or UDP with everything that headers may carry, but SYN and RST.
pub fn recipe(
    segments: std::ops::Range<usize>,
    sizes: std::ops::Range<usize>,
) -> impl Strategy<Value = Recipe> {
    let words = || (0..11usize).prop_flat_map(|n| vec(any::<u8>(), n * 4));
    let body = (segments, sizes).prop_flat_map(|(n, size)| {
        let longest = n * size;
        (Just(size), longest - size + 1..longest + 1)
    });
    let body = body.prop_flat_map(|(size, len)| (Just(size), vec(any::<u8>(), len)));
    let network = (
        any::<[u8; 32]>(),
        any::<[u8; 4]>(),
        words(),
        extensions(),
        any::<bool>(),
    );
    let fields = (
        any::<u8>(),
        any::<u32>(),
        any::<u16>(),
        any::<bool>(),
        any::<u8>(),
    );
    let tcp = (
        any::<u32>(),
        any::<u32>(),
        any::<u8>(),
        any::<u16>(),
        any::<u16>(),
        words(),
        any::<bool>(),
    );
    (network, fields, tcp, body).prop_map(|(network, fields, tcp, (size, payload))| Recipe {
        v6: network.4,
        udp: tcp.6,
        tos: fields.0,
        flow_label: fields.1 & 0xf_ffff,
        id: fields.2,
        dont_fragment: fields.3,
        ttl: fields.4,
        addresses: network.0,
        v4_options: if network.4 { Vec::new() } else { network.2 },
        extensions: if network.4 { network.3 } else { Vec::new() },
        ports: network.1,
        sequence: tcp.0,
        acknowledgement: tcp.1,
        reserved: tcp.2 >> 4,
        flags: tcp.2.wrapping_mul(31) & !0x06,
        window: tcp.3,
        urgent: tcp.4,
        tcp_options: tcp.5,
        size,
        payload,
    })
}
