//! Paths: a link with a queue, and what comes back.

use std::fs;
use std::path::Path as File;

use wavebed_link::bottleneck::{Bottleneck, BottleneckConfig, Outage};
use wavebed_link::delay::Delay;
use wavebed_link::loss::Loss;
use wavebed_link::queue::{DropTail, Limit};
use wavebed_link::rate::{Fluid, Profile};
use wavebed_link::sim::Trial;
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

    /// The path of a trial, as `wavebed resolve SCENARIO -o FILE` writes it: `file`, with its patterns beside it.
    pub fn of_trial(file: &File) -> Self {
        let text =
            fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let folder = file.parent().expect("a folder");
        let mut load = |name: &str| fs::read(folder.join(name)).map_err(|error| error.to_string());
        let trial = Trial::from_json(&text, &mut load).expect("a trial");
        let (link, back) = trial.path.links(trial.seed).expect("a path");
        Self {
            link,
            back,
            delay_ns: 0,
        }
    }
}
