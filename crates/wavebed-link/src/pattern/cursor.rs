//! Playback of a pattern: the current row and its end.

use std::sync::Arc;

use super::{Clock, Pattern, Playback};

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
