//! Frames that the kernel writes: each is sent once, on time and whole.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::pair::{counters_of, frames, spec, spec_v6, with_pair};
use wavebed_forward::account::hexadecimal;
use wavebed_forward::bpf::assembler::Register::{R0, R6, R7};
use wavebed_forward::bpf::assembler::{Assembler, Helper, Test};
use wavebed_forward::frame::{FrameSpec, STAMP_BYTES, sum_words};
use wavebed_forward::live_frames::LiveFrames;
use wavebed_forward::pace::interval_q32;
use wavebed_forward::receiver::Receiver;
use wavebed_forward::sender::{Job, Sender, Sent};
use wavebed_forward::xdp_receiver::XdpReceiver;
use wavebed_os::bpf::{Link, Program, ProgramKind, XdpMode};
use wavebed_os::clock::{monotonic_ns, thread_cpu_ns};
use wavebed_os::ethtool::Ethtool;
use wavebed_os::netlink::{Netlink, interface_index};

const TRIAL: u16 = 0x0102;

fn job(count: u64, rate_pps: Option<f64>, batch: u32) -> Job {
    let now = monotonic_ns();
    Job {
        trial: TRIAL,
        frames: count,
        interval_q32: rate_pps.map_or(0, |rate| interval_q32(rate).expect("a rate")),
        batch,
        start_ns: now,
        deadline_ns: now + 120_000_000_000,
    }
}

fn attach() -> XdpReceiver {
    XdpReceiver::attach("right", XdpMode::Native).expect("attach")
}

fn send(spec: &FrameSpec, job: &Job) -> wavebed_os::Result<Sent> {
    LiveFrames::open("left")?.send(&frames(spec), job, &AtomicBool::new(false))
}

#[test]
fn every_frame_comes_once_and_in_order() {
    with_pair(|| {
        let spec = spec(256, &[64]);
        let mut receiver = attach();
        receiver
            .start_trial(&frames(&spec), TRIAL, 0)
            .expect("counters");
        let sent = send(&spec, &job(300_000, None, 8)).expect("send");
        assert_eq!((sent.frames, sent.refused), (300_000, 0));
        let counters = counters_of(&mut receiver, 300_000);
        assert_eq!(
            (counters.unique, counters.reordered, counters.foreign),
            (300_000, 0, 0)
        );
        assert_eq!(counters.sizes, BTreeMap::from([(64, 300_000)]));
        assert!(sent.took_ns > 0 && sent.batches >= 300_000 / 64);
    });
}

#[test]
fn frames_are_those_of_the_table_to_the_byte() {
    let layouts = [
        (None, None),
        (Some(7), None),
        (None, Some(3)),
        (Some(7), Some(3)),
    ];
    for v6 in [false, true] {
        for (vlan, pppoe_session) in layouts {
            with_pair(move || {
                let base = if v6 {
                    spec_v6(5, &[120, 200])
                } else {
                    spec(5, &[120, 200])
                };
                let spec = FrameSpec {
                    vlan,
                    pppoe_session,
                    ..base
                };
                let frames = frames(&spec);
                let mut receiver = attach();
                receiver.start_trial(&frames, TRIAL, 100).expect("counters");
                send(&spec, &job(100, None, 8)).expect("send");
                let counters = counters_of(&mut receiver, 100);
                assert_eq!(counters.sample.len(), 100);
                for (number, sample) in (0..).zip(&counters.sample) {
                    let at = (frames.header_length() + 8) * 2;
                    let text = &sample.hex[at..at + 16];
                    let time = u64::from_str_radix(text, 16).expect("a time");
                    let mut bytes = vec![0; frames.longest()];
                    let length = frames.write(number, TRIAL, time, &mut bytes);
                    bytes.truncate(length.min(128));
                    assert_eq!(sample.hex, hexadecimal(&bytes));
                    assert_eq!(sample.length as usize, length);
                }
            });
        }
    }
}

#[test]
fn the_checksum_of_ipv6_is_valid() {
    with_pair(|| {
        let spec = spec_v6(64, &[84]);
        let mut receiver = attach();
        receiver
            .start_trial(&frames(&spec), TRIAL, 500)
            .expect("counters");
        send(&spec, &job(500, None, 8)).expect("send");
        let counters = counters_of(&mut receiver, 500);
        assert_eq!((counters.sample.len(), counters.unique), (500, 500));
        for sample in &counters.sample {
            let bytes: Vec<u8> = (0..sample.hex.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(&sample.hex[at..at + 2], 16).expect("hexadecimal"))
                .collect();
            // RFC 8200: both addresses, the length, the next header, and all of UDP.
            let udp = &bytes[54..];
            assert_eq!(udp.len(), 8 + STAMP_BYTES);
            let mut sum = sum_words(&bytes[22..54]) + 17 + sum_words(udp);
            sum += u32::try_from(udp.len()).unwrap();
            assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
        }
    });
}

#[test]
fn a_mix_of_sizes_is_sent_as_it_was_asked_for() {
    with_pair(|| {
        let mix = [64, 64, 64, 594, 64, 64, 594, 64, 1518, 64, 594, 594];
        let spec = spec(16, &mix);
        let mut receiver = attach();
        receiver
            .start_trial(&frames(&spec), TRIAL, 0)
            .expect("counters");
        let sent = send(&spec, &job(12_000, None, 8)).expect("send");
        let counters = counters_of(&mut receiver, 12_000);
        assert_eq!(counters.unique, 12_000 - sent.refused);
        if sent.refused == 0 {
            let expected = BTreeMap::from([(64, 7_000), (594, 4_000), (1518, 1_000)]);
            assert_eq!(counters.sizes, expected);
        }
    });
}

#[test]
fn a_pace_is_kept_and_no_frame_is_early() {
    with_pair(|| {
        let spec = spec(16, &[64]);
        let mut receiver = attach();
        for (rate, count, batch) in [
            (100_000.0, 50_000, 8),
            (20_000.0, 5_000, 1),
            (2_000.0, 300, 2),
        ] {
            receiver
                .start_trial(&frames(&spec), TRIAL, 5_000)
                .expect("counters");
            let job = job(count, Some(rate), batch);
            let sent = send(&spec, &job).expect("send");
            assert_eq!(sent.frames, count);
            let taken = count - sent.refused;
            let counters = counters_of(&mut receiver, taken);
            assert_eq!(counters.unique, taken);
            // The whole takes as long as it should, but for how late its last batch was.
            let due = job.due_ns(count - u64::from(batch)) - job.start_ns;
            assert!(sent.took_ns >= due, "{} {due}", sent.took_ns);
            let late = sent.took_ns - due;
            assert!(
                late < due / 100 + sent.late_max_ns,
                "{late} {due} {}",
                sent.late_max_ns
            );
            for sample in &counters.sample {
                // After 42 bytes of header comes the number.
                let number = u64::from_str_radix(&sample.hex[84..100], 16).expect("a number");
                let first = number - number % u64::from(batch);
                assert!(
                    sample.time_ns >= job.due_ns(first),
                    "frame {number} is early"
                );
            }
            assert!(sent.batches >= count / u64::from(batch));
        }
    });
}

#[test]
fn a_slow_pace_leaves_the_processor_to_others() {
    with_pair(|| {
        let spec = spec(1, &[64]);
        let mut receiver = attach();
        receiver
            .start_trial(&frames(&spec), TRIAL, 0)
            .expect("counters");
        let before = thread_cpu_ns();
        let sent = send(&spec, &job(200, Some(400.0), 1)).expect("send");
        let used = thread_cpu_ns() - before;
        assert_eq!(sent.frames, 200);
        assert!(used < sent.took_ns / 2, "{used} of {}", sent.took_ns);
        assert_eq!(counters_of(&mut receiver, 200).unique, 200);
    });
}

#[test]
fn a_job_ends_when_it_is_stopped_or_its_deadline_passes() {
    with_pair(|| {
        let spec = spec(1, &[64]);
        let mut receiver = attach();
        for rate in [None, Some(100_000.0), Some(1.0)] {
            receiver
                .start_trial(&frames(&spec), TRIAL, 0)
                .expect("counters");
            let stop = Arc::new(AtomicBool::new(false));
            let later = Arc::clone(&stop);
            let waker = thread::spawn(move || {
                thread::sleep(Duration::from_millis(100));
                later.store(true, Ordering::Relaxed);
            });
            let begin = Instant::now();
            let sent = LiveFrames::open("left")
                .expect("open")
                .send(&frames(&spec), &job(1 << 39, rate, 8), &stop)
                .expect("send");
            assert!(begin.elapsed() < Duration::from_secs(60));
            waker.join().expect("the waker");
            let counters = counters_of(&mut receiver, sent.frames - sent.refused);
            assert_eq!(counters.unique, sent.frames - sent.refused);

            let mut hasty = job(1 << 39, rate, 8);
            hasty.deadline_ns = hasty.start_ns + 50_000_000;
            let begin = Instant::now();
            send(&spec, &hasty).expect("send");
            assert!(begin.elapsed() < Duration::from_secs(60));
        }
    });
}

#[test]
fn an_interface_that_is_down_or_goes_away_is_an_error() {
    with_pair(|| {
        let spec = spec(1, &[64]);
        let receiver = attach();
        let ip = |arguments: &[&str]| {
            assert!(
                Command::new("ip")
                    .args(arguments)
                    .status()
                    .expect("ip")
                    .success()
            );
        };
        ip(&["link", "set", "left", "down"]);
        let error = send(&spec, &job(10, None, 8))
            .expect_err("down")
            .to_string();
        assert!(error.contains("left"), "{error}");
        ip(&["link", "set", "left", "up"]);
        let mut sender = LiveFrames::open("left").expect("open");
        drop(receiver);
        ip(&["link", "delete", "left"]);
        let stop = AtomicBool::new(false);
        assert!(
            sender
                .send(&frames(&spec), &job(10, None, 8), &stop)
                .is_err()
        );
        assert!(LiveFrames::open("left").is_err());
    });
}

#[test]
fn a_frame_that_is_too_long_is_refused_before_any_is_sent() {
    with_pair(|| {
        let error = send(&spec(1, &[2000]), &job(10, None, 8)).expect_err("too long");
        assert!(error.to_string().contains("1518"), "{error}");
    });
}

#[test]
fn a_peer_that_does_not_poll_is_told_and_no_number_comes_of_it() {
    with_pair(|| {
        let spec = spec(1, &[64]);
        let error = send(&spec, &job(1000, None, 8)).expect_err("nobody polls");
        assert!(error.to_string().contains("gro on"), "{error}");
        let peer = Ethtool::open("right").expect("ethtool");
        assert!(peer.set_feature("rx-gro", true).expect("GRO"));
        let sent = send(&spec, &job(1000, None, 8)).expect("send");
        assert_eq!(sent.frames, 1000);
    });
}

/// A program that takes 20 µs for a frame, and drops it.
fn slow_program() -> Program {
    let mut program = Assembler::new();
    let (again, end) = (program.label(), program.label());
    program
        .call(Helper::Time)
        .set(R6, R0)
        .add(R6, 20_000)
        .set(R7, 2000)
        .place(again)
        .call(Helper::Time)
        .jump_if(R0, Test::AtLeast, R6, end)
        .add(R7, -1)
        .jump_if(R7, Test::NotEqual, 0, again)
        .place(end)
        .set(R0, 1)
        .exit();
    Program::load("slow", ProgramKind::Xdp, &program.finish()).expect("load")
}

#[test]
fn frames_that_the_peers_ring_has_no_room_for_are_counted_as_refused() {
    with_pair(|| {
        let right = interface_index("right").expect("right");
        let _link = Link::attach_xdp(&slow_program(), right, XdpMode::Native).expect("attach");
        // Polled in a thread of its own, the ring of 256 is not emptied between two batches.
        let threaded = "mount -t sysfs none /sys && echo 1 >/sys/class/net/right/threaded";
        let done = Command::new("unshare")
            .args(["-m", "sh", "-c", threaded])
            .status();
        assert!(done.expect("unshare").success());
        let dropped = || {
            let netlink = Netlink::route().expect("netlink");
            let index = interface_index("left").expect("left");
            netlink.counters(index).expect("counters").tx_dropped
        };
        let before = dropped();
        let sent = send(&spec(16, &[64]), &job(20_000, None, 8)).expect("send");
        assert_eq!(sent.frames, 20_000);
        assert!(sent.refused > 0);
        assert_eq!(sent.refused, dropped() - before);
    });
}
