//! Patterns: time series for links, read from the native format.
//!
//! The format is specified in `docs/reference/pattern-format.md`. Numbers are read into integers exactly:
//! nanoseconds, bits per second, bytes, thousandths of a decibel. Only fractions (loss, block errors) are floating point.

mod clock;
mod edit;
mod parse;
mod text;

pub use clock::{Clock, Cursor, End, Mark, Playback};
pub use edit::Value;
pub use parse::Light;
pub use text::PatternError;

/// The kind of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Rows are values over time, each until the next row.
    Steps,
    /// Rows are times at which a link may deliver a number of bytes.
    Opportunities,
    /// Rows are values over the index of the wire segment, each until the next row.
    Packets,
}

impl Kind {
    /// The name in the `kind` header.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Steps => "steps",
            Self::Opportunities => "opportunities",
            Self::Packets => "packets",
        }
    }
}

/// A pattern in memory: one array per column.
#[derive(Clone, Debug, PartialEq)]
pub struct Pattern {
    kind: Kind,
    period: u64,
    at: Box<[u64]>,
    rate_bps: Option<Box<[u64]>>,
    delay_ns: Option<Box<[u64]>>,
    loss: Option<Box<[f64]>>,
    bler: Option<Box<[f64]>>,
    sinr_mdb: Option<Box<[i32]>>,
    need_mdb: Option<Box<[i32]>>,
    state: Option<Box<[State]>>,
    cell: Option<Box<[u32]>>,
    bytes: Option<Box<[u32]>>,
    fallback: Columns,
    light: Option<Light>,
    headers: Vec<(String, String)>,
}

impl Pattern {
    /// Its kind.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// The length of one pass: nanoseconds, or wire segments for [`Kind::Packets`]. At least 1.
    #[must_use]
    pub const fn period(&self) -> u64 {
        self.period
    }

    /// Start of each row: nanoseconds, or the index of a wire segment. At least one row.
    #[must_use]
    pub const fn at(&self) -> &[u64] {
        &self.at
    }

    /// Rates, bits per second, one for each row, where the pattern has them.
    #[must_use]
    pub fn rate_bps(&self) -> Option<&[u64]> {
        self.rate_bps.as_deref()
    }

    /// Delays, nanoseconds, one for each row, where the pattern has them.
    #[must_use]
    pub fn delay_ns(&self) -> Option<&[u64]> {
        self.delay_ns.as_deref()
    }

    /// Fraction of segments lost, 0 to 1, one for each row, where the pattern has them.
    #[must_use]
    pub fn loss(&self) -> Option<&[f64]> {
        self.loss.as_deref()
    }

    /// Fraction of first block transmissions that fail, 0 to 1, one for each row, where the pattern has them.
    ///
    /// A pattern with them has rates.
    #[must_use]
    pub fn bler(&self) -> Option<&[f64]> {
        self.bler.as_deref()
    }

    /// Effective SINR of the data, thousandths of a decibel, one for each row, where the pattern has them.
    ///
    /// A pattern with them has rates and [`Pattern::need_mdb`].
    #[must_use]
    pub fn sinr_mdb(&self) -> Option<&[i32]> {
        self.sinr_mdb.as_deref()
    }

    /// SINR at which one first transmission in ten of a full block fails, thousandths of a decibel, one for each row,
    /// where the pattern has them.
    #[must_use]
    pub fn need_mdb(&self) -> Option<&[i32]> {
        self.need_mdb.as_deref()
    }

    /// States of the radio, one for each row, where the pattern has them.
    #[must_use]
    pub fn state(&self) -> Option<&[State]> {
        self.state.as_deref()
    }

    /// Index of the serving base station, one for each row, where the pattern has them.
    #[must_use]
    pub fn cell(&self) -> Option<&[u32]> {
        self.cell.as_deref()
    }

    /// IP bytes of each opportunity, where the pattern has them.
    #[must_use]
    pub fn bytes(&self) -> Option<&[u32]> {
        self.bytes.as_deref()
    }

    /// Every header line in its order, `kind` and the period included.
    #[must_use]
    pub fn headers(&self) -> &[(String, String)] {
        &self.headers
    }

    /// The mean rate over one pass, bits per second rounded down, of a pattern that has rates or opportunities.
    #[must_use]
    pub fn mean_rate_bps(&self) -> Option<u64> {
        let nanobits: u128 = if let Some(rates) = self.rate_bps() {
            let ends = self.at[1..].iter().chain(std::iter::once(&self.period));
            let spans = self.at.iter().zip(ends).map(|(from, to)| to - from);
            spans
                .zip(rates)
                .map(|(span, &rate)| u128::from(span) * u128::from(rate))
                .sum()
        } else {
            self.bytes()?
                .iter()
                .map(|&bytes| u128::from(bytes) * 8_000_000_000)
                .sum()
        };
        Some(u64::try_from(nanobits / u128::from(self.period)).unwrap_or(u64::MAX))
    }
}

/// The state of the radio in a row of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Line of sight.
    Los,
    /// No line of sight: a building blocks the direct path.
    Nlos,
    /// An obstacle other than a building blocks the direct path.
    Blocked,
    /// The radio link has failed, or is too weak for any block.
    Outage,
    /// Interruption by a handover; the buffer is forwarded or lost.
    Handover,
    /// The link uses its fallback carrier and the slots of that.
    Fallback,
}

impl State {
    /// Every state, in the order of the reference.
    pub const ALL: [Self; 6] = [
        Self::Los,
        Self::Nlos,
        Self::Blocked,
        Self::Outage,
        Self::Handover,
        Self::Fallback,
    ];

    /// Its name in the `state` column.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Los => "los",
            Self::Nlos => "nlos",
            Self::Blocked => "blocked",
            Self::Outage => "outage",
            Self::Handover => "handover",
            Self::Fallback => "fallback",
        }
    }

    /// The state of this name in the `state` column.
    #[must_use]
    pub fn from_name(name: &[u8]) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|state| state.name().as_bytes() == name)
    }
}

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
            cell: None,
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

/// The columns of the fallback carrier; see the columns of the same name in [`Pattern`].
#[derive(Clone, Debug, Default, PartialEq)]
struct Columns {
    rate_bps: Option<Box<[u64]>>,
    sinr_mdb: Option<Box<[i32]>>,
    need_mdb: Option<Box<[i32]>>,
}
