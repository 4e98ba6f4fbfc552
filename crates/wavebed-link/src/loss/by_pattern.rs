//! Loss from the `loss` column of a pattern.

use std::sync::Arc;

use super::Outcome;
use crate::chance::Chance;
use crate::counters::Reason;
use crate::pattern::{Clock, Cursor, End, Pattern, Playback};
use crate::random_stream::RandomStream;

/// The loss probability at each position of a pattern.
#[derive(Debug)]
pub(super) struct Probabilities {
    chances: Box<[Chance]>,
    cursor: Cursor,
}

impl Probabilities {
    /// The probabilities of `pattern` from its position `start` on, which is the absolute position `origin`. `None`
    /// without a loss column.
    pub(super) fn new(pattern: Arc<Pattern>, end: End, start: u64, origin: u64) -> Option<Self> {
        Self::play(Playback {
            pattern,
            end,
            clock: Clock::new(start, origin),
        })
    }

    /// The probabilities of a pattern that is played by its clock, as [`Probabilities::new`].
    pub(super) fn play(playback: Playback) -> Option<Self> {
        let chances = playback
            .pattern
            .loss()?
            .iter()
            .map(|&probability| Chance::new(probability))
            .collect();
        Some(Self {
            chances,
            cursor: Cursor::of(playback),
        })
    }

    /// The probability at `position`; `None` after the end of the pattern.
    pub(super) fn chance(&mut self, position: u64) -> Option<Chance> {
        self.cursor.seek(position).map(|row| self.chances[row])
    }

    /// The probability at `position`, as [`Probabilities::chance`] without a move.
    pub(super) fn known(&self, position: u64) -> Option<f64> {
        self.cursor
            .row_at(position)
            .map(|row| self.chances[row].probability())
    }

    /// Decision `index`, at `position`.
    pub(super) fn outcome(&mut self, position: u64, random: RandomStream, index: u64) -> Outcome {
        match self.chance(position) {
            Some(chance) => chance.hits(random, index).then_some(Reason::Loss),
            None => Some(Reason::Ended),
        }
    }

    /// The probability at `count` positions from `position` on, if it is the same.
    pub(super) fn common_chance(&mut self, position: u64, count: u16) -> Option<Chance> {
        let chance = self.chance(position)?;
        (self.cursor.until() - position >= u64::from(count)).then_some(chance)
    }
}
