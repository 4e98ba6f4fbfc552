//! A direction of a bridge without a port or a clock: frames in lists.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;

use proptest::prelude::*;
use wavebed_link::delay::Delay;
use wavebed_link::impairment::Corrupt;
use wavebed_link::loss::Loss;
use wavebed_link::{Link, RandomStream, Stage, Unit};
use wavebed_os::packet_ring::VlanTag;
use wavebed_packet::{HeaderBuf, VnetHeader, checksum, complete_segment, inspect};
use wavebed_path::FrameAccount;
use wavebed_path::coalesce::Coalesce;
use wavebed_path::direction::Direction;
use wavebed_path::frame_input::{RingFrame, merge};
use wavebed_path::frames::Frames;
use wavebed_path::link_chain::{ClassChain, LinkChain, NamedLink};
use wavebed_path::on_time::Outages;
use wavebed_path::pool::PacketMemory;
use wavebed_path::pool::Packets;
use wavebed_path::port::Port;
use wavebed_path::series::{Address, Classes, Side};

const PLAIN: &[u8] = &[8, 0];
const TAGGED: &[u8] = &[0x81, 0, 0x60, 5, 8, 0];
const TWICE: &[u8] = &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 9, 8, 0];
/// The error number of a frame that is longer than the MTU allows.
const EMSGSIZE: i32 = 90;

struct List {
    incoming: VecDeque<Vec<u8>>,
    written: Vec<Vec<u8>>,
    mtu: u32,
}

impl Port for List {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        Ok(self.incoming.pop_front().map(|frame| {
            buffer[..frame.len()].copy_from_slice(&frame);
            frame.len()
        }))
    }

    fn write(&mut self, parts: &[IoSlice<'_>]) -> io::Result<()> {
        let frame: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        let is_super = frame[1] != VnetHeader::GSO_NONE;
        if !is_super && frame.len() > VnetHeader::LEN + 18 + self.mtu as usize {
            return Err(io::Error::from_raw_os_error(EMSGSIZE));
        }
        self.written.push(frame);
        Ok(())
    }

    fn largest_packet(&self) -> u32 {
        self.mtu
    }
}

/// A frame with `kind` after its addresses, without a virtio-net header.
fn frame(kind: &[u8], content: &[u8]) -> Vec<u8> {
    [&[2, 0, 0, 0, 0, 1], &[2, 0, 0, 0, 0, 2], kind, content].concat()
}

/// An IPv4 packet of protocol `number`, ECT(0).
fn packet(number: u8, upper: &[u8]) -> Vec<u8> {
    let length = u16::try_from(20 + upper.len()).unwrap();
    let mut ip = vec![0x45, 2, 0, 0, 0, 9, 0x40, 0, 64, number, 0, 0];
    ip.extend([192, 0, 2, 1, 192, 0, 2, 2]);
    ip[2..4].copy_from_slice(&length.to_be_bytes());
    let sum = checksum::checksum(&ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    ip.extend(upper);
    ip
}

/// A frame as a port delivers it that is no super-packet.
fn single(kind: &[u8], content: &[u8]) -> Vec<u8> {
    [&[0; VnetHeader::LEN][..], &frame(kind, content)].concat()
}

/// A TCP super-packet in a frame, with segments of `mss`.
fn tcp(kind: &[u8], payload: usize, mss: u16) -> Vec<u8> {
    let mut upper = vec![0, 80, 0x20, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 0x18];
    upper.resize(20, 0);
    upper.extend((0..payload).map(|place| u8::try_from(place % 251).unwrap()));
    let ip = packet(6, &upper);
    let front = u16::try_from(12 + kind.len()).unwrap();
    let vnet = VnetHeader {
        flags: VnetHeader::NEEDS_CSUM,
        gso_type: VnetHeader::GSO_TCPV4,
        hdr_len: front + 40,
        gso_size: mss,
        csum_start: front + 20,
        csum_offset: 16,
    };
    [&vnet.to_bytes()[..], &frame(kind, &ip)].concat()
}

/// A chain of one link.
fn chain(name: &str, stages: Vec<Box<dyn Stage>>) -> LinkChain {
    let link = NamedLink {
        name: name.into(),
        link: Link::new(stages, false),
        points: None,
        log: None,
    };
    LinkChain::new(vec![link], Coalesce::Slot, false)
}

struct Bench {
    direction: Direction,
    input: List,
    output: List,
}

impl Bench {
    fn new(stages: Vec<Box<dyn Stage>>) -> Self {
        let memory = Arc::new(PacketMemory::new(usize::MAX));
        let list = || List {
            incoming: VecDeque::new(),
            written: Vec::new(),
            mtu: 1500,
        };
        let packets = Packets::new(memory).unwrap();
        let mut direction = Direction::new(chain("radio.down", stages), packets);
        direction.frames = Some(Frames::default());
        Self {
            direction,
            input: list(),
            output: list(),
        }
    }

    fn turn(&mut self, now_ns: u64) {
        let clock = || now_ns;
        let (input, output) = (&mut self.input, &mut self.output);
        while self.direction.read(0, input, output, &clock).unwrap().more {}
        self.direction.advance(output, &clock);
    }

    fn account(&self) -> FrameAccount {
        let frames = self.direction.frames.as_ref().expect("a bridge");
        let account = frames.account("a-b.down", self.direction.chains());
        assert_eq!(account.unaccounted(), 0);
        account
    }
}

#[test]
fn a_frame_of_any_kind_leaves_byte_for_byte() {
    let delay = || -> Vec<Box<dyn Stage>> { vec![Box::new(Delay::constant(1_000, false))] };
    let udp = packet(17, &[0, 9, 0, 9, 0, 8, 0, 0]);
    let padded = [udp.clone(), vec![0xaa; 18]].concat();
    for kind in [PLAIN, TAGGED, TWICE] {
        for sent in [
            single(kind, &udp),
            single(kind, &padded),
            single(kind, &packet(132, &[7; 1476])),
            tcp(kind, 30_000, 1448),
        ] {
            let mut bench = Bench::new(delay());
            bench.input.incoming.push_back(sent.clone());
            bench.turn(0);
            assert!(bench.output.written.is_empty(), "it is in the link");
            bench.turn(1_000);
            assert_eq!(bench.output.written, [sent]);
        }
    }
}

#[test]
fn local_frames_pass_around_the_links_at_once_and_use_up_nothing() {
    let lost: Vec<Box<dyn Stage>> = vec![Box::new(Loss::independent(
        1.0,
        Unit::Packet,
        RandomStream::new(1, 1),
    ))];
    let mut bench = Bench::new(lost);
    let arp = single(&[8, 6], &[0, 1, 8, 0, 6, 4, 0, 1]);
    let lldp = single(&[0x88, 0xcc], &[2, 7, 4, 2, 0, 0, 0, 0, 1]);
    let spanning_tree = single(&[0, 38], &[0x42, 0x42, 3]);
    let dhcp = single(TAGGED, &packet(17, &[0, 68, 0, 67, 0, 8, 0, 0]));
    let data = single(PLAIN, &packet(17, &[0, 68, 0, 53, 0, 8, 0, 0]));
    let sent = [&arp, &lldp, &spanning_tree, &dhcp];
    bench.input.incoming.extend(sent.into_iter().cloned());
    bench.input.incoming.extend([data, vec![0; 20]]);
    bench.turn(0);
    assert_eq!(bench.output.written, sent.map(Clone::clone));
    let account = bench.account();
    assert_eq!((account.received_frames, account.around_frames), (6, 4));
    assert_eq!((account.dropped("loss"), account.dropped("runt")), (1, 1));
    let counters = bench.direction.chain.links[0].link.counters();
    assert_eq!(counters.total().offered.segments, 1);
    assert_eq!(counters.total().offered.bytes, 28, "bytes of IP");
}

#[test]
fn an_outage_holds_what_comes_and_local_frames_pass() {
    let delay: Vec<Box<dyn Stage>> = vec![Box::new(Delay::constant(1_000, false))];
    let mut bench = Bench::new(delay);
    let data = |last| single(PLAIN, &packet(17, &[0, 9, 0, 9, 0, 8, 0, last]));
    let arp = single(&[8, 6], &[0, 1, 8, 0, 6, 4, 0, 1]);
    bench.input.incoming.push_back(data(1));
    bench.turn(0);
    bench.direction.chain.interrupt(Outages::until(5_000));
    bench.input.incoming.extend([data(2), arp.clone()]);
    bench.turn(100);
    assert_eq!(bench.output.written, std::slice::from_ref(&arp));
    assert_eq!(bench.direction.next_event_ns(), Some(1_000));
    bench.turn(1_000);
    let before = [arp, data(1)];
    assert_eq!(bench.output.written, before, "what was in the link goes on");
    assert_eq!(bench.direction.next_event_ns(), Some(5_000));
    assert_eq!(bench.account().queued_frames, 1);
    bench.turn(5_000);
    bench.input.incoming.push_back(data(3));
    bench.turn(5_010);
    bench.turn(6_000);
    assert_eq!(bench.output.written[2..], [data(2)]);
    bench.turn(6_010);
    assert_eq!(bench.output.written[2..], [data(2), data(3)]);
}

#[test]
fn an_outage_may_be_ended_early() {
    let mut bench = Bench::new(Vec::new());
    let data = single(PLAIN, &packet(17, &[0, 9, 0, 9, 0, 8, 0, 0]));
    bench.direction.chain.interrupt(Outages::until(5_000));
    bench.input.incoming.push_back(data.clone());
    bench.turn(100);
    assert!(bench.output.written.is_empty());
    bench.direction.chain.interrupt(Outages::until(200));
    bench.turn(200);
    assert_eq!(bench.output.written, [data]);
    assert_eq!(bench.direction.next_event_ns(), None);
}

#[test]
fn a_part_of_a_super_packet_keeps_the_header_and_the_tags() {
    let stages: Vec<Box<dyn Stage>> = vec![Box::new(Loss::independent(
        0.3,
        Unit::Packet,
        RandomStream::new(1, 1),
    ))];
    let mut bench = Bench::new(stages);
    let sent = tcp(TWICE, 28_960, 1448);
    bench.input.incoming.push_back(sent.clone());
    bench.turn(0);
    let account = bench.account();
    assert_eq!(account.received_frames, 20);
    assert!(account.dropped("loss") > 0 && account.delivered_frames > 0);
    assert!(bench.output.written.len() > 1);
    for part in &bench.output.written {
        let (vnet, rest) = VnetHeader::split(part).unwrap();
        assert_eq!(rest[..22], sent[10..32]);
        assert_eq!((vnet.csum_start, vnet.csum_offset), (22 + 20, 16));
        assert_eq!(vnet.hdr_len, 22 + 40);
        let length = u16::from_be_bytes([rest[24], rest[25]]);
        assert_eq!(usize::from(length), rest.len() - 22);
    }
}

#[test]
fn a_corrupted_frame_keeps_header_and_padding() {
    let stages: Vec<Box<dyn Stage>> = vec![Box::new(Corrupt::new(1.0, RandomStream::new(1, 1)))];
    let mut bench = Bench::new(stages);
    let padded = [packet(17, &[0, 9, 0, 9, 0, 8, 0, 0]), vec![0xaa; 18]].concat();
    let sent = single(TAGGED, &padded);
    for _ in 0..20 {
        bench.input.incoming.push_back(sent.clone());
    }
    bench.turn(0);
    let account = bench.account();
    assert_eq!(
        account.delivered_frames + account.dropped("corrupted_header"),
        20
    );
    assert!(!bench.output.written.is_empty());
    for written in &bench.output.written {
        let differing: u32 = written
            .iter()
            .zip(&sent)
            .map(|(one, other)| (one ^ other).count_ones())
            .sum();
        assert_eq!((written.len(), differing), (sent.len(), 1));
        assert_eq!(written[..28], sent[..28], "the Ethernet header");
        assert_eq!(written[56..], sent[56..], "the padding");
    }
}

#[test]
fn a_frame_beyond_the_mtu_of_the_port_is_dropped_with_a_reason() {
    let mut bench = Bench::new(Vec::new());
    bench.input.incoming.extend([
        single(PLAIN, &packet(17, &[0; 1481])),
        tcp(PLAIN, 17_896, 8948),
        single(&[0x88, 0xb5], &[1; 1505]),
        single(PLAIN, &packet(17, &[0; 1480])),
    ]);
    bench.turn(0);
    assert_eq!(bench.output.written.len(), 1);
    let account = bench.account();
    assert_eq!(account.received_frames, 5);
    assert_eq!(account.dropped("too_long"), 4);
    assert_eq!(account.delivered_frames, 1);
}

#[test]
fn a_device_has_links_of_its_own_and_no_other_frame_takes_them() {
    let delay = |ns| -> Vec<Box<dyn Stage>> { vec![Box::new(Delay::constant(ns, false))] };
    let mut bench = Bench::new(delay(1_000));
    bench.direction.classes.push(ClassChain::new(
        "a-b.tv.down".into(),
        chain("tv.radio.down", delay(5_000)),
    ));
    let address = Address::Ip([192, 0, 2, 2].into());
    let classes = Classes::new([&[address][..]], Side::Destination);
    bench.direction.frames = Some(Frames::new(Some(classes)));
    let to_tv = single(TAGGED, &packet(17, &[0, 9, 0, 9, 0, 8, 0, 0]));
    let mut to_other = to_tv.clone();
    *to_other.last_mut().unwrap() = 1;
    to_other[10 + 18 + 19] = 3;
    bench
        .input
        .incoming
        .extend([to_tv.clone(), to_other.clone()]);
    bench.turn(0);
    assert_eq!(bench.direction.next_event_ns(), Some(1_000));
    bench.turn(1_000);
    assert_eq!(bench.output.written, [to_other.clone()]);
    let account = bench.account();
    assert_eq!((account.delivered_frames, account.queued_frames), (1, 1));
    bench.turn(5_000);
    assert_eq!(bench.output.written, [to_other, to_tv]);
    let offered: Vec<u64> = bench
        .direction
        .links()
        .map(|named| named.link.counters().total().offered.segments)
        .collect();
    assert_eq!(offered, [1, 1]);
}

/// Bytes as a port may deliver them: a virtio-net header of any kind, and a frame that often is one of IP.
fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let kinds = [PLAIN, TAGGED, TWICE, &[0x86, 0xdd], &[8, 6], &[0x81, 0]];
    let vnet = (
        0u8..3,
        prop_oneof![4 => Just(0u8), 1 => any::<u8>(), 1 => Just(1), 1 => Just(5)],
        any::<[u16; 4]>(),
        0u16..80,
    );
    let content = proptest::collection::vec(any::<u8>(), 0..200);
    let first = prop_oneof![Just(0x45u8), Just(0x60), any::<u8>()];
    let upper = prop_oneof![Just(6u8), Just(17), Just(58), Just(132), any::<u8>()];
    (vnet, 0..kinds.len(), content, first, upper).prop_map(
        move |((flags, gso_type, words, csum_start), kind, mut content, first, upper)| {
            let vnet = VnetHeader {
                flags,
                gso_type,
                hdr_len: words[0] % 100,
                gso_size: words[1] % 60,
                csum_start,
                csum_offset: words[2] % 20,
            };
            if content.len() > 9 {
                content[0] = first;
                content[if first == 0x60 { 6 } else { 9 }] = upper;
                if words[3] % 2 == 0 {
                    let length = u16::try_from(content.len()).unwrap();
                    content[2..4].copy_from_slice(&length.to_be_bytes());
                }
            }
            [&vnet.to_bytes()[..], &frame(kinds[kind], &content)].concat()
        },
    )
}

proptest! {
    #[test]
    fn whatever_comes_is_accounted_for(
        frames in proptest::collection::vec(any_frame(), 1..40),
        cut in 0usize..300,
    ) {
        let stages: Vec<Box<dyn Stage>> = vec![
            Box::new(Loss::independent(0.2, Unit::Packet, RandomStream::new(1, 1))),
            Box::new(Corrupt::new(0.2, RandomStream::new(1, 2))),
            Box::new(Delay::constant(1_000, false)),
        ];
        let mut bench = Bench::new(stages);
        let count = frames.len() as u64;
        bench.input.incoming.extend(frames.into_iter().enumerate().map(|(place, mut frame)| {
            if place == 0 {
                frame.truncate(cut.max(VnetHeader::LEN));
            }
            frame
        }));
        bench.turn(0);
        bench.turn(1_000);
        let account = bench.account();
        prop_assert!(account.received_frames >= count);
        prop_assert_eq!(account.queued_frames, 0);
        prop_assert_eq!(bench.direction.packets.in_flight_bytes(), 0);
    }
}

#[test]
fn a_merged_frame_of_an_unknown_kind_is_dropped_as_malformed() {
    let mut bench = Bench::new(Vec::new());
    // GRE that the kernel has merged by the TCP inside: the header does not say so.
    let mut merged = tcp(PLAIN, 2_000, 1_000);
    merged[10 + 14 + 9] = 47;
    bench.input.incoming.push_back(merged);
    bench.turn(0);
    assert!(bench.output.written.is_empty());
    assert_eq!(bench.account().dropped("malformed"), 1);
}

/// The frames that leave a port on the wire, when these bytes are written to it.
fn on_a_wire(bytes: &[u8], front: usize) -> Vec<Vec<u8>> {
    let (vnet, frame) = VnetHeader::split(bytes).unwrap();
    let (head, packet) = frame.split_at(front);
    let Some(vnet) = vnet.after(u8::try_from(front).unwrap()) else {
        return vec![frame.to_vec()];
    };
    if !vnet.is_gso() {
        return vec![frame.to_vec()];
    }
    let shape = inspect(&vnet, packet).unwrap();
    let cut = (0..shape.segments).map(|index| {
        let mut segment = Vec::new();
        complete_segment(&vnet, packet, &shape, index, false, &mut segment);
        [head, &segment].concat()
    });
    cut.collect()
}

/// A frame at a port: its bytes without the outer tag, the tag, and when it came.
type AtPort = (Vec<u8>, Option<VlanTag>, u64);

/// Merges what may be, and returns the packets with their frames.
fn merged(frames: &[AtPort], longest: usize) -> Vec<(Vec<u8>, u32)> {
    let mut buffer = vec![0; 70_000];
    let mut header = HeaderBuf::new();
    let mut found = Vec::new();
    let mut next = 0;
    loop {
        let frame = |ahead: u32| {
            let (bytes, tag, at_ns) = frames.get(next + ahead as usize)?;
            Some(RingFrame {
                bytes,
                tag: *tag,
                at_ns: *at_ns,
            })
        };
        let Some(one) = merge(frame, longest, &mut header, &mut buffer) else {
            return found;
        };
        next += one.frames as usize;
        found.push((buffer[..one.length].to_vec(), one.frames));
    }
}

/// A TCP super-packet as [`tcp`] makes it, its checksum right.
fn sound(kind: &[u8], payload: usize, mss: u16) -> Vec<u8> {
    let mut bytes = tcp(kind, payload, mss);
    let packet = VnetHeader::LEN + 12 + kind.len();
    let length = u16::try_from(20 + payload).unwrap();
    let pseudo = [
        &bytes[packet + 12..packet + 20],
        &[0, 6],
        &length.to_be_bytes(),
    ]
    .concat();
    bytes[packet + 36..packet + 38].copy_from_slice(&checksum::sum(&pseudo).to_be_bytes());
    bytes
}

/// The frames of a TCP super-packet as they come one by one, each `gap_ns` after the one before.
fn singles(payload: usize, mss: u16, gap_ns: u64) -> Vec<AtPort> {
    let cut = on_a_wire(&sound(PLAIN, payload, mss), 14);
    let at = |frame: Vec<u8>| [&[0; VnetHeader::LEN][..], &frame].concat();
    (0..)
        .zip(cut)
        .map(|(place, frame)| (at(frame), None, place * gap_ns))
        .collect()
}

#[test]
fn frames_of_a_flow_become_one_packet() {
    let frames = singles(10_000, 1448, 1_000);
    let sent = sound(PLAIN, 10_000, 1448);
    assert!(merged(&frames, 1500) == [(sent, 7)]);
    // Behind a tag that the kernel has taken out.
    let tag = |control| {
        Some(VlanTag {
            ether_type: 0x8100,
            control,
        })
    };
    let tagged: Vec<AtPort> = frames
        .iter()
        .map(|(bytes, _, at_ns)| (bytes.clone(), tag(0x6005), *at_ns))
        .collect();
    assert!(merged(&tagged, 1500) == [(sound(TAGGED, 10_000, 1448), 7)]);
    let mut other = tagged.clone();
    other[3].1 = tag(0x6006);
    let counts =
        |found: &[(Vec<u8>, u32)]| found.iter().map(|(_, frames)| *frames).collect::<Vec<_>>();
    assert_eq!(counts(&merged(&other, 1500)), [3, 1, 3]);
    // Each alone: too long for the other port, too late, described by their virtio-net headers.
    assert_eq!(counts(&merged(&frames, 1487)), [1, 1, 1, 1, 1, 1, 1]);
    let slow = singles(10_000, 1448, 20_000);
    assert_eq!(counts(&merged(&slow, 1500)), [3, 3, 1]);
    let mut partial = frames.clone();
    for (bytes, ..) in &mut partial {
        bytes[0] = VnetHeader::NEEDS_CSUM;
    }
    assert_eq!(counts(&merged(&partial, 1500)), [1; 7]);
    // The Ethernet header of another device.
    let mut device = frames;
    device[2].0[VnetHeader::LEN + 11] ^= 1;
    assert_eq!(counts(&merged(&device, 1500)), [2, 1, 4]);
}

proptest! {
    #[test]
    fn merged_frames_are_the_same_frames_on_a_wire(
        runs in prop::collection::vec((1_usize..6_000, 100_u16..1449, 0_u8..4, 0_usize..2_000), 1..12),
        spoilt in prop::collection::vec((any::<usize>(), any::<usize>(), any::<u8>()), 0..4),
    ) {
        let mut frames: Vec<AtPort> = Vec::new();
        for (payload, mss, kind, at) in runs {
            match kind {
                0 => frames.push((single(&[8, 6], &[1; 28]), None, 0)),
                1 => frames.push((single(PLAIN, &packet(17, &[0, 1, 0, 2, 0, 8, 0, 0])), None, 0)),
                _ => {
                    let mut run = singles(payload, mss, 10);
                    // A hole, or two frames in the wrong order.
                    let place = at % run.len();
                    if kind == 2 {
                        run.swap(place, 0);
                    }
                    frames.extend(run);
                }
            }
        }
        for (place, at, byte) in spoilt {
            let count = frames.len();
            let bytes = &mut frames[place % count].0;
            let at = VnetHeader::LEN + at % (bytes.len() - VnetHeader::LEN);
            bytes[at] = byte;
        }
        let found = merged(&frames, 1500);
        let after: Vec<Vec<u8>> = found.iter().flat_map(|(bytes, _)| on_a_wire(bytes, 14)).collect();
        let before: Vec<Vec<u8>> = frames.iter().map(|(bytes, ..)| bytes[VnetHeader::LEN..].to_vec()).collect();
        prop_assert!(after == before);
    }
}
