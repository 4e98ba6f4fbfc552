//! Frames: what is written is read again, checksums hold, and every broken rule has its line.

use std::collections::BTreeSet;
use std::net::IpAddr;

use proptest::prelude::*;
use wavebed_forward::frame::{
    FCS_BYTES, FrameSpec, Frames, NUMBERS, Range, SpecError, Stamp, mac_from_text, mac_text, read,
};

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn spec(v6: bool) -> FrameSpec {
    let (source, destination) = if v6 {
        ("2001:2::2", "2001:2:0:1::2")
    } else {
        ("198.18.0.2", "198.18.1.2")
    };
    FrameSpec {
        sizes_bytes: vec![if v6 { 84 } else { 64 }],
        source_mac: [2, 0, 0, 0, 0, 1],
        destination_mac: [2, 0, 0, 0, 0, 2],
        vlan: None,
        pppoe_session: None,
        sources: Range {
            first: address(source),
            count: 1,
        },
        destinations: Range {
            first: address(destination),
            count: 16,
        },
        source_ports: Range {
            first: 49_152,
            count: 64,
        },
        destination_ports: Range {
            first: 49_152,
            count: 64,
        },
        flows: 256,
    }
}

prop_compose! {
    fn any_spec()(
        v6 in any::<bool>(),
        vlan in prop::option::of(1_u16..=4094),
        pppoe_session in prop::option::of(1_u16..0xffff),
        counts in (1_u16..5, 1_u16..20, 1_u16..70, 1_u16..70),
        extra in prop::collection::vec(0_u16..1400, 1..13),
        flows in 1_u16..200,
    ) -> FrameSpec {
        let mut spec = spec(v6);
        spec.vlan = vlan;
        spec.pppoe_session = pppoe_session;
        spec.sources.count = counts.0;
        spec.destinations.count = counts.1;
        spec.source_ports.count = counts.2;
        spec.destination_ports.count = counts.3;
        let least = least(&spec);
        spec.sizes_bytes = extra.iter().map(|extra| least + extra).collect();
        let all = u32::from(counts.0) * u32::from(counts.1) * u32::from(counts.2) * u32::from(counts.3);
        spec.flows = flows.min(u16::try_from(all).unwrap_or(u16::MAX));
        spec
    }
}

/// The least size by the arithmetic of the standards.
fn least(spec: &FrameSpec) -> u16 {
    let ip = if spec.sources.first.is_ipv6() { 84 } else { 64 };
    ip + 4 * u16::from(spec.vlan.is_some()) + 8 * u16::from(spec.pppoe_session.is_some())
}

/// The ones' complement sum, word by word with the carry brought round at once.
fn plain_sum(bytes: &[u8]) -> u16 {
    let mut sum = 0_u16;
    for at in (0..bytes.len()).step_by(2) {
        let low = bytes.get(at + 1).copied().unwrap_or(0);
        let (next, carry) = sum.overflowing_add(u16::from_be_bytes([bytes[at], low]));
        sum = next + u16::from(carry);
    }
    sum
}

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(spec in any_spec(), n in 0..NUMBERS, trial: u16, time_ns: u64) {
        let frames = Frames::new(&spec).unwrap();
        let mut buffer = vec![0xaa; 2048];
        let length = frames.write(n, trial, time_ns, &mut buffer);
        let rows = frames.rows().len() as u64;
        let size = spec.sizes_bytes[usize::try_from(n % spec.sizes_bytes.len() as u64).unwrap()];
        prop_assert_eq!(length, usize::from(size) - FCS_BYTES);
        prop_assert_eq!(length, frames.length(n));
        prop_assert_eq!(rows % u64::from(spec.flows), 0);
        prop_assert!(buffer[length..].iter().all(|&byte| byte == 0xaa));
        let seen = read(&buffer[..length]).unwrap();
        prop_assert_eq!(seen.stamp, Stamp { number: n, time_ns, trial });
        prop_assert_eq!(seen.header_length, frames.header_length());
        prop_assert_eq!(seen.payload_length, frames.row(n).payload_length());
        prop_assert_eq!(seen.v6, spec.sources.first.is_ipv6());
        prop_assert!(buffer[seen.header_length + 18..length].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn lengths_and_checksums_hold_for_whoever_looks(spec in any_spec(), n in 0..NUMBERS, trial: u16, time_ns: u64) {
        let frames = Frames::new(&spec).unwrap();
        let mut buffer = vec![0; 2048];
        let length = frames.write(n, trial, time_ns, &mut buffer);
        let frame = &buffer[..length];
        let udp = frames.header_length() - 8;
        prop_assert_eq!(usize::from(word(frame, udp + 4)), length - udp);
        if frames.is_v6() {
            let ip = udp - 40;
            prop_assert_eq!(usize::from(word(frame, ip + 4)), length - udp);
            let mut pseudo = frame[ip + 8..ip + 40].to_vec();
            pseudo.extend(u32::try_from(length - udp).unwrap().to_be_bytes());
            pseudo.extend([0, 0, 0, 17]);
            pseudo.extend(&frame[udp..]);
            prop_assert_eq!(plain_sum(&pseudo), 0xffff);
            prop_assert!(word(frame, udp + 6) != 0);
        } else {
            let ip = udp - 20;
            prop_assert_eq!(usize::from(word(frame, ip + 2)), length - ip);
            prop_assert_eq!(plain_sum(&frame[ip..udp]), 0xffff);
            prop_assert_eq!(word(frame, udp + 6), 0);
        }
        if spec.pppoe_session.is_some() {
            let session = 14 + 4 * usize::from(spec.vlan.is_some());
            prop_assert_eq!(usize::from(word(frame, session + 4)), length - session - 6);
        }
    }

    #[test]
    fn flows_are_distinct_and_within_their_ranges(spec in any_spec()) {
        let frames = Frames::new(&spec).unwrap();
        let flows: BTreeSet<Vec<u8>> = frames
            .rows()
            .iter()
            .map(|row| {
                let end = row.header_length;
                let addresses = if frames.is_v6() { 40 } else { 16 };
                row.bytes[end - addresses..end - 4].to_vec()
            })
            .collect();
        prop_assert_eq!(flows.len(), usize::from(spec.flows));
        for row in frames.rows() {
            let port = word(&row.bytes, row.header_length - 8);
            prop_assert!((49_152..49_152 + spec.source_ports.count).contains(&port));
            let port = word(&row.bytes, row.header_length - 6);
            prop_assert!((49_152..49_152 + spec.destination_ports.count).contains(&port));
        }
    }

    #[test]
    fn reading_takes_whatever_comes(bytes in prop::collection::vec(any::<u8>(), 0..128)) {
        let _ = read(&bytes);
    }

    #[test]
    fn a_frame_is_still_read_after_a_router_changed_it(
        spec in any_spec(), n in 0..1000_u64, macs in any::<[u8; 12]>(), hops: u8, nat in any::<[u8; 4]>(), port: u16
    ) {
        let frames = Frames::new(&spec).unwrap();
        let mut buffer = vec![0; 2048];
        let length = frames.write(n, 7, 1, &mut buffer);
        buffer[..12].copy_from_slice(&macs);
        let udp = frames.header_length() - 8;
        if frames.is_v6() {
            buffer[udp - 33] = hops;
        } else {
            buffer[udp - 12] = hops;
            buffer[udp - 8..udp - 4].copy_from_slice(&nat);
        }
        buffer[udp..udp + 2].copy_from_slice(&port.to_be_bytes());
        prop_assert_eq!(read(&buffer[..length]).unwrap().stamp.number, n);
    }

    #[test]
    fn mac_addresses_survive_their_text(mac: [u8; 6]) {
        prop_assert_eq!(mac_from_text(&mac_text(mac)), Some(mac));
    }
}

#[test]
fn the_smallest_frame_has_64_bytes_and_these() {
    let mut spec = spec(false);
    spec.destinations.count = 1;
    spec.source_ports.count = 1;
    spec.destination_ports.count = 1;
    spec.flows = 1;
    let frames = Frames::new(&spec).unwrap();
    let mut buffer = [0xff; 60];
    assert_eq!(frames.write(0x0102, 7, 0x1122_3344, &mut buffer), 60);
    // Written out by hand: 4500 + 002e + 4000 + 4011 + c612 + 0002 + c612 + 0102 = 2 5267, with the carry 5269.
    let expected = [
        0x02, 0, 0, 0, 0, 2, 0x02, 0, 0, 0, 0, 1, 0x08, 0x00, // Ethernet
        0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 17, 0xad, 0x96, 198, 18, 0, 2, 198, 18, 1,
        2, // IPv4
        0xc0, 0x00, 0xc0, 0x00, 0, 26, 0, 0, // UDP
        0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0x11, 0x22, 0x33, 0x44, 0, 7, // stamp
    ];
    assert_eq!(buffer, expected);
}

#[test]
fn a_flow_keeps_its_addresses_whatever_the_size() {
    let mut spec = spec(false);
    spec.sizes_bytes = vec![64, 594, 1518];
    let frames = Frames::new(&spec).unwrap();
    assert_eq!(frames.rows().len(), 768);
    for n in 0..256 {
        assert_eq!(
            frames.row(n).bytes[26..38],
            frames.row(n + 256).bytes[26..38]
        );
        assert_eq!(frames.length(n), [60, 590, 1514][(n % 3) as usize]);
    }
}

#[test]
fn flows_do_not_come_in_sequence_and_use_every_destination() {
    let frames = Frames::new(&spec(false)).unwrap();
    let rows = frames.rows();
    let ports: Vec<u16> = rows.iter().map(|row| word(&row.bytes, 34)).collect();
    let steps = ports.windows(2).filter(|pair| pair[0] + 1 == pair[1]);
    // Of 255 steps 1 in 64 would be by chance.
    assert!(steps.count() < 20, "{ports:?}");
    let destinations: BTreeSet<&[u8]> = rows.iter().map(|row| &row.bytes[30..34]).collect();
    assert_eq!(destinations.len(), 16);
}

#[test]
fn fragments_options_and_other_protocols_are_foreign() {
    let frames = Frames::new(&spec(false)).unwrap();
    let mut good = [0; 60];
    frames.write(5, 7, 1, &mut good);
    assert!(read(&good).is_some());
    for (place, byte) in [
        (12, 0x09),
        (14, 0x46),
        (20, 0x20),
        (21, 1),
        (23, 6),
        (39, 25),
        (42, 1),
    ] {
        let mut bad = good;
        bad[place] = byte;
        assert_eq!(read(&bad), None, "byte {place}");
    }
    for length in 0..60 {
        assert_eq!(read(&good[..length]), None);
    }
}

#[test]
fn a_specification_comes_from_json() {
    let text = r#"{"sizes_bytes": [64], "source_mac": "02:00:00:00:00:01", "destination_mac": "02:00:00:00:00:02",
        "vlan": null, "pppoe_session": null,
        "sources": {"first": "198.18.0.2", "count": 1}, "destinations": {"first": "198.18.1.2", "count": 16},
        "source_ports": {"first": 49152, "count": 64}, "destination_ports": {"first": 49152, "count": 64},
        "flows": 256}"#;
    let read: FrameSpec = serde_json::from_str(text).unwrap();
    assert_eq!(read, spec(false));
    let wrong = text.replace("02:00:00:00:00:01", "2:0:0:0:0:1");
    let line = serde_json::from_str::<FrameSpec>(&wrong)
        .unwrap_err()
        .to_string();
    assert!(line.contains("is no MAC address"), "{line}");
}

#[test]
fn every_broken_rule_has_its_line() {
    type Break = fn(&mut FrameSpec);
    let cases: [(Break, &str); 17] = [
        (|s| s.sizes_bytes.clear(), "sizes_bytes: at least one"),
        (|s| s.sizes_bytes = vec![63], "sizes_bytes: 63 bytes"),
        (|s| s.sizes_bytes = vec![9019], "want 64 to 9018"),
        (|s| s.vlan = Some(1), "want 68 to 9022"),
        (|s| s.pppoe_session = Some(1), "want 72 to 9018"),
        (|s| s.vlan = Some(4095), "vlan: 4095"),
        (|s| s.pppoe_session = Some(0xffff), "pppoe_session: 65535"),
        (|s| s.flows = 0, "flows: 0"),
        (|s| s.sources.count = 0, "sources: 0 addresses"),
        (
            |s| s.sources.first = address("255.255.255.255"),
            "sources: 255",
        ),
        (
            |s| s.destinations.first = address("224.0.0.1"),
            "destinations: 224",
        ),
        (
            |s| s.destinations.first = address("2001:2::1"),
            "destinations: must",
        ),
        (
            |s| s.source_ports.first = 65_500,
            "source_ports: 64 ports from 65500",
        ),
        (|s| s.destination_ports.first = 0, "destination_ports: 64"),
        (
            |s| s.source_mac = [1, 0, 0, 0, 0, 0],
            "source_mac: 01:00:00:00:00:00",
        ),
        (|s| s.destination_mac = [0; 6], "destination_mac: 00:00"),
        (|s| s.sizes_bytes = vec![64; 65], "16640"),
    ];
    for (break_it, expected) in cases {
        let mut spec = spec(false);
        break_it(&mut spec);
        let SpecError(line) = Frames::new(&spec).expect_err(expected);
        assert!(
            line.contains(expected) && !line.contains('\n'),
            "{line:?} should say {expected:?}"
        );
    }
    let mut few = spec(false);
    few.source_ports.count = 1;
    few.destination_ports.count = 1;
    let SpecError(line) = Frames::new(&few).expect_err("16 combinations");
    assert!(line.contains("combine to 16"), "{line}");
}

#[test]
fn ipv6_wants_84_bytes_for_the_stamp() {
    let mut spec = spec(true);
    spec.sizes_bytes = vec![83];
    let SpecError(line) = Frames::new(&spec).expect_err("too short");
    assert!(line.contains("84"), "{line}");
}
