//! Prints the time of the hot functions: `cargo run --release -p wavebed-packet --example speed`.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "printing is all it is for"
)]

use std::hint::black_box;
use std::time::Instant;

use wavebed_packet::{HeaderBuf, VnetHeader, checksum, complete_segment, inspect, piece};

/// A TCP super-packet of 44 segments with time stamps.
fn super_packet(v6: bool) -> (VnetHeader, Vec<u8>) {
    let (l4, size) = if v6 { (40, 1428u16) } else { (20, 1448) };
    let total = l4 + 32 + 44 * usize::from(size);
    let mut packet = vec![0x5a; total];
    let length = u16::try_from(if v6 { total - 40 } else { total }).expect("it fits");
    if v6 {
        packet[..8].copy_from_slice(&[0x60, 0x20, 0, 0, 0, 0, 6, 64]);
        packet[4..6].copy_from_slice(&length.to_be_bytes());
    } else {
        packet[..12].copy_from_slice(&[0x45, 2, 0, 0, 0, 1, 0x40, 0, 64, 6, 0, 0]);
        packet[2..4].copy_from_slice(&length.to_be_bytes());
    }
    packet[l4 + 12] = 0x80;
    packet[l4 + 13] = 0x18;
    let vnet = VnetHeader {
        flags: VnetHeader::NEEDS_CSUM,
        gso_type: if v6 {
            VnetHeader::GSO_TCPV6
        } else {
            VnetHeader::GSO_TCPV4
        },
        hdr_len: u16::try_from(l4 + 32).expect("it fits"),
        gso_size: size,
        csum_start: u16::try_from(l4).expect("it fits"),
        csum_offset: 16,
    };
    (vnet, packet)
}

/// Nanoseconds for one call: the best of five rounds.
fn time(name: &str, calls: u32, mut work: impl FnMut()) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        for _ in 0..calls {
            work();
        }
        best = best.min(start.elapsed().as_secs_f64() * 1e9 / f64::from(calls));
    }
    println!("{name:<44} {best:>10.1} ns");
    best
}

fn main() {
    for v6 in [false, true] {
        let version = if v6 { "IPv6" } else { "IPv4" };
        let (vnet, packet) = super_packet(v6);
        let shape = inspect(&vnet, &packet).expect("it adds up");
        let (mut out, mut full) = (HeaderBuf::new(), Vec::new());
        time(&format!("inspect, {version} TCP"), 2_000_000, || {
            black_box(inspect(black_box(&vnet), black_box(&packet)).is_ok());
        });
        time(&format!("piece, whole, {version}"), 2_000_000, || {
            black_box(piece(
                &vnet,
                black_box(&packet),
                &shape,
                0,
                shape.segments,
                false,
                &mut out,
            ));
        });
        time(
            &format!("piece, 20 of 44 segments, {version}"),
            2_000_000,
            || {
                black_box(piece(
                    &vnet,
                    black_box(&packet),
                    &shape,
                    5,
                    20,
                    false,
                    &mut out,
                ));
            },
        );
        time(
            &format!("piece, 1 of 44 segments with CE, {version}"),
            2_000_000,
            || {
                black_box(piece(
                    &vnet,
                    black_box(&packet),
                    &shape,
                    5,
                    1,
                    true,
                    &mut out,
                ));
            },
        );
        time(&format!("complete_segment, {version}"), 500_000, || {
            complete_segment(&vnet, black_box(&packet), &shape, 7, false, &mut full);
            black_box(&full);
        });
    }
    for len in [20u32, 1460, 65_000] {
        let data = vec![0xa7; len as usize];
        let calls = 400_000_000 / (len + 200);
        let nanoseconds = time(&format!("checksum of {len} bytes"), calls, || {
            black_box(checksum::sum(black_box(&data)));
        });
        println!("{:<44} {:>10.1} GB/s", "", f64::from(len) / nanoseconds);
    }
}
