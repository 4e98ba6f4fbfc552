//! Pieces of a super-packet against a plain function that builds every wire segment: the same bytes.

#![no_main]

#[path = "../../crates/wavebed-packet/tests/common/plain.rs"]
mod plain;

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use plain::{Extension, Recipe, Sum};
use wavebed_packet::{HeaderBuf, VnetHeader, complete_segment, inspect, piece};

fn words(u: &mut Unstructured) -> Result<Vec<u8>> {
    let n = u.int_in_range(0..=10usize)?;
    Ok(u.bytes(n * 4)?.to_vec())
}

fn extensions(u: &mut Unstructured) -> Result<Vec<Extension>> {
    let mut list = Vec::new();
    let mut routed = false;
    for _ in 0..u.int_in_range(0..=3)? {
        let number = *u.choose(&[0, 60, 43])?;
        let units = u.int_in_range(1..=4usize)?;
        if number != 43 {
            let mut body = vec![(units - 1) as u8];
            body.extend(u.bytes(units * 8 - 2)?);
            list.push(Extension {
                number,
                body,
                final_at: None,
            });
        } else if !std::mem::replace(&mut routed, true) {
            let (kind, left) = (*u.choose(&[0, 2, 4])?, u.int_in_range(0..=2u8)?);
            let mut body = vec![(units * 2) as u8, kind, left, 0, 0, 0, 0];
            body.extend(u.bytes(units * 16)?);
            let at = if kind == 4 { 7 } else { 7 + (units - 1) * 16 };
            list.push(Extension {
                number,
                body,
                final_at: (left > 0).then_some(at),
            });
        }
    }
    Ok(list)
}

fn recipe(u: &mut Unstructured) -> Result<Recipe> {
    let v6 = u.arbitrary()?;
    let size = u.int_in_range(1..=300usize)?;
    let len = u.int_in_range(1..=12usize)? * size - u.int_in_range(0..=size - 1)?;
    let seed: u8 = u.arbitrary()?;
    Ok(Recipe {
        v6,
        udp: u.arbitrary()?,
        tos: u.arbitrary()?,
        flow_label: u.int_in_range(0..=0xf_ffff)?,
        id: u.arbitrary()?,
        dont_fragment: u.arbitrary()?,
        ttl: u.arbitrary()?,
        addresses: u.arbitrary()?,
        v4_options: if v6 { Vec::new() } else { words(u)? },
        extensions: if v6 { extensions(u)? } else { Vec::new() },
        ports: u.arbitrary()?,
        sequence: u.arbitrary()?,
        acknowledgement: u.arbitrary()?,
        reserved: u.int_in_range(0..=15)?,
        flags: u.arbitrary()?,
        window: u.arbitrary()?,
        urgent: if u.arbitrary()? { u.arbitrary()? } else { 0 },
        tcp_options: words(u)?,
        size,
        payload: (0..len)
            .map(|i| (i as u8).wrapping_mul(seed) ^ (i >> 8) as u8)
            .collect(),
    })
}

struct Part {
    vnet: VnetHeader,
    header: Vec<u8>,
    payload: Vec<u8>,
}

impl Part {
    /// Every wire segment, complete.
    fn wire(&self, into: &mut Vec<Vec<u8>>) {
        let bytes = [&self.header[..], &self.payload].concat();
        let shape = inspect(&self.vnet, &bytes).expect("a piece of a sound packet is sound");
        for index in 0..shape.segments {
            let mut full = Vec::new();
            complete_segment(&self.vnet, &bytes, &shape, index, false, &mut full);
            into.push(full);
        }
    }
}

/// Splits the packet of `recipe` at random places; appends the expected wire segments.
fn cut(
    u: &mut Unstructured,
    recipe: &Recipe,
    parts: &mut Vec<Part>,
    wire: &mut Vec<Vec<u8>>,
) -> Result<()> {
    let (vnet, packet) = recipe.packet();
    let shape = inspect(&vnet, &packet).expect("the packet is sound");
    assert_eq!(usize::from(shape.segments), recipe.segments());
    let mut out = HeaderBuf::new();
    let mut first = 0;
    while first < shape.segments {
        let count = u.int_in_range(1..=shape.segments - first)?;
        let ce = u.ratio(1, 8)?;
        let part = piece(&vnet, &packet, &shape, first, count, ce, &mut out);
        parts.push(Part {
            vnet: part.vnet,
            header: part.header.to_vec(),
            payload: packet[part.payload.clone()].to_vec(),
        });
        for index in first..first + count {
            wire.push(recipe.segment(index.into(), ce, Sum::Complete));
        }
        first += count;
    }
    Ok(())
}

fn run(u: &mut Unstructured) -> Result<()> {
    let recipe = recipe(u)?;
    let (mut parts, mut wire) = (Vec::new(), Vec::new());
    cut(u, &recipe, &mut parts, &mut wire)?;
    let mut after = Vec::new();
    parts.iter().for_each(|part| part.wire(&mut after));
    assert_eq!(after, wire);
    Ok(())
}

fuzz_target!(|data: &[u8]| {
    // Too short an input is no finding.
    let _ = run(&mut Unstructured::new(data));
});
