//! A test bench for one stage or queue: its input, and its output by exit.

use proptest::prelude::*;
use wavebed_link::queue::Queue;
use wavebed_link::{Change, Ecn, LinkCounters, Outlet, Reason, Run, RunFlags, Stage};

/// A run of `count` segments of 1000 bytes of packet `packet`, from segment `first` on.
pub fn run(at_ns: u64, packet: u32, first: u16, count: u16) -> Run {
    Run {
        at_ns,
        packet,
        first,
        count,
        segment_bytes: 1000,
        last_bytes: 1000,
        flow: 0,
        flip: 0,
        ecn: Ecn::NotEct,
        flags: RunFlags::default(),
    }
}

/// The same run as control traffic.
pub fn control(run: Run) -> Run {
    Run {
        flags: RunFlags::CONTROL,
        ..run
    }
}

/// Everything that left the stage under test.
pub struct Exits {
    pub forward: Vec<Run>,
    pub lost: Vec<Run>,
    pub copied: Vec<Run>,
    pub counters: LinkCounters,
}

impl Exits {
    pub fn new() -> Self {
        Self {
            forward: Vec::new(),
            lost: Vec::new(),
            copied: Vec::new(),
            counters: LinkCounters::new(false),
        }
    }

    pub fn outlet(&mut self) -> Outlet<'_> {
        Outlet::new(
            &mut self.forward,
            &mut self.lost,
            &mut self.copied,
            &mut self.counters,
        )
    }

    pub fn dropped(&self, reason: Reason) -> u64 {
        self.counters.total().dropped[reason as usize].segments
    }
}

/// A stage with its exits.
pub struct Bench {
    pub stage: Box<dyn Stage>,
    pub exits: Exits,
    pub offered: u64,
}

impl Bench {
    pub fn new(stage: impl Stage + 'static) -> Self {
        Self {
            stage: Box::new(stage),
            exits: Exits::new(),
            offered: 0,
        }
    }

    pub fn accept(&mut self, run: Run) {
        self.poll(run.at_ns);
        self.offered += u64::from(run.count);
        self.stage.accept(run, &mut self.exits.outlet());
    }

    pub fn poll(&mut self, now_ns: u64) {
        self.stage.poll(now_ns, &mut self.exits.outlet());
    }

    pub fn apply(&mut self, now_ns: u64, change: &Change) -> bool {
        self.poll(now_ns);
        self.stage.apply(now_ns, change)
    }

    /// Every offered and copied segment left through an exit or is still held; stamps never go back.
    pub fn check(&self) {
        let exits = &self.exits;
        let count = |runs: &[Run]| runs.iter().map(|run| u64::from(run.count)).sum::<u64>();
        let out = count(&exits.forward) + count(&exits.lost) + self.stage.backlog().segments;
        assert_eq!(
            self.offered + count(&exits.copied),
            out,
            "segments in and out"
        );
        assert!(
            exits.forward.is_sorted_by_key(|run| run.at_ns),
            "stamps went back"
        );
        assert_eq!(
            exits.counters.total().duplicated.segments,
            count(&exits.copied)
        );
        assert_eq!(
            exits.counters.total().dropped_total().segments,
            count(&exits.lost)
        );
    }
}

/// Packet and index of every segment, in order.
pub fn segments(runs: &[Run]) -> Vec<(u32, u16)> {
    runs.iter()
        .flat_map(|run| (run.first..run.end()).map(|index| (run.packet, index)))
        .collect()
}

/// `count` decisions of one segment each: true for lost.
pub fn losses(stage: impl Stage + 'static, count: u32) -> Vec<bool> {
    let mut bench = Bench::new(stage);
    (0..count)
        .map(|packet| {
            bench.accept(run(u64::from(packet), packet, 0, 1));
            let lost = !bench.exits.lost.is_empty();
            bench.exits.lost.clear();
            bench.exits.forward.clear();
            lost
        })
        .collect()
}

/// `segments` of one or more packets, one at a time and again in larger runs, at other times, with control traffic
/// between: the same segments in the same order.
pub fn groupings() -> impl Strategy<Value = (Vec<Run>, Vec<Run>)> {
    prop::collection::vec(
        (
            1u16..=45,
            0u64..1000,
            prop::collection::vec(1u16..45, 0..4),
            any::<bool>(),
        ),
        1..40,
    )
    .prop_map(|packets| {
        let (mut single, mut grouped, mut at_ns) = (Vec::new(), Vec::new(), 0);
        for (packet, (count, gap_ns, cuts, with_control)) in (0u32..).zip(packets) {
            single.extend((0..count).map(|first| run(u64::from(packet), packet, first, 1)));
            at_ns += gap_ns;
            if with_control {
                grouped.push(control(run(at_ns, 1_000_000 + packet, 0, 1)));
            }
            let mut rest = run(at_ns, packet, 0, count);
            for cut in cuts {
                if cut < rest.count {
                    grouped.push(rest.split_front(cut));
                    rest.at_ns += 7;
                }
            }
            at_ns = rest.at_ns;
            grouped.push(rest);
        }
        (single, grouped)
    })
}

/// A queue with its exits.
pub struct QueueBench<Q> {
    pub queue: Q,
    pub exits: Exits,
}

impl<Q: Queue> QueueBench<Q> {
    pub fn new(queue: Q) -> Self {
        Self {
            queue,
            exits: Exits::new(),
        }
    }

    pub fn enqueue(&mut self, run: Run) {
        self.queue.enqueue(run, &mut self.exits.outlet());
    }

    pub fn dequeue(&mut self, now_ns: u64) -> Option<Run> {
        self.queue.dequeue(now_ns, &mut self.exits.outlet())
    }
}

/// Whether `count` hits of `draws` agree with `probability` within `deviations` standard deviations, the variance
/// being `inflation` times the variance of independent draws.
#[track_caller]
pub fn assert_fraction(count: u64, draws: u64, probability: f64, inflation: f64) {
    let (count, draws) = (count as f64, draws as f64);
    let deviation = (draws * probability * (1.0 - probability) * inflation).sqrt();
    assert!(
        (count - draws * probability).abs() <= 5.0 * deviation,
        "{count} of {draws}, expected {} ± {deviation}",
        draws * probability
    );
}
