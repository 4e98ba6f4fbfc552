//! The stages of a link in the laboratory file.
//!
//! See `docs/development/laboratory-file.md`. The parser checks names and types; [`build`] checks values, reads the
//! patterns and builds the stage.

mod build;
mod queue;
mod radio;
mod split;
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
        /// The unit of limits and of service.
        #[serde(default, with = "UnitName")]
        unit: Unit,
        /// Handling of packets at rate zero.
        #[serde(default)]
        outage: Outage,
    },
    /// A delay.
    Delay {
        /// Source of the delays.
        delay: DelayConfig,
        /// Whether a segment may overtake one with a longer delay.
        #[serde(default)]
        reorder: bool,
        /// Segments in flight at most; those beyond them are dropped.
        #[serde(default)]
        limit_packets: Option<u64>,
    },
    /// Losses.
    Loss {
        /// Source of the losses.
        model: LossConfig,
        /// The unit of loss.
        #[serde(default, with = "UnitName")]
        unit: Unit,
    },
    /// Copies of wire segments.
    Duplicate {
        /// Probability that a wire segment is copied, 0 to 1.
        probability: f64,
    },
    /// Wire segments that are delayed and overtaken.
    Reorder {
        /// Probability that a wire segment is delayed, 0 to 1.
        probability: f64,
        /// Its additional delay, nanoseconds.
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

impl StageConfig {
    /// The limit of the stage's queue; `None` without one.
    #[must_use]
    pub fn limit(&self) -> Option<Limit> {
        self.served()?.1.limit()
    }

    /// The rate at which the stage empties its queue, bits per second, if it is constant.
    #[must_use]
    pub fn constant_rate_bps(&self) -> Option<u64> {
        match self.served()?.0 {
            RateConfig::Constant { rate_bps } | RateConfig::TokenBucket { rate_bps, .. } => {
                Some(*rate_bps)
            }
            RateConfig::Sampled { rate_bps, .. } => *rate_bps,
            RateConfig::Pattern { .. }
            | RateConfig::Opportunities { .. }
            | RateConfig::Packets { .. } => None,
        }
    }

    fn served(&self) -> Option<(&RateConfig, &QueueConfig)> {
        match self {
            Self::Bottleneck { rate, queue, .. } => Some((rate, queue)),
            Self::Radio(keys) => Some(keys.served()),
            Self::Wifi(config) => Some((&config.rate, &config.queue)),
            _ => None,
        }
    }
}

/// A server.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum RateConfig {
    /// A constant rate.
    Constant {
        /// Bits per second, more than 0.
        rate_bps: u64,
    },
    /// The `rate_bps` of a `steps` pattern.
    Pattern {
        /// The pattern.
        file: PathBuf,
        /// Behaviour after its end.
        #[serde(default)]
        end: End,
        /// Its position at time 0, nanoseconds.
        #[serde(default)]
        start_ns: u64,
    },
    /// An `opportunities` pattern.
    Opportunities {
        /// The pattern.
        file: PathBuf,
        /// Behaviour after its end.
        #[serde(default)]
        end: End,
        /// Its position at time 0, nanoseconds.
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
    /// A rate in packets, independent of their size.
    Packets {
        /// Packets per second, more than 0.
        packets_per_s: u64,
    },
    /// netem: the rate at the time of arrival, constant or from a pattern.
    Sampled {
        /// Bits per second, more than 0.
        rate_bps: Option<u64>,
        /// The pattern.
        file: Option<PathBuf>,
        /// Behaviour after its end.
        end: Option<End>,
        /// Its position at time 0, nanoseconds.
        start_ns: Option<u64>,
    },
}

/// A queue.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum QueueConfig {
    /// Drops arrivals.
    Droptail {
        /// Its limit.
        limit: Limit,
    },
    /// Drops the oldest segments.
    Drophead {
        /// Its limit.
        limit: Limit,
    },
    /// Never drops.
    Infinite {},
    /// RFC 8289.
    Codel {
        /// Its limit.
        limit: Limit,
        /// Acceptable standing delay, nanoseconds.
        #[serde(default = "default_target_ns")]
        target_ns: u64,
        /// Time that it must last, nanoseconds.
        #[serde(default = "default_interval_ns")]
        interval_ns: u64,
        /// Whether to mark ECN-capable segments instead of dropping them.
        #[serde(default)]
        ecn: bool,
        /// Sojourn time after which ECT(1) is marked, nanoseconds; it is then left out of the control law.
        ce_threshold_ns: Option<u64>,
    },
    /// RFC 8290.
    FqCodel {
        /// The limit of all queues together.
        limit: Limit,
        /// Acceptable standing delay, nanoseconds.
        #[serde(default = "default_target_ns")]
        target_ns: u64,
        /// Time that it must last, nanoseconds.
        #[serde(default = "default_interval_ns")]
        interval_ns: u64,
        /// Whether to mark ECN-capable segments instead of dropping them.
        #[serde(default = "default_fq_ecn")]
        ecn: bool,
        /// Sojourn time after which ECT(1) is marked, nanoseconds; it is then left out of the control law.
        ce_threshold_ns: Option<u64>,
        /// Number of queues.
        #[serde(default = "default_flows")]
        flows: u32,
        /// Quantum, bytes.
        #[serde(default = "default_quantum_bytes")]
        quantum_bytes: u32,
    },
    /// RFC 9332.
    #[serde(rename = "dualpi2")]
    DualPi2 {
        /// The limit of both queues together.
        limit: Limit,
        /// Delay that the controller aims at, nanoseconds.
        #[serde(default = "default_pi2_target_ns")]
        target_ns: u64,
        /// Longest usual round trip, nanoseconds.
        #[serde(default = "default_rtt_max_ns")]
        rtt_max_ns: u64,
        /// The coupling factor.
        #[serde(default = "default_coupling")]
        coupling: f64,
        /// Delay above which L4S packets are marked, nanoseconds.
        #[serde(default = "default_threshold_ns")]
        threshold_ns: u64,
        /// From that delay to the one at which all are marked, nanoseconds.
        #[serde(default = "default_range_ns")]
        range_ns: u64,
        /// Delays are predicted from the rate during this time, nanoseconds; without it they are measured.
        predict_ns: Option<u64>,
    },
}

impl QueueConfig {
    const fn limit(&self) -> Option<Limit> {
        match self {
            Self::Droptail { limit }
            | Self::Drophead { limit }
            | Self::Codel { limit, .. }
            | Self::FqCodel { limit, .. }
            | Self::DualPi2 { limit, .. } => Some(*limit),
            Self::Infinite {} => None,
        }
    }
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

const fn default_pi2_target_ns() -> u64 {
    15_000_000
}

const fn default_rtt_max_ns() -> u64 {
    100_000_000
}

const fn default_coupling() -> f64 {
    2.0
}

const fn default_threshold_ns() -> u64 {
    800_000
}

const fn default_range_ns() -> u64 {
    400_000
}

/// Source of the delays.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum DelayConfig {
    /// A constant delay.
    Constant {
        /// Nanoseconds.
        delay_ns: u64,
    },
    /// The `delay_s` of a pattern.
    Pattern {
        /// The pattern, `steps` or `packets`.
        file: PathBuf,
        /// Behaviour after its end.
        #[serde(default)]
        end: End,
        /// Its position at time 0, nanoseconds; 0 for a `packets` pattern.
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

/// Source of the losses.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum LossConfig {
    /// Independent losses.
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
        /// Behaviour after its end.
        #[serde(default)]
        end: End,
        /// Its position at time 0, nanoseconds; 0 for a `packets` pattern.
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
