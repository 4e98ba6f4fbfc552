//! The Gilbert–Elliott loss model: bursts from two states.

use crate::chance::Chance;
use crate::random_stream::RandomStream;

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
pub(super) struct Chain {
    leave: [Chance; 2],
    loss: [Chance; 2],
    bad: bool,
    moves: RandomStream,
}

impl Chain {
    pub(super) fn new(model: GilbertElliott, random: RandomStream) -> Self {
        Self {
            leave: [Chance::new(model.p), Chance::new(model.r)],
            loss: [Chance::new(model.good_loss), Chance::new(model.bad_loss)],
            bad: false,
            moves: random.process(1),
        }
    }

    /// Whether decision `index` is a loss: the current state decides, then the transition, as in netem.
    pub(super) fn lost(&mut self, random: RandomStream, index: u64) -> bool {
        let state = usize::from(self.bad);
        self.bad ^= self.leave[state].hits(self.moves, index);
        self.loss[state].hits(random, index)
    }
}
