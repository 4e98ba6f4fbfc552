//! A service rate over time.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::counters::Reason;
use crate::pattern::{Clock, Cursor, End, Mark, Pattern, Playback};
use crate::queue::{Held, Limit, Room};
use crate::run::{Backlog, Run};
use crate::stage::{Change, Conditions, Outlet, Stage, Unit};

/// The work of one byte, nanobits.
pub const NANOBITS_PER_BYTE: u64 = 8_000_000_000;

/// A service rate over time: constant, or the `rate_bps` of a `steps` pattern. Queried forwards in time.
#[derive(Clone, Debug)]
pub struct Profile {
    rate_bps: u64,
    until_ns: u64,
    played: Option<Played>,
}

#[derive(Clone, Debug)]
struct Played {
    cursor: Cursor,
    has_zero: bool,
    has_service: bool,
}

/// A position for [`Profile::restore`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    rate_bps: u64,
    until_ns: u64,
    mark: Option<Mark>,
}

impl Profile {
    /// A constant rate.
    #[must_use]
    pub const fn constant(rate_bps: u64) -> Self {
        Self {
            rate_bps,
            until_ns: u64::MAX,
            played: None,
        }
    }

    /// The rate of `pattern` played from its time `start_ns` on, which is the virtual time `origin_ns`. `None`
    /// if the pattern has no rate.
    #[must_use]
    pub fn pattern(pattern: Arc<Pattern>, end: End, start_ns: u64, origin_ns: u64) -> Option<Self> {
        Self::play(Playback {
            pattern,
            end,
            clock: Clock::new(start_ns, origin_ns),
        })
    }

    /// The rate of a pattern that is played by its clock. `None` if it has no rate.
    #[must_use]
    pub fn play(playback: Playback) -> Option<Self> {
        let rates = playback.pattern.rate_bps()?;
        // With `hold` only the last rate has no end; the other rows are searched one by one.
        let has_zero = rates.contains(&0);
        let has_service = rates.iter().any(|&rate| rate > 0);
        let cursor = Cursor::of(playback);
        let mut profile = Self {
            rate_bps: 0,
            until_ns: 0,
            played: Some(Played {
                cursor,
                has_zero,
                has_service,
            }),
        };
        profile.rate_at(0);
        Some(profile)
    }

    /// Whether its pattern has a light rate, which another server gives.
    pub(super) fn has_light(&self) -> bool {
        self.cursor()
            .is_some_and(|cursor| cursor.pattern().light().is_some())
    }

    /// Its position in the pattern, unless it is constant.
    pub(super) fn cursor(&self) -> Option<&Cursor> {
        self.played.as_ref().map(|played| &played.cursor)
    }

    /// The rate at `at_ns`, bits per second; 0 after the end of a pattern.
    #[inline]
    pub fn rate_at(&mut self, at_ns: u64) -> u64 {
        if at_ns >= self.until_ns {
            self.seek(at_ns);
        }
        self.rate_bps
    }

    /// The rate at `at_ns`, any time from the origin on, as [`Profile::rate_at`] without a move.
    #[must_use]
    pub fn rate_of(&self, at_ns: u64) -> u64 {
        let Some(Played { cursor, .. }) = &self.played else {
            return self.rate_bps;
        };
        let rates = cursor.pattern().rate_bps();
        let rate = cursor.row_at(at_ns).zip(rates);
        rate.map_or(0, |(row, rates)| rates[row])
    }

    #[cold]
    fn seek(&mut self, at_ns: u64) {
        let Some(Played { cursor, .. }) = &mut self.played else {
            return;
        };
        let row = cursor.seek(at_ns);
        let rates = cursor.pattern().rate_bps();
        self.rate_bps = row
            .and_then(|row| rates.map(|rates| rates[row]))
            .unwrap_or(0);
        self.until_ns = cursor.until();
    }

    /// End of validity of the last queried rate, nanoseconds; `u64::MAX` if it does not end.
    #[must_use]
    pub const fn until_ns(&self) -> u64 {
        self.until_ns
    }

    /// The earliest time at or after `at_ns` with a rate above zero, if there is one.
    pub fn next_service(&mut self, at_ns: u64) -> Option<u64> {
        self.next(at_ns, |played| played.has_service, |rate| rate > 0)
    }

    /// The earliest time at or after `at_ns` with rate zero, if there is one before the end.
    pub fn next_outage(&mut self, at_ns: u64) -> Option<u64> {
        let end_ns = self.end_ns().unwrap_or(u64::MAX);
        self.next(at_ns, |played| played.has_zero, |rate| rate == 0)
            .filter(|&at_ns| at_ns < end_ns)
    }

    fn next(
        &mut self,
        mut at_ns: u64,
        any: fn(&Played) -> bool,
        wanted: fn(u64) -> bool,
    ) -> Option<u64> {
        loop {
            if wanted(self.rate_at(at_ns)) {
                return Some(at_ns);
            }
            if self.until_ns == u64::MAX || !self.played.as_ref().is_some_and(any) {
                return None;
            }
            at_ns = self.until_ns;
        }
    }

    /// When the pattern ends with `stop`.
    #[must_use]
    pub fn end_ns(&self) -> Option<u64> {
        self.played
            .as_ref()
            .and_then(|played| played.cursor.end_at())
    }

    /// Behaviour after the end of the pattern; `repeat` for a constant rate.
    #[must_use]
    pub fn end(&self) -> End {
        self.played
            .as_ref()
            .map_or(End::Repeat, |played| played.cursor.end())
    }

    /// When `need` nanobits of work that begin at `at_ns` are done, with the unused work of that nanosecond. `None` if
    /// never.
    pub(super) fn work_off(&mut self, mut at_ns: u64, mut need: u64) -> Option<(u64, u64)> {
        if need == 0 {
            return Some((at_ns, 0));
        }
        loop {
            at_ns = self.next_service(at_ns)?;
            let rate = self.rate_bps;
            let span_ns = need.div_ceil(rate);
            let room_ns = self.until_ns - at_ns;
            if span_ns <= room_ns {
                return Some((at_ns.saturating_add(span_ns), span_ns * rate - need));
            }
            need -= room_ns * rate;
            at_ns = self.until_ns;
        }
    }

    /// The work from `from_ns` to `to_ns`, nanobits, at most `most`.
    pub(super) fn work_done(&mut self, mut from_ns: u64, to_ns: u64, most: u64) -> u64 {
        let mut done: u64 = 0;
        while from_ns < to_ns && done < most {
            let rate = self.rate_at(from_ns);
            let stop_ns = self.until_ns.min(to_ns);
            done = done.saturating_add(rate.saturating_mul(stop_ns - from_ns));
            from_ns = stop_ns;
        }
        done.min(most)
    }

    pub(super) fn place(&self) -> Place {
        let mark = self.played.as_ref().map(|played| played.cursor.mark());
        Place {
            rate_bps: self.rate_bps,
            until_ns: self.until_ns,
            mark,
        }
    }

    pub(super) fn restore(&mut self, place: Place) {
        self.rate_bps = place.rate_bps;
        self.until_ns = place.until_ns;
        if let (Some(played), Some(mark)) = (&mut self.played, place.mark) {
            played.cursor.restore(mark);
        }
    }
}

/// Settings of a [`Sampled`] bottleneck.
#[derive(Clone, Copy, Debug)]
pub struct SampledConfig {
    /// The limit of the queue, `None` for none. Packets count until they leave.
    pub limit: Option<Limit>,
    /// Bytes that each wire segment takes on the link beyond its IP bytes.
    pub overhead_bytes: u32,
    /// The unit of the limit and of service.
    pub unit: Unit,
    /// Whether packets that arrive at rate zero are dropped; otherwise they get the next rate above zero.
    pub drop_in_outage: bool,
}

/// A bottleneck that schedules a packet on arrival, with the rate at that time.
#[derive(Debug)]
pub struct Sampled {
    config: SampledConfig,
    profile: Profile,
    room: Option<Room>,
    waiting: VecDeque<Waiting>,
    held: Held,
    segments: u64,
    tail: Tail,
    head_finish_ns: u64,
    changes: VecDeque<(u64, Profile)>,
    reached_ns: u64,
}

/// A run with its scheduled service.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    run: Run,
    rate: u64,
    start_ns: u64,
    spare: u64,
}

/// The end of the last service.
#[derive(Clone, Copy, Debug)]
struct Tail {
    free_ns: u64,
    rate: u64,
    spare: u64,
}

/// When `work` that starts at `start_ns` is done at `rate`, with `spare` unused work of the previous nanosecond.
fn finish(start_ns: u64, work: u64, rate: u64, spare: u64) -> (u64, u64) {
    if work <= spare {
        return (start_ns, spare - work);
    }
    let need = work - spare;
    let span_ns = need.div_ceil(rate);
    (start_ns.saturating_add(span_ns), span_ns * rate - need)
}

impl Sampled {
    /// A bottleneck with this rate.
    #[must_use]
    pub fn new(config: SampledConfig, profile: Profile) -> Self {
        Self {
            room: config.limit.map(|limit| Room::new(limit, config.unit)),
            config,
            profile,
            waiting: VecDeque::new(),
            held: Held::default(),
            segments: 0,
            tail: Tail {
                free_ns: 0,
                rate: 0,
                spare: 0,
            },
            head_finish_ns: u64::MAX,
            changes: VecDeque::new(),
            reached_ns: 0,
        }
    }

    fn work(&self, bytes: u64, segments: u16) -> u64 {
        (bytes + u64::from(self.config.overhead_bytes) * u64::from(segments)) * NANOBITS_PER_BYTE
    }

    fn head_work(&self, run: &Run) -> u64 {
        match self.config.unit {
            Unit::Packet => self.work(u64::from(run.head_bytes()), 1),
            Unit::Superpacket => self.work(run.bytes(), run.count),
        }
    }

    fn find_head_finish(&mut self) {
        self.head_finish_ns = self.waiting.front().map_or(u64::MAX, |head| {
            if head.rate == 0 {
                return u64::MAX;
            }
            finish(
                head.start_ns,
                self.head_work(&head.run),
                head.rate,
                head.spare,
            )
            .0
        });
    }

    /// Schedules the service of a run from `at_ns` on. At rate zero it has none until the rate changes.
    fn fix(&mut self, run: Run, at_ns: u64) -> Waiting {
        let place = self.profile.place();
        let served_ns = self.profile.next_service(at_ns);
        let rate = self.profile.rate_at(served_ns.unwrap_or(at_ns));
        self.profile.restore(place);
        let Some(served_ns) = served_ns else {
            return Waiting {
                run,
                rate: 0,
                start_ns: u64::MAX,
                spare: 0,
            };
        };
        let start_ns = self.tail.free_ns.max(served_ns);
        let goes_on = start_ns == self.tail.free_ns && rate == self.tail.rate;
        let spare_before = if goes_on { self.tail.spare } else { 0 };
        let (free_ns, spare) = finish(
            start_ns,
            self.work(run.bytes(), run.count),
            rate,
            spare_before,
        );
        self.tail = Tail {
            free_ns,
            rate,
            spare,
        };
        Waiting {
            run,
            rate,
            start_ns,
            spare: spare_before,
        }
    }

    fn queue(&mut self, run: Run) {
        let waiting = self.fix(run, run.at_ns);
        self.held.packets += if self.config.unit == Unit::Packet {
            u64::from(run.count)
        } else {
            1
        };
        self.held.bytes += run.bytes();
        self.segments += u64::from(run.count);
        self.waiting.push_back(waiting);
        if self.waiting.len() == 1 {
            self.find_head_finish();
        }
    }

    /// Sets a new rate, also for runs without a scheduled service.
    fn change(&mut self, at_ns: u64, profile: Profile) {
        self.profile = profile;
        let first = self.waiting.partition_point(|waiting| waiting.rate > 0);
        for index in first..self.waiting.len() {
            self.waiting[index] = self.fix(self.waiting[index].run, at_ns);
        }
        self.find_head_finish();
    }

    /// Forwards runs that leave up to `until_ns`.
    fn send(&mut self, until_ns: u64, out: &mut Outlet<'_>) {
        while self.head_finish_ns <= until_ns {
            let Some(&head) = self.waiting.front() else {
                return;
            };
            let (finish_ns, spare) = finish(
                head.start_ns,
                self.head_work(&head.run),
                head.rate,
                head.spare,
            );
            let run = if self.config.unit == Unit::Packet && head.run.count > 1 {
                let mut rest = Waiting {
                    start_ns: finish_ns,
                    spare,
                    ..head
                };
                let front = rest.run.split_front(1);
                self.waiting[0] = rest;
                front
            } else {
                self.waiting.pop_front();
                head.run
            };
            self.held.packets -= 1;
            self.held.bytes -= run.bytes();
            self.segments -= u64::from(run.count);
            out.sojourn(finish_ns, &run);
            out.queue_level(finish_ns, self.backlog());
            out.forward(Run {
                at_ns: finish_ns,
                ..run
            });
            self.find_head_finish();
        }
    }
}

impl Stage for Sampled {
    fn accept(&mut self, run: Run, out: &mut Outlet<'_>) {
        let rate_bps = self.profile.rate_at(run.at_ns);
        if self
            .profile
            .end_ns()
            .is_some_and(|end_ns| run.at_ns >= end_ns)
        {
            return out.drop(run, Reason::Ended);
        }
        if rate_bps == 0 && self.config.drop_in_outage {
            return out.drop(run, Reason::Outage);
        }
        if let Some(mut room) = self.room {
            room.service_rate(rate_bps);
            self.room = Some(room);
            let held = self.held;
            room.admit(
                run,
                held,
                |run| self.queue(run),
                |run| out.drop(run, Reason::Overflow),
            );
        } else {
            self.queue(run);
        }
        out.queue_level(run.at_ns, self.backlog());
    }

    fn poll(&mut self, now_ns: u64, out: &mut Outlet<'_>) {
        self.reached_ns = self.reached_ns.max(now_ns);
        while self
            .changes
            .front()
            .is_some_and(|change| change.0 <= now_ns)
        {
            let Some((at_ns, profile)) = self.changes.pop_front() else {
                break;
            };
            self.send(at_ns, out);
            self.change(at_ns, profile);
        }
        self.send(now_ns, out);
    }

    fn next_event_ns(&self) -> Option<u64> {
        let change_ns = self.changes.front().map_or(u64::MAX, |change| change.0);
        Some(self.head_finish_ns.min(change_ns)).filter(|&next_ns| next_ns < u64::MAX)
    }

    fn backlog(&self) -> Backlog {
        Backlog {
            segments: self.segments,
            bytes: self.held.bytes,
        }
    }

    fn apply(&mut self, now_ns: u64, change: &Change) -> bool {
        let at_ns = now_ns.max(self.reached_ns);
        let profile = match change {
            Change::RateBps(rate_bps) => Some(Profile::constant(*rate_bps)),
            _ => change
                .playback(at_ns, self.profile.end())
                .and_then(Profile::play),
        };
        let taken = profile.is_some();
        self.changes.extend(profile.map(|profile| (at_ns, profile)));
        taken
    }

    fn takes(&self) -> &'static [&'static str] {
        &["rate", "pattern"]
    }

    fn conditions(&self, now_ns: u64) -> Conditions {
        Conditions {
            rate_bps: Some(self.profile.rate_of(now_ns)),
            ..Conditions::default()
        }
    }
}
