//! Loss of segments.

mod by_pattern;
mod four_state;
mod gilbert_elliott;

pub use four_state::FourState;
pub use gilbert_elliott::GilbertElliott;

use std::sync::Arc;

use crate::chance::{Chance, stretches};
use crate::conditions::Conditions;
use crate::counters::Reason;
use crate::pattern::{End, Kind, Pattern};
use crate::random_stream::RandomStream;
use crate::run::{Run, RunFlags};
use crate::stage::{Backlog, Change, Outlet, Stage};
use crate::unit::Unit;

/// Drops wire segments, or whole super-packets, by a model.
///
/// Decisions are numbered in the order in which their units reach the stage; decision `n` depends on the seed and on
/// `n` (and, for a pattern over time, on the probability at that time), not on draws for other traffic.
#[derive(Debug)]
pub struct Loss {
    model: Model,
    unit: Unit,
    random: RandomStream,
    /// Index of the next decision.
    index: u64,
    /// The super-packet of the last decision.
    last: Option<Decided>,
}

#[derive(Debug)]
enum Model {
    Independent(Chance),
    GilbertElliott(gilbert_elliott::Chain),
    FourState(four_state::Chain),
    /// A pattern over time.
    OverTime(by_pattern::Probabilities),
    /// A pattern by the number of the decision.
    ByIndex(by_pattern::Probabilities),
}

/// The outcome for a segment: `None` if it passes.
type Outcome = Option<Reason>;

/// A super-packet whose first segments were decided; an earlier stage may have split it.
#[derive(Clone, Copy, Debug)]
struct Decided {
    packet: u32,
    copy: bool,
    end: u16,
    outcome: Outcome,
}

impl Decided {
    /// Whether `run` continues the super-packet. Keys are reused, but a new packet starts with its first segment.
    const fn goes_on_with(self, run: &Run) -> bool {
        self.packet == run.packet
            && self.copy == run.flags.has(RunFlags::COPY)
            && run.first >= self.end
    }
}

impl Loss {
    const fn new(model: Model, unit: Unit, random: RandomStream) -> Self {
        Self {
            model,
            unit,
            random,
            index: 0,
            last: None,
        }
    }

    /// Independent loss with `probability`.
    ///
    /// # Panics
    /// If `probability` is not within 0 to 1.
    #[must_use]
    pub fn independent(probability: f64, unit: Unit, random: RandomStream) -> Self {
        Self::new(Model::Independent(Chance::new(probability)), unit, random)
    }

    /// The Gilbert–Elliott model; it starts in the good state.
    ///
    /// # Panics
    /// If a parameter is not within 0 to 1.
    #[must_use]
    pub fn gilbert_elliott(model: GilbertElliott, unit: Unit, random: RandomStream) -> Self {
        Self::new(
            Model::GilbertElliott(gilbert_elliott::Chain::new(model, random)),
            unit,
            random,
        )
    }

    /// The four-state model; it starts in state 1.
    ///
    /// # Panics
    /// If the model has a [`FourState::problem`].
    #[must_use]
    pub fn four_state(model: FourState, unit: Unit, random: RandomStream) -> Self {
        Self::new(
            Model::FourState(four_state::Chain::new(model)),
            unit,
            random,
        )
    }

    /// Independent loss with the probability of `pattern` at the time of arrival (`steps`) or at the number of the
    /// decision (`packets`). Its position at time 0, or at decision 0, is `start`.
    ///
    /// # Panics
    /// If the pattern has no `loss` column.
    #[must_use]
    pub fn pattern(
        pattern: Arc<Pattern>,
        end: End,
        start: u64,
        unit: Unit,
        random: RandomStream,
    ) -> Self {
        let by_index = pattern.kind() == Kind::Packets;
        let probabilities = by_pattern::Probabilities::new(pattern, end, start, 0)
            .expect("the pattern has a loss column");
        let model = if by_index {
            Model::ByIndex(probabilities)
        } else {
            Model::OverTime(probabilities)
        };
        Self::new(model, unit, random)
    }

    fn accept_superpacket(&mut self, run: Run, out: &mut Outlet<'_>) {
        let outcome = match self.last {
            Some(last) if last.goes_on_with(&run) => last.outcome,
            _ => {
                let index = self.index;
                self.index += 1;
                self.model.outcome(run.at_ns, index, self.random)
            }
        };
        let copy = run.flags.has(RunFlags::COPY);
        self.last = Some(Decided {
            packet: run.packet,
            copy,
            end: run.end(),
            outcome,
        });
        part(run, outcome, out);
    }
}

impl Model {
    /// Decision `index`, at `at_ns`.
    fn outcome(&mut self, at_ns: u64, index: u64, random: RandomStream) -> Outcome {
        let lost = match self {
            Self::Independent(chance) => chance.hits(random, index),
            Self::GilbertElliott(chain) => chain.lost(random, index),
            Self::FourState(chain) => chain.lost(random, index),
            Self::OverTime(probabilities) => return probabilities.outcome(at_ns, random, index),
            Self::ByIndex(probabilities) => return probabilities.outcome(index, random, index),
        };
        lost.then_some(Reason::Loss)
    }

    /// Decides on each segment of `run`, starting with decision `index`.
    fn pass(&mut self, run: Run, mut index: u64, random: RandomStream, out: &mut Outlet<'_>) {
        match self {
            Self::Independent(chance) => return independent(run, *chance, index, random, out),
            // The whole run arrives at one time.
            Self::OverTime(probabilities) => {
                return match probabilities.chance(run.at_ns) {
                    Some(chance) => independent(run, chance, index, random, out),
                    None => part(run, Some(Reason::Ended), out),
                };
            }
            // Most runs lie within one row.
            Self::ByIndex(probabilities) => {
                if let Some(chance) = probabilities.common_chance(index, run.count) {
                    return independent(run, chance, index, random, out);
                }
            }
            Self::GilbertElliott(_) | Self::FourState(_) => {}
        }
        let outcome = || {
            let outcome = self.outcome(run.at_ns, index, random);
            index += 1;
            outcome
        };
        stretches(run, outcome, |stretch, outcome| part(stretch, outcome, out));
    }
}

fn independent(run: Run, chance: Chance, index: u64, random: RandomStream, out: &mut Outlet<'_>) {
    if let Some(lost) = chance.certainty() {
        return part(run, lost.then_some(Reason::Loss), out);
    }
    // Most runs lose nothing: check that before the split.
    if !(index..index + u64::from(run.count)).any(|index| chance.hits(random, index)) {
        return out.forward(run);
    }
    let mut next = index..;
    let outcome = || {
        next.next()
            .is_some_and(|index| chance.hits(random, index))
            .then_some(Reason::Loss)
    };
    stretches(run, outcome, |stretch, outcome| part(stretch, outcome, out));
}

fn part(run: Run, outcome: Outcome, out: &mut Outlet<'_>) {
    match outcome {
        None => out.forward(run),
        Some(reason) => out.drop(run, reason),
    }
}

impl Stage for Loss {
    fn accept(&mut self, run: Run, out: &mut Outlet<'_>) {
        if run.flags.has(RunFlags::CONTROL) {
            return out.forward(run);
        }
        match self.unit {
            Unit::Packet => {
                let index = self.index;
                self.index += u64::from(run.count);
                self.model.pass(run, index, self.random, out);
            }
            Unit::Superpacket => self.accept_superpacket(run, out),
        }
    }

    fn poll(&mut self, _now_ns: u64, _out: &mut Outlet<'_>) {}

    fn next_event_ns(&self) -> Option<u64> {
        None
    }

    fn takes_time(&self) -> bool {
        false
    }

    fn backlog(&self) -> Backlog {
        Backlog::default()
    }

    fn apply(&mut self, now_ns: u64, change: &Change) -> bool {
        self.model = match change {
            Change::Loss(probability) if (0.0..=1.0).contains(probability) => {
                Model::Independent(Chance::new(*probability))
            }
            Change::Pattern(pattern) => {
                let by_index = pattern.kind() == Kind::Packets;
                let origin = if by_index { self.index } else { now_ns };
                let Some(probabilities) =
                    by_pattern::Probabilities::new(pattern.clone(), End::Repeat, 0, origin)
                else {
                    return false;
                };
                if by_index {
                    Model::ByIndex(probabilities)
                } else {
                    Model::OverTime(probabilities)
                }
            }
            Change::Play(_) => {
                let playback = change.playback(now_ns, End::Repeat);
                let Some(probabilities) = playback.and_then(by_pattern::Probabilities::play) else {
                    return false;
                };
                Model::OverTime(probabilities)
            }
            _ => return false,
        };
        true
    }

    fn takes(&self) -> &'static [&'static str] {
        &["loss", "pattern"]
    }

    fn conditions(&self, now_ns: u64) -> Conditions {
        let loss = match &self.model {
            Model::Independent(chance) => Some(chance.probability()),
            Model::OverTime(probabilities) => probabilities.known(now_ns),
            Model::GilbertElliott(_) | Model::FourState(_) | Model::ByIndex(_) => None,
        };
        Conditions {
            loss,
            ..Conditions::default()
        }
    }
}
