//! `wavebed-edge tunnel`.

use std::io::Write as _;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use wavebed_os::confinement;
use wavebed_os::confinement::Set;
use wavebed_os::namespace::effective_user;
use wavebed_os::process::Signals;

use super::device::Device;
use super::engine::{EndState, Engine};
use super::key::PrivateKey;
use super::outgoing::Outgoing;
use super::settings::{Kind, LawName, Settings};
use super::transport;
use super::transport::OVERHEAD_BYTES;
use crate::problem::Problem;
use crate::tunnel::law::{AutorateLaw, DeliveryLaw, Law};
use crate::tunnel::queue::FlowQueuesSettings;
use crate::tunnel::{Sender, SenderSettings};
use crate::{STOP_SIGNALS, system_calls};

/// Carry packets to the other end of a radio link at the link's own rate, with fair queues before it.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Arguments {
    #[command(subcommand)]
    job: Option<Job>,
    /// Configuration of this end (TOML)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print the state as a line of JSON each so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u16).range(1..))]
    state: Option<u16>,
}

#[derive(Subcommand, Debug)]
enum Job {
    /// Make a private key in FILE, unless there is one, and print its public key
    Key {
        /// The file
        file: PathBuf,
    },
}

/// Runs the command.
///
/// # Errors
/// Invalid input, a machine that cannot do it, or a failure.
pub fn run(arguments: Arguments) -> Result<(), Problem> {
    if let Some(Job::Key { file }) = arguments.job {
        let key = if file.exists() {
            PrivateKey::read(&file)
        } else {
            PrivateKey::create(&file)
        };
        let line = key.map_err(Problem::invalid)?.public().to_string();
        return say(&line).map_err(Problem::failed);
    }
    let file = arguments
        .config
        .ok_or_else(|| Problem::invalid("write `--config FILE`, or `key FILE` to make a key"))?;
    let settings = Settings::read(&file).map_err(Problem::invalid)?;
    serve(&settings, arguments.state)
}

fn say(line: &str) -> Result<(), String> {
    writeln!(std::io::stdout(), "{line}").map_err(|error| format!("standard output: {error}"))
}

fn law(settings: &Settings) -> Box<dyn Law> {
    match settings.law {
        LawName::Delivery => {
            let law = DeliveryLaw::new(settings.limits());
            Box::new(law.with_target_queue(settings.target_queue_ns()))
        }
        LawName::Autorate => Box::new(AutorateLaw::new(settings.limits())),
    }
}

fn serve(settings: &Settings, state: Option<u16>) -> Result<(), Problem> {
    let key = PrivateKey::read(&settings.key)
        .map_err(|error| Problem::invalid(format!("key: {error}")))?;
    let bound = transport::bind(settings, &key).map_err(Problem::invalid)?;
    let device = Device::create(settings).map_err(|error| Problem::unable(error.to_string()))?;
    let stop = |error: &dyn std::fmt::Display| Problem::failed(error.to_string());
    let signals = Signals::receive(&STOP_SIGNALS, &[]).map_err(|error| stop(&error))?;
    // All that needs rights is open.
    let user = (effective_user().0 == 0).then_some(settings.user_id);
    match user {
        Some(_) => confinement::become_user(user, Set::empty()),
        None => confinement::renounce(Set::empty()),
    }
    .map_err(|error| stop(&format!("cannot drop privileges: {error}")))?;
    // A kernel without Landlock refuses nothing.
    confinement::refuse_all().map_err(|error| stop(&format!("landlock: {error}")))?;
    let sender = Sender::new(
        SenderSettings {
            queues: FlowQueuesSettings {
                host: settings.host_address(),
                ..FlowQueuesSettings::default()
            },
            overhead_bytes: OVERHEAD_BYTES,
            seed: seed().map_err(|error| stop(&error))?,
        },
        law(settings),
    );
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .map_err(|error| stop(&error))?;
    runtime
        .block_on(async {
            let connections = bound.start()?;
            let connects = settings.kind == Kind::Connect;
            let every_ns = state.map(|seconds| u64::from(seconds) * 1_000_000_000);
            let outgoing = Outgoing::new(sender, settings.mtu);
            let mut engine =
                Engine::new(device, signals, connections, outgoing, connects, every_ns)?;
            // A kernel without such filters refuses nothing.
            system_calls::allow_tunnel()?;
            engine.run(show).await
        })
        .map_err(|error: std::io::Error| stop(&error))
}

/// A number that flows outside cannot know, for the hash of flows.
fn seed() -> Result<u64, String> {
    use ring::rand::SecureRandom as _;
    let mut bytes = [0; 8];
    ring::rand::SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| "the system gives no random numbers".to_owned())?;
    Ok(u64::from_ne_bytes(bytes))
}

fn show(state: &EndState) {
    // A reader that is gone wants no more lines.
    if let Ok(line) = serde_json::to_string(state) {
        let _ = say(&line);
    }
}
