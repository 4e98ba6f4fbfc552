//! `wavebed-edge`: remedies for radio links at the edge of a network.

mod problem;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use wavebed_edge::tunnel::end as tunnel;

use crate::problem::Problem;

/// Remedies for radio links, on a router or in a laboratory.
#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    #[command(subcommand)]
    job: Job,
}

#[derive(Subcommand)]
enum Job {
    Tunnel(tunnel::Arguments),
}

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
    match job {
        Job::Tunnel(arguments) => tunnel::run(arguments).map_err(|failure| Problem {
            status: failure.status,
            line: format!("tunnel: {}", failure.line),
        }),
    }
}
