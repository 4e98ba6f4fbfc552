//! Links for simulators: packets in, departures and drops out, in virtual time.
//!
//! This module, with [`config`](crate::config), [`pattern`](crate::pattern) and the types that they name, is the
//! interface for other programs, and keeps to semantic versions. The other modules are the engine's own.
//!
//! - [`LinkSpec`] describes one direction: a rate or a radio, queue, delay, loss. It is made by calls, or read from the
//!   stages of a file that wavebed wrote.
//! - [`SimLink`] is one direction that runs. [`SimLink::send`] offers a packet with anything that belongs to it,
//!   [`SimLink::poll`] returns what left or was dropped, [`SimLink::next_event_ns`] says when to poll next.
//! - [`PathSpec`] and [`SimPath`] are both directions of one or more hops, such as a trial's that
//!   `wavebed resolve` wrote.
//!
//! The result depends on the seed and on the packets with their times alone, not on when or how often a link is polled.
//!
//! ```
//! use wavebed_link::config::QueueConfig;
//! use wavebed_link::queue::Limit;
//! use wavebed_link::sim::{Fate, LinkSpec, Packet, Rate, SimLink};
//!
//! let queue = QueueConfig::Droptail { limit: Limit::Packets(2) };
//! let spec = LinkSpec::new()
//!     .bottleneck(Rate::constant(12_000_000), queue)
//!     .delay_ns(10_000_000);
//! let mut link = SimLink::new(&spec, 1)?;
//! for name in ["in service", "first in the queue", "second in the queue", "too many"] {
//!     link.send(0, Packet::new(1500), name);
//! }
//! let mut left = Vec::new();
//! while let Some(now_ns) = link.next_event_ns() {
//!     while let Some(departure) = link.poll(now_ns) {
//!         left.push((departure.content, departure.at_ns, departure.fate == Fate::Delivered));
//!     }
//! }
//! assert_eq!(left, [
//!     ("too many", 0, false),
//!     ("in service", 11_000_000, true),
//!     ("first in the queue", 12_000_000, true),
//!     ("second in the queue", 13_000_000, true),
//! ]);
//! # Ok::<(), wavebed_link::sim::SpecError>(())
//! ```

mod link;

use std::path::Path as File;
use std::sync::Arc;

use serde::Deserialize;

pub use link::{Departure, Fate, LinkSpec, Load, Packet, Rate, SimLink, SpecError, preset_names};

use crate::config::{DEFAULT_MTU_BYTES, Shared, StageConfig, build_shared};
use crate::link::Link;
use crate::random_stream::RandomStream;
use crate::stage::Stage;
use link::read_pattern;

/// The downlink of a walk through a street canyon at 28 GHz in which a bus stops, in the pattern format: 30 s.
///
/// From `wavebed channel street-canyon-bus --seed 1`, and made coarse: the state at the start of each 50 ms, not
/// of each millisecond. Make patterns of your own for anything but a first look.
pub const SAMPLE_DOWN: &str = include_str!("sample-down.csv");

/// The uplink of the same walk.
pub const SAMPLE_UP: &str = include_str!("sample-up.csv");

/// Both directions of one or more hops between a server and a client.
#[derive(Clone, Debug)]
pub struct PathSpec {
    hops: Vec<(LinkSpec, LinkSpec)>,
    mtu_bytes: u32,
}

impl PathSpec {
    /// One hop: the links towards the client and towards the server. The MTU is 1500 bytes.
    #[must_use]
    pub fn new(down: LinkSpec, up: LinkSpec) -> Self {
        Self {
            hops: vec![(down, up)],
            mtu_bytes: DEFAULT_MTU_BYTES,
        }
    }

    /// The path with one more hop at the client's end.
    #[must_use]
    pub fn then(mut self, down: LinkSpec, up: LinkSpec) -> Self {
        self.hops.push((down, up));
        self
    }

    /// The path with this MTU: IP bytes of the largest packet. Packets that are larger are the caller's affair.
    #[must_use]
    pub fn with_mtu(self, mtu_bytes: u32) -> Self {
        Self { mtu_bytes, ..self }
    }

    /// IP bytes of the largest packet.
    #[must_use]
    pub const fn mtu_bytes(&self) -> u32 {
        self.mtu_bytes
    }

    /// Both directions, empty at time 0. The same seed gives the same random decisions as in wavebed's laboratories.
    ///
    /// # Errors
    /// The first value that breaks a rule.
    pub fn build<T: Clone>(&self, seed: u64) -> Result<SimPath<T>, SpecError> {
        let (down, up) = self.links(seed)?;
        Ok(SimPath {
            down: SimLink::of(down),
            up: SimLink::of(up),
            mtu_bytes: self.mtu_bytes,
        })
    }

    /// As [`PathSpec::build`], as the engine has them: the links towards the client and towards the server.
    ///
    /// # Errors
    /// The first value that breaks a rule.
    pub fn links(&self, seed: u64) -> Result<(Link, Link), SpecError> {
        let mut down: Vec<Box<dyn Stage>> = Vec::new();
        let mut up: Vec<Box<dyn Stage>> = Vec::new();
        for (place, (to_client, to_server)) in (0u64..).zip(&self.hops) {
            let mut shared = Shared::default();
            let mut built = |spec: &LinkSpec, link: u64| {
                stages(spec, self.mtu_bytes, (seed, link << 16), &mut shared)
            };
            down.append(&mut built(to_client, 2 * place)?);
            let mut first = built(to_server, 2 * place + 1)?;
            first.append(&mut up);
            up = first;
        }
        Ok((Link::new(down, false), Link::new(up, false)))
    }
}

/// The stages of one direction of a hop; random streams are keyed by `first` and their places.
fn stages(
    spec: &LinkSpec,
    mtu_bytes: u32,
    (seed, first): (u64, u64),
    shared: &mut Shared,
) -> Result<Vec<Box<dyn Stage>>, SpecError> {
    let mut load = |name: &File| spec.pattern(name);
    let build = |(place, stage): (u64, &StageConfig)| {
        let random = RandomStream::new(seed, first + place);
        build_shared(stage, mtu_bytes, random, &mut load, shared)
            .map_err(|error| SpecError::at(place, &error))
    };
    (0..).zip(spec.stages()).map(build).collect()
}

impl<T: Clone> SimLink<T> {
    /// A link that is empty at time 0, with an MTU of 1500 bytes.
    ///
    /// # Errors
    /// The first value of `spec` that breaks a rule.
    pub fn new(spec: &LinkSpec, seed: u64) -> Result<Self, SpecError> {
        Ok(SimPath::new(spec, &LinkSpec::new(), seed)?.down)
    }
}

/// Both directions in virtual time.
#[derive(Debug)]
pub struct SimPath<T> {
    /// Towards the client.
    pub down: SimLink<T>,
    /// Towards the server.
    pub up: SimLink<T>,
    mtu_bytes: u32,
}

impl<T: Clone> SimPath<T> {
    /// One hop, empty at time 0, with an MTU of 1500 bytes.
    ///
    /// # Errors
    /// The first value that breaks a rule.
    pub fn new(down: &LinkSpec, up: &LinkSpec, seed: u64) -> Result<Self, SpecError> {
        PathSpec::new(down.clone(), up.clone()).build(seed)
    }

    /// IP bytes of the largest packet.
    #[must_use]
    pub const fn mtu_bytes(&self) -> u32 {
        self.mtu_bytes
    }

    /// When to poll one of the directions next, if nothing else is offered.
    #[must_use]
    pub fn next_event_ns(&self) -> Option<u64> {
        let both = [self.down.next_event_ns(), self.up.next_event_ns()];
        both.into_iter().flatten().min()
    }
}

/// The path of a trial, as `wavebed resolve SCENARIO -o FILE` writes it, and its seed.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The path.
    pub path: PathSpec,
    /// The seed.
    pub seed: u64,
}

impl Trial {
    /// Reads `text`; `load` reads the pattern files that it names, such as `patterns/….csv` beside the file. A second
    /// radio beside the first is left out.
    ///
    /// # Errors
    /// The first key that is missing, is of another type or breaks a rule.
    pub fn from_json(text: &str, load: &mut Load<'_>) -> Result<Self, SpecError> {
        let file: TrialFile = serde_json::from_str(text)
            .map_err(|error| SpecError::new(format!("a trial of wavebed resolve: {error}")))?;
        let mut read = |name: &File| read_pattern(name, load).map(Arc::new);
        let mut hops = Vec::new();
        for hop in in_a_row(file.network.legs) {
            let down = LinkSpec::of_stages(hop.down, &mut read)?;
            hops.push((down, LinkSpec::of_stages(hop.up, &mut read)?));
        }
        let mtu_bytes = file.network.mtu.unwrap_or(DEFAULT_MTU_BYTES);
        Ok(Self {
            path: PathSpec { hops, mtu_bytes },
            seed: file.seed,
        })
    }
}

/// The hops from the server to the client: a leg that begins where another one does is a second way.
fn in_a_row(legs: Vec<Leg>) -> impl Iterator<Item = Hop> {
    let mut reached: Vec<String> = Vec::new();
    legs.into_iter()
        .filter(move |leg| {
            let is_new = leg.from.is_empty() || !reached.contains(&leg.from);
            reached.push(leg.from.clone());
            is_new
        })
        .flat_map(|leg| leg.hops)
}

#[derive(Deserialize)]
struct TrialFile {
    seed: u64,
    network: Network,
}

#[derive(Deserialize)]
struct Network {
    mtu: Option<u32>,
    legs: Vec<Leg>,
}

#[derive(Deserialize)]
struct Leg {
    #[serde(default)]
    from: String,
    hops: Vec<Hop>,
}

#[derive(Deserialize)]
struct Hop {
    down: Vec<StageConfig>,
    up: Vec<StageConfig>,
}
