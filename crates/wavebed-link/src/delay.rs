//! Delay: the time that a wire segment spends in the link, independent of other traffic.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use crate::counters::Reason;
use crate::pattern::{Clock, Cursor, End, Kind, Pattern, Playback};
use crate::random_stream::{RandomStream, stretches};
use crate::run::{Backlog, Run, RunFlags};
use crate::stage::{Change, Conditions, Outlet, Stage};

/// Delays each wire segment.
///
/// Without `reorder`, a segment leaves when its delay is over and all earlier segments have left. With `reorder`, it
/// leaves when its delay is over.
#[derive(Debug)]
pub struct Delay {
    source: Source,
    waiting: Waiting,
    backlog: Backlog,
    most_segments: u64,
    /// Copies of the runs that arrived since they were last taken, if they are kept.
    settled: Option<Vec<Run>>,
}

/// Source of the delays.
#[derive(Debug)]
enum Source {
    Constant(u64),
    Distribution(Sampler),
    /// `delay_s` over time.
    OverTime(Cursor),
    /// `delay_s` by the index of the wire segment; the index of the next one.
    ByIndex(Cursor, u64),
}

impl Source {
    /// The delays of `pattern` from its position `start` on; `None` without a delay column.
    fn pattern(pattern: Arc<Pattern>, end: End, start: u64, now_ns: u64) -> Option<Self> {
        match pattern.kind() {
            Kind::Packets if pattern.delay_ns().is_some() => {
                Some(Self::ByIndex(Cursor::new(pattern, end, start, 0), 0))
            }
            _ => Self::play(Playback {
                pattern,
                end,
                clock: Clock::new(start, now_ns),
            }),
        }
    }

    /// The delays over time of a pattern that is played by its clock.
    fn play(playback: Playback) -> Option<Self> {
        playback.pattern.delay_ns()?;
        Some(Self::OverTime(Cursor::of(playback)))
    }

    /// The common delay of all segments of `run`, if it is known without a draw for each.
    fn common(&mut self, run: &Run) -> Common {
        let control = run.flags.has(RunFlags::CONTROL);
        match self {
            Self::Constant(delay_ns) => Common::Delay(*delay_ns),
            Self::OverTime(cursor) => Common::new(delay_at(cursor, run.at_ns)),
            Self::Distribution(sampler) if control => Common::Delay(sampler.mean_ns()),
            Self::Distribution(_) => Common::No,
            Self::ByIndex(cursor, index) => {
                let common = Common::new(delay_at(cursor, *index));
                if control {
                    return common;
                }
                if cursor.until() - *index < u64::from(run.count) {
                    return Common::No;
                }
                *index += u64::from(run.count);
                common
            }
        }
    }

    /// The delay at `now_ns` as far as it is known without a segment: the mean of a distribution.
    fn known(&self, now_ns: u64) -> Option<u64> {
        match self {
            Self::Constant(delay_ns) => Some(*delay_ns),
            Self::Distribution(sampler) => Some(sampler.mean_ns()),
            Self::OverTime(cursor) => {
                let row = cursor.row_at(now_ns)?;
                cursor.pattern().delay_ns().map(|delays| delays[row])
            }
            Self::ByIndex(..) => None,
        }
    }

    /// The delay of the next segment; `None` after the end of a pattern.
    fn next(&mut self, at_ns: u64) -> Option<u64> {
        match self {
            Self::Constant(delay_ns) => Some(*delay_ns),
            Self::OverTime(cursor) => delay_at(cursor, at_ns),
            Self::Distribution(sampler) => Some(sampler.next_ns()),
            Self::ByIndex(cursor, index) => {
                let delay_ns = delay_at(cursor, *index);
                *index += 1;
                delay_ns
            }
        }
    }
}

/// The common delay of a run.
enum Common {
    /// This one, nanoseconds.
    Delay(u64),
    /// The pattern has ended.
    Ended,
    /// Unknown before a draw for each segment.
    No,
}

impl Common {
    fn new(delay_ns: Option<u64>) -> Self {
        delay_ns.map_or(Self::Ended, Self::Delay)
    }
}

/// The delay at `position`; `None` after the end of the pattern.
fn delay_at(cursor: &mut Cursor, position: u64) -> Option<u64> {
    let row = cursor.seek(position)?;
    cursor.pattern().delay_ns().map(|delays| delays[row])
}

/// Segments in flight; runs are stamped with the time at which they leave.
#[derive(Debug)]
enum Waiting {
    InOrder {
        runs: VecDeque<Run>,
        last_due_ns: u64,
    },
    ByTime {
        runs: BinaryHeap<Held>,
        arrivals: u64,
    },
}

impl Delay {
    fn new(source: Source, reorder: bool) -> Self {
        let waiting = if reorder {
            Waiting::ByTime {
                runs: BinaryHeap::new(),
                arrivals: 0,
            }
        } else {
            Waiting::InOrder {
                runs: VecDeque::new(),
                last_due_ns: 0,
            }
        };
        Self {
            source,
            waiting,
            backlog: Backlog::default(),
            most_segments: u64::MAX,
            settled: None,
        }
    }

    /// With at most this many segments in flight: one that arrives beyond them is dropped.
    #[must_use]
    pub fn limited(self, most_segments: u64) -> Self {
        Self {
            most_segments,
            ..self
        }
    }

    /// The part of `run` that there is room for; the rest is dropped.
    fn admitted(&self, mut run: Run, out: &mut Outlet<'_>) -> Option<Run> {
        let room = self.most_segments.saturating_sub(self.backlog.segments);
        match u16::try_from(room) {
            Ok(0) => {
                out.drop(run, Reason::Overflow);
                None
            }
            Ok(room) if room < run.count => {
                let front = run.split_front(room);
                out.drop(run, Reason::Overflow);
                Some(front)
            }
            _ => Some(run),
        }
    }

    /// A constant delay.
    #[must_use]
    pub fn constant(delay_ns: u64, reorder: bool) -> Self {
        Self::new(Source::Constant(delay_ns), reorder)
    }

    /// A delay for each wire segment, drawn by its index.
    ///
    /// # Panics
    /// If the correlation is not within 0 to 1.
    #[must_use]
    pub fn distribution(distribution: Distribution, reorder: bool, random: RandomStream) -> Self {
        Self::new(
            Source::Distribution(Sampler::new(distribution, random)),
            reorder,
        )
    }

    /// The `delay_s` of a pattern at the time of arrival (`steps`), or at the index of the wire segment
    /// (`packets`). The position of the pattern at time 0, or at index 0, is `start`.
    ///
    /// # Panics
    /// If the pattern has no `delay_s` column.
    #[must_use]
    pub fn pattern(pattern: Arc<Pattern>, end: End, start: u64, reorder: bool) -> Self {
        let source =
            Source::pattern(pattern, end, start, 0).expect("the pattern has a delay_s column");
        Self::new(source, reorder)
    }

    fn hold(&mut self, run: Run, due_ns: u64) {
        self.backlog += Backlog {
            segments: u64::from(run.count),
            bytes: run.bytes(),
        };
        self.waiting.insert(run, due_ns, self.settled.as_mut());
    }

    /// Each segment of `run` gets its own delay. Without `reorder`, segments that wait for the same earlier one leave
    /// together.
    fn hold_each(&mut self, run: Run, out: &mut Outlet<'_>) {
        let Self {
            source,
            waiting,
            backlog,
            settled,
            ..
        } = self;
        let mut floor_ns = match waiting {
            Waiting::InOrder { last_due_ns, .. } => Some(*last_due_ns),
            Waiting::ByTime { .. } => None,
        };
        let due = || {
            let due_ns = run.at_ns.saturating_add(source.next(run.at_ns)?);
            floor_ns = floor_ns.map(|floor| floor.max(due_ns));
            Some(floor_ns.unwrap_or(due_ns))
        };
        stretches(run, due, |stretch, due_ns| match due_ns {
            Some(due_ns) => {
                *backlog += Backlog {
                    segments: u64::from(stretch.count),
                    bytes: stretch.bytes(),
                };
                waiting.insert(stretch, due_ns, settled.as_mut());
            }
            None => out.drop(stretch, Reason::Ended),
        });
    }
}

impl Waiting {
    fn insert(&mut self, run: Run, due_ns: u64, settled: Option<&mut Vec<Run>>) {
        match self {
            Self::InOrder { runs, last_due_ns } => {
                *last_due_ns = due_ns.max(*last_due_ns);
                let run = Run {
                    at_ns: *last_due_ns,
                    ..run
                };
                runs.push_back(run);
                if let Some(settled) = settled {
                    settled.push(run);
                }
            }
            Self::ByTime { runs, arrivals } => {
                runs.push(Held {
                    run: Run {
                        at_ns: due_ns,
                        ..run
                    },
                    arrival: *arrivals,
                });
                *arrivals += 1;
            }
        }
    }

    fn next_due_ns(&self) -> Option<u64> {
        match self {
            Self::InOrder { runs, .. } => runs.front().map(|run| run.at_ns),
            Self::ByTime { runs, .. } => runs.peek().map(|held| held.run.at_ns),
        }
    }

    fn take_due(&mut self, now_ns: u64) -> Option<Run> {
        if self.next_due_ns()? > now_ns {
            return None;
        }
        match self {
            Self::InOrder { runs, .. } => runs.pop_front(),
            Self::ByTime { runs, .. } => runs.pop().map(|held| held.run),
        }
    }
}

impl Stage for Delay {
    fn accept(&mut self, run: Run, out: &mut Outlet<'_>) {
        let Some(run) = self.admitted(run, out) else {
            return;
        };
        match self.source.common(&run) {
            Common::Delay(delay_ns) => self.hold(run, run.at_ns.saturating_add(delay_ns)),
            Common::Ended => out.drop(run, Reason::Ended),
            Common::No => self.hold_each(run, out),
        }
    }

    fn poll(&mut self, now_ns: u64, out: &mut Outlet<'_>) {
        while let Some(run) = self.waiting.take_due(now_ns) {
            self.backlog.segments -= u64::from(run.count);
            self.backlog.bytes -= run.bytes();
            out.forward(run);
        }
    }

    fn next_event_ns(&self) -> Option<u64> {
        self.waiting.next_due_ns()
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }

    fn keep_settled(&mut self) -> bool {
        let can = matches!(self.waiting, Waiting::InOrder { .. });
        if can {
            self.settled.get_or_insert_default();
        }
        can
    }

    fn take_settled(&mut self, settled: &mut Vec<Run>) {
        if let Some(kept) = &mut self.settled {
            settled.append(kept);
        }
    }

    fn settled_at(&self, place: usize) -> Option<&Run> {
        match &self.waiting {
            Waiting::InOrder { runs, .. } => runs.get(place),
            Waiting::ByTime { .. } => None,
        }
    }

    fn least_stay_ns(&self) -> u64 {
        match self.source {
            Source::Constant(delay_ns) => delay_ns,
            _ => 0,
        }
    }

    fn apply(&mut self, now_ns: u64, change: &Change) -> bool {
        // Segments in flight keep their delay.
        let source = match change {
            Change::DelayNs(delay_ns) => Some(Source::Constant(*delay_ns)),
            Change::Pattern(pattern) => Source::pattern(pattern.clone(), End::Repeat, 0, now_ns),
            Change::Play(_) => change.playback(now_ns, End::Repeat).and_then(Source::play),
            Change::RateBps(_) | Change::Loss(_) | Change::Handover { .. } => None,
        };
        let taken = source.is_some();
        if let Some(source) = source {
            self.source = source;
        }
        taken
    }

    fn takes(&self) -> &'static [&'static str] {
        &["delay", "pattern"]
    }

    fn conditions(&self, now_ns: u64) -> Conditions {
        Conditions {
            delay_ns: self.source.known(now_ns),
            ..Conditions::default()
        }
    }
}

/// A heap entry; the top leaves next: the earliest, and of equals the first arrival.
#[derive(Debug)]
struct Held {
    run: Run,
    arrival: u64,
}

impl Held {
    const fn rank(&self) -> (u64, u64) {
        (self.run.at_ns, self.arrival)
    }
}

impl Ord for Held {
    fn cmp(&self, other: &Self) -> Ordering {
        other.rank().cmp(&self.rank())
    }
}

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Held {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}

impl Eq for Held {}

/// Coefficients of two polynomials, highest power first: a rational function.
struct Ratio<const N: usize, const D: usize> {
    above: [f64; N],
    below: [f64; D],
}

impl<const N: usize, const D: usize> Ratio<N, D> {
    fn at(&self, x: f64) -> f64 {
        let horner = |coefficients: &[f64]| coefficients.iter().fold(0.0, |sum, c| sum * x + c);
        horner(&self.above) / horner(&self.below)
    }
}

/// Coefficients of M. J. Wichura, "Algorithm AS 241: The percentage points of the normal distribution", Applied
/// Statistics 37 (1988), PPND16, for the middle of the distribution.
const MIDDLE: Ratio<8, 8> = Ratio {
    above: [
        2.509_080_928_730_122_7e3,
        3.343_057_558_358_813e4,
        6.726_577_092_700_87e4,
        4.592_195_393_154_987e4,
        1.373_169_376_550_946e4,
        1.971_590_950_306_551_3e3,
        1.331_416_678_917_843_8e2,
        3.387_132_872_796_366_5,
    ],
    below: [
        5.226_495_278_852_854e3,
        2.872_908_573_572_194_3e4,
        3.930_789_580_009_271e4,
        2.121_379_430_158_659_7e4,
        5.394_196_021_424_751e3,
        6.871_870_074_920_579e2,
        4.231_333_070_160_091e1,
        1.0,
    ],
};

/// The same for tails down to 1.4e-11.
const TAIL: Ratio<8, 8> = Ratio {
    above: [
        7.745_450_142_783_414e-4,
        2.272_384_498_926_918_4e-2,
        2.417_807_251_774_506e-1,
        1.270_458_252_452_368_4,
        3.647_848_324_763_204_5,
        5.769_497_221_460_691,
        4.630_337_846_156_546,
        1.423_437_110_749_683_5,
    ],
    below: [
        1.050_750_071_644_416_9e-9,
        5.475_938_084_995_345e-4,
        1.519_866_656_361_645_7e-2,
        1.481_039_764_274_800_8e-1,
        6.897_673_349_851e-1,
        1.676_384_830_183_803_8,
        2.053_191_626_637_759,
        1.0,
    ],
};

/// The same for the tails beyond.
const FAR_TAIL: Ratio<8, 8> = Ratio {
    above: [
        2.010_334_399_292_288_1e-7,
        2.711_555_568_743_487_6e-5,
        1.242_660_947_388_078_4e-3,
        2.653_218_952_657_612_4e-2,
        2.965_605_718_285_048_7e-1,
        1.784_826_539_917_291_3,
        5.463_784_911_164_114,
        6.657_904_643_501_103,
    ],
    below: [
        2.044_263_103_389_939_8e-15,
        1.421_511_758_316_446e-7,
        1.846_318_317_510_054_8e-5,
        7.868_691_311_456_133e-4,
        1.487_536_129_085_061_5e-2,
        1.369_298_809_227_358e-1,
        5.998_322_065_558_88e-1,
        1.0,
    ],
};

/// The standard normal quantile with probability `below` below it and probability `above` above it, both within 0 to 1.
/// Two arguments keep the upper tail as exact as the lower one.
fn quantile(below: f64, above: f64) -> f64 {
    let from_middle = below - 0.5;
    if from_middle.abs() <= 0.425 {
        return from_middle * MIDDLE.at(0.180_625 - from_middle * from_middle);
    }
    let depth = (-below.min(above).ln()).sqrt();
    let size = if depth <= 5.0 {
        TAIL.at(depth - 1.6)
    } else {
        FAR_TAIL.at(depth - 5.0)
    };
    if from_middle < 0.0 { -size } else { size }
}

/// J. F. Hart et al., "Computer approximations", 1968, function 5666, without the leading exponential.
const HART: Ratio<7, 8> = Ratio {
    above: [
        0.035_262_496_599_891_1,
        0.700_383_064_443_688,
        6.373_962_203_531_65,
        33.912_866_078_383,
        112.079_291_497_871,
        221.213_596_169_931,
        220.206_867_912_376,
    ],
    below: [
        0.088_388_347_648_318_4,
        1.755_667_163_182_64,
        16.064_177_579_207,
        86.780_732_202_946_1,
        296.564_248_779_674,
        637.333_633_378_831,
        793.826_512_519_948,
        440.413_735_824_752,
    ],
};

/// The probability that a standard normal variable lies below `z`.
fn probability_below(z: f64) -> f64 {
    let distance = z.abs();
    let density = (-0.5 * distance * distance).exp();
    let tail = if distance < 5.0 * std::f64::consts::SQRT_2 {
        density * HART.at(distance)
    } else {
        // Continued fraction of Mills' ratio.
        let fraction = (1..=4).rev().fold(distance + 0.65, |rest, step| {
            distance + f64::from(step) / rest
        });
        density / (fraction * std::f64::consts::TAU.sqrt())
    };
    if z > 0.0 { 1.0 - tail } else { tail }
}

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
            Shape::Normal => quantile(below, above),
            Shape::Pareto => pareto(),
            Shape::ParetoNormal => 0.25 * quantile(below, above) + 0.75 * pareto(),
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
struct Sampler {
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
    fn new(distribution: Distribution, random: RandomStream) -> Self {
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

    const fn mean_ns(&self) -> u64 {
        self.distribution.mean_ns
    }

    fn next_ns(&mut self) -> u64 {
        let (below, above) = probabilities(self.random, self.index);
        self.index += 1;
        if self.distribution.correlation == 0.0 {
            return self.distribution.delay_ns(below, above);
        }
        let own = quantile(below, above);
        let z = self.z.map_or(own, |before| {
            self.distribution.correlation * before + self.fresh * own
        });
        self.z = Some(z);
        self.distribution
            .delay_ns(probability_below(z), probability_below(-z))
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

#[cfg(test)]
mod tests {
    use super::{probability_below, quantile};

    /// Pairs of z and the probability below it, computed with another implementation of `erfc`.
    const KNOWN: [(f64, f64); 7] = [
        (-8.0, 6.220_960_574_271_819e-16),
        (-6.0, 9.865_876_450_377_012e-10),
        (-4.0, 3.167_124_183_311_996_5e-5),
        (-2.5, 0.006_209_665_325_776_139),
        (-1.0, 0.158_655_253_931_457_07),
        (-0.5, 0.308_537_538_725_986_9),
        (0.0, 0.5),
    ];

    #[test]
    fn probabilities_and_quantiles_match_known_values() {
        for (z, probability) in KNOWN {
            let found = probability_below(z);
            assert!(
                (found / probability - 1.0).abs() < 1e-8,
                "probability below {z}: {found}"
            );
            assert!(
                (found - probability).abs() < 1e-15,
                "probability below {z}: {found}"
            );
            assert!(
                (quantile(probability, 1.0 - probability) - z).abs() < 1e-12,
                "quantile {probability}"
            );
            assert!(
                (quantile(1.0 - probability, probability) + z).abs() < 1e-12,
                "upper quantile {probability}"
            );
        }
    }

    #[test]
    fn quantile_inverts_probability_below() {
        for step in -7000..=7000 {
            let z = f64::from(step) / 1000.0;
            let back = quantile(probability_below(z), probability_below(-z));
            assert!((back - z).abs() < 1e-8, "{z} came back as {back}");
        }
    }
}
