//! `wavebed-edge`: remedies for radio links at the edge of a network.

mod problem;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::problem::Problem;

/// Remedies for radio links, on a router or in a laboratory.
#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    #[command(subcommand)]
    job: Job,
}

#[derive(Subcommand)]
enum Job {}

fn main() -> ExitCode {
    match run(Arguments::parse().job) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            // A closed standard error has no reader.
            let _ = writeln!(std::io::stderr(), "wavebed-edge: {problem}");
            ExitCode::from(problem.status)
        }
    }
}

fn run(job: Job) -> Result<(), Problem> {
    match job {}
}
