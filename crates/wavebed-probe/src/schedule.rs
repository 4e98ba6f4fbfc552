//! Which phase it is: both ends compute it from the time alone, so that nothing has to be agreed over the access.

use serde::Deserialize;

use crate::config::Role;

/// What happens in a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Both ends send single probes and trains.
    Light,
    /// The server keeps the downlink's queue filled, but short.
    Down,
    /// The client keeps the uplink's queue filled, but short.
    Up,
    /// The server fills the downlink's queue.
    FillDown,
    /// The client fills the uplink's queue.
    FillUp,
    /// Nobody sends: queues become empty.
    Drain,
}

impl Kind {
    /// The end that sends heavy load.
    #[must_use]
    pub fn sender(self) -> Option<Role> {
        match self {
            Self::Down | Self::FillDown => Some(Role::Server),
            Self::Up | Self::FillUp => Some(Role::Client),
            Self::Light | Self::Drain => None,
        }
    }

    /// Whether the queue is filled without regard to its delay.
    #[must_use]
    pub fn fills(self) -> bool {
        matches!(self, Self::FillDown | Self::FillUp)
    }

    /// One letter, for files and datagrams.
    #[must_use]
    pub fn letter(self) -> char {
        match self {
            Self::Light => 'l',
            Self::Down => 'd',
            Self::Up => 'u',
            Self::FillDown => 'f',
            Self::FillUp => 'g',
            Self::Drain => 'n',
        }
    }
}

/// A phase and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// What happens.
    pub kind: Kind,
    /// How long.
    pub length_ns: u64,
}

/// A phase at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// What happens.
    pub kind: Kind,
    /// Its number from the start.
    pub number: u64,
    /// When it began, nanoseconds since the start.
    pub begin_ns: u64,
    /// When it ends.
    pub end_ns: u64,
}

/// The phases of a recording.
#[derive(Clone, Debug)]
pub struct Schedule {
    opening: Vec<Phase>,
    cycle: Vec<Phase>,
}

impl Schedule {
    /// Phases of some length: `opening` once, then `cycle` again and again.
    #[must_use]
    pub fn new(opening: Vec<Phase>, cycle: Vec<Phase>) -> Self {
        Self { opening, cycle }
    }

    /// The phase at `at_ns` since the start.
    ///
    /// # Panics
    /// If the cycle has no length.
    #[must_use]
    pub fn at(&self, at_ns: u64) -> Now {
        let mut begin_ns = 0;
        let mut number = 0;
        for phase in &self.opening {
            if at_ns < begin_ns + phase.length_ns {
                return now(*phase, number, begin_ns);
            }
            begin_ns += phase.length_ns;
            number += 1;
        }
        let length_ns: u64 = self.cycle.iter().map(|phase| phase.length_ns).sum();
        let passes = (at_ns - begin_ns) / length_ns;
        begin_ns += passes * length_ns;
        number += passes * self.cycle.len() as u64;
        for phase in &self.cycle {
            if at_ns < begin_ns + phase.length_ns {
                return now(*phase, number, begin_ns);
            }
            begin_ns += phase.length_ns;
            number += 1;
        }
        unreachable!("the moment is in this pass");
    }
}

fn now(phase: Phase, number: u64, begin_ns: u64) -> Now {
    Now {
        kind: phase.kind,
        number,
        begin_ns,
        end_ns: begin_ns + phase.length_ns,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn phase(kind: Kind, length_ns: u64) -> Phase {
        Phase { kind, length_ns }
    }

    #[test]
    fn the_opening_comes_once_and_the_cycle_repeats() {
        let schedule = Schedule::new(
            vec![phase(Kind::FillDown, 5)],
            vec![phase(Kind::Light, 10), phase(Kind::Down, 20)],
        );
        let told: Vec<_> = [0, 4, 5, 14, 15, 34, 35, 65]
            .map(|at| schedule.at(at))
            .iter()
            .map(|now| (now.kind, now.number, now.begin_ns, now.end_ns))
            .collect();
        assert_eq!(
            told,
            [
                (Kind::FillDown, 0, 0, 5),
                (Kind::FillDown, 0, 0, 5),
                (Kind::Light, 1, 5, 15),
                (Kind::Light, 1, 5, 15),
                (Kind::Down, 2, 15, 35),
                (Kind::Down, 2, 15, 35),
                (Kind::Light, 3, 35, 45),
                (Kind::Light, 5, 65, 75),
            ]
        );
    }
}
