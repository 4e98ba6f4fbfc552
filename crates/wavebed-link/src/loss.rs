//! Loss of segments.

use std::sync::Arc;

use crate::counters::Reason;
use crate::pattern::{Clock, Cursor, End, Kind, Pattern, Playback};
use crate::random_stream::{Chance, RandomStream, stretches};
use crate::run::{Backlog, Run, RunFlags};
use crate::stage::{Change, Conditions, Outlet, Stage, Unit};

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
    GilbertElliott(TwoStateChain),
    FourState(FourStateChain),
    /// A pattern over time.
    OverTime(Probabilities),
    /// A pattern by the number of the decision.
    ByIndex(Probabilities),
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
            Model::GilbertElliott(TwoStateChain::new(model, random)),
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
        Self::new(Model::FourState(FourStateChain::new(model)), unit, random)
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
        let probabilities =
            Probabilities::new(pattern, end, start, 0).expect("the pattern has a loss column");
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
                    Probabilities::new(pattern.clone(), End::Repeat, 0, origin)
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
                let Some(probabilities) = playback.and_then(Probabilities::play) else {
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

/// The loss probability at each position of a pattern.
#[derive(Debug)]
struct Probabilities {
    chances: Box<[Chance]>,
    cursor: Cursor,
}

impl Probabilities {
    /// The probabilities of `pattern` from its position `start` on, which is the absolute position `origin`. `None`
    /// without a loss column.
    fn new(pattern: Arc<Pattern>, end: End, start: u64, origin: u64) -> Option<Self> {
        Self::play(Playback {
            pattern,
            end,
            clock: Clock::new(start, origin),
        })
    }

    /// The probabilities of a pattern that is played by its clock, as [`Probabilities::new`].
    fn play(playback: Playback) -> Option<Self> {
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
    fn chance(&mut self, position: u64) -> Option<Chance> {
        self.cursor.seek(position).map(|row| self.chances[row])
    }

    /// The probability at `position`, as [`Probabilities::chance`] without a move.
    fn known(&self, position: u64) -> Option<f64> {
        self.cursor
            .row_at(position)
            .map(|row| self.chances[row].probability())
    }

    /// Decision `index`, at `position`.
    fn outcome(&mut self, position: u64, random: RandomStream, index: u64) -> Outcome {
        match self.chance(position) {
            Some(chance) => chance.hits(random, index).then_some(Reason::Loss),
            None => Some(Reason::Ended),
        }
    }

    /// The probability at `count` positions from `position` on, if it is the same.
    fn common_chance(&mut self, position: u64, count: u16) -> Option<Chance> {
        let chance = self.chance(position)?;
        (self.cursor.until() - position >= u64::from(count)).then_some(chance)
    }
}

/// Parameters of the Gilbert–Elliott model, each a probability per decision.
///
/// E. N. Gilbert, "Capacity of a burst-noise channel", 1960; E. O. Elliott, "Estimates of error rates for codes on
/// burst-noise channels", 1963.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GilbertElliott {
    /// From good to bad.
    pub p: f64,
    /// From bad to good.
    pub r: f64,
    /// Loss in the good state.
    pub good_loss: f64,
    /// Loss in the bad state.
    pub bad_loss: f64,
}

/// The chain. It starts in the good state.
#[derive(Clone, Copy, Debug)]
struct TwoStateChain {
    leave: [Chance; 2],
    loss: [Chance; 2],
    bad: bool,
    moves: RandomStream,
}

impl TwoStateChain {
    fn new(model: GilbertElliott, random: RandomStream) -> Self {
        Self {
            leave: [Chance::new(model.p), Chance::new(model.r)],
            loss: [Chance::new(model.good_loss), Chance::new(model.bad_loss)],
            bad: false,
            moves: random.process(1),
        }
    }

    /// Whether decision `index` is a loss: the current state decides, then the transition, as in netem.
    fn lost(&mut self, random: RandomStream, index: u64) -> bool {
        let state = usize::from(self.bad);
        self.bad ^= self.leave[state].hits(self.moves, index);
        self.loss[state].hits(random, index)
    }
}

/// Transition probabilities of the four-state model of Salsano, Ludovici, Ordine and Giannuzzi, "Definition of a
/// general and intuitive loss model for packet networks and its implementation in the Netem module in the Linux
/// kernel", 2012. `pXY` leads from state X to state Y.
///
/// State 1: received, in a gap. State 2: received, in a burst. State 3: lost, in a burst. State 4: lost alone, in a
/// gap; it always leads back to state 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FourState {
    /// From the gap into a burst.
    pub p13: f64,
    /// From a burst to the gap.
    pub p31: f64,
    /// From a loss to a reception within the burst.
    pub p32: f64,
    /// From a reception to a loss within the burst.
    pub p23: f64,
    /// From the gap to a loss alone.
    pub p14: f64,
}

impl FourState {
    /// The rule that these parameters break, if any.
    #[must_use]
    pub fn problem(&self) -> Option<&'static str> {
        let all = [self.p13, self.p31, self.p32, self.p23, self.p14];
        if !all.iter().all(|p| (0.0..=1.0).contains(p)) {
            Some("each of p13, p31, p32, p23 and p14 is from 0 to 1")
        } else if self.p13 + self.p14 > 1.0 {
            Some("p13 + p14 is at most 1, since both lead out of state 1")
        } else if self.p31 + self.p32 > 1.0 {
            Some("p31 + p32 is at most 1, since both lead out of state 3")
        } else {
            None
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FourStates {
    GapReceived,
    BurstReceived,
    BurstLost,
    GapLost,
}

/// The chain. It starts in state 1.
#[derive(Clone, Copy, Debug)]
struct FourStateChain {
    model: FourState,
    state: FourStates,
}

impl FourStateChain {
    /// # Panics
    /// If the model has a [`FourState::problem`].
    fn new(model: FourState) -> Self {
        if let Some(problem) = model.problem() {
            panic!("{problem}");
        }
        Self {
            model,
            state: FourStates::GapReceived,
        }
    }

    /// Whether decision `index` is a loss: the transition first, then the new state decides, as in netem.
    fn lost(&mut self, random: RandomStream, index: u64) -> bool {
        let unit = random.unit(index);
        let FourState {
            p13,
            p31,
            p32,
            p23,
            p14,
        } = self.model;
        self.state = match self.state {
            FourStates::GapReceived if unit < p14 => FourStates::GapLost,
            FourStates::GapReceived if unit < p14 + p13 => FourStates::BurstLost,
            FourStates::BurstReceived if unit < p23 => FourStates::BurstLost,
            FourStates::BurstLost if unit < p32 => FourStates::BurstReceived,
            FourStates::BurstLost if unit < p32 + p31 => FourStates::GapReceived,
            FourStates::GapLost => FourStates::GapReceived,
            stays => stays,
        };
        matches!(self.state, FourStates::BurstLost | FourStates::GapLost)
    }
}
