//! The tunnel's rate laws on a radio path, in virtual time: four CUBIC flows and a ping beside them.
//!
//! Each argument is a trial, as `wavebed resolve bbr-5g-download --seed 2 -o spec.json` writes it (unpack its patterns:
//! `gunzip patterns/*.gz`); without one the trial of the tests is taken. Prints a table in Markdown.

#![expect(clippy::print_stdout, reason = "printing is all it is for")]

#[path = "../tests/all/tunnel/packets.rs"]
mod packets;
#[path = "../tests/all/tunnel/simulation/mod.rs"]
#[expect(dead_code, reason = "the tests use the rest")]
#[expect(unused_imports, reason = "the tests use the rest")]
mod simulation;

use std::path::PathBuf;

use simulation::Phone;
use wavebed_edge::tunnel::law::{AutorateLaw, DeliveryLaw, Law, RateLimits};

const LIMITS: RateLimits = RateLimits {
    floor_bps: 500_000,
    start_bps: 20_000_000,
    most_bps: 2_000_000_000,
};
const SECONDS: u64 = 6;
const TARGETS_MS: [u64; 5] = [0, 2, 5, 10, 20];

fn main() {
    let mut trials: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    if trials.is_empty() {
        let own = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/all/tunnel/phone/spec.json"
        );
        trials.push(own.into());
    }
    println!(
        "| path | law | link used | TCP | ping, mean | ping, p95 |\n|---|---|---|---|---|---|"
    );
    for trial in trials {
        let phone = Phone::new(&trial, SECONDS);
        let mbit = phone.capacity_bps() / 1_000_000;
        let show = |name: &str, law: Option<Box<dyn Law>>| {
            let seen = phone.with(law);
            #[expect(clippy::cast_precision_loss, reason = "small numbers")]
            let tenths = |value: u64| value as f64 / 10.0;
            #[expect(clippy::cast_precision_loss, reason = "small numbers")]
            let ms = |us: i64| us as f64 / 1000.0;
            println!(
                "| {}, {mbit} Mbit/s | {name} | {:.1} % | {:.1} % | {:+.1} ms | {:+.1} ms |",
                trial.display(),
                tenths(seen.used),
                tenths(seen.tcp),
                ms(seen.ping_us),
                ms(seen.ping_p95_us)
            );
        };
        show("no tunnel", None);
        show("autorate", Some(Box::new(AutorateLaw::new(LIMITS))));
        for target_ms in TARGETS_MS {
            let law = DeliveryLaw::new(LIMITS).with_target_queue(target_ms * 1_000_000);
            show(&format!("delivery, {target_ms} ms"), Some(Box::new(law)));
        }
    }
}
