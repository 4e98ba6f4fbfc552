//! The program that counts says what the accounts in user space say of the same frames.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use crate::pair::{counters_of, frames, spec, spec_v6, with_pair};
use wavebed_forward::account::{Accounts, FrameCounters, WINDOW};
use wavebed_forward::frame::{FrameSpec, Frames};
use wavebed_forward::receiver::Receiver;
use wavebed_forward::xdp_receiver::XdpReceiver;
use wavebed_os::bpf::XdpMode;
use wavebed_os::clock::monotonic_ns;
use wavebed_os::ethtool::Ethtool;
use wavebed_os::netlink::{Netlink, interface_index};
use wavebed_os::packet_socket::PacketSocket;

const TRIAL: u16 = 7;
const MODES: [XdpMode; 2] = [XdpMode::Native, XdpMode::Generic];

fn frame(frames: &Frames, number: u64, trial: u16) -> Vec<u8> {
    let mut bytes = vec![0; frames.longest()];
    let length = frames.write(number, trial, monotonic_ns(), &mut bytes);
    bytes.truncate(length);
    bytes
}

/// Sends few enough at once that no ring between the ends is full.
fn send(socket: &PacketSocket, all: &[Vec<u8>]) {
    for some in all.chunks(32) {
        let mut rest: Vec<&[u8]> = some.iter().map(Vec::as_slice).collect();
        while !rest.is_empty() {
            let sent = socket.send_batch(&rest).expect("send");
            assert!(sent > 0, "the interface takes the frames");
            rest.drain(..sent);
        }
    }
}

/// The counters without what depends on when frames came.
fn timeless(counters: FrameCounters) -> FrameCounters {
    FrameCounters {
        first_ns: None,
        last_ns: None,
        latency: BTreeMap::new(),
        latency_min_ns: None,
        latency_max_ns: None,
        sample: Vec::new(),
        ..counters
    }
}

/// Sends `made` to a receiver and to the accounts, and compares.
fn compare(spec: &FrameSpec, make: impl Fn(&Frames) -> Vec<Vec<u8>> + Send + Copy + 'static) {
    for mode in MODES {
        let spec = spec.clone();
        with_pair(move || {
            let frames = frames(&spec);
            let input = make(&frames);
            let mut accounts = Accounts::new(&frames, TRIAL, 3);
            for one in &input {
                accounts.see(one, u32::try_from(one.len()).unwrap(), monotonic_ns());
            }
            let mut receiver = XdpReceiver::attach("right", mode).expect("attach");
            receiver.start_trial(&frames, TRIAL, 3).expect("counters");
            let socket = PacketSocket::open("left").expect("a socket");
            let before = monotonic_ns();
            send(&socket, &input);
            let counters = counters_of(&mut receiver, input.len() as u64);
            let expected = accounts.counters();
            assert_eq!(
                timeless(counters.clone()),
                timeless(expected.clone()),
                "{mode:?}"
            );
            let samples = |counters: &FrameCounters| -> Vec<(u32, String)> {
                let all = counters.sample.iter();
                all.map(|one| (one.length, one.hex.clone())).collect()
            };
            assert_eq!(samples(&counters), samples(&expected), "{mode:?}");
            assert_eq!(counters.latency.values().sum::<u64>(), counters.unique);
            assert_eq!(counters.first_ns.is_some(), !counters.sizes.is_empty());
            let times = counters.first_ns.into_iter().chain(counters.last_ns);
            assert!(
                times
                    .into_iter()
                    .all(|time| time > before && time < monotonic_ns())
            );
        });
    }
}

#[test]
fn frames_in_order_are_each_counted_once() {
    compare(&spec(16, &[64]), |frames| {
        (0..500).map(|n| frame(frames, n, TRIAL)).collect()
    });
}

#[test]
fn lost_doubled_and_reordered_frames_are_told_apart() {
    compare(&spec(3, &[64]), |frames| {
        [0, 1, 2, 3, 9, 6, 3, 10, 5, 4, 9, 300, 20, 20]
            .iter()
            .map(|&n| frame(frames, n, TRIAL))
            .collect()
    });
}

#[test]
fn a_frame_whose_place_was_taken_is_too_old() {
    compare(&spec(4, &[64]), |frames| {
        [0, 5, WINDOW + 5, 5, 2 * WINDOW + 7, 7, WINDOW + 7]
            .iter()
            .map(|&n| frame(frames, n, TRIAL))
            .collect()
    });
}

#[test]
fn sizes_of_a_mix_are_counted_and_wrong_ones_are_damaged() {
    let sizes = [64, 64, 594, 64, 1518];
    compare(&spec(7, &sizes), |frames| {
        let mut made: Vec<_> = (0..200).map(|n| frame(frames, n, TRIAL)).collect();
        // The stamp of frame 4 (1518 bytes) in frame 0 (64 bytes).
        let mut liar = frame(frames, 0, TRIAL);
        liar[42..50].copy_from_slice(&4_u64.to_be_bytes());
        made.push(liar);
        made
    });
}

#[test]
fn what_is_foreign_or_of_another_trial_is_not_of_this_trial() {
    compare(&spec(4, &[100]), |frames| {
        let good = frame(frames, 0, TRIAL);
        let change = |at: usize, value: u8| {
            let mut bad = good.clone();
            bad[at] = value;
            bad
        };
        let mut arp = vec![0xff; 60];
        arp[12..14].copy_from_slice(&[8, 6]);
        vec![
            arp,
            frame(frames, 1, TRIAL - 1),
            // An IPv4 option, a fragment, TCP, a number that nobody sends, another ethertype.
            change(14, 0x46),
            change(20, 0x20),
            change(23, 6),
            change(42, 1),
            change(12, 0x09),
            vec![0; 20],
            good.clone(),
        ]
    });
}

#[test]
fn a_device_may_rewrite_addresses_ports_and_hops() {
    compare(&spec(4, &[64]), |frames| {
        (0..8)
            .map(|n| {
                let mut one = frame(frames, n, TRIAL);
                one[..12].fill(0x0a);
                one[22] -= 1;
                one[26..30].copy_from_slice(&[10, 0, 0, 1]);
                one[34..36].copy_from_slice(&[4, u8::try_from(n).unwrap()]);
                one
            })
            .collect()
    });
}

#[test]
fn tags_sessions_and_both_families_are_recognised() {
    for v6 in [false, true] {
        for vlan in [None, Some(100)] {
            for pppoe_session in [None, Some(5)] {
                let base = if v6 {
                    spec_v6(4, &[128])
                } else {
                    spec(4, &[128])
                };
                let spec = FrameSpec {
                    vlan,
                    pppoe_session,
                    ..base
                };
                compare(&spec, |frames| {
                    (0..40).map(|n| frame(frames, n, TRIAL)).collect()
                });
            }
        }
    }
}

#[test]
fn a_frame_that_lost_its_tag_on_the_way_is_still_one() {
    let tagged = FrameSpec {
        vlan: Some(9),
        ..spec(4, &[128])
    };
    compare(&tagged, |frames| {
        let mut one = frame(frames, 0, TRIAL);
        one.drain(12..16);
        vec![one]
    });
}

#[test]
fn new_books_are_empty_and_late_frames_of_the_trial_before_are_named() {
    with_pair(|| {
        let frames = frames(&spec(4, &[64]));
        let mut receiver = XdpReceiver::attach("right", XdpMode::Native).expect("attach");
        assert_eq!(
            receiver.counters().expect("counters"),
            FrameCounters::default()
        );
        let socket = PacketSocket::open("left").expect("a socket");
        receiver.start_trial(&frames, TRIAL, 0).expect("counters");
        send(&socket, &[frame(&frames, 0, TRIAL)]);
        assert_eq!(counters_of(&mut receiver, 1).unique, 1);
        receiver
            .start_trial(&frames, TRIAL + 1, 0)
            .expect("counters");
        assert_eq!(
            receiver.counters().expect("counters"),
            FrameCounters::default()
        );
        send(
            &socket,
            &[frame(&frames, 0, TRIAL), frame(&frames, 0, TRIAL + 1)],
        );
        let counters = counters_of(&mut receiver, 2);
        assert_eq!((counters.unique, counters.other_trial), (1, 1));
    });
}

#[test]
fn the_delay_is_the_time_since_the_stamp() {
    with_pair(|| {
        let frames = frames(&spec(4, &[64]));
        let mut receiver = XdpReceiver::attach("right", XdpMode::Native).expect("attach");
        receiver.start_trial(&frames, TRIAL, 0).expect("counters");
        let socket = PacketSocket::open("left").expect("a socket");
        let mut old = vec![0; 60];
        let stamped = monotonic_ns();
        frames.write(0, TRIAL, stamped - 3_000_000_000, &mut old);
        send(&socket, &[old]);
        let counters = counters_of(&mut receiver, 1);
        let delay = counters.last_ns.expect("a time") - stamped + 3_000_000_000;
        assert_eq!(counters.latency_min_ns, Some(delay));
        assert_eq!(counters.latency_max_ns, Some(delay));
        let bucket = wavebed_forward::histogram::bucket(delay);
        assert_eq!(
            counters.latency,
            BTreeMap::from([(u32::try_from(bucket).unwrap(), 1)])
        );
    });
}

/// struct `virtio_net_hdr`: UDP segmentation in pieces of `piece` bytes, with a partial checksum.
fn super_packet(frame: &[u8], piece: u16) -> Vec<u8> {
    let mut bytes = vec![1, 5];
    for word in [42_u16, piece, 34, 6] {
        bytes.extend_from_slice(&word.to_ne_bytes());
    }
    bytes.extend_from_slice(frame);
    bytes
}

#[test]
fn a_super_packet_is_one_large_frame() {
    for (length, piece) in [(42 + 64 * 18, 18), (42 + 40 * 1400, 1400)] {
        with_pair(move || {
            let frames = frames(&spec(1, &[64]));
            let mut receiver = XdpReceiver::attach("right", XdpMode::Generic).expect("attach");
            receiver.start_trial(&frames, TRIAL, 1).expect("counters");
            let mut large = vec![0; length];
            frames.write_head(0, TRIAL, monotonic_ns(), &mut large);
            let bytes = u16::try_from(length - 34).unwrap();
            large[16..18].copy_from_slice(&(bytes + 20).to_be_bytes());
            large[38..40].copy_from_slice(&bytes.to_be_bytes());
            let socket = PacketSocket::open("left")
                .expect("a socket")
                .with_virtio_header()
                .expect("the header");
            send(&socket, &[super_packet(&large, piece)]);
            let counters = counters_of(&mut receiver, 1);
            let size = u32::try_from(length).unwrap() + 4;
            assert_eq!(counters.sizes, BTreeMap::from([(size, 1)]));
            assert_eq!((counters.damaged, counters.unique), (1, 0));
            assert_eq!(counters.sample[0].length, size - 4);
        });
    }
}

#[test]
fn with_the_program_in_the_driver_the_other_end_makes_no_super_packets() {
    with_pair(|| {
        let left = Ethtool::open("left").expect("ethtool");
        let on = || left.features().expect("features")["tx-udp-segmentation"].on;
        assert!(on());
        let receiver = XdpReceiver::attach("right", XdpMode::Native).expect("attach");
        assert!(!on());
        drop(receiver);
        assert!(on());
    });
}

#[test]
fn a_frame_of_several_pages_is_one_frame() {
    for mode in MODES {
        with_pair(move || {
            let netlink = Netlink::route().expect("netlink");
            for name in ["left", "right"] {
                let index = interface_index(name).expect("the interface");
                netlink.set_mtu(index, 9000).expect("mtu");
            }
            let frames = frames(&spec(1, &[9018]));
            let mut receiver = XdpReceiver::attach("right", mode).expect("attach");
            receiver.start_trial(&frames, TRIAL, 1).expect("counters");
            let socket = PacketSocket::open("left").expect("a socket");
            send(&socket, &[frame(&frames, 0, TRIAL)]);
            let counters = counters_of(&mut receiver, 1);
            assert_eq!(counters.sizes, BTreeMap::from([(9018, 1)]));
            assert_eq!(counters.unique, 1);
        });
    }
}

#[test]
fn an_interface_that_went_away_is_an_error() {
    with_pair(|| {
        let mut receiver = XdpReceiver::attach("right", XdpMode::Native).expect("attach");
        let frames = frames(&spec(1, &[64]));
        receiver.start_trial(&frames, TRIAL, 0).expect("counters");
        let done = std::process::Command::new("ip")
            .args(["link", "delete", "left"])
            .status()
            .expect("ip");
        assert!(done.success());
        let error = receiver.counters().expect_err("it is gone").to_string();
        assert!(error.contains("right"), "{error}");
        assert!(receiver.start_trial(&frames, TRIAL, 0).is_err());
    });
}

#[test]
fn a_second_program_is_refused_and_the_first_goes_with_its_owner() {
    with_pair(|| {
        let first = XdpReceiver::attach("right", XdpMode::Native).expect("attach");
        assert!(XdpReceiver::attach("right", XdpMode::Native).is_err());
        drop(first);
        // Programs that other threads start hold copies of its descriptors for a moment.
        let limit = Instant::now() + Duration::from_secs(60);
        while let Err(error) = XdpReceiver::attach("right", XdpMode::Native) {
            assert!(Instant::now() < limit, "not free again: {error}");
            thread::sleep(Duration::from_millis(5));
        }
    });
}
