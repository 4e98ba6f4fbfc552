//! `wavebed-edge`: remedies for radio links at the edge of a network.

use std::io::Write as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use wavebed_edge::problem::Problem;
use wavebed_edge::tunnel::end as tunnel;
use wavebed_edge::{check, splitter, syn};

/// Remedies for radio links, on a router or in a laboratory.
#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    #[command(subcommand)]
    job: Job,
}

#[derive(Subcommand)]
enum Job {
    /// Say what this machine can do, and which remedies work on it.
    Check(check::Options),
    Splitter(splitter::Arguments),
    /// The packet rules of `splitter`, removed when it ends.
    #[command(hide = true)]
    SplitterKeeper(splitter::keeper::Options),
    /// Retry connection requests (SYN) early, so that an outage of the radio costs its own length.
    Syn(syn::Options),
    /// What `syn` raised, put back when `syn` ends.
    #[command(hide = true)]
    SynKeeper(syn::keeper::Options),
    Tunnel(tunnel::Arguments),
}

fn main() -> ExitCode {
    match run(Arguments::parse().job) {
        Ok(code) => code,
        Err(problem) => {
            // A closed standard error has no reader.
            let _ = writeln!(std::io::stderr(), "wavebed-edge: {problem}");
            ExitCode::from(problem.status)
        }
    }
}

fn run(job: Job) -> Result<ExitCode, Problem> {
    match job {
        Job::Check(options) => check::run(&options),
        Job::Splitter(arguments) => succeeded(splitter::run(arguments), "splitter"),
        Job::SplitterKeeper(options) => splitter::keeper::run(&options),
        Job::Syn(options) => syn::run(&options),
        Job::SynKeeper(options) => syn::keeper::run(&options),
        Job::Tunnel(arguments) => succeeded(tunnel::run(arguments), "tunnel"),
    }
}

fn succeeded(answer: Result<(), Problem>, command: &str) -> Result<ExitCode, Problem> {
    match answer {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(Problem { status, line }) => Err(Problem {
            status,
            line: format!("{command}: {line}"),
        }),
    }
}
