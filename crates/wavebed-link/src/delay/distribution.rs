//! Delays drawn from a distribution, with a correlation between neighbours.

use super::normal;
use crate::random_stream::RandomStream;

/// The shape of a delay distribution.
//
// `x` is in spreads from the mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// `x` is uniform from -1 to 1.
    Uniform,
    /// `x` is standard normal: the spread is the standard deviation.
    Normal,
    /// `x` is 4/3 of a Pareto variable with shape 3, less its mean: netem's `pareto` table before it is cut off.
    Pareto,
    /// `x` is a quarter of the normal and three quarters of the Pareto value of the same rank: netem's
    /// `paretonormal`.
    ParetoNormal,
}

/// A distribution of delays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Distribution {
    /// Its shape.
    pub shape: Shape,
    /// Mean, nanoseconds.
    pub mean_ns: u64,
    /// One unit of the shape, nanoseconds.
    pub spread_ns: u64,
    /// Correlation of the Gaussian variables behind neighbouring delays, from 0 to 1.
    pub correlation: f64,
}

impl Distribution {
    /// The delay with probability `below` under it and probability `above` over it, nanoseconds, never below 0.
    #[expect(
        clippy::cast_precision_loss,
        reason = "a delay above 2^53 ns, 104 days, may lose a nanosecond"
    )]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped; as saturates"
    )]
    fn delay_ns(&self, below: f64, above: f64) -> u64 {
        let pareto = || (above.powf(-1.0 / 3.0) - 1.5) * (4.0 / 3.0);
        let spreads = match self.shape {
            Shape::Uniform => below - above,
            Shape::Normal => normal::quantile(below, above),
            Shape::Pareto => pareto(),
            Shape::ParetoNormal => 0.25 * normal::quantile(below, above) + 0.75 * pareto(),
        };
        (self.mean_ns as f64 + self.spread_ns as f64 * spreads)
            .round()
            .max(0.0) as u64
    }
}

/// Draws the delays of one stage, in the order of their indices.
///
/// Neighbours are correlated by a Gaussian copula: a stationary chain `z' = c z + sqrt(1 - c^2) e` of standard normal
/// variables, each mapped to a delay by its rank. Every single delay has exactly the given distribution, for every
/// correlation.
#[derive(Clone, Debug)]
pub(super) struct Sampler {
    distribution: Distribution,
    random: RandomStream,
    index: u64,
    /// The last value of the chain, if any.
    z: Option<f64>,
    /// `sqrt(1 - c^2)`.
    fresh: f64,
}

impl Sampler {
    /// # Panics
    /// If the correlation is not within 0 to 1.
    pub(super) fn new(distribution: Distribution, random: RandomStream) -> Self {
        let correlation = distribution.correlation;
        assert!(
            (0.0..=1.0).contains(&correlation),
            "correlation {correlation} is not from 0 to 1"
        );
        let fresh = (1.0 - correlation * correlation).sqrt();
        Self {
            distribution,
            random,
            index: 0,
            z: None,
            fresh,
        }
    }

    pub(super) const fn mean_ns(&self) -> u64 {
        self.distribution.mean_ns
    }

    pub(super) fn next_ns(&mut self) -> u64 {
        let (below, above) = probabilities(self.random, self.index);
        self.index += 1;
        if self.distribution.correlation == 0.0 {
            return self.distribution.delay_ns(below, above);
        }
        let own = normal::quantile(below, above);
        let z = self.z.map_or(own, |before| {
            self.distribution.correlation * before + self.fresh * own
        });
        self.z = Some(z);
        self.distribution
            .delay_ns(normal::probability_below(z), normal::probability_below(-z))
    }
}

/// The random number of `index` as the probabilities below and above it, neither of them zero.
#[expect(clippy::cast_precision_loss, reason = "53 bits fit an f64 exactly")]
fn probabilities(random: RandomStream, index: u64) -> (f64, f64) {
    const STEPS: u64 = 1 << 52;
    let step = random.word(index) >> 12;
    let fraction = |halves: u64| halves as f64 / (2 * STEPS) as f64;
    (fraction(2 * step + 1), fraction(2 * (STEPS - step) - 1))
}
