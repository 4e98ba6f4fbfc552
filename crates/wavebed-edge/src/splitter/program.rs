//! `wavebed-edge splitter`.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use wavebed_os::process::Signals;

use super::keeper::Keeper;
use super::rules::Rules;
use super::server::{Ended, Splitter};
use super::settings::Settings;
use super::{privileges, settings_file, socket};
use crate::STOP_SIGNALS;
use crate::problem::Problem;
use crate::system_calls;

/// Split TCP connections in two, so that the radio has a loop of its own.
#[derive(Args, Debug)]
pub struct Arguments {
    #[command(subcommand)]
    job: Option<Job>,
    /// Configuration (TOML); without it every key has its default
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
    /// A key of the configuration, in place of the file's
    #[arg(long = "set", value_name = "KEY=VALUE", global = true)]
    sets: Vec<String>,
    /// Direct mode: all connections go to this address, from the splitter's own; needs no root
    #[arg(long, value_name = "ADDR:PORT")]
    to: Option<String>,
}

#[derive(Subcommand, Debug)]
enum Job {
    /// Print the packet rules, or install or remove them
    Rules {
        /// Install them
        #[arg(long, conflicts_with = "remove")]
        apply: bool,
        /// Remove them, also those that a killed splitter left
        #[arg(long)]
        remove: bool,
        /// Remove them if the splitter itself installs them (`rules = true`): for a service to run at its end
        #[arg(long, conflicts_with_all = ["apply", "remove"])]
        remove_own: bool,
    },
}

/// Runs the command.
///
/// # Errors
/// Invalid input, a machine that cannot do it, or a failure.
pub fn run(arguments: Arguments) -> Result<(), Problem> {
    let mut sets = arguments.sets;
    if let Some(to) = arguments.to {
        sets.push(format!("to=\"{to}\""));
    }
    let settings =
        settings_file::read(arguments.config.as_deref(), &sets).map_err(Problem::invalid)?;
    match arguments.job {
        Some(Job::Rules {
            remove_own: true, ..
        }) if !settings.rules => Ok(()),
        Some(Job::Rules {
            apply,
            remove,
            remove_own,
        }) => manage_rules(&settings, apply, remove || remove_own),
        None => serve(&settings),
    }
}

fn manage_rules(settings: &Settings, apply: bool, remove: bool) -> Result<(), Problem> {
    if !settings.is_transparent() {
        return Err(Problem::invalid(
            "to: direct mode has no packet rules: remove the key",
        ));
    }
    let rules = Rules::new(settings);
    if apply {
        rules.apply().map_err(Problem::unable)
    } else if remove {
        rules.remove().map_err(Problem::unable)
    } else {
        say(&rules.text());
        Ok(())
    }
}

fn serve(settings: &Settings) -> Result<(), Problem> {
    let signals =
        Signals::receive(&STOP_SIGNALS, &[]).map_err(|error| Problem::failed(error.to_string()))?;
    if settings.is_transparent() && !privileges::may_intercept() {
        return Err(Problem::unable(
            "interception needs CAP_NET_ADMIN: start it as root (it drops the rest), or name a server with --to",
        ));
    }
    let room = privileges::room_for_connections(settings);
    let wanted = usize::try_from(settings.max_connections).unwrap_or(usize::MAX);
    if room < wanted {
        note(&format!(
            "max-connections: the limit of open files has room for {room} and not {wanted}: raise it (LimitNOFILE= of systemd)"
        ));
    }
    socket::try_options(settings).map_err(Problem::unable)?;
    let splitter = Splitter::new(settings.clone(), room).map_err(Problem::failed)?;
    let keeper = settings.rules.then(|| Keeper::start(settings)).transpose();
    let keeper = keeper.map_err(Problem::unable)?;
    if keeper.is_some() {
        Rules::new(settings).apply().map_err(Problem::unable)?;
    }
    let ended = privileges::give_up(settings)
        .and_then(|()| refuse_other_calls())
        .map_err(Problem::unable)
        .and_then(|()| {
            announce(&splitter);
            splitter
                .run(&signals)
                .map_err(|error| Problem::failed(format!("cannot wait for events: {error}")))
        });
    if let Some(keeper) = keeper {
        keeper.remove_rules().map_err(Problem::failed)?;
    }
    summarise(&ended?);
    Ok(())
}

/// A kernel without such filters refuses nothing.
fn refuse_other_calls() -> Result<(), String> {
    let allowed = system_calls::allow_splitter();
    allowed
        .map(drop)
        .map_err(|error| format!("cannot filter system calls: {error}"))
}

/// Prints the addresses, for programs that wait until the splitter listens.
fn announce(splitter: &Splitter) {
    let mut text = String::new();
    for address in splitter.addresses() {
        let _ = writeln!(text, "listening {address}");
    }
    if let Some(address) = splitter.metrics_address() {
        let _ = writeln!(text, "metrics http://{address}/metrics");
    }
    say(&text);
}

fn summarise(ended: &Ended) {
    let totals = ended.totals;
    note(&format!(
        "{} connections: {} complete, {} refused, {} without a server, {} reset by hosts, {} idle, {} cut; {} bytes up, {} down",
        totals.accepted,
        totals.completed,
        totals.refused,
        totals.failed + totals.evicted,
        totals.client_resets + totals.server_resets,
        totals.idle_resets,
        ended.cut,
        totals.up_bytes,
        totals.down_bytes,
    ));
}

/// A closed standard output has no reader.
fn say(text: &str) {
    let mut output = std::io::stdout().lock();
    let _ = output.write_all(text.as_bytes());
    let _ = output.flush();
}

fn note(line: &str) {
    let _ = writeln!(std::io::stderr(), "wavebed-edge splitter: {line}");
}
