//! Drawn delays against the configured distributions.

use crate::loss_support::{Bench, run};
use wavebed_link::RandomStream;
use wavebed_link::delay::{Delay, Distribution, Shape};

/// Every tolerance follows from this number of draws.
const DRAWS: u32 = 250_000;
const MEAN_NS: u64 = 1_000_000_000;
const SPREAD_NS: u64 = 10_000_000;

/// Delays in spreads from the mean, in the order of arrival.
fn draw(shape: Shape, correlation: f64, seed: u64) -> Vec<f64> {
    let distribution = Distribution {
        shape,
        mean_ns: MEAN_NS,
        spread_ns: SPREAD_NS,
        correlation,
    };
    let mut bench = Bench::new(Delay::distribution(
        distribution,
        true,
        RandomStream::new(seed, 7),
    ));
    for packet in 0..DRAWS {
        bench.accept(run(0, packet, 0, 1));
    }
    bench.poll(u64::MAX);
    let mut delays = vec![0.0; DRAWS as usize];
    for run in &bench.exits.forward {
        delays[run.packet as usize] = (run.at_ns as f64 - MEAN_NS as f64) / SPREAD_NS as f64;
    }
    delays
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn deviation(values: &[f64]) -> f64 {
    let centre = mean(values);
    (values
        .iter()
        .map(|value| (value - centre).powi(2))
        .sum::<f64>()
        / values.len() as f64)
        .sqrt()
}

/// The correlation of neighbours.
fn neighbours(values: &[f64]) -> f64 {
    let (centre, spread) = (mean(values), deviation(values));
    let products = values
        .windows(2)
        .map(|pair| (pair[0] - centre) * (pair[1] - centre));
    products.sum::<f64>() / (values.len() - 1) as f64 / (spread * spread)
}

/// The largest distance between the empirical distribution of `values` and the distribution function `below`.
fn kolmogorov_smirnov(values: &[f64], below: impl Fn(f64) -> f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len() as f64;
    (0..).zip(&sorted).fold(0.0, |worst: f64, (rank, &value)| {
        let probability = below(value);
        worst
            .max((probability - f64::from(rank) / count).abs())
            .max((f64::from(rank + 1) / count - probability).abs())
    })
}

/// The error function by its Taylor series; independent of the engine's.
fn erf(x: f64) -> f64 {
    let mut term = x;
    let mut sum = x;
    for n in 1..80 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
        if term.abs() < 1e-18 {
            break;
        }
    }
    sum * 2.0 / std::f64::consts::PI.sqrt()
}

fn normal_below(x: f64) -> f64 {
    if x.abs() > 5.5 {
        f64::from(u8::from(x > 0.0))
    } else {
        0.5 * (1.0 + erf(x / std::f64::consts::SQRT_2))
    }
}

fn pareto_below(x: f64) -> f64 {
    (1.0 - (0.75 * x + 1.5).powi(-3)).max(0.0)
}

/// The probability of the quarter-and-three-quarters mix below `x`: both parts grow with the normal one, so that it is
/// the probability below the normal value that makes `x`, found by bisection.
fn mixed_below(x: f64) -> f64 {
    let (mut low, mut high) = (-5.4, 5.4);
    for _ in 0..45 {
        let middle = f64::midpoint(low, high);
        let pareto = (normal_below(-middle).powf(-1.0 / 3.0) - 1.5) * 4.0 / 3.0;
        if 0.25 * middle + 0.75 * pareto < x {
            low = middle;
        } else {
            high = middle;
        }
    }
    normal_below(low)
}

/// The distance that independent draws exceed once in 10^5 times (Kolmogorov's limit: 2 exp(-2 l^2)).
fn allowed(draws: usize) -> f64 {
    2.47 / (draws as f64).sqrt()
}

#[test]
fn uniform_delays_are_uniform() {
    let delays = draw(Shape::Uniform, 0.0, 1);
    let root = f64::from(DRAWS).sqrt();
    assert!(delays.iter().all(|delay| delay.abs() <= 1.0));
    assert!(mean(&delays).abs() < 5.0 * (1.0f64 / 3.0).sqrt() / root);
    assert!((deviation(&delays) - (1.0f64 / 3.0).sqrt()).abs() < 5.0 / root);
    assert!(kolmogorov_smirnov(&delays, |x| f64::midpoint(x, 1.0)) < allowed(delays.len()));
}

#[test]
fn normal_delays_are_normal() {
    let delays = draw(Shape::Normal, 0.0, 2);
    let root = f64::from(DRAWS).sqrt();
    assert!(mean(&delays).abs() < 5.0 / root);
    assert!((deviation(&delays) - 1.0).abs() < 5.0 / (2.0f64.sqrt() * root));
    assert!(kolmogorov_smirnov(&delays, normal_below) < allowed(delays.len()));
}

#[test]
fn pareto_delays_are_pareto() {
    let delays = draw(Shape::Pareto, 0.0, 3);
    // The standard deviation is 4/3 sqrt(3/4) spreads.
    assert!(mean(&delays).abs() < 5.0 * 1.1547 / f64::from(DRAWS).sqrt());
    assert!(kolmogorov_smirnov(&delays, pareto_below) < allowed(delays.len()));
}

#[test]
fn pareto_normal_delays_are_the_mix_of_equal_ranks() {
    let delays = draw(Shape::ParetoNormal, 0.0, 4);
    assert!(mean(&delays).abs() < 5.0 * 1.15 / f64::from(DRAWS).sqrt());
    let some = &delays[..20_000];
    assert!(kolmogorov_smirnov(some, mixed_below) < allowed(some.len()));
}

#[test]
fn correlation_leaves_the_distribution_as_it_is() {
    type Law = (Shape, fn(f64) -> f64);
    let laws: [Law; 3] = [
        (Shape::Uniform, |x| f64::midpoint(x, 1.0)),
        (Shape::Normal, normal_below),
        (Shape::Pareto, pareto_below),
    ];
    for (shape, law) in laws {
        let delays = draw(shape, 0.9, 5);
        // Draws that are 100 apart are independent enough (0.9^100 is 3e-5).
        let apart: Vec<f64> = delays.into_iter().step_by(100).collect();
        assert!(
            kolmogorov_smirnov(&apart, law) < allowed(apart.len()),
            "{shape:?}"
        );
    }
}

#[test]
fn neighbours_have_the_asked_correlation() {
    for correlation in [0.0f64, 0.25, 0.9] {
        let delays = draw(Shape::Normal, correlation, 6);
        // Bartlett: the error of a lag-one estimate is sqrt((1 - c^2) / n).
        let error = ((1.0 - correlation * correlation) / f64::from(DRAWS)).sqrt();
        assert!(
            (neighbours(&delays) - correlation).abs() < 5.0 * error + 1e-5,
            "normal {correlation}"
        );
        // Of ranks, for every shape: 6 / pi asin(c / 2).
        let ranks: Vec<f64> = draw(Shape::Pareto, correlation, 6)
            .into_iter()
            .map(pareto_below)
            .collect();
        let expected = 6.0 / std::f64::consts::PI * (correlation / 2.0).asin();
        assert!(
            (neighbours(&ranks) - expected).abs() < 6.0 * error + 1e-5,
            "ranks {correlation}"
        );
    }
}

#[test]
fn full_correlation_draws_once() {
    let delays = draw(Shape::Normal, 1.0, 7);
    assert!(delays.iter().all(|&delay| (delay - delays[0]).abs() < 1e-6));
}

#[test]
fn delays_are_never_negative() {
    for shape in [
        Shape::Uniform,
        Shape::Normal,
        Shape::Pareto,
        Shape::ParetoNormal,
    ] {
        let distribution = Distribution {
            shape,
            mean_ns: 10,
            spread_ns: 1_000_000,
            correlation: 0.0,
        };
        let mut bench = Bench::new(Delay::distribution(
            distribution,
            true,
            RandomStream::new(1, 7),
        ));
        for packet in 0..10_000 {
            bench.accept(run(5_000_000, packet, 0, 1));
        }
        bench.poll(5_000_000);
        // About half of each distribution lies below zero: those leave at once.
        assert!(
            bench.exits.forward.len() > 3_000,
            "{shape:?}: {}",
            bench.exits.forward.len()
        );
        assert!(bench.exits.forward.iter().all(|run| run.at_ns == 5_000_000));
    }
}
