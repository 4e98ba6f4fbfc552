//! The device that forwards in the driver does what a router does.

use std::sync::atomic::AtomicBool;

use crate::pair::{add_pair, counters_of, frames, spec, spec_v6, with_pair};
use wavebed_forward::frame::{FrameSpec, sum_words};
use wavebed_forward::live_frames::LiveFrames;
use wavebed_forward::receiver::Receiver;
use wavebed_forward::sender::{Job, Sender};
use wavebed_forward::xdp_device::{Side, XdpDevice};
use wavebed_forward::xdp_receiver::XdpReceiver;
use wavebed_os::bpf::XdpMode;
use wavebed_os::clock::monotonic_ns;
use wavebed_os::netlink::{Netlink, interface_index};
use wavebed_os::packet_socket::PacketSocket;

const TRIAL: u16 = 1;
const TO_LEFT: [u8; 6] = [2, 0, 0, 0, 9, 1];
const TO_RIGHT: [u8; 6] = [2, 0, 0, 0, 9, 2];

/// `left` is joined to `right`, and `far` to `out`; the device is between `right` and `out`.
fn with_device(body: impl FnOnce() + Send + 'static) {
    with_pair(|| {
        add_pair("out", "far");
        let _device = XdpDevice::attach(
            Side {
                interface: "right",
                next_mac: TO_LEFT,
            },
            Side {
                interface: "out",
                next_mac: TO_RIGHT,
            },
        )
        .expect("forwards");
        body();
    });
}

fn mac(interface: &str) -> [u8; 6] {
    let index = interface_index(interface).expect("the interface");
    let found = Netlink::route().expect("netlink").interface(index);
    found.expect("the interface").mac.expect("an address")
}

fn bytes_of(hex: &str) -> Vec<u8> {
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal"))
        .collect()
}

/// Sends frames through the device and returns the first ones as they came out at `to`.
fn through(spec: &FrameSpec, from: &str, to: &str, count: u64) -> Vec<Vec<u8>> {
    let frames = frames(spec);
    let mut receiver = XdpReceiver::attach(to, XdpMode::Native).expect("attach");
    receiver.start_trial(&frames, TRIAL, 600).expect("counters");
    let now = monotonic_ns();
    let job = Job {
        trial: TRIAL,
        frames: count,
        interval_q32: 0,
        batch: 8,
        start_ns: now,
        deadline_ns: now + 60_000_000_000,
    };
    let mut sender = LiveFrames::open(from).expect("open");
    let sent = sender
        .send(&frames, &job, &AtomicBool::new(false))
        .expect("send");
    assert_eq!(sent.frames, count);
    let counters = counters_of(&mut receiver, count);
    // A ring between two ends may overflow on a busy machine; nothing else may go wrong.
    assert!(counters.unique > count / 2, "{counters:?}");
    assert_eq!(
        (counters.damaged, counters.duplicates, counters.reordered),
        (0, 0, 0)
    );
    counters
        .sample
        .iter()
        .map(|one| bytes_of(&one.hex))
        .collect()
}

#[test]
fn ipv4_leaves_with_one_hop_less_and_a_valid_checksum_both_ways() {
    with_device(|| {
        // Pages are used again after some thousand frames: the last ones are as the first.
        for (from, to, next, out) in [
            ("left", "far", TO_RIGHT, "out"),
            ("far", "left", TO_LEFT, "right"),
        ] {
            for frame in through(&spec(64, &[64]), from, to, 600) {
                assert_eq!((&frame[..6], &frame[6..12]), (&next[..], &mac(out)[..]));
                assert_eq!(frame[22], 63);
                let sum = sum_words(&frame[14..34]);
                assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
            }
        }
    });
}

#[test]
fn ipv6_leaves_with_one_hop_less() {
    with_device(|| {
        for frame in through(&spec_v6(64, &[84]), "left", "far", 600) {
            assert_eq!((frame[21], &frame[..6]), (63, &TO_RIGHT[..]));
        }
    });
}

#[test]
fn frames_that_are_sent_again_and_again_have_fresh_headers() {
    with_device(|| {
        let frames = frames(&spec(16, &[64]));
        let mut receiver = XdpReceiver::attach("far", XdpMode::Native).expect("attach");
        let mut sender = LiveFrames::open("left").expect("open");
        // Each job has far more frames than pages; were the TTL not written again, it would be spent after 63 turns.
        receiver.start_trial(&frames, TRIAL, 0).expect("counters");
        let now = monotonic_ns();
        let job = Job {
            trial: TRIAL,
            frames: 200_000,
            interval_q32: 0,
            batch: 8,
            start_ns: now,
            deadline_ns: now + 60_000_000_000,
        };
        let sent = sender
            .send(&frames, &job, &AtomicBool::new(false))
            .expect("send");
        let counters = counters_of(&mut receiver, 200_000 - sent.refused);
        assert!(counters.unique > 150_000, "{counters:?}");
    });
}

#[test]
fn the_checksum_is_right_for_every_value_that_it_can_have() {
    with_device(|| {
        let frames = frames(&spec(1, &[64]));
        let mut receiver = XdpReceiver::attach("far", XdpMode::Native).expect("attach");
        let socket = PacketSocket::open("left").expect("a socket");
        // The identification makes the checksum what we like; near 0 and 0xffff it is folded.
        let identifications: Vec<u16> = (0..=0xffff).step_by(257).chain(0xb900..0xbc00).collect();
        for (trial, some) in (0..).zip(identifications.chunks(200)) {
            receiver.start_trial(&frames, trial, 200).expect("counters");
            for (number, identification) in (0..).zip(some) {
                let mut frame = vec![0; 60];
                frames.write(number, trial, monotonic_ns(), &mut frame);
                frame[18..20].copy_from_slice(&identification.to_be_bytes());
                frame[24..26].fill(0);
                let sum = sum_words(&frame[14..34]);
                let folded = u16::try_from((sum & 0xffff) + (sum >> 16)).expect("few words");
                frame[24..26].copy_from_slice(&(!folded).to_be_bytes());
                assert_eq!(socket.send_batch(&[&frame]).expect("send"), 1);
            }
            let counters = counters_of(&mut receiver, some.len() as u64);
            assert_eq!(counters.sample.len(), some.len());
            for sample in &counters.sample {
                let frame = bytes_of(&sample.hex);
                let sum = sum_words(&frame[14..34]);
                assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
                assert_ne!(&frame[24..26], &[0xff, 0xff]);
            }
        }
    });
}

#[test]
fn what_is_spent_is_dropped_and_what_is_not_routed_stays() {
    with_device(|| {
        let frames = frames(&spec(1, &[64]));
        let mut receiver = XdpReceiver::attach("far", XdpMode::Native).expect("attach");
        receiver.start_trial(&frames, TRIAL, 8).expect("counters");
        let socket = PacketSocket::open("left").expect("a socket");
        let mut good = vec![0; 60];
        frames.write(0, TRIAL, monotonic_ns(), &mut good);
        let change = |at: usize, value: u8| {
            let mut other = good.clone();
            other[at] = value;
            other
        };
        // A TTL of 1 and of 0, a group, another protocol; the last one goes through.
        for frame in [
            change(22, 1),
            change(22, 0),
            change(0, 3),
            change(12, 9),
            change(22, 2),
        ] {
            assert_eq!(socket.send_batch(&[&frame]).expect("send"), 1);
        }
        let counters = counters_of(&mut receiver, 1);
        assert_eq!((counters.unique, counters.foreign), (1, 0));
        assert_eq!(bytes_of(&counters.sample[0].hex)[22], 1);
    });
}
