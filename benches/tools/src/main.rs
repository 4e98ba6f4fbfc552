//! Traffic programs for the benchmarks: UDP with and without segmentation offload, a counting receiver, an
//! echo and a probe with time stamps of its own, and a processor hog.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "printing is all it is for"
)]

mod count;
mod hog;
mod probe;
mod relay;
mod send;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    #[command(subcommand)]
    program: Program,
}

#[derive(Subcommand)]
enum Program {
    /// Sends UDP datagrams, one at a time or many by segmentation offload.
    Send(send::Arguments),
    /// Receives UDP datagrams with GRO and counts them.
    Count(count::Arguments),
    /// Sends back every datagram.
    Echo(probe::EchoArguments),
    /// Measures round-trip times to an echo.
    Probe(probe::ProbeArguments),
    /// Runs a command across two TUN devices with a fixed delay: the best case of a relay.
    Relay(relay::Arguments),
    /// Keeps one processor busy.
    Hog(hog::Arguments),
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().program {
        Program::Send(arguments) => send::run(&arguments),
        Program::Count(arguments) => count::run(&arguments),
        Program::Echo(arguments) => probe::echo(&arguments),
        Program::Probe(arguments) => probe::probe(&arguments),
        Program::Relay(arguments) => relay::run(&arguments),
        Program::Hog(arguments) => {
            hog::run(&arguments);
            Ok(())
        }
    }
}
