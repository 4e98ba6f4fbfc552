//! What the stages share in a link's configuration: servers, queues, delays, losses, bounds, and their errors.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use garde::Validate;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::delay::Shape;
use crate::pattern::{End, Kind, Pattern};
use crate::queue::{
    Codel, CodelSettings, DelayEstimate, DropHead, DropTail, DualPi2, DualPi2Settings, FqCodel,
    FqCodelSettings, Infinite, Limit, Queue,
};
use crate::random_stream::RandomStream;
use crate::rate::TokenBucket;
use crate::stage::{MAX_RATE_BPS, MAX_TIME_NS, Unit};

pub(super) const MAX_LIMIT_PACKETS: u64 = 1_000_000_000_000;
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
    pub(super) const fn limit(&self) -> Option<Limit> {
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

/// Reads a pattern file. The error is one line that names the file, the line and the rule.
pub type Loader<'a> = dyn FnMut(&Path) -> Result<Arc<Pattern>, String> + 'a;

pub(super) fn fail<T>(key: &str, message: impl Into<String>) -> Result<T, ConfigError> {
    Err(ConfigError {
        key: key.to_owned(),
        message: message.into(),
    })
}

/// Checks the bounds of every value of `config`.
///
/// # Errors
/// The first value beyond its bound, by its key, and what to write in its place.
pub fn check_bounds(config: &impl Validate<Context = ()>) -> Result<(), ConfigError> {
    let Err(report) = config.validate() else {
        return Ok(());
    };
    let Some((path, error)) = report.iter().next() else {
        return Ok(());
    };
    let path = path.to_string();
    // A variant that holds a value has a nameless place for it: a stage at the start, a limit at the end.
    let key = path.strip_prefix("[0].").unwrap_or(&path);
    let key = key.strip_suffix("[0]").unwrap_or(key);
    fail(key, remedy(error.message()))
}

/// What to write in place of a value; `broken` is the message of [`garde`].
fn remedy(broken: &str) -> String {
    let (unit, bound) = broken
        .strip_prefix("length is ")
        .map_or(("", broken), |bound| (" of them", bound));
    if let Some(least) = bound.strip_prefix("lower than ") {
        return format!("use at least {least}{unit}");
    }
    bound.strip_prefix("greater than ").map_or_else(
        || broken.to_owned(),
        |most| format!("use at most {most}{unit}"),
    )
}

/// Refuses NaN: a program may pass it, and no range check refuses it.
pub(super) fn number(key: &str, value: f64) -> Result<f64, ConfigError> {
    if value.is_nan() {
        return fail(key, "is not a number");
    }
    Ok(value)
}

/// Loads a pattern and checks its start position.
pub(super) fn load(
    key: &str,
    file: &Path,
    start_ns: u64,
    loader: &mut Loader<'_>,
) -> Result<Arc<Pattern>, ConfigError> {
    let pattern = loader(file).or_else(|message| fail(&format!("{key}.file"), message))?;
    let start_key = format!("{key}.start_ns");
    if pattern.kind() == Kind::Packets && start_ns > 0 {
        return fail(
            &start_key,
            "does not fit a pattern of kind packets, which has no times: remove it",
        );
    }
    if pattern.kind() != Kind::Packets && start_ns >= pattern.period() {
        let period = pattern.period();
        return fail(
            &start_key,
            format!("is {start_ns}: use less than the pattern's duration, {period}"),
        );
    }
    Ok(pattern)
}

/// The error for a pattern without the columns that the stage needs.
pub(super) fn lacks<T>(key: &str, file: &Path, found: Kind, needs: &str) -> Result<T, ConfigError> {
    let found = found.name();
    fail(
        &format!("{key}.file"),
        format!(
            "{}: this pattern of kind {found} cannot be used here: use {needs}",
            file.display()
        ),
    )
}

/// Builds a queue.
pub(super) fn queue_of(
    config: &QueueConfig,
    unit: Unit,
    mtu_bytes: u32,
    random: RandomStream,
) -> Result<Box<dyn Queue>, ConfigError> {
    Ok(match config {
        QueueConfig::Droptail { limit } => Box::new(DropTail::new(*limit, unit)),
        QueueConfig::Drophead { limit } => Box::new(DropHead::new(*limit, unit)),
        QueueConfig::Infinite {} => Box::new(Infinite::new(unit)),
        QueueConfig::Codel {
            limit,
            target_ns,
            interval_ns,
            ecn,
            ce_threshold_ns,
        } => {
            let settings = codel(*target_ns, *interval_ns, *ecn, *ce_threshold_ns, mtu_bytes)?;
            Box::new(Codel::new(settings, *limit, unit))
        }
        QueueConfig::FqCodel {
            limit,
            target_ns,
            interval_ns,
            ecn,
            ce_threshold_ns,
            flows,
            quantum_bytes,
        } => {
            let codel = codel(*target_ns, *interval_ns, *ecn, *ce_threshold_ns, mtu_bytes)?;
            let settings = FqCodelSettings {
                codel,
                flows: *flows,
                quantum_bytes: *quantum_bytes,
            };
            Box::new(FqCodel::new(settings, *limit, unit, random))
        }
        QueueConfig::DualPi2 {
            limit,
            target_ns,
            rtt_max_ns,
            coupling,
            threshold_ns,
            range_ns,
            predict_ns,
        } => {
            let settings = DualPi2Settings {
                target_ns: *target_ns,
                rtt_max_ns: *rtt_max_ns,
                coupling: *coupling,
                threshold_ns: *threshold_ns,
                range_ns: *range_ns,
                delay: predict_ns.map_or(DelayEstimate::Measured, DelayEstimate::Predicted),
            };
            Box::new(DualPi2::new(settings, *limit, unit))
        }
    })
}

fn codel(
    target_ns: u64,
    interval_ns: u64,
    ecn: bool,
    ce_threshold_ns: Option<u64>,
    mtu_bytes: u32,
) -> Result<CodelSettings, ConfigError> {
    if interval_ns < target_ns {
        return fail(
            "queue.interval_ns",
            format!(
                "is {interval_ns}, less than target_ns {target_ns}: use more, usually 20 times target_ns"
            ),
        );
    }
    if ce_threshold_ns.is_some() && !ecn {
        return fail(
            "queue.ce_threshold_ns",
            "requires ecn, which is false: remove it, or set ecn to true",
        );
    }
    Ok(CodelSettings {
        target_ns,
        interval_ns,
        ecn,
        ce_threshold_ns,
        mtu_bytes,
    })
}
