//! Round-trip times by time stamps of our own: `ping` prints three digits, which is not enough.
//!
//! Both ends run under `SCHED_FIFO` where they may: it is the path that is measured, not how long a program of the
//! benchmark waits for a processor.

use std::net::UdpSocket;
use std::time::Duration;

use anyhow::Context;
use serde_json::json;
use wavebed_os::{clock, sched};

/// Where to listen.
#[derive(clap::Args)]
pub struct EchoArguments {
    /// Port.
    #[arg(long, default_value_t = 7)]
    port: u16,
}

/// Options of `probe`.
#[derive(clap::Args)]
pub struct ProbeArguments {
    /// HOST:PORT of the echo.
    to: String,
    /// How many probes.
    #[arg(long, default_value_t = 500)]
    count: u32,
    /// Time between probes, microseconds.
    #[arg(long, default_value_t = 10_000)]
    interval_us: u64,
    /// The round-trip time that was asked for, nanoseconds; with it the errors are printed.
    #[arg(long)]
    expected_ns: Option<u64>,
}

/// Sends back every datagram, until it is ended.
pub fn echo(arguments: &EchoArguments) -> anyhow::Result<()> {
    let _scheduler = sched::prepare_thread(sched::Options::default());
    let socket = UdpSocket::bind(("0.0.0.0", arguments.port))?;
    let mut buffer = [0u8; 2_048];
    loop {
        let (length, from) = socket.recv_from(&mut buffer)?;
        socket.send_to(&buffer[..length], from)?;
    }
}

/// Measures and prints the distribution.
pub fn probe(arguments: &ProbeArguments) -> anyhow::Result<()> {
    let socket = UdpSocket::bind(("0.0.0.0", 0))?;
    socket
        .connect(&arguments.to)
        .with_context(|| format!("cannot reach {}", arguments.to))?;
    let receiver = socket.try_clone()?;
    receiver.set_read_timeout(Some(Duration::from_secs(1)))?;
    let count = arguments.count;
    let reader = std::thread::spawn(move || {
        let _scheduler = sched::prepare_thread(sched::Options::default());
        let mut rtts_ns = Vec::with_capacity(count as usize);
        let mut buffer = [0u8; 64];
        while let Ok(length) = receiver.recv(&mut buffer) {
            let now_ns = clock::monotonic_ns();
            if let Ok(stamp) = buffer[..length].try_into() {
                rtts_ns.push(now_ns - u64::from_ne_bytes(stamp));
            }
            if rtts_ns.len() == count as usize {
                break;
            }
        }
        rtts_ns
    });
    let _scheduler = sched::prepare_thread(sched::Options::default());
    let start_ns = clock::monotonic_ns();
    for index in 0..count {
        clock::sleep_until(start_ns + u64::from(index) * arguments.interval_us * 1_000);
        // A probe that the device refuses counts as lost.
        let _ = socket.send(&clock::monotonic_ns().to_ne_bytes());
    }
    let mut rtts_ns = reader
        .join()
        .map_err(|_| anyhow::anyhow!("the reader failed"))?;
    let lost = count as usize - rtts_ns.len();
    rtts_ns.sort_unstable();
    let micros = |values: &[u64], fraction: f64| quantile_us(values, fraction);
    let mut report = json!({
        "probes": count, "lost": lost,
        "rtt_p50_us": micros(&rtts_ns, 0.5), "rtt_p99_us": micros(&rtts_ns, 0.99),
        "rtt_min_us": micros(&rtts_ns, 0.0), "rtt_max_us": micros(&rtts_ns, 1.0),
    });
    if let Some(expected_ns) = arguments.expected_ns {
        let mut errors_ns: Vec<u64> = rtts_ns
            .iter()
            .map(|rtt_ns| rtt_ns.abs_diff(expected_ns))
            .collect();
        errors_ns.sort_unstable();
        report["error_p50_us"] = json!(micros(&errors_ns, 0.5));
        report["error_p99_us"] = json!(micros(&errors_ns, 0.99));
    }
    println!("{report}");
    Ok(())
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rank in a short list"
)]
fn quantile_us(sorted_ns: &[u64], fraction: f64) -> Option<f64> {
    let last = sorted_ns.len().checked_sub(1)?;
    let rank = ((last as f64) * fraction).round() as usize;
    Some(sorted_ns[rank.min(last)] as f64 / 1_000.0)
}
