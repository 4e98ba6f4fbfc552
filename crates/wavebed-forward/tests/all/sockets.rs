//! Every sender of user space against the ring receiver, over a pair of virtual interfaces.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::cable::{frames, in_namespace, ip, job, make_pair, spec, with_pair};
use wavebed_forward::account::FrameCounters;
use wavebed_forward::af_xdp::AfXdp;
use wavebed_forward::frame::Frames;
use wavebed_forward::receiver::{Receiver, ReceiverKind};
use wavebed_forward::rx_ring::RxRing;
use wavebed_forward::sender::{Job, Sender, SenderKind, Sent};
use wavebed_forward::sendmmsg::Sendmmsg;
use wavebed_forward::tx_ring::TxRing;
use wavebed_os::clock::monotonic_ns;
use wavebed_os::ethtool::Ethtool;
use wavebed_os::namespace::unshare_mounts_and_name;
use wavebed_os::netlink::{Netlink, interface_index};
use wavebed_os::{namespace, sched};

/// How long what must happen may take: a thread may stand still for seconds where others run.
const PATIENCE: Duration = Duration::from_secs(60);
const KINDS: [SenderKind; 3] = [
    SenderKind::Sendmmsg,
    SenderKind::TxRing,
    SenderKind::AfXdpCopy,
];

fn open(kind: SenderKind, interface: &str) -> Box<dyn Sender> {
    let sender: Box<dyn Sender> = match kind {
        SenderKind::Sendmmsg => Box::new(Sendmmsg::open(interface).expect("sendmmsg")),
        SenderKind::TxRing => Box::new(TxRing::open(interface).expect("a ring")),
        SenderKind::AfXdpCopy => Box::new(AfXdp::open(interface, false).expect("AF_XDP")),
        _ => unreachable!("not a sender of user space that every interface has"),
    };
    assert_eq!(sender.kind(), kind);
    sender
}

/// Starts the counters, does the job, and returns what was sent and counted. A thread that polls the interface may have to
/// wait for its processor after the last frame was sent.
fn run(
    sender: &mut dyn Sender,
    receiver: &mut dyn Receiver,
    frames: &Frames,
    job: &Job,
) -> (Sent, FrameCounters) {
    receiver.start_trial(frames, job.trial, 4).expect("open");
    let later_ns = monotonic_ns() - job.start_ns;
    let job = Job {
        start_ns: job.start_ns + later_ns,
        deadline_ns: job.deadline_ns + later_ns,
        ..job.clone()
    };
    let sent = sender
        .send(frames, &job, &AtomicBool::new(false))
        .expect("send");
    let end = Instant::now() + PATIENCE;
    loop {
        let counters = receiver.counters().expect("counters");
        let have_come = counters.unique + counters.receiver_lost;
        if have_come >= sent.frames - sent.refused || Instant::now() > end {
            return (sent, counters);
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// Every frame came once, in order, and nothing else did.
fn assert_all_came(kind: SenderKind, sent: &Sent, counters: &FrameCounters) {
    assert_eq!(counters.unique, sent.frames, "{kind:?}: {counters:?}");
    let others = [
        counters.duplicates,
        counters.reordered,
        counters.stale,
        counters.damaged,
        counters.foreign,
        counters.receiver_lost,
    ];
    assert_eq!(others, [0; 6], "{kind:?}: {counters:?}");
}

#[test]
fn all_that_was_sent_is_received_once_and_in_order_with_its_size() {
    for kind in KINDS {
        with_pair("left", "right", move || {
            let mut receiver = RxRing::open("right").expect("receiver");
            assert_eq!(receiver.kind(), ReceiverKind::RxRing);
            let mut sender = open(kind, "left");
            for (trial, v6) in [(1, false), (2, true)] {
                let frames = frames(v6, &[84, 1518, 84, 594]);
                // Not a multiple of the batch, nor of the table.
                let job = job(trial, 5003, None, 7);
                let (sent, counters) = run(&mut *sender, &mut receiver, &frames, &job);
                assert_eq!((sent.frames, sent.refused), (5003, 0), "{kind:?}");
                assert_all_came(kind, &sent, &counters);
                let sizes: Vec<_> = counters.sizes.into_iter().collect();
                assert_eq!(sizes, [(84, 2502), (594, 1250), (1518, 1251)], "{kind:?}");
            }
        });
    }
}

#[test]
fn a_sample_is_what_was_written() {
    for kind in KINDS {
        with_pair("left", "right", move || {
            let mut receiver = RxRing::open("right").expect("receiver");
            let frames = frames(false, &[64]);
            let (_, counters) = run(
                &mut *open(kind, "left"),
                &mut receiver,
                &frames,
                &job(3, 9, None, 4),
            );
            assert_eq!(counters.sample.len(), 4);
            for (number, sample) in (0..).zip(&counters.sample) {
                let bytes: Vec<u8> = (0..sample.hex.len() / 2)
                    .map(|at| u8::from_str_radix(&sample.hex[2 * at..2 * at + 2], 16).expect("hex"))
                    .collect();
                let stamp = wavebed_forward::frame::read(&bytes)
                    .expect("a test frame")
                    .stamp;
                let mut expected = [0; 60];
                assert_eq!(frames.write(number, 3, stamp.time_ns, &mut expected), 60);
                assert_eq!((&bytes[..], sample.length), (&expected[..], 60), "{kind:?}");
            }
        });
    }
}

#[test]
fn a_vlan_tag_is_seen_and_counted() {
    for kind in KINDS {
        with_pair("left", "right", move || {
            let mut receiver = RxRing::open("right").expect("receiver");
            let mut spec = spec(false, &[68]);
            spec.vlan = Some(77);
            let frames = Frames::new(&spec).expect("a good specification");
            let (sent, counters) = run(
                &mut *open(kind, "left"),
                &mut receiver,
                &frames,
                &job(3, 100, None, 8),
            );
            assert_all_came(kind, &sent, &counters);
            assert_eq!(counters.sizes.into_iter().collect::<Vec<_>>(), [(68, 100)]);
            assert_eq!(&counters.sample[0].hex[24..32], "8100004d");
        });
    }
}

/// 20 000 frames per second for half a second: never faster, and slower by no more than the sender says it was late, and
/// 1 %. The last batch may be interrupted, which is no lateness: one of five runs must be that fast.
#[test]
fn a_pace_is_kept() {
    for kind in KINDS {
        with_pair("left", "right", move || {
            let mut receiver = RxRing::open("right").expect("receiver");
            let frames = frames(false, &[64]);
            let mut slower = Vec::new();
            let is_kept = (0..5).any(|trial| {
                let job = job(trial, 10_000, Some(20_000.0), 4);
                let (sent, counters) = run(&mut *open(kind, "left"), &mut receiver, &frames, &job);
                assert_all_came(kind, &sent, &counters);
                // The last batch is due when the 9996 frames before it have had their time.
                let due = Duration::from_micros(9996 * 50);
                let took = Duration::from_nanos(sent.took_ns);
                let late = Duration::from_nanos(sent.late_max_ns);
                assert!(took >= due, "{kind:?}: {took:?}");
                slower.push((took, late));
                took <= due + late + due / 100
            });
            assert!(is_kept, "{kind:?}: times and lateness {slower:?}");
        });
    }
}

/// The thread that polls `right` shares a processor with the sender, which fills the interface's queue whenever it runs.
#[test]
fn an_interface_that_has_no_room_makes_the_sender_wait_and_loses_nothing() {
    for kind in KINDS {
        in_namespace(move || {
            unshare_mounts_and_name().expect("root is needed");
            namespace::make_private().expect("private mounts");
            namespace::fresh_sys_for_writing().expect("/sys");
            let right = format!("slow{}", kind as u8);
            make_pair("left", &right);
            poll_by_thread(&right);
            sched::place_thread(0, 0, None).expect("pin");
            let frames = frames(false, &[64]);
            let dropped = || {
                let netlink = Netlink::route().expect("netlink");
                let index = interface_index("left").expect("it is there");
                netlink.counters(index).expect("counters").tx_dropped
            };
            // Other programs on the processor may let the queue run empty: what is judged is the sender at a full one.
            let met = (0..20).any(|_| {
                let mut receiver = RxRing::open(&right).expect("receiver");
                let (sent, counters) = run(
                    &mut *open(kind, "left"),
                    &mut receiver,
                    &frames,
                    &job(5, 100_001, None, 64),
                );
                assert_eq!(sent.frames, 100_001, "{kind:?}");
                assert_all_came(kind, &sent, &counters);
                dropped() > 0
            });
            assert!(met, "{kind:?} never met a full queue");
        });
    }
}

/// Lets a kernel thread on processor 0 poll `interface`, whose peer is `left`.
fn poll_by_thread(interface: &str) {
    // A veth polls what comes from an interface that does not segment.
    for (name, feature, on) in [
        (interface, "rx-gro", true),
        ("left", "tx-tcp-segmentation", false),
        ("left", "tx-tcp6-segmentation", false),
        ("left", "tx-tcp-ecn-segmentation", false),
        ("left", "tx-tcp-mangleid-segmentation", false),
    ] {
        let ethtool = Ethtool::open(name).expect("ethtool");
        assert_eq!(
            ethtool.set_feature(feature, on).expect(feature),
            on,
            "{feature}"
        );
    }
    std::fs::write(format!("/sys/class/net/{interface}/threaded"), "1").expect("threaded");
    let name = format!("napi/{interface}-");
    let deadline = Instant::now() + PATIENCE;
    let thread = loop {
        let found = std::fs::read_dir("/proc")
            .expect("/proc")
            .find_map(|entry| {
                let path = entry.ok()?.path();
                let comm = std::fs::read_to_string(path.join("comm")).ok()?;
                comm.starts_with(&name)
                    .then(|| path.file_name()?.to_str()?.parse().ok())?
            });
        if let Some(thread) = found {
            break thread;
        }
        assert!(Instant::now() < deadline, "no thread {name}");
    };
    sched::place_thread(thread, 0, None).expect("place the kernel thread");
    // SCHED_BATCH: it does not interrupt the sender as soon as it has something to do.
    let arguments = ["--batch", "--pid", "0", &thread.to_string()];
    let status = std::process::Command::new("chrt").args(arguments).status();
    assert!(status.expect("chrt (util-linux)").success());
}

#[test]
fn a_deadline_ends_a_job_and_what_was_counted_has_come() {
    for kind in KINDS {
        with_pair("left", "right", move || {
            let mut receiver = RxRing::open("right").expect("receiver");
            let mut job = job(1, 1_000_000_000, None, 64);
            job.deadline_ns = job.start_ns + 100_000_000;
            let (sent, counters) = run(
                &mut *open(kind, "left"),
                &mut receiver,
                &frames(false, &[64]),
                &job,
            );
            // All its frames would take minutes.
            assert!(monotonic_ns() < job.deadline_ns + 60_000_000_000);
            assert!(sent.frames > 0 && sent.took_ns >= 90_000_000, "{sent:?}");
            assert_eq!(
                counters.unique + counters.receiver_lost,
                sent.frames,
                "{kind:?}"
            );
        });
    }
}

#[test]
fn frames_of_another_trial_and_of_others_are_told_apart() {
    with_pair("left", "right", || {
        let mut receiver = RxRing::open("right").expect("receiver");
        let frames = frames(false, &[64]);
        let mut sender = open(SenderKind::Sendmmsg, "left");
        receiver.start_trial(&frames, 2, 0).expect("open");
        let go = AtomicBool::new(false);
        sender
            .send(&frames, &job(1, 10, None, 4), &go)
            .expect("send");
        sender
            .send(&frames, &job(2, 20, None, 4), &go)
            .expect("send");
        // What the interface itself sends is none of its business.
        open(SenderKind::Sendmmsg, "right")
            .send(&frames, &job(2, 30, None, 4), &go)
            .expect("send");
        let counters = receiver.counters().expect("counters");
        assert_eq!(
            (counters.unique, counters.other_trial, counters.duplicates),
            (20, 10, 0)
        );
        // The counters of a new trial are at zero, without the old trial.
        sender
            .send(&frames, &job(2, 5, None, 4), &go)
            .expect("send");
        receiver.start_trial(&frames, 2, 0).expect("open");
        sender
            .send(&frames, &job(2, 7, None, 4), &go)
            .expect("send");
        assert_eq!(receiver.counters().expect("counters").unique, 7);
    });
}

#[test]
fn an_interface_that_goes_down_or_away_is_an_error() {
    for kind in KINDS {
        for end in ["link set left down", "link delete left"] {
            with_pair("left", "right", move || {
                let frames = frames(false, &[64]);
                let mut receiver = RxRing::open("right").expect("receiver");
                receiver.start_trial(&frames, 1, 0).expect("open");
                let mut sender = open(kind, "left");
                let error = thread::scope(|scope| {
                    let stop = AtomicBool::new(false);
                    let cut = scope.spawn(|| {
                        thread::sleep(Duration::from_millis(50));
                        ip(end);
                    });
                    let error = sender.send(&frames, &job(1, 200_000, Some(20_000.0), 1), &stop);
                    cut.join().expect("ip");
                    stop.store(true, Ordering::Relaxed);
                    error
                });
                let text = error.expect_err("the interface is not there").to_string();
                assert!(text.contains("left"), "{kind:?}, {end}: {text}");
                if end.contains("delete") {
                    let text = receiver.counters().expect_err("it is gone").to_string();
                    assert!(text.contains("right"), "{text}");
                    assert!(receiver.start_trial(&frames, 2, 0).is_err());
                }
            });
        }
    }
}

#[test]
fn frames_that_the_interface_does_not_take_are_refused() {
    for kind in KINDS {
        with_pair("left", "right", move || {
            ip("link set left mtu 1000");
            let stop = AtomicBool::new(false);
            let error =
                open(kind, "left").send(&frames(false, &[1518]), &job(1, 1, None, 1), &stop);
            let text = error.expect_err("too long").to_string();
            assert!(
                text.contains("1514 bytes") && text.contains("left"),
                "{text}"
            );
        });
    }
}

#[test]
fn a_queue_that_another_socket_is_about_to_free_is_waited_for() {
    with_pair("left", "right", || {
        let first = AfXdp::open("left", false).expect("free");
        let closing = thread::spawn(move || {
            thread::sleep(Duration::from_millis(100));
            drop(first);
        });
        AfXdp::open("left", false).expect("free soon");
        closing.join().expect("closed");
    });
}

#[test]
fn what_a_driver_cannot_do_is_said() {
    with_pair("left", "right", || {
        let text = AfXdp::open("left", true)
            .expect_err("a veth copies")
            .to_string();
        assert!(
            text.starts_with("cannot bind AF_XDP with zero copy to left"),
            "{text}"
        );
        let text = Sendmmsg::open("nowhere")
            .expect_err("no interface")
            .to_string();
        assert!(
            text.starts_with("cannot find the interface nowhere"),
            "{text}"
        );
    });
}

/// The delay comes from one machine's two clocks and a path that is never slower than a few milliseconds.
#[test]
fn a_delay_is_never_negative_nor_absurd() {
    with_pair("left", "right", || {
        let mut receiver = RxRing::open("right").expect("receiver");
        let job = job(1, 500, Some(5000.0), 1);
        let (sent, counters) = run(
            &mut *open(SenderKind::Sendmmsg, "left"),
            &mut receiver,
            &frames(false, &[64]),
            &job,
        );
        assert_all_came(SenderKind::Sendmmsg, &sent, &counters);
        let least = counters.latency_min_ns.expect("frames came");
        assert!((1..5_000_000).contains(&least), "{least} ns");
    });
}
