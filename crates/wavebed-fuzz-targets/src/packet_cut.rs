//! Pieces of a super-packet against a plain function that builds every wire segment: the same bytes, also after the
//! segments were coalesced.

#[path = "../../wavebed-packet/tests/all/common/plain.rs"]
mod plain;

use arbitrary::{Result, Unstructured};
use plain::{Extension, Recipe, Sum};
use wavebed_packet::{Coalescer, HeaderBuf, VnetHeader, complete_segment, inspect, piece};

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

/// Coalesces what may be, in order.
fn coalesce(wire: &[Vec<u8>]) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut coalescer: Coalescer<&[u8]> = Coalescer::default();
    let mut out = HeaderBuf::new();
    let mut end = |coalescer: &Coalescer<&[u8]>| {
        let all = coalescer.coalesced(&mut out);
        let payloads: Vec<&[u8]> = all.payloads().collect();
        parts.push(Part {
            vnet: all.vnet,
            header: all.header.to_vec(),
            payload: payloads.concat(),
        });
    };
    for (index, segment) in wire.iter().enumerate() {
        let shape = inspect(&VnetHeader::default(), segment).expect("a packet");
        if coalescer.add(segment, &shape).is_err() {
            if index > 0 {
                end(&coalescer);
            }
            coalescer.start(segment, &shape);
        }
    }
    end(&coalescer);
    parts
}

/// Clears the IPv4 ID where it has no meaning (RFC 6864), and the checksum that covers it.
fn clear_id(segment: &mut [u8]) {
    if segment[0] >> 4 == 4 && segment[6] & 0x40 != 0 {
        segment[4..6].fill(0);
        segment[10..12].fill(0);
    }
}

/// What the sender of `first` would send next, perhaps with a difference.
fn follower(u: &mut Unstructured, first: &Recipe) -> Result<Recipe> {
    let mut next = Recipe {
        id: first.id.wrapping_add(first.segments() as u16),
        sequence: first.sequence.wrapping_add(first.payload.len() as u32),
        ..first.clone()
    };
    match u.int_in_range(0..=7)? {
        0 => next.flags = u.arbitrary()?,
        1 => next.id = u.arbitrary()?,
        2 => next.tcp_options = words(u)?,
        3 => next.size = u.int_in_range(1..=next.payload.len())?,
        4 => next.tos = u.arbitrary()?,
        5 => next.ports = u.arbitrary()?,
        _ => {}
    }
    Ok(next)
}

fn check(u: &mut Unstructured) -> Result<()> {
    let first = recipe(u)?;
    let (mut parts, mut wire) = (Vec::new(), Vec::new());
    cut(u, &first, &mut parts, &mut wire)?;
    let second = follower(u, &first)?;
    cut(u, &second, &mut parts, &mut wire)?;
    let mut after = Vec::new();
    for part in &parts {
        part.wire(&mut after);
    }
    assert_eq!(after, wire);
    after.clear();
    for part in &coalesce(&wire) {
        part.wire(&mut after);
    }
    let all = after.iter_mut().chain(&mut wire);
    all.for_each(|segment| clear_id(segment));
    assert_eq!(after, wire);
    Ok(())
}

/// Runs the target on one input.
pub fn run(data: &[u8]) {
    // Too short an input is no finding.
    let _ = check(&mut Unstructured::new(data));
}
