//! The specification of a link: its stages with their types, bounds, defaults and documentation, declared once.
//!
//! [`schemars`] makes their JSON Schema, from which the program in Python builds its own types. Its users read the
//! documentation of a field. [`build`] checks the bounds ([`garde`]) and what ties values together. It reads the patterns
//! and builds the stage. See `docs/development/laboratory-file.md`.

mod build;
mod queue;
mod radio;
mod split;
mod wifi;

use std::path::PathBuf;

use garde::Validate;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::bottleneck::Outage;
use crate::bounds::{MAX_OVERHEAD_BYTES, MAX_RATE_BPS, MAX_TIME_NS};
use crate::delay::Shape;
use crate::pattern::End;
use crate::queue::Limit;
use crate::rate::TokenBucket;
use crate::unit::Unit;

pub use wifi::WifiConfig;

pub use build::{DEFAULT_MTU_BYTES, Loader, build, build_shared, remedy};
pub use radio::{RadioKeys, Shared};

const MAX_LIMIT_PACKETS: u64 = 1_000_000_000_000;
const MAX_PACKETS_PER_S: u64 = 1_000_000_000;

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
#[derive(Clone, Debug, Deserialize, JsonSchema, Validate)]
#[garde(allow_unvalidated)]
#[serde(tag = "stage", rename_all = "snake_case", deny_unknown_fields)]
#[schemars(rename = "Stage")]
pub enum StageConfig {
    /// A queue and a server.
    Bottleneck {
        /// The server.
        #[garde(dive)]
        rate: RateConfig,
        /// The queue.
        #[garde(dive)]
        queue: QueueConfig,
        /// Bytes that each wire segment takes beyond its IP bytes.
        #[serde(default)]
        #[garde(range(max = MAX_OVERHEAD_BYTES))]
        overhead_bytes: u32,
        /// The unit of limits and of service.
        #[serde(default)]
        unit: Unit,
        /// Handling of packets at rate zero.
        #[serde(default)]
        outage: Outage,
    },
    /// A delay.
    Delay {
        /// Source of the delays.
        #[garde(dive)]
        delay: DelayConfig,
        /// Whether a segment may overtake one with a longer delay.
        #[serde(default)]
        reorder: bool,
        /// Segments in flight at most; those beyond them are dropped.
        #[serde(default)]
        #[garde(range(min = 1, max = MAX_LIMIT_PACKETS))]
        limit_packets: Option<u64>,
    },
    /// Losses.
    Loss {
        /// Source of the losses.
        #[garde(dive)]
        model: LossConfig,
        /// The unit of loss.
        #[serde(default)]
        unit: Unit,
    },
    /// Copies of wire segments.
    Duplicate {
        /// Probability that a wire segment is copied.
        #[garde(range(min = 0.0, max = 1.0))]
        probability: f64,
    },
    /// Wire segments that are delayed and overtaken.
    Reorder {
        /// Probability that a wire segment is delayed.
        #[garde(range(min = 0.0, max = 1.0))]
        probability: f64,
        /// Its additional delay.
        #[garde(range(max = MAX_TIME_NS))]
        delay_ns: u64,
    },
    /// Bit errors.
    Corrupt {
        /// Probability that a wire segment gets a flipped bit.
        #[garde(range(min = 0.0, max = 1.0))]
        probability: f64,
    },
    /// An NR or LTE link.
    Radio(#[garde(dive)] Box<RadioKeys>),
    /// The MAC of 802.11ad.
    Wifi(#[garde(dive)] WifiConfig),
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
#[derive(Clone, Debug, Deserialize, JsonSchema, Validate)]
#[garde(allow_unvalidated)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
#[schemars(rename = "Rate")]
pub enum RateConfig {
    /// A constant rate.
    Constant {
        /// Bits per second.
        #[garde(range(min = 1, max = MAX_RATE_BPS))]
        rate_bps: u64,
    },
    /// The `rate_bps` of a `steps` pattern.
    Pattern {
        /// The pattern.
        file: PathBuf,
        /// Behaviour after its end.
        #[serde(default)]
        end: End,
        /// Its position at time 0.
        #[serde(default)]
        #[garde(range(max = MAX_TIME_NS))]
        start_ns: u64,
    },
    /// An `opportunities` pattern.
    Opportunities {
        /// The pattern.
        file: PathBuf,
        /// Behaviour after its end.
        #[serde(default)]
        end: End,
        /// Its position at time 0.
        #[serde(default)]
        #[garde(range(max = MAX_TIME_NS))]
        start_ns: u64,
    },
    /// A rate with bursts.
    TokenBucket {
        /// Bits per second.
        #[garde(range(min = 1, max = MAX_RATE_BPS))]
        rate_bps: u64,
        /// Depth of the bucket, which starts full.
        #[garde(range(min = 1, max = TokenBucket::MAX_BURST_BYTES))]
        burst_bytes: u64,
    },
    /// A rate in packets, independent of their size.
    Packets {
        /// Packets per second.
        #[garde(range(min = 1, max = MAX_PACKETS_PER_S))]
        packets_per_s: u64,
    },
    /// netem: the rate at the time of arrival, constant or from a pattern.
    Sampled {
        /// Bits per second.
        #[garde(range(min = 1, max = MAX_RATE_BPS))]
        rate_bps: Option<u64>,
        /// The pattern.
        file: Option<PathBuf>,
        /// Behaviour after its end.
        end: Option<End>,
        /// Its position at time 0.
        #[garde(range(max = MAX_TIME_NS))]
        start_ns: Option<u64>,
    },
}

/// A queue.
#[derive(Clone, Debug, Deserialize, JsonSchema, Validate)]
#[garde(allow_unvalidated)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
#[schemars(rename = "Queue")]
pub enum QueueConfig {
    /// Drops arrivals.
    Droptail {
        /// Its limit.
        #[garde(dive)]
        limit: Limit,
    },
    /// Drops the oldest segments.
    Drophead {
        /// Its limit.
        #[garde(dive)]
        limit: Limit,
    },
    /// Never drops.
    Infinite {},
    /// RFC 8289.
    Codel {
        /// Its limit.
        #[garde(dive)]
        limit: Limit,
        /// Acceptable sojourn time.
        #[serde(default = "default_target_ns")]
        #[garde(range(min = 1, max = MAX_TIME_NS))]
        target_ns: u64,
        /// Window in which it must be met.
        #[serde(default = "default_interval_ns")]
        #[garde(range(min = 1, max = MAX_TIME_NS))]
        interval_ns: u64,
        /// Mark packets with ECN instead of dropping them.
        #[serde(default)]
        ecn: bool,
        /// Sojourn time after which ECT(1) is marked at once; else ECT(1) is as ECT(0).
        #[garde(range(max = MAX_TIME_NS))]
        ce_threshold_ns: Option<u64>,
    },
    /// RFC 8290.
    FqCodel {
        /// The limit of all queues together.
        #[garde(dive)]
        limit: Limit,
        /// Acceptable sojourn time.
        #[serde(default = "default_target_ns")]
        #[garde(range(min = 1, max = MAX_TIME_NS))]
        target_ns: u64,
        /// Window in which it must be met.
        #[serde(default = "default_interval_ns")]
        #[garde(range(min = 1, max = MAX_TIME_NS))]
        interval_ns: u64,
        /// Mark packets with ECN instead of dropping them.
        #[serde(default = "default_fq_ecn")]
        ecn: bool,
        /// Sojourn time after which ECT(1) is marked at once; else ECT(1) is as ECT(0).
        #[garde(range(max = MAX_TIME_NS))]
        ce_threshold_ns: Option<u64>,
        /// Queues.
        #[serde(default = "default_flows")]
        #[garde(range(min = 1, max = 65_536))]
        flows: u32,
        /// Bytes of each queue per round.
        #[serde(default = "default_quantum_bytes")]
        #[garde(range(min = 1))]
        quantum_bytes: u32,
    },
    /// RFC 9332.
    #[serde(rename = "dualpi2")]
    DualPi2 {
        /// The limit of both queues together.
        #[garde(dive)]
        limit: Limit,
        /// Delay of the classic queue.
        #[serde(default = "default_pi2_target_ns")]
        #[garde(range(min = 1, max = MAX_TIME_NS))]
        target_ns: u64,
        /// Longest usual round trip.
        #[serde(default = "default_rtt_max_ns")]
        #[garde(range(min = 1, max = MAX_TIME_NS))]
        rtt_max_ns: u64,
        /// Coupling factor k.
        #[serde(default = "default_coupling")]
        #[garde(range(min = 0.5, max = 16.0))]
        coupling: f64,
        /// Delay after which ECT(1) is marked.
        #[serde(default = "default_threshold_ns")]
        #[garde(range(max = MAX_TIME_NS))]
        threshold_ns: u64,
        /// From there to the delay at which all are marked.
        #[serde(default = "default_range_ns")]
        #[garde(range(max = MAX_TIME_NS))]
        range_ns: u64,
        /// Predict delays from the rate during this time, in place of measuring them.
        #[garde(range(min = 1, max = MAX_TIME_NS))]
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
#[derive(Clone, Debug, Deserialize, JsonSchema, Validate)]
#[garde(allow_unvalidated)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
#[schemars(rename = "Delay")]
pub enum DelayConfig {
    /// A constant delay.
    Constant {
        /// The delay.
        #[garde(range(max = MAX_TIME_NS))]
        delay_ns: u64,
    },
    /// The `delay_s` of a pattern.
    Pattern {
        /// The pattern, `steps` or `packets`.
        file: PathBuf,
        /// Behaviour after its end.
        #[serde(default)]
        end: End,
        /// Its position at time 0, nanoseconds.
        #[serde(default)]
        #[garde(range(max = MAX_TIME_NS))]
        start_ns: u64,
    },
    /// Drawn for each wire segment.
    Distribution {
        /// Its shape.
        shape: Shape,
        /// The mean.
        #[garde(range(max = MAX_TIME_NS))]
        mean_ns: u64,
        /// One unit of the shape.
        #[garde(range(max = MAX_TIME_NS))]
        spread_ns: u64,
        /// Correlation between neighbours.
        #[serde(default)]
        #[garde(range(min = 0.0, max = 1.0))]
        correlation: f64,
    },
}

/// Source of the losses.
#[derive(Clone, Debug, Deserialize, JsonSchema, Validate)]
#[garde(allow_unvalidated)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
#[schemars(rename = "Loss")]
pub enum LossConfig {
    /// Independent losses.
    Independent {
        /// Probability of loss.
        #[garde(range(min = 0.0, max = 1.0))]
        probability: f64,
    },
    /// Two states.
    GilbertElliott {
        /// From good to bad.
        #[garde(range(min = 0.0, max = 1.0))]
        p: f64,
        /// From bad to good.
        #[garde(range(min = 0.0, max = 1.0))]
        r: f64,
        /// Probability of loss in the good state.
        #[serde(default)]
        #[garde(range(min = 0.0, max = 1.0))]
        good_loss: f64,
        /// Probability of loss in the bad state.
        #[serde(default = "default_bad_loss")]
        #[garde(range(min = 0.0, max = 1.0))]
        bad_loss: f64,
    },
    /// Four states, as netem's.
    FourState {
        /// From state 1 to 3.
        #[garde(range(min = 0.0, max = 1.0))]
        p13: f64,
        /// From state 3 to 1.
        #[garde(range(min = 0.0, max = 1.0))]
        p31: f64,
        /// From state 2 to 3.
        #[garde(range(min = 0.0, max = 1.0))]
        p23: f64,
        /// From state 3 to 2.
        #[garde(range(min = 0.0, max = 1.0))]
        p32: f64,
        /// From state 1 to 4.
        #[garde(range(min = 0.0, max = 1.0))]
        p14: f64,
    },
    /// The `loss` of a pattern.
    Pattern {
        /// The pattern, `steps` or `packets`.
        file: PathBuf,
        /// Behaviour after its end.
        #[serde(default)]
        end: End,
        /// Its position at time 0, nanoseconds.
        #[serde(default)]
        #[garde(range(max = MAX_TIME_NS))]
        start_ns: u64,
    },
}

const fn default_bad_loss() -> f64 {
    1.0
}
