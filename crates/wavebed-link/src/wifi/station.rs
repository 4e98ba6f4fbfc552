//! One station: its queue, its window and its aggregates.

use std::collections::VecDeque;

use super::air::{Air, Airtime, Bler, WifiSettings};
use crate::counters::Reason;
use crate::queue::Queue;
use crate::random_stream::{Chance, RandomStream};
use crate::rate::Profile;
use crate::run::{Backlog, NEVER, Run};
use crate::stage::{Change, Effect, Outlet};

/// The state of the station.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// It has nothing to send.
    Idle,
    /// It has had data since `since_ns`, and may start an aggregate from `ready_ns` on: the rate is then above zero. With
    /// the air free it starts at `start_ns`.
    Access {
        since_ns: u64,
        ready_ns: u64,
        start_ns: u64,
    },
    /// An aggregate is on the air.
    OnAir(Aggregate),
}

#[derive(Clone, Copy, Debug)]
struct Aggregate {
    start_ns: u64,
    end_ns: u64,
    airtime: Airtime,
    chance: Chance,
    /// Whether an outage interrupted it that a live change has ended.
    cut: bool,
}

/// The next event of a station, in the order of those at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// The end of an aggregate.
    Finish,
    /// The start of one.
    Start,
    /// A live change, or the end of the pattern.
    Special,
}

/// A station that sends its queue in aggregates.
pub(super) struct Station {
    settings: WifiSettings,
    queue: Box<dyn Queue>,
    window: Window,
    air: Air,
    phase: Phase,
    /// Pending live changes.
    changes: VecDeque<(u64, Change)>,
    end_ns: u64,
    ended: bool,
    /// The rate at arrivals, for queues with a limit in time.
    arrival_rate: Option<Profile>,
    /// What it did while another link was polled, and has not told its own.
    pub(super) effects: VecDeque<Effect>,
    /// Which frames of an aggregate failed; kept to save the allocation.
    failed: Vec<bool>,
}

impl Station {
    /// A station with nothing to send at time 0, at this rate. Its `queue` returns wire segments.
    pub(super) fn new(
        settings: WifiSettings,
        queue: Box<dyn Queue>,
        rate: Profile,
        bler: Bler,
        random: RandomStream,
    ) -> Self {
        let mut station = Self {
            settings,
            queue,
            window: Window::default(),
            air: Air::new(rate, bler, random),
            phase: Phase::Idle,
            changes: VecDeque::new(),
            end_ns: NEVER,
            ended: false,
            arrival_rate: None,
            effects: VecDeque::new(),
            failed: Vec::new(),
        };
        station.watch();
        station
    }

    /// Finds the next event of the rate.
    fn watch(&mut self) {
        self.ended = false;
        self.end_ns = self.air.end_ns().unwrap_or(NEVER);
        self.arrival_rate = self.queue.wants_rate().then(|| self.air.profile());
    }

    /// The next live change or end of the pattern.
    fn special_ns(&self) -> u64 {
        let change_ns = self.changes.front().map_or(NEVER, |change| change.0);
        change_ns.min(if self.ended { NEVER } else { self.end_ns })
    }

    /// The next event and its time, while the air is busy until `free_ns`.
    pub(super) fn next(&mut self, free_ns: u64) -> Option<(u64, Event)> {
        let own = match &mut self.phase {
            Phase::Idle => (NEVER, Event::Start),
            Phase::Access { start_ns, .. } => {
                if *start_ns < free_ns {
                    *start_ns = self.air.next_service(free_ns).unwrap_or(NEVER);
                }
                (*start_ns, Event::Start)
            }
            Phase::OnAir(aggregate) => (aggregate.end_ns, Event::Finish),
        };
        let special = (self.special_ns(), Event::Special);
        Some(own.min(special)).filter(|&(at_ns, _)| at_ns < NEVER)
    }

    /// Since when it could have sent, were the air free.
    pub(super) const fn ready_ns(&self) -> u64 {
        match self.phase {
            Phase::Access { ready_ns, .. } => ready_ns,
            _ => NEVER,
        }
    }

    /// The next time that its link should poll, while the air is busy until `free_ns`.
    pub(super) fn due_ns(&mut self, free_ns: u64) -> Option<u64> {
        let effect_ns = self.effects.front().map(Effect::at_ns);
        let change_ns = self.changes.front().map(|change| change.0);
        let event_ns = match self.phase {
            Phase::Idle => change_ns,
            _ => self.next(free_ns).map(|(at_ns, _)| at_ns),
        };
        effect_ns.into_iter().chain(event_ns).min()
    }

    /// Tells its link what it did up to `now_ns`.
    pub(super) fn tell(&mut self, now_ns: u64, out: &mut Outlet<'_>) {
        while self
            .effects
            .front()
            .is_some_and(|effect| effect.at_ns() <= now_ns)
        {
            if let Some(effect) = self.effects.pop_front() {
                out.repeat(effect);
            }
        }
    }

    /// The next live change, or the end of the pattern, at `at_ns`.
    pub(super) fn special(&mut self, at_ns: u64, out: &mut Outlet<'_>) {
        if self.changes.front().is_some_and(|change| change.0 <= at_ns) {
            if let Some((_, change)) = self.changes.pop_front() {
                self.change(at_ns, &change);
            }
        } else {
            self.stop(at_ns, out);
        }
    }

    /// Waits for a rate above zero, from `since_ns` on.
    fn contend(&mut self, since_ns: u64) {
        let start_ns = self.air.next_service(since_ns).unwrap_or(NEVER);
        self.phase = Phase::Access {
            since_ns,
            ready_ns: start_ns,
            start_ns,
        };
    }

    /// Starts an aggregate. Returns its end; `None` if the queue has dropped all its segments.
    pub(super) fn start(&mut self, start_ns: u64, out: &mut Outlet<'_>) -> Option<u64> {
        self.window
            .fill(&self.settings, &mut *self.queue, start_ns, out);
        out.queue_level(start_ns, self.queue.backlog());
        let Some(bytes) = self.window.ends(&self.settings).last() else {
            self.phase = Phase::Idle;
            return None;
        };
        let (airtime, chance) = self.air.start(&self.settings, start_ns);
        let end_ns = start_ns.saturating_add(airtime.of(bytes));
        self.phase = Phase::OnAir(Aggregate {
            start_ns,
            end_ns,
            airtime,
            chance,
            cut: false,
        });
        Some(end_ns)
    }

    /// The end of the aggregate on the air.
    pub(super) fn finish(&mut self, out: &mut Outlet<'_>) {
        let Phase::OnAir(aggregate) = self.phase else {
            return;
        };
        let outage_ns = self.air.next_outage(aggregate.start_ns);
        let cut = aggregate.cut || outage_ns.is_some_and(|at_ns| at_ns < aggregate.end_ns);
        self.failed.clear();
        for bytes in self.window.ends(&self.settings) {
            let sent_ns = || {
                let airtime_ns = aggregate.airtime.of(bytes);
                aggregate.start_ns.saturating_add(airtime_ns)
            };
            let failed = cut || self.air.fails(aggregate.chance, sent_ns);
            self.failed.push(failed);
        }
        self.window
            .acknowledge(aggregate.end_ns, self.settings.retries, &self.failed, out);
        if self.window.is_empty() && self.queue.head_bytes().is_none() {
            self.phase = Phase::Idle;
        } else {
            self.contend(aggregate.end_ns);
        }
    }

    /// The pattern has ended: drops all segments in the stage.
    fn stop(&mut self, at_ns: u64, out: &mut Outlet<'_>) {
        self.ended = true;
        self.phase = Phase::Idle;
        self.window.clear(at_ns, Reason::Ended, out);
        self.queue.clear(at_ns, Reason::Ended, out);
        out.queue_level(at_ns, self.queue.backlog());
    }

    /// Applies a live change. An aggregate on the air keeps its airtime and its error probability.
    fn change(&mut self, at_ns: u64, change: &Change) {
        if let Phase::OnAir(aggregate) = &mut self.phase {
            let outage_ns = self.air.next_outage(aggregate.start_ns);
            aggregate.cut |= outage_ns.is_some_and(|outage_ns| outage_ns < at_ns);
        }
        self.air.change(at_ns, change);
        if let Phase::Access { since_ns, .. } = self.phase {
            self.contend(since_ns.max(at_ns));
        }
        self.watch();
    }

    /// Takes a run; its link was told all before.
    pub(super) fn accept(&mut self, run: Run, out: &mut Outlet<'_>) {
        let at_ns = run.at_ns;
        if self.ended {
            return out.drop(run, Reason::Ended);
        }
        if let Some(rate) = &mut self.arrival_rate {
            self.queue.service_rate(rate.rate_at(at_ns));
        }
        self.queue.enqueue(run, out);
        out.queue_level(at_ns, self.queue.backlog());
        if matches!(self.phase, Phase::Idle) && self.queue.head_bytes().is_some() {
            // An aggregate takes segments that arrived before its start, so that simultaneous arrivals are sent
            // together.
            self.contend(at_ns + 1);
        }
    }

    /// Segments in the queue and in the window, and those that its link believes there.
    pub(super) fn backlog(&self) -> Backlog {
        let mut backlog = self.queue.backlog();
        backlog += self.window.backlog();
        for effect in &self.effects {
            if let Effect::Forward(run) | Effect::Drop(run, _) = effect {
                backlog.count(run);
            }
        }
        backlog
    }

    /// The rate at `at_ns`, for a display.
    pub(super) fn rate_of(&self, at_ns: u64) -> u64 {
        self.air.profile().rate_of(at_ns)
    }

    /// Takes a live change at `at_ns`. Returns false if it does not concern the stage.
    pub(super) fn apply(&mut self, at_ns: u64, change: &Change) -> bool {
        let taken = match change {
            Change::RateBps(_) => true,
            Change::Pattern(pattern) => pattern.rate_bps().is_some(),
            Change::Play(play) => play.pattern.rate_bps().is_some(),
            _ => false,
        };
        if taken {
            let last_ns = self.changes.back().map_or(0, |change| change.0);
            self.changes.push_back((at_ns.max(last_ns), change.clone()));
        }
        taken
    }
}

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

/// Frames in the order of their sequence numbers. The first is always unacknowledged, so the number of frames is the
/// size of the window.
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
