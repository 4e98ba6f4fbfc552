//! The four-state loss model: bursts and single losses.

use crate::random_stream::RandomStream;

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
enum State {
    GapReceived,
    BurstReceived,
    BurstLost,
    GapLost,
}

/// The chain. It starts in state 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chain {
    model: FourState,
    state: State,
}

impl Chain {
    /// # Panics
    /// If the model has a [`FourState::problem`].
    pub(super) fn new(model: FourState) -> Self {
        if let Some(problem) = model.problem() {
            panic!("{problem}");
        }
        Self {
            model,
            state: State::GapReceived,
        }
    }

    /// Whether decision `index` is a loss: the transition first, then the new state decides, as in netem.
    pub(super) fn lost(&mut self, random: RandomStream, index: u64) -> bool {
        let unit = random.unit(index);
        let FourState {
            p13,
            p31,
            p32,
            p23,
            p14,
        } = self.model;
        self.state = match self.state {
            State::GapReceived if unit < p14 => State::GapLost,
            State::GapReceived if unit < p14 + p13 => State::BurstLost,
            State::BurstReceived if unit < p23 => State::BurstLost,
            State::BurstLost if unit < p32 => State::BurstReceived,
            State::BurstLost if unit < p32 + p31 => State::GapReceived,
            State::GapLost => State::GapReceived,
            stays => stays,
        };
        matches!(self.state, State::BurstLost | State::GapLost)
    }
}
