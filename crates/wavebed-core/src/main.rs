//! `wavebed-core`: the program behind `wavebed`, which runs laboratories.

mod addresses;
mod bridge;
mod bridge_file;
mod control;
mod device;
mod doctor;
mod engine;
mod front;
mod guest;
mod init;
mod lab_file;
mod limits;
mod names;
mod network;
mod path_engine;
mod peak;
mod port;
mod problem;
mod room;
mod sandbox;
mod shown;
mod timeline;

use clap::{Parser, Subcommand};

use crate::problem::Problem;

/// The program behind `wavebed`: runs and lists laboratories, and checks this machine.
#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    #[command(subcommand)]
    job: Job,
}

#[derive(Subcommand)]
enum Job {
    /// Set up a laboratory and run its command.
    Lab {
        /// The laboratory file; `-` for standard input.
        file: String,
        /// The descriptor of a socket over which the owner sends connections; the laboratory ends when its other end
        /// closes.
        #[arg(long)]
        control: Option<i32>,
    },
    /// Carry frames between two ports of this machine through links.
    Bridge {
        /// The bridge file; `-` for standard input.
        file: String,
    },
    /// Print the highest rate of a pattern as one JSON object.
    Peak {
        /// A file in the native format.
        file: String,
    },
    /// Check networks, one per line of standard input; the answers are one JSON object per line.
    Check {
        /// Read the files of patterns too.
        #[arg(long)]
        patterns: bool,
    },
    /// Print the JSON Schema of a network: its hosts, its hops, and their stages.
    Schema,
    /// Run a command in namespaces of its own; nothing is left afterwards.
    Sandbox {
        /// The program and its arguments.
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Be a port of the forwarding test's tester: one JSON object per line, as docs/development/port-protocol.md says.
    Port {
        /// The interface.
        interface: String,
        /// The processor to stay on.
        #[arg(long)]
        core: Option<usize>,
    },
    /// Be a device that forwards frames between two interfaces, until standard input ends.
    Device(device::Options),
    /// Become the kernel of a guest of virtual time.
    Guest(guest::Options),
    /// Be the first process of a guest of virtual time.
    GuestInit {
        /// The file that names the guest's command.
        file: String,
        /// What the kernel appends to its own command line.
        kernel: Vec<String>,
    },
    /// Check what this machine supports, and print the remedy for each failed check.
    Doctor {
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// List your running laboratories.
    List {
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
        /// As root, list the laboratories of other users too.
        #[arg(long)]
        all_users: bool,
    },
}

fn main() {
    let status = match Arguments::parse().job {
        Job::Lab { file, control } => front::run(&file, control),
        Job::Bridge { file } => bridge::run(&file),
        Job::Peak { file } => peak::run(&file),
        Job::Check { patterns } => shown::run(patterns),
        Job::Schema => shown::schema(),
        Job::Sandbox { command } => sandbox::run(&command),
        Job::Port { interface, core } => port::run(&interface, core),
        Job::Device(options) => device::run(&options),
        Job::Guest(options) => guest::start(&options),
        Job::GuestInit { file, .. } => guest::init(&file),
        Job::Doctor { json } => doctor::examine(json),
        Job::List { json, all_users } => list_running(json, all_users),
    };
    std::process::exit(status.unwrap_or_else(|problem: Problem| {
        problem::say(&problem);
        problem.status
    }));
}

fn list_running(json: bool, all_users: bool) -> Result<i32, Problem> {
    let running = names::running(all_users);
    let text = if json {
        format!("{}\n", serde_json::json!({"laboratories": running}))
    } else {
        let lines = running
            .iter()
            .map(|lab| format!("{}\t{}\n", lab.name, lab.uid));
        lines.collect::<Vec<_>>().concat()
    };
    problem::print(&text).map(|()| 0)
}
