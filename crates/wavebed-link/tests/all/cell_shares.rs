//! A cell beside schedulers that were written from their publications alone: `tests/validation/schedulers.py`, whose figures
//! `cell_shares.json` has.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::cell_run::{Case, DeviceOutcome, run};

/// The figures; `python -m tests.validation.cell_cases` writes them.
const FIGURES: &str = include_str!("cell_shares.json");
/// Of each device's air and rate.
const MOST_DIFFERENCE: f64 = 0.05;

#[derive(Deserialize)]
struct Figures {
    patterns: BTreeMap<String, String>,
    cases: Vec<Expected>,
}

#[derive(Deserialize)]
struct Expected {
    name: String,
    case: Case,
    /// Part of all slots that each device gets.
    #[serde(default)]
    air: Vec<f64>,
    #[serde(default)]
    rate_bps: Vec<f64>,
    /// The longest delay of each packet of the last device.
    #[serde(default)]
    longest_ns: Vec<u64>,
}

fn figures(is_of: impl Fn(&Expected) -> bool) -> Vec<(Expected, Vec<DeviceOutcome>)> {
    let figures: Figures = serde_json::from_str(FIGURES).unwrap();
    let patterns = figures.patterns;
    let cases = figures.cases.into_iter().filter(is_of);
    let played = cases.map(|mut expected| {
        expected.case.patterns.clone_from(&patterns);
        let outcome = run(&expected.case, false).unwrap();
        (expected, outcome.devices)
    });
    played.collect()
}

#[test]
fn air_and_rates_of_full_buffers_are_those_of_the_published_algorithms() {
    let played = figures(|expected| !expected.air.is_empty());
    assert!(played.len() >= 16);
    for (expected, devices) in played {
        let counted_ns = (expected.case.duration_ns - expected.case.from_ns) as f64;
        let wanted = expected.air.iter().zip(&expected.rate_bps);
        // Shares below a twentieth of an equal one are compared beside that twentieth.
        let least = 0.05 / devices.len() as f64;
        let most_bps = expected.rate_bps.iter().copied().fold(0.0, f64::max);
        for (number, (device, (air, rate_bps))) in devices.iter().zip(wanted).enumerate() {
            let name = format!("{}, device {number}", expected.name);
            let found = device.air_ns / counted_ns;
            let difference = (found - air).abs() / air.max(least);
            assert!(
                difference <= MOST_DIFFERENCE,
                "{name}: air {found}, not {air}"
            );
            let found = device.bytes as f64 * 8e9 / counted_ns;
            let difference = (found - rate_bps).abs() / rate_bps.max(least * most_bps);
            assert!(
                difference <= MOST_DIFFERENCE,
                "{name}: rate {found}, not {rate_bps}"
            );
            assert_eq!(device.unaccounted(), 0, "{name}");
        }
    }
}

#[test]
fn a_thin_flow_waits_no_longer_than_its_bound() {
    let played = figures(|expected| !expected.longest_ns.is_empty());
    assert_eq!(played.len(), 4);
    for (expected, devices) in played {
        let delays = &devices.last().unwrap().delays_ns;
        assert_eq!(delays.len(), expected.longest_ns.len());
        for (number, (delay, longest)) in delays.iter().zip(&expected.longest_ns).enumerate() {
            assert!(
                delay.is_some_and(|delay| delay <= *longest),
                "{}: packet {number} took {delay:?}, not up to {longest}",
                expected.name
            );
        }
    }
}
