//! Paths: a link with a queue, and what comes back.

use std::fs;
use std::path::Path as File;
use std::sync::Arc;

use serde::Deserialize;
use wavebed_link::bottleneck::{Bottleneck, BottleneckConfig, Outage};
use wavebed_link::config::{DEFAULT_MTU_BYTES, Shared, StageConfig, build_shared};
use wavebed_link::delay::Delay;
use wavebed_link::loss::Loss;
use wavebed_link::pattern::Pattern;
use wavebed_link::queue::{DropTail, Limit};
use wavebed_link::rate::{Fluid, Profile};
use wavebed_link::{Link, RandomStream, Stage, Unit};

/// Bytes that the link's own queue holds: bufferbloat.
const LINK_QUEUE_BYTES: u64 = 8 << 20;

/// A link of constant rate and delay.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub rate_bps: u64,
    /// Without any queue.
    pub rtt_ns: u64,
    pub loss: f64,
    /// Whether packets are lost while it is blocked; otherwise they wait.
    pub drops: bool,
}

/// Both directions.
pub struct Path {
    pub link: Link,
    pub back: Link,
    /// One way over `link`, without any queue.
    pub delay_ns: u64,
}

impl Path {
    pub fn constant(setup: Setup) -> Self {
        let bottleneck = Bottleneck::new(
            BottleneckConfig {
                outage: if setup.drops {
                    Outage::Drop
                } else {
                    Outage::Hold
                },
                ..BottleneckConfig::default()
            },
            DropTail::new(Limit::Bytes(LINK_QUEUE_BYTES), Unit::Packet),
            Box::new(Fluid::new(Profile::constant(setup.rate_bps))),
        );
        let delay_ns = setup.rtt_ns / 2;
        let stages: Vec<Box<dyn Stage>> = vec![
            Box::new(bottleneck),
            Box::new(Loss::independent(
                setup.loss,
                Unit::Packet,
                RandomStream::new(1, 1),
            )),
            Box::new(Delay::constant(delay_ns, false)),
        ];
        Self {
            link: Link::new(stages, false),
            back: Link::new(vec![Box::new(Delay::constant(delay_ns, false))], false),
            delay_ns,
        }
    }

    /// The path of a trial, as `wavebed resolve SCENARIO -o FILE` writes it: `file`, with its patterns beside it. Only
    /// the first leg counts.
    pub fn of_trial(file: &File) -> Self {
        let text =
            fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let trial: Trial = serde_json::from_str(&text).expect("a trial");
        let folder = file.parent().expect("a folder");
        let mut down: Vec<Box<dyn Stage>> = Vec::new();
        let mut up: Vec<Box<dyn Stage>> = Vec::new();
        for (place, hop) in (0u64..).zip(&trial.network.legs[0].hops) {
            let mut shared = Shared::default();
            let mut of = |stages: &[StageConfig], first: u64| -> Vec<Box<dyn Stage>> {
                let numbered = (first << 16..).zip(stages);
                let built = numbered.map(|(number, stage)| {
                    let random = RandomStream::new(trial.seed, number);
                    let mut load = |name: &File| read_pattern(&folder.join(name));
                    build_shared(stage, DEFAULT_MTU_BYTES, random, &mut load, &mut shared)
                        .expect("a stage")
                });
                built.collect()
            };
            down.extend(of(&hop.down, 2 * place));
            let mut other = of(&hop.up, 2 * place + 1);
            other.append(&mut up);
            up = other;
        }
        Self {
            link: Link::new(down, false),
            back: Link::new(up, false),
            delay_ns: 0,
        }
    }
}

fn read_pattern(file: &File) -> Result<Arc<Pattern>, String> {
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let pattern = Pattern::parse(&text).map_err(|error| error.message)?;
    Ok(Arc::new(pattern))
}

#[derive(Deserialize)]
struct Trial {
    seed: u64,
    network: Network,
}

#[derive(Deserialize)]
struct Network {
    legs: Vec<Leg>,
}

#[derive(Deserialize)]
struct Leg {
    hops: Vec<Hop>,
}

#[derive(Deserialize)]
struct Hop {
    down: Vec<StageConfig>,
    up: Vec<StageConfig>,
}
