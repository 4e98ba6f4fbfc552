//! The sender of heavy load over a link in virtual time.

use std::collections::VecDeque;

use wavebed_probe::packet::Feedback;
use wavebed_probe::window::Window;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;
const SEGMENT: u64 = 1372;
const TICK: u64 = MS / 2;

/// A link with a rate over time, a delay of each direction, and an endless queue.
struct Link<F: Fn(u64) -> u64> {
    rate_bps: F,
    delay_ns: u64,
    queue: VecDeque<(u32, u64)>,
    credit_bits: u64,
    arrived: VecDeque<(u64, u32, u64)>,
    feedback: VecDeque<(u64, Feedback)>,
    received_bytes: u64,
    told_ns: u64,
}

/// What a run saw: for each second bytes delivered, and the longest queueing delay.
struct Seen {
    bytes: Vec<u64>,
    longest_ns: Vec<u64>,
    empty_ticks: Vec<u64>,
}

impl<F: Fn(u64) -> u64> Link<F> {
    fn new(rate_bps: F, delay_ns: u64) -> Self {
        Self {
            rate_bps,
            delay_ns,
            queue: VecDeque::new(),
            credit_bits: 0,
            arrived: VecDeque::new(),
            feedback: VecDeque::new(),
            received_bytes: 0,
            told_ns: 0,
        }
    }

    fn tick(&mut self, now_ns: u64) {
        self.credit_bits += (self.rate_bps)(now_ns) * TICK / SECOND;
        while let Some((seq, send_ns)) = self.queue.front().copied() {
            if self.credit_bits < SEGMENT * 8 {
                break;
            }
            self.credit_bits -= SEGMENT * 8;
            self.queue.pop_front();
            self.arrived
                .push_back((now_ns + self.delay_ns, seq, send_ns));
        }
        if self.queue.is_empty() {
            self.credit_bits = 0;
        }
        let mut last = None;
        while let Some((at_ns, seq, send_ns)) = self.arrived.front().copied() {
            if at_ns > now_ns {
                break;
            }
            self.arrived.pop_front();
            self.received_bytes += SEGMENT;
            last = Some((seq, send_ns));
        }
        if let Some((highest, echo_ns)) = last
            && now_ns - self.told_ns >= 5 * MS
        {
            self.told_ns = now_ns;
            let feedback = Feedback {
                highest,
                echo_ns,
                received_bytes: self.received_bytes,
                queueing_ns: now_ns - echo_ns - self.delay_ns,
            };
            self.feedback.push_back((now_ns + self.delay_ns, feedback));
        }
    }
}

fn run(
    rate_bps: impl Fn(u64) -> u64,
    delay_ns: u64,
    wanted_ns: u64,
    most_bps: Option<u64>,
    seconds: u64,
) -> Seen {
    let mut link = Link::new(rate_bps, delay_ns);
    let mut window = Window::new(1372, most_bps);
    window.begin(0, wanted_ns);
    let count = usize::try_from(seconds).expect("few");
    let mut seen = Seen {
        bytes: vec![0; count],
        longest_ns: vec![0; count],
        empty_ticks: vec![0; count],
    };
    for now_ns in (0..seconds * SECOND).step_by(usize::try_from(TICK).expect("small")) {
        while link
            .feedback
            .front()
            .is_some_and(|(at_ns, _)| *at_ns <= now_ns)
        {
            let (_, feedback) = link.feedback.pop_front().expect("there");
            window.hear(&feedback, now_ns);
        }
        for _ in 0..window.room(now_ns) {
            link.queue.push_back((window.send(), now_ns));
        }
        let before = link.received_bytes;
        let second = usize::try_from(now_ns / SECOND).expect("few");
        seen.empty_ticks[second] += u64::from(link.queue.is_empty());
        link.tick(now_ns);
        seen.bytes[second] += link.received_bytes - before;
        if let Some((_, send_ns)) = link.queue.front() {
            seen.longest_ns[second] = seen.longest_ns[second].max(now_ns - send_ns);
        }
    }
    seen
}

#[test]
fn every_rate_is_filled_within_a_second_with_a_short_queue() {
    for rate_bps in [1_000_000, 20_000_000, 300_000_000, 1_800_000_000] {
        let seen = run(|_| rate_bps, 15 * MS, 60 * MS, None, 4);
        for second in 1..4 {
            let permille = 1000 * 8 * seen.bytes[second] / rate_bps;
            assert!(
                permille > 980,
                "{rate_bps}: {permille} ‰ in second {second}"
            );
            // Ten packets are the least in flight: 110 ms at 1 Mbit/s.
            assert!(
                seen.longest_ns[second] < 170 * MS,
                "{rate_bps}: {}",
                seen.longest_ns[second]
            );
        }
    }
}

#[test]
fn a_rise_of_the_rate_is_filled_again() {
    let seen = run(
        |at| {
            if at < 2 * SECOND {
                30_000_000
            } else {
                600_000_000
            }
        },
        15 * MS,
        60 * MS,
        None,
        4,
    );
    assert!(8 * seen.bytes[3] > 980_000 * 600, "{}", seen.bytes[3]);
}

#[test]
fn the_queue_is_short_again_after_a_fall_of_the_rate() {
    let seen = run(
        |at| {
            if at < 2 * SECOND {
                600_000_000
            } else {
                60_000_000
            }
        },
        15 * MS,
        60 * MS,
        None,
        5,
    );
    assert!(8 * seen.bytes[3] > 980_000 * 60);
    assert!(seen.longest_ns[4] < 150 * MS, "{}", seen.longest_ns[4]);
}

#[test]
fn an_outage_leaves_packets_in_flight_that_show_its_end() {
    let seen = run(
        |at| {
            if (SECOND..2 * SECOND + SECOND / 2).contains(&at) {
                0
            } else {
                100_000_000
            }
        },
        15 * MS,
        60 * MS,
        None,
        5,
    );
    assert_eq!(
        seen.empty_ticks[1], 0,
        "the link is never without a packet in the outage"
    );
    assert!(8 * seen.bytes[4] > 980_000 * 100);
}

#[test]
fn the_greatest_rate_is_kept() {
    let seen = run(|_| 100_000_000, 15 * MS, 60 * MS, Some(40_000_000), 4);
    for second in 1..4 {
        let bps = 8 * seen.bytes[second];
        assert!((36_000_000..=40_500_000).contains(&bps), "{bps}");
    }
}

#[test]
fn a_filling_phase_makes_the_queue_as_long_as_asked() {
    let seen = run(|_| 50_000_000, 15 * MS, 2 * SECOND, None, 6);
    let longest = seen.longest_ns.iter().max().expect("seconds");
    assert!((SECOND..4 * SECOND).contains(longest), "{longest}");
}
