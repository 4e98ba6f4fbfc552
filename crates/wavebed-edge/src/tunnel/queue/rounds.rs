//! Deficit round robin with priority for those that were idle, as in RFC 8290, section 4.2.

use std::collections::VecDeque;

/// The place of one member in the rounds.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// Bytes that it may still send in this round.
    deficit: i64,
    listed: bool,
}

impl Turn {
    /// Whether it is in one of the lists.
    pub(super) const fn is_listed(&self) -> bool {
        self.listed
    }
}

/// A member of the rounds.
pub(super) trait Member {
    fn turn(&mut self) -> &mut Turn;
}

/// The lists of members that have something to send: those that just began, and the others.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    new: VecDeque<u32>,
    old: VecDeque<u32>,
}

impl Rounds {
    /// Adds `member` unless it is listed.
    pub(super) fn add(&mut self, index: u32, member: &mut impl Member, quantum: i64) {
        let turn = member.turn();
        if !turn.listed {
            *turn = Turn {
                deficit: quantum,
                listed: true,
            };
            self.new.push_back(index);
        }
    }

    /// Serves the next of `members` from which `take` gets a packet, and its bytes.
    pub(super) fn serve<M: Member, P>(
        &mut self,
        members: &mut [M],
        quantum: i64,
        mut take: impl FnMut(&mut M) -> Option<(P, i64)>,
    ) -> Option<(P, i64)> {
        loop {
            let from_new = !self.new.is_empty();
            let list = if from_new {
                &mut self.new
            } else {
                &mut self.old
            };
            let index = *list.front()?;
            let member = &mut members[index as usize];
            if member.turn().deficit <= 0 {
                member.turn().deficit += quantum;
                list.pop_front();
                self.old.push_back(index);
                continue;
            }
            if let Some((packet, bytes)) = take(member) {
                member.turn().deficit -= bytes;
                return Some((packet, bytes));
            }
            list.pop_front();
            if from_new {
                // A new member without a packet joins the old list once, so that it cannot starve the others.
                self.old.push_back(index);
            } else {
                member.turn().listed = false;
            }
        }
    }
}
