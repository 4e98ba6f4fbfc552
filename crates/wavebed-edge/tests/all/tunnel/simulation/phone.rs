//! The path of bbr-5g's phone: four CUBIC flows and ping, with and without the tunnel.

use std::path::{Path as File, PathBuf};

use wavebed_edge::tunnel::law::Law;

use super::{MS, OVERHEAD_BYTES, Path, S, Source, World, cbr, ping, tcp};

/// What is before is not measured: the start.
const FROM_NS: u64 = 2 * S;
/// More than any of these radios carries.
const FLOOD_BPS: u64 = 1_500_000_000;
/// Time between pings, as in the scenario.
const PING_NS: u64 = 20 * MS;

/// A trial of a scenario, and what its path carries.
pub struct Phone {
    trial: PathBuf,
    to_ns: u64,
    /// Bytes that the link delivers when its queue is never empty.
    capacity: u64,
    /// Delays of ping on the idle path, the least first.
    idle_ns: Vec<u64>,
}

/// What four CUBIC flows and a ping beside them found.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// Bytes delivered, with the tunnel's own bytes, in thousandths of what the link can deliver.
    pub used: u64,
    /// IP bytes of TCP, in the same.
    pub tcp: u64,
    /// Mean one-way delay of ping beyond that on the idle path, microseconds.
    pub ping_us: i64,
    /// The same of the 95th percentiles.
    pub ping_p95_us: i64,
}

impl Phone {
    /// The trial in `file`, for `seconds` from 2 s on.
    pub fn new(file: &File, seconds: u64) -> Self {
        let mut phone = Self {
            trial: file.to_owned(),
            to_ns: FROM_NS + seconds * S,
            capacity: 0,
            idle_ns: Vec::new(),
        };
        let flood = phone.run(None, vec![cbr(2, FLOOD_BPS)]);
        phone.capacity = flood[0].arrived_bytes(FROM_NS, phone.to_ns);
        let idle = phone.run(None, vec![ping(2).each(PING_NS)]);
        phone.idle_ns = idle[0].delays(FROM_NS, phone.to_ns);
        phone
    }

    /// What this path carries, bits per second.
    pub fn capacity_bps(&self) -> u64 {
        self.capacity * 8 / ((self.to_ns - FROM_NS) / S)
    }

    /// Four CUBIC flows and ping, which `law` shapes; without one there is no tunnel.
    pub fn with(&self, law: Option<Box<dyn Law>>) -> Figures {
        let overhead = if law.is_some() { OVERHEAD_BYTES } else { 0 };
        let flows = (1..5).map(|port| tcp(2, port));
        let sources = self.run(law, flows.chain([ping(2).each(PING_NS)]).collect());
        let bytes = |sources: &[Source], overhead: u64| -> u64 {
            let of = |source: &Source| {
                let bytes = source.arrived_bytes(FROM_NS, self.to_ns);
                bytes + bytes / u64::from(source.bytes) * overhead
            };
            sources.iter().map(of).sum::<u64>() * 1000 / self.capacity
        };
        let loaded_ns = sources[4].delays(FROM_NS, self.to_ns);
        let above = |of: fn(&[u64]) -> u64| {
            (of(&loaded_ns).cast_signed() - of(&self.idle_ns).cast_signed()) / 1000
        };
        Figures {
            used: bytes(&sources, overhead),
            tcp: bytes(&sources[..4], 0),
            ping_us: above(|delays| delays.iter().sum::<u64>() / delays.len() as u64),
            ping_p95_us: above(|delays| delays[delays.len() * 95 / 100]),
        }
    }

    fn run(&self, law: Option<Box<dyn Law>>, sources: Vec<Source>) -> Vec<Source> {
        let mut world = World::over(Path::of_trial(&self.trial), law, sources);
        world.run(self.to_ns);
        world.sources
    }
}
