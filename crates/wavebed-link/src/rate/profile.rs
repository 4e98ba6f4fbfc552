//! A service rate over time.

use std::sync::Arc;

use crate::pattern::{Clock, Cursor, End, Mark, Pattern, Playback};

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
