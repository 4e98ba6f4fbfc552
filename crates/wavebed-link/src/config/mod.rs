//! The stages of a link as the laboratory file writes them.
//!
//! See `docs/development/laboratory-file.md`. Reading checks names and types; [`build`] checks values, reads the
//! patterns and makes the stage.

mod build;
mod radio;
mod wifi;

use std::path::PathBuf;

use serde::Deserialize;

use crate::bottleneck::Outage;
use crate::delay::Shape;
use crate::pattern::End;
use crate::queue::Limit;
use crate::unit::Unit;

pub use wifi::WifiConfig;

pub use build::{DEFAULT_MTU_BYTES, Loader, build, build_shared};
pub use radio::{RadioKeys, Shared};

/// A value that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {message}")]
pub struct ConfigError {
    /// The key within the stage, parts separated by points: `queue.limit.packets`.
    pub key: String,
    /// The rule and the remedy.
    pub message: String,
}

/// One stage of a link.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "stage", rename_all = "snake_case", deny_unknown_fields)]
pub enum StageConfig {
    /// A queue and a server.
    Bottleneck {
        /// The server.
        rate: RateConfig,
        /// The queue.
        queue: QueueConfig,
        /// Bytes that each wire segment takes beyond its IP bytes.
        #[serde(default)]
        overhead_bytes: u32,
        /// What limits count and what is served as a whole.
        #[serde(default, with = "UnitName")]
        unit: Unit,
        /// What happens at rate zero.
        #[serde(default)]
        outage: Outage,
    },
    /// A delay.
    Delay {
        /// Where delays come from.
        delay: DelayConfig,
        /// Whether a segment may overtake one with a longer delay.
        #[serde(default)]
        reorder: bool,
    },
    /// Losses.
    Loss {
        /// Where losses come from.
        model: LossConfig,
        /// What is lost as a whole.
        #[serde(default, with = "UnitName")]
        unit: Unit,
    },
    /// Copies of wire segments.
    Duplicate {
        /// Probability that a wire segment is copied, 0 to 1.
        probability: f64,
    },
    /// Wire segments that are held back and overtaken.
    Reorder {
        /// Probability that a wire segment is held back, 0 to 1.
        probability: f64,
        /// For how long, nanoseconds.
        delay_ns: u64,
    },
    /// Bit errors.
    Corrupt {
        /// Probability that a wire segment gets a flipped bit, 0 to 1.
        probability: f64,
    },
    /// An NR or LTE link.
    Radio(Box<RadioKeys>),
    /// The MAC of 802.11ad.
    Wifi(WifiConfig),
}

/// A server.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum RateConfig {
    /// Always the same rate.
    Constant {
        /// Bits per second, more than 0.
        rate_bps: u64,
    },
    /// The `rate_bps` of a `steps` pattern.
    Pattern {
        /// The pattern.
        file: PathBuf,
        /// What follows after it.
        #[serde(default)]
        end: End,
        /// Where in it to begin, nanoseconds.
        #[serde(default)]
        start_ns: u64,
    },
    /// An `opportunities` pattern.
    Opportunities {
        /// The pattern.
        file: PathBuf,
        /// What follows after it.
        #[serde(default)]
        end: End,
        /// Where in it to begin, nanoseconds.
        #[serde(default)]
        start_ns: u64,
    },
    /// A rate with bursts.
    TokenBucket {
        /// Bits per second, more than 0.
        rate_bps: u64,
        /// Depth of the bucket, bytes.
        burst_bytes: u64,
    },
    /// So many packets, whatever their size.
    Packets {
        /// Packets per second, more than 0.
        packets_per_s: u64,
    },
    /// The rate of the moment of arrival, constant or from a pattern.
    Sampled {
        /// Bits per second, more than 0.
        rate_bps: Option<u64>,
        /// The pattern.
        file: Option<PathBuf>,
        /// What follows after it.
        end: Option<End>,
        /// Where in it to begin, nanoseconds.
        start_ns: Option<u64>,
    },
}

/// A queue.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum QueueConfig {
    /// Drops arrivals.
    Droptail {
        /// How much it holds.
        limit: Limit,
    },
    /// Drops what has waited longest.
    Drophead {
        /// How much it holds.
        limit: Limit,
    },
    /// Never drops.
    Infinite {},
    /// RFC 8289.
    Codel {
        /// How much it holds.
        limit: Limit,
        /// Acceptable standing delay, nanoseconds.
        #[serde(default = "default_target_ns")]
        target_ns: u64,
        /// How long it must last, nanoseconds.
        #[serde(default = "default_interval_ns")]
        interval_ns: u64,
        /// Whether to mark instead of dropping.
        #[serde(default)]
        ecn: bool,
    },
    /// RFC 8290.
    FqCodel {
        /// How much all queues hold together.
        limit: Limit,
        /// Acceptable standing delay, nanoseconds.
        #[serde(default = "default_target_ns")]
        target_ns: u64,
        /// How long it must last, nanoseconds.
        #[serde(default = "default_interval_ns")]
        interval_ns: u64,
        /// Whether to mark instead of dropping.
        #[serde(default = "default_fq_ecn")]
        ecn: bool,
        /// How many queues.
        #[serde(default = "default_flows")]
        flows: u32,
        /// Bytes of a turn.
        #[serde(default = "default_quantum_bytes")]
        quantum_bytes: u32,
    },
}

const fn default_target_ns() -> u64 {
    5_000_000
}

const fn default_interval_ns() -> u64 {
    100_000_000
}

const fn default_fq_ecn() -> bool {
    true
}

const fn default_flows() -> u32 {
    1024
}

const fn default_quantum_bytes() -> u32 {
    1514
}

/// Where delays come from.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum DelayConfig {
    /// Always the same delay.
    Constant {
        /// Nanoseconds.
        delay_ns: u64,
    },
    /// The `delay_s` of a pattern.
    Pattern {
        /// The pattern, `steps` or `packets`.
        file: PathBuf,
        /// What follows after it.
        #[serde(default)]
        end: End,
        /// Where in it to begin, nanoseconds; 0 for a `packets` pattern.
        #[serde(default)]
        start_ns: u64,
    },
    /// Drawn for each wire segment.
    Distribution {
        /// The shape.
        #[serde(with = "ShapeName")]
        shape: Shape,
        /// The mean, nanoseconds.
        mean_ns: u64,
        /// One unit of the shape, nanoseconds.
        spread_ns: u64,
        /// Correlation between neighbours, 0 to 1.
        #[serde(default)]
        correlation: f64,
    },
}

/// Where losses come from.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum LossConfig {
    /// Each by itself.
    Independent {
        /// Probability of loss, 0 to 1.
        probability: f64,
    },
    /// Two states.
    GilbertElliott {
        /// From good to bad.
        p: f64,
        /// From bad to good.
        r: f64,
        /// Probability of loss in the good state.
        #[serde(default)]
        good_loss: f64,
        /// Probability of loss in the bad state.
        #[serde(default = "default_bad_loss")]
        bad_loss: f64,
    },
    /// Four states, as netem's.
    FourState {
        /// From state 1 to 3.
        p13: f64,
        /// From state 3 to 1.
        p31: f64,
        /// From state 2 to 3.
        p23: f64,
        /// From state 3 to 2.
        p32: f64,
        /// From state 1 to 4.
        p14: f64,
    },
    /// The `loss` of a pattern.
    Pattern {
        /// The pattern, `steps` or `packets`.
        file: PathBuf,
        /// What follows after it.
        #[serde(default)]
        end: End,
        /// Where in it to begin, nanoseconds; 0 for a `packets` pattern.
        #[serde(default)]
        start_ns: u64,
    },
}

const fn default_bad_loss() -> f64 {
    1.0
}

/// The names of [`Unit`].
#[derive(Deserialize)]
#[serde(remote = "Unit", rename_all = "lowercase")]
enum UnitName {
    Packet,
    Superpacket,
}

/// The names of [`Shape`].
#[derive(Deserialize)]
#[serde(remote = "Shape", rename_all = "lowercase")]
enum ShapeName {
    Uniform,
    Normal,
    Pareto,
    ParetoNormal,
}
