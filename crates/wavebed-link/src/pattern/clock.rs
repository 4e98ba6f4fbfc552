//! The time within a pattern over the time of a link: at normal speed, faster, slower, or standing still.

use std::sync::Arc;

use super::Pattern;

/// One: normal speed.
const NORMAL: u32 = 1000;

/// The position in a pattern at each absolute position: it is `start` at `origin`, and then advances.
///
/// [`Clock::position`] and [`Clock::when`] agree to the unit: a row that begins at position `p` holds from `when(p)` on,
/// and `position(when(p)) >= p > position(when(p) - 1)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    origin: u64,
    start: u64,
    permille: u32,
}

impl Clock {
    /// A clock of normal speed that is at `start` at the absolute position `origin`.
    #[must_use]
    pub const fn new(start: u64, origin: u64) -> Self {
        Self {
            origin,
            start,
            permille: NORMAL,
        }
    }

    /// The same at this speed, in thousandths of the normal one; 0: it stands still.
    #[must_use]
    pub const fn at_speed(self, permille: u32) -> Self {
        Self { permille, ..self }
    }

    /// The position in the pattern at `at`; `start` before the origin.
    #[must_use]
    pub fn position(&self, at: u64) -> u64 {
        let passed = at.saturating_sub(self.origin);
        let moved = if self.permille == NORMAL {
            passed
        } else {
            low(u128::from(passed) * u128::from(self.permille) / u128::from(NORMAL))
        };
        self.start.saturating_add(moved)
    }

    /// The first absolute position at which this position in the pattern is reached; `u64::MAX` if never.
    #[must_use]
    pub fn when(&self, position: u64) -> u64 {
        let Some(ahead) = position.checked_sub(self.start) else {
            return self.origin;
        };
        self.origin.saturating_add(self.lasts(ahead))
    }

    /// How long so much of the pattern lasts; `u64::MAX` for ever.
    #[must_use]
    pub fn lasts(&self, length: u64) -> u64 {
        match self.permille {
            NORMAL => length,
            0 if length > 0 => u64::MAX,
            0 => 0,
            permille => {
                low((u128::from(length) * u128::from(NORMAL)).div_ceil(u128::from(permille)))
            }
        }
    }

    /// The same clock at normal speed: the position that counts slots, which last as long at any speed.
    #[must_use]
    pub const fn of_slots(self) -> Self {
        self.at_speed(NORMAL)
    }
}

fn low(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

/// A pattern, the way it ends, and where it is played.
#[derive(Clone, Debug)]
pub struct Playback {
    /// The pattern.
    pub pattern: Arc<Pattern>,
    /// Behaviour after its end.
    pub end: End,
    /// The position in it over time.
    pub clock: Clock,
}

/// Behaviour after the end of a pattern.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    serde::Deserialize,
    serde::Serialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// It starts again.
    #[default]
    Repeat,
    /// The last value holds.
    Hold,
    /// The stage ends.
    Stop,
}

/// A position in a `steps` pattern (over time) or a `packets` pattern (over the index).
///
/// Positions are absolute: nanoseconds of virtual time, or indices of wire segments. They may not go back.
#[derive(Clone, Debug)]
pub struct Cursor {
    pattern: Arc<Pattern>,
    end: End,
    clock: Clock,
    mark: Mark,
}

/// The position of a [`Cursor`], to restore it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Position within all laps at which the present lap began.
    lap: u64,
    row: usize,
    until: u64,
    ended: bool,
}

impl Cursor {
    /// Plays `pattern` from its position `start` on, which is the absolute position `origin`.
    #[must_use]
    pub fn new(pattern: Arc<Pattern>, end: End, start: u64, origin: u64) -> Self {
        Self::of(Playback {
            pattern,
            end,
            clock: Clock::new(start, origin),
        })
    }

    /// Plays a pattern by its clock.
    #[must_use]
    pub fn of(playback: Playback) -> Self {
        let Playback {
            pattern,
            end,
            clock,
        } = playback;
        let mark = Mark {
            lap: 0,
            row: 0,
            until: 0,
            ended: false,
        };
        let mut cursor = Self {
            pattern,
            end,
            clock,
            mark,
        };
        cursor.locate(clock.position(0));
        cursor
    }

    /// The row that holds at `at`, or `None` when the pattern has ended (`stop`).
    pub fn seek(&mut self, at: u64) -> Option<usize> {
        if at >= self.mark.until {
            self.locate(self.clock.position(at));
        }
        (!self.mark.ended).then_some(self.mark.row)
    }

    /// The row that holds at `at`, any position from the origin on, as [`Cursor::seek`] without a move.
    #[must_use]
    pub fn row_at(&self, at: u64) -> Option<usize> {
        let position = self.clock.position(at);
        let rows = self.pattern.at();
        let period = self.pattern.period();
        let within = match self.end {
            _ if position < period => position,
            End::Repeat => position % period,
            End::Hold => return Some(rows.len() - 1),
            End::Stop => return None,
        };
        Some(rows.partition_point(|&row| row <= within) - 1)
    }

    /// The absolute position at which the row of the last [`Cursor::seek`] stops holding; `u64::MAX` if never.
    #[must_use]
    pub const fn until(&self) -> u64 {
        self.mark.until
    }

    /// The absolute position at which the pattern ends, with [`End::Stop`].
    #[must_use]
    pub fn end_at(&self) -> Option<u64> {
        (self.end == End::Stop).then(|| self.clock.when(self.pattern.period()))
    }

    /// How another pattern is played as this one.
    #[must_use]
    pub fn beside(&self, pattern: Arc<Pattern>) -> Playback {
        Playback {
            pattern,
            end: self.end,
            clock: self.clock,
        }
    }

    /// The pattern.
    #[must_use]
    pub const fn pattern(&self) -> &Arc<Pattern> {
        &self.pattern
    }

    /// Behaviour after the end of the pattern.
    #[must_use]
    pub const fn end(&self) -> End {
        self.end
    }

    /// The position.
    #[must_use]
    pub const fn mark(&self) -> Mark {
        self.mark
    }

    /// Restores a position.
    pub const fn restore(&mut self, mark: Mark) {
        self.mark = mark;
    }

    /// Finds the row of `position`, which counts from the beginning of the first lap.
    fn locate(&mut self, position: u64) {
        let at = self.pattern.at();
        let period = self.pattern.period();
        let mut mark = self.mark;
        if position - mark.lap >= period {
            match self.end {
                End::Repeat => {
                    mark.lap += (position - mark.lap) / period * period;
                    mark.row = 0;
                }
                End::Hold => {
                    self.mark = Mark {
                        row: at.len() - 1,
                        until: u64::MAX,
                        ..mark
                    };
                    return;
                }
                End::Stop => {
                    self.mark = Mark {
                        row: at.len() - 1,
                        until: u64::MAX,
                        ended: true,
                        ..mark
                    };
                    return;
                }
            }
        }
        let within = position - mark.lap;
        // The next row or the one after it is the common case; other rows are searched.
        while mark.row + 1 < at.len() && at[mark.row + 1] <= within {
            mark.row += 1;
            if mark.row + 1 < at.len() && at[mark.row + 1] <= within {
                mark.row = at.partition_point(|&row_at| row_at <= within) - 1;
            }
        }
        let last = mark.row + 1 == at.len();
        let until = if last { period } else { at[mark.row + 1] };
        let holds_for_ever = last && self.end == End::Hold;
        mark.until = if holds_for_ever {
            u64::MAX
        } else {
            self.clock.when(mark.lap.saturating_add(until))
        };
        self.mark = mark;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn position_and_time_agree_to_the_nanosecond_at_every_speed() {
        for permille in [1, 3, 250, 999, 1000, 1001, 1500, 3333, 60_000] {
            let clock = Clock::new(7_000, 500).at_speed(permille);
            for position in [7_000, 7_001, 7_002, 7_999, 1_000_003, 123_456_789_012] {
                let at = clock.when(position);
                assert!(clock.position(at) >= position, "{permille} {position}");
                assert!(
                    at == 500 || clock.position(at - 1) < position,
                    "{permille} {position}"
                );
            }
        }
    }

    #[test]
    fn a_clock_that_stands_still_never_reaches_what_is_ahead() {
        let clock = Clock::new(10, 5).at_speed(0);
        assert_eq!(clock.position(1_000_000), 10);
        assert_eq!((clock.when(10), clock.when(11)), (5, u64::MAX));
    }

    #[test]
    fn nothing_overflows() {
        let clock = Clock::new(u64::MAX - 1, 1).at_speed(100_000);
        assert_eq!(clock.position(u64::MAX), u64::MAX);
        let slow = Clock::new(0, u64::MAX - 5).at_speed(1);
        assert_eq!(slow.when(u64::MAX), u64::MAX);
    }
}
