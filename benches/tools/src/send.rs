//! Sends UDP datagrams at a set pace or as fast as it can.

use std::net::UdpSocket;

use anyhow::Context;
use nix::sys::socket::{setsockopt, sockopt};
use serde_json::json;
use wavebed_os::{clock, sched};

/// Options of `send`.
#[derive(clap::Args)]
pub struct Arguments {
    /// HOST:PORT to send to.
    to: String,
    /// UDP payload bytes of a datagram.
    #[arg(long, default_value_t = 18)]
    payload: u16,
    /// Datagrams in one system call, by UDP segmentation offload.
    #[arg(long, default_value_t = 1)]
    segments: u16,
    /// Datagrams per second; as fast as possible when left out.
    #[arg(long)]
    rate_pps: Option<u64>,
    /// Seconds.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
}

/// Sends and prints the result.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let socket = UdpSocket::bind(("0.0.0.0", 0))?;
    socket
        .connect(&arguments.to)
        .with_context(|| format!("cannot reach {}", arguments.to))?;
    if arguments.segments > 1 {
        setsockopt(
            &socket,
            sockopt::UdpGsoSegment,
            &i32::from(arguments.payload),
        )
        .context("no UDP segmentation offload")?;
    }
    let datagram = vec![0u8; usize::from(arguments.payload) * usize::from(arguments.segments)];
    // A paced sender that waits for a processor catches up in an unwanted burst.
    let _scheduler = arguments
        .rate_pps
        .map(|_| sched::prepare_thread(sched::Options::default()));
    let start_ns = clock::monotonic_ns();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "seconds of a test"
    )]
    let end_ns = start_ns + (arguments.seconds * 1e9) as u64;
    let (mut sent, mut refused) = (0u64, 0u64);
    loop {
        let now_ns = clock::monotonic_ns();
        if now_ns >= end_ns {
            break;
        }
        if let Some(rate_pps) = arguments.rate_pps {
            let due_ns =
                start_ns + u64::try_from(u128::from(sent) * 1_000_000_000 / u128::from(rate_pps))?;
            if due_ns > now_ns {
                clock::sleep_until(due_ns);
            }
        }
        match socket.send(&datagram) {
            Ok(_) => sent += u64::from(arguments.segments),
            Err(_) => refused += u64::from(arguments.segments),
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let seconds = (clock::monotonic_ns() - start_ns) as f64 / 1e9;
    println!(
        "{}",
        json!({"sent_datagrams": sent, "refused_datagrams": refused, "seconds": seconds})
    );
    Ok(())
}
