//! One direction of a cell in virtual time: what each device got, as JSON.
//!
//! Usage: `cell [--drain] < CASE`; `cell_run::Case` has the keys. With `--drain` it runs until nothing is left. The
//! processor time is this thread's, from `/proc/thread-self/schedstat`.

#![allow(
    missing_docs,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "printing numbers is all it is for"
)]

mod cell_run;

use std::error::Error;
use std::fs;
use std::io;

use serde_json::{Value, json};

use cell_run::{Case, run};

fn main() -> Result<(), Box<dyn Error>> {
    let drain = std::env::args().any(|argument| argument == "--drain");
    let case: Case = serde_json::from_reader(io::stdin().lock())?;
    let before_ns = processor_ns()?;
    let outcome = run(&case, drain)?;
    let cpu_s = (processor_ns()? - before_ns) as f64 / 1e9;
    let devices: Vec<Value> = outcome
        .devices
        .iter()
        .map(cell_run::DeviceOutcome::json)
        .collect();
    let packets: u64 = outcome.devices.iter().map(|device| device.offered).sum();
    let shown = json!({
        "devices": devices, "packets": packets, "events": outcome.events, "cpu_s": cpu_s,
        "packets_per_s": packets as f64 / cpu_s,
    });
    println!("{shown}");
    Ok(())
}

/// Processor time of this thread so far, nanoseconds.
fn processor_ns() -> Result<u64, Box<dyn Error>> {
    let text = fs::read_to_string("/proc/thread-self/schedstat")?;
    let first = text.split_whitespace().next().ok_or("schedstat is empty")?;
    Ok(first.parse()?)
}
