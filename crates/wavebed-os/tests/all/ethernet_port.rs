//! A port on a veth pair: whole frames with their tags, in and out, also while the interface goes down and away.

use std::io::IoSlice;
use std::os::fd::AsFd;
use std::process::Command;

use wavebed_os::clock;
use wavebed_os::ethernet_port::{EthernetPort, Refusal, put_tag};
use wavebed_os::namespace::{NetworkNamespace, effective_user};
use wavebed_os::netlink::{Netlink, interface_index};
use wavebed_os::nft::Ingress;
use wavebed_os::packet_ring::Place;
use wavebed_os::poll;

const VIRTIO: [u8; 10] = [0; 10];
/// How long what must happen may take: the kernel's part of it may wait for seconds where others run.
const WITHIN_NS: u64 = 60_000_000_000;

/// Runs `work` in a network namespace with the interfaces `near` and `far`, each at one end of a cable.
fn between(work: impl FnOnce(&Netlink) + Send + 'static) {
    std::thread::spawn(|| {
        let Ok(_namespace) = NetworkNamespace::new() else {
            assert_ne!(effective_user().0, 0, "root may");
            return;
        };
        let netlink = Netlink::route().expect("socket");
        netlink.add_veth("near", "far").expect("pair");
        for name in ["near", "far"] {
            netlink.set_up(index(name)).expect("up");
        }
        wait_for_carrier();
        work(&netlink);
    })
    .join()
    .expect("no panic");
}

/// Waits until frames pass: the kernel starts to send through a new interface a moment after both ends are up.
fn wait_for_carrier() {
    let [near, far] = ["near", "far"].map(|name| EthernetPort::open(name).expect("a port"));
    let other = [0x88, 0xb6];
    let sent = frame(&other, &[0; 46]);
    let mut room = vec![0; 70_000];
    let end_ns = clock::monotonic_ns() + WITHIN_NS;
    while clock::monotonic_ns() < end_ns {
        near.write(&[IoSlice::new(&sent)]).expect("sent");
        poll::wait(&[far.as_fd()], &mut [false], Some(10_000_000)).expect("poll");
        while let Some(length) = far.read(&mut room).expect("a port") {
            if room[..length].windows(2).any(|two| two == other) {
                return;
            }
        }
    }
    panic!("no frame passes");
}

fn index(name: &str) -> u32 {
    interface_index(name).expect("an interface")
}

/// The next frame of the type 0x88b5, which is for experiments, behind tags or not, after an empty virtio-net header.
/// The kernel sends others.
fn next_of_ours(port: &EthernetPort) -> Option<Vec<u8>> {
    next_within(port, WITHIN_NS)
}

fn next_within(port: &EthernetPort, limit_ns: u64) -> Option<Vec<u8>> {
    let end_ns = clock::monotonic_ns() + limit_ns;
    let mut room = vec![0; 70_000];
    loop {
        if let Some(length) = port.read(&mut room).expect("a port") {
            if room[..length].windows(2).any(|two| two == [0x88, 0xb5]) {
                return Some([&VIRTIO, &room[VIRTIO.len()..length]].concat());
            }
        } else if clock::monotonic_ns() >= end_ns {
            return None;
        } else {
            poll::wait(&[port.as_fd()], &mut [false], Some(10_000_000)).expect("poll");
        }
    }
}

fn frame(kind: &[u8], content: &[u8]) -> Vec<u8> {
    let addresses: [&[u8]; 2] = [&[2, 0, 0, 0, 0, 1], &[2, 0, 0, 0, 0, 2]];
    [&VIRTIO[..], &addresses.concat(), kind, content].concat()
}

#[test]
fn a_frame_arrives_with_all_its_tags() {
    between(|_| {
        let [near, far] = ["near", "far"].map(|name| EthernetPort::open(name).expect("a port"));
        let kinds: [&[u8]; 3] = [
            &[0x88, 0xb5],
            &[0x81, 0, 0x60, 5, 0x88, 0xb5],
            &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 9, 0x88, 0xb5],
        ];
        for kind in kinds {
            let sent = frame(kind, &[7; 46]);
            near.write(&[IoSlice::new(&sent[..30]), IoSlice::new(&sent[30..])])
                .expect("sent");
            assert_eq!(next_of_ours(&far), Some(sent));
        }
        assert_eq!((far.unread_frames(), far.unreadable_frames()), (0, 0));
    });
}

#[test]
fn a_frame_that_the_port_cannot_take_is_refused_with_a_reason() {
    between(|_| {
        let near = EthernetPort::open("near").expect("a port");
        let long = frame(&[0x88, 0xb5], &[7; 1505]);
        let error = near.write(&[IoSlice::new(&long)]).expect_err("too long");
        assert_eq!(Refusal::of(&error), Refusal::TooLong);
        let longest = frame(&[0x81, 0, 0, 5, 0x88, 0xb5], &[7; 1500]);
        near.write(&[IoSlice::new(&longest)]).expect("one tag more");
        ip("link set near down");
        let short = frame(&[0x88, 0xb5], &[7; 46]);
        let error = near.write(&[IoSlice::new(&short)]).expect_err("down");
        assert_eq!(Refusal::of(&error), Refusal::Down);
    });
}

#[test]
fn a_port_outlives_a_pause_of_its_interface_but_not_its_end() {
    between(|netlink| {
        let [near, far] = ["near", "far"].map(|name| EthernetPort::open(name).expect("a port"));
        let sent = frame(&[0x88, 0xb5], &[7; 46]);
        ip("link set far down");
        let mut room = vec![0; 70_000];
        while far.read(&mut room).expect("down is no end").is_some() {}
        assert!(far.check().is_ok());
        netlink.set_up(index("far")).expect("up");
        // The kernel starts the queue of the other end some milliseconds later.
        let arrives = || {
            std::thread::sleep(std::time::Duration::from_millis(10));
            near.write(&[IoSlice::new(&sent)]).is_ok()
                && next_within(&far, 0).as_ref() == Some(&sent)
        };
        let end_ns = clock::monotonic_ns() + WITHIN_NS;
        while !arrives() {
            assert!(clock::monotonic_ns() < end_ns, "no frame passes");
        }
        // Its peer ends with it.
        ip("link del near");
        assert!(far.check().is_err());
        assert!(far.read(&mut room).is_err());
    });
}

#[test]
fn the_filter_keeps_frames_from_the_stack_only_and_ends_with_its_owner() {
    between(|_| {
        let [near, far] = ["near", "far"].map(|name| EthernetPort::open(name).expect("a port"));
        let filter = Ingress::drop_all("wavebed-test", &["near", "far"]).expect("a table");
        assert!(
            Ingress::drop_all("wavebed-test", &["near", "far"]).is_err(),
            "the name is taken"
        );
        let sent = frame(&[0x88, 0xb5], &[7; 46]);
        near.write(&[IoSlice::new(&sent)]).expect("sent");
        assert_eq!(next_of_ours(&far), Some(sent));
        drop(filter);
        // A program that another test starts holds a copy of every descriptor until it runs.
        let end_ns = clock::monotonic_ns() + WITHIN_NS;
        while Ingress::drop_all("wavebed-test", &["near", "far"]).is_err() {
            assert!(clock::monotonic_ns() < end_ns, "the name is not free");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    });
}

/// Runs iproute2 in the namespace of this thread.
fn ip(words: &str) {
    let status = Command::new("ip").args(words.split(' ')).status();
    assert!(status.expect("ip starts").success(), "ip {words}");
}

#[test]
fn a_ring_has_the_frames_and_longer_ones_wait_at_the_socket() {
    between(|netlink| {
        for name in ["near", "far"] {
            netlink.set_mtu(index(name), 9000).expect("an MTU");
        }
        let near = EthernetPort::open("near").expect("a port");
        let mut far = EthernetPort::open_with_ring("far").expect("a port");
        let mut slots = far.slots().expect("mapped").expect("a ring");
        let sent = [
            frame(&[0x88, 0xb5], &[1; 46]),
            frame(&[0x88, 0xb5], &vec![2; 5000]),
            frame(&[0x81, 0, 0x60, 5, 0x88, 0xb5], &[3; 60]),
        ];
        for each in &sent {
            near.write(&[IoSlice::new(each)]).expect("sent");
        }
        let mut room = vec![0; 70_000];
        let mut found = Vec::new();
        let end_ns = clock::monotonic_ns() + WITHIN_NS;
        while found.len() < sent.len() && clock::monotonic_ns() < end_ns {
            let Some(arrived) = slots.arrived(0) else {
                poll::wait(&[far.as_fd()], &mut [false], Some(10_000_000)).expect("poll");
                continue;
            };
            let length = if arrived.place == Place::Aside {
                far.read(&mut room).expect("a port").expect("a frame")
            } else {
                let bytes = slots.bytes(0);
                room[..bytes.len()].copy_from_slice(bytes);
                put_tag(&mut room, bytes.len(), arrived.vlan)
            };
            slots.release(1);
            if room[..length].windows(2).any(|two| two == [0x88, 0xb5]) {
                found.push([&VIRTIO, &room[VIRTIO.len()..length]].concat());
            }
        }
        assert_eq!(found, sent);
        far.leave_ring().expect_err("it is mapped");
        drop(slots);
        far.leave_ring().expect("no ring");
        near.write(&[IoSlice::new(&sent[0])]).expect("sent");
        assert_eq!(next_of_ours(&far), Some(sent[0].clone()));
        assert!(far.slots().expect("no ring").is_none());
    });
}
