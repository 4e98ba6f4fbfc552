//! The radio channel over time: rate, errors and state, constant or from a pattern.

use std::sync::Arc;

use crate::pattern::{Clock, End, Kind, Pattern, Playback, State};
use crate::stage::Conditions;

/// The rate, errors and state of a link over time. Queries may come in any order of time.
#[derive(Clone, Debug)]
pub struct Air {
    played: Option<Played>,
    fixed_bler: Option<f64>,
    now: Now,
    /// Since when `now` holds.
    since_ns: u64,
    /// Time range in which the rate is known to be zero, so that a long outage is searched once.
    quiet: (u64, u64),
    /// Time range of a handover that was ordered.
    handover: (u64, u64),
}

#[derive(Clone, Debug)]
struct Played {
    pattern: Arc<Pattern>,
    end: End,
    clock: Clock,
    /// Those that occur.
    states: Vec<State>,
}

/// The channel at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Now {
    /// Bits of transport blocks per second, averaged over the duplex frame; 0 in a handover.
    pub rate_bps: u64,
    /// Probability that a first transmission fails, where there is no SINR.
    pub bler: f64,
    /// SINR, where it decides about errors.
    pub sinr: Option<Sinr>,
    /// State of the radio.
    pub state: State,
    /// Index of the serving base station; 0 where the pattern does not tell.
    pub cell: u32,
    /// End of its validity; `u64::MAX` if it does not end.
    pub until_ns: u64,
}

/// The SINR of a slot and what its MCS needs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sinr {
    /// Effective SINR of the data, dB.
    pub sinr_db: f64,
    /// SINR at which one first transmission in ten of a full block fails, dB.
    pub need_db: f64,
}

impl Sinr {
    fn of(pattern: &Pattern, row: usize) -> Option<Self> {
        let decibels = |column: &[i32]| f64::from(column[row]) / 1000.0;
        Some(Self {
            sinr_db: pattern.sinr_mdb().map(decibels)?,
            need_db: pattern.need_mdb().map(decibels)?,
        })
    }
}

impl Air {
    /// A constant channel. Patterns set later have their own block error rate.
    #[must_use]
    pub const fn constant(rate_bps: u64, bler: f64) -> Self {
        Self {
            played: None,
            fixed_bler: None,
            now: Now {
                rate_bps,
                bler,
                sinr: None,
                state: State::Los,
                cell: 0,
                until_ns: u64::MAX,
            },
            since_ns: 0,
            quiet: (0, 0),
            handover: (0, 0),
        }
    }

    /// A constant channel in place of this one from `at_ns` on. It keeps the base station of that moment, and its errors: a
    /// fixed block error rate; the rate of the moment unless it is 1, which describes a link that carried nothing; or the
    /// SINR, for which the MCS is then chosen: it needs no more.
    #[must_use]
    pub fn held(&mut self, at_ns: u64, rate_bps: u64) -> Self {
        let now = self.at(at_ns);
        let mut air = match self.fixed_bler {
            Some(bler) => Self::constant(rate_bps, bler).with_fixed_bler(bler),
            None => Self::constant(rate_bps, if now.bler < 1.0 { now.bler } else { 0.0 }),
        };
        air.now.cell = now.cell;
        air.now.sinr = now.sinr.map(|sinr| Sinr {
            need_db: sinr.need_db.min(sinr.sinr_db),
            ..sinr
        });
        air
    }

    /// The same, with this block error rate instead of the patterns' rate.
    #[must_use]
    pub const fn with_fixed_bler(mut self, bler: f64) -> Self {
        self.fixed_bler = Some(bler);
        self.now.bler = bler;
        self
    }

    /// A `steps` pattern with rates, played from its time `start_ns` on, which is the virtual time `origin_ns`.
    /// `bler` overrides the pattern's errors. `None` if the pattern has no rates.
    #[must_use]
    pub fn pattern(
        pattern: Arc<Pattern>,
        end: End,
        start_ns: u64,
        origin_ns: u64,
        bler: Option<f64>,
    ) -> Option<Self> {
        let clock = Clock::new(start_ns, origin_ns);
        Self::play(
            Playback {
                pattern,
                end,
                clock,
            },
            bler,
        )
    }

    /// A `steps` pattern with rates that is played by its clock, as [`Air::pattern`].
    #[must_use]
    pub fn play(playback: Playback, bler: Option<f64>) -> Option<Self> {
        let Playback {
            pattern,
            end,
            clock,
        } = playback;
        if pattern.kind() != Kind::Steps {
            return None;
        }
        pattern.rate_bps()?;
        let has = |state: &State| pattern.state().is_some_and(|all| all.contains(state));
        let states = State::ALL.into_iter().filter(has).collect();
        let mut air = Self {
            played: Some(Played {
                pattern,
                end,
                clock,
                states,
            }),
            fixed_bler: bler,
            now: Now {
                rate_bps: 0,
                bler: 0.0,
                sinr: None,
                state: State::Los,
                cell: 0,
                until_ns: 0,
            },
            since_ns: 0,
            quiet: (0, 0),
            handover: (0, 0),
        };
        air.seek(clock.when(0));
        Some(air)
    }

    /// The channel at `at_ns`.
    pub fn at(&mut self, at_ns: u64) -> Now {
        if at_ns < self.since_ns || at_ns >= self.now.until_ns {
            self.seek(at_ns);
        }
        let (from_ns, to_ns) = self.handover;
        match self.now {
            now if at_ns >= to_ns => now,
            now if at_ns < from_ns => Now {
                until_ns: now.until_ns.min(from_ns),
                ..now
            },
            now => Now {
                rate_bps: 0,
                state: State::Handover,
                until_ns: to_ns,
                ..now
            },
        }
    }

    /// Lets the channel be in a handover in this time range.
    pub const fn hand_over(&mut self, from_ns: u64, to_ns: u64) {
        self.handover = (from_ns, to_ns);
    }

    /// Takes over the ordered handover of the channel in whose place this one is.
    pub const fn keep_handover(&mut self, other: &Self) {
        self.handover = other.handover;
    }

    /// The conditions at `at_ns`, for a display; the state of a channel whose pattern has states.
    #[must_use]
    pub fn conditions(&self, at_ns: u64) -> Conditions {
        let now = self.clone().at(at_ns);
        let played = self.played.as_ref();
        let has_states = played.is_some_and(|played| played.pattern.state().is_some());
        Conditions {
            rate_bps: Some(now.rate_bps),
            state: has_states.then_some(now.state),
            sinr_db: now.sinr.map(|sinr| sinr.sinr_db),
            ..Conditions::default()
        }
    }

    #[cold]
    fn seek(&mut self, at_ns: u64) {
        let Some(played) = &self.played else {
            return;
        };
        let position = played.clock.position(at_ns);
        let period = played.pattern.period();
        let rows = played.pattern.at();
        let over = position >= period;
        if over && played.end == End::Stop {
            self.now = Now {
                rate_bps: 0,
                bler: 1.0,
                sinr: None,
                state: State::Outage,
                cell: 0,
                until_ns: u64::MAX,
            };
            self.since_ns = at_ns;
            return;
        }
        let (lap, row) = match played.end {
            End::Repeat => {
                let lap = position / period * period;
                (lap, rows.partition_point(|&row| row <= position - lap) - 1)
            }
            End::Hold | End::Stop => (0, rows.partition_point(|&row| row <= position) - 1),
        };
        let last = row + 1 == rows.len();
        let until = if last { period } else { rows[row + 1] };
        let state = played
            .pattern
            .state()
            .map_or(State::Los, |states| states[row]);
        let cell = played.pattern.cell().map_or(0, |cells| cells[row]);
        let rate_bps = match (state, played.pattern.rate_bps()) {
            (State::Handover, _) | (_, None) => 0,
            (_, Some(rates)) => rates[row],
        };
        let bler = self
            .fixed_bler
            .or_else(|| played.pattern.bler().map(|blers| blers[row]))
            .unwrap_or(0.0);
        let sinr = match self.fixed_bler {
            Some(_) => None,
            None => Sinr::of(&played.pattern, row),
        };
        let until_ns = if last && played.end == End::Hold {
            u64::MAX
        } else {
            played.clock.when(lap.saturating_add(until))
        };
        self.now = Now {
            rate_bps,
            bler,
            sinr,
            state,
            cell,
            until_ns,
        };
        self.since_ns = at_ns;
    }

    /// The channel at `at_ns`, or after the outage that is known to include `at_ns`; and that time.
    pub fn after_outage(&mut self, at_ns: u64) -> (u64, Now) {
        let (from_ns, to_ns) = self.quiet;
        let known = (from_ns..to_ns).contains(&at_ns);
        let at_ns = if known { to_ns } else { at_ns };
        let now = self.at(at_ns);
        if now.rate_bps == 0 {
            let from_ns = if at_ns == to_ns { from_ns } else { at_ns };
            self.quiet = (from_ns, now.until_ns);
        }
        (at_ns, now)
    }

    /// Search horizon: two passes of the pattern, so that every row is seen, and an ordered handover.
    #[must_use]
    pub fn scan_ns(&self) -> u64 {
        let (from_ns, to_ns) = self.handover;
        let passes_ns = self.played.as_ref().map_or(0, |played| {
            played
                .clock
                .lasts(played.pattern.period().saturating_mul(2))
        });
        passes_ns.saturating_add(to_ns - from_ns)
    }

    /// Start of the first handover that begins at or after `at_ns`, if there is one.
    pub fn next_handover(&mut self, at_ns: u64) -> Option<u64> {
        self.next_into(State::Handover, at_ns)
    }

    /// When the state next becomes `state`, at or after `at_ns`.
    pub fn next_into(&mut self, state: State, mut at_ns: u64) -> Option<u64> {
        let has = |played: &&Played| played.states.contains(&state);
        let played = self.played.as_ref().filter(has)?;
        let origin_ns = played.clock.when(0);
        let lap_ns = played.clock.lasts(played.pattern.period());
        let before = at_ns.checked_sub(1).filter(|&before| before >= origin_ns);
        let mut was = before.map(|before| self.at(before).state);
        let give_up_ns = at_ns.saturating_add(lap_ns.saturating_mul(2));
        while at_ns < give_up_ns {
            let now = self.at(at_ns);
            if now.state == state && was != Some(state) {
                return Some(at_ns);
            }
            if now.until_ns == u64::MAX {
                return None;
            }
            was = Some(now.state);
            at_ns = self.same_until(at_ns, &now);
        }
        None
    }

    /// Until when the state at `at_ns` surely lasts: the end of its rows in this pass, so that few are looked at.
    fn same_until(&self, at_ns: u64, now: &Now) -> u64 {
        let (from_ns, to_ns) = self.handover;
        let (Some(played), false) = (&self.played, at_ns < to_ns && from_ns < to_ns) else {
            return now.until_ns;
        };
        let (rows, period) = (played.pattern.at(), played.pattern.period());
        let position = played.clock.position(at_ns);
        let lap = position / period * period;
        if lap > 0 && played.end != End::Repeat {
            return now.until_ns;
        }
        let row = rows.partition_point(|&row| row <= position - lap) - 1;
        let states = played.pattern.state().unwrap_or_default();
        let same = states[row..]
            .iter()
            .take_while(|state| **state == states[row]);
        match rows.get(row + same.count()) {
            Some(next) => played.clock.when(lap.saturating_add(*next)),
            None if played.end == End::Hold => u64::MAX,
            None => played.clock.when(lap.saturating_add(period)),
        }
    }

    /// The indices of the base stations that it plays, in order; of a constant channel its own.
    #[must_use]
    pub fn stations(&self) -> Vec<u32> {
        let cells = self
            .played
            .as_ref()
            .and_then(|played| played.pattern.cell());
        let mut stations = cells.map_or_else(|| vec![self.now.cell], <[u32]>::to_vec);
        stations.sort_unstable();
        stations.dedup();
        stations
    }

    /// Whether it plays this state at some time.
    #[must_use]
    pub fn plays(&self, state: State) -> bool {
        let played = self.played.as_ref();
        played.is_some_and(|played| played.states.contains(&state))
    }

    /// When the pattern ends, with [`End::Stop`].
    #[must_use]
    pub fn end_ns(&self) -> Option<u64> {
        let played = self.played.as_ref()?;
        (played.end == End::Stop).then(|| played.clock.when(played.pattern.period()))
    }

    /// Behaviour after the end of the pattern; `repeat` for a constant rate.
    #[must_use]
    pub fn end(&self) -> End {
        self.played
            .as_ref()
            .map_or(End::Repeat, |played| played.end)
    }

    /// The block error rate that overrides the errors of patterns.
    #[must_use]
    pub const fn fixed_bler(&self) -> Option<f64> {
        self.fixed_bler
    }
}
