//! The counters: whatever a network does to frames, each is in exactly one class, and sent = received + lost.

use std::collections::BTreeSet;

use proptest::prelude::*;
use wavebed_forward::account::{Accounts, FrameCounters, WINDOW};
use wavebed_forward::frame::{FrameSpec, Frames, Range};

const TRIAL: u16 = 7;

fn frames(flows: u16, sizes: &[u16]) -> Frames {
    let ports = |count| Range {
        first: 49_152,
        count,
    };
    let address = |text: &str| Range {
        first: text.parse().unwrap(),
        count: 1,
    };
    Frames::new(&FrameSpec {
        sizes_bytes: sizes.to_vec(),
        source_mac: [2, 0, 0, 0, 0, 1],
        destination_mac: [2, 0, 0, 0, 0, 2],
        vlan: None,
        pppoe_session: None,
        sources: address("198.18.0.2"),
        destinations: address("198.19.0.2"),
        source_ports: ports(64),
        destination_ports: ports(64),
        flows,
    })
    .unwrap()
}

struct Port {
    frames: Frames,
    accounts: Accounts,
    buffer: Vec<u8>,
}

impl Port {
    fn new(frames: Frames, sample: u32) -> Self {
        Self {
            accounts: Accounts::new(&frames, TRIAL, sample),
            frames,
            buffer: vec![0; 2000],
        }
    }

    /// Frame `number` of `trial` left at `left_ns` and comes at `now_ns`.
    fn come(&mut self, number: u64, trial: u16, left_ns: u64, now_ns: u64) {
        let length = self.frames.write(number, trial, left_ns, &mut self.buffer);
        self.accounts
            .see(&self.buffer[..length], length.try_into().unwrap(), now_ns);
    }

    fn all(&mut self, numbers: impl IntoIterator<Item = u64>) -> FrameCounters {
        for number in numbers {
            self.come(number, TRIAL, 0, 0);
        }
        self.accounts.counters()
    }
}

fn classes(counters: &FrameCounters) -> u64 {
    counters.unique
        + counters.duplicates
        + counters.stale
        + counters.other_trial
        + counters.damaged
        + counters.foreign
}

proptest! {
    #[test]
    fn unique_and_lost_are_what_was_sent_whatever_the_network_did(
        flows in 1_u16..40,
        arrivals in prop::collection::vec((0..2000_u64, 0..20_u8), 0..500),
    ) {
        let mut port = Port::new(frames(flows, &[64, 128]), 4);
        let mut unique = BTreeSet::new();
        let (mut damaged, mut others, mut foreign) = (0, 0, 0);
        for &(number, fate) in &arrivals {
            match fate {
                0 => {
                    let length = port.frames.write(number, TRIAL, 0, &mut port.buffer);
                    port.buffer[39] ^= 0x40; // the UDP length
                    port.accounts.see(&port.buffer[..length], 60, 0);
                    damaged += 1;
                }
                1 => {
                    port.come(number, TRIAL - 1, 0, 0);
                    others += 1;
                }
                2 => {
                    port.accounts.see(&[0xff; 60], 60, 0);
                    foreign += 1;
                }
                _ => {
                    port.come(number, TRIAL, 0, 0);
                    unique.insert(number);
                }
            }
        }
        let counters = port.accounts.counters();
        let lost = (0..2000).filter(|number| !unique.contains(number)).count() as u64;
        prop_assert_eq!(counters.unique + lost, 2000);
        prop_assert_eq!(classes(&counters), arrivals.len() as u64);
        prop_assert_eq!((counters.damaged, counters.other_trial, counters.foreign), (damaged, others, foreign));
        prop_assert_eq!(counters.stale, 0);
        prop_assert_eq!(counters.sizes.values().sum::<u64>(), counters.unique + counters.duplicates + damaged);
        prop_assert_eq!(counters.latency.values().sum::<u64>(), counters.unique);
    }

    #[test]
    fn reordering_is_counted_as_rfc_4737_says(flows in 1_u16..8, order in Just((0..200_u64).collect::<Vec<_>>()).prop_shuffle()) {
        let mut expected = 0;
        for flow in 0..u64::from(flows) {
            let mut next = 0;
            for &number in order.iter().filter(|number| *number % u64::from(flows) == flow) {
                if number >= next { next = number + 1; } else { expected += 1; }
            }
        }
        let counters = Port::new(frames(flows, &[64]), 0).all(order);
        prop_assert_eq!((counters.unique, counters.reordered, counters.duplicates), (200, expected, 0));
    }
}

#[test]
fn frames_of_different_flows_may_overtake_each_other() {
    let counters = Port::new(frames(2, &[64]), 0).all([1, 0, 3, 2]);
    assert_eq!((counters.unique, counters.reordered), (4, 0));
}

#[test]
fn a_duplicate_is_recognised_within_the_window_and_not_beyond() {
    let mut port = Port::new(frames(1, &[64]), 0);
    let counters = port.all([0, 5, WINDOW - 1, 0]);
    assert_eq!(
        (counters.unique, counters.duplicates, counters.stale),
        (3, 1, 0)
    );
    let counters = port.all([WINDOW, 0]);
    assert_eq!(
        (counters.unique, counters.duplicates, counters.stale),
        (4, 1, 1)
    );
    let counters = port.all([5, 1]);
    assert_eq!(
        (counters.unique, counters.duplicates, counters.stale),
        (5, 2, 1)
    );
}

#[test]
fn places_are_used_again_after_any_jump() {
    let jumps = [
        1,
        63,
        64,
        65,
        1000,
        WINDOW - 1,
        WINDOW,
        WINDOW + 1,
        3 * WINDOW + 7,
    ];
    let mut port = Port::new(frames(1, &[64]), 0);
    let mut number = 0;
    let mut seen = port.all([0]).unique;
    for jump in jumps.into_iter().cycle().take(60) {
        number += jump;
        let counters = port.all([number, number - 1, number]);
        // The one before is new unless the jump was a single step.
        seen += if jump == 1 { 1 } else { 2 };
        assert_eq!(counters.unique, seen, "after a jump of {jump}");
    }
    assert_eq!(classes(&port.accounts.counters()), 181);
}

#[test]
fn delays_and_times_are_those_of_the_frames() {
    let mut port = Port::new(frames(1, &[64, 1518]), 1);
    assert_eq!(port.accounts.counters(), FrameCounters::default());
    port.come(0, TRIAL, 1000, 1100);
    port.come(1, TRIAL, 1000, 6000);
    let counters = port.accounts.counters();
    assert_eq!(
        (counters.first_ns, counters.last_ns),
        (Some(1100), Some(6000))
    );
    assert_eq!(
        (counters.latency_min_ns, counters.latency_max_ns),
        (Some(100), Some(5000))
    );
    assert_eq!(
        counters.latency.into_iter().collect::<Vec<_>>(),
        [(100, 1), (462, 1)]
    );
    assert_eq!(
        counters.sizes.into_iter().collect::<Vec<_>>(),
        [(64, 1), (1518, 1)]
    );
    assert_eq!(counters.sample.len(), 1);
    assert_eq!(
        (counters.sample[0].time_ns, counters.sample[0].length),
        (1100, 60)
    );
    assert!(
        counters.sample[0]
            .hex
            .starts_with("020000000002020000000001080045")
    );
    assert_eq!(counters.sample[0].hex.len(), 120);
}

#[test]
fn a_super_packet_is_damaged_and_shows_its_size() {
    let mut port = Port::new(frames(1, &[64]), 0);
    let length = port.frames.write(0, TRIAL, 0, &mut port.buffer);
    port.buffer[38..40].copy_from_slice(&(8_u16 + 18 * 64).to_be_bytes());
    port.accounts.see(&port.buffer[..length], 42 + 18 * 64, 0);
    let counters = port.accounts.counters();
    assert_eq!((counters.unique, counters.damaged), (0, 1));
    assert_eq!(counters.sizes.keys().collect::<Vec<_>>(), [&(46 + 18 * 64)]);
}
