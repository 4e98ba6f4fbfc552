//! `wavebed-core device KIND IN OUT`: an emulated device of the forwarding test, as docs/development/port-protocol.md says.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{io, process, thread};

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use wavebed_forward::frame::mac_from_text;
use wavebed_forward::relay::Relay;
use wavebed_forward::xdp_device::XdpDevice;
use wavebed_forward::{relay, xdp_device};
use wavebed_os::netlink::interface_index;

use crate::problem::Problem;

/// The relay sees within this time that it is to stop; if not, the process ends without it.
const GRACE: Duration = Duration::from_secs(2);

/// What forwards.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Kind {
    /// A BPF program in the driver.
    Xdp,
    /// A program in user space.
    Relay,
}

/// The device to be.
#[derive(Args, Debug)]
pub struct Options {
    /// What forwards.
    kind: Kind,
    /// One interface.
    #[arg(value_name = "IN")]
    inside: String,
    /// The other.
    #[arg(value_name = "OUT")]
    outside: String,
    /// Destination MAC of frames that leave through IN.
    #[arg(long, value_parser = mac)]
    in_next_mac: Mac,
    /// Destination MAC of frames that leave through OUT.
    #[arg(long, value_parser = mac)]
    out_next_mac: Mac,
    /// How long the relay keeps every frame, microseconds: up to a second.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    delay_us: u64,
}

/// A MAC address.
#[derive(Clone, Copy, Debug)]
struct Mac([u8; 6]);

fn mac(text: &str) -> Result<Mac, String> {
    let right = || "a MAC address has six bytes, as 02:00:00:00:00:01".to_owned();
    mac_from_text(text).map(Mac).ok_or_else(right)
}

/// Forwards until standard input ends.
///
/// # Errors
/// An interface is missing, went down or away, or the machine cannot.
pub fn run(options: &Options) -> Result<i32, Problem> {
    let ended = check(options).and_then(|()| match options.kind {
        Kind::Xdp => xdp(options),
        Kind::Relay => relay(options),
    });
    if let Err(problem) = &ended {
        say(&json!({ "error": problem.to_string() }));
    }
    ended.map(|()| 0)
}

fn check(options: &Options) -> Result<(), Problem> {
    for name in [&options.inside, &options.outside] {
        interface_index(name)
            .map_err(|_| Problem::wrong(format!("{name}: there is no such interface")))?;
    }
    if options.inside == options.outside {
        return Err(Problem::wrong("OUT: must be another interface than IN"));
    }
    Ok(())
}

fn relay(options: &Options) -> Result<(), Problem> {
    let side = |interface, next: Mac| relay::Side {
        interface,
        next_mac: next.0,
    };
    let sides = [
        side(options.inside.as_str(), options.in_next_mac),
        side(options.outside.as_str(), options.out_next_mac),
    ];
    let mut relay = Relay::open(sides, Duration::from_micros(options.delay_us))?;
    let stop = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&stop);
    thread::spawn(move || {
        wait_for_the_end();
        seen.store(true, Ordering::Relaxed);
        thread::sleep(GRACE);
        process::exit(0);
    });
    say(&json!({"ok": {}}));
    relay
        .run(&stop)
        .map(drop)
        .map_err(|error| Problem::failed(error.to_string()))
}

fn xdp(options: &Options) -> Result<(), Problem> {
    if options.delay_us > 0 {
        return Err(Problem::wrong("--delay-us: only a relay keeps frames"));
    }
    let side = |interface, next: Mac| xdp_device::Side {
        interface,
        next_mac: next.0,
    };
    let _device = XdpDevice::attach(
        side(options.inside.as_str(), options.in_next_mac),
        side(options.outside.as_str(), options.out_next_mac),
    )?;
    say(&json!({"ok": {}}));
    // The programs are detached with their descriptors.
    wait_for_the_end();
    Ok(())
}

/// Says it on standard output. Nobody may listen.
fn say(line: &Value) {
    let mut output = io::stdout().lock();
    let _ = writeln!(output, "{line}").and_then(|()| output.flush());
}

fn wait_for_the_end() {
    let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
}
