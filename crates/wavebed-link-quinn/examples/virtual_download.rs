//! A download by QUIC over a path in virtual time, as JSON.
//!
//! Usage: `virtual_download SPEC.json BYTES [START_S [LIMIT_S]]`. Path and seed come from a trial that
//! `wavebed resolve SCENARIO -o SPEC.json` wrote, with its patterns unpacked (`gunzip patterns/*.gz`). The connection
//! begins at `START_S` on the path's clock (default: 0); after `LIMIT_S` (default: 600) it is given up. Times are seconds
//! after `START_S`.

#![allow(
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "printing numbers is all it is for"
)]

use std::error::Error;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use wavebed_link::sim::Trial;
use wavebed_link_quinn::{Download, Simulation, tls};

/// Real quinn runs on tokio.
const TOKIO_TIMERS: Duration = Duration::from_millis(1);

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, bytes, times @ ..] = arguments.as_slice() else {
        return Err("use virtual_download SPEC.json BYTES [START_S [LIMIT_S]]".into());
    };
    let seconds = |at: usize, default: f64| times.get(at).map_or(Ok(default), |text| text.parse());
    let start = Duration::from_secs_f64(seconds(0, 0.0)?);
    let limit = start + Duration::from_secs_f64(seconds(1, 600.0)?);
    let folder = Path::new(file).parent().ok_or("SPEC.json is a folder")?;
    let mut load = |name: &str| fs::read(folder.join(name)).map_err(|error| error.to_string());
    let trial = Trial::from_json(&fs::read_to_string(file)?, &mut load)?;

    let (began, before_ns) = (Instant::now(), processor_ns());
    let mut simulation = Simulation::new(
        &trial.path,
        trial.seed,
        tls::server_config(),
        Download::server,
    )?
    .with_timer_resolution(TOKIO_TIMERS);
    simulation.run_until(start, |_| false);
    let id = simulation.connect(tls::client_config(), Download::client(bytes.parse()?))?;
    simulation.run_until(limit, |simulation| simulation.client(id).is_done());
    let wall_s = began.elapsed().as_secs_f64();
    let cpu_s = (processor_ns() - before_ns) as f64 / 1e9;

    let download = simulation.client(id);
    if let Some(failure) = download.failure() {
        return Err(failure.into());
    }
    let after_start = |at: Duration| at.saturating_sub(start).as_secs_f64();
    let shown =
        |at: Option<Duration>| at.map_or("null".to_owned(), |at| after_start(at).to_string());
    let sender = simulation
        .servers()
        .next()
        .ok_or("no connection")?
        .1
        .stats();
    let (down, up) = (
        simulation.path().down.counts(),
        simulation.path().up.counts(),
    );
    println!(
        "{{\"received_bytes\": {}, \"connected_s\": {}, \"done_s\": {}, \"end_s\": {}, \"sent_packets\": {}, \"lost_packets\": {}, \"congestion_events\": {}, \
         \"down_packets\": {}, \"up_packets\": {}, \"digest\": \"{:016x}\", \"wall_s\": {wall_s:.3}, \
         \"cpu_s\": {cpu_s:.3}}}",
        download.received_bytes(),
        shown(download.connected_at()),
        shown(download.done_at()),
        after_start(simulation.now()),
        sender.path.sent_packets,
        sender.path.lost_packets,
        sender.path.congestion_events,
        down.offered.segments,
        up.offered.segments,
        simulation.digest(),
    );
    Ok(())
}

/// Processor time of this thread so far, nanoseconds; 0 where the system does not say.
fn processor_ns() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = text.split_whitespace().next().unwrap_or_default();
    first.parse().unwrap_or(0)
}
