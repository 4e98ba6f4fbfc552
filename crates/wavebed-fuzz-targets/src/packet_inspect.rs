//! Arbitrary bytes never panic, and the pieces of an accepted packet have exactly its payload.

use wavebed_packet::{HeaderBuf, VnetHeader, complete_segment, flip_bit, inspect, piece};

/// Makes lengths and checksum fields agree, so that more than refusals is met.
fn fix_fields(vnet: &mut VnetHeader, packet: &mut [u8]) {
    let total = packet.len();
    let (version, l4) = match packet.first() {
        Some(byte) if byte >> 4 == 4 => (4, usize::from(byte & 15) * 4),
        Some(byte) if byte >> 4 == 6 => (6, 40 + usize::from(vnet.hdr_len % 8) * 8),
        _ => return,
    };
    if total < 60 || total < l4 + 20 {
        return;
    }
    if version == 4 {
        packet[2..4].copy_from_slice(&(total as u16).to_be_bytes());
    } else {
        packet[4..6].copy_from_slice(&((total - 40) as u16).to_be_bytes());
    }
    vnet.flags = VnetHeader::NEEDS_CSUM;
    vnet.csum_start = l4 as u16;
    if vnet.gso_kind() == VnetHeader::GSO_UDP_L4 {
        vnet.csum_offset = 6;
        packet[l4 + 4..l4 + 6].copy_from_slice(&((total - l4) as u16).to_be_bytes());
    } else {
        vnet.csum_offset = 16;
    }
}

/// Runs the target on one input.
pub fn run(data: &[u8]) {
    let Some((&mode, frame)) = data.split_first() else {
        return;
    };
    let Some((mut vnet, packet)) = VnetHeader::split(frame) else {
        return;
    };
    let mut packet = packet.to_vec();
    if mode & 1 != 0 {
        fix_fields(&mut vnet, &mut packet);
    }
    let ce = mode & 2 != 0;
    let Ok(shape) = inspect(&vnet, &packet) else {
        return;
    };
    assert!(shape.segments > 0);
    let header_len = usize::from(shape.header_len);
    let segments = u64::from(shape.segments);
    assert_eq!(
        shape.wire_bytes(),
        packet.len() as u64 + (segments - 1) * header_len as u64
    );

    let (mut out, mut full, mut covered) = (HeaderBuf::new(), Vec::new(), header_len);
    let step = 1 + u16::from(mode >> 4);
    let mut first = 0;
    while first < shape.segments {
        let count = step.min(shape.segments - first);
        let part = piece(&vnet, &packet, &shape, first, count, ce, &mut out);
        assert_eq!(part.payload.start, covered);
        covered = part.payload.end;
        let bytes = [part.header, &packet[part.payload.clone()]].concat();
        let sub = inspect(&part.vnet, &bytes).expect("a piece of a sound packet is sound");
        assert_eq!(sub.segments, count);
        complete_segment(&vnet, &packet, &shape, first, ce, &mut full);
        assert_eq!(full.len(), usize::from(shape.bytes_of(first)));
        flip_bit(&mut full, u32::from(mode) << 9);
        first += count;
    }
    assert_eq!(covered, packet.len());
}
