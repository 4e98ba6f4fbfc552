//! Round trips after idle gaps, in virtual time.
//!
//! Reads one JSON object: `down` and `up`, the stages of a segment as in a laboratory file; `wire_ns`, from the server
//! to the segment, one way; `gaps_ns`, from each answer to the next probe. The server probes, the device answers at
//! once. Writes the round trips as a JSON array, nanoseconds.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "printing is all it is for"
)]

use std::error::Error;
use std::path::Path;

use serde::Deserialize;
use wavebed_link::config::{DEFAULT_MTU_BYTES, Shared, StageConfig, build_shared};
use wavebed_link::{Ecn, Link, RandomStream, Run, RunFlags};

const PROBE_BYTES: u16 = 64;

#[derive(Deserialize)]
struct Input {
    down: Vec<StageConfig>,
    up: Vec<StageConfig>,
    wire_ns: u64,
    gaps_ns: Vec<u64>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let input: Input = serde_json::from_reader(std::io::stdin())?;
    let mut shared = Shared::default();
    let mut down = link(&input.down, 1, &mut shared)?;
    let mut up = link(&input.up, 2, &mut shared)?;
    let mut now_ns = 0;
    let mut trips_ns = Vec::new();
    for (packet, gap_ns) in (0..).zip(input.gaps_ns) {
        let sent_ns = now_ns + gap_ns;
        let there_ns = pass(&mut down, sent_ns + input.wire_ns, packet)?;
        now_ns = pass(&mut up, there_ns, packet)? + input.wire_ns;
        trips_ns.push(now_ns - sent_ns);
    }
    println!("{}", serde_json::to_string(&trips_ns)?);
    Ok(())
}

fn link(stages: &[StageConfig], seed: u64, shared: &mut Shared) -> Result<Link, Box<dyn Error>> {
    let mut no_patterns = |file: &Path| Err(format!("{}: rates are constant here", file.display()));
    let mut built = Vec::new();
    for (number, stage) in (0..).zip(stages) {
        let random = RandomStream::new(seed, number);
        built.push(build_shared(
            stage,
            DEFAULT_MTU_BYTES,
            random,
            &mut no_patterns,
            shared,
        )?);
    }
    Ok(Link::new(built, false))
}

/// When a packet that enters at `at_ns` is at the far end.
fn pass(link: &mut Link, at_ns: u64, packet: u32) -> Result<u64, Box<dyn Error>> {
    let mut delivered = Vec::new();
    // Remainders of earlier packets, such as reports, come first.
    while let Some(due_ns) = link.next_event_ns().filter(|due_ns| *due_ns < at_ns) {
        link.poll(due_ns, &mut delivered);
    }
    link.accept(Run {
        at_ns,
        packet,
        first: 0,
        count: 1,
        segment_bytes: PROBE_BYTES,
        last_bytes: PROBE_BYTES,
        flow: 0,
        flip: 0,
        ecn: Ecn::NotEct,
        flags: RunFlags::default(),
    });
    link.poll(at_ns, &mut delivered);
    while delivered.is_empty() {
        let due_ns = link.next_event_ns().ok_or("the probe is lost")?;
        link.poll(due_ns, &mut delivered);
    }
    Ok(delivered[0].at_ns)
}
