//! Coalescing: segments of one packet that leave close together are written as one GSO super-packet.
//!
//! A radio modem delivers a transport block to the host at once, and a network card with GRO does the same, so a
//! receiver sees bursts. The window bounds the duration of a burst. Coalescing never mixes packets, and waits for a
//! missing segment no longer than the window.

use garde::Validate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wavebed_link::{Run, RunFlags};

/// Which segments are coalesced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Coalesce {
    /// None: every wire segment is written alone.
    Off,
    /// Those that leave at the same instant, as from one radio slot.
    Slot,
    /// Those within this time of the first.
    Time {
        /// The window: at most a radio frame.
        #[garde(range(min = 1, max = 10_000_000))]
        time_ns: u64,
    },
}

impl Coalesce {
    const fn window_ns(self) -> u64 {
        match self {
            Self::Off | Self::Slot => 0,
            Self::Time { time_ns } => time_ns,
        }
    }
}

/// Segments that leave together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// The segments; `at_ns` is when the last of them left the link.
    pub run: Run,
    /// When the first of them left the link.
    pub first_ns: u64,
    /// When the group is due at the host.
    pub due_ns: u64,
}

/// Groups the segments that a link delivers.
#[derive(Clone, Debug)]
pub struct Coalescer {
    coalesce: Coalesce,
    open: Option<Group>,
    /// The window of the open group.
    window_ns: u64,
}

impl Coalescer {
    /// A coalescer with this rule.
    #[must_use]
    pub const fn new(coalesce: Coalesce) -> Self {
        Self {
            coalesce,
            open: None,
            window_ns: 0,
        }
    }

    /// The longest time between the segments of a group, nanoseconds; `None` where each segment leaves alone.
    #[must_use]
    pub fn window_ns(&self) -> Option<u64> {
        (self.coalesce != Coalesce::Off).then(|| self.coalesce.window_ns())
    }

    /// Adds a delivered run of a packet of `segments` segments, which are coalesced within `most_ns` at most. Complete
    /// groups go to `emit`.
    pub fn take(&mut self, run: Run, segments: u16, most_ns: u64, emit: &mut impl FnMut(Group)) {
        if self.coalesce == Coalesce::Off {
            let mut rest = run;
            while rest.count > 1 {
                emit(Group {
                    run: rest.split_front(1),
                    first_ns: run.at_ns,
                    due_ns: run.at_ns,
                });
            }
            emit(Group {
                run: rest,
                first_ns: run.at_ns,
                due_ns: run.at_ns,
            });
            return;
        }
        let group = match self.open.take() {
            Some(group) if self.continues(&group, &run) => Group {
                run: Run {
                    at_ns: run.at_ns,
                    count: group.run.count + run.count,
                    last_bytes: run.last_bytes,
                    ..group.run
                },
                due_ns: run.at_ns,
                ..group
            },
            Some(group) => {
                let closed_ns = run.at_ns.min(group.first_ns + self.window_ns);
                emit(Group {
                    due_ns: closed_ns,
                    ..group
                });
                Group {
                    run,
                    first_ns: run.at_ns,
                    due_ns: run.at_ns,
                }
            }
            None => Group {
                run,
                first_ns: run.at_ns,
                due_ns: run.at_ns,
            },
        };
        if group.run.end() == segments || group.run.flip != 0 {
            emit(group);
        } else {
            self.open = Some(group);
            self.window_ns = self.coalesce.window_ns().min(most_ns);
        }
    }

    /// Closes the open group if its window is over at `now_ns`.
    pub fn poll(&mut self, now_ns: u64, emit: &mut impl FnMut(Group)) {
        if let Some(closes_ns) = self.next_event_ns()
            && closes_ns <= now_ns
            && let Some(group) = self.open.take()
        {
            emit(Group {
                due_ns: closes_ns,
                ..group
            });
        }
    }

    /// When the open group's window is over.
    #[must_use]
    pub fn next_event_ns(&self) -> Option<u64> {
        self.open
            .as_ref()
            .map(|group| group.first_ns + self.window_ns)
    }

    /// Segments that wait in the open group.
    #[must_use]
    pub fn waiting_segments(&self) -> u64 {
        self.open
            .as_ref()
            .map_or(0, |group| u64::from(group.run.count))
    }

    fn continues(&self, group: &Group, run: &Run) -> bool {
        let before = &group.run;
        run.packet == before.packet
            && run.first == before.end()
            && run.ecn == before.ecn
            && run.flip == 0
            && run.flags.has(RunFlags::COPY) == before.flags.has(RunFlags::COPY)
            && run.at_ns <= group.first_ns + self.window_ns
    }
}

#[cfg(test)]
mod tests {
    use super::{Coalesce, Coalescer, Group};
    use wavebed_link::{Ecn, Run, RunFlags};

    fn run(packet: u32, first: u16, count: u16, at_ns: u64) -> Run {
        Run {
            at_ns,
            packet,
            first,
            count,
            segment_bytes: 1500,
            last_bytes: 1500,
            flow: 0,
            flip: 0,
            ecn: Ecn::NotEct,
            flags: RunFlags::default(),
        }
    }

    fn groups(coalesce: Coalesce, runs: &[Run], until_ns: u64) -> Vec<Group> {
        let mut coalescer = Coalescer::new(coalesce);
        let mut out = Vec::new();
        for &run in runs {
            coalescer.poll(run.at_ns.saturating_sub(1), &mut |g| out.push(g));
            coalescer.take(run, 10, u64::MAX, &mut |g| out.push(g));
        }
        coalescer.poll(until_ns, &mut |g| out.push(g));
        out
    }

    #[test]
    fn a_packet_within_the_window_is_written_once_when_its_last_segment_leaves() {
        let runs: Vec<_> = (0..10)
            .map(|i| run(1, i, 1, 1_000 + u64::from(i) * 100))
            .collect();
        let out = groups(Coalesce::Time { time_ns: 5_000 }, &runs, u64::MAX);
        assert_eq!(out.len(), 1);
        assert_eq!(
            (out[0].run.count, out[0].first_ns, out[0].due_ns),
            (10, 1_000, 1_900)
        );
    }

    #[test]
    fn a_missing_segment_closes_the_group_when_the_next_one_arrives() {
        let runs = [run(1, 0, 3, 0), run(1, 4, 6, 700)];
        let out = groups(Coalesce::Time { time_ns: 5_000 }, &runs, u64::MAX);
        assert_eq!(
            out.iter()
                .map(|g| (g.run.first, g.run.count, g.due_ns))
                .collect::<Vec<_>>(),
            [(0, 3, 700), (4, 6, 700)]
        );
    }

    #[test]
    fn no_segment_waits_longer_than_the_window() {
        let runs: Vec<_> = (0..10)
            .map(|i| run(1, i, 1, u64::from(i) * 1_000))
            .collect();
        let out = groups(Coalesce::Time { time_ns: 3_000 }, &runs, u64::MAX);
        assert_eq!(
            out.iter()
                .map(|g| (g.run.first, g.run.count))
                .collect::<Vec<_>>(),
            [(0, 4), (4, 4), (8, 2)]
        );
        assert!(out.iter().all(|g| g.due_ns <= g.first_ns + 3_000));
    }

    #[test]
    fn a_packet_may_have_a_shorter_window() {
        let mut coalescer = Coalescer::new(Coalesce::Time { time_ns: 5_000 });
        let mut out = Vec::new();
        for (first, at_ns) in [(0, 0), (1, 1_000), (2, 2_500), (3, 2_600)] {
            coalescer.take(run(1, first, 1, at_ns), 10, 2_000, &mut |g| out.push(g));
        }
        assert_eq!(coalescer.next_event_ns(), Some(4_500));
        coalescer.poll(4_500, &mut |g| out.push(g));
        let groups = out.iter().map(|g| (g.run.first, g.run.count, g.due_ns));
        assert_eq!(groups.collect::<Vec<_>>(), [(0, 2, 2_000), (2, 2, 4_500)]);
    }

    #[test]
    fn slot_coalesces_segments_of_one_instant_only() {
        let runs = [run(1, 0, 2, 5), run(1, 2, 2, 5), run(1, 4, 6, 6)];
        let out = groups(Coalesce::Slot, &runs, u64::MAX);
        assert_eq!(out.iter().map(|g| g.run.count).collect::<Vec<_>>(), [4, 6]);
    }

    #[test]
    fn off_emits_single_segments() {
        let out = groups(Coalesce::Off, &[run(1, 0, 10, 5)], u64::MAX);
        assert_eq!(out.len(), 10);
        assert!(
            out.iter()
                .enumerate()
                .all(|(i, g)| usize::from(g.run.first) == i && g.run.count == 1)
        );
    }

    #[test]
    fn marked_corrupted_and_copied_segments_are_not_coalesced() {
        let marked = Run {
            ecn: Ecn::Ce,
            ..run(1, 1, 1, 5)
        };
        let flipped = Run {
            flip: 9,
            ..run(1, 3, 1, 5)
        };
        let copied = Run {
            flags: RunFlags::COPY,
            ..run(1, 2, 1, 5)
        };
        let out = groups(
            Coalesce::Slot,
            &[
                run(1, 0, 1, 5),
                marked,
                run(1, 2, 1, 5),
                copied,
                flipped,
                run(1, 4, 6, 5),
            ],
            u64::MAX,
        );
        assert_eq!(
            out.iter().map(|g| g.run.count).collect::<Vec<_>>(),
            [1, 1, 1, 1, 1, 6]
        );
    }
}
