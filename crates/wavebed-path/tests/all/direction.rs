//! A direction without a device or a clock: packets in lists, time as a number.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;

use proptest::prelude::*;
use wavebed_link::bottleneck::{Bottleneck, BottleneckConfig};
use wavebed_link::delay::{Delay, Distribution, Shape as DelayShape};
use wavebed_link::impairment::Corrupt;
use wavebed_link::impairment::Duplicate;
use wavebed_link::loss::Loss;
use wavebed_link::queue::DropTail;
use wavebed_link::queue::Limit;
use wavebed_link::rate::{Profile, at_rate};
use wavebed_link::{Counts, Link, RandomStream, Reason, Stage, Unit};
use wavebed_os::ethernet_port::Refusal;
use wavebed_packet::{Shape, VnetHeader, checksum, complete_segment, inspect};
use wavebed_path::coalesce::Coalesce;
use wavebed_path::direction::Direction;
use wavebed_path::link_chain::{LinkChain, NamedLink};
use wavebed_path::pool::PacketMemory;
use wavebed_path::pool::Packets;
use wavebed_path::port::Port;

/// A device: what it gives, and what was written to it.
#[derive(Default)]
pub struct List {
    pub incoming: VecDeque<Vec<u8>>,
    pub written: Vec<Vec<u8>>,
    pub refuses: bool,
    /// It takes datagrams together, and refuses none but super-packets of more than this many bytes.
    pub together: Option<usize>,
}

impl Port for List {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        Ok(self.incoming.pop_front().map(|packet| {
            buffer[..packet.len()].copy_from_slice(&packet);
            packet.len()
        }))
    }

    fn write(&mut self, parts: &[IoSlice<'_>]) -> io::Result<()> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        if self.refuses || self.together.is_some_and(|most| bytes > most) {
            return Err(io::Error::from(io::ErrorKind::Other));
        }
        self.written
            .push(parts.iter().flat_map(|part| part.iter().copied()).collect());
        Ok(())
    }

    fn takes_datagrams_together(&self) -> bool {
        self.together.is_some()
    }
}

/// A TCP super-packet over IPv4 with `payload` bytes and segments of `mss`, virtio-net header first.
pub fn tcp(sequence: u32, payload: usize, mss: u16) -> Vec<u8> {
    let total = 40 + payload;
    let mut ip = vec![0u8; total];
    ip[0] = 0x45;
    ip[2..4].copy_from_slice(&u16::try_from(total).unwrap().to_be_bytes());
    ip[4..6].copy_from_slice(&7u16.to_be_bytes());
    ip[6] = 0x40;
    ip[8] = 64;
    ip[9] = 6;
    ip[12..16].copy_from_slice(&[198, 18, 0, 1]);
    ip[16..20].copy_from_slice(&[198, 18, 0, 2]);
    let sum = checksum::checksum(&ip[..20]);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    ip[20..22].copy_from_slice(&80u16.to_be_bytes());
    ip[22..24].copy_from_slice(&5_000u16.to_be_bytes());
    ip[24..28].copy_from_slice(&sequence.to_be_bytes());
    ip[32] = 0x50;
    ip[33] = 0x18;
    for (place, byte) in ip[40..].iter_mut().enumerate() {
        *byte = u8::try_from(place % 251).unwrap();
    }
    let l4_length = u16::try_from(total - 20).unwrap();
    let mut pseudo = ip[12..20].to_vec();
    pseudo.extend([0, 6]);
    pseudo.extend(l4_length.to_be_bytes());
    ip[36..38].copy_from_slice(&checksum::sum(&pseudo).to_be_bytes());
    let gso = payload > usize::from(mss);
    let vnet = VnetHeader {
        flags: VnetHeader::NEEDS_CSUM,
        gso_type: if gso {
            VnetHeader::GSO_TCPV4
        } else {
            VnetHeader::GSO_NONE
        },
        hdr_len: 40,
        gso_size: if gso { mss } else { 0 },
        csum_start: 20,
        csum_offset: 16,
    };
    let mut frame = vnet.to_bytes().to_vec();
    frame.extend(ip);
    frame
}

/// A datagram over IPv4 to this port, virtio-net header first. The kernel completes its checksum.
fn udp(port: u16, id: u16, payload: &[u8]) -> Vec<u8> {
    let total = u16::try_from(28 + payload.len()).unwrap();
    let mut ip = vec![0x45, 0];
    ip.extend(total.to_be_bytes());
    ip.extend(id.to_be_bytes());
    ip.extend([0, 0, 64, 17, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2]);
    let sum = checksum::checksum(&ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    let length = (total - 20).to_be_bytes();
    let pseudo = [&ip[12..20], &[0, 17], &length].concat();
    ip.extend([0x14, 0x51]);
    ip.extend(port.to_be_bytes());
    ip.extend(length);
    ip.extend(checksum::sum(&pseudo).to_be_bytes());
    ip.extend(payload);
    let vnet = VnetHeader {
        flags: VnetHeader::NEEDS_CSUM,
        hdr_len: 28,
        csum_start: 20,
        csum_offset: 6,
        ..VnetHeader::default()
    };
    [&vnet.to_bytes()[..], &ip].concat()
}

fn shape(frame: &[u8]) -> (VnetHeader, &[u8], Shape) {
    let (vnet, ip) = VnetHeader::split(frame).unwrap();
    let shape = inspect(&vnet, ip).unwrap();
    (vnet, ip, shape)
}

/// The wire segments of a frame, in full.
pub fn segments(frame: &[u8]) -> Vec<Vec<u8>> {
    let (vnet, ip, shape) = shape(frame);
    (0..shape.segments)
        .map(|index| {
            let mut segment = Vec::new();
            complete_segment(&vnet, ip, &shape, index, false, &mut segment);
            segment
        })
        .collect()
}

struct Bench {
    direction: Direction,
    input: List,
    output: List,
    now_ns: Cell<u64>,
}

impl Bench {
    fn new(stages: Vec<Box<dyn Stage>>, coalesce: Coalesce) -> Self {
        Self::with_memory(stages, coalesce, usize::MAX)
    }

    fn with_memory(stages: Vec<Box<dyn Stage>>, coalesce: Coalesce, memory_bytes: usize) -> Self {
        Self::in_a_row(vec![stages], coalesce, memory_bytes)
    }

    fn in_a_row(links: Vec<Vec<Box<dyn Stage>>>, coalesce: Coalesce, memory_bytes: usize) -> Self {
        let links = links.into_iter().zip(["a.down", "b.down"]);
        let links = links.map(|(stages, name)| NamedLink {
            name: name.into(),
            link: Link::new(stages, true),
            points: None,
            log: None,
        });
        Self {
            direction: Direction::new(
                LinkChain::new(links.collect(), coalesce, true),
                Packets::new(Arc::new(PacketMemory::new(memory_bytes))).unwrap(),
            ),
            input: List::default(),
            output: List::default(),
            now_ns: Cell::new(0),
        }
    }

    fn turn(&mut self, at_ns: u64) {
        self.now_ns.set(at_ns);
        let now_ns = &self.now_ns;
        let clock = || now_ns.get();
        while self
            .direction
            .read(0, &mut self.input, &mut self.output, &clock)
            .unwrap()
            .packets
            > 0
        {}
        self.direction.advance(&mut self.output, &clock);
    }

    /// The link's counters; the accounting must be complete at any time.
    fn total(&self) -> &Counts {
        let link = &self.direction.chain.links[0].link;
        let total = link.counters().total();
        assert_eq!(
            total.unaccounted_segments(),
            i128::from(link.backlog().segments)
        );
        total
    }

    fn dropped(&self, reason: Reason) -> u64 {
        self.total().dropped[reason as usize].segments
    }
}

#[test]
fn a_super_packet_without_impairment_leaves_unchanged() {
    let mut bench = Bench::new(
        vec![Box::new(Delay::constant(1_000_000, false))],
        Coalesce::Time { time_ns: 125_000 },
    );
    let frame = tcp(1_000, 30_000, 1_448);
    bench.input.incoming.push_back(frame.clone());
    bench.turn(0);
    assert_eq!(bench.direction.next_event_ns(), Some(1_000_000));
    bench.turn(999_999);
    assert!(bench.output.written.is_empty());
    bench.turn(1_000_000);
    assert_eq!(bench.output.written, [frame]);
    assert_eq!(bench.direction.packets.in_flight_bytes(), 0);
    assert_eq!(
        bench.direction.chain.account.lateness.percentile(1.0),
        Some(0)
    );
    let transit = bench.direction.chain.account.transit;
    assert_eq!((transit.sum_ns, transit.segments), (21_000_000, 21));
}

/// Sends datagrams with these ports 10 µs apart, and writes them in one turn. Returns the number of segments in each packet
/// written.
fn written_together(coalesce: Coalesce, most: Option<usize>, ports: &[u16]) -> Vec<u16> {
    let mut bench = Bench::new(vec![Box::new(Delay::constant(1_000_000, false))], coalesce);
    bench.output.together = most;
    let mut sent = Vec::new();
    for (place, port) in ports.iter().enumerate() {
        let place = u16::try_from(place).unwrap();
        let frame = udp(*port, place, &[place.to_le_bytes()[0]; 18]);
        sent.extend(segments(&frame));
        bench.input.incoming.push_back(frame);
        bench.turn(u64::from(place) * 10_000);
    }
    bench.turn(2_000_000);
    let written = &bench.output.written;
    let after: Vec<_> = written.iter().flat_map(|frame| segments(frame)).collect();
    assert_eq!(after, sent);
    let account = &bench.direction.chain.account;
    assert_eq!(account.devices.packets_written, written.len() as u64);
    assert_eq!(account.devices.segments_written, sent.len() as u64);
    assert_eq!(account.surely_late.percentile(1.0), Some(1_000_000));
    assert_eq!(bench.total().delivered.segments, sent.len() as u64);
    assert_eq!(bench.direction.packets.in_flight_bytes(), 0);
    let written = written.iter();
    written.map(|frame| shape(frame).2.segments).collect()
}

#[test]
fn datagrams_of_a_flow_that_are_due_leave_together() {
    let window = Coalesce::Time { time_ns: 125_000 };
    let any = Some(usize::MAX);
    assert_eq!(written_together(window, any, &[9; 5]), [5]);
    assert_eq!(written_together(window, None, &[9; 5]), [1; 5]);
    assert_eq!(written_together(Coalesce::Off, any, &[9; 5]), [1; 5]);
    assert_eq!(written_together(Coalesce::Slot, any, &[9; 5]), [1; 5]);
    assert_eq!(written_together(window, any, &[9; 30]), [13, 13, 4]);
    assert_eq!(written_together(window, any, &[9, 9, 7, 9, 9]), [2, 1, 2]);
    // A device that refuses a super-packet gets its datagrams.
    assert_eq!(written_together(window, Some(60), &[9; 3]), [1; 3]);
}

#[test]
fn coalesce_off_writes_single_wire_segments() {
    let mut bench = Bench::new(Vec::new(), Coalesce::Off);
    let frame = tcp(1_000, 30_000, 1_448);
    bench.input.incoming.push_back(frame.clone());
    bench.turn(5);
    let written: Vec<Vec<u8>> = bench
        .output
        .written
        .iter()
        .flat_map(|frame| segments(frame))
        .collect();
    assert_eq!(written.len(), 21);
    assert_eq!(written, segments(&frame));
    assert!(
        bench
            .output
            .written
            .iter()
            .all(|frame| shape(frame).2.segments == 1)
    );
}

#[test]
fn surviving_segments_keep_their_bytes_and_order() {
    let stages: Vec<Box<dyn Stage>> = vec![Box::new(Loss::independent(
        0.2,
        Unit::Packet,
        RandomStream::new(1, 1),
    ))];
    let mut bench = Bench::new(stages, Coalesce::Time { time_ns: 125_000 });
    let mut expected = Vec::new();
    for index in 0..20 {
        let frame = tcp(index * 30_000, 30_000, 1_448);
        expected.extend(segments(&frame));
        bench.input.incoming.push_back(frame);
        bench.turn(u64::from(index) * 1_000_000);
    }
    bench.turn(100_000_000);
    let written: Vec<Vec<u8>> = bench
        .output
        .written
        .iter()
        .flat_map(|frame| segments(frame))
        .collect();
    let total = bench.direction.chain.links[0].link.counters().total();
    assert_eq!(written.len() as u64, total.delivered.segments);
    assert_eq!(total.offered.segments, 20 * 21);
    assert!(
        total.dropped_total().segments > 40,
        "a fifth of 420 is lost"
    );
    let mut rest = expected.iter();
    assert!(
        written
            .iter()
            .all(|segment| rest.any(|other| other == segment)),
        "a subsequence of the sent segments"
    );
    assert_eq!(
        bench.direction.packets.in_flight_bytes(),
        0,
        "lost segments release their packet"
    );
}

#[test]
fn copies_arrive_twice_and_release_their_packet() {
    let stages: Vec<Box<dyn Stage>> = vec![Box::new(Duplicate::new(1.0, RandomStream::new(1, 1)))];
    let mut bench = Bench::new(stages, Coalesce::Slot);
    let frame = tcp(0, 5_000, 1_448);
    bench.input.incoming.push_back(frame.clone());
    bench.turn(0);
    let written: Vec<Vec<u8>> = bench
        .output
        .written
        .iter()
        .flat_map(|frame| segments(frame))
        .collect();
    for segment in segments(&frame) {
        assert_eq!(written.iter().filter(|other| **other == segment).count(), 2);
    }
    assert_eq!(bench.direction.packets.in_flight_bytes(), 0);
}

#[test]
fn a_flipped_bit_reaches_the_receiver_with_a_wrong_checksum() {
    let stages: Vec<Box<dyn Stage>> = vec![Box::new(Corrupt::new(1.0, RandomStream::new(3, 1)))];
    let mut bench = Bench::new(stages, Coalesce::Time { time_ns: 125_000 });
    let frame = tcp(0, 5_000, 1_448);
    bench.input.incoming.push_back(frame.clone());
    bench.turn(0);
    assert_eq!(bench.output.written.len(), 4);
    for (written, whole) in bench.output.written.iter().zip(segments(&frame)) {
        assert_eq!(
            written[..VnetHeader::LEN],
            [0; VnetHeader::LEN],
            "no flag marks the checksum as valid"
        );
        let flipped: u32 = written[VnetHeader::LEN..]
            .iter()
            .zip(&whole)
            .map(|(a, b)| (a ^ b).count_ones())
            .sum();
        assert_eq!(flipped, 1);
    }
}

#[test]
fn invalid_packets_are_dropped_as_malformed() {
    let mut cut_short = tcp(0, 30_000, 1_448);
    cut_short.truncate(2_000);
    let mut version_nine = tcp(0, 100, 1_448);
    version_nine[VnetHeader::LEN] = 0x95;
    let half_a_header = [&[0; VnetHeader::LEN][..], &[0x45, 0, 0]].concat();
    let nothing = vec![0; VnetHeader::LEN];
    for frame in [cut_short, version_nine, half_a_header, nothing] {
        let ip_bytes = frame.len() as u64 - VnetHeader::LEN as u64;
        let mut bench = Bench::new(Vec::new(), Coalesce::Off);
        bench.input.incoming.push_back(frame);
        bench.turn(0);
        let total = bench.total();
        assert_eq!((total.offered.segments, total.offered.bytes), (1, ip_bytes));
        assert_eq!(bench.dropped(Reason::Malformed), 1);
        assert_eq!(bench.direction.chain.account.devices.refused_segments, 0);
        assert_eq!(bench.direction.packets.in_flight_bytes(), 0);
        assert!(bench.output.written.is_empty());
    }
}

#[test]
fn a_corrupted_ip_version_is_dropped_and_other_corruption_is_delivered() {
    let stages: Vec<Box<dyn Stage>> = vec![Box::new(Corrupt::new(1.0, RandomStream::new(3, 1)))];
    let mut bench = Bench::new(stages, Coalesce::Time { time_ns: 125_000 });
    for round in 0..2_000 {
        bench.input.incoming.push_back(tcp(0, 1, 1_448));
        bench.turn(round * 1_000_000);
    }
    let unreadable = bench.dropped(Reason::CorruptedHeader);
    // Three bits of the 328 of such a packet.
    assert!((8..=32).contains(&unreadable), "{unreadable}");
    assert_eq!(bench.total().corrupted.segments, 2_000);
    assert_eq!(bench.output.written.len() as u64, 2_000 - unreadable);
    let version = |frame: &Vec<u8>| frame[VnetHeader::LEN] >> 4;
    assert!(
        bench
            .output
            .written
            .iter()
            .all(|frame| [4, 6].contains(&version(frame)))
    );
    assert!(bench.output.written.iter().any(|frame| version(frame) == 6));
    assert_eq!(bench.direction.packets.in_flight_bytes(), 0);
}

#[test]
fn packets_beyond_the_memory_limit_are_dropped_until_memory_is_free() {
    const LIMIT: usize = 16 << 20;
    for (payload, mss) in [(1, 1_448), (1_000, 1_448), (30_000, 88), (64_000, 1_448)] {
        let stages: Vec<Box<dyn Stage>> = vec![Box::new(Delay::constant(1_000_000, false))];
        let mut bench = Bench::with_memory(stages, Coalesce::Slot, LIMIT);
        let mut sent = 0;
        while bench.dropped(Reason::PacketMemory) == 0 {
            bench.input.incoming.push_back(tcp(0, payload, mss));
            bench.turn(sent);
            sent += 1;
        }
        let in_flight = bench.direction.packets.in_flight_bytes();
        assert!(in_flight < LIMIT as u64);
        assert!(bench.direction.packets.pool.memory_bytes() <= LIMIT);
        let written = bench.output.written.len();
        bench.turn(10_000_000);
        assert!(bench.output.written.len() > written);
        assert_eq!(bench.direction.packets.in_flight_bytes(), 0);
        let dropped = bench.dropped(Reason::PacketMemory);
        bench.input.incoming.push_back(tcp(0, payload, mss));
        bench.turn(10_000_000);
        bench.turn(20_000_000);
        assert_eq!(bench.dropped(Reason::PacketMemory), dropped);
        assert_eq!(
            bench.total().offered.segments,
            bench.total().delivered.segments + dropped
        );
    }
}

#[test]
fn segments_that_a_device_refuses_are_counted() {
    let mut bench = Bench::new(Vec::new(), Coalesce::Slot);
    bench.output.refuses = true;
    bench.input.incoming.push_back(tcp(0, 30_000, 1_448));
    bench.turn(0);
    assert_eq!(bench.direction.chain.account.devices.refused_segments, 21);
    assert_eq!(bench.direction.packets.in_flight_bytes(), 0);
}

#[test]
fn lateness_is_the_time_after_the_due_time() {
    let mut bench = Bench::new(
        vec![Box::new(Delay::constant(1_000, false))],
        Coalesce::Slot,
    );
    bench.input.incoming.push_back(tcp(0, 100, 1_448));
    bench.turn(0);
    bench.turn(31_000);
    assert_eq!(bench.direction.chain.account.lateness.worst_ns(), 30_000);
    let rows = bench.direction.chain.account.take_departures(true);
    assert_eq!(
        (rows.len(), rows[0].segments, rows[0].late_max_ns),
        (1, 1, 30_000)
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn every_segment_is_accounted_for_with_any_input_and_memory_limit(
        frames in prop::collection::vec((1usize..64_000, 20u16..1_500, 0u8..8, 0u64..300_000), 1..120),
        memory_kib in 1_400usize..4_000,
        refuses: bool,
        seed: u64,
    ) {
        let stages: Vec<Box<dyn Stage>> = vec![
            Box::new(Delay::constant(1_000_000, false)),
            Box::new(Loss::independent(0.05, Unit::Packet, RandomStream::new(seed, 1))),
            Box::new(Duplicate::new(0.05, RandomStream::new(seed, 2))),
            Box::new(Corrupt::new(0.3, RandomStream::new(seed, 3))),
        ];
        let mut bench = Bench::with_memory(stages, Coalesce::Slot, memory_kib << 10);
        bench.output.refuses = refuses;
        let (mut at_ns, mut malformed) = (0, 0);
        for (payload, mss, version, gap_ns) in frames {
            let mut frame = tcp(0, payload, mss);
            if version == 0 {
                frame[VnetHeader::LEN] = 0x15;
                malformed += 1;
            }
            bench.input.incoming.push_back(frame);
            at_ns += gap_ns;
            bench.turn(at_ns);
            bench.total();
            prop_assert!(bench.direction.packets.pool.memory_bytes() <= memory_kib << 10);
        }
        bench.turn(at_ns + 1_000_000);
        bench.turn(at_ns + 2_000_000);
        prop_assert_eq!(bench.total().unaccounted_segments(), 0);
        prop_assert_eq!(bench.dropped(Reason::Malformed), malformed);
        prop_assert_eq!(bench.direction.packets.in_flight_bytes(), 0);
        let delivered = bench.total().delivered.segments;
        let written: u64 = bench.output.written.iter().map(|frame| segments_of(frame)).sum();
        let refused = bench.direction.chain.account.devices.refused_segments;
        prop_assert_eq!(delivered, written + refused);
    }
}

/// Wire segments of a frame that was written, which may have a flipped bit.
fn segments_of(frame: &[u8]) -> u64 {
    let (vnet, ip) = VnetHeader::split(frame).unwrap();
    if vnet.is_gso() {
        inspect(&vnet, ip).unwrap().segments.into()
    } else {
        1
    }
}

#[test]
fn a_wait_in_the_device_makes_a_packet_late_by_at_most_that_time() {
    let mut bench = Bench::new(
        vec![Box::new(Delay::constant(1_000_000, false))],
        Coalesce::Off,
    );
    bench.direction.empty_ns[0] = 2_000_000;
    bench.input.incoming.push_back(tcp(1, 1_000, 1_448));
    bench.turn(12_000_000);
    bench.turn(13_000_000);
    let chain = &bench.direction.chain;
    assert_eq!(chain.account.lateness.worst_ns(), 10_000_000);
    assert_eq!(chain.account.surely_late.worst_ns(), 0);
}

#[test]
fn a_packet_that_arrives_between_polls_has_not_waited() {
    let mut bench = Bench::new(
        vec![Box::new(Delay::constant(1_000_000, false))],
        Coalesce::Off,
    );
    bench.turn(12_000_000);
    bench.input.incoming.push_back(tcp(1, 1_000, 1_448));
    bench.turn(12_000_100);
    bench.turn(13_000_100);
    assert_eq!(bench.direction.chain.account.lateness.worst_ns(), 100);
}

/// A device that knows when packets were sent, and hands packets over when they are due.
#[derive(Default)]
struct TimedList {
    pub incoming: VecDeque<(u64, Vec<u8>)>,
    sent_ns: u64,
    added: Vec<(u64, Vec<u8>)>,
    written: Vec<(u64, Vec<u8>)>,
    refused_one_in: usize,
}

impl Port for TimedList {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let Some((sent_ns, packet)) = self.incoming.pop_front() else {
            return Ok(None);
        };
        self.sent_ns = sent_ns;
        buffer[..packet.len()].copy_from_slice(&packet);
        Ok(Some(packet.len()))
    }

    fn write(&mut self, _: &[IoSlice<'_>]) -> io::Result<()> {
        unreachable!("packets are written ahead")
    }

    fn sent_ns(&self) -> Option<u64> {
        Some(self.sent_ns)
    }

    fn write_ahead(&mut self, due_ns: u64, parts: &[IoSlice<'_>]) {
        let packet = parts.iter().flat_map(|part| part.iter().copied()).collect();
        self.added.push((due_ns, packet));
    }

    fn flush(&mut self, refusals: &mut Vec<Option<Refusal>>) {
        for added in self.added.drain(..) {
            self.written.push(added);
            let number = self.written.len();
            let refuses = number.is_multiple_of(self.refused_one_in);
            refusals.push(refuses.then_some(Refusal::Other));
        }
    }
}

/// A packet with the time at which it is sent, or written.
type At = (u64, Vec<u8>);

/// TCP packets by payload, segment size, and time since the packet before.
fn sent_after_gaps(frames: &[(usize, u16, u64)]) -> VecDeque<At> {
    let mut sent_ns = 0;
    let sent = frames.iter().map(|(payload, mss, gap_ns)| {
        sent_ns += gap_ns;
        (sent_ns, tcp(0, *payload, *mss))
    });
    sent.collect()
}

/// Takes a turn when a packet is sent, and at each `next_ns`. Returns what was written, and the number of turns.
fn turns_of(
    bench: &mut Bench,
    mut sent: VecDeque<At>,
    next_ns: impl Fn(&Direction) -> Option<u64>,
) -> (Vec<At>, usize) {
    let (mut written, mut turns) = (Vec::new(), 0);
    loop {
        let sent_ns = sent.front().map(|(at_ns, _)| *at_ns);
        let due_ns = next_ns(&bench.direction);
        let Some(now_ns) = [due_ns, sent_ns].into_iter().flatten().min() else {
            return (written, turns);
        };
        if sent_ns == Some(now_ns) {
            let packet = sent.pop_front().map(|(_, packet)| packet);
            bench.input.incoming.extend(packet);
        }
        bench.turn(now_ns);
        turns += 1;
        let leaves = bench.output.written.drain(..);
        written.extend(leaves.map(|packet| (now_ns, packet)));
    }
}

/// Stages; the last one settles each departure on arrival.
fn foreseeing(seed: u64) -> Vec<Box<dyn Stage>> {
    let jitter = Distribution {
        shape: DelayShape::Normal,
        mean_ns: 2_000_000,
        spread_ns: 700_000,
        correlation: 0.0,
    };
    vec![
        Box::new(Loss::independent(
            0.05,
            Unit::Packet,
            RandomStream::new(seed, 1),
        )),
        Box::new(Duplicate::new(0.05, RandomStream::new(seed, 2))),
        Box::new(Delay::distribution(
            jitter,
            false,
            RandomStream::new(seed, 3),
        )),
        Box::new(Delay::constant(5_000_000, false)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// A direction that looks at its device every 2 ms gives the same packets the same times as one that never sleeps.
    #[test]
    fn packets_that_are_written_ahead_are_those_that_are_written_on_time(
        frames in prop::collection::vec((1usize..20_000, 200u16..1_500, 0u64..900_000), 1..80),
        coalesce in prop_oneof![
            Just(Coalesce::Off),
            Just(Coalesce::Slot),
            Just(Coalesce::Time { time_ns: 300_000 })
        ],
        refused_one_in in 0usize..9,
        seed: u64,
    ) {
        let mut on_time = Bench::new(foreseeing(seed), coalesce);
        let mut ahead = Bench::new(foreseeing(seed), coalesce);
        ahead.direction.write_ahead();
        prop_assert_eq!(ahead.direction.foresight_ns(), 5_000_000);
        let (mut port, mut output) = (TimedList::default(), TimedList { refused_one_in, ..TimedList::default() });
        let sent = sent_after_gaps(&frames);
        port.incoming.extend(sent.iter().cloned());
        let (expected, _) = turns_of(&mut on_time, sent, Direction::next_event_ns);
        let all = std::mem::take(&mut port.incoming);
        let mut all = all.into_iter().peekable();
        for turn in 1.. {
            let now_ns = turn * 2_000_000;
            while let Some(packet) = all.next_if(|(sent_ns, _)| *sent_ns <= now_ns) {
                port.incoming.push_back(packet);
            }
            let clock = || now_ns;
            ahead.direction.read_all(0, &mut port, &mut output, &clock).unwrap();
            let before = output.written.len();
            ahead.direction.advance(&mut output, &clock);
            prop_assert!(output.written[before..].iter().all(|(due_ns, _)| *due_ns > now_ns));
            if all.peek().is_none() && ahead.direction.is_empty() {
                break;
            }
        }
        prop_assert_eq!(&output.written, &expected);
        let (one, other) = (&on_time.direction.chain, &ahead.direction.chain);
        let rows = |bench: &Bench| format!("{:?}", bench.total());
        prop_assert_eq!(rows(&on_time), rows(&ahead));
        prop_assert_eq!(other.account.lateness.worst_ns(), 0);
        prop_assert_eq!(one.account.transit.sum_ns == other.account.transit.sum_ns, refused_one_in == 0 || refused_one_in > expected.len());
        prop_assert_eq!(ahead.direction.packets.in_flight_bytes(), 0);
        prop_assert_eq!(
            one.account.devices.segments_written,
            other.account.devices.segments_written + other.account.devices.refused_segments
        );
    }
}

/// A queue of this many packets and its server.
fn slow(rate_bps: u64, packets: u64) -> Box<dyn Stage> {
    let queue = DropTail::new(Limit::Packets(packets), Unit::Packet);
    let server = at_rate(Profile::constant(rate_bps));
    Box::new(Bottleneck::new(BottleneckConfig::default(), queue, server))
}

/// Links whose last stage does, or does not, settle its departures on arrival.
fn row(kind: usize, seed: u64) -> Vec<Vec<Box<dyn Stage>>> {
    match kind {
        0 => vec![vec![
            slow(100_000_000, 20),
            Box::new(Delay::constant(700_000, false)),
        ]],
        1 => vec![foreseeing(seed), vec![slow(1_000_000_000, 5)]],
        2 => vec![
            vec![
                slow(400_000_000, 9),
                Box::new(Delay::constant(90_000, false)),
            ],
            foreseeing(seed),
        ],
        _ => vec![
            vec![Box::new(Delay::constant(300_000, true))],
            vec![slow(50_000_000, 40), Box::new(Delay::constant(0, true))],
        ],
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Turns when packets leave write the same packets at the same times as turns at each event inside the links, and are
    /// fewer.
    #[test]
    fn a_turn_for_each_departure_is_enough(
        frames in prop::collection::vec((1usize..20_000, 200u16..1_500, 0u64..900_000), 1..60),
        coalesce in prop_oneof![
            Just(Coalesce::Off),
            Just(Coalesce::Slot),
            Just(Coalesce::Time { time_ns: 125_000 })
        ],
        kind in 0usize..4,
        seed: u64,
    ) {
        let run = |next_ns: &dyn Fn(&Direction) -> Option<u64>| {
            let mut bench = Bench::in_a_row(row(kind, seed), coalesce, usize::MAX);
            let (written, turns) = turns_of(&mut bench, sent_after_gaps(&frames), next_ns);
            assert!(bench.direction.is_empty());
            (written, format!("{:?}", bench.direction.chain.account.transit), turns)
        };
        let each = run(&Direction::next_event_ns);
        let departures = run(&Direction::next_departure_ns);
        prop_assert_eq!(&each.0, &departures.0);
        prop_assert_eq!(each.1, departures.1);
        prop_assert!(departures.2 <= each.2);
    }
}
