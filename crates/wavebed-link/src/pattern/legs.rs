//! The two legs of a split bearer: the patterns of the carrier and of the fallback carrier, each on its own.

use super::{Kind, Pattern, State};

impl Pattern {
    /// Rates of the fallback carrier at all times, bits per second, one for each row, where the pattern has them.
    #[must_use]
    pub fn fallback_rate_bps(&self) -> Option<&[u64]> {
        self.fallback.rate_bps.as_deref()
    }

    /// The pattern of the carrier alone: its rate is 0 while the link is on the fallback carrier, and until it is back.
    #[must_use]
    pub fn primary_leg(&self) -> Self {
        let mut away = false;
        let leave = |state: &State| {
            away = *state == State::Fallback || (away && *state == State::Handover);
            if away { State::Fallback } else { *state }
        };
        let state: Option<Box<[State]>> = self
            .state()
            .map(|states| states.iter().map(leave).collect());
        let silent = |row: usize| {
            state
                .as_ref()
                .is_some_and(|states| states[row] == State::Fallback)
        };
        let rates = |(row, &rate): (usize, &u64)| if silent(row) { 0 } else { rate };
        let rate_bps = self
            .rate_bps()
            .map(|values| values.iter().enumerate().map(rates).collect());
        Self {
            rate_bps,
            state,
            fallback: Columns::default(),
            light: None,
            ..self.clone()
        }
    }

    /// The pattern of the fallback carrier alone, all of it in that state; `None` without its rates.
    #[must_use]
    pub fn fallback_leg(&self) -> Option<Self> {
        let rate_bps = self.fallback.rate_bps.clone()?;
        Some(Self {
            kind: Kind::Steps,
            period: self.period,
            at: self.at.clone(),
            state: Some(vec![State::Fallback; rate_bps.len()].into()),
            rate_bps: Some(rate_bps),
            sinr_mdb: self.fallback.sinr_mdb.clone(),
            need_mdb: self.fallback.need_mdb.clone(),
            delay_ns: None,
            loss: None,
            bler: None,
            bytes: None,
            fallback: Columns::default(),
            light: None,
            headers: Vec::new(),
        })
    }
}

/// The columns of the fallback carrier; see those of the same name in [`Pattern`].
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Columns {
    pub(super) rate_bps: Option<Box<[u64]>>,
    pub(super) sinr_mdb: Option<Box<[i32]>>,
    pub(super) need_mdb: Option<Box<[i32]>>,
}
