use proptest::prelude::*;
use wavebed_packet::checksum::{add, checksum, sum};
use wavebed_packet::transport::Icmp;

use super::*;

const FROM: [u8; 4] = [10, 0, 0, 2];
const TO: [u8; 4] = [198, 51, 100, 7];

/// IPv4 with a payload of `bytes`; `fragment` is the field of flags and offset.
fn v4(kind: u8, first: u8, fragment: u16, bytes: usize) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    packet.extend(u16::try_from(20 + bytes).expect("short").to_be_bytes());
    packet.extend([0x12, 0x34]);
    packet.extend(fragment.to_be_bytes());
    packet.extend([63, kind, 0, 0]);
    packet.extend(FROM);
    packet.extend(TO);
    packet.push(first);
    packet.resize(20 + bytes, 0x5a);
    packet
}

fn v6(kind: u8, rest: &[u8], bytes: usize) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend(u16::try_from(bytes).expect("short").to_be_bytes());
    packet.extend([kind, 63]);
    packet.extend([[0xfd; 16], [0xfc; 16]].concat());
    packet.extend(rest);
    packet.resize(40 + bytes, 0x5a);
    packet
}

#[test]
fn ipv4_gets_fragmentation_needed_with_right_checksums_and_its_head_quoted() {
    let packet = v4(protocol::TCP, 7, 0x4000, 1340);
    let got = answer(&packet, 1204).expect("an answer");
    assert_eq!(got.len(), 576);
    let ip = Ipv4::parse(&got).expect("IPv4");
    assert_eq!(
        (ip.source().octets(), ip.destination().octets()),
        (TO, FROM)
    );
    assert_eq!((ip.total_length(), ip.protocol()), (576, protocol::ICMP));
    assert_eq!(checksum(&got[..20]), 0);
    assert_eq!(checksum(&got[20..]), 0);
    let icmp = Icmp::parse(&got[20..]).expect("ICMP");
    assert_eq!((icmp.kind(), icmp.code()), (3, 4));
    assert_eq!(got[24..28], [0, 0, 4, 180], "unused, and the MTU 1204");
    assert_eq!(got[28..], packet[..548]);
}

#[test]
fn ipv6_gets_packet_too_big_with_a_right_checksum_and_its_head_quoted() {
    let packet = v6(protocol::UDP, &[], 1320);
    let got = answer(&packet, 1300).expect("an answer");
    assert_eq!(got.len(), 1280);
    let ip = Ipv6::parse(&got).expect("IPv6");
    assert_eq!(ip.source().octets(), [0xfc; 16]);
    assert_eq!(ip.destination().octets(), [0xfd; 16]);
    assert_eq!(ip.payload_length(), 1240);
    let pseudo = add(sum(&got[8..40]), add(1240, 58));
    assert_eq!(add(pseudo, sum(&got[40..])), 0xffff);
    assert_eq!(got[40..42], [2, 0]);
    assert_eq!(got[44..48], [0, 0, 5, 20]);
    assert_eq!(got[48..], packet[..1232]);
}

#[test]
fn icmp_errors_get_no_answer_and_echoes_do() {
    let icmp = |kind| answer(&v4(protocol::ICMP, kind, 0x4000, 1340), 1204);
    for kind in [3, 4, 5, 11, 12, 200] {
        assert_eq!(icmp(kind), None, "type {kind}");
    }
    assert!(icmp(8).is_some() && icmp(0).is_some());
    let icmp = |kind| answer(&v6(protocol::ICMPV6, &[kind], 1320), 1300);
    for kind in [1, 2, 3, 4, 127, 137] {
        assert_eq!(icmp(kind), None, "type {kind}");
    }
    assert!(icmp(128).is_some() && icmp(129).is_some());
    let cut = &v4(protocol::ICMP, 8, 0x4000, 1340)[..20];
    assert_eq!(answer(cut, 1204), None, "a type that is not there");
}

#[test]
fn fragments_but_the_first_get_no_answer() {
    let udp = |fragment| answer(&v4(protocol::UDP, 0, fragment, 1340), 1204);
    assert!(udp(0x2000).is_some());
    assert_eq!(udp(0x2001), None);
    assert_eq!(udp(0x0007), None);
    let udp = |low| {
        answer(
            &v6(protocol::FRAGMENT, &[protocol::UDP, 0, 0, low], 1320),
            1300,
        )
    };
    assert!(udp(1).is_some());
    assert_eq!(udp(8), None);
    let error = [protocol::ICMPV6, 0, 0, 1, 0, 0, 0, 0, 1];
    assert_eq!(answer(&v6(protocol::FRAGMENT, &error, 1320), 1300), None);
}

#[test]
fn addresses_that_are_not_of_one_host_get_no_answer() {
    for (at, first) in [
        (16, 224),
        (16, 239),
        (16, 255),
        (12, 0),
        (12, 127),
        (12, 240),
    ] {
        let mut packet = v4(protocol::UDP, 0, 0x4000, 1340);
        packet[at] = first;
        assert_eq!(answer(&packet, 1204), None, "{first} at {at}");
    }
    let mut packet = v6(protocol::UDP, &[], 1320);
    packet[24] = 0xff;
    assert_eq!(answer(&packet, 1300), None, "multicast");
    let mut packet = v6(protocol::UDP, &[], 1320);
    packet[8..24].fill(0);
    assert_eq!(answer(&packet, 1300), None, "no source");
}

proptest! {
    #[test]
    fn no_bytes_of_a_host_make_an_answer_that_is_longer_than_allowed(
        first in prop::sample::select(vec![0x45u8, 0x4f, 0x60, 0x00]),
        rest in prop::collection::vec(any::<u8>(), 0..2000),
        mtu in 0usize..10_000,
    ) {
        let packet = [&[first][..], &rest].concat();
        if let Some(got) = answer(&packet, mtu) {
            let most = if first == 0x60 { 1280 } else { 576 };
            prop_assert!(got.len() <= most);
        }
    }
}
