//! The window of the block acknowledgement: frames sent and neither delivered nor given up.

use std::collections::VecDeque;

use super::WifiSettings;
use crate::counters::Reason;
use crate::queue::Queue;
use crate::run::Run;
use crate::stage::{Backlog, Outlet};

/// The state of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// To be sent, or on the air.
    Waiting,
    /// Received, behind a gap.
    Received,
    /// Given up by the sender; the receiver no longer waits for it.
    GivenUp,
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    /// With the time of arrival at the stage.
    run: Run,
    state: State,
    retries: u32,
}

/// Frames in the order of their sequence numbers. The first is always open, so that their number is the span of the
/// window.
///
/// Block acknowledgements are never lost, so that sender and receiver have one view.
#[derive(Debug, Default)]
pub(super) struct Window {
    frames: VecDeque<Frame>,
    /// The frames of the aggregate on the air, by their index in `frames`.
    sent: Vec<usize>,
    held: Backlog,
}

fn frame_bytes(run: &Run, settings: &WifiSettings) -> u64 {
    run.bytes() + u64::from(settings.overhead_bytes)
}

impl Window {
    /// Frames in the window, received or not.
    pub(super) const fn backlog(&self) -> Backlog {
        self.held
    }

    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Fills the next aggregate at `start_ns`: failed frames first, then frames from the queue.
    pub(super) fn fill<Q: Queue + ?Sized>(
        &mut self,
        settings: &WifiSettings,
        queue: &mut Q,
        start_ns: u64,
        out: &mut Outlet<'_>,
    ) {
        self.sent.clear();
        let limit = u64::from(settings.aggregate_bytes);
        let mut bytes = 0;
        for (place, frame) in self.frames.iter().enumerate() {
            if frame.state != State::Waiting {
                continue;
            }
            bytes += frame_bytes(&frame.run, settings);
            if bytes > limit && !self.sent.is_empty() {
                return;
            }
            self.sent.push(place);
        }
        while self.frames.len() < settings.aggregate_frames {
            let fits = |head: u32| {
                bytes + u64::from(head) + u64::from(settings.overhead_bytes) <= limit
                    || self.sent.is_empty()
            };
            if !queue.head_bytes().is_some_and(fits) {
                return;
            }
            let Some(run) = queue.dequeue(start_ns, out) else {
                return;
            };
            out.sojourn(start_ns, &run);
            self.held += Backlog {
                segments: u64::from(run.count),
                bytes: run.bytes(),
            };
            self.frames.push_back(Frame {
                run,
                state: State::Waiting,
                retries: 0,
            });
            bytes += frame_bytes(&run, settings);
            if bytes > limit && !self.sent.is_empty() {
                // The queue dropped the head that would have fitted, and returned the next one: it goes into the next
                // aggregate.
                return;
            }
            self.sent.push(self.frames.len() - 1);
        }
    }

    /// Where the frames of the aggregate end, counted in bytes from its beginning.
    pub(super) fn ends<'a>(&'a self, settings: &'a WifiSettings) -> impl Iterator<Item = u64> + 'a {
        self.sent.iter().scan(0, |end, &place| {
            *end += frame_bytes(&self.frames[place].run, settings);
            Some(*end)
        })
    }

    /// The block acknowledgement of the aggregate at `at_ns`, where `failed` lists which of its frames failed, in
    /// order. Gives up frames that failed too often, and delivers frames without a gap before them.
    pub(super) fn acknowledge(
        &mut self,
        at_ns: u64,
        most_retries: u32,
        failed: &[bool],
        out: &mut Outlet<'_>,
    ) {
        for (&place, &failed) in self.sent.iter().zip(failed) {
            let frame = &mut self.frames[place];
            out.block(at_ns, failed);
            if !failed {
                frame.state = State::Received;
            } else if frame.retries == most_retries {
                frame.state = State::GivenUp;
                take(&mut self.held, &frame.run);
                out.drop(Run { at_ns, ..frame.run }, Reason::Block);
            } else {
                frame.retries += 1;
            }
        }
        self.sent.clear();
        self.release(at_ns, out);
    }

    /// Delivers up to the first gap, with consecutive segments as one run.
    fn release(&mut self, at_ns: u64, out: &mut Outlet<'_>) {
        let mut burst: Option<Run> = None;
        while let Some(&frame) = self.frames.front()
            && frame.state != State::Waiting
        {
            self.frames.pop_front();
            if frame.state == State::GivenUp {
                continue;
            }
            take(&mut self.held, &frame.run);
            let run = Run { at_ns, ..frame.run };
            burst = match burst {
                Some(before) => merged(before, run).or_else(|| {
                    out.forward(before);
                    Some(run)
                }),
                None => Some(run),
            };
        }
        if let Some(run) = burst {
            out.forward(run);
        }
    }

    /// Drops everything.
    pub(super) fn clear(&mut self, at_ns: u64, reason: Reason, out: &mut Outlet<'_>) {
        for frame in self.frames.drain(..) {
            if frame.state != State::GivenUp {
                out.drop(Run { at_ns, ..frame.run }, reason);
            }
        }
        self.sent.clear();
        self.held = Backlog::default();
    }
}

fn take(held: &mut Backlog, run: &Run) {
    held.segments -= u64::from(run.count);
    held.bytes -= run.bytes();
}

/// Merges two runs, if the second continues the first.
fn merged(first: Run, second: Run) -> Option<Run> {
    let one_after_another = Run {
        first: first.end(),
        count: second.count,
        last_bytes: second.last_bytes,
        ..first
    };
    let full = first.last_bytes == first.segment_bytes;
    let intact = first.flip == 0;
    (full && intact && second == one_after_another).then(|| Run {
        count: first.count + second.count,
        last_bytes: second.last_bytes,
        ..first
    })
}

#[cfg(test)]
mod tests {
    use super::merged;
    use crate::run::{Ecn, Run, RunFlags};

    #[test]
    fn only_equal_neighbours_of_one_packet_are_merged() {
        let whole = Run {
            at_ns: 9,
            packet: 3,
            first: 4,
            count: 5,
            segment_bytes: 1400,
            last_bytes: 77,
            flow: 1,
            flip: 0,
            ecn: Ecn::Ect0,
            flags: RunFlags::default(),
        };
        let mut rest = whole;
        let front = rest.split_front(2);
        assert_eq!(merged(front, rest), Some(whole));
        let others = [
            Run { packet: 4, ..rest },
            Run { first: 7, ..rest },
            Run {
                ecn: Ecn::Ce,
                ..rest
            },
            Run {
                flags: RunFlags::COPY,
                ..rest
            },
            Run { flip: 5, ..rest },
            Run {
                segment_bytes: 1399,
                ..rest
            },
        ];
        for other in others {
            assert_eq!(merged(front, other), None, "{other:?}");
        }
        let short = Run {
            last_bytes: 1399,
            ..front
        };
        assert_eq!(merged(short, rest), None);
        let flipped = |run: Run| Run { flip: 5, ..run };
        assert_eq!(merged(flipped(front), flipped(rest)), None);
    }
}
