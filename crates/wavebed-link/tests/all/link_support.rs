//! Common code of the link tests: runs, and a driver for arrivals, polls and changes.

pub mod random;

use wavebed_link::{Backlog, Change, Ecn, Link, Run, RunFlags, Stage};

/// One wire segment.
pub fn segment(at_ns: u64, packet: u32, bytes: u16) -> Run {
    super_packet(at_ns, packet, 1, bytes, bytes)
}

/// A super-packet.
pub fn super_packet(
    at_ns: u64,
    packet: u32,
    count: u16,
    segment_bytes: u16,
    last_bytes: u16,
) -> Run {
    Run {
        at_ns,
        packet,
        first: 0,
        count,
        segment_bytes,
        last_bytes,
        flow: packet % 7,
        flip: 0,
        ecn: Ecn::Ect0,
        flags: RunFlags::default(),
    }
}

/// The events of a link, in order of time.
#[derive(Clone, Debug)]
pub enum Event {
    Arrival(Run),
    Poll(u64),
    Change(u64, Change),
}

impl Event {
    pub fn at_ns(&self) -> u64 {
        match self {
            Self::Arrival(run) => run.at_ns,
            Self::Poll(at_ns) | Self::Change(at_ns, _) => *at_ns,
        }
    }
}

/// The output.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub delivered: Vec<Run>,
    pub lost: Vec<Run>,
}

impl Outcome {
    /// Packet, segment and time of each delivered segment.
    pub fn departures(&self) -> Vec<(u32, u16, u64)> {
        each(&self.delivered)
    }

    /// Packet, segment and time of each lost segment.
    pub fn losses(&self) -> Vec<(u32, u16, u64)> {
        each(&self.lost)
    }
}

/// Packet, segment and time of each segment of `runs`.
pub fn each(runs: &[Run]) -> Vec<(u32, u16, u64)> {
    let segments = |run: &Run| {
        let run = *run;
        (run.first..run.end()).map(move |index| (run.packet, index, run.at_ns))
    };
    runs.iter().flat_map(segments).collect()
}

/// Drives a link through `events`, polling before each change, and polling at each of its own events when `eager`, up
/// to `until_ns`.
pub fn drive(link: &mut Link, events: &[Event], until_ns: u64, eager: bool) -> Outcome {
    let mut outcome = Outcome::default();
    for event in events {
        while eager
            && link
                .next_event_ns()
                .is_some_and(|at_ns| at_ns < event.at_ns())
        {
            let at_ns = link.next_event_ns().expect("just seen");
            link.poll(at_ns, &mut outcome.delivered);
        }
        match event {
            Event::Arrival(run) => link.accept(*run),
            Event::Poll(at_ns) => link.poll(*at_ns, &mut outcome.delivered),
            Event::Change(at_ns, change) => {
                link.poll(*at_ns, &mut outcome.delivered);
                link.apply(*at_ns, change);
            }
        }
        outcome.lost.extend(link.take_lost());
        link.take_copied().for_each(drop);
    }
    while let Some(at_ns) = link
        .next_event_ns()
        .filter(|&at_ns| eager && at_ns < until_ns)
    {
        link.poll(at_ns, &mut outcome.delivered);
    }
    link.poll(until_ns, &mut outcome.delivered);
    outcome.lost.extend(link.take_lost());
    outcome
}

/// Drives one stage through arrivals, with nothing but the polls of the contract.
pub fn through(stage: impl Stage + 'static, arrivals: &[Run], until_ns: u64) -> Outcome {
    let events: Vec<Event> = arrivals.iter().map(|&run| Event::Arrival(run)).collect();
    drive(
        &mut Link::new(vec![Box::new(stage)], false),
        &events,
        until_ns,
        false,
    )
}

/// Every segment and byte that entered is in one place.
pub fn assert_conserved(link: &Link) {
    let total = link.counters().total();
    let backlog = link.backlog();
    let entered = Backlog {
        segments: total.offered.segments + total.duplicated.segments,
        bytes: total.offered.bytes + total.duplicated.bytes,
    };
    let dropped = total.dropped_total();
    let found = Backlog {
        segments: total.delivered.segments + dropped.segments + backlog.segments,
        bytes: total.delivered.bytes + dropped.bytes + backlog.bytes,
    };
    assert_eq!(entered, found, "{total:?} and {backlog:?} in the link");
}
