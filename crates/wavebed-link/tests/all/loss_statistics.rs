//! Loss against the formulas of its models. Tolerances are five standard deviations.

use crate::loss_support::{assert_fraction, losses};
use wavebed_link::loss::{FourState, GilbertElliott, Loss};
use wavebed_link::{RandomStream, Unit};

const DRAWS: u32 = 1_000_000;

fn random() -> RandomStream {
    RandomStream::new(20, 4)
}

fn count(losses: &[bool]) -> u64 {
    losses.iter().filter(|&&lost| lost).count() as u64
}

/// Lengths of the stretches of `which` that both began and ended.
fn stretches(losses: &[bool], which: bool) -> Vec<u64> {
    let mut lengths: Vec<u64> = losses
        .chunk_by(|a, b| a == b)
        .filter(|chunk| chunk[0] == which)
        .map(|chunk| chunk.len() as u64)
        .collect();
    lengths.pop();
    lengths
}

/// Compares the fractions of lengths 1 to `longest` with `law`.
fn check_lengths(lengths: &[u64], longest: u64, law: impl Fn(u64) -> f64) {
    for length in 1..=longest {
        let count = lengths.iter().filter(|&&l| l == length).count() as u64;
        assert_fraction(count, lengths.len() as u64, law(length), 1.0);
    }
}

fn geometric(stop: f64) -> impl Fn(u64) -> f64 {
    move |length| stop * (1.0 - stop).powf(length as f64 - 1.0)
}

#[test]
fn independent_loss_has_its_probability_and_geometric_bursts() {
    for probability in [0.0001, 0.01, 0.3, 0.9] {
        let losses = losses(
            Loss::independent(probability, Unit::Packet, random()),
            DRAWS,
        );
        assert_fraction(count(&losses), u64::from(DRAWS), probability, 1.0);
        check_lengths(&stretches(&losses, true), 4, geometric(1.0 - probability));
        check_lengths(&stretches(&losses, false), 4, geometric(probability));
    }
}

#[test]
fn nothing_and_everything_is_lost_at_the_ends() {
    assert_eq!(
        count(&losses(
            Loss::independent(0.0, Unit::Packet, random()),
            10_000
        )),
        0
    );
    assert_eq!(
        count(&losses(
            Loss::independent(1.0, Unit::Packet, random()),
            10_000
        )),
        10_000
    );
}

#[test]
fn gilbert_has_its_probability_and_geometric_bursts_and_gaps() {
    let (p, r) = (0.01, 0.25);
    let model = GilbertElliott {
        p,
        r,
        good_loss: 0.0,
        bad_loss: 1.0,
    };
    let losses = losses(Loss::gilbert_elliott(model, Unit::Packet, random()), DRAWS);
    // The state's autocorrelation decays as (1 - p - r)^n.
    let decay = 1.0 - p - r;
    assert_fraction(
        count(&losses),
        u64::from(DRAWS),
        p / (p + r),
        (1.0 + decay) / (1.0 - decay),
    );
    check_lengths(&stretches(&losses, true), 12, geometric(r));
    check_lengths(&stretches(&losses, false), 12, geometric(p));
}

#[test]
fn gilbert_elliott_has_its_probability_and_pairs() {
    let (p, r, good, bad) = (0.02, 0.1, 0.005, 0.4);
    let model = GilbertElliott {
        p,
        r,
        good_loss: good,
        bad_loss: bad,
    };
    let losses = losses(Loss::gilbert_elliott(model, Unit::Packet, random()), DRAWS);
    let (in_good, in_bad) = (r / (p + r), p / (p + r));
    let decay = 1.0 - p - r;
    // An upper bound: only the state is correlated, not the loss within it.
    let inflation = (1.0 + decay) / (1.0 - decay);
    assert_fraction(
        count(&losses),
        u64::from(DRAWS),
        in_good * good + in_bad * bad,
        inflation,
    );
    let pairs = losses.windows(2).filter(|pair| pair[0] && pair[1]).count() as u64;
    let both =
        in_good * good * ((1.0 - p) * good + p * bad) + in_bad * bad * ((1.0 - r) * bad + r * good);
    assert_fraction(pairs, u64::from(DRAWS) - 1, both, inflation);
}

#[test]
fn gilbert_elliott_has_every_word_of_three_decisions() {
    let (p, r, good, bad) = (0.2, 0.3, 0.1, 0.6);
    let model = GilbertElliott {
        p,
        r,
        good_loss: good,
        bad_loss: bad,
    };
    let losses = losses(Loss::gilbert_elliott(model, Unit::Packet, random()), DRAWS);
    for bits in 0..8u8 {
        let word: [bool; 3] = std::array::from_fn(|place| bits >> place & 1 == 1);
        let mut weights = [r / (p + r), p / (p + r)];
        for (position, lost) in word.into_iter().enumerate() {
            if position > 0 {
                weights = [
                    weights[0] * (1.0 - p) + weights[1] * r,
                    weights[0] * p + weights[1] * (1.0 - r),
                ];
            }
            for (weight, loss) in weights.iter_mut().zip([good, bad]) {
                *weight *= if lost { loss } else { 1.0 - loss };
            }
        }
        let count = losses.windows(3).filter(|window| **window == word).count() as u64;
        // The chain's eigenvalue is 1 - p - r = 0.5: inflation below 3.
        assert_fraction(count, u64::from(DRAWS) - 2, weights.iter().sum(), 3.0);
    }
}

/// The fraction of time in each state, from the balance of flows between the states.
fn stationary(model: &FourState) -> [f64; 4] {
    let lost_in_burst = model.p13 / model.p31;
    let received_in_burst = lost_in_burst * model.p32 / model.p23;
    let lost_in_gap = model.p14;
    let all = 1.0 + received_in_burst + lost_in_burst + lost_in_gap;
    [1.0, received_in_burst, lost_in_burst, lost_in_gap].map(|weight| weight / all)
}

fn transitions(model: &FourState) -> [[f64; 4]; 4] {
    let FourState {
        p13,
        p31,
        p32,
        p23,
        p14,
    } = *model;
    [
        [1.0 - p13 - p14, 0.0, p13, p14],
        [0.0, 1.0 - p23, p23, 0.0],
        [p31, p32, 1.0 - p31 - p32, 0.0],
        [1.0, 0.0, 0.0, 0.0],
    ]
}

/// The probability of seeing `word`, true for lost, from the chain's matrix.
fn word_probability(model: &FourState, word: &[bool]) -> f64 {
    let seen = |state: usize, lost: bool| (state >= 2) == lost;
    let matrix = transitions(model);
    let mut weights = stationary(model);
    for (position, &lost) in word.iter().enumerate() {
        if position > 0 {
            weights =
                std::array::from_fn(|to| (0..4).map(|from| weights[from] * matrix[from][to]).sum());
        }
        for (state, weight) in weights.iter_mut().enumerate() {
            if !seen(state, lost) {
                *weight = 0.0;
            }
        }
    }
    weights.iter().sum()
}

const MODEL: FourState = FourState {
    p13: 0.02,
    p31: 0.15,
    p32: 0.3,
    p23: 0.4,
    p14: 0.01,
};

#[test]
fn the_stationary_probabilities_of_the_test_are_a_fixed_point() {
    let fractions = stationary(&MODEL);
    for to in 0..4 {
        let next: f64 = (0..4)
            .map(|from| fractions[from] * transitions(&MODEL)[from][to])
            .sum();
        assert!((next - fractions[to]).abs() < 1e-12);
    }
}

#[test]
fn four_state_has_every_word_of_four_decisions() {
    let losses = losses(Loss::four_state(MODEL, Unit::Packet, random()), DRAWS);
    for bits in 0..16u8 {
        let word: [bool; 4] = std::array::from_fn(|place| bits >> place & 1 == 1);
        let count = losses.windows(4).filter(|window| **window == word).count() as u64;
        // The slowest mode of this chain has an eigenvalue near 0.84: inflation below (1 + 0.84) / (1 - 0.84) = 11.5.
        assert_fraction(
            count,
            u64::from(DRAWS) - 3,
            word_probability(&MODEL, &word),
            11.5,
        );
    }
}

#[test]
fn four_state_bursts_are_single_or_geometric() {
    let losses = losses(Loss::four_state(MODEL, Unit::Packet, random()), DRAWS);
    let [gap, received, _, _] = stationary(&MODEL);
    let alone = gap * MODEL.p14;
    let in_bursts = gap * MODEL.p13 + received * MODEL.p23;
    let probability_alone = alone / (alone + in_bursts);
    let of_burst = geometric(MODEL.p31 + MODEL.p32);
    check_lengths(&stretches(&losses, true), 8, |length| {
        (1.0 - probability_alone) * of_burst(length)
            + if length == 1 { probability_alone } else { 0.0 }
    });
}

#[test]
fn four_state_with_netems_defaults_is_a_gilbert_chain() {
    // With p32 = 0, p23 = 1 and p14 = 0 only states 1 and 3 remain.
    let model = FourState {
        p13: 0.05,
        p31: 0.5,
        p32: 0.0,
        p23: 1.0,
        p14: 0.0,
    };
    let losses = losses(Loss::four_state(model, Unit::Packet, random()), DRAWS);
    let decay = 1.0 - model.p13 - model.p31;
    assert_fraction(
        count(&losses),
        u64::from(DRAWS),
        0.05 / 0.55,
        (1.0 + decay) / (1.0 - decay),
    );
    check_lengths(&stretches(&losses, true), 8, geometric(0.5));
}

#[test]
fn impossible_four_state_parameters_are_named() {
    let broken = [
        (
            FourState {
                p13: 0.6,
                p14: 0.6,
                ..MODEL
            },
            "p13 + p14",
        ),
        (
            FourState {
                p31: 0.6,
                p32: 0.6,
                ..MODEL
            },
            "p31 + p32",
        ),
        (
            FourState {
                p23: f64::NAN,
                ..MODEL
            },
            "from 0 to 1",
        ),
        (FourState { p23: -0.1, ..MODEL }, "from 0 to 1"),
    ];
    assert_eq!(MODEL.problem(), None);
    for (model, words) in broken {
        assert!(
            model
                .problem()
                .is_some_and(|problem| problem.contains(words)),
            "{model:?}"
        );
    }
}
